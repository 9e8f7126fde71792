"""Solver × problem: every method on what it is for."""

import importlib.util
import math

import pytest
import torch

from fwnet import LpBall, solve
from fwnet.solvers import (
    CVX,
    FISTA,
    ISTA,
    Backtracking,
    CoordinateDescent,
    FixedStep,
    FrankWolfe,
    Harmonic,
    PairwiseFrankWolfe,
    ShortStep,
)
from fwnet.solvers.step_rules import Line
from tests.solvers.conformance import MethodConformance
from tests.solvers.problems import EXPONENTS, gaussian, objective


class TestAuto(MethodConformance):
    method = "auto"
    exponents = EXPONENTS
    tol = 1e-10


class TestFrankWolfe(MethodConformance):
    method = FrankWolfe()
    exponents = (1.3, 2.0, 4.0)
    tol = 1e-3


class TestFrankWolfeShortStep(MethodConformance):
    method = FrankWolfe(step_rule=ShortStep())
    exponents = (1.1, 1.3, 2.0, 4.0)
    tol = 1e-4


class TestFrankWolfeBacktracking(MethodConformance):
    method = FrankWolfe(step_rule=Backtracking())
    exponents = (1.3, 2.0)
    tol = 1e-4


class TestFrankWolfeFixedStep(MethodConformance):
    method = FrankWolfe(step_rule=FixedStep(0.02))
    exponents = (1.5, 2.0)
    radii = (0.3,)
    tol = 1e-2


class TestPairwise(MethodConformance):
    method = PairwiseFrankWolfe()
    exponents = (1.0, math.inf)
    radii = (0.3,)
    tol = 1e-6


class TestISTA(MethodConformance):
    method = ISTA()
    exponents = (1.0, 1.3, 2.0)
    tol = 1e-4


class TestFISTA(MethodConformance):
    method = FISTA()
    exponents = (1.0, 1.3, 3.0, math.inf)
    tol = 1e-6


class TestCoordinateDescent(MethodConformance):
    method = CoordinateDescent()
    exponents = (1.0,)
    tol = 1e-6


@pytest.mark.skipif(importlib.util.find_spec("cvxpy") is None, reason="needs the extra cvx")
class TestCVX(MethodConformance):
    method = CVX()
    exponents = (1.0, 1.3, 2.0, math.inf)
    tol = 1e-6


def test_frank_wolfe_is_the_paper_s_iteration():
    """z ← (1 − γ)z + γ·lmo(Dᵀ(Dz − x)) with γ = 2/(t + 2), from z = 0."""
    x, dictionary = gaussian()
    ball = LpBall(1.3, 1.0)
    z = torch.zeros(len(x), dictionary.shape[1], dtype=x.dtype)
    for t in range(7):
        z = z + 2 / (t + 2) * (ball.lmo((z @ dictionary.T - x) @ dictionary) - z)
    ours = solve(x, dictionary, ball, method="frank-wolfe", max_steps=7, tol=1e-15).code
    torch.testing.assert_close(ours, z, rtol=1e-12, atol=1e-14)


def test_frank_wolfe_serves_any_convex_set():
    from tests.solvers.sets import Ellipsoid

    x, dictionary = gaussian()
    ellipsoid = Ellipsoid(torch.linspace(0.2, 1.0, dictionary.shape[1], dtype=torch.float64))
    solution = solve(x, dictionary, ellipsoid, tol=1e-5)
    assert (ellipsoid.gauge(solution.code) <= 1 + 1e-12).all()
    # The same problem on the L2 ball, in stretched coordinates.
    stretched = solve(x, dictionary * ellipsoid.axes, LpBall(2.0, 1.0))
    best = objective(x, dictionary * ellipsoid.axes, stretched.code)
    reached = objective(x, dictionary, solution.code)
    assert (reached - best <= 1e-5 * x.square().sum(-1)).all()


def test_line_search_is_exact_and_backtracking_comes_close():
    generator = torch.Generator().manual_seed(0)
    slope = -torch.rand(50, 1, dtype=torch.float64, generator=generator)
    curvature = torch.rand(50, 1, dtype=torch.float64, generator=generator)
    line = Line(3, slope, curvature, 2 * torch.ones_like(slope), limit=1.0)
    exact, _ = ShortStep()(line, torch.zeros_like(slope))
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    assert (line.change(exact) <= line.change(grid).amin(-1, keepdim=True) + 1e-15).all()
    near, model = Backtracking()(line, torch.zeros_like(slope))
    assert (line.change(near) <= 0).all()
    assert (2 * model >= curvature * (1 - 1e-9))[near < 1].all()
    harmonic, _ = Harmonic()(line, torch.zeros_like(slope))
    assert (harmonic == 2 / 5).all()
    flat = Line(0, slope, torch.zeros_like(slope), torch.ones_like(slope), limit=0.25)
    assert (ShortStep()(flat, slope)[0] == 0.25).all()


def test_pairwise_steps_converge_where_plain_ones_zigzag():
    x, dictionary = gaussian(10)
    ball = LpBall(1.0, 1.0)
    pairwise = solve(x, dictionary, ball, method="pairwise-frank-wolfe", tol=1e-12, max_steps=999)
    plain = FrankWolfe(step_rule=ShortStep())
    zigzag = solve(x, dictionary, ball, method=plain, tol=1e-12, max_steps=999)
    assert pairwise.certified.all()
    assert not zigzag.certified.all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedStep(0.0), r"step_size must be in \(0, 1\]"),
        (lambda: Backtracking(shrink=1.5), "expected 0 < shrink <= 1 < grow"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("method", "p", "message"),
    [
        ("pairwise-frank-wolfe", 1.3, "p = 1 or p = inf"),
        ("coordinate-descent", 1.3, "needs an L1 norm"),
        ("simplex", 1.3, "method must be one of auto"),
    ],
)
def test_methods_refuse_what_they_are_not_for(method, p, message):
    x, dictionary = gaussian(2)
    with pytest.raises(ValueError, match=message):
        solve(x, dictionary, LpBall(p, 1.0), method=method)
