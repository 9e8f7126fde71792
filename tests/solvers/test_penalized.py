"""min ½‖x − Dz‖² + λ‖z‖_p."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

from fwnet import LpBall, solve
from fwnet.solvers import UncertifiedWarning, solve_penalized
from tests.solvers.problems import gaussian, objective


def penalized_objective(x, dictionary, code, penalty, p):
    return objective(x, dictionary, code) + penalty * LpBall(p, 1.0).gauge(code)


@pytest.mark.parametrize("penalty", [0.01, 0.3])
@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 3.0, math.inf])
def test_certified_and_unbeaten(p, penalty):
    x, dictionary = gaussian(6)
    solution = solve_penalized(x, dictionary, penalty, p)
    assert solution.certified.all(), solution
    assert (solution.gap <= 1e-10 * 0.5 * x.square().sum(-1)).all()
    value = penalized_objective(x, dictionary, solution.code, penalty, p)
    generator = torch.Generator().manual_seed(0)
    for size in (1.0, 1e-2, 1e-3):
        noise = size * torch.randn(solution.code.shape, dtype=torch.float64, generator=generator)
        for other in (solution.code + noise, solution.code * (1 + size), solution.code * 0):
            rival = penalized_objective(x, dictionary, other, penalty, p)
            assert (rival >= value - 1e-9).all()


@pytest.mark.parametrize("p", [1.0, 1.3, 3.0])
def test_is_the_constrained_solution_of_its_own_norm(p):
    x, dictionary = gaussian(5)
    code = solve_penalized(x, dictionary, 0.2, p, tol=1e-13).code
    for row in range(5):
        radius = LpBall(p, 1.0).gauge(code[row]).item()
        same = solve(x[row], dictionary, LpBall(p, radius), tol=1e-13).code
        torch.testing.assert_close(code[row], same, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "num_atoms"),
    [
        ("auto", 25),
        ("auto", 6),
        ("ista", 6),
        ("fista", 25),
        ("admm", 25),
        ("coordinate-descent", 6),
        ("cvx", 25),
    ],
)
def test_every_method_finds_the_lasso(method, num_atoms):
    x, dictionary = gaussian(4, 10, num_atoms)
    if method == "cvx":
        pytest.importorskip("cvxpy")
    tol = 1e-6 if method == "cvx" else 1e-11
    solution = solve_penalized(x, dictionary, 0.1, method=method, tol=tol)
    assert solution.certified.all(), solution
    for row in range(4):
        lasso = Lasso(alpha=0.01, fit_intercept=False, tol=1e-13, max_iter=10**6)
        lasso.fit(dictionary.numpy(), x[row].numpy())
        np.testing.assert_allclose(solution.code[row].numpy(), lasso.coef_, atol=1e-4)


def test_a_large_penalty_gives_zero_and_a_nan_row_says_so():
    x, dictionary = gaussian(3)
    x[1, 0] = torch.nan
    solution = solve_penalized(x, dictionary, 1e3, 1.3)
    assert (solution.code[[0, 2]] == 0).all()
    assert solution.status.tolist() == ["certified", "x is not finite", "certified"]


def test_float32_and_mask():
    x, dictionary = gaussian(4)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[0, :3] = False
    solution = solve_penalized(x.float(), dictionary.float(), 0.1, 1.3, weights=mask)
    assert solution.code.dtype == torch.float32
    assert solution.certified.all()
    alone = solve_penalized(x[0, 3:], dictionary[3:], 0.1, 1.3).code
    torch.testing.assert_close(solution.code[0].double(), alone, rtol=0, atol=2e-3)


def test_limits_are_honest():
    x, dictionary = gaussian(4)
    stopped = solve_penalized(x, dictionary, 0.1, 1.3, callback=lambda _: True)
    assert set(stopped.status) == {"stopped by the callback"}
    late = solve_penalized(x, dictionary, 0.1, 1.3, time_limit=1e-9)
    assert set(late.status) == {"time limit reached"}
    short = solve_penalized(x, dictionary, 0.1, 1.3, max_steps=2)
    assert set(short.status) == {"step limit reached"}
    assert (short.num_steps == 2).all()
    assert (short.gap > 0).all()


def test_a_signal_that_no_atom_explains_has_the_code_zero():
    x, dictionary = torch.tensor([[0.0, 0.0, 1.0]]).double(), torch.eye(3, 2).double()
    for method in ("auto", "fista"):
        solution = solve_penalized(x, dictionary, 0.1, method=method)
        assert solution.certified.all()
        assert (solution.code == 0).all()


def test_refused():
    x, dictionary = gaussian(2)
    with pytest.raises(ValueError, match="penalty must be > 0"):
        solve_penalized(x, dictionary, 0.0)
    with pytest.raises(ValueError, match="constrained problem only"):
        solve_penalized(x, dictionary, 0.1, method="frank-wolfe")
    with pytest.raises(TypeError, match="x must be a tensor"):
        solve_penalized(x.numpy(), dictionary, 0.1)
    with pytest.raises(ValueError, match=r"needs p = 1, got p = 1\.5"):
        solve_penalized(x, dictionary, 0.1, 1.5, method="fista")


def test_codes_that_are_not_certified_are_warned_of():
    x, dictionary = gaussian(20)
    with pytest.warns(UncertifiedWarning, match="codes are not certified"):
        solution = solve_penalized(x, dictionary, 0.1, 1.3, tol=1e-30)
    assert not solution.certified.all()
    solve_penalized(x, dictionary, 0.1, 1.3, tol=1e-30, warn=False)  # warnings are errors
