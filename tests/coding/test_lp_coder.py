import copy
import functools
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fwnet import GroupLpBall, LpBall, LpCoder, Simplex, solve


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def dictionary(rng):
    """Scikit-learn's shape: 12 components of 5 features."""
    atoms = rng.standard_normal((12, 5))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


@pytest.fixture
def samples(rng):
    return 3 * rng.standard_normal((40, 5))


class WithAtoms(LpCoder):
    """A coder that has a dictionary for any number of features, as scikit-learn's checks need."""

    def fit(self, X, y=None):  # noqa: N803
        super().fit(X)
        shape = (2 * self.n_features_in_ + 1, self.n_features_in_)
        self.components_ = np.random.default_rng(0).standard_normal(shape)
        self._is_identity = False
        return self


@parametrize_with_checks(
    [
        LpCoder(p=1, chunk_rows=3),
        WithAtoms(p=1.3),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 4.0, np.inf])
def test_codes_are_those_of_solve(dictionary, samples, p):
    coder = LpCoder(dictionary, p=p, radius=1.5).fit(samples)
    codes = coder.transform(samples)
    solution = solve(torch.tensor(samples), torch.tensor(dictionary.T), LpBall(p, 1.5))
    assert codes.shape == (40, 12)
    np.testing.assert_allclose(codes, solution.code.numpy(), atol=1e-9)
    norms = np.linalg.norm(codes, ord=p, axis=1)
    assert norms.max() <= 1.5 * (1 + 1e-9)
    assert (norms > 1.5 * (1 - 1e-9)).any()  # the bound is felt, or this test would see nothing


def test_without_a_dictionary_codes_are_the_nearest_points_of_the_ball(samples):
    codes = LpCoder(p=1.5, radius=1.0).fit_transform(samples)
    nearest = LpBall(1.5, 1.0).project(torch.tensor(samples))
    np.testing.assert_allclose(codes, nearest.numpy(), atol=1e-6)


def test_fit_leaves_components_and_features(dictionary, samples):
    coder = LpCoder(dictionary).fit(samples)
    np.testing.assert_array_equal(coder.components_, dictionary)
    assert coder.n_features_in_ == 5
    assert list(coder.get_feature_names_out()) == [f"lpcoder{i}" for i in range(12)]
    dictionary[0, 0] = 100.0
    assert coder.components_[0, 0] != 100.0


