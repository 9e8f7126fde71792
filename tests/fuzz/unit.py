"""pool_p on random rows over all exponents of floats: no NaN, and errors within their bounds."""

import math
from typing import NamedTuple

import mpmath as mp
import torch
from hypothesis import strategies as st
from torch import Tensor

import fwnet
from fwnet.kernels import blocked, reference
from tests import high_precision
from tests.fuzz.registry import Tried, target

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float64, torch.float32, torch.bfloat16, torch.float16
)}  # fmt: skip
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
SHAPES = ["all exponents", "alike", "ties", "near ties", "sparse"]
ROWS = 256
TINY = torch.finfo(torch.float32).tiny
LEAST_EXCESS = 1 / torch.finfo(torch.float32).max  # what float32 takes for p − 1 = 0
GPU_LARGEST = 2.0**126


class Block(NamedTuple):
    """Some rows and the arguments of the unit."""

    kernel: str
    dtype: str
    length: int
    shape: str
    excess: float
    radius: float
    eps: float
    seed: int


def blocks(kernels: list[str], dtypes: list[str]) -> st.SearchStrategy[Block]:
    """Return the strategy for some kernels and dtypes."""
    excess = st.one_of(
        st.sampled_from([0.0, 1 / 3, 0.1, 0.3, 1.0, 2.0, math.inf]),
        st.floats(-8, 8).map(lambda power: 10.0**power),
        st.floats(0.02, 4.0),
        st.floats(-37, 37.9).map(lambda power: 10.0**power),
    ).map(lambda value: torch.tensor(value, dtype=torch.float32).item())
    return st.builds(
        Block,
        st.sampled_from(kernels),
        st.sampled_from(dtypes),
        st.one_of(st.integers(1, 9), st.sampled_from([16, 33, 64, 100])),
        st.sampled_from(SHAPES),
        excess,
        st.sampled_from([1.0, 2.0, 1e-3, 1e3]),
        st.sampled_from([0.0, 0.0, 1e-3, 1e-12]),
        st.integers(0, 2**31),
    )


def random_rows(block: Block, count: int = ROWS) -> Tensor:
    """Return rows of finite floats, subnormal ones and zeros among them."""
    dtype = DTYPES[block.dtype]
    generator = torch.Generator().manual_seed(block.seed)
    shape = (count, block.length)
    bits = BITS[dtype.itemsize]
    limits = torch.iinfo(bits)
    high = limits.max if bits == torch.int64 else limits.max + 1
    u = torch.randint(limits.min, high, shape, dtype=bits, generator=generator).view(dtype)
    u = torch.where(u.isfinite(), u, torch.finfo(dtype).max)
    if block.shape == "all exponents":
        return u
    peak, near = u[:, :1], torch.randn(shape, generator=generator, dtype=torch.float64)
    if block.shape == "ties":
        return torch.where(near > 0.5, peak, torch.where(near < -0.5, -peak, u))
    if block.shape == "near ties":
        near = near.sign() * (1 + torch.finfo(dtype).eps * near.mul(2).round())
    u = torch.nan_to_num((peak.double() * near).to(dtype))
    return torch.where(near.abs() < 0.7, 0, u) if block.shape == "sparse" else u


