"""Tests that every convex set must pass: oracle, projection and gauge describe the same set."""

import torch

from fwnet import ConvexSet


class ConvexSetConformance:
    """Inherit and give a fixture `convex_set` that yields sets in ℝ^size."""

    size = 7

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

    def test_projection_satisfies_its_variational_inequality(self, convex_set):
        """⟨y − z, s − z⟩ ≤ 0 for every feasible s, the oracle's worst one included."""
        y = self.points()
        z = convex_set.project(y)
        assert convex_set.contains(z).all()
        worst = convex_set.lmo(z - y)
        scale = (y * y).sum(-1)
        assert (((y - z) * (worst - z)).sum(-1) <= 1e-11 * scale).all()

    def test_projection_leaves_feasible_points_alone(self, convex_set):
        inside = 0.9 * convex_set.project(self.points())
        torch.testing.assert_close(convex_set.project(inside), inside, rtol=0, atol=0)

    def test_projection_twice_is_projection_once(self, convex_set):
        z = convex_set.project(self.points())
        torch.testing.assert_close(convex_set.project(z), z, rtol=1e-12, atol=1e-13)

    def test_projection_does_not_expand(self, convex_set):
        y, other = self.points(), self.points()
        moved = (convex_set.project(y) - convex_set.project(other)).norm(dim=-1)
        assert (moved <= (y - other).norm(dim=-1) * (1 + 1e-12)).all()

    def test_gauge_is_a_norm_like_function_of_the_set(self, convex_set):
        z = self.points()
        gauge = convex_set.gauge(z)
        torch.testing.assert_close(convex_set.gauge(2.5 * z), 2.5 * gauge)
        border = z / gauge.unsqueeze(-1)
        torch.testing.assert_close(convex_set.gauge(border), torch.ones_like(gauge))
        assert (convex_set.gauge(z + z.flip(0)) <= gauge + gauge.flip(0) + 1e-12).all()
        assert convex_set.gauge(torch.zeros(self.size)).item() == 0

    def test_contains_follows_the_gauge(self, convex_set):
        z = self.points()
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
