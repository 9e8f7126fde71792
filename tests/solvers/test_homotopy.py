"""The path of codes for p = 1: exact wherever it ends, and another method where it does not."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from fwnet import LpBall, solve
from fwnet.solvers import Auto
from fwnet.solvers.blocks import solve_rows
from fwnet.solvers.homotopy import NUM_PLACES, Homotopy
from fwnet.solvers.loop import Limits, iterate
from fwnet.solvers.problem import Constrained


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def atoms(n, m, seed=0):
    return normalize(random(n, m, seed=seed), dim=0)


def follow(x, dictionary, radius):
    """Return the codes that the path alone finds, and their certificates."""
    problem = Constrained(dictionary, LpBall(1.0, radius))
    outcome = iterate(Homotopy(problem.white, radius), x, Limits(300))
    return outcome.code, problem.certify(x, outcome.code, outcome.dual)


@given(st.integers(1, 12), st.integers(1, 24), st.floats(0.01, 6), st.integers(0, 2**30))
@settings(max_examples=60)
def test_codes_are_those_of_the_interior_point_method(n, m, radius, seed):
    x, dictionary = random(5, n, seed=seed), atoms(n, m, seed + 1)
    ball = LpBall(1.0, radius)
    path = solve(x, dictionary, ball)
    other = solve(x, dictionary, ball, method=Auto(careful=True))
    assert path.certified.all()
    reached, wanted = ((x - s.code @ dictionary.T).square().sum(-1) for s in (path, other))
    torch.testing.assert_close(reached, wanted, rtol=1e-7, atol=1e-9)
    norms = [s.code.abs().sum(-1) for s in (path, other)]
    torch.testing.assert_close(*norms, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("radius", [0.1, 1.0, 4.0, 10.0])
def test_paths_end_with_exact_codes(radius):
    x, dictionary = random(200, 20), atoms(20, 50, 1)
    code, certificate = follow(x, dictionary, radius)
    assert certificate.relative_gap.max() < 1e-13
    assert (certificate.norm_gap <= 1e-12 * certificate.norm).all()
    used = (code != 0).sum(-1)
    if radius == 10:
        assert used.max() > NUM_PLACES  # places were added


def test_entries_that_leave_are_0_again():
    """Of some rows an entry of the code for a smaller radius is 0 for a larger one."""
    x, dictionary = random(300, 15), atoms(15, 40, 1)
    supports = [follow(x, dictionary, radius)[0] != 0 for radius in torch.linspace(0.5, 6, 12)]
    left = [(before & ~after).any() for before, after in itertools.pairwise(supports)]
    assert any(left)


@pytest.mark.parametrize(
    "dictionary",
    [
        torch.cat([atoms(12, 20), atoms(12, 20)], 1),
        torch.cat([atoms(12, 20), normalize(atoms(12, 20) + 1e-7 * random(12, 20, seed=5))], 1),
        normalize(random(12, 30) + 5 * random(12, 1, seed=3), dim=0),
        atoms(12, 30) * 10 ** torch.linspace(-6, 6, 30, dtype=torch.float64),
        random(12, 3) @ random(3, 20, seed=1),
        torch.eye(12, dtype=torch.float64),
        atoms(12, 5),
    ],
    ids=["twice", "nearly twice", "coherent", "scaled", "low rank", "identity", "few"],
)
@pytest.mark.parametrize("radius", [0.3, 2.0, 50.0])
def test_hard_dictionaries(dictionary, radius):
    x = random(50, 12, seed=9)
    assert solve(x, dictionary, LpBall(1.0, radius)).certified.all()


def test_rows_with_an_exact_code_are_left_to_another_method():
    x, dictionary, radius = random(20, 8), atoms(8, 30, 1), 1e3
    problem = Constrained(dictionary, LpBall(1.0, radius))
    limits = Limits(300)
    first = solve_rows(problem, x, Auto(), 1e-10, limits)
    assert not first.certified.any()
    assert (first.num_steps == 0).all()
    assert solve(x, dictionary, LpBall(1.0, radius)).certified.all()
