"""`minimize` against closed forms, `solve` and SciPy."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

import fwnet
from fwnet import minimize
from tests.solvers.problems import gaussian, objective

VARIANTS = ("plain", "away", "pairwise", "blended", "projected")
STEPWISE = VARIANTS[:-1]  # Frank-Wolfe
SETS = (
    fwnet.Simplex(2.0),
    fwnet.Simplex(2.0, cap=0.5),
    fwnet.LpBall(1.0),
    fwnet.LpBall(1.3),
    fwnet.Box(-0.2, 0.2),
)


def center(convex_set, rows=1, m=15):
    return convex_set.project(torch.zeros(rows, m, dtype=torch.float64))


@pytest.mark.parametrize("variant", VARIANTS[1:])
@pytest.mark.parametrize("convex_set", SETS, ids=repr)
def test_finds_the_codes_of_solve(convex_set, variant):
    x, dictionary = gaussian(20)
    found = minimize(
        lambda z: objective(x, dictionary, z), convex_set, center(convex_set, 20), variant=variant
    )
    best = objective(x, dictionary, fwnet.solve(x, dictionary, convex_set).code)
    assert found.converged.all()
    assert (found.gap <= 1e-6).all()
    assert convex_set.contains(found.point, tol=1e-12).all()
    assert (found.value >= best - 1e-9).all()
    assert (found.value - found.gap <= best + 1e-9).all()


@pytest.mark.parametrize("variant", STEPWISE)
def test_a_linear_function_takes_one_step(variant):
    u = torch.randn(10, 15, dtype=torch.float64)
    for convex_set in SETS:
        found = minimize(
            lambda z: (z * u).sum(-1), convex_set, center(convex_set, 10), variant=variant
        )
        torch.testing.assert_close(found.value, -convex_set.support(-u))
        assert (found.num_steps <= 1).all()


@pytest.mark.parametrize("variant", STEPWISE[1:])
def test_logarithms_on_the_simplex(variant):
    """min −Σ w_i log z_i has the solution z = w/Σw; f is infinite on the border."""
    w = torch.rand(5, 6, dtype=torch.float64) + 0.1
    start = center(fwnet.Simplex(), 5, 6)
    found = minimize(
        lambda z: -(w * z.log()).sum(-1), fwnet.Simplex(), start, variant=variant, max_steps=3000
    )
    assert found.converged.all()
    expected = w / w.sum(-1, keepdim=True)
    torch.testing.assert_close(found.point, expected, rtol=0, atol=1e-3)


def test_agrees_with_slsqp():
    """A function that is not quadratic, on the simplex."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(12, 6, dtype=torch.float64, generator=generator)
    shift = torch.randn(4, 12, dtype=torch.float64, generator=generator)

    def f(z):
        return torch.nn.functional.softplus(2 * (z @ matrix.T - shift)).sum(-1)

    found = minimize(f, fwnet.Simplex(), center(fwnet.Simplex(), 4, 6), tol=1e-9, max_steps=5000)
    for row in range(4):
        a, b = matrix.numpy(), shift[row].numpy()
        theirs = scipy_minimize(
            lambda z, a=a, b=b: np.logaddexp(0, 2 * (a @ z - b)).sum(),
            np.full(6, 1 / 6),
            method="SLSQP",
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert found.value[row].item() == pytest.approx(theirs.fun, abs=1e-7)
        np.testing.assert_allclose(found.point[row].numpy(), theirs.x, atol=1e-4)


def test_completes_a_matrix_of_low_rank():
    """Half of the entries of a 20 × 20 matrix of rank 2, with its nuclear norm given."""
    matrix = torch.randn(20, 2, dtype=torch.float64) @ torch.randn(2, 20, dtype=torch.float64)
    seen = torch.rand(20, 20, dtype=torch.float64) < 0.7
    ball = fwnet.SchattenBall((20, 20), 1.0, torch.linalg.svdvals(matrix).sum().item())

    def f(z):
        return 0.5 * ((z - matrix.flatten()) * seen.flatten()).square().sum(-1)

    start = torch.zeros(1, 400, dtype=torch.float64)
    found = minimize(f, ball, start, variant="projected", tol=1e-9 * f(start).item())
    assert found.converged.all()
    assert ball.contains(found.point, tol=1e-9).all()
    torch.testing.assert_close(found.point.reshape(20, 20), matrix, rtol=0, atol=1e-2)


def test_a_function_that_is_not_convex_ends_where_the_gap_vanishes():
    def f(z):
        return (z.square().sum(-1) - 1).square() + z.prod(-1)

    start = fwnet.Box(-2.0, 2.0).project(torch.randn(20, 3, dtype=torch.float64))
    found = minimize(f, fwnet.Box(-2.0, 2.0), start)
    assert found.converged.all()
    assert (found.value <= f(start) + 1e-12).all()


@pytest.mark.parametrize("variant", STEPWISE)
def test_few_points_bound_the_memory_and_the_point_stays_their_mean(variant):
    x, dictionary = gaussian(8)
    start = center(fwnet.Simplex(2.0), 8)
    seen = []
    found = minimize(
        lambda z: objective(x, dictionary, z),
        fwnet.Simplex(2.0),
        start,
        variant=variant,
        max_points=3,
        max_steps=200,
        callback=lambda progress: seen.append(progress.value),
    )
    assert fwnet.Simplex(2.0).contains(found.point, tol=1e-12).all()
    assert (torch.stack(seen).diff(dim=0) <= 1e-12).all()


def test_shapes_float32_and_a_callback_that_stops():
    x, dictionary = gaussian(6, dtype=torch.float32)
    start = torch.zeros(2, 3, 15)

    def f(z):
        return objective(x, dictionary, z)

    found = minimize(f, fwnet.LpBall(1.0), start, tol=1e-4)
    assert found.point.shape == (2, 3, 15)
    assert found.point.dtype == torch.float32
    assert found.gap.shape == found.converged.shape == found.num_steps.shape == (2, 3)
    assert found.converged.all()
    stopped = minimize(f, fwnet.LpBall(1.0), start, callback=lambda progress: progress.step == 2)
    assert stopped.num_steps.max() == 2
    assert not stopped.converged.all()
    assert f"{int(stopped.converged.sum())} of 6 converged" in repr(stopped)


@pytest.mark.parametrize("variant", VARIANTS)
def test_inference_mode_changes_nothing(variant):
    ball, target = fwnet.LpBall(1.0), torch.randn(3, 6, dtype=torch.float64)

    def f(z):
        return (z - target).square().sum(-1)

    expected = minimize(f, ball, center(ball, 3, 6), variant=variant)
    with torch.inference_mode():
        found = minimize(f, ball, center(ball, 3, 6), variant=variant)
    assert torch.equal(found.point, expected.point)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"start": torch.ones(1, 4)}, ValueError, "1 of 1 rows outside; use convex_set.project"),
        ({"start": [1.0]}, TypeError, r"start must be a floating-point tensor \(..., m\)"),
        ({"variant": "fast"}, ValueError, "variant must be one of"),
        ({"f": lambda z: z}, ValueError, r"f must return one value per row, \(1,\), got \(1, 4\)"),
        ({"tol": 0.0}, ValueError, "tol must be > 0, got 0.0"),
        ({"convex_set": 3}, TypeError, "convex_set must be a ConvexSet"),
        ({"max_points": 1}, ValueError, "max_points must be an integer >= 2, got 1"),
    ],
)
def test_errors_say_what_was_expected(change, error, message):
    arguments = {
        "f": lambda z: z.sum(-1),
        "convex_set": fwnet.LpBall(1.0),
        "start": torch.zeros(1, 4),
        **change,
    }
    with pytest.raises(error, match=message):
        minimize(**arguments)
