"""The code as a differentiable function of x, D, radius and p."""

import math

import pytest
import torch

from fwnet import LpBall, solve
from tests.solvers.problems import gaussian

SHAPES = [(4, 7), (6, 3)]


def differentiable(n, m, seed=0):
    x, dictionary = gaussian(3, n, m, seed)
    return x.requires_grad_(), dictionary.requires_grad_()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.2, 100.0])
@pytest.mark.parametrize("p", [1.1, 1.7, 3.0])
def test_gradcheck(p, radius, shape):
    x, dictionary = differentiable(*shape)
    exponent = torch.tensor(p, dtype=torch.float64, requires_grad=True)
    c = torch.tensor(radius, dtype=torch.float64, requires_grad=True)

    def code(x, dictionary, exponent, c):
        return solve(x, dictionary, LpBall(exponent, c), tol=1e-14).code

    assert torch.autograd.gradcheck(
        code, (x, dictionary, exponent, c), eps=1e-5, atol=1e-4, rtol=1e-3, fast_mode=True
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.2, 100.0])
@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_gradcheck_at_the_ends_and_at_2(p, radius, shape):
    x, dictionary = differentiable(*shape)
    c = torch.tensor(radius, dtype=torch.float64, requires_grad=True)

    def code(x, dictionary, c):
        return solve(x, dictionary, LpBall(p, c), tol=1e-14).code

    assert torch.autograd.gradcheck(
        code, (x, dictionary, c), eps=1e-5, atol=1e-4, rtol=1e-3, fast_mode=True
    )


@pytest.mark.parametrize("p", [1.0, 1.4, 3.0, math.inf])
@pytest.mark.parametrize("per_row", [False, True])
def test_gradcheck_with_weights(p, per_row):
    x, dictionary = differentiable(5, 6)
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(3, 5, dtype=torch.float64, generator=generator)
    weights[0, 1] = 0
    chosen = weights if per_row else weights[0]

    def code(x, dictionary):
        return solve(x, dictionary, LpBall(p, 0.3), weights=chosen, tol=1e-14).code

    assert torch.autograd.gradcheck(
        code, (x, dictionary), eps=1e-5, atol=1e-4, rtol=1e-3, fast_mode=True
    )


def test_a_missing_value_has_no_gradient():
    x, dictionary = gaussian(2)
    x[0, 0] = torch.nan
    x.requires_grad_()
    mask = ~x.detach().isnan()
    solve(x, dictionary, LpBall(1.3, 0.5), weights=mask).code.sum().backward()
    assert x.grad[0, 0] == 0
    filled = torch.nan_to_num(x.detach()).requires_grad_()
    solve(filled, dictionary, LpBall(1.3, 0.5), weights=mask).code.sum().backward()
    torch.testing.assert_close(x.grad, filled.grad)
    assert (x.grad[0, 1:] != 0).all()


def test_float32_gradients_are_close_and_float32():
    x, dictionary = gaussian(4)
    precise, rough = x.clone().requires_grad_(), x.float().requires_grad_()
    for row, matrix in ((precise, dictionary), (rough, dictionary.float())):
        solve(row, matrix, LpBall(1.3, 0.5)).code.square().sum().backward()
    assert rough.grad.dtype == torch.float32
    torch.testing.assert_close(rough.grad.double(), precise.grad, rtol=0.05, atol=1e-3)


def test_rows_without_a_code_do_not_spoil_the_others():
    x, dictionary = gaussian(3)
    x[1] = torch.nan
    x.requires_grad_()
    dictionary.requires_grad_()
    code = solve(x, dictionary, LpBall(1.3, 0.5)).code
    code[[0, 2]].sum().backward()
    assert (x.grad[1] == 0).all()
    assert dictionary.grad.isfinite().all()


@pytest.mark.parametrize("p", [1.5, math.inf])
def test_codes_of_other_methods_have_the_same_gradient(p):
    """Their codes end a little inside the ball, where the norm does not say that it binds."""
    x, dictionary = gaussian(5)
    slopes = []
    # On a polytope the face has to be known, which Frank-Wolfe does not find.
    other = {"tol": 1e-4} if p == math.inf else {"method": "frank-wolfe", "tol": 1e-5}
    for options in ({}, other, {"tol": 1e-4}):
        radius = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        solution = solve(x, dictionary, LpBall(p, radius), **options)
        solution.code.sum().backward()
        slopes.append(radius.grad.item())
    assert slopes == pytest.approx([slopes[0]] * 3, rel=0.2, abs=0.1)


def test_codes_that_are_not_optimal_have_no_gradient():
    x, dictionary = differentiable(4, 7)
    solve(x, dictionary, LpBall(1.3, 0.2), max_steps=0).code.sum().backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("p", [1.0, 1.3, 1.7, 2.0, 3.0, math.inf])
def test_zero_entries_follow_where_the_dictionary_leaves_no_choice(p):
    x = torch.tensor([[0.3, 0.0, -0.2]], dtype=torch.float64)

    def code(v):
        return solve(v, None, LpBall(p, 10.0)).code

    jacobian = torch.autograd.functional.jacobian(code, x).reshape(3, 3)
    torch.testing.assert_close(jacobian, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-5)


def test_twice_is_refused():
    x, dictionary = differentiable(4, 7)
    code = solve(x, dictionary, LpBall(1.3, 0.5)).code
    (gradient,) = torch.autograd.grad(code.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_learns_a_radius_through_the_solver():
    """A certified code inside a network: descend on its reconstruction of a target code."""
    x, dictionary = gaussian(10)
    target = solve(x, dictionary, LpBall(1.5, 0.7)).code
    p = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    radius = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([p, radius], lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        loss = (solve(x, dictionary, LpBall(p, radius)).code - target).square().sum()
        loss.backward()
        optimizer.step()
    assert abs(p.item() - 1.5) < 0.02
    assert abs(radius.item() - 0.7) < 0.01


def test_no_graph_without_need():
    x, dictionary = gaussian(2)
    assert not solve(x, dictionary, LpBall(1.3)).code.requires_grad
    x.requires_grad_()
    with torch.no_grad():
        assert not solve(x, dictionary, LpBall(1.3)).code.requires_grad