def test_inverse_transform_rebuilds(dictionary, samples):
    coder = LpCoder(dictionary, radius=100.0).fit(samples)
    codes = coder.transform(samples)
    rebuilt = coder.inverse_transform(codes)
    np.testing.assert_array_equal(rebuilt, codes @ dictionary)
    np.testing.assert_allclose(rebuilt, samples, atol=1e-4)  # overcomplete, and the ball is large
    with pytest.raises(ValueError, match="12 columns, one for each component, got 5"):
        coder.inverse_transform(samples)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float64),
        (np.int32, np.float64),
        (bool, np.float64),
    ],
)
def test_precision_is_kept_and_other_numbers_become_float64(dictionary, samples, given, expected):
    values = samples.astype(given)
    coder = LpCoder(dictionary, device="cpu").fit(values)
    codes = coder.transform(values)
    assert isinstance(codes, np.ndarray)
    assert codes.dtype == expected
    assert coder.inverse_transform(codes).dtype == expected
    tensor = coder.transform(torch.from_numpy(values))
    assert tensor.dtype == torch.from_numpy(np.empty(0, expected)).dtype
    np.testing.assert_array_equal(tensor.numpy(), codes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_give_tensors(dictionary, samples, dtype):
    x = torch.tensor(samples, dtype=dtype, requires_grad=True)
    coder = LpCoder(torch.tensor(dictionary), radius=2.0, device="cpu").fit(x)
    codes = coder.transform(x)
    assert isinstance(codes, torch.Tensor)
    assert (codes.dtype, codes.device) == (dtype, x.device)
    assert not codes.requires_grad
    rebuilt = coder.inverse_transform(codes)
    assert isinstance(rebuilt, torch.Tensor)
    assert rebuilt.dtype == dtype
    expected = coder.transform(x.detach().numpy())
    np.testing.assert_array_equal(codes.numpy(), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_device_is_kept(dictionary, samples):
    x = torch.tensor(samples, device="cuda")
    codes = LpCoder(dictionary).fit(x).transform(x)
    assert codes.device == x.device
    on_cpu = LpCoder(dictionary, device="cpu").fit(samples).transform(samples)
    np.testing.assert_allclose(codes.cpu().numpy(), on_cpu, atol=1e-7)
    from_cpu = LpCoder(dictionary, device="cuda").fit(samples).transform(torch.tensor(samples))
    assert from_cpu.device.type == "cpu"


def test_chunks_change_nothing_but_memory(dictionary, samples):
    for p in (1.0, 1.3):
        whole = LpCoder(dictionary, p=p, radius=2.0).fit_transform(samples)
        for chunk_rows in (7, 1000):
            coder = LpCoder(dictionary, p=p, radius=2.0, chunk_rows=chunk_rows)
            np.testing.assert_allclose(coder.fit_transform(samples), whole, atol=1e-9)


def test_no_chunk_is_larger_than_asked(dictionary, samples, monkeypatch):
    sizes = []

    def spy(x, *arguments, **options):
        sizes.append(len(x))
        return solve(x, *arguments, **options)

    monkeypatch.setattr("fwnet.coding.code_transformer.solve", spy)
    LpCoder(dictionary, chunk_rows=16).fit_transform(samples)
    assert sizes == [16, 16, 8]


def test_any_layout_of_the_samples_will_do(dictionary, samples):
    coder = LpCoder(dictionary).fit(samples)
    expected = coder.transform(samples)
    frozen = samples.copy()
    frozen.flags.writeable = False
    backward = np.ascontiguousarray(samples[::-1])[::-1]
    for layout in (np.asfortranarray(samples), frozen, backward, samples.tolist()):
        np.testing.assert_array_equal(coder.transform(layout), expected)


def test_uncertified_samples_are_told(dictionary, samples, monkeypatch):
    samples[:3] = 0.0  # whose code needs no step
    monkeypatch.setattr(
        "fwnet.coding.code_transformer.solve", functools.partial(solve, max_steps=0)
    )
    message = "37 of 40 codes are not certified: 37 step limit reached"
    with pytest.warns(ConvergenceWarning, match=message):
        LpCoder(dictionary, radius=0.5).fit(samples).transform(samples)


def test_works_in_pipelines_and_searches():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:400] / 16, labels[:400]
    pipeline = make_pipeline(
        StandardScaler(with_std=False), LpCoder(), LogisticRegression(max_iter=1000)
    )
    search = GridSearchCV(
        pipeline,
        {"lpcoder__p": [1.0, 1.5, 2.0], "lpcoder__radius": [0.1, 2.0]},
        cv=3,
        error_score="raise",
    )
    search.fit(digits, labels)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 1  # p and radius reach the coder
    assert search.best_score_ > 0.85
    atoms = digits[::5] / np.linalg.norm(digits[::5], axis=1, keepdims=True)
    with_atoms = make_pipeline(LpCoder(atoms, p=1.3, radius=5.0), LogisticRegression(C=10.0))
    assert cross_val_score(with_atoms, digits, labels, cv=3).mean() > 0.85


def test_frames_in_and_frames_out(dictionary, samples):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(samples, columns=list("abcde"), index=range(100, 140))
    coder = LpCoder(dictionary).set_output(transform="pandas").fit(frame)
    codes = coder.transform(frame)
    assert list(codes.columns) == [f"lpcoder{i}" for i in range(12)]
    assert list(codes.index) == list(frame.index)
    assert list(coder.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="feature names should match"):
        coder.transform(frame.rename(columns={"a": "z"}))


def test_clones_and_copies(dictionary, samples):
    coder = LpCoder(dictionary, p=1.7, radius=2.0, tol=1e-8, device="cpu", chunk_rows=5)
    twin = clone(coder)
    np.testing.assert_array_equal(twin.dictionary, dictionary)
    assert (twin.p, twin.radius, twin.tol, twin.device, twin.chunk_rows) == (
        1.7,
        2.0,
        1e-8,
        "cpu",
        5,
    )
    coder.fit(samples)
    expected = coder.transform(samples)
    for copied in (copy.deepcopy(coder), pickle.loads(pickle.dumps(coder))):
        np.testing.assert_array_equal(copied.transform(samples), expected)


@pytest.mark.parametrize("given", [None, "array", "tensor"])
def test_a_saved_coder_gives_the_same_codes(dictionary, samples, tmp_path, given):
    atoms = {None: None, "array": dictionary, "tensor": torch.tensor(dictionary)}[given]
    coder = LpCoder(atoms, p=np.inf, radius=2.0).fit(samples)
    coder.save(tmp_path / "coder.safetensors")
    loaded = LpCoder.load(tmp_path / "coder.safetensors")
    np.testing.assert_array_equal(loaded.transform(samples), coder.transform(samples))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 0.5}, r"p must be in \[1, inf\], got 0.5"),
        ({"p": float("nan")}, r"p must be in \[1, inf\], got nan"),
        ({"radius": 0.0}, "radius must be > 0 and finite, got 0.0"),
        ({"radius": np.inf}, "radius must be > 0 and finite, got inf"),
        ({"tol": 0.0}, r"tol must be in \(0, 1\), got 0.0"),
        ({"chunk_rows": 0}, "chunk_rows must be an integer >= 1, got 0"),
        ({"device": "nosuchdevice"}, "unknown device 'nosuchdevice': expected auto"),
        ({"dictionary": np.ones(5)}, "Expected 2D array, got 1D array"),
        ({"dictionary": np.full((12, 5), np.nan)}, "dictionary contains NaN"),
        (
            {"dictionary": np.ones((5, 12))},
            r"n_features = 5, the columns of X, got \(5, 12\); this is the paper's \(n, m\)",
        ),
        ({"dictionary": np.ones((3, 7))}, r"n_features = 5, the columns of X, got \(3, 7\)$"),
    ],
)
def test_fit_says_what_was_expected_and_what_came(samples, parameters, message):
    with pytest.raises(ValueError, match=message):
        LpCoder(**parameters).fit(samples)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(5), "Expected 2D array, got 1D array"),
        (torch.ones(0, 5), r"Found array with 0 sample\(s\)"),
        (torch.ones(2, 5, dtype=torch.complex64), "Complex data not supported"),
        (torch.tensor([[1.0] * 5, [torch.nan] * 5]), "Input X contains NaN"),
        (torch.ones(2, 6), "X has 6 features, but LpCoder is expecting 5"),
    ],
)
def test_bad_tensors_are_refused(samples, tensor, message):
    with pytest.raises(ValueError, match=message):
        LpCoder().fit(samples).transform(tensor)


