"""`solve` with its own methods: optimal, shortest, and honest about both, for every p."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, lars_path
from threadpoolctl import ThreadpoolController

from fwnet import (
    Box,
    KSupportBall,
    LpBall,
    NonnegativeLpBall,
    Simplex,
    dual_exponent,
    solve,
)
from fwnet.solvers import CVX, Auto, Status, UncertifiedWarning, blocks
from fwnet.solvers.problem import Constrained
from fwnet.solvers.threads import for_each
from tests.solvers.problems import EXPONENTS, FEW_EXPONENTS, gaussian, objective, paper


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("radius", [5.0, 2.5, 0.3])
def test_certified_at_every_p(p, radius):
    x, dictionary = paper(30)
    ball = LpBall(p, radius)
    solution = solve(x, dictionary, ball)
    assert solution.certified.all(), solution
    assert (solution.gap <= 1e-10 * 0.5 * x.square().sum(-1)).all()
    assert (solution.norm_gap <= 1e-8).all()
    assert (ball.gauge(solution.code) <= 1 + 1e-12).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_default_dtype_changes_nothing(dtype):
    x, dictionary = (one.to(dtype) for one in paper(20))
    sets = [LpBall(p, 2.5) for p in EXPONENTS]
    sets += [Simplex(2.0), Box(-0.1, 0.2), NonnegativeLpBall(1.0, 2.5), KSupportBall(3, 2.0)]
    before = [solve(x, dictionary, one).code for one in sets]
    try:
        torch.set_default_dtype(torch.float64)
        after = [solve(x, dictionary, one).code for one in sets]
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other, convex_set in zip(before, after, sets, strict=True):
        torch.testing.assert_close(one, other, msg=f"{convex_set}")


@pytest.mark.parametrize("method", ["cvx", "pairwise-frank-wolfe", "coordinate-descent"])
def test_methods_for_lp_balls_alone_name_the_set(method):
    if method == "cvx":
        pytest.importorskip("cvxpy")
    x, dictionary = paper(2)
    with pytest.raises((TypeError, ValueError), match=r"got Simplex\(total=1\.0, cap=None\)$"):
        solve(x, dictionary, Simplex(), method=method)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_certified_at_loose_tolerances(p, tol):
    x, dictionary = gaussian(50)
    for radius in (0.3, 0.8, 5.0):
        solution = solve(x, dictionary, LpBall(p, radius), tol=tol)
        assert solution.certified.all(), (radius, solution)


@pytest.mark.parametrize("p", [1.0, 1.02, 1.3, 3.0, math.inf])
@pytest.mark.parametrize("radius", [5.0, 0.3])
def test_agrees_with_cvxpy(p, radius):
    pytest.importorskip("cvxpy")
    x, dictionary = paper(2)
    ours = solve(x, dictionary, LpBall(p, radius))
    theirs = solve(x, dictionary, LpBall(p, radius), method="cvx", tol=1e-6)
    assert theirs.certified.all()
    difference = objective(x, dictionary, ours.code) - objective(x, dictionary, theirs.code)
    assert (difference.abs() <= 1e-6).all()
    torch.testing.assert_close(ours.code, theirs.code, rtol=0, atol=2e-4)


@given(
    p=st.sampled_from(EXPONENTS) | st.floats(1.01, 12.0),
    radius=st.floats(0.05, 20.0),
    n=st.integers(1, 9),
    m=st.integers(1, 12),
    seed=st.integers(0, 10**6),
)
def test_optimality_conditions(p, radius, n, m, seed):
    """z is the oracle's answer to its own gradient, or an exact code that Hölder's bound meets."""
    x, dictionary = gaussian(3, n, m, seed)
    ball = LpBall(p, radius)
    solution = solve(x, dictionary, ball, tol=1e-10)
    assert solution.certified.all(), (p, radius, n, m, seed, solution, solution.status)
    residual = x - solution.code @ dictionary.T
    correlation = residual @ dictionary
    slack = ball.support(correlation) - (correlation * solution.code).sum(-1)
    inner = Constrained(dictionary, ball).inside(residual)
    exact = inner.norm(dim=-1) <= 1e-7 * x.norm(dim=-1)
    # The Frank-Wolfe gap of the code's own residual may be of the order of the root of the gap.
    assert (exact | (slack <= 1e-3 * x.square().sum(-1))).all()


def test_float32_is_certified_at_its_own_tolerance():
    x, dictionary = paper(60)
    for p in (1.02, 1.3, 2.0, 3.0, math.inf):
        for radius in (5.0, 2.5):
            ball = LpBall(p, radius)
            solution = solve(x.float(), dictionary.float(), ball)
            assert solution.certified.all(), (p, radius, solution)
            assert ball.contains(solution.code).all()
            precise = solve(x, dictionary, ball).code
            assert (solution.code - precise).norm(dim=-1).max() < 0.15


class TestLeastNorm:
    """Without it any interpolating code would pass: the least norm has its own certificate."""

    @pytest.mark.parametrize("p", EXPONENTS)
    def test_no_exact_code_is_shorter(self, p):
        x, dictionary = gaussian(20, 6, 14)
        ball = LpBall(p, 100.0)
        code = solve(x, dictionary, ball).code
        torch.testing.assert_close(code @ dictionary.T, x, rtol=0, atol=1e-9)
        _, _, right = torch.linalg.svd(dictionary)
        generator = torch.Generator().manual_seed(1)
        norm = ball.gauge(code)
        for size in (1.0, 1e-2, 1e-4):
            coefficients = torch.randn(20, 8, dtype=torch.float64, generator=generator)
            other = code + size * coefficients @ right[6:]
            assert (ball.gauge(other) >= norm - 1e-8 * norm).all()

    def test_a_longer_exact_code_is_not_certified(self):
        x, dictionary = gaussian(5, 6, 14)
        problem = Constrained(dictionary, LpBall(1.3, 100.0))
        shortest = solve(x, dictionary, problem.convex_set)
        _, _, right = torch.linalg.svd(dictionary)
        longer = shortest.code + right[7]
        # Whatever the dual vector, the bound stays below the least norm.
        generator = torch.Generator().manual_seed(0)
        for _ in range(20):
            v = torch.randn(5, 6, dtype=torch.float64, generator=generator)
            certificate = problem.certify(x, longer, v)
            assert (certificate.norm_gap >= (certificate.norm - shortest.code.norm(1.3, -1))).all()
        assert (problem.certify(x, longer, x).relative_gap < 1e-20).all()

    def test_an_optimal_code_that_is_longer_says_so(self):
        x, dictionary = gaussian(5, 6, 14)
        ball = LpBall(1.3, 100.0)
        shortest = solve(x, dictionary, ball)
        _, _, right = torch.linalg.svd(dictionary)
        longer = solve(x, dictionary, ball, method="fista", start=shortest.code + right[7])
        assert (shortest.status_code == Status.CERTIFIED).all()
        assert (longer.status_code == Status.OPTIMAL).all()


class TestCertificate:
    @settings(max_examples=30)
    @given(seed=st.integers(0, 10**6), p=st.sampled_from(EXPONENTS))
    def test_is_an_upper_bound_for_any_dual_vector(self, seed, p):
        x, dictionary = gaussian(4, 5, 7, seed)
        ball = LpBall(p, 0.7)
        best = objective(x, dictionary, solve(x, dictionary, ball, tol=1e-12).code)
        generator = torch.Generator().manual_seed(seed)
        z = ball.project(torch.randn(4, 7, dtype=torch.float64, generator=generator))
        v = torch.randn(4, 5, dtype=torch.float64, generator=generator)
        certificate = Constrained(dictionary, ball).certify(x, z, v)
        gap = certificate.relative_gap * 0.5 * x.square().sum(-1)
        assert (objective(x, dictionary, z) - best <= gap + 1e-9).all()

    def test_brings_the_code_into_the_ball(self):
        x, dictionary = gaussian(4)
        ball = LpBall(1.3, 0.5)
        outside = torch.ones(4, dictionary.shape[1], dtype=torch.float64)
        certificate = Constrained(dictionary, ball).certify(x, outside, x)
        assert (ball.gauge(certificate.code) <= 1 + 1e-15).all()

    def test_a_singular_value_taken_for_zero_is_not_forgotten(self):
        """What a badly scaled dictionary hides is part of the gap, not left out of it."""
        dictionary = torch.diag(torch.tensor([1e16, 1.0], dtype=torch.float64))
        x = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        with pytest.warns(UncertifiedWarning, match="1 of 1 codes .* similar lengths"):
            solution = solve(x, dictionary, LpBall(2.0, 1.0))
        reached = objective(x, dictionary, solution.code)
        assert reached - solution.gap <= 0
        assert solution.certified.item() == (reached.item() < 1e-10)

    def test_float32_gaps_are_bounds(self):
        x, dictionary = gaussian(50, 50, 100, dtype=torch.float32)
        for p in (1.0, 1.3, 3.0):
            ball = LpBall(p, 2.0)
            for tol in (1e-6, 1e-8, 1e-12):
                solution = solve(x, dictionary, ball, tol=tol, warn=False)
                best = objective(
                    x.double(),
                    dictionary.double(),
                    solve(x.double(), dictionary.double(), ball, tol=1e-13).code,
                )
                reached = objective(x.double(), dictionary.double(), solution.code.double())
                assert (reached - best <= solution.gap + 1e-12).all()
                assert (ball.gauge(solution.code.double()) <= 1).all()

    def test_a_float32_exponent_keeps_its_digits(self):
        x, dictionary = gaussian()
        for p in (1.3, 1.7):
            exponent = torch.tensor(p)
            theirs = solve(x, dictionary, LpBall(exponent, 0.5))
            ours = solve(x, dictionary, LpBall(exponent.item(), 0.5))
            assert theirs.certified.all()
            assert torch.equal(theirs.code, ours.code)


class TestClosedForms:
    def test_p_2_is_ridge_regression(self):
        """(DᵀD + λI)z = Dᵀx, and λ = 0 or ‖z‖ = c."""
        x, dictionary = gaussian(30, 8, 15)
        code = solve(x, dictionary, LpBall(2.0, 0.5)).code
        gram = dictionary.T @ dictionary
        gradient = (x - code @ dictionary.T) @ dictionary
        multiplier = (gradient * code).sum(-1, keepdim=True) / 0.25
        expected = torch.linalg.solve(
            gram + multiplier.unsqueeze(-1) * torch.eye(15, dtype=torch.float64), x @ dictionary
        )
        torch.testing.assert_close(code, expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(code.norm(dim=-1), torch.full((30,), 0.5, dtype=torch.float64))
        inside = solve(x, dictionary, LpBall(2.0, 100.0)).code
        torch.testing.assert_close(inside, x @ torch.linalg.pinv(dictionary).T)

    def test_p_1_is_on_the_lasso_path(self):
        x, dictionary = gaussian(6, 10, 25)
        for radius in (0.2, 0.8, 1.5):
            code = solve(x, dictionary, LpBall(1.0, radius)).code
            residual = x - code @ dictionary.T
            penalty = (residual @ dictionary).abs().amax(-1)
            for row in range(len(x)):
                if residual[row].norm() < 1e-9:
                    continue
                lasso = Lasso(
                    alpha=penalty[row].item() / 10, fit_intercept=False, tol=1e-12, max_iter=10**6
                ).fit(dictionary.numpy(), x[row].numpy())
                np.testing.assert_allclose(code[row].numpy(), lasso.coef_, atol=1e-6)
                assert ((code[row] != 0).numpy() == (np.abs(lasso.coef_) > 1e-9)).all()

    def test_p_1_exact_code_is_where_the_lars_path_ends(self):
        x, dictionary = gaussian(4, 6, 12)
        code = solve(x, dictionary, LpBall(1.0, 50.0)).code
        for row in range(4):
            _, _, path = lars_path(dictionary.numpy(), x[row].numpy(), method="lasso")
            np.testing.assert_allclose(code[row].numpy(), path[:, -1], atol=1e-8)

    @pytest.mark.parametrize("p", EXPONENTS)
    def test_identity_dictionary_is_projection(self, p):
        y, _ = gaussian(20, 9)
        ball = LpBall(p, 0.8)
        code = solve(3 * y, None, ball, tol=1e-13).code
        torch.testing.assert_close(code, ball.project(3 * y), rtol=0, atol=1e-5)


class TestDegenerate:
    """All end with a valid certificate."""

    @pytest.mark.parametrize("p", FEW_EXPONENTS)
    @pytest.mark.parametrize("radius", [0.5, 50.0])
    @pytest.mark.parametrize(
        "dictionary",
        [
            pytest.param(torch.ones(1, 1, dtype=torch.float64), id="1x1"),
            pytest.param(gaussian(1, 1, 6)[1], id="n=1"),
            pytest.param(gaussian(1, 9, 4)[1], id="m<n"),
            pytest.param(gaussian(1, 9, 1)[1], id="m=1"),
            pytest.param(gaussian(1, 6, 3)[1] @ gaussian(1, 3, 10, 1)[1], id="rank 3"),
            pytest.param(gaussian(1, 6, 5)[1].repeat(1, 3), id="repeated atoms"),
            pytest.param(
                torch.cat([gaussian(1, 6, 8)[1], torch.zeros(6, 2, dtype=torch.float64)], 1),
                id="zero atoms",
            ),
            pytest.param(
                gaussian(1, 6, 10)[1] * torch.logspace(0, -6, 6, dtype=torch.float64)[:, None],
                id="ill-conditioned",
            ),
            pytest.param(1e120 * gaussian(1, 6, 10)[1], id="huge"),
            pytest.param(1e-120 * gaussian(1, 6, 10)[1], id="tiny"),
            pytest.param(torch.zeros(6, 10, dtype=torch.float64), id="all zero"),
        ],
    )
    def test_dictionaries(self, dictionary, p, radius):
        x, _ = gaussian(6, dictionary.shape[0])
        solution = solve(x, dictionary, LpBall(p, radius))
        assert solution.certified.all(), solution
        assert solution.code.isfinite().all()

    @pytest.mark.parametrize("p", FEW_EXPONENTS)
    @pytest.mark.parametrize("scale", [1e-150, 1e30, 1e150])
    def test_scales(self, p, scale):
        x, dictionary = gaussian(6)
        unit = solve(x, dictionary, LpBall(p, 0.5), tol=1e-12).code
        scaled = solve(scale * x, dictionary, LpBall(p, 0.5 * scale), tol=1e-12)
        assert scaled.certified.all()
        torch.testing.assert_close(scaled.code / scale, unit, rtol=0, atol=1e-4)
        assert solve(scale * x, dictionary, LpBall(p, 0.5)).certified.all()

    @pytest.mark.parametrize("p", FEW_EXPONENTS)
    def test_on_the_border(self, p):
        """x is exactly as far away as the ball reaches: the two problems meet."""
        x, dictionary = gaussian(4)
        least = LpBall(p, 1.0).gauge(solve(x, dictionary, LpBall(p, 100.0), tol=1e-13).code)
        for row in range(4):
            for shift in (-1e-7, 0.0, 1e-13, 1e-7):
                ball = LpBall(p, least[row].item() * (1 + shift))
                solution = solve(x[row], dictionary, ball)
                assert solution.certified, (p, shift, solution, solution.norm_gap)

    def test_a_wide_range_of_exponents(self):
        x, dictionary = gaussian(10)
        for p in (1.0005, 1.005, 1.999, 2.001, 30.0, 100.0):
            for radius in (0.3, 1.0, 10.0):
                solution = solve(x, dictionary, LpBall(p, radius))
                assert solution.certified.all(), (p, radius, solution)


class TestWeights:
    @pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 3.0, math.inf])
    def test_weights_are_factors_of_x_and_dictionary(self, p):
        x, dictionary = gaussian(5)
        weights = torch.rand(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        factors = weights.sqrt()
        ball = LpBall(p, 0.5)
        expected = solve(factors * x, factors[:, None] * dictionary, ball, tol=1e-13).code
        for form in (weights, weights.expand(5, 8)):
            code = solve(x, dictionary, ball, weights=form, tol=1e-13).code
            torch.testing.assert_close(code, expected, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("shape", [(8, 15), (12, 5)])
    def test_a_mask_leaves_entries_out(self, shape):
        x, dictionary = gaussian(6, *shape)
        generator = torch.Generator().manual_seed(0)
        mask = torch.rand(x.shape, generator=generator) > 0.4
        mask[:, :2] = True
        x[~mask] = torch.nan
        ball = LpBall(1.4, 0.6)
        solution = solve(x, dictionary, ball, weights=mask, tol=1e-13)
        assert solution.certified.all()
        for row in range(6):
            seen = mask[row]
            alone = solve(x[row, seen], dictionary[seen], ball, tol=1e-13).code
            torch.testing.assert_close(solution.code[row], alone, rtol=0, atol=1e-5)

    def test_nothing_seen_gives_zero(self):
        x, dictionary = gaussian(2)
        mask = torch.ones_like(x, dtype=torch.bool)
        mask[1] = False
        solution = solve(x, dictionary, LpBall(1.3, 1.0), weights=mask)
        assert (solution.code[1] == 0).all()
        assert solution.certified.all()

    def test_refused(self):
        x, dictionary = gaussian(2)
        with pytest.raises(ValueError, match=r"weights must have shape \(8,\) or \(2, 8\)"):
            solve(x, dictionary, LpBall(2.0), weights=torch.ones(3))
        with pytest.raises(ValueError, match="weights must be finite and >= 0"):
            solve(x, dictionary, LpBall(2.0), weights=-torch.ones(8, dtype=torch.float64))


class TestBadInput:
    def test_shapes_name_the_other_convention(self):
        x, dictionary = gaussian(2)
        with pytest.raises(ValueError, match="pass its transpose"):
            solve(x, dictionary.T.contiguous(), LpBall(1.3))
        with pytest.raises(ValueError, match=r"n = 8, the length of x, got \(7, 15\)"):
            solve(x, dictionary[:7], LpBall(1.3))
        with pytest.raises(ValueError, match="must not be empty"):
            solve(x, dictionary[:, :0], LpBall(1.3))

    def test_types(self):
        x, dictionary = gaussian(2)
        with pytest.raises(
            TypeError, match=r"x must be a tensor, got ndarray: convert it with torch\.tensor"
        ):
            solve(x.numpy(), dictionary, LpBall(1.3))
        with pytest.raises(TypeError, match="float32 or float64, got"):
            solve(x.long(), dictionary, LpBall(1.3))
        with pytest.raises(ValueError, match="dtype and device of x"):
            solve(x, dictionary.float(), LpBall(1.3))
        with pytest.raises(TypeError, match="convex_set must be a ConvexSet"):
            solve(x, dictionary, 1.3)
        with pytest.raises(ValueError, match="p must be in"):
            solve(x, dictionary, LpBall(torch.tensor(0.5)))
        with pytest.raises(ValueError, match="dictionary must be finite"):
            solve(x, dictionary * torch.nan, LpBall(1.3))
        with pytest.raises(ValueError, match=r"tol must be in \(0, 1\)"):
            solve(x, dictionary, LpBall(1.3), tol=0.0)
        with pytest.raises(TypeError, match="method must be a name or a solver"):
            solve(x, dictionary, LpBall(1.3), method=3)


def test_rows_do_not_depend_on_their_company():
    x, dictionary = paper(20)
    for p in (1.0, 1.3, 3.0):
        ball = LpBall(p, 2.5)
        together = solve(x, dictionary, ball, tol=1e-12).code
        alone = torch.stack([solve(row, dictionary, ball, tol=1e-12).code for row in x[:3]])
        torch.testing.assert_close(together[:3], alone, rtol=0, atol=1e-4)


def test_the_callback_counts_the_rows_of_all_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "CPU_ENTRIES", 1)
    monkeypatch.setattr(blocks, "FEWEST_ROWS", 8)
    x, dictionary = gaussian(20, dtype=torch.float32)
    seen = []
    solve(x, dictionary, LpBall(1.3, 1.0), callback=seen.append)
    assert {progress.rows for progress in seen} == {20}
    assert {progress.rows_done for progress in seen} >= {0, 7, 14, 20}
    assert seen[-1].rows_done == 20
    stopped = solve(x, dictionary, LpBall(1.3, 0.3), callback=lambda progress: progress.step == 1)
    assert set(stopped.status) == {"stopped by the callback"}
    assert stopped.num_steps.tolist() == [1] * 7 + [0] * 13  # later blocks stop at once


PROGRAM = """
import hashlib, math, torch, fwnet
from tests.solvers.problems import gaussian

