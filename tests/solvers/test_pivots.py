"""Several exchanges per step for p = 1: exact where it ends, and the path where it does not."""

import pytest
import torch
from torch.nn.functional import normalize

from fwnet import LpBall, solve
from fwnet.solvers import Auto
from fwnet.solvers.blocks import solve_rows
from fwnet.solvers.loop import Limits, iterate
from fwnet.solvers.pivots import NUM_PLACES, PER_STEP, Pivots
from fwnet.solvers.problem import Constrained


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def atoms(n, m, seed=0):
    return normalize(random(n, m, seed=seed), dim=0)


@pytest.mark.parametrize("radius", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("m", [25, 48])
def test_exact_in_fewer_steps_than_entries(radius, m):
    x, dictionary = random(200, 20), atoms(20, m, 1)
    problem = Constrained(dictionary, LpBall(1.0, radius))
    outcome = iterate(Pivots(problem.white, radius), x, Limits(300))
    certificate = problem.certify(x, outcome.code, outcome.dual)
    binds = certificate.binds
    assert binds.double().mean() > 0.9
    # Float32 found the face; the code on it is exact in float64.
    assert (certificate.relative_gap[binds] < 1e-13).double().mean() > 0.98
    used = (outcome.code != 0).sum(-1)
    assert outcome.num_steps.double().mean() <= 2 + 2 * used.double().mean() / PER_STEP
    if radius == 2.5:
        assert used.max() > NUM_PLACES  # places were added


def test_rows_that_it_leaves_are_solved_by_the_path():
    """Atoms that are nearly the same are not both let in by float32."""
    atom = atoms(12, 20)
    dictionary = torch.cat([atom, normalize(atom + 1e-7 * random(12, 20, seed=5), dim=0)], 1)
    x, ball = random(50, 12, seed=9), LpBall(1.0, 2.0)
    problem, limits = Constrained(dictionary, ball), Limits(300)
    first = solve_rows(problem, x, Auto(), 1e-10, limits)
    assert not first.certified.all()
    second = Auto().second_try(problem, x.dtype)
    assert second == Auto(follows_path=True)
    assert second.second_try(problem, x.dtype).careful
    assert solve(x, dictionary, ball).certified.all()


def test_other_precisions_and_methods_agree():
    x, dictionary = random(100, 20), atoms(20, 50, 1)
    ball = LpBall(1.0, 1.5)
    ours = solve(x, dictionary, ball)
    path = solve(x, dictionary, ball, method=Auto(follows_path=True))
    single = solve(x.float(), dictionary.float(), ball)
    for solution in (ours, path, single):
        assert solution.certified.all()
    torch.testing.assert_close(ours.code, path.code, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.code.float(), single.code, rtol=0, atol=1e-3)
