import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import DictionaryLearning
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from fwnet import LpBall, LpDictionaryLearning, solve
from fwnet.coding import UnidentifiedWarning
from fwnet.coding.ball_search import held_out_errors
from fwnet.coding.exponent_search import search_exponent


def planted(count, n=12, m=20, p=1.0, radius=3.0, noise=0.05, nonzeros=None, seed=0):
    """Rows made of codes in an Lp ball, dense or with few nonzeros, and unit-norm atoms."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((m, n))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.standard_normal((count, m))
    if nonzeros is not None:
        codes[np.argsort(rng.random((count, m)), axis=1) >= nonzeros] = 0.0
    codes *= radius / np.linalg.norm(codes, ord=p, axis=1, keepdims=True)
    return codes @ atoms + noise * rng.standard_normal((count, n)), atoms


def mean_error(x, atoms, p, radius):
    signals, dictionary = torch.tensor(x), torch.tensor(atoms.T.copy())
    code = solve(signals, dictionary, LpBall(p, radius)).code
    return 0.5 * (signals - code @ dictionary.T).square().sum(-1).mean().item()


@parametrize_with_checks(
    [
        LpDictionaryLearning(n_components=3, p=1.3, radius=300.0, batch_size=7, max_iter=2),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    p=st.sampled_from([1.0, 1.02, 1.3, 1.5, 2.0, 3.0, np.inf]),
    radius=st.floats(0.1, 10.0),
    m=st.integers(1, 9),
)
def test_with_all_samples_at_once_the_error_never_rises(seed, p, radius, m):
    x = np.random.default_rng(seed).standard_normal((25, 4))
    model = LpDictionaryLearning(m, p=p, radius=radius, max_iter=6, tol=0.0, random_state=seed)
    errors = model.fit(x).reconstruction_err_
    energy = 0.5 * (x**2).sum(1).mean()
    assert errors[0] <= energy * (1 + 1e-12)
    assert all(after <= before + 1e-12 * energy for before, after in pairwise(errors))
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_a_planted_dictionary_is_found(p):
    x, atoms = planted(800, p=p, nonzeros=2, noise=0.01)
    model = LpDictionaryLearning(20, p=p, radius=3.0, random_state=0, tol=1e-4).fit(x)
    assert mean_error(x, model.components_, p, 3.0) < 1.2 * mean_error(x, atoms, p, 3.0) + 1e-3
    in_batches = LpDictionaryLearning(20, p=p, radius=3.0, batch_size=100, random_state=0)
    in_batches.set_params(max_iter=15).fit(x)
    error = 0.5 * (x**2).sum(1).mean()
    assert mean_error(x, in_batches.components_, p, 3.0) < 0.02 * error
    assert in_batches.n_steps_ == 8 * in_batches.n_iter_
    assert len(in_batches.reconstruction_err_) == in_batches.n_steps_


def test_at_p_1_it_is_as_good_as_scikit_learn():
    """At the mean L1 norm of scikit-learn's codes, on its own data."""
    digits = load_digits().data[:300] / 16
    digits -= digits.mean(1, keepdims=True)
    digits /= np.linalg.norm(digits, axis=1, keepdims=True)
    theirs = DictionaryLearning(
        20, alpha=0.1, max_iter=20, fit_algorithm="cd", transform_algorithm="lasso_cd",
        transform_alpha=0.1, random_state=0,
    ).fit(digits)  # fmt: skip
    radius = np.abs(theirs.transform(digits)).sum(1).mean()
    ours = LpDictionaryLearning(20, p=1.0, radius=radius, max_iter=30, random_state=0).fit(digits)
    reached, target = (
        mean_error(digits, model.components_, 1.0, radius) for model in (ours, theirs)
    )
    assert reached < 1.02 * target


def test_codes_are_certified_and_rebuild(tmp_path):
    x, _ = planted(200)
    model = LpDictionaryLearning(20, p=1.5, radius=2.0, max_iter=5, random_state=0).fit(x)
    codes = model.transform(x)
    assert codes.shape == (200, 20)
    assert np.linalg.norm(codes, ord=1.5, axis=1).max() <= 2.0 * (1 + 1e-9)
    solution = solve(torch.tensor(x), torch.tensor(model.components_.T.copy()), LpBall(1.5, 2.0))
    np.testing.assert_allclose(codes, solution.code.numpy(), atol=1e-9)
    np.testing.assert_array_equal(model.inverse_transform(codes), codes @ model.components_)
    assert list(model.get_feature_names_out())[:2] == [
        "lpdictionarylearning0",
        "lpdictionarylearning1",
    ]
    assert model.p_ == 1.5
    assert model.n_features_in_ == 12