before, found = torch.get_num_threads(), hashlib.sha256()
sets = [*(fwnet.LpBall(p, 0.5) for p in (1, 1.02, 1.3, 2, 3.5, math.inf)), fwnet.Simplex()]
for dtype in (torch.float32, torch.float64):
    x, dictionary = gaussian(2500, n=20, m=60, dtype=dtype)
    for one in sets:
        found.update(fwnet.solve(x, dictionary, one).code.numpy().tobytes())
matrices = torch.randn(4, 200, 200, dtype=torch.float64)
error = matrices @ torch.linalg.inv(matrices) - torch.eye(200, dtype=torch.float64)
print(found.hexdigest(), bool(error.abs().max() < 1e-6), torch.get_num_threads() == before)
"""


def test_codes_do_not_depend_on_the_number_of_threads():
    """Nor does what torch computes afterwards depend on the search."""
    codes = set()
    for threads in ("1", "2"):
        environment = os.environ | {"OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        code, *right = done.stdout.split() or [done.stderr]
        assert right == ["True", "True"], done.stderr
        codes.add(code)
    assert len(codes) == 1


def test_seconds_run_on_when_rows_are_tried_again():
    x, dictionary = gaussian(2000, n=50, m=100)
    seen = []
    solve(x, dictionary, LpBall(1.0, 1.0), tol=1e-16, warn=False, callback=seen.append)
    assert [now.rows_done for now in seen] != sorted(now.rows_done for now in seen)  # tried again
    assert [now.seconds for now in seen] == sorted(now.seconds for now in seen)


ENOUGH = 128  # rows per block for two threads


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(blocks, "ENTRIES_PER_THREAD", ENOUGH * 15 // 2)  # codes of 15
    with ThreadpoolController().limit(limits=2, user_api="openmp"):
        yield
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
class TestBlocksSideBySide:
    def test_codes_are_the_same(self):
        x, dictionary = gaussian(2 * ENOUGH)
        for p in (1.0, 1.3, 3.0, math.inf):
            together = solve(x, dictionary, LpBall(p, 0.5))
            assert together.certified.all()
            assert together.num_steps.max() > 0
            alone = [solve(part, dictionary, LpBall(p, 0.5)).code for part in x.split(ENOUGH)]
            torch.testing.assert_close(together.code, torch.cat(alone), rtol=0, atol=1e-10)

    def test_calls_from_threads_that_used_torch_before_have_one_thread_each(self):
        numbers = []
        both = threading.Barrier(2, timeout=60)

        def count(part):
            both.wait()
            numbers.append(torch.get_num_threads())

        def call():
            torch.get_num_threads()  # on its first use in a thread, torch sets the number
            with ThreadpoolController().limit(limits=2, user_api="openmp"):
                for_each(count, range(2), threads=1)
                numbers.append(-torch.get_num_threads())

        callers = [threading.Thread(target=call) for _ in range(2)]
        for one in callers:
            one.start()
        for one in callers:
            one.join()
        assert sorted(numbers) == [-2, -2, 1, 1, 1, 1]

    def test_they_run_at_the_same_time(self):
        names, both = set(), threading.Barrier(2, timeout=60)

        def meet(number):
            names.add(threading.current_thread().name)
            both.wait()
            assert torch.get_num_threads() == 1

        for_each(meet, range(4), threads=2)
        assert len(names) == 2

    def test_calls_within_others_do_not_add_up(self):
        outer, inner = set(), set()

        def within(number):
            inner.add(threading.get_ident())

        def without(number):
            outer.add(threading.get_ident())
            for_each(within, range(4), threads=2)

        for_each(without, range(2), threads=2)
        assert inner <= outer

    def test_the_callback_hears_one_block_at_a_time(self):
        x, dictionary = gaussian(4 * ENOUGH)
        seen, at_once = [], threading.Lock()

        def callback(progress):
            assert at_once.acquire(blocking=False)
            seen.append(progress.rows_done)
            at_once.release()

        assert solve(x, dictionary, LpBall(1.3, 0.5), callback=callback).certified.all()
        assert max(seen) == len(x)
        assert seen == sorted(seen)

    def test_what_a_callback_raises_ends_the_search(self):
        x, dictionary = gaussian(2 * ENOUGH)

        def interrupt(progress):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            solve(x, dictionary, LpBall(1.3, 0.5), callback=interrupt)

    def test_modes_hold_in_threads(self):
        x, dictionary = (t.float() for t in gaussian(2 * ENOUGH))
        expected = solve(x, dictionary, LpBall(1.3, 0.5)).code
        with torch.inference_mode():
            assert torch.equal(solve(x, dictionary, LpBall(1.3, 0.5)).code, expected)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(solve(x, dictionary, LpBall(1.3, 0.5)).code, expected)
        radius = torch.tensor(0.5, requires_grad=True)
        solve(x, dictionary, LpBall(1.3, radius)).code.sum().backward()
        assert radius.grad != 0

    def test_cvxpy_has_one_thread(self):
        assert not CVX().frees_python()
        assert Auto().frees_python()


def test_autocast_and_inference_mode_change_nothing():
    x, dictionary = (t.float() for t in gaussian())
    ball = LpBall(1.3, 0.5)
    expected = solve(x, dictionary, ball).code
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(solve(x, dictionary, ball).code, expected)
    with torch.inference_mode():
        assert torch.equal(solve(x, dictionary, ball).code, expected)


def test_inputs_are_left_as_they_were():
    x, dictionary = gaussian()
    mask = torch.rand(x.shape) > 0.2
    copies = x.clone(), dictionary.clone(), mask.clone()
    for p in EXPONENTS:
        solve(x, dictionary, LpBall(p, 0.5), weights=mask)
    assert all(torch.equal(a, b) for a, b in zip((x, dictionary, mask), copies, strict=True))


def test_repr_and_summary_tell_what_happened():
    x, dictionary = gaussian(3)
    x[0] = torch.inf
    solution = solve(x, dictionary, LpBall(1.3, 1.0))
    assert solution.summary() == {"certified": 2, "x is not finite": 1}
    assert "2 certified, 1 x is not finite" in repr(solution)
    assert Status.CERTIFIED.words == "certified"


def test_dual_exponents_are_those_of_the_ball():
    assert dual_exponent(1.0) == math.inf
    y = torch.tensor([3.0, -4.0])
    assert LpBall(1.0, 2.0).support(y) == 8
    assert LpBall(2.0, 2.0).support(y) == 10
    assert LpBall(math.inf, 2.0).support(y) == 14
