import math

import cvxpy
import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fwnet
from tests.sets.conformance import ConvexSetConformance

EXPONENTS = [1.0, 1 + 1e-6, 1.001, 1.1, 1.3, 1.7, 2.0, 2.5, 4.0, 50.0, 1e4, math.inf]


class TestLpBall(ConvexSetConformance):
    @pytest.fixture(params=EXPONENTS)
    def convex_set(self, request):
        return fwnet.LpBall(request.param, radius=1.5)


def optimality_residual(y, z, p, radius):
    """Largest violation of the KKT conditions, relative to the scale of y.

    With μ fitted at the entry of largest |z|: z + μ·sign(z)|z|^(p−1) = y, ‖z‖_p = radius.
    """
    t, a = z.abs() / radius, y.abs() / radius
    top = t.argmax(-1, keepdim=True)
    normal = t ** (p - 1)
    mu = (a - t).gather(-1, top) / normal.gather(-1, top)
    stationarity = (t + mu * normal - a).abs().amax(-1) / a.amax(-1)
    feasibility = (torch.linalg.vector_norm(t, ord=p, dim=-1) - 1).abs()
    return torch.maximum(stationarity, feasibility)


@pytest.mark.parametrize("p", [1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("radius", [0.01, 5.0])
def test_projection_meets_its_optimality_conditions(p, radius):
    y = 3 * torch.randn(100, 100, dtype=torch.float64)
    ball = fwnet.LpBall(p, radius)
    outside = y[~ball.contains(y)]
    z = ball.project(outside)
    assert len(outside) > 80
    assert optimality_residual(outside, z, p, radius).max() <= 1e-10


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e200])
def test_projection_commutes_with_the_unit_of_length(p, scale):
    y = torch.randn(50, 20, dtype=torch.float64)
    expected = fwnet.LpBall(p, 0.7).project(y)
    z = fwnet.LpBall(p, 0.7 * scale).project(y * scale) / scale
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 3.0, math.inf])
def test_projection_agrees_with_an_independent_solver(p):
    y = 2 * torch.randn(3, 12, dtype=torch.float64)
    z = fwnet.LpBall(p, 1.5).project(y)
    for row, ours in zip(y.numpy(), z.numpy(), strict=True):
        theirs = cvxpy.Variable(12)
        norm = cvxpy.norm(theirs, p) if p in (1, 2, math.inf) else power_cone_norm(theirs, p)
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(theirs - row)), [norm <= 1.5])
        problem.solve(solver=cvxpy.CLARABEL)
        np.testing.assert_allclose(ours, theirs.value, atol=1e-4)
        assert ((ours - row) ** 2).sum() <= problem.value + 1e-6


def power_cone_norm(z, p):
    return cvxpy.pnorm(z, p, approx=False)


@pytest.mark.parametrize("p", [1 + 1e-6, 1.3, 40.0])
def test_projection_agrees_with_30_digits(p):
    y = torch.tensor([2.0, -1.9, 1e-8, 0.0], dtype=torch.float64)
    with mp.workdps(30):
        exact = project_by_bisection([abs(mp.mpf(v)) for v in y.tolist()], mp.mpf(p), mp.mpf(1))
    z = fwnet.LpBall(p, 1.0).project(y)
    for value, sign, truth in zip(z.tolist(), y.sign().tolist(), exact, strict=True):
        assert abs(value - sign * truth) <= 1e-13 + 1e-9 * abs(truth)


def project_by_bisection(a, p, radius):
    """Nested bisection on the optimality conditions: slow, and too simple to be wrong."""

    def bisect(function, low, high):
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if function(middle) > 0 else (low, middle)
        return (low + high) / 2

    def shrink(mu):
        return [bisect(lambda t, v=v: v - t - mu * t ** (p - 1), mp.mpf(0), v) for v in a]

    mu = bisect(lambda m: mp.fsum(t**p for t in shrink(m)) - radius**p, mp.mpf(0), 2 * max(a))
    return shrink(mu)


@given(
    y=st.lists(st.floats(-5, 5), min_size=1, max_size=8),
    p=st.floats(-3, 3).map(lambda e: 1 + 10.0**e),
    log_radius=st.floats(-3, 1),
)
def test_projection_has_no_duality_gap(y, p, log_radius):
    y, ball = torch.tensor(y, dtype=torch.float64), fwnet.LpBall(p, 10.0**log_radius)
    z = ball.project(y)
    gap = ((z - y) * (z - ball.lmo(z - y))).sum()
    assert ball.contains(z)
    assert gap <= 1e-12 * max((y @ y).item(), 1e-300)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("size", [1e3, 1e20, 3e38])