def test_a_saved_model_is_the_same_and_goes_on(tmp_path):
    x, _ = planted(300)
    model = LpDictionaryLearning(20, p=1.5, radius=2.0, max_iter=3, random_state=0).fit(x)
    model.save(tmp_path / "model.safetensors")
    loaded = LpDictionaryLearning.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.reconstruction_err_ == model.reconstruction_err_
    np.testing.assert_array_equal(loaded.transform(x), model.transform(x))
    for one in (model, loaded):
        one.partial_fit(x[:50])
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_seeds_decide():
    x, _ = planted(100)
    one, two, three = (
        LpDictionaryLearning(8, max_iter=3, batch_size=30, random_state=seed).fit(x)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.components_, two.components_)
    assert not np.array_equal(one.components_, three.components_)
    again = clone(one).fit(x)
    np.testing.assert_array_equal(again.components_, one.components_)
    np.testing.assert_array_equal(copy.deepcopy(one).transform(x), one.transform(x))


@pytest.mark.parametrize(
    ("dtype", "batch_size"), [(torch.float32, None), (torch.float64, None), (torch.float32, 40)]
)
def test_tensors_and_precision(dtype, batch_size):
    x = torch.tensor(planted(120)[0], dtype=dtype)
    options = {"max_iter": 3, "batch_size": batch_size, "random_state": 0, "device": "cpu"}
    model = LpDictionaryLearning(8, radius=2.0, **options).fit(x)
    assert torch.from_numpy(model.components_).dtype == dtype
    codes = model.transform(x)
    assert isinstance(codes, torch.Tensor)
    assert codes.dtype == dtype
    same = LpDictionaryLearning(8, radius=2.0, **options).fit(x.numpy())
    np.testing.assert_array_equal(same.components_, model.components_)
    if batch_size is None:
        errors = model.reconstruction_err_
        assert all(after <= before * (1 + 1e-5) for before, after in pairwise(errors))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    x, _ = planted(2000)
    for p in (1.0, 1.5):
        model = LpDictionaryLearning(20, p=p, radius=2.0, device="cuda", random_state=0).fit(x)
        on_cpu = LpDictionaryLearning(20, p=p, radius=2.0, device="cpu", random_state=0).fit(x)
        assert model.reconstruction_err_[-1] < 1.05 * on_cpu.reconstruction_err_[-1]


def test_warm_start_and_a_dictionary_to_begin_with():
    x, atoms = planted(300, nonzeros=2, noise=0.01)
    model = LpDictionaryLearning(20, p=1.0, radius=3.0, max_iter=2, tol=0.0, random_state=0)
    cold = model.fit(x).reconstruction_err_
    warm = model.set_params(warm_start=True).fit(x).reconstruction_err_
    assert warm[0] < cold[-1]
    told = LpDictionaryLearning(p=1.0, radius=3.0, dictionary=3 * atoms, max_iter=1).fit(x)
    assert told.reconstruction_err_[0] < 0.5 * cold[0]
    assert (np.abs((told.components_ * atoms).sum(1)) > 0.9).all()


def test_it_stops_when_nothing_is_gained():
    x, _ = planted(100)
    for batch_size in (None, 50):
        model = LpDictionaryLearning(4, tol=0.5, batch_size=batch_size, random_state=0).fit(x)
        assert model.n_iter_ <= 3


def test_the_unit_of_the_samples_does_not_decide_when_it_stops():
    x, _ = planted(100)
    passes = [
        LpDictionaryLearning(4, radius=2.0 * unit, random_state=0).fit(unit * x).n_iter_
        for unit in (1.0, 2.0**-12)
    ]
    assert passes[0] == passes[1] > 1


def test_partial_fit_learns_from_a_stream():
    x, _ = planted(2000, nonzeros=2, noise=0.01)
    model = LpDictionaryLearning(20, p=1.0, radius=3.0, random_state=0)
    for batch in np.split(x, 20):
        model.partial_fit(batch)
    assert model.n_steps_ == model.n_iter_ == len(model.reconstruction_err_) == 20
    assert model.reconstruction_err_[-1] < 0.25 * model.reconstruction_err_[0]
    with pytest.raises(ValueError, match="X has 3 features, but LpDictionaryLearning is expecting"):
        model.partial_fit(np.ones((5, 3)))