def test_not_fitted(samples):
    for method in (LpCoder().transform, LpCoder().inverse_transform):
        with pytest.raises(NotFittedError):
            method(samples)


def test_the_class_name_is_the_step_name():
    assert isinstance(Pipeline([("code", LpCoder())]).fit_transform([[3.0, 4.0]]), np.ndarray)


def test_codes_on_other_sets(dictionary, samples, tmp_path):
    for convex_set in (Simplex(2.0), GroupLpBall([range(6), range(6, 12)])):
        coder = clone(LpCoder(dictionary, convex_set=convex_set)).fit(samples)
        codes = coder.transform(samples)
        expected = solve(torch.from_numpy(samples), torch.from_numpy(dictionary.T), convex_set).code
        # Two codes with gaps of 1e-10·½‖x‖² may differ by about the root of that.
        np.testing.assert_allclose(codes, expected.numpy(), atol=1e-4)
        coder.save(tmp_path / "coder.safetensors")
        again = LpCoder.load(tmp_path / "coder.safetensors")
        np.testing.assert_array_equal(again.transform(samples), codes)
    nearest = LpCoder(convex_set=Simplex()).fit_transform(samples)
    np.testing.assert_allclose(nearest.sum(-1), 1)
    with pytest.raises(TypeError, match="convex_set must be a ConvexSet such as Simplex"):
        LpCoder(convex_set=Simplex).fit(samples)