def test_projection_from_very_far_in_float32(p, size):
    """Rows of near ties, far outside: a radius that is lost beside them shows at once."""
    y = size * (1 - 1e-4 * torch.rand(50, 30)) * torch.randn(50, 30).sign()
    ball = fwnet.LpBall(p, 1.0)
    z, exact = ball.project(y), ball.project(y.double())
    assert ball.contains(z, tol=2e-5).all()
    torch.testing.assert_close(ball.gauge(z), torch.ones(50), rtol=2e-5, atol=0)
    # Differences of entries are rounded to the size of the entries; nothing can be nearer.
    torch.testing.assert_close(z.double(), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("p", [1 + 1e-9, 1 + 5e-8, 1e20, 1e300])
def test_exponents_beyond_the_precision_are_the_limits(p):
    y = torch.tensor([2.0, -1.9, 0.3])
    limit = fwnet.LpBall(1.0 if p < 2 else math.inf).project(y)
    torch.testing.assert_close(fwnet.LpBall(p).project(y), limit, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", EXPONENTS)
def test_gradient_inside_the_ball_is_the_identity(p):
    y = torch.tensor([[0.1, 0.0, -0.2], [0.0, 0.0, 0.0]], requires_grad=True)
    fwnet.LpBall(p, 1.0).project(y).sum().backward()
    assert (y.grad == 1).all()


def test_second_derivative_of_the_projection_is_refused():
    y = torch.randn(2, 5, requires_grad=True)
    z = fwnet.LpBall(1.3, 0.5).project(y)
    (grad,) = torch.autograd.grad(z.sum(), y, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        (grad.square().sum() + y.sum()).backward()


def test_invalid_tensors_are_refused_or_give_nan():
    y = torch.randn(4)
    for p, message in ((math.nan, "p must be in"), (0.5, "p must be in")):
        with pytest.raises(ValueError, match=message):
            fwnet.LpBall(torch.tensor(p)).project(y)
        with pytest.raises(ValueError, match=message):
            fwnet.LpBall(torch.tensor(p)).gauge(y)
    ball = fwnet.LpBall(1.3, torch.tensor(-1.0))
    assert ball.lmo(y).isnan().all()
    assert ball.gauge(y).isnan()
    assert not ball.contains(y)
    with pytest.raises(ValueError, match=r"radius must be > 0 and finite, got -1.0"):
        ball.project(y)


def test_half_precision_is_measured_in_float32():
    half = torch.full((100_000,), 0.1, dtype=torch.float16)
    assert fwnet.LpBall(1.0).gauge(half).item() == pytest.approx(1e4, rel=1e-3)
    assert not fwnet.LpBall(2.0).contains(0.7 * torch.ones(4, dtype=torch.bfloat16))
    border = fwnet.LpBall(2.0).project(torch.randn(50, 8).bfloat16() * 5)
    assert fwnet.LpBall(2.0).contains(border).all()


def test_empty_rows_and_wrong_shapes():
    for p in (1.0, 1.3, 2.0, math.inf):
        assert fwnet.LpBall(p).project(torch.randn(3, 0)).shape == (3, 0)
        assert (fwnet.LpBall(p).gauge(torch.randn(3, 0)) == 0).all()
        with pytest.raises(IndexError, match=r"y must have the axis -1, got shape \(\)"):
            fwnet.LpBall(p).project(torch.tensor(1.0))
    with pytest.raises(TypeError, match="y must be a tensor, got list"):
        fwnet.LpBall(1.3).project([1.0, 2.0])


def test_points_on_and_just_outside_the_border():
    y = torch.randn(100, 30, dtype=torch.float64)
    for p in (1.2, 1.5, 3.0):
        ball = fwnet.LpBall(p, 2.0)
        border = y / ball.gauge(y).unsqueeze(-1)
        for factor in (1.0, 1 + 1e-15, 1 + 1e-12, 1 + 1e-6):
            z = ball.project(factor * border)
            assert ball.contains(z).all()
            torch.testing.assert_close(z, border, rtol=0, atol=20 * (factor - 1) + 1e-14)


def test_nan_is_not_projected_to_a_number():
    y = torch.tensor([[1.0, math.nan, 4.0], [3.0, 4.0, 5.0]])
    for p in (1.0, 1.3, 2.0, 3.0, math.inf):
        z = fwnet.LpBall(p).project(y)
        assert z[0].isnan().any()
        assert z[1].isfinite().all()


@pytest.mark.parametrize("p", [1.0, 1.05, 1.3, 2.0, 3.0, 7.0, math.inf])
def test_projection_gradcheck(p):
    y = (2 * torch.randn(4, 6, dtype=torch.float64)).requires_grad_()
    radius = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda y, r: fwnet.LpBall(p, r).project(y), (y, radius), fast_mode=True
    )
    if 1 < p < math.inf:
        p = torch.tensor(p, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(
            lambda y, p, r: fwnet.LpBall(p, r).project(y), (y, p, radius), fast_mode=True
        )


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 3.0])
def test_gauge_gradcheck_and_zero_rows(p):
    z = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fwnet.LpBall(p, 2.0).gauge, (z,))
    zero = torch.zeros(2, 3, requires_grad=True)
    fwnet.LpBall(p).gauge(zero).sum().backward()
    assert (zero.grad == 0).all()


def test_gauge_does_not_overflow():
    z = torch.tensor([1e30, -1e30, 1e-30])
    assert fwnet.LpBall(50.0).gauge(z).item() == pytest.approx(2 ** (1 / 50) * 1e30)
    assert fwnet.LpBall(1.5).gauge(1e-38 * z.sign()).item() == pytest.approx(3 ** (2 / 3) * 1e-38)
    assert fwnet.LpBall(1.5).gauge(torch.tensor([math.inf, 1.0])).item() == math.inf
    assert math.isnan(fwnet.LpBall(1.5).gauge(torch.tensor([math.nan, 1.0])).item())


def test_wrong_arguments_say_what_was_expected():
    with pytest.raises(ValueError, match=r"p must be in \[1, inf\], got 0.5"):
        fwnet.LpBall(0.5)
    with pytest.raises(ValueError, match=r"radius must be > 0 and finite, got -1.0"):
        fwnet.LpBall(2.0, radius=-1.0)
    with pytest.raises(TypeError, match=r"y must be a floating-point tensor, got torch.int64"):
        fwnet.LpBall(2.0).project(torch.arange(3))


def test_repr_is_the_call():
    assert repr(fwnet.LpBall(p=1.3, radius=5.0)) == "LpBall(p=1.3, radius=5.0)"
