import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fwnet
from fwnet import LpBall, LpCoder
from fwnet.coding import UnidentifiedWarning, learn_ball
from fwnet.coding.ball_search import BallSearch, _reach, held_out_errors, random_folds


def planted(p, radius, count=120, n=20, m=5, noise=0.03, seed=0):
    """Signals of codes on the sphere ‖z‖_p = radius, their dictionary, (n, m), and the codes."""
    generator = torch.Generator().manual_seed(seed)
    dictionary = torch.randn(n, m, generator=generator, dtype=torch.float64)
    z = torch.randn(count, m, generator=generator, dtype=torch.float64)
    z = z.sign() * z.abs() ** 2
    z = radius * z / torch.linalg.vector_norm(z, ord=p, dim=1, keepdim=True)
    x = z @ dictionary.T
    noise = noise * x.square().mean().sqrt()
    return x + noise * torch.randn(x.shape, generator=generator).double(), dictionary, z


@pytest.fixture(scope="module", autouse=True)
def short_grid():
    """Search fewer p, which the tests do not need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fwnet.coding.ball_search.GRID", (0.8, 0.65, 0.5))
        yield


@pytest.fixture(scope="module")
def learned():
    x, dictionary, _ = planted(1.5, 2.0)
    return learn_ball(x, dictionary)


def test_a_planted_ball_is_found_within_its_intervals(learned):
    (low_p, high_p), (low, high) = learned.p_interval, learned.radius_interval
    assert low_p <= 1.5 <= high_p
    assert low <= 2.0 <= high
    assert abs(learned.p - 1.5) < 0.1
    assert abs(learned.radius - 2.0) < 0.2
    assert not learned.doubts
    assert 0.0005 < learned.error / learned.variance < 0.01
    assert min(learned.trials, key=lambda trial: trial[2])[:2] == (learned.p, learned.radius)


def test_the_unit_does_not_matter(learned):
    x, dictionary, _ = planted(1.5, 2.0)
    scaled = learn_ball(2.0**-20 * x, 1024.0 * dictionary)
    assert scaled.p == learned.p
    assert scaled.radius == pytest.approx(2.0**-30 * learned.radius)
    np.testing.assert_allclose(scaled.p_interval, learned.p_interval)


@settings(max_examples=4)
@given(seed=st.integers(0, 10**6), p=st.sampled_from([1.2, 1.5, 2.0, 3.0]))
def test_the_radius_of_a_known_p(seed, p):
    x, dictionary, z = planted(p, 3.0, count=40, seed=seed)
    found = learn_ball(x, dictionary, p=p)
    assert found.p == p
    assert found.p_interval == pytest.approx((p, p))
    assert found.radius == pytest.approx(3.0, rel=0.05)
    low, high = found.radius_interval
    assert low <= found.radius <= high
    assert LpBall(p, 3.0).contains(z, tol=1e-6).all()


def test_with_hardly_any_noise_the_narrow_minimum_is_found():
    x, dictionary, _ = planted(1.42, 3.0, count=60, noise=0.003)
    found = learn_ball(x, dictionary)
    assert found.p == pytest.approx(1.42, abs=0.01)
    assert found.radius == pytest.approx(3.0, rel=0.01)


def test_more_rows_narrow_the_interval():
    widths = []
    for count in (20, 320):
        x, dictionary, _ = planted(2.0, 1.0, count=count, noise=0.1)
        low, high = learn_ball(x, dictionary, p=2.0).radius_interval
        widths.append(high / low)
    assert widths[1] < widths[0]


class TestDoubts:
    def test_white_noise(self):
        x = torch.randn(100, 12, generator=torch.Generator().manual_seed(0)).double()
        _, dictionary, _ = planted(1.5, 1.0, n=12)
        found = learn_ball(x, dictionary, p=2.0)
        assert "no better than by their mean" in found.doubts[0]

    def test_codes_that_the_signals_do_not_determine(self):
        x, dictionary, _ = planted(1.6, 2.0, n=6, m=18, count=60)
        found = learn_ball(x, dictionary, p=1.6)
        assert found.code_change > 0.25
        assert any("do not determine" in doubt for doubt in found.doubts)

    def test_norms_that_differ(self):
        x, dictionary, _ = planted(2.0, 1.0, count=40)
        lengths = torch.logspace(-2, 2, len(x)).double().unsqueeze(1)
        found = learn_ball(lengths * x, dictionary, p=2.0)
        assert any("divide every signal by its norm" in doubt for doubt in found.doubts)


def test_held_out_entries_are_not_seen():
    x, dictionary, _ = planted(1.5, 2.0, count=10)
    folds = random_folds(20, torch.Generator().manual_seed(0))
    assert torch.bincount(folds).tolist() == [5, 5, 5, 5]
    _, codes = held_out_errors(x, dictionary, LpBall(1.5, 2.0), folds, 1e-6)
    changed = torch.where(folds == 2, 1e3, x)
    _, others = held_out_errors(changed, dictionary, LpBall(1.5, 2.0), folds, 1e-6)
    torch.testing.assert_close(codes[2], others[2], atol=1e-3, rtol=0)
    assert (codes[1] - others[1]).abs().max() > 0.1


def test_exact_codes_are_the_unit():
    x, dictionary, _ = planted(1.5, 4.0, noise=0.0)
    search = BallSearch(x, dictionary, random_folds(20, torch.Generator()))
    assert 2.0 ** search.unit(1 / 1.5) == pytest.approx(4.0, rel=1e-4)


def test_signals_without_a_code_do_not_count_for_the_unit():
    x = torch.zeros(300, 3, dtype=torch.float64)
    x[-1, 0] = 4.0
    search = BallSearch(x, torch.eye(3, dtype=torch.float64), torch.arange(3))
    assert search.unit(0.5) == pytest.approx(2.0)


@given(slope=st.floats(0.01, 100.0))
def test_the_reach_of_a_line(slope):
    assert _reach(lambda distance: slope * distance, 0.1) == pytest.approx(1 / slope)
    assert _reach(lambda distance: 0.5 if distance < 1 else None, 0.1) < 1


@pytest.mark.parametrize(
    ("x", "dictionary", "options", "message"),
    [
        (torch.ones(5), torch.eye(5), {}, r"2 samples of 2 features, got \(5,\)"),
        (torch.full((5, 3), torch.nan), torch.eye(3), {}, "finite samples, got NaN"),
        (torch.ones(5, 3), torch.ones(2, 3), {}, "n = 3, the length of x.*pass its transpose"),
        (torch.ones(5, 3), torch.eye(3), {"p": "known"}, "p must be in .* or 'learn', got 'known'"),
        (torch.ones(5, 3), torch.eye(3), {"radius": -1.0}, "radius must be > 0 and finite, got -1"),
    ],
)
def test_says_what_was_expected(x, dictionary, options, message):
    with pytest.raises(ValueError, match=message):
        learn_ball(x, dictionary, **options)


class TestLpCoder:
    def test_learns_saves_and_forgets(self, tmp_path):
        x, dictionary, _ = planted(2.0, 1.5, count=60)
        coder = LpCoder(dictionary.T.numpy(), p=2.0, radius="learn").fit(x)
        assert coder.radius_ == pytest.approx(1.5, rel=0.05)
        assert coder.p_ == 2.0
        assert coder.transform(x).norm(dim=1).max() <= coder.radius_ * (1 + 1e-9)
        coder.save(tmp_path / "coder.safetensors")
        loaded = LpCoder.load(tmp_path / "coder.safetensors")
        assert loaded.radius_interval_ == coder.radius_interval_
        torch.testing.assert_close(loaded.transform(x), coder.transform(x))
        coder.set_params(radius=2.0).fit(x)
        assert coder.radius_ == 2.0
        assert not hasattr(coder, "radius_interval_")

    def test_says_once_that_the_data_do_not_tell(self):
        x = np.random.default_rng(0).standard_normal((60, 10))
        _, dictionary, _ = planted(2.0, 1.0, n=10)
        with pytest.warns(UnidentifiedWarning, match="the data do not determine") as caught:
            coder = LpCoder(dictionary.T.numpy(), p=2.0, radius="learn").fit(x)
        assert len(caught) == 1
        assert coder.doubts_

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"radius": "learn"}, "can be learned with a dictionary"),
            ({"radius": "known"}, "radius must be > 0 or 'learn', got 'known'"),
            ({"p": "learn", "dictionary": np.eye(3), "convex_set": fwnet.Simplex()}, "without a"),
        ],
    )
    def test_says_what_was_expected(self, options, message):
        with pytest.raises(ValueError, match=message):
            LpCoder(**options).fit(np.ones((5, 3)))

    def test_zeros(self):
        with pytest.raises(ValueError, match="samples that are all 0"):
            LpCoder(np.eye(3), radius="learn").fit(np.zeros((5, 3)))

    def test_atoms_that_see_no_sample(self):
        x = np.random.default_rng(0).standard_normal((5, 3)) * [1, 1, 0]
        for atoms in (np.eye(3)[2:], np.zeros((2, 3))):
            with pytest.raises(ValueError, match="samples that are all orthogonal to the atoms"):
                LpCoder(atoms, radius="learn").fit(x)


def test_an_array_is_refused():
    with pytest.raises(TypeError, match="signals must be a tensor, got ndarray"):
        learn_ball(np.ones((4, 3)), torch.ones(3, 2))