def test_unused_atoms_are_replaced():
    x, _ = planted(200, nonzeros=2)
    useless = np.zeros((20, 12))
    useless[:, 0] = 1.0  # all the same: one of them does the work of all
    for batch_size in (None, 50):
        model = LpDictionaryLearning(20, p=1.0, radius=3.0, dictionary=useless, max_iter=20)
        model.set_params(batch_size=batch_size, random_state=0).fit(x)
        assert np.linalg.matrix_rank(model.components_, tol=1e-3) == 12
        assert model.reconstruction_err_[-1] < 0.3 * model.reconstruction_err_[0]


def test_the_callback_hears_and_can_stop():
    x, _ = planted(100)
    for batch_size in (None, 25):
        heard = []

        def callback(progress, heard=heard):
            heard.append(progress)
            return progress.step == 2

        model = LpDictionaryLearning(8, tol=0.0, batch_size=batch_size, random_state=0)
        model.fit(x, callback=callback)
        assert [progress.step for progress in heard] == [1, 2]
        assert [progress.error for progress in heard] == model.reconstruction_err_
        assert heard[0].num_steps == (100 if batch_size is None else 400)
        assert heard[0].p == 1.5


def test_works_in_pipelines_and_searches():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:300] / 16, labels[:300]
    pipeline = make_pipeline(
        LpDictionaryLearning(20, max_iter=5, random_state=0), LogisticRegression(C=10.0)
    )
    search = GridSearchCV(
        pipeline,
        {"lpdictionarylearning__p": [1.2, 2.0], "lpdictionarylearning__radius": [3.0]},
        cv=3,
        error_score="raise",
    )
    search.fit(digits, labels)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert search.best_score_ > 0.8


@pytest.mark.filterwarnings("ignore::fwnet.coding.UnidentifiedWarning")
class TestUnknownExponent:
    def test_reconstruction_never_loses_by_a_larger_p_but_prediction_does(self):
        x, atoms = planted(300, nonzeros=2, noise=0.02)
        signals, dictionary = torch.tensor(x), torch.tensor(atoms)
        folds = torch.arange(12) % 4
        exponents = (1.0, 1.2, 1.5, 2.0, 4.0)
        held_out = [
            held_out_errors(signals, dictionary.T, LpBall(p, 3.0), folds, 1e-6)[0].mean()
            for p in exponents
        ]
        errors = [mean_error(x, atoms, p, 3.0) for p in exponents]
        assert all(after <= before + 1e-9 for before, after in pairwise(errors))
        assert held_out[0] < 0.8 * held_out[-1]

    def test_denser_codes_ask_for_a_larger_p(self):
        found = []
        for norm, nonzeros in ((1.0, 1), (2.0, None)):
            x, _ = planted(200, n=12, m=6, p=norm, radius=3.0, nonzeros=nonzeros, noise=0.3)
            model = LpDictionaryLearning(6, p="learn", radius=3.0, max_iter=3, random_state=0)
            found.append(model.fit(x))
            assert model.p_path_ == sorted(model.p_path_)
            assert len(model.held_out_error_) == len(model.p_path_)
            assert model.p_ == model.p_path_[int(np.argmin(model.held_out_error_))]
        sparse, dense = (model.p_ for model in found)
        assert sparse < 1.2
        assert 1.2 < dense < 2.5  # the largest p of the grid is infinite
        assert model.transform(x).shape == (200, 6)

    def test_the_search_is_told_and_can_be_stopped(self):
        x, _ = planted(60)
        heard = []
        learned, errors = search_exponent(
            torch.tensor(x), 5, None, 1.0, 1e-2, torch.Generator().manual_seed(0),
            on_trial=lambda p, error: heard.append((p, error)) or len(heard) == 2,
        )  # fmt: skip
        assert list(errors) == [1.0, 1.15]
        assert list(errors.items()) == heard
        assert learned.p in errors

    def test_stopping_the_search_stops_the_learning(self):
        x, _ = planted(60)
        heard = []
        model = LpDictionaryLearning(p="learn", radius=1.0, dictionary=x[:5], random_state=0)
        model.fit(x, callback=lambda progress: heard.append(progress.p) or len(heard) == 3)
        assert heard == model.p_path_ == [1.0, 1.15, 1.3]
        assert model.n_iter_ == 1
        assert model.components_.shape == (5, 12)

    def test_the_radius_is_found_with_the_dictionary_in_every_unit(self):
        x, _ = planted(120, n=12, m=16, p=1.0, radius=3.0, nonzeros=2, noise=0.05)
        one, other = (
            LpDictionaryLearning(16, p=1.3, radius="learn", max_iter=5, random_state=0).fit(
                unit * x
            )
            for unit in (1.0, 64.0)
        )
        assert other.radius_ == pytest.approx(64.0 * one.radius_)
        np.testing.assert_allclose(other.components_, one.components_, atol=1e-4)
        low, high = one.radius_interval_
        assert low < one.radius_ < high
        assert one.p_path_ == [1.3]
        assert one.p_interval_ == (1.3, 1.3)
        assert np.linalg.norm(one.transform(x), 1.3, axis=1).max() <= one.radius_ * (1 + 1e-9)

    def test_white_noise_is_told(self):
        x = np.random.default_rng(0).standard_normal((80, 6))
        model = LpDictionaryLearning(4, p="learn", radius=1.0, max_iter=1, random_state=0)
        with pytest.warns(UnidentifiedWarning, match="no better than by their mean"):
            model.fit(x)
        assert model.doubts_

    def test_a_number_is_kept(self):
        x, _ = planted(60)
        model = LpDictionaryLearning(4, p=np.inf, radius=1.0, max_iter=2).fit(x)
        assert model.p_ == np.inf
        assert not hasattr(model, "p_path_")

    def test_too_little_to_hold_out(self):
        with pytest.raises(ValueError, match=r"at least 2 samples of 2 features, got \(30, 1\)"):
            LpDictionaryLearning(2, p="learn").fit(np.ones((30, 1)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 0.5}, r"p must be in \[1, inf\], got 0.5"),
        ({"p": "learned"}, r"p must be in \[1, inf\] or 'learn', got 'learned'"),
        ({"radius": "learned"}, "radius must be > 0 or 'learn', got 'learned'"),
        ({"radius": 0.0}, "radius must be > 0 and finite, got 0.0"),
        ({"p": "learn", "radius": -1.0}, "radius must be > 0 and finite, got -1.0"),
        ({"n_components": 0}, "n_components must be an integer >= 1, got 0"),
        ({"n_components": 2.5}, "n_components must be an integer >= 1, got 2.5"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"batch_size": "all"}, "batch_size must be an integer >= 1, got 'all'"),
        ({"tol": -1.0}, "tol must be >= 0, got -1.0"),
        ({"code_tol": 1.0}, r"code_tol must be in \(0, 1\), got 1.0"),
        ({"transform_tol": 0.0}, r"transform_tol must be in \(0, 1\), got 0.0"),
        ({"chunk_rows": 0}, "chunk_rows must be an integer >= 1, got 0"),
        ({"device": "nosuchdevice"}, "unknown device 'nosuchdevice': expected auto"),
        ({"dictionary": np.ones((12, 5))}, r"got \(12, 5\); this is the paper's \(n, m\)"),
        ({"dictionary": np.ones((4, 12))}, "n_components = 3 rows, got 4"),
        ({"dictionary": np.zeros((3, 12))}, "no atom that is 0"),
    ],
)
def test_fit_says_what_was_expected_and_what_came(parameters, message):
    x, _ = planted(20)
    with pytest.raises(ValueError, match=message):
        LpDictionaryLearning(**{"n_components": 3, **parameters}).fit(x)


