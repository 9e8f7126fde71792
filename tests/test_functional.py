"""The mathematics of pool_p as properties, then its behavior inside PyTorch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fwnet
from fwnet.functional import frank_wolfe_step, pool_excess

EXPONENTS = st.one_of(
    st.sampled_from([1.0, 2.0, math.inf]),
    st.floats(-4, 4).map(lambda e: 1 + 10.0**e),
)
# Zeros, ties and sixty orders of magnitude, in one row.
ENTRIES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0]),
    st.tuples(st.sampled_from([-1, 1]), st.floats(-30, 30)).map(lambda t: t[0] * 10.0 ** t[1]),
    # Subnormal numbers have no digits left for the laws below; the kernels' own tests cover them.
    st.floats(-2, 2).map(lambda v: v if abs(v) > 1e-200 else 0.0),
)
VECTORS = st.lists(ENTRIES, min_size=1, max_size=12).map(
    lambda v: torch.tensor(v, dtype=torch.float64)
)
NONZERO = VECTORS.filter(lambda u: u.abs().max() > 1e-200)


def norm(z, p):
    """‖z‖_p relative to the largest entry, independent of the library's own gauge."""
    peak = z.abs().max()
    return peak * torch.linalg.vector_norm(z / peak, ord=p) if peak > 0 else peak


@given(u=NONZERO, p=EXPONENTS, radius=st.floats(1e-3, 1e3))
def test_hoelder_equality(u, p, radius):
    s = fwnet.pool_p(u, p, radius)
    torch.testing.assert_close(
        (u * s).sum(), -radius * norm(u, fwnet.dual_exponent(p)), rtol=1e-11, atol=0
    )


@given(u=NONZERO, p=EXPONENTS, radius=st.floats(1e-3, 1e3))
def test_result_lies_on_the_sphere(u, p, radius):
    assert norm(fwnet.pool_p(u, p, radius), p).item() == pytest.approx(radius, rel=1e-11)


@given(u=VECTORS, p=EXPONENTS, scale=st.floats(-6, 6))
def test_homogeneous_of_degree_zero(u, p, scale):
    torch.testing.assert_close(
        fwnet.pool_p(u * 2.0 ** round(scale), p), fwnet.pool_p(u, p), rtol=1e-12, atol=1e-300
    )


@given(u=VECTORS, p=EXPONENTS)
def test_odd(u, p):
    torch.testing.assert_close(fwnet.pool_p(-u, p), -fwnet.pool_p(u, p), rtol=0, atol=0)


@given(u=VECTORS, p=EXPONENTS, data=st.data())
def test_permutation_equivariant(u, p, data):
    order = torch.tensor(data.draw(st.permutations(range(len(u)))))
    torch.testing.assert_close(
        fwnet.pool_p(u[order], p), fwnet.pool_p(u, p)[order], rtol=1e-12, atol=1e-300
    )


@given(u=NONZERO, p=EXPONENTS, seed=st.integers(0, 2**31))
def test_no_feasible_point_does_better(u, p, seed):
    generator = torch.Generator().manual_seed(seed)
    s = fwnet.pool_p(u, p)
    other = torch.randn(100, len(u), dtype=u.dtype, generator=generator)
    # Points all over the ball, and points close to s, where a wrong optimum would be beaten.
    other = torch.cat([other, s + 1e-3 * other])
    other = other / fwnet.LpBall(p).gauge(other).clamp(min=1).unsqueeze(-1)
    best = (u * s).sum()
    assert ((other @ u) >= best - 1e-12 * best.abs()).all()


@given(u=VECTORS)
def test_limit_of_p_to_1_with_a_separated_maximum(u):
    u = torch.cat([u, 1.5 * u.abs().max().reshape(1) + 1])
    torch.testing.assert_close(fwnet.pool_p(u, 1 + 1e-4), fwnet.pool_p(u, 1.0))
    assert fwnet.pool_p(u, 1.0)[-1] == -1


@given(u=VECTORS)
def test_limit_of_p_to_infinity(u):
    torch.testing.assert_close(
        fwnet.pool_p(u, 1e9), fwnet.pool_p(u, math.inf), rtol=1e-6, atol=1e-6
    )


@given(u=NONZERO, p=st.floats(1.01, 1e3), eps=st.floats(1e-3, 10))
def test_eps_makes_the_unit_continuous_at_zero(u, p, eps):
    u = u / u.abs().max()
    sizes = [
        fwnet.pool_p(u * scale, p, eps=eps).abs().max().item()
        for scale in (0.0, 1e-300, 1e-200, 1e-100, 1e-10, 1.0)
    ]
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    bound = (1e-200 * norm(u, fwnet.dual_exponent(p)).item() / eps) ** (1 / (p - 1))
    assert sizes[2] <= bound * (1 + 1e-9)


