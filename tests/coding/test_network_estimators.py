import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import fwnet
from fwnet.coding import structured_codes
from fwnet.coding.fwnet_coder import _first_atoms
from fwnet.coding.structured_codes import leading_directions
from fwnet.models import ModelFileError

FAST = {"max_iter": 2, "num_layers": 2, "random_state": 0}


@parametrize_with_checks(
    [
        fwnet.FWNetCoder(4, num_layers=2, p=1.5, radius=300.0, max_iter=1),
        fwnet.FWNetClassifier(
            12, num_layers=1, p=1.5, adversarial_radius=0.0, max_iter=2, learning_rate=0.03
        ),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def codes():
    return fwnet.data.synthetic_codes(
        1.3, num_train=600, num_test=200, num_features=12, num_atoms=20, seed=0
    ).scaled()


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return train_test_split(x / 16, y, test_size=0.25, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def few(digits):
    x, x_test, y, _ = digits
    return x[:160], x_test[:50], y[:160]


@pytest.fixture(scope="module")
def classifier(few):
    x, _, y = few
    return fwnet.FWNetClassifier(20, p=1.4, **FAST).fit(x, y)


class TestFWNetCoder:
    def test_given_codes_are_learned_and_p_with_them(self, codes):
        x, z = codes.signals.numpy(), codes.codes.numpy()
        errors = {}
        for p in ("learn", 4.0):
            coder = fwnet.FWNetCoder(p=p, max_iter=6, learning_rate=2e-2, random_state=0).fit(x, z)
            difference = coder.transform(codes.test_signals.numpy()) - codes.test_codes.numpy()
            errors[p] = (difference**2).sum(1).mean()
            assert coder.p_ == pytest.approx(coder.network_.p.item())
        assert errors["learn"] < errors[4.0]
        assert errors["learn"] < 0.5 * (codes.test_codes.numpy() ** 2).sum(1).mean()
        # The dictionary that these codes belong to is found on the way.
        rebuilt = coder.inverse_transform(codes.codes.numpy())
        np.testing.assert_allclose(rebuilt, codes.signals.numpy(), atol=0.05)

    def test_without_codes_those_of_the_solver_are_learned(self, codes):
        x = codes.signals.numpy()
        coder = fwnet.FWNetCoder(16, p=1.5, max_iter=12, learning_rate=2e-2, random_state=0).fit(x)
        np.testing.assert_allclose(np.linalg.norm(coder.components_, axis=1), 1.0, rtol=1e-5)
        radius = np.sqrt((x**2).sum(1).mean())
        exact = fwnet.LpCoder(coder.components_, 1.5, radius).fit_transform(x)
        learned = coder.transform(x)
        assert ((learned - exact) ** 2).sum(1).mean() < 0.2 * (exact**2).sum(1).mean()
        assert np.linalg.norm(learned, 1.5, axis=1).max() <= radius * (1 + 1e-4)
        assert coder.p_ == 1.5

    @pytest.mark.filterwarnings("ignore::fwnet.coding.UnidentifiedWarning")
    def test_an_unknown_p_starts_where_held_out_entries_are_predicted_best(
        self, codes, monkeypatch
    ):
        monkeypatch.setattr("fwnet.coding.exponent_search.ROUNDS", 2)
        x = codes.signals.numpy()[:40, :6]
        coder = fwnet.FWNetCoder(4, p="learn", max_iter=1, random_state=3).fit(x)
        first = coder.network_.config["p"]
        seed = coder._seed()
        learner = fwnet.LpDictionaryLearning(
            4,
            p="learn",
            radius=float(np.sqrt((x.astype(np.float64) ** 2).sum(1).mean())),
            dictionary=_first_atoms(x, 4, seed),
            random_state=seed,
        )
        assert first == pytest.approx(max(1.01, learner.fit(x).p_), rel=1e-6)
        assert coder.network_.config["learn_p"]

    @pytest.mark.filterwarnings("ignore::fwnet.coding.UnidentifiedWarning")
    def test_a_learned_radius_is_that_of_the_dictionary(self, codes):
        x = codes.signals.numpy()[:60, :6]
        coder = fwnet.FWNetCoder(4, p=1.5, radius="learn", max_iter=1, random_state=3).fit(x)
        seed = coder._seed()
        learner = fwnet.LpDictionaryLearning(
            4, 1.5, "learn", dictionary=_first_atoms(x, 4, seed), random_state=seed
        )
        radius = coder.network_.config["radius"] * coder._unit
        assert radius == pytest.approx(learner.fit(x).radius_, rel=1e-6)

    @pytest.mark.parametrize("unit", [1e-6, 1e6])
    def test_the_unit_of_the_samples_does_not_matter(self, codes, unit):
        x, z = codes.signals.numpy()[:80].astype(float), codes.codes.numpy()[:80].astype(float)
        for targets in (z, None):
            coder = fwnet.FWNetCoder(8 if targets is None else None, p=1.5, **FAST)
            one = clone(coder).fit(x, targets).transform(x)
            scaled = None if targets is None else unit * targets
            other = clone(coder).fit(unit * x, scaled).transform(unit * x)
            assert np.abs(other / unit - one).max() < 0.02 * np.abs(one).max()

    def test_codes_of_one_entry_are_asked_for_by_name(self, codes):
        x = codes.signals.numpy()[:60]
        labels = np.ones((60, 1))
        assert fwnet.FWNetCoder(5, p=1.5, **FAST).fit(x, labels).components_.shape == (5, 12)
        assert fwnet.FWNetCoder(1, p=1.5, **FAST).fit(x, labels).components_.shape == (1, 12)

    def test_numbers_of_numpy_are_numbers(self, codes):
        x = codes.signals.numpy()[:60]
        counts = {"max_iter": np.int64(2), "num_layers": np.int32(2), "batch_size": np.int64(9)}
        assert fwnet.FWNetCoder(5, p=np.float32(1.5), **counts).fit(x).n_iter_ == 2

    def test_a_failed_fit_is_no_fit(self, codes):
        coder = fwnet.FWNetCoder(5, radius=-1.0)
        with pytest.raises(ValueError, match="radius must be > 0"):
            coder.fit(codes.signals.numpy())
        with pytest.raises(NotFittedError):
            coder.transform(codes.signals.numpy())

    def test_rows_at_a_time_are_looked_at_when_they_are_used(self, codes):
        x = codes.signals.numpy()[:60]
        coder = fwnet.FWNetCoder(5, p=1.5, **FAST).fit(x)
        whole = coder.transform(x)
        np.testing.assert_allclose(coder.set_params(chunk_rows=7).transform(x), whole, atol=1e-5)
        for bad in (-1, 2.5):
            with pytest.raises(ValueError, match=f"chunk_rows must be an integer >= 1, got {bad}"):
                coder.set_params(chunk_rows=bad).transform(x)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"p": None}, "p must be > 1 and finite, or 'learn', got None"),
            ({"n_components": -1}, "n_components must be an integer >= 1, got -1"),
            ({"n_components": 2.5}, "n_components must be an integer >= 1, got 2.5"),
            ({"validation_fraction": "a"}, "validation_fraction must be a number, got 'a'"),
        ],
    )
    def test_bad_parameters(self, codes, options, message):
        with pytest.raises(ValueError, match=message):
            fwnet.FWNetCoder(**options).fit(codes.signals.numpy()[:50])

    def test_labels_are_ignored_in_a_pipeline(self, few):
        x, x_test, y = few
        coder = fwnet.FWNetCoder(20, p=1.5, **FAST)
        pipeline = make_pipeline(PCA(20), coder, LogisticRegression(max_iter=2000))
        assert pipeline.fit(x, y).score(x, y) > 0.8
        alone = clone(coder).fit(pipeline[0].transform(x))
        x_test = pipeline[0].transform(x_test)
        np.testing.assert_allclose(
            alone.transform(x_test), pipeline[1].transform(x_test), atol=1e-4
        )

    def test_grid_search_chooses(self, codes):
        search = GridSearchCV(
            fwnet.FWNetCoder(p=1.5, **FAST),
            {"num_layers": [1, 3]},
            scoring=lambda coder, x, z: -((coder.transform(x) - z) ** 2).sum(1).mean(),
            cv=2,
        )
        search.fit(codes.signals.numpy()[:100], codes.codes.numpy()[:100])
        scores = search.cv_results_["mean_test_score"]
        assert search.best_params_["num_layers"] == (1, 3)[scores.argmax()]
        assert scores[0] != scores[1]

    def test_saved_and_loaded(self, codes, tmp_path):
        x = codes.signals.numpy()[:100]
        coder = fwnet.FWNetCoder(6, p=1.5, **FAST).fit(x)
        coder.save(tmp_path / "coder.safetensors")
        loaded = fwnet.FWNetCoder.load(tmp_path / "coder.safetensors")
        np.testing.assert_array_equal(loaded.transform(x), coder.transform(x))
        np.testing.assert_array_equal(loaded.components_, coder.components_)
        assert loaded.get_params() == coder.get_params()

    def test_tensors_give_tensors(self, codes):
        coder = fwnet.FWNetCoder(p=1.5, **FAST).fit(codes.signals[:60], codes.codes[:60])
        out = coder.transform(codes.test_signals)
        assert isinstance(out, torch.Tensor)
        np.testing.assert_array_equal(out.numpy(), coder.transform(codes.test_signals.numpy()))

    @pytest.mark.parametrize(
        ("codes_given", "message"),
        [
            (np.zeros((10, 4)), "a row for each of the 50 samples, got 10"),
            (np.zeros((50, 3)), "n_components = 4 columns, got 3"),
            (np.full((50, 4), np.nan), "codes contains NaN"),
            (csr_array(np.ones((50, 4))), r"pass codes.toarray\(\)"),
        ],
    )
    def test_bad_codes(self, codes_given, message):
        with pytest.raises(ValueError, match=message):
            fwnet.FWNetCoder(4).fit(np.ones((50, 6)), codes_given)

    def test_zero_codes_are_no_problem(self):
        coder = fwnet.FWNetCoder(4, **FAST).fit(np.ones((50, 6)), np.zeros((50, 4)))
        assert np.isfinite(coder.transform(np.ones((3, 6)))).all()


