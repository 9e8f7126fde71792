"""pool_p and the fused Frank-Wolfe step, forward and with gradients, compared with a copy.

On a CPU pool_p is compared with a convolution instead.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d

import fwnet
from fwnet.bench.harness import Options, Report, Row, compare
from fwnet.functional import frank_wolfe_step, pool_excess
from fwnet.kernels import use_reference

P, STEP_SIZE = 1.4, 0.3
COMPILED = "plain operators, torch.compile"


class Case(NamedTuple):
    """A shape with the axis of its rows, and the target ratios of pool_p."""

    title: str
    shape: tuple[int, ...]
    dim: int
    channels_last: bool
    dtype: torch.dtype
    forward_target: float
    backward_target: float

    def random(self, seed: int, device: torch.device) -> Tensor:
        """Return random numbers; these shapes are several times the size of any cache."""
        generator = torch.Generator(device).manual_seed(seed)
        u = torch.randn(self.shape, generator=generator, device=device).to(self.dtype)
        return u.contiguous(memory_format=torch.channels_last) if self.channels_last else u


def run(options: Options) -> Report:
    """Compare pool_p with a copy of the same bytes (GPU) or with a convolution (CPU)."""
    if options.device.type == "cpu":
        return _run_cpu(options)
    report = options.report("pool", baseline="copy")
    for case in _gpu_cases(options.quick):
        u, grad = (case.random(seed, options.device) for seed in (0, 1))
        p = torch.tensor(P, device=u.device)
        compiled = torch.compile(fwnet.pool_p, fullgraph=True, dynamic=False)
        units: dict[str, Callable[..., Tensor]] = {
            "pool_p": fwnet.pool_p,
            "plain operators": _plain(fwnet.pool_p),
            COMPILED: _plain(compiled),
            "softmax": lambda u, _, dim: u.softmax(dim),
        }
        targets = (case.forward_target, case.backward_target)
        report.rows += _compare_units(case, units, (u, p), u, grad, targets, options)
    return report


def run_step(options: Options) -> Report:
    """Compare z' = (1 − γ)·z + γ·pool_p(a + b) with a copy, in every layout of `run`."""
    report = options.report("step", baseline="copy")
    on_gpu = options.device.type == "cuda"
    units: dict[str, Callable[..., Tensor]] = {
        "fused step": frank_wolfe_step,
        "pool_p and plain operators": _separate,
    }
    for case in _gpu_cases(options.quick or not on_gpu):
        if case.dtype == torch.float32:
            z, a, b, grad = (case.random(seed, options.device) for seed in range(4))
            step, excess = (torch.tensor(v, device=a.device) for v in (STEP_SIZE, P - 1))
            inputs, targets = (z, a, b, step, excess), (2.3, 6.0) if on_gpu else None
            report.rows += _compare_units(case, units, inputs, a, grad, targets, options)
    return report


def _gpu_cases(quick: bool) -> Iterator[Case]:
    """Yield the shapes of image networks in both memory formats, and long rows."""
    batch = 16 if quick else 256
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        targets = (1.15, 3.0) if dtype == torch.float32 else (1.5, 4.0)
        image = (batch, 64, 96, 96)
        yield Case(f"{[*image]} channels, {name}", image, 1, False, dtype, *targets)
        yield Case(f"{[*image]} channels, last in memory, {name}", image, 1, True, dtype, *targets)
        rows = (batch * 4096, 128)
        yield Case(f"{[*rows]} rows, {name}", rows, 1, False, dtype, *targets)


def _compare_units(
    case: Case,
    units: Mapping[str, Callable[..., Tensor]],
    inputs: Sequence[Tensor],
    copied: Tensor,
    grad: Tensor,
    targets: tuple[float, float] | None,
    options: Options,
) -> list[Row]:
    """Time the forward pass of each unit, then the forward pass with all gradients.

    The targets are those of the first unit.
    """
    destination = torch.empty_like(copied)
    for tensor in inputs:
        tensor.requires_grad_()

    def forward(unit: Callable[..., Tensor]) -> Callable[[int], object]:
        def call(_: int) -> None:
            with torch.no_grad():
                unit(*inputs, dim=case.dim)

        return call

    def with_gradients(unit: Callable[..., Tensor]) -> Callable[[int], object]:
        return lambda _: torch.autograd.grad(
            unit(*inputs, dim=case.dim), inputs, grad, allow_unused=True
        )

    rows = []
    titles = {"forward": forward, "forward and gradients": with_gradients}
    for index, (title, measured) in enumerate(titles.items()):
        torch._dynamo.reset()  # compile for one shape at a time
        candidates: dict[str, Callable[[int], object]] = {
            "copy": lambda _: destination.copy_(copied.detach())
        }
        candidates |= {name: measured(unit) for name, unit in units.items()}
        rows += compare(
            f"{title}, {case.title}",
            candidates,
            options,
            targets={next(iter(units)): targets[index]} if targets else None,
            may_fail={COMPILED},
        )
    return rows


def _run_cpu(options: Options) -> Report:
    report = options.report("pool", baseline="convolution 64 → 64, 3×3")
    height, width = (81, 121) if options.quick else (321, 481)
    for channels_last in (False, True):
        where = "last in memory, " if channels_last else ""
        title = f"[1, 64, {height}, {width}] channels, {where}fp32"
        case = Case(title, (1, 64, height, width), 1, channels_last, torch.float32, 0.6, 0.0)
        report.rows += _compare_with_convolution(case, report.baseline, options)
    return report


@torch.no_grad()
def _compare_with_convolution(case: Case, baseline: str, options: Options) -> list[Row]:
    u = case.random(0, options.device)
    kernel = case._replace(shape=(64, 64, 3, 3)).random(1, options.device)
    destination = torch.empty_like(u)
    candidates = {
        baseline: lambda _: conv2d(u, kernel, padding=1),
        "pool_p": lambda _: fwnet.pool_p(u, P, dim=1, eps=1e-3),
        "plain operators": lambda _: _plain(fwnet.pool_p)(u, P, dim=1, eps=1e-3),
        "the paper's two steps, with pow": lambda _: _two_steps(u),
        "softmax": lambda _: u.softmax(1),
        "copy": lambda _: destination.copy_(u),
    }
    targets = {"pool_p": case.forward_target}
    return compare(f"forward, {case.title}", candidates, options, targets=targets)


def _two_steps(u: Tensor) -> Tensor:
    """y = u/‖u‖_q, then −sign(y)|y|^(1/(p−1)): the unit as in the paper."""
    q = fwnet.dual_exponent(P)
    y = u / u.abs().pow(q).sum(1, keepdim=True).pow(1 / q)
    return -y.sign() * y.abs().pow(1 / (P - 1))


def _separate(z: Tensor, a: Tensor, b: Tensor, step: Tensor, excess: Tensor, dim: int) -> Tensor:
    return (1 - step) * z + step * pool_excess(a + b, excess, dim=dim)


def _plain(unit: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(*arguments: object, **options: object) -> Tensor:
        with use_reference():
            return unit(*arguments, **options)

    return call
