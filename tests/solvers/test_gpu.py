"""The same certificates on a GPU; skipped where there is none."""

import pytest
import torch

from fwnet import LpBall, solve
from fwnet.solvers import solve_penalized
from tests.solvers.problems import EXPONENTS, gaussian, paper

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("radius", [5.0, 2.5, 0.3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_certified_and_the_same_as_on_the_cpu(p, radius, dtype):
    x, dictionary = (t.to(dtype) for t in paper(200))
    ball = LpBall(p, radius)
    solution = solve(x.cuda(), dictionary.cuda(), ball)
    assert solution.code.is_cuda
    assert solution.certified.all(), solution
    assert ball.contains(solution.code).all()
    on_cpu = solve(x, dictionary, ball).code
    tolerance = 1e-3 if dtype == torch.float64 else 0.15
    assert (solution.code.cpu() - on_cpu).norm(dim=-1).max() < tolerance


@pytest.mark.parametrize("method", ["frank-wolfe", "pairwise-frank-wolfe", "ista", "fista"])
def test_other_methods(method):
    x, dictionary = (t.cuda() for t in gaussian())
    solution = solve(x, dictionary, LpBall(1.0, 0.3), method=method, tol=1e-2)
    assert (solution.gap <= 1e-2 * x.square().sum(-1)).all()


def test_weights_gradients_and_penalty():
    x, dictionary = (t.cuda().requires_grad_() for t in gaussian())
    mask = torch.rand_like(x) > 0.3
    mask[:, 0] = True
    solve(x, dictionary, LpBall(1.4, 0.5), weights=mask).code.square().sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[~mask] == 0).all()
    assert solve_penalized(x.detach(), dictionary.detach(), 0.1, 1.3).certified.all()