@given(u=NONZERO, p=st.floats(1.05, 50), eps=st.sampled_from([0.0, 0.1]))
def test_two_step_decomposition_of_the_paper(u, p, eps):
    u = u.clamp(-1e3, 1e3)
    normalized = u / (norm(u, fwnet.dual_exponent(p)) + eps)
    neuron = -normalized.sign() * normalized.abs() ** (1 / (p - 1))
    torch.testing.assert_close(
        fwnet.pool_p(u, p, eps=eps), neuron, rtol=1e-9, atol=torch.finfo(u.dtype).tiny
    )


def test_special_cases_named_in_the_paper():
    u = torch.tensor([3.0, -4.0, 0.0, 1.0])
    assert fwnet.pool_p(u, 1).tolist() == [0, 1, 0, 0]
    torch.testing.assert_close(fwnet.pool_p(u, 2), -u / u.norm())
    assert fwnet.pool_p(u, math.inf, radius=5).tolist() == [-5, 5, 0, -5]


def test_entries_that_tie_share_evenly_at_p_1():
    assert fwnet.pool_p(torch.tensor([2.0, -2.0, 1.0]), 1).tolist() == [-0.5, 0.5, 0]


def test_eps_at_p_1_is_the_limit():
    u = torch.randn(5)
    assert (fwnet.pool_p(u, 1.0, eps=0.1) == 0).all()
    assert fwnet.pool_p(u, 1.0001, eps=0.1).abs().max() < 1e-6


@pytest.mark.parametrize("p", [1.0, 1.02, 1.3, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_gradcheck(p, eps):
    u = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    radius = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    if p == 1:  # a difference in p would leave the domain
        assert torch.autograd.gradcheck(lambda u, r: fwnet.pool_p(u, 1.0, r, 1, eps), (u, radius))
        return
    p = torch.tensor(p, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, p, r: fwnet.pool_p(u, p, r, 1, eps), (u, p, radius), atol=1e-6, fast_mode=True
    )


def test_differentiating_twice_is_refused():
    u = torch.randn(4, requires_grad=True)
    (grad,) = torch.autograd.grad(fwnet.pool_p(u, 1.5).sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    u = torch.randn(4, 64).to(dtype).requires_grad_()
    wide = u.detach().float().requires_grad_()
    s, expected = fwnet.pool_p(u, 1.3), fwnet.pool_p(wide, 1.3)
    s.sum().backward()
    expected.sum().backward()
    assert s.dtype == u.grad.dtype == dtype
    torch.testing.assert_close(s, expected.to(dtype), rtol=0, atol=0)
    torch.testing.assert_close(u.grad, wide.grad.to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("u_dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("p_dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, math.inf])
def test_any_mixture_of_dtypes(u_dtype, p_dtype, p):
    u = torch.tensor([3.0, -4.0, 0.0, 1.0], dtype=u_dtype, requires_grad=True)
    scalars = [torch.tensor(v, dtype=p_dtype, requires_grad=True) for v in (p, 2.0)]
    s = fwnet.pool_p(u, *scalars)
    s.sum().backward()
    torch.testing.assert_close(s, fwnet.pool_p(u, p, 2.0), rtol=1e-3, atol=1e-6)
    assert [t.grad.dtype for t in (u, *scalars)] == [u_dtype, p_dtype, p_dtype]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 3), ()])
def test_empty_and_scalar_tensors(shape):
    u = torch.ones(shape, requires_grad=True)
    s = fwnet.pool_p(u, 1.5)
    s.sum().backward()
    assert s.shape == u.grad.shape == shape


@pytest.mark.parametrize("p", [1.0, 1.4, 2.0, math.inf])
def test_vmap_over_rows_p_and_gradients(p):
    u, ps = torch.randn(4, 6), torch.full((4,), p)
    batched = torch.func.vmap(fwnet.pool_p)(u, ps)
    torch.testing.assert_close(batched, fwnet.pool_p(u, p))
    loss = lambda u, p: fwnet.pool_p(u, p).pow(3).sum()  # noqa: E731
    by_u, by_p = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(u, ps)
    for row, exponent, grad_u, grad_p in zip(u, ps, by_u, by_p, strict=True):
        expected = torch.func.grad(loss, argnums=(0, 1))(row, exponent)
        torch.testing.assert_close((grad_u, grad_p), expected)


