"""Every set but the Lp ball: the conformance class, what is its own, and errors."""

import json
import math

import pytest
import torch

import fwnet
from tests.sets.conformance import ConvexSetConformance

GROUPS = ((0, 3), (1, 2, 6), (4,), (5,))


class Cone(ConvexSetConformance):
    """A set whose gauge is finite on a cone only."""

    def rays(self, convex_set):
        return 2 * convex_set.project(self.points())


class TestNonnegativeLpBall(ConvexSetConformance):
    @pytest.fixture(params=[1.0, 1.3, 2.0, 4.0, math.inf])
    def convex_set(self, request):
        return fwnet.NonnegativeLpBall(request.param, radius=1.5)

    def rays(self, convex_set):
        return self.points().abs()

    def constraints(self, cvxpy, z, convex_set):
        if convex_set.p in (1, 2, math.inf):
            return [z >= 0, cvxpy.norm(z, convex_set.p) <= convex_set.radius]
        return [z >= 0, cvxpy.pnorm(z, convex_set.p, approx=False) <= convex_set.radius]


class TestSimplex(Cone):
    contains_zero = False

    @pytest.fixture(params=[None, 0.6, 1.5 / 7])
    def convex_set(self, request):
        return fwnet.Simplex(total=1.5, cap=request.param)

    def constraints(self, cvxpy, z, convex_set):
        if convex_set.cap == 1.5 / 7:
            return None  # a single point
        capped = [] if convex_set.cap is None else [z <= convex_set.cap]
        return [z >= 0, cvxpy.sum(z) == convex_set.total, *capped]


class TestBox(Cone):
    contains_zero = False

    @pytest.fixture(params=["numbers", "tensors", "without zero"])
    def convex_set(self, request):
        if request.param == "numbers":
            return fwnet.Box(-1.0, 2.0)
        low = torch.linspace(-1, 0, self.size, dtype=torch.float64)
        if request.param == "tensors":
            return fwnet.Box(low, torch.linspace(0.5, 3, self.size, dtype=torch.float64))
        return fwnet.Box(low + 1.5, 4.0)

    def rays(self, convex_set):
        low, high = (torch.as_tensor(b).double() for b in (convex_set.low, convex_set.high))
        return 3 * (low + (high - low) * torch.rand(50, self.size, dtype=torch.float64))

    def constraints(self, cvxpy, z, convex_set):
        low, high = (torch.as_tensor(b).double().numpy() for b in (convex_set.low, convex_set.high))
        return [z >= low, z <= high]


class TestGroupLpBall(ConvexSetConformance):
    @pytest.fixture(params=[(1, 2), (1.5, 2), (math.inf, 2), (math.inf, 1.3), (3, 3), (2, 2)])
    def convex_set(self, request):
        p, inner = request.param
        return fwnet.GroupLpBall(GROUPS, p=float(p), inner=float(inner), radius=1.5)

    def constraints(self, cvxpy, z, convex_set):
        if convex_set.p != 1:
            return None
        norms = [cvxpy.norm(z[list(group)], 2) for group in convex_set.groups]
        return [sum(norms) <= convex_set.radius]


class TestKSupportBall(ConvexSetConformance):
    @pytest.fixture(params=[1, 2, 4, 7, 20])
    def convex_set(self, request):
        return fwnet.KSupportBall(request.param, radius=1.5)

    def constraints(self, cvxpy, z, convex_set):
        if convex_set.k > self.size:
            return None
        shares, parts = cvxpy.Variable(self.size), cvxpy.Variable(self.size)
        cones = [cvxpy.quad_over_lin(z[i], shares[i]) <= parts[i] for i in range(self.size)]
        budget = [shares <= 1, cvxpy.sum(shares) <= convex_set.k]
        return [*cones, *budget, cvxpy.sum(parts) <= convex_set.radius**2]


