"""Newton's steps: conjugate gradients find them, and direct ones take over where they do not."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from fwnet import LpBall, solve
from fwnet.functional import lp_norm
from fwnet.solvers import Auto, dual_newton, primal_newton
from fwnet.solvers.dual_newton import DualNewton
from fwnet.solvers.primal_newton import PrimalNewton
from fwnet.solvers.whitened import norm_gradient, weighted_gram, whiten
from tests.solvers.problems import gaussian, objective, paper


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def overcomplete_dct(n, m):
    places = torch.arange(n, dtype=torch.float64).unsqueeze(-1) + 0.5
    return normalize((places * torch.arange(m, dtype=torch.float64) * math.pi / m).cos(), dim=0)


@settings(max_examples=30)
@given(
    p=st.floats(2.2, 4.0),
    radius=st.sampled_from([0.1, 100.0]),
    steps=st.integers(1, 2),
    seed=st.integers(0, 10**6),
)
def test_conjugate_gradients_end_at_the_direct_step_above_2(p, radius, steps, seed):
    x, dictionary = gaussian(4, 6, 11, seed)
    method = PrimalNewton(whiten(dictionary), p, radius, 1e-10, 1e-9)
    state = method.init(x)
    for index in range(steps):
        state = method.step(state, index)
    state = method._widened(state)
    white = state.target.white
    many = len(primal_newton.CONJUGATE_STEPS)
    found, exact = method._iterative_step(state, many), method._direct_step(state)
    # Along Vᵀ an exact code does not move.
    found, exact = (
        torch.where(state.binds, d, d - white.analyze(white.synthesize(d))) for d in (found, exact)
    )
    size = exact.norm(dim=-1, keepdim=True)
    tangent = (state.s * found).sum(-1, keepdim=True).abs() <= 1e-4 * size
    assert (tangent | ~state.binds).all()
    # The slope along the step is −dᵀBd, and smallest at the minimum; 1e-9 is rounding.
    gradient = state.norm * state.s - state.y / state.multiplier
    along_s = (gradient * state.s).sum(-1, keepdim=True) / state.s.square().sum(-1, keepdim=True)
    gradient = gradient - torch.where(state.binds, along_s, 0.0) * state.s
    slopes = [(gradient * d).sum(-1) for d in (found, exact)]
    torch.testing.assert_close(*slopes, rtol=1e-2, atol=1e-9)


@pytest.mark.parametrize("p", [1.02, 1.1])
@pytest.mark.parametrize("radius", [0.3, 2.5])
def test_conjugate_gradients_end_at_the_direct_step_near_1(p, radius):
    x, dictionary = paper(20)
    method = DualNewton(whiten(dictionary), p, radius, 1e-10, 1e-9)
    state = method.step(method.init(x), 0)
    found = method._iterative_direction(state, len(dual_newton.CONJUGATE_STEPS))
    exact = method._direct_direction(state)
    assert ((found - exact).norm(dim=-1) <= 1e-2 * exact.norm(dim=-1)).all()


@pytest.mark.parametrize("p", [1.02, 1.1, 3.5, 4.0, 8.0, math.inf])
def test_20_codes_agree_with_cvxpy(p):
    pytest.importorskip("cvxpy")
    x, dictionary = gaussian(20, 8, 16, seed=3)
    for radius in (0.4, 1.5):
        ours = solve(x, dictionary, LpBall(p, radius))
        theirs = solve(x, dictionary, LpBall(p, radius), method="cvx", tol=1e-6)
        assert ours.certified.all()
        difference = objective(x, dictionary, ours.code) - objective(x, dictionary, theirs.code)
        assert (difference <= 1e-9).all()
        assert (difference >= -1e-5).all()


@pytest.mark.parametrize(
    "dictionary",
    [
        overcomplete_dct(12, 48),
        torch.cat([gaussian(1, 12, 20)[1], normalize(gaussian(1, 12, 20)[1] + 1e-7, dim=0)], 1),
        normalize(random(12, 30) + 5 * random(12, 1, seed=3), dim=0),
        random(12, 3) @ random(3, 20, seed=1),
        random(12, 30) * torch.logspace(0, -4, 12, dtype=torch.float64).unsqueeze(-1),
        gaussian(1, 12, 7)[1],
    ],
    ids=["dct", "nearly twice", "coherent", "low rank", "ill-conditioned", "few"],
)
@pytest.mark.parametrize("p", [1.006, 1.05, 3.5, 8.0])
def test_hard_dictionaries(dictionary, p):
    x = random(20, 12, seed=9)
    for radius in (0.3, 2.5, 50.0):
        assert solve(x, dictionary, LpBall(p, radius)).certified.all(), radius


@pytest.mark.parametrize("p", [1.05, 6.0])
def test_direct_steps_certify_what_conjugate_gradients_leave(p, monkeypatch):
    monkeypatch.setattr(dual_newton, "MOST_STEPS", 2)
    monkeypatch.setattr(primal_newton, "CONJUGATE_STEPS", (1, 1))
    x, dictionary = paper(10)
    ball = LpBall(p, 2.5)
    solution = solve(x, dictionary, ball)
    assert solution.certified.all()
    expected = solve(x, dictionary, ball, method=Auto(careful=True))
    torch.testing.assert_close(solution.code, expected.code, rtol=0, atol=1e-6)


@pytest.mark.parametrize("p", [1.02, 3.5, 8.0])
def test_float32_codes_are_certified(p):
    x, dictionary = (t.float() for t in paper(40))
    for radius in (0.3, 2.5):
        assert solve(x, dictionary, LpBall(p, radius)).certified.all()


@pytest.mark.parametrize("q", [1.02, 8.0, 51.0])
def test_the_normal_has_norm_1_in_float32(q):
    y = random(50, 100).float()
    _, s, _ = norm_gradient(y, q)
    assert (lp_norm(s.double(), q / (q - 1)) - 1).abs().max() <= 1e-6


@pytest.mark.parametrize("rows", [3, 40])
def test_the_weighted_gram_of_few_and_many_rows(rows):
    white = whiten(random(7, 12))
    weights = random(rows, 12, seed=1).abs()
    expected = white.basis @ weights.diag_embed() @ white.basis.T
    # Of the result, solvers read the lower half.
    torch.testing.assert_close(weighted_gram(white, weights).tril(), expected.tril())


@pytest.mark.parametrize("p", [1.02, 1.3])
def test_float64_rows_begin_in_float32(p):
    x, dictionary = paper(20)
    method = DualNewton(whiten(dictionary), p, 2.5, 1e-10, 1e-9)
    state = method.init(x)
    for index in range(method.low_steps):
        assert state.v.dtype == torch.float32
        assert not method.finished(state).any()
        state = method.step(state, index)
    assert not method.finished(state).any()  # one step in float64 is always left
    state = method.step(state, method.low_steps)
    assert state.v.dtype == state.gradient.dtype == torch.float64
    torch.testing.assert_close(state.y, state.v @ whiten(dictionary).basis)
    few = solve(x, dictionary, LpBall(p, 2.5), max_steps=1, warn=False)
    assert few.code.dtype == torch.float64
    assert not few.certified.any()


@pytest.mark.parametrize("radius", [0.3, 2.5])
@pytest.mark.parametrize("p", [3.3, 8.0])
def test_float64_rows_begin_in_float32_above_2(p, radius):
    x, dictionary = paper(20)
    method = PrimalNewton(whiten(dictionary), p, radius, 1e-10, 1e-9)
    state = method.init(x)
    for index in range(method.low_steps):
        assert state.z.dtype == torch.float32
        assert not method.finished(state).any()
        state = method.step(state, index)
    state = method._widened(state)
    assert state.z.dtype == state.gap.dtype == state.p.dtype == torch.float64
    exact = state.z @ whiten(dictionary).basis.T - state.target.x
    assert (exact.abs().amax(-1, keepdim=True) <= 1e-14)[~state.binds].all()
    few = solve(x, dictionary, LpBall(p, radius), max_steps=1, warn=False)
    assert few.code.dtype == torch.float64
    assert not few.certified.any()


def test_a_step_along_the_chord_ends_where_the_dual_vector_points():
    p = torch.tensor([[3.0], [8.0]], dtype=torch.float64)
    z, goal = random(2, 2, 50)
    goal[:, :9] = 0.0  # a root of |z|^(p−1): tangents would lead 1/(p − 1) of the way
    s, goal_s, tangent = z.abs() ** (p - 2) * z, goal.abs() ** (p - 2) * goal, z.abs() ** (p - 2)
    chord = primal_newton._chord(z, goal, s, goal_s, tangent, p)
    torch.testing.assert_close(z - (s - goal_s) / ((p - 1) * chord), goal, rtol=0, atol=1e-3)
    torch.testing.assert_close(primal_newton._chord(z, z, s, s, tangent, p), tangent)