def test_batched_gradients_and_jacobians():
    u = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    unit = lambda u: fwnet.pool_p(u, 1.3)  # noqa: E731
    upstream = torch.randn(5, 3, 4, dtype=torch.float64)
    (batched,) = torch.autograd.grad(unit(u), u, upstream, is_grads_batched=True)
    for grad, expected in zip(upstream, batched, strict=True):
        torch.testing.assert_close(torch.autograd.grad(unit(u), u, grad)[0], expected)
    jacobian = torch.autograd.functional.jacobian(unit, u, vectorize=True)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(unit, u))


def test_fake_tensors_pass_through():
    with torch._subclasses.FakeTensorMode():
        assert fwnet.pool_p(torch.randn(3, 4), 1.3).shape == (3, 4)


def test_autocast_keeps_the_unit_in_float32():
    u, p = torch.randn(4, 8), torch.tensor(1.3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = u @ torch.eye(8)
        s = fwnet.pool_p(half, p)
        exact = fwnet.pool_p(u, p)
    s.float().sum().backward()
    assert s.dtype == torch.bfloat16
    assert p.grad.isfinite()
    torch.testing.assert_close(exact, fwnet.pool_p(u, p), rtol=0, atol=0)


def test_compile_serves_all_p_with_one_graph():
    torch._dynamo.reset()
    graphs = []

    def backend(module, example_inputs):
        graphs.append(module)
        return module.forward

    unit = torch.compile(lambda u, p: fwnet.pool_p(u, p, eps=1e-3), fullgraph=True, backend=backend)
    u = torch.randn(5, 7)
    for p in (1.0, 1.2, 1.7, 2.0, 30.0, math.inf):
        p = torch.tensor(p)
        torch.testing.assert_close(unit(u, p), fwnet.pool_p(u, p, eps=1e-3))
    assert len(graphs) == 1


def test_compile_differentiates():
    torch._dynamo.reset()
    unit = torch.compile(fwnet.pool_p, fullgraph=True, backend="aot_eager")
    u = torch.randn(5, 7, requires_grad=True)
    p = torch.tensor(1.3, requires_grad=True)
    grad = torch.randn(5, 7)
    compiled = torch.autograd.grad(unit(u, p), (u, p), grad)
    torch.testing.assert_close(compiled, torch.autograd.grad(fwnet.pool_p(u, p), (u, p), grad))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"p": 0.99}, ValueError, r"p must be in \[1, inf\], got 0.99"),
        ({"p": math.nan}, ValueError, r"p must be in \[1, inf\], got nan"),
        ({"p": "2"}, TypeError, "p must be a float or a 0-dim tensor, got str"),
        ({"p": torch.ones(3)}, ValueError, r"got a tensor of shape \(3,\)"),
        ({"p": torch.tensor(2)}, TypeError, "p must be a floating-point tensor, got torch.int64"),
        ({"radius": 0.0}, ValueError, "radius must be > 0 and finite, got 0.0"),
        ({"radius": -1.0}, ValueError, "got -1.0"),
        ({"radius": math.nan}, ValueError, "got nan"),
        ({"radius": math.inf}, ValueError, "got inf"),
        ({"radius": None}, TypeError, "got NoneType"),
        ({"eps": -1e-3}, ValueError, "eps must be 0, or finite and >= 1e-30, got -0.001"),
        ({"u": torch.arange(3)}, TypeError, "u must be a floating-point tensor, got torch.int64"),
        ({"eps": 1e-40}, ValueError, "got 1e-40"),
        ({"u": [1.0, 2.0]}, TypeError, "u must be a tensor, got list"),
        ({"dim": 1}, IndexError, r"u must have the axis 1, got shape \(3,\)"),
        ({"dim": None}, IndexError, "u must have the axis None"),
    ],
)
def test_arguments_that_cannot_be_right(change, error, message):
    arguments = {"u": torch.randn(3), "p": 1.5} | change
    with pytest.raises(error, match=message):
        fwnet.pool_p(**arguments)


def test_pool_excess_keeps_the_digits_of_p_minus_1():
    u = torch.tensor([1.0, 1 - 1e-6, 0.5])
    p = torch.tensor(1 + 1e-6)  # float32: 1 + 9.54e-7
    torch.testing.assert_close(pool_excess(u, p - 1), fwnet.pool_p(u, p))
    assert (pool_excess(u, torch.tensor(1e-6)) - fwnet.pool_p(u, p)).abs().max() > 1e-3
    with pytest.raises(ValueError, match=r"excess must be p - 1 >= 0, got -0.5"):
        pool_excess(u, -0.5)