@pytest.mark.parametrize("cap", [None, 0.3, 0.6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_simplex_projects_entries_far_apart(dtype, cap):
    """Those at the end of the shares are resolved, however large others are."""
    simplex = fwnet.Simplex(1.0, cap)
    limit = torch.finfo(dtype).max
    y = 2 * torch.rand(20, 7, dtype=dtype) - 1
    for scale in (1e10, 1e16, limit / 4, limit):
        assert simplex.contains(simplex.project(scale * y), tol=1e-6).all()
    near = torch.tensor([[0.2, 0.0, 0.0, -0.1]], dtype=dtype)
    far = torch.cat([torch.full_like(near[:, :1], limit / 4), near], -1)
    if cap is not None:
        rest = fwnet.Simplex(1.0 - cap, min(cap, 1.0 - cap)).project(near)
        torch.testing.assert_close(simplex.project(far)[:, 1:], rest)


class TestSortedL1Ball(ConvexSetConformance):
    @pytest.fixture(params=["oscar", "slope", "l1", "max"])
    def convex_set(self, request):
        weights = {
            "oscar": [1 + 0.2 * i for i in range(self.size)][::-1],
            "slope": [2.0, 1.0, 0.5, 0.5, 0.1, 0.0, 0.0],
            "l1": [1.0] * self.size,
            "max": [1.0] + [0.0] * (self.size - 1),
        }
        return fwnet.SortedL1Ball(weights[request.param], radius=1.5)

    def constraints(self, cvxpy, z, convex_set):
        falls = [
            a - b for a, b in zip(convex_set.weights, [*convex_set.weights[1:], 0.0], strict=True)
        ]
        parts = [
            fall * (cvxpy.sum_largest(cvxpy.abs(z), count) if count < self.size else cvxpy.norm1(z))
            for count, fall in enumerate(falls, 1)
            if fall > 0
        ]
        return [sum(parts) <= convex_set.radius]

    def test_the_projection_is_differentiable_in_the_weights(self):
        y = 3 * torch.randn(4, self.size, dtype=torch.float64)
        falls = torch.rand(self.size, dtype=torch.float64, requires_grad=True)

        def project(falls):
            weights = 0.1 + falls.flip(-1).cumsum(-1).flip(-1)
            return fwnet.SortedL1Ball(weights, radius=1.5).project(y)

        assert torch.autograd.gradcheck(project, (falls,))


class TestSchattenBall(ConvexSetConformance):
    size = 12

    @pytest.fixture(params=[1.0, 1.3, 2.0, math.inf])
    def convex_set(self, request):
        return fwnet.SchattenBall((3, 4), request.param, radius=1.5)

    def constraints(self, cvxpy, z, convex_set):
        norms = {1.0: cvxpy.normNuc, math.inf: cvxpy.sigma_max, 2.0: lambda m: cvxpy.norm(m, "fro")}
        if convex_set.p not in norms:
            return None
        return [norms[convex_set.p](cvxpy.reshape(z, (3, 4), order="C")) <= convex_set.radius]


def test_limits_are_lp_balls():
    y = 2 * torch.randn(50, 6, dtype=torch.float64)
    equal = {
        1.0: [
            fwnet.KSupportBall(1),
            fwnet.SortedL1Ball([1.0] * 6),
            fwnet.GroupLpBall([[i] for i in range(6)]),
        ],
        2.0: [
            fwnet.KSupportBall(6),
            fwnet.GroupLpBall([range(6)]),
            fwnet.SchattenBall((1, 6), 1.0),
        ],
        math.inf: [fwnet.SortedL1Ball([1.0, 0, 0, 0, 0, 0]), fwnet.Box(-1.0, 1.0)],
    }
    for p, sets in equal.items():
        ball = fwnet.LpBall(p)
        for other in sets:
            torch.testing.assert_close(other.project(y), ball.project(y))
            torch.testing.assert_close(other.gauge(y), ball.gauge(y))
            torch.testing.assert_close(other.support(y), ball.support(y))
            torch.testing.assert_close(other.lmo(y), ball.lmo(y))


def test_k_support_projection_with_fewer_entries_than_k():
    y = torch.zeros(3, 8, dtype=torch.float64)
    y[0, :2] = torch.tensor([3.0, 4.0])
    y[1, 5] = -2.0
    z = fwnet.KSupportBall(4, 1.0).project(y)
    torch.testing.assert_close(z[0, :2], torch.tensor([0.6, 0.8], dtype=torch.float64))
    assert z[1, 5] == -1
    assert (z[2] == 0).all()


@pytest.mark.parametrize("radius", [0.02, 0.3, 2.0])
def test_k_support_the_quick_search_agrees_with_the_certain_one(radius):
    ball = fwnet.KSupportBall(5, radius)
    a = torch.rand(2000, 40, dtype=torch.float64)
    a /= a.amax(-1, keepdim=True)
    target = torch.full((2000, 1), radius, dtype=torch.float64)
    quick, certain = ball._multiplier(a, target), ball._bracketed(a, target)
    torch.testing.assert_close(quick[0], certain[0], rtol=1e-9, atol=1e-9)


def test_sorted_l1_gives_correlated_entries_one_magnitude():
    z = fwnet.SortedL1Ball([3.0, 2.0, 1.0]).project(torch.tensor([[2.0, -1.9, 0.3]]))
    assert z[0, 0] == -z[0, 1]
    assert z[0, 2] == 0


def test_the_oracle_of_large_matrices_needs_no_full_decomposition():
    """Rows with singular values apart, near each other, equal and 0."""
    apart = torch.randn(250, 5, dtype=torch.float64) @ torch.randn(5, 220, dtype=torch.float64)
    near = torch.randn(250, 220, dtype=torch.float64)
    u = torch.stack([apart, near, torch.eye(250, 220).double(), torch.zeros_like(near)]).flatten(-2)
    ball = fwnet.SchattenBall((250, 220), 1.0, radius=2.0)
    s = ball.lmo(u)
    assert ball.contains(s).all()
    reached, best = -(u * s).sum(-1), ball.support(-u)
    torch.testing.assert_close(reached, best, rtol=1e-7, atol=1e-12)


def test_nan_stays_nan():
    y = torch.tensor([[math.nan, 1.0, 0.5, 2.0], [3.0, 4.0, 5.0, 1.0]])
    for convex_set in (
        fwnet.NonnegativeLpBall(2.0),
        fwnet.Simplex(),
        fwnet.Box(0.0, 1.0),
        fwnet.GroupLpBall([[0, 1], [2, 3]]),
        fwnet.KSupportBall(2),
        fwnet.SortedL1Ball([2.0, 1.0, 1.0, 0.5]),
    ):
        for method in (convex_set.lmo, convex_set.project):
            assert method(y)[0].isnan().any(), (convex_set, method)
            assert method(y)[1].isfinite().all(), (convex_set, method)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fwnet.Simplex(-1.0), "total must be > 0 and finite, got -1.0"),
        (lambda: fwnet.Simplex(1.0, cap=0.0), "cap must be > 0 and finite, got 0.0"),
        (
            lambda: fwnet.Simplex(1.0, cap=0.1).project(torch.randn(3)),
            r"cap must be at least total / m = 1.0 / 3, got 0.1",
        ),
        (lambda: fwnet.Box(1.0, 0.0), "low and high must be finite, low <= high"),
        (lambda: fwnet.Box(torch.zeros(2), 1.0).lmo(torch.randn(3)), "rows of length 2"),
        (lambda: fwnet.GroupLpBall([[0, 1], [1, 2]]), "must not overlap, got entry 1"),
        (lambda: fwnet.GroupLpBall([[0, 2]]), "every index from 0 to m - 1 once"),
        (lambda: fwnet.GroupLpBall([[0, 1]]).lmo(torch.ones(3)), "rows of length 2"),
        (lambda: fwnet.KSupportBall(0), "k must be an integer >= 1, got 0"),
        (lambda: fwnet.SortedL1Ball([1.0, 2.0]), "weights must be finite numbers w_1 >= w_2"),
        (lambda: fwnet.SortedL1Ball([1.0, 0.5]).gauge(torch.ones(3)), "rows of length 2"),
        (lambda: fwnet.SchattenBall((2, 0)), "shape must be an integer >= 1, got 0"),
        (lambda: fwnet.SchattenBall((2, 2)).lmo(torch.ones(3)), r"2 \* 2 = 4, got shape \(3,\)"),
        (lambda: fwnet.NonnegativeLpBall(0.5), r"p must be in \[1, inf\], got 0.5"),
    ],
)
def test_errors_say_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "convex_set",
    [
        fwnet.LpBall(1.3, 2.0),
        fwnet.NonnegativeLpBall(math.inf, 2.0),
        fwnet.Simplex(1.0, cap=0.3),
        fwnet.Box(torch.linspace(-0.3, 0.1, 6, dtype=torch.float64), 0.7),
        fwnet.GroupLpBall([range(3), (5, 4, 3)], 1.0, 2.0, 0.3),
        fwnet.KSupportBall(3, 0.2),
        fwnet.SortedL1Ball([0.3, 0.2, 0.1, 0.1, 0.0, 0.0]),
        fwnet.SchattenBall((2, 3), 1.0, 0.1),
    ],
    ids=lambda convex_set: type(convex_set).__name__,
)
def test_sets_in_files_are_the_same_sets(convex_set):
    """Through JSON, all digits kept."""
    text = json.dumps(fwnet.sets.set_to_config(convex_set))
    again = fwnet.sets.set_from_config(json.loads(text))
    y = torch.randn(5, 6, dtype=torch.float64)
    assert type(again) is type(convex_set)
    torch.testing.assert_close(again.project(y), convex_set.project(y), rtol=0, atol=0)


def test_unknown_sets_in_files_are_refused():
    with pytest.raises(ValueError, match=r"set must be one of Box, .*, got 'Ball'"):
        fwnet.sets.set_from_config({"set": "Ball"})
    with pytest.raises(TypeError, match="a set in a file must be one of"):
        fwnet.sets.set_to_config(3)


def test_sets_are_equal_if_their_arguments_are():
    box = fwnet.Box(torch.zeros(3), torch.ones(3))
    assert box == fwnet.Box(torch.zeros(3), [1.0, 1.0, 1.0])
    assert box != fwnet.Box(torch.zeros(3), torch.full((3,), 2.0))
    assert len({box, fwnet.Box(torch.zeros(3), torch.ones(3))}) == 1
    assert fwnet.LpBall(torch.tensor(1.5)) == fwnet.LpBall(1.5) != fwnet.LpBall(1.5, 2.0)
    assert len({fwnet.LpBall(torch.tensor(1.5)), fwnet.LpBall(torch.tensor(1.5))}) == 1
    assert fwnet.LpBall(1.5) != fwnet.NonnegativeLpBall(1.5)
