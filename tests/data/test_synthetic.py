import math

import pytest
import torch

import fwnet
from fwnet.data import keyed_generator, synthetic_codes


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_codes_are_projections_and_signals_are_made_of_them(p):
    d = synthetic_codes(p, num_train=400, num_test=100, dtype=torch.float64)
    assert d.dictionary.shape == (50, 100)
    assert d.signals.shape == (400, 50)
    assert d.test_codes.shape == (100, 100)
    for x, z in ((d.signals, d.codes), (d.test_signals, d.test_codes)):
        assert fwnet.LpBall(p, 5.0).gauge(z).max() <= 1 + 1e-12
        noise = x - z @ d.dictionary.T
        assert noise.var().item() == pytest.approx(0.01, rel=0.05)
    y = torch.randn((400, 100), generator=keyed_generator(0, "train", "codes"), dtype=torch.float64)
    torch.testing.assert_close(d.codes, fwnet.LpBall(p, 5.0).project(y))


def test_the_exact_solution_at_p_1_has_the_papers_error():
    """0.0036 in the paper, within what 1,000 samples and one D leave open."""
    d = synthetic_codes(1.0, num_train=0, seed=1, dtype=torch.float64)
    solution = fwnet.solve(d.test_signals, d.dictionary, d.ball)
    error = fwnet.metrics.code_error(solution.code, d.test_codes).item()
    assert 0.0015 < error < 0.007


def test_seeds():
    one, same, other = (synthetic_codes(num_train=5, num_test=5, seed=s) for s in (3, 3, 4))
    for name in ("dictionary", "signals", "codes", "test_signals", "test_codes"):
        assert torch.equal(getattr(one, name), getattr(same, name))
        assert not torch.equal(getattr(one, name), getattr(other, name))
    assert not torch.equal(one.codes, one.test_codes)


def test_more_samples_are_more_of_the_same():
    """The dictionary does not depend on how many samples there are."""
    few, many = (synthetic_codes(num_train=n, num_test=1) for n in (3, 30))
    assert torch.equal(few.dictionary, many.dictionary)


@pytest.mark.parametrize(
    ("law", "low", "mean"),
    [("normal", -math.inf, 0), ("uniform", -1, 0), ("positive-uniform", 0, 0.5)],
)
def test_laws(law, low, mean):
    d = synthetic_codes(num_train=1, num_test=1, dictionary_law=law, dictionary_scale=1.0)
    assert d.dictionary.min() >= low
    assert d.dictionary.mean().item() == pytest.approx(mean, abs=0.05)
    unit = synthetic_codes(
        num_train=1, num_test=1, dictionary_law=law, dictionary_scale=2.0, unit_atoms=True
    )
    torch.testing.assert_close(unit.dictionary.norm(dim=0), torch.full((100,), 2.0))


def test_scaling_changes_no_solution():
    d = synthetic_codes(1.3, num_train=20, num_test=1, dtype=torch.float64)
    s = d.scaled()
    assert torch.linalg.matrix_norm(s.dictionary, 2).item() == pytest.approx(1)
    one = fwnet.solve(d.signals, d.dictionary, d.ball).code
    other = fwnet.solve(s.signals, s.dictionary, s.ball).code
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"code_law": "cauchy"}, "a distribution must be one of normal, uniform, .*, got 'cauchy'"),
        ({"noise_variance": -1.0}, "noise_variance must be >= 0, got -1.0"),
        ({"num_train": -1}, "num_train must be an integer >= 0, got -1"),
        ({"p": 0.5}, r"p must be in \[1, inf\], got 0.5"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic_codes(**arguments)


def test_keys_tell_generators_apart():
    draws = {
        torch.rand(1, generator=keyed_generator(*keys)).item()
        for keys in ((0,), (1,), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", 2))
    }
    assert len(draws) == 6
    again = torch.rand(1, generator=keyed_generator(0, "a", 1))
    assert again.item() in draws


def test_code_error_is_a_sum_over_entries_and_a_mean_over_samples():
    code, target = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    assert fwnet.metrics.code_error(code, target).item() == (1 + 4 + 9) / 2
    with pytest.raises(ValueError, match=r"shape of their targets, \(2, 2\), got \(1, 2\)"):
        fwnet.metrics.code_error(code[:1], target)