def test_not_fitted():
    for method in (LpDictionaryLearning().transform, LpDictionaryLearning().inverse_transform):
        with pytest.raises(NotFittedError):
            method(np.ones((2, 3)))


def test_nonnegative_atoms_and_codes_and_an_error_that_never_rises():
    """Data made of nonnegative parts; batches and all at once."""
    rng = np.random.default_rng(0)
    x = rng.random((150, 3)) @ (rng.random((3, 10)) * (rng.random((3, 10)) < 0.5))
    for batch_size in (None, 50):
        model = LpDictionaryLearning(
            3, p=1.0, radius=5.0, nonnegative=True, batch_size=batch_size, random_state=0
        ).fit(x)
        codes = model.transform(x)
        assert (model.components_ >= 0).all()
        assert (codes >= 0).all()
        assert (codes.sum(1) <= 5 * (1 + 1e-12)).all()
        assert np.linalg.norm(x - codes @ model.components_) < 0.1 * np.linalg.norm(x)
        if batch_size is None:
            assert (np.diff(model.reconstruction_err_) <= 1e-12).all()


@pytest.mark.parametrize(
    ("change", "x", "message"),
    [
        ({"p": "learn"}, np.ones((4, 2)), "p and radius must be numbers with nonnegative=True"),
        ({}, -np.ones((4, 2)), "X must be >= 0 with nonnegative=True, got -1.0"),
        ({"dictionary": -np.ones((3, 2))}, np.ones((4, 2)), "dictionary must be >= 0"),
    ],
)
def test_nonnegative_says_what_it_needs(change, x, message):
    with pytest.raises(ValueError, match=message):
        LpDictionaryLearning(3, nonnegative=True, **change).fit(x)
