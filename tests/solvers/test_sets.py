"""`solve` on every set: feasible, certified, as good as CVXPY, and differentiable."""

import math

import numpy as np
import pytest
import torch

import fwnet
from fwnet import solve
from fwnet.sets.convex_set import contains_by_distance
from fwnet.solvers import ProjectedGradient, Status
from tests.sets import test_sets as described
from tests.solvers.problems import gaussian, objective

GROUPS = [range(i, i + 3) for i in range(0, 15, 3)]
SETS = {
    "nonnegative 1": (fwnet.NonnegativeLpBall(1.0, 1.0), described.TestNonnegativeLpBall),
    "nonnegative 1.3": (fwnet.NonnegativeLpBall(1.3, 1.0), described.TestNonnegativeLpBall),
    "nonnegative 2": (fwnet.NonnegativeLpBall(2.0, 1.0), described.TestNonnegativeLpBall),
    "simplex": (fwnet.Simplex(2.0), described.TestSimplex),
    "capped simplex": (fwnet.Simplex(2.0, cap=0.5), described.TestSimplex),
    "box": (fwnet.Box(-0.3, 0.2), described.TestBox),
    "box without 0": (fwnet.Box(0.1, 0.4), described.TestBox),
    "groups": (
        fwnet.GroupLpBall([range(i, i + 3) for i in range(0, 15, 3)]),
        described.TestGroupLpBall,
    ),
    "k-support": (fwnet.KSupportBall(3), described.TestKSupportBall),
    "sorted L1": (
        fwnet.SortedL1Ball([2 - 0.1 * i for i in range(15)], 2.0),
        described.TestSortedL1Ball,
    ),
    "nuclear": (fwnet.SchattenBall((3, 5), 1.0), None),
}


@pytest.fixture(params=SETS)
def name(request):
    return request.param


def test_codes_are_certified(name):
    x, dictionary = gaussian(50)
    convex_set, _ = SETS[name]
    solution = solve(x, dictionary, convex_set)
    assert solution.certified.all()
    assert solution.norm_gap.isnan().all()
    assert convex_set.contains(solution.code).all()
    feasible = convex_set.project(torch.randn(2000, 15, dtype=torch.float64))
    best = (0.5 * (x.unsqueeze(1) - feasible @ dictionary.T).square().sum(-1)).amin(-1)
    assert (objective(x, dictionary, solution.code) <= best + 1e-9).all()


@pytest.mark.parametrize("scale", [1e20, 1e-25])
def test_codes_do_not_depend_on_the_unit_of_the_signals(name, scale):
    x, dictionary = gaussian(20)
    convex_set, _ = SETS[name]
    solution = solve(scale * x, scale * dictionary, convex_set)
    assert solution.certified.all()
    expected = solve(x, dictionary, convex_set)
    images = (s.code @ dictionary.T for s in (solution, expected))
    torch.testing.assert_close(*images, rtol=0, atol=1e-4)


def test_codes_take_few_steps(name):
    """Newton steps for the sets with faces, eight iterations of the splitting for the others."""
    x, dictionary = gaussian(50)
    num_steps = solve(x, dictionary, SETS[name][0]).num_steps
    assert num_steps.median() <= 12


def test_a_set_of_three_methods_is_solved_as_its_original(name):
    """Without a face, support and contains of its own."""
    x, dictionary = gaussian(20)
    original, _ = SETS[name]

    class Plain(fwnet.ConvexSet):
        lmo, project, gauge = original.lmo, original.project, original.gauge
        contains = contains_by_distance

    solution, expected = (solve(x, dictionary, c) for c in (Plain(), original))
    assert solution.certified.all()
    reached, best = (objective(x, dictionary, s.code) for s in (solution, expected))
    torch.testing.assert_close(reached, best, rtol=0, atol=1e-9)


def test_codes_agree_with_cvxpy(name):
    """50 problems: objectives within 1e-6 of CVXPY's."""
    cvxpy = pytest.importorskip("cvxpy")
    convex_set, description = SETS[name]
    x, dictionary = gaussian(50)
    z, target = cvxpy.Variable(15), cvxpy.Parameter(8)
    if description is None:
        matrix = cvxpy.reshape(z, (3, 5), order="C")
        constraints = [cvxpy.normNuc(matrix) <= convex_set.radius]
    else:
        shape = description()
        shape.size = 15
        constraints = shape.constraints(cvxpy, z, convex_set)
    loss = cvxpy.Minimize(0.5 * cvxpy.sum_squares(target - dictionary.numpy() @ z))
    problem = cvxpy.Problem(loss, constraints)
    theirs = []
    for row in x.numpy():
        target.value = row
        problem.solve(solver=cvxpy.CLARABEL)
        theirs.append(problem.value)
    ours = objective(x, dictionary, solve(x, dictionary, convex_set).code)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-6)


def test_float32_and_frank_wolfe(name):
    x, dictionary = gaussian(10, dtype=torch.float32)
    convex_set, _ = SETS[name]
    solution = solve(x, dictionary, convex_set)
    assert solution.code.dtype == torch.float32
    assert solution.certified.all()
    assert convex_set.contains(solution.code, tol=1e-5).all()
    loose = solve(x, dictionary, convex_set, method="frank-wolfe", tol=0.01)
    assert loose.certified.all()
    assert convex_set.contains(loose.code, tol=1e-5).all()