@pytest.mark.parametrize("p", [1.2, 3.0])
@pytest.mark.parametrize("absent", ["", "b", "z", "bz"])
def test_frank_wolfe_step_gradcheck(p, absent):
    z, a, b = torch.randn(3, 2, 4, 3, dtype=torch.float64).unbind()
    tensors = [t.clone().requires_grad_() for t in (z, a, b)]
    tensors += [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, p - 1, 2.0)]

    def step(z, a, b, step_size, excess, radius):
        z, b = (None if name in absent else t for name, t in (("z", z), ("b", b)))
        return frank_wolfe_step(z, a, b, step_size, excess, radius, dim=1, eps=0.1)

    assert torch.autograd.gradcheck(step, tensors, fast_mode=True)


def test_frank_wolfe_step_is_the_paper_s_update():
    """z ← (1 − γ)z + γ·pool_p(DᵀDz − Dᵀx), in one step from z = 0 and in the next."""
    dictionary, x = torch.randn(6, 10), torch.randn(4, 6)
    ball = fwnet.LpBall(1.3, 5.0)
    z1 = frank_wolfe_step(None, -x @ dictionary, None, 1.0, 0.3, 5.0)
    torch.testing.assert_close(z1, ball.lmo(-x @ dictionary))
    z2 = frank_wolfe_step(z1, z1 @ dictionary.T @ dictionary, -x @ dictionary, 2 / 3, 0.3, 5.0)
    gradient = (z1 @ dictionary.T - x) @ dictionary
    torch.testing.assert_close(z2, z1 / 3 + 2 / 3 * ball.lmo(gradient), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": torch.zeros(2, 4)}, r"b must have the shape and dtype of a, \(2, 3\) torch.float32"),
        ({"z": torch.zeros(2, 3).double()}, r"got \(2, 3\) torch.float64"),
        ({"step_size": 1.5}, r"step_size must be in \[0, 1\], got 1.5"),
        ({"step_size": torch.ones(2)}, r"step_size must be a float or a 0-dim tensor"),
        ({"excess": -0.1}, r"excess must be p - 1 >= 0, got -0.1"),
        ({"a": torch.randn(2, 3), "radius": 0.0}, r"radius must be > 0 and finite, got 0.0"),
    ],
)
def test_frank_wolfe_step_says_what_it_expected(change, message):
    arguments = {"z": None, "a": torch.randn(2, 3), "b": None, "step_size": 0.5, "excess": 0.3}
    with pytest.raises(ValueError, match=message):
        frank_wolfe_step(**(arguments | change))


def test_soft_threshold_refuses_a_negative_threshold():
    with pytest.raises(ValueError, match=r"threshold must be >= 0, got -1.0"):
        fwnet.soft_threshold(torch.randn(3), -1.0)


def test_dual_exponent():
    assert fwnet.dual_exponent(1) == math.inf
    assert fwnet.dual_exponent(math.inf) == 1
    assert fwnet.dual_exponent(2) == 2
    assert fwnet.dual_exponent(torch.tensor(1.5)).item() == 3
    with pytest.raises(ValueError, match="p must be in"):
        fwnet.dual_exponent(0.5)


@given(u=VECTORS, threshold=st.floats(0, 10))
def test_soft_threshold_minimizes_its_objective(u, threshold):
    u = u.clamp(-100, 100)
    z = fwnet.soft_threshold(u, threshold)
    # 0 ∈ z − u + threshold·∂|z|
    at_zero = z == 0
    assert (u[at_zero].abs() <= threshold).all()
    torch.testing.assert_close((z + threshold * z.sign())[~at_zero], u[~at_zero])


def test_anomaly_mode_reads_tensors_and_refuses_invalid_ones():
    """Outside of it a tensor is never read, and an invalid one gives NaN."""
    u = torch.tensor([3.0, -4.0])
    assert fwnet.pool_p(u, torch.tensor(0.5)).isnan().all()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        torch.testing.assert_close(fwnet.pool_p(u, torch.tensor(2.0)), fwnet.pool_p(u, 2.0))
        with pytest.raises(ValueError, match=r"p must be in \[1, inf\], got tensor\(0.5"):
            fwnet.pool_p(u, torch.tensor(0.5))
        with pytest.raises(ValueError, match=r"radius must be > 0 and finite, got tensor\(-1"):
            fwnet.pool_p(u, 2.0, torch.tensor(-1.0))