class TestFWNetClassifier:
    def test_digits_are_learned(self, digits):
        x, x_test, y, y_test = digits
        model = fwnet.FWNetClassifier(60, max_iter=5, learning_rate=6e-3, random_state=0)
        ours = make_pipeline(PCA(30), model).fit(x, y)
        assert ours.score(x_test, y_test) > 0.94
        assert 1 < ours[-1].p_ < 3

    def test_probabilities_add_up_and_agree_with_classes(self, few):
        x, x_test, y = few
        words = np.array(["zero", "one", "two"], dtype=object)
        chosen = y < 3
        model = fwnet.FWNetClassifier(12, **FAST).fit(x[chosen], words[y[chosen]])
        chances = model.predict_proba(x_test)
        np.testing.assert_allclose(chances.sum(1), 1.0)
        assert list(model.classes_) == ["one", "two", "zero"]
        np.testing.assert_array_equal(model.predict(x_test), model.classes_[chances.argmax(1)])

    def test_a_given_p_stays(self, classifier):
        assert classifier.p_ == 1.4
        assert all(record["p"] == pytest.approx(1.4) for record in classifier.history_)
        assert len(classifier.history_) == classifier.n_iter_ == 4
        trainings = [record["training"] for record in classifier.history_]
        assert trainings == ["codes"] * 2 + ["classes"] * 2

    def test_the_unit_of_the_samples_does_not_matter(self, few, classifier):
        x, x_test, y = few
        other = clone(classifier).fit(1000 * x - 7, y)
        np.testing.assert_allclose(
            classifier.predict_proba(x_test), other.predict_proba(1000 * x_test - 7), atol=1e-2
        )

    def test_ends_early_when_nothing_improves(self):
        x, y = make_blobs(60, centers=3, random_state=0, cluster_std=0.1)
        model = fwnet.FWNetClassifier(9, num_layers=1, max_iter=30, n_iter_no_change=3)
        model.set_params(adversarial_radius=0.0, random_state=0, learning_rate=0.03)
        assert model.fit(x, y).n_iter_ < 60
        assert model.score(x, y) == 1.0

    def test_few_samples_of_few_features_are_learned(self):
        x, y = load_iris(return_X_y=True)
        parts = train_test_split(x, y, test_size=0.3, stratify=y, random_state=0)
        model = fwnet.FWNetClassifier(30, max_iter=6, learning_rate=0.02, random_state=0)
        assert model.fit(parts[0], parts[2]).score(parts[1], parts[3]) > 0.9

    def test_what_is_held_back_has_codes_like_those_learned(self):
        """More atoms per class than features: those that no code uses are 0 in both."""
        x, y = load_iris(return_X_y=True)
        model = fwnet.FWNetClassifier(60, num_layers=2, max_iter=3, random_state=0)
        records = [r for r in model.fit(x, y).history_ if r["training"] == "codes"]
        assert records[-1]["validation"] < 2 * (2 * records[-1]["loss"])

    def test_saved_and_loaded(self, few, classifier, tmp_path):
        _, x_test, _ = few
        classifier.save(tmp_path / "classifier.safetensors")
        loaded = fwnet.FWNetClassifier.load(tmp_path / "classifier.safetensors")
        np.testing.assert_array_equal(
            loaded.predict_proba(x_test), classifier.predict_proba(x_test)
        )
        np.testing.assert_array_equal(loaded.predict(x_test), classifier.predict(x_test))
        assert (loaded.p_, loaded.history_) == (classifier.p_, classifier.history_)
        with pytest.raises(ModelFileError, match="must hold a FWNetCoder, got a FWNetClassifier"):
            fwnet.FWNetCoder.load(tmp_path / "classifier.safetensors")

    def test_grid_search_in_a_pipeline(self, few):
        x, _, y = few
        model = fwnet.FWNetClassifier(20, num_layers=1, max_iter=1, adversarial_radius=0.0)
        model.set_params(learning_rate=0.03, random_state=0)
        pipeline = make_pipeline(PCA(10), model)
        search = GridSearchCV(pipeline, {"fwnetclassifier__p": [1.5, "learn"]}, cv=2)
        assert search.fit(x, y).best_score_ > 0.3
        assert search.best_estimator_[-1].p == search.best_params_["fwnetclassifier__p"]

    def test_seeds_decide(self, few, classifier):
        x, x_test, y = few
        two, three = (
            clone(classifier).set_params(random_state=seed).fit(x, y).predict_proba(x_test)
            for seed in (0, 1)
        )
        np.testing.assert_array_equal(classifier.predict_proba(x_test), two)
        assert not np.array_equal(two, three)

    def test_progress_is_shown_when_asked_for(self, few, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")  # as if stderr were a terminal
        x, _, y = few
        for verbose in (False, True):
            fwnet.FWNetClassifier(20, verbose=verbose, **FAST).fit(x, y)
            printed = capsys.readouterr()
            assert not printed.out
            assert ("classes: epoch" in printed.err) == verbose

    def test_tensors_are_taken(self, few, classifier):
        x, x_test, y = few
        from_tensors = clone(classifier).fit(torch.tensor(x), torch.tensor(y))
        np.testing.assert_array_equal(
            from_tensors.predict(torch.tensor(x_test)), classifier.predict(x_test)
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"p": 1.0}, "p must be > 1 and finite, or 'learn', got 1.0"),
            ({"p": "auto"}, "p must be > 1 and finite, or 'learn', got 'auto'"),
            ({"p": np.inf}, "p must be > 1 and finite"),
            ({"n_components": 0}, "n_components must be an integer >= 1, got 0"),
            ({"radius": 0}, "radius must be > 0 and finite, got 0"),
            ({"num_layers": 0}, "num_layers must be an integer >= 1, got 0"),
            ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
            ({"validation_fraction": 1.0}, r"must be in \[0, 1\), got 1.0"),
            ({"adversarial_radius": -1}, "adversarial_radius must be >= 0 and finite, got -1"),
            ({"device": "nowhere"}, "unknown device 'nowhere': expected auto"),
        ],
    )
    def test_bad_parameters(self, few, options, message):
        x, _, y = few
        with pytest.raises(ValueError, match=message):
            fwnet.FWNetClassifier(**{"max_iter": 1, **options}).fit(x, y)