def test_rows_of_zeros_and_rows_that_are_not_finite(name):
    x, dictionary = gaussian(4)
    convex_set, _ = SETS[name]
    x[1], x[2, 3] = 0, torch.nan
    solution = solve(x, dictionary, convex_set)
    assert (solution.status_code[[0, 1, 3]] == Status.CERTIFIED).all()
    assert solution.status_code[2] == Status.NOT_FINITE
    assert solution.code[2].isnan().all()
    if convex_set.contains(torch.zeros(15)):
        assert (solution.code[1] == 0).all()


def test_weights_leave_entries_out():
    x, dictionary = gaussian(6)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 2] = False
    masked = solve(x.masked_fill(~mask, torch.nan), dictionary, fwnet.Simplex(), weights=mask).code
    kept = [0, 1, 3, 4, 5, 6, 7]
    without = solve(x[:, kept], dictionary[kept], fwnet.Simplex())
    reached = objective(x[:, kept], dictionary[kept], masked)
    best = objective(x[:, kept], dictionary[kept], without.code)
    torch.testing.assert_close(reached, best, rtol=0, atol=1e-9)


def test_a_start_is_used():
    x, dictionary = gaussian(20)
    for convex_set in (fwnet.Simplex(), fwnet.KSupportBall(3)):
        solution = solve(x, dictionary, convex_set)
        again = solve(x, dictionary, convex_set, start=solution.code)
        assert (again.num_steps == 0).all()


def test_a_set_without_projection_is_solved_by_frank_wolfe():
    x, dictionary = gaussian(5)
    solution = solve(x, dictionary, fwnet.GroupLpBall(GROUPS, 1.5, 3.0), tol=1e-3)
    assert solution.certified.all()
    with pytest.raises(NotImplementedError, match="needs inner = 2"):
        solve(x, dictionary, fwnet.GroupLpBall(GROUPS, 1.5, 3.0), method=ProjectedGradient())


@pytest.mark.filterwarnings("ignore::fwnet.solvers.UncertifiedWarning")
def test_gradients_agree_with_differences(name):
    """D is tall, so that the code is unique and its gradient exists.

    The tolerance is that of rounding: rows may end just above it, on some CPUs.
    """
    x, dictionary = gaussian(3, n=18)
    convex_set, _ = SETS[name]
    x.requires_grad_()
    dictionary.requires_grad_()

    def code(x, dictionary):
        return solve(x, dictionary, convex_set, tol=1e-13).code

    assert torch.autograd.gradcheck(
        code, (x, dictionary), eps=1e-4, atol=1e-4, rtol=3e-3, fast_mode=True
    )


def test_gradients_reach_the_tensors_of_the_set_and_stop_at_the_second():
    x, dictionary = gaussian(5, n=18)
    high = torch.full((15,), 0.2, dtype=torch.float64, requires_grad=True)
    radius = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def in_box(high):
        return solve(x, dictionary, fwnet.Box(-0.1, high), tol=1e-13).code

    def in_ball(radius):
        return solve(x, dictionary, fwnet.NonnegativeLpBall(2.0, radius), tol=1e-13).code

    assert torch.autograd.gradcheck(in_box, (high,), eps=1e-5, atol=1e-4)
    assert torch.autograd.gradcheck(in_ball, (radius,), eps=1e-5, atol=1e-4)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(in_box(high).sum(), high, create_graph=True)
    weights = torch.rand(5, 18, dtype=torch.float64)
    x.requires_grad_()

    def weighted(x):
        return solve(x, dictionary, fwnet.Simplex(), weights=weights, tol=1e-13).code

    assert torch.autograd.gradcheck(weighted, (x,), eps=1e-5, atol=1e-4, fast_mode=True)


def test_half_a_simplex_is_the_hand_computed_code():
    """D = I: the code is the projection. (1, 0.4, −1) on the simplex is (0.8, 0.2, 0)."""
    x = torch.tensor([[1.0, 0.4, -1.0]], dtype=torch.float64)
    code = solve(x, None, fwnet.Simplex()).code
    expected = torch.tensor([[0.8, 0.2, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(code, expected, rtol=0, atol=1e-6)
    assert math.isclose(code.sum().item(), 1.0, abs_tol=1e-12)


@pytest.mark.parametrize("n", [8, 18])
def test_nonnegative_codes_inside_the_ball_and_on_the_sphere(n):
    """Radii from where every code is on the sphere to where none is: all certified."""
    x, dictionary = gaussian(40, n=n)
    for radius in (0.1, 1.0, 3.0, 100.0):
        ball = fwnet.NonnegativeLpBall(1.3, radius)
        solution = solve(x, dictionary, ball)
        assert solution.certified.all(), radius
        assert ball.contains(solution.code).all()
        other = solve(x, dictionary, ball, method=ProjectedGradient(newton=False), tol=1e-9)
        reached, best = (objective(x, dictionary, s.code) for s in (solution, other))
        assert (reached <= best + 1e-8 * x.square().sum(-1)).all()
