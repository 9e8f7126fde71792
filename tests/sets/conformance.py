"""Tests that every convex set must pass: oracle, projection and gauge describe the same set."""

import numpy as np
import pytest
import torch

from fwnet import ConvexSet


class ConvexSetConformance:
    """Inherit and give a fixture `convex_set` that yields sets in ℝ^size.

    Subclasses of sets whose gauge is infinite in some directions override `rays`; those that CVXPY
    can describe give `constraints(cvxpy, variable, convex_set)`.
    """

    size = 7
    contains_zero = True

    def rays(self, convex_set):
        """Return points where the gauge is finite."""
        return self.points()

    def constraints(self, cvxpy, z, convex_set):
        return None

    def points(self, count=50):
        return 3 * torch.randn(count, self.size, dtype=torch.float64)

    def test_follows_the_protocol(self, convex_set):
        assert isinstance(convex_set, ConvexSet)

    def test_oracle_is_feasible_and_unbeaten(self, convex_set):
        u = self.points()
        s = convex_set.lmo(u)
        feasible = convex_set.project(self.points(300))
        assert convex_set.contains(s).all()
        best = (u * s).sum(-1, keepdim=True)
        assert (u @ feasible.T >= best - 1e-12 * best.abs()).all()
        support = convex_set.support(-u)
        torch.testing.assert_close(support, -best.squeeze(-1), rtol=1e-12, atol=1e-13)

    def test_projection_satisfies_its_variational_inequality(self, convex_set):
        """⟨y − z, s − z⟩ ≤ 0 for every feasible s, the oracle's worst one included."""
        y = self.points()
        z = convex_set.project(y)
        assert convex_set.contains(z).all()
        worst = convex_set.lmo(z - y)
        scale = (y * y).sum(-1)
        assert (((y - z) * (worst - z)).sum(-1) <= 1e-11 * scale).all()

    def test_projection_leaves_feasible_points_alone(self, convex_set):
        if self.contains_zero:
            inside, atol = 0.9 * convex_set.project(self.points()), 0
        else:
            inside, atol = convex_set.project(self.points(100)).unflatten(0, (2, 50)).mean(0), 1e-14
        torch.testing.assert_close(convex_set.project(inside), inside, rtol=0, atol=atol)

    def test_projection_twice_is_projection_once(self, convex_set):
        z = convex_set.project(self.points())
        torch.testing.assert_close(convex_set.project(z), z, rtol=1e-12, atol=1e-13)

    def test_projection_does_not_expand(self, convex_set):
        y, other = self.points(), self.points()
        moved = (convex_set.project(y) - convex_set.project(other)).norm(dim=-1)
        assert (moved <= (y - other).norm(dim=-1) * (1 + 1e-12)).all()

    def test_gauge_is_a_norm_like_function_of_the_set(self, convex_set):
        z = self.rays(convex_set)
        gauge = convex_set.gauge(z)
        torch.testing.assert_close(convex_set.gauge(2.5 * z), 2.5 * gauge)
        border = z / gauge.unsqueeze(-1)
        torch.testing.assert_close(convex_set.gauge(border), torch.ones_like(gauge))
        assert (convex_set.gauge(z + z.flip(0)) <= gauge + gauge.flip(0) + 1e-12).all()
        assert convex_set.gauge(torch.zeros(self.size)).item() == 0

    def test_contains_follows_the_gauge(self, convex_set):
        z = self.rays(convex_set)
        border = z / convex_set.gauge(z).unsqueeze(-1)
        assert convex_set.contains(border).all()
        assert not convex_set.contains(1.001 * border).any()
        assert convex_set.contains(1.001 * border, tol=0.01).all()

    def test_any_batch_shape(self, convex_set):
        y = self.points(6).reshape(2, 3, self.size)
        for method in (convex_set.lmo, convex_set.project):
            assert method(y).shape == y.shape
            torch.testing.assert_close(method(y)[1, 2], method(y[1, 2]))
            assert method(y[:0]).shape == (0, 3, self.size)
        assert convex_set.gauge(y).shape == (2, 3)

    def test_keeps_the_dtype(self, convex_set):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            y = self.points(4).to(dtype)
            assert convex_set.lmo(y).dtype == dtype
            assert convex_set.project(y).dtype == dtype

    def test_ties_and_zeros(self, convex_set):
        """Rows of equal entries and of zeros have feasible answers that no point beats."""
        u = torch.stack([torch.full((self.size,), value) for value in (0.0, 2.0, -2.0)]).double()
        feasible = convex_set.project(self.points(300))
        s, z = convex_set.lmo(u), convex_set.project(u)
        assert convex_set.contains(s).all()
        assert convex_set.contains(z).all()
        assert (u @ feasible.T >= (u * s).sum(-1, keepdim=True) - 1e-12).all()
        apart = (u.unsqueeze(1) - feasible).norm(dim=-1).amin(-1)
        assert ((u - z).norm(dim=-1) <= apart + 1e-12).all()

    @pytest.mark.parametrize("scale", [1e-9, 1e6])
    def test_projection_from_near_and_far(self, convex_set, scale):
        y = scale * self.points()
        z = convex_set.project(y)
        assert convex_set.contains(z, tol=1e-8).all()
        worst = convex_set.lmo(z - y)
        size = y.norm(dim=-1) * (1e-9 + z.norm(dim=-1) + worst.norm(dim=-1))
        assert (((y - z) * (worst - z)).sum(-1) <= 1e-8 * size).all()

    def test_float32_agrees_with_float64(self, convex_set):
        y = self.points().float()
        torch.testing.assert_close(
            convex_set.project(y).double(), convex_set.project(y.double()), rtol=0, atol=2e-5
        )
        torch.testing.assert_close(
            convex_set.support(y).double(), convex_set.support(y.double()), rtol=1e-5, atol=1e-5
        )

    def test_projection_gradcheck(self, convex_set):
        y = self.points(4).requires_grad_()
        assert torch.autograd.gradcheck(convex_set.project, (y,), fast_mode=True, atol=1e-4)

    def test_agrees_with_cvxpy(self, convex_set):
        """Projection and oracle of CVXPY with Clarabel are no better than ours, and as near."""
        cvxpy = pytest.importorskip("cvxpy")
        variable = cvxpy.Variable(self.size)
        constraints = self.constraints(cvxpy, variable, convex_set)
        if constraints is None:
            pytest.skip("not described for CVXPY")
        target = cvxpy.Parameter(self.size)
        nearest = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(variable - target)), constraints)
        lowest = cvxpy.Problem(cvxpy.Minimize(target @ variable), constraints)
        y = self.points(3)
        z, s = convex_set.project(y), convex_set.lmo(y)
        for row in range(3):
            target.value = y[row].numpy()
            nearest.solve(solver=cvxpy.CLARABEL)
            np.testing.assert_allclose(z[row].numpy(), variable.value, atol=1e-4)
            assert (z[row] - y[row]).square().sum() <= nearest.value + 1e-6
            lowest.solve(solver=cvxpy.CLARABEL)
            assert float(s[row] @ y[row]) == pytest.approx(lowest.value, abs=1e-6)