def _exact(block: Block, u: Tensor, grad: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return pool_p and its gradients in float64 on the device of u."""
    excess, radius = block.excess, block.radius
    if excess == 0 and DTYPES[block.dtype] != torch.float64:
        excess = LEAST_EXCESS  # with eps, rows of 1e35 and more are not 0 yet
    scalars = [torch.tensor(v, dtype=torch.float64, device=u.device) for v in (excess, radius)]
    arguments = (None, None, None, *scalars, block.eps, -1)
    grads = reference.backward(grad.double(), u.double(), *arguments)
    return reference.forward(u.double(), *arguments), (grads[0], grads[2], grads[3])


def _allowed(block: Block, exact: Tensor) -> tuple[Tensor, ...]:
    """Return the error that is allowed by the row's largest entry, and by the entry itself."""
    dtype = DTYPES[block.dtype]
    largest = exact.abs().amax(-1, keepdim=True)
    damping = -(largest / block.radius).clamp(min=TINY).log() if block.eps else 0.0
    rounding = torch.zeros_like(exact) + TINY
    if dtype.itemsize == 2:  # the result is rounded once more
        limits = torch.finfo(dtype)
        rounding = rounding + limits.eps * exact.abs() + limits.smallest_normal * limits.eps
    elementwise = 2e-4 if block.kernel == "triton" else 2e-5
    by_row, by_entry = 1e-6 * largest, elementwise * exact.abs()
    return tuple(bound * (1 + 0.6 * damping) + rounding for bound in (by_row, by_entry))


def check_block(block: Block, u: Tensor) -> None:
    """Raise unless a block of rows keeps its promises; u is on the device of the kernel."""
    dtype = DTYPES[block.dtype]
    generator = torch.Generator().manual_seed(block.seed + 1)
    grad = torch.randn(u.shape, generator=generator).to(u)
    kernel = _kernel(block.kernel)
    scalars = [torch.tensor(v, dtype=torch.float64, device=u.device) for v in block[4:6]]
    arguments = (None, None, None, *scalars, block.eps, -1)
    s = kernel.forward(u, *arguments)
    grad_u, _, grad_p, grad_radius, _ = kernel.backward(grad, u, *arguments)
    assert s.isfinite().all(), "the unit is not finite"
    assert not grad_u.isnan().any(), "NaN in the gradient of u"
    assert dtype.itemsize == 2 or grad_u.isfinite().all(), "the gradient of u is not finite"
    assert grad_p.isfinite(), "the gradient of p is not finite"
    assert grad_radius.isfinite(), "the gradient of the radius is not finite"
    if dtype == torch.float64:
        _compare_with_80_digits(block, u[0], s[0])
        return
    exact, exact_grads = _exact(block, u, grad)
    assert not any(t.isnan().any() for t in (exact, *exact_grads)), "NaN in float64"
    _compare(block, s.double() - exact, _allowed(block, exact), "the unit")
    _compare_gradients(block, u.double(), grad * exact, (grad_u, grad_p, grad_radius), exact_grads)


def _kernel(name: str) -> object:
    if name == "triton":
        from fwnet.kernels import triton_ops

        return triton_ops
    return {"reference": reference, "blocked": blocked}[name]


def _compare(block: Block, error: Tensor, bounds: tuple[Tensor, ...], what: str) -> None:
    for bound in bounds:
        worst = (error.abs() / bound).nan_to_num(0).max().item()
        assert worst <= 1, f"the error of {what} is {worst:.3g} times its bound: {block}"


def _compare_with_80_digits(block: Block, u: Tensor, s: Tensor) -> None:
    """float64 has no wider dtype here: one row of each block is computed with 80 digits."""
    if not 1e-12 <= block.excess <= 1e12:
        return
    exact = high_precision.pool_tensor(u, block.excess, block.radius, block.eps)
    largest = max(abs(v) for v in exact)
    if largest == 0:
        return
    damping = -float(mp.log(largest / block.radius)) if block.eps else 0.0
    for value, truth in zip(s.tolist(), exact, strict=True):
        bound = (2e-15 + 1.2e-15 * damping) * largest + torch.finfo(torch.float64).tiny
        assert abs(mp.mpf(value) - truth) <= bound, f"off by {abs(value - truth) / bound}: {block}"


def _compare_gradients(
    block: Block,
    u: Tensor,
    terms: Tensor,
    found: tuple[Tensor, ...],
    exact: tuple[Tensor, ...],
) -> None:
    """The bounds of the conformance tests: of u by row, of p and radius by the terms summed."""
    excess, dtype = block.excess, DTYPES[block.dtype]
    size = terms.abs().sum()
    limits = torch.finfo(dtype)
    if excess in (0, math.inf):
        assert (found[0] == 0).all(), "the gradient of u is not 0 at p = 1 or p = ∞"
    else:
        ratios = torch.where(u == 0, 0, terms / u).abs().amax(-1, keepdim=True)
        # Where an entry of s underflows, so does its gradient, which is s/u times a factor.
        inverse = torch.where(u == 0, 1, 1 + 1 / u.abs())
        # At p = 2 a zero has a slope: c/(‖u‖ + eps), with the rounding of ρ that s has as well.
        peak = u.abs().amax(-1, keepdim=True)
        damping = torch.where((peak > 0) & (excess == 1), (block.eps / peak).log1p(), 0.0)
        own = 1e-6 * (1 + 0.6 * damping) * exact[0].abs()
        bound = 1e-4 * ratios / excess + TINY * (1 + 1 / excess) * inverse + own
        if dtype.itemsize == 2:
            bound = bound + limits.eps * exact[0].abs() + limits.smallest_normal * limits.eps
        largest = min(limits.max, torch.finfo(torch.float32).max)
        if excess < 1e-11:  # beyond, slopes of ties are limited
            bound = torch.full_like(bound, torch.inf)
        reach = torch.maximum(ratios / excess, exact[0].abs().amax(-1, keepdim=True))
        bound = torch.where(2 * reach > largest, torch.inf, bound)  # terms leave the range
        error = found[0].double() - exact[0]
        _compare(block, error, (bound,), "the gradient of u")
    radius_bound = (1e-5 * size + TINY * u.numel()) / block.radius
    _compare(block, found[2] - exact[2], (radius_bound,), "the gradient of the radius")
    if excess >= 1e-6:
        peak = u.abs().amax(-1, keepdim=True)
        logs = torch.where(u == 0, 0, (u.abs() / peak).log())
        spread = (logs * terms).abs().amax(-1).sum()
        damped = torch.where(peak == 0, 0, (block.eps / peak).log1p() * terms.abs()).sum()
        p_scale = spread / excess**2 + 2 * size + damped / excess**2
        p_bound = 1e-4 * p_scale + TINY * u.numel() * (1 + 1 / excess**2)
        _compare(block, found[1] - exact[1], (p_bound,), "the gradient of p")


@target(
    "pool_p",
    blocks(["reference", "blocked"], sorted(DTYPES)),
    kept=[
        Block("blocked", "bfloat16", 64, "sparse", math.inf, 1e3, 0.0, 313422),  # of p = 10³⁸
        Block("blocked", "float32", 5, "sparse", 1.0, 1.0, 1e-12, 0),  # eps/‖u‖ was infinite
        Block("blocked", "float32", 33, "ties", 0.1, 1e3, 0.0, 177),  # rows of 3.4e38
    ],
    examples=24,
)
def pool_p_on_a_cpu(block: Block) -> Tried:
    """Rows over all exponents of floats, on a CPU, against float64 or 80 digits."""
    check_block(block, random_rows(block))
    return Tried(f"pool_p: {block.kernel}, {block.dtype}", "within its bound", ROWS)


@target(
    "pool_p-triton",
    blocks(["triton"], sorted({*DTYPES} - {"float64"})),  # which takes the reference on a GPU
    examples=0,
    needs=["triton"],
)
def pool_p_on_a_gpu(block: Block) -> Tried:
    """The same on a GPU, with the numbers that it tells from 0 and infinity."""
    rows = 16 * ROWS
    u = random_rows(block, rows).cuda()
    largest = min(GPU_LARGEST, torch.finfo(u.dtype).max)
    check_block(block, torch.where(u.abs() < TINY, 0, u).clamp(-largest, largest))
    return Tried(f"pool_p: triton, {block.dtype}", "within its bound", rows)


@target("large", st.integers(0, 2**31), examples=0, usual=False, memory=2**32)
def pool_p_on_many_values(seed: int) -> Tried:
    """Ordinary rows in large blocks, against float64; at p of networks and at random p."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(seed)
    u = torch.randn(31250, 64, generator=generator, device=device)
    p = (4 / 3, 1.1, 2.0, 1 + 10 ** (seed % 601 / 100 - 3))[seed % 4]
    excess = torch.tensor(p - 1, dtype=torch.float32).item()
    scalars = [torch.tensor(v, dtype=torch.float64, device=device) for v in (excess, 1.0)]
    exact = reference.forward(u.double(), None, None, None, *scalars, 0.0, -1)
    s = fwnet.functional.pool_excess(u, excess)
    name = "triton" if device == "cuda" else "blocked"
    block = Block(name, "float32", 64, "normal", excess, 1.0, 0.0, seed)
    assert s.isfinite().all()
    _compare(block, s.double() - exact, _allowed(block, exact), "the unit")
    return Tried(f"pool_p: {name}, ordinary values", "within its bound", u.numel())