class TestStructuredCodes:
    @settings(max_examples=30)
    @given(seed=st.integers(0, 10**6), width=st.integers(1, 4))
    def test_codes_use_the_atoms_of_their_class_and_are_projections(self, seed, width):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(60, 5, dtype=torch.float64, generator=generator)
        labels = torch.arange(60) % 3
        structured = structured_codes(x, labels, [width] * 3, generator)
        dictionary, codes = structured.dictionary, structured.codes(x, labels)
        assert dictionary.shape == (5, 3 * width)
        for k in range(3):
            mine = slice(k * width, (k + 1) * width)
            atoms, rows = dictionary[:, mine], labels == k
            torch.testing.assert_close(atoms.T @ atoms, torch.eye(width).double())
            torch.testing.assert_close(codes[rows][:, mine], x[rows] @ atoms)
            assert codes[rows].count_nonzero() == rows.sum() * width
            # No other subspace of this width is closer to the samples of the class.
            kept = codes[rows].square().sum()
            values = torch.linalg.svdvals(x[rows])
            torch.testing.assert_close(kept, values[:width].square().sum())

    def test_a_class_of_few_samples_gets_random_atoms_too(self):
        x = torch.eye(4, dtype=torch.float64)[:3]
        labels = torch.tensor([0, 1, 1])
        structured = structured_codes(x, labels, [3, 2], torch.Generator().manual_seed(0))
        torch.testing.assert_close(structured.dictionary.norm(dim=0), torch.ones(5).double())
        assert structured.owners.tolist() == [0, -1, -1, 1, 1]
        assert structured.codes(x, labels)[0].count_nonzero() == 1

    @pytest.mark.parametrize("count", [3, 8])
    def test_few_rows_and_many_have_the_same_directions(self, count):
        rows = torch.randn(count, 5, dtype=torch.float64)
        found = leading_directions(rows, 2)
        expected = torch.linalg.svd(rows).Vh[:2]
        torch.testing.assert_close((found @ expected.T).abs(), torch.eye(2).double())
        every = leading_directions(torch.randn(20, 8), 8)
        assert torch.equal(every.amax(1), every.abs().amax(1))  # the largest entry is positive
