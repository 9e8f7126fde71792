"""Tests that every method must pass."""

import numpy as np
import pytest
import torch

from fwnet import LpBall, solve
from fwnet.solvers import Status
from tests.solvers.problems import gaussian, objective


class MethodConformance:
    """Subclasses set `method`, its exponents, and a tolerance that it reaches quickly."""

    method = "auto"
    exponents = (1.3,)
    tol = 1e-6
    radii = (0.3, 1.0)

    def balls(self):
        return [LpBall(p, radius) for p in self.exponents for radius in self.radii]

    def solved(self, x, dictionary, ball, **options):
        options = {"tol": self.tol, **options}
        return solve(x, dictionary, ball, method=self.method, **options)

    def test_codes_are_feasible_and_as_good_as_they_say(self):
        """No code is better than the bound that its gap gives."""
        x, dictionary = gaussian()
        for ball in self.balls():
            solution = self.solved(x, dictionary, ball)
            best = objective(x, dictionary, solve(x, dictionary, ball, tol=1e-12).code)
            reached = objective(x, dictionary, solution.code)
            assert (ball.gauge(solution.code) <= 1 + 1e-12).all()
            assert (reached >= best - 1e-9).all()
            assert (reached - solution.gap <= best + 1e-9).all()
            energy = 0.5 * x.square().sum(-1)
            assert (solution.gap <= self.tol * energy).all(), (ball, solution)

    def test_float32_stays_float32(self):
        x, dictionary = gaussian(dtype=torch.float32)
        tol = max(self.tol, 1e-4)
        for ball in self.balls():
            solution = self.solved(x, dictionary, ball, tol=tol)
            assert solution.code.dtype == torch.float32
            assert solution.gap.dtype == torch.float64
            assert ball.contains(solution.code).all()
            assert (solution.gap <= tol * 0.5 * x.square().sum(-1)).all()

    def test_any_batch_shape(self):
        x, dictionary = gaussian(6)
        ball = self.balls()[0]
        solution = self.solved(x.reshape(2, 3, -1), dictionary, ball)
        assert solution.code.shape == (2, 3, dictionary.shape[1])
        assert solution.gap.shape == solution.norm_gap.shape == (2, 3)
        assert solution.status.shape == solution.num_steps.shape == (2, 3)
        alone = self.solved(x[5], dictionary, ball)
        torch.testing.assert_close(solution.code[1, 2], alone.code, rtol=0, atol=1e-3)
        assert self.solved(x[:0], dictionary, ball).code.shape == (0, dictionary.shape[1])

    def test_a_zero_row_has_the_code_zero(self):
        x, dictionary = gaussian(3)
        x[1] = 0
        solution = self.solved(x, dictionary, self.balls()[0])
        assert (solution.code[1] == 0).all()
        assert solution.status_code[1] == Status.CERTIFIED

    def test_a_row_that_is_not_finite_says_so_and_leaves_the_others_alone(self):
        x, dictionary = gaussian(4)
        ball = self.balls()[0]
        clean = self.solved(x, dictionary, ball)
        x[2, 3] = torch.nan
        solution = self.solved(x, dictionary, ball)
        assert solution.status[2] == "x is not finite"
        assert solution.code[2].isnan().all()
        for row in (0, 1, 3):
            torch.testing.assert_close(solution.code[row], clean.code[row], rtol=0, atol=1e-3)

    def test_no_steps_means_no_certificate(self):
        x, dictionary = gaussian(5)
        solution = self.solved(x, dictionary, LpBall(self.exponents[0], 0.3), max_steps=0)
        assert set(solution.status) == {"step limit reached"}
        assert (solution.num_steps == 0).all()

    def test_a_callback_is_called_and_can_stop(self):
        x, dictionary = gaussian(5)
        calls = []

        def callback(progress):
            calls.append(progress)
            return True

        ball = LpBall(self.exponents[0], 0.3)
        solution = self.solved(x, dictionary, ball, callback=callback)
        assert len(calls) == 1
        assert calls[0].rows == 5
        assert calls[0].step == 0
        assert set(solution.status) == {"stopped by the callback"}

    def test_time_limit_is_reported(self):
        x, dictionary = gaussian(5)
        ball = LpBall(self.exponents[0], 0.3)
        solution = self.solved(x, dictionary, ball, time_limit=1e-9)
        assert set(solution.status) == {"time limit reached"}
        assert isinstance(solution.status, np.ndarray)
        with pytest.raises(ValueError, match="time_limit must be > 0"):
            self.solved(x, dictionary, ball, time_limit=0)
