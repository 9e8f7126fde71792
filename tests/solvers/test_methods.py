"""Solver × problem: every method on what it is for."""

import importlib.util
import math

import pytest
import torch

from fwnet import LpBall, solve
from fwnet.solvers import (
    ADMM,
    CVX,
    FISTA,
    ISTA,
    CoordinateDescent,
    FrankWolfe,
    Harmonic,
    PairwiseFrankWolfe,
    ProjectedGradient,
    ShortStep,
)
from fwnet.solvers.frank_wolfe import Line
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


class TestProjectedGradient(MethodConformance):
    method = ProjectedGradient()
    exponents = (1.0, 1.3, 3.0, math.inf)
    tol = 1e-8


class TestADMM(MethodConformance):
    method = ADMM()
    exponents = (1.0, 1.3, 3.0, math.inf)
    tol = 1e-6

    def test_settings_are_checked(self):
        with pytest.raises(ValueError, match="iterations_per_step must be an integer >= 1, got 0"):
            ADMM(iterations_per_step=0)


class TestStart:
    @pytest.mark.parametrize("method", ["admm", "ista", "fista"])
    @pytest.mark.parametrize("radius", [0.5, 5.0])
    def test_a_good_start_saves_steps(self, method, radius):
        x, dictionary = gaussian(6)
        ball = LpBall(1.0, radius)
        best = solve(x, dictionary, ball, tol=1e-12)
        options = {"tol": 1e-3, "method": method}
        cold = solve(x, dictionary, ball, **options)
        warm = solve(x, dictionary, ball, start=best.code, **options)
        assert (warm.num_steps == 0).all()
        assert (cold.num_steps > 0).all()
        elsewhere = solve(x, dictionary, ball, start=torch.ones_like(best.code), **options)
        assert (elsewhere.gap <= 1e-3 * 0.5 * x.square().sum(-1)).all()

    def test_starts_belong_to_their_rows(self):
        """Rows that need no search, weights of their own and shapes do not mix them up."""
        x, dictionary = gaussian(12)
        x[2] = 0
        mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) > 0.2
        ball = LpBall(1.0, 0.5)
        best = solve(x, dictionary, ball, weights=mask, tol=1e-12).code
        best[3] = torch.nan
        shape = (3, 4, -1)
        warm = solve(
            x.reshape(shape),
            dictionary,
            ball,
            weights=mask.reshape(shape),
            start=best.reshape(shape),
            method="admm",
            tol=1e-4,
        )
        steps = warm.num_steps.flatten()
        assert steps[3] > 0
        assert steps.count_nonzero() == 1
        assert (warm.gap.flatten() <= 1e-4 * 0.5 * x.square().sum(-1)).all()

    def test_refused(self):
        x, dictionary = gaussian(4)
        with pytest.raises(ValueError, match=r"start must have shape \(4, 15\), got \(4, 8\)"):
            solve(x, dictionary, LpBall(1.0), start=x)


def test_atoms_without_mean_are_no_trouble_in_float32():
    """Their entries add up to 0 only roughly: rounding noise is not taken for a direction."""
    x, dictionary = gaussian(50, 16, 40, dtype=torch.float32)
    x -= x.mean(-1, keepdim=True)
    dictionary -= dictionary.mean(0)
    for p in (1.0, 1.5, 3.0):
        for radius in (0.5, 50.0):
            solution = solve(x, dictionary, LpBall(p, radius))
            assert solution.certified.all(), (p, radius, solution)


class TestCoordinateDescent(MethodConformance):
    method = CoordinateDescent()
    exponents = (1.0,)
    tol = 1e-6


@pytest.mark.skipif(importlib.util.find_spec("cvxpy") is None, reason="needs the extra cvx")
class TestCVX(MethodConformance):
    method = CVX()
    exponents = (1.0, 1.3, 2.0, math.inf)
    tol = 1e-6

    def test_the_least_norm_is_looked_for_unless_told_otherwise(self):
        x, dictionary = gaussian()
        ball = LpBall(1.0, 1e3)  # many exact codes are inside
        shortest, any_of_them = (
            solve(x, dictionary, ball, method=CVX(least_norm=least), tol=1e-6)
            for least in (True, False)
        )
        for solution in (shortest, any_of_them):
            torch.testing.assert_close(solution.code @ dictionary.T, x, rtol=1e-3, atol=1e-3)
        assert shortest.certified.all()
        longer = any_of_them.code.abs().sum(-1) / shortest.code.abs().sum(-1)
        assert longer.min() > 0.999
        assert longer.mean() > 1.05


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


def test_step_rules():
    generator = torch.Generator().manual_seed(0)
    slope = -torch.rand(50, 1, dtype=torch.float64, generator=generator)
    curvature = torch.rand(50, 1, dtype=torch.float64, generator=generator)
    line = Line(3, slope, curvature, limit=1.0)
    exact = ShortStep()(line)
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)

    def change(step_size):
        return slope * step_size + 0.5 * curvature * step_size.square()

    assert (change(exact) <= change(grid).amin(-1, keepdim=True) + 1e-15).all()
    assert (Harmonic()(line) == 2 / 5).all()
    flat = Line(0, slope, torch.zeros_like(slope), limit=0.25)
    assert (ShortStep()(flat) == 0.25).all()


def test_pairwise_steps_converge_where_plain_ones_zigzag():
    x, dictionary = gaussian(10)
    ball = LpBall(1.0, 1.0)
    pairwise = solve(x, dictionary, ball, method="pairwise-frank-wolfe", tol=1e-12, max_steps=999)
    plain = FrankWolfe(step_rule=ShortStep())
    zigzag = solve(x, dictionary, ball, method=plain, tol=1e-12, max_steps=999)
    assert pairwise.certified.all()
    assert not zigzag.certified.all()


@pytest.mark.parametrize(
    ("method", "p", "message"),
    [
        ("pairwise-frank-wolfe", 1.3, "p = 1 or p = inf"),
        ("coordinate-descent", 1.3, "coordinate descent needs p = 1"),
        ("simplex", 1.3, "method must be one of auto"),
    ],
)
def test_methods_refuse_what_they_are_not_for(method, p, message):
    x, dictionary = gaussian(2)
    with pytest.raises(ValueError, match=message):
        solve(x, dictionary, LpBall(p, 1.0), method=method)
