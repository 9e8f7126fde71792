"""Groups of atoms that are orthogonal to all others have exact codes of their own."""

import math

import pytest
import torch

from fwnet import LpBall, solve
from fwnet.functional import lp_norm
from fwnet.solvers import blocks
from fwnet.solvers.groups import orthogonal_groups
from fwnet.solvers.problem import Constrained

SIZES = ((5, 11), (4, 9), (1, 1), (1, 1))  # rank and atoms of each group


def separable(rows=12, seed=0):
    """Return signals of which the groups explain parts of different lengths, and a dictionary."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    n, m = (sum(sizes) for sizes in zip(*SIZES, strict=True))
    axes, (_, order) = torch.linalg.qr(random(n, n)).Q, random(1, m).sort()
    blocks = [random(*size) for size in SIZES]
    scales = torch.cat([torch.full((k,), 10.0**-i) for i, (k, _) in enumerate(SIZES)])
    dictionary = (axes @ torch.block_diag(*blocks))[:, order.squeeze(0)]
    return (random(rows, n) * scales) @ axes.T, dictionary


def test_groups_are_found_in_any_order():
    _, dictionary = separable()
    for dtype in (torch.float64, torch.float32):
        groups = orthogonal_groups(Constrained(dictionary.to(dtype), LpBall(4.0)))
        assert sorted(len(group) for group in groups) == [2, 9, 11]
        assert torch.cat(groups).sort().values.tolist() == list(range(22))
        assert all((group.diff() > 0).all() for group in groups)
        for one in groups:
            for other in groups:
                if one is not other:
                    assert (dictionary[:, one].T @ dictionary[:, other]).abs().max() <= 1e-13
    assert orthogonal_groups(Constrained(torch.randn(5, 9), LpBall(4.0))) == []
    assert orthogonal_groups(Constrained(torch.eye(5), LpBall(4.0))) == []


@pytest.mark.parametrize("p", [2.5, 4.0, 8.0, 20.0])
def test_codes_are_those_of_all_atoms_together(p, monkeypatch):
    x, dictionary = separable()
    free = solve(x, dictionary, LpBall(p, 100.0))
    radius = lp_norm(free.code, p).median().item()  # binds for half of the rows
    x[-1] = 0.0
    apart = solve(x, dictionary, LpBall(p, radius))
    assert apart.certified.all()
    assert apart.binds.any()
    assert not apart.binds.all()
    monkeypatch.setattr(blocks, "orthogonal_groups", lambda problem: [])
    together = solve(x, dictionary, LpBall(p, radius))
    norms = (lp_norm(solution.code, p) for solution in (apart, together))
    torch.testing.assert_close(*norms, rtol=1e-7, atol=0)
    images = (solution.code @ dictionary.T for solution in (apart, together))
    torch.testing.assert_close(*images, rtol=0, atol=1e-4)
    rounding = 1 + 4 * torch.finfo(x.dtype).eps
    assert (lp_norm(apart.code, p) <= rounding * radius).all()


def test_atoms_of_any_length_are_grouped_alike():
    _, dictionary = separable()
    problem = Constrained(dictionary, LpBall(8.0, 1.0))
    small = Constrained(1e-20 * dictionary, LpBall(8.0, 1.0))
    groups, same = orthogonal_groups(problem), orthogonal_groups(small)
    assert [group.tolist() for group in groups] == [group.tolist() for group in same]
    mixed = Constrained(1e-20 * torch.randn(16, 24, dtype=torch.float64), LpBall(8.0, 1.0))
    assert orthogonal_groups(mixed) == []


def test_the_callback_hears_that_all_rows_are_done():
    x, dictionary = separable()
    seen = []
    solve(x, dictionary, LpBall(8.0, 100.0), callback=lambda now: seen.append(now.rows_done))
    assert seen[-1] == len(x)


def test_limits_hold_for_every_group():
    x, dictionary = separable()
    few = solve(x, dictionary, LpBall(8.0, 100.0), max_steps=1, warn=False)
    assert not few.certified.any()
    assert few.num_steps.max() == 1
    seen = []

    def stop(now):
        seen.append(now)
        return True

    stopped = solve(x, dictionary, LpBall(8.0, 1e-3), callback=stop)
    assert set(stopped.status) == {"stopped by the callback"}
    assert {(now.rows, now.rows_done) for now in seen} == {(len(x), 0)}


def test_gradients_pass_through():
    x, dictionary = separable(rows=2)
    ball = LpBall(torch.tensor(4.0, dtype=torch.float64, requires_grad=True), 100.0)
    (slope,) = torch.autograd.grad(solve(x, dictionary, ball).code.abs().sum(), ball.p)
    h = 1e-5
    ahead, behind = (
        solve(x, dictionary, LpBall(4.0 + step, 100.0), tol=1e-14).code.abs().sum()
        for step in (h, -h)
    )
    assert math.isclose(slope, (ahead - behind) / (2 * h), rel_tol=1e-3)
