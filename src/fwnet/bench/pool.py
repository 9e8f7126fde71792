"""pool_p, forward and with its gradients, beside a copy of the same bytes (or a convolution)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d

import fwnet
from fwnet.bench.harness import Options, Report, Row, compare
from fwnet.kernels import use_reference

__all__ = ["Case", "gpu_cases", "random_input", "run"]

P = 1.4


class Case(NamedTuple):
    """A shape with the axis of its rows, and the ratios that are good enough."""

    title: str
    shape: tuple[int, ...]
    dim: int
    channels_last: bool
    dtype: torch.dtype
    forward_target: float
    backward_target: float


def run(options: Options) -> Report:
    """GPU: against a copy of the same bytes. CPU: against the convolution before the unit."""
    if options.device.type == "cuda":
        return _run_gpu(options)
    return _run_cpu(options)


def gpu_cases(quick: bool) -> Iterator[Case]:
    """The shapes of image networks in both memory formats, and long rows."""
    batch = 16 if quick else 256
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        targets = (1.15, 3.0) if dtype == torch.float32 else (1.5, 4.0)
        image = (batch, 64, 96, 96)
        yield Case(f"{[*image]} channels, {name}", image, 1, False, dtype, *targets)
        yield Case(f"{[*image]} channels, last in memory, {name}", image, 1, True, dtype, *targets)
        rows = (batch * 4096, 128)
        yield Case(f"{[*rows]} rows, {name}", rows, 1, False, dtype, *targets)


def _run_gpu(options: Options) -> Report:
    report = options.report("pool", baseline="copy")
    for case in gpu_cases(options.quick):
        u, grad = (random_input(case, seed, options.device) for seed in (0, 1))
        u.requires_grad_()
        report.rows += _compare_forward(case, u, options)
        report.rows += _compare_gradients(case, u, grad, options)
    return report


def _compare_forward(case: Case, u: Tensor, options: Options) -> list[Row]:
    torch._dynamo.reset()  # one shape at a time, each compiled for itself
    p = torch.tensor(P, device=u.device)
    target = torch.empty_like(u)
    compiled = torch.compile(fwnet.pool_p, fullgraph=True, dynamic=False)

    def forward(unit: Callable[..., Tensor]) -> Callable[[int], object]:
        def call(_: int) -> None:
            with torch.no_grad():
                unit(u, p, dim=case.dim)

        return call

    candidates = {
        "copy": lambda _: target.copy_(u.detach()),
        "pool_p": forward(fwnet.pool_p),
        "plain operators": forward(_plain(fwnet.pool_p)),
        "plain operators, torch.compile": forward(_plain(compiled)),
        "softmax": forward(_softmax),
    }
    return compare(
        f"forward, {case.title}",
        candidates,
        options,
        targets={"pool_p": case.forward_target},
        may_fail={"plain operators, torch.compile"},
    )


def _compare_gradients(case: Case, u: Tensor, grad: Tensor, options: Options) -> list[Row]:
    torch._dynamo.reset()
    p = torch.tensor(P, device=u.device, requires_grad=True)
    target = torch.empty_like(u)
    compiled = torch.compile(fwnet.pool_p, fullgraph=True, dynamic=False)

    def both(unit: Callable[..., Tensor], *wanted: Tensor) -> Callable[[int], object]:
        return lambda _: torch.autograd.grad(unit(u, p, dim=case.dim), wanted, grad)

    candidates = {
        "copy": lambda _: target.copy_(u.detach()),
        "pool_p": both(fwnet.pool_p, u, p),
        "plain operators": both(_plain(fwnet.pool_p), u, p),
        "plain operators, torch.compile": both(_plain(compiled), u, p),
        "softmax": both(_softmax, u),
    }
    return compare(
        f"forward and gradients, {case.title}",
        candidates,
        options,
        targets={"pool_p": case.backward_target},
        may_fail={"plain operators, torch.compile"},
    )


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
    u = random_input(case, 0, options.device)
    kernel = random_input(case._replace(shape=(64, 64, 3, 3)), 1, options.device)
    target = torch.empty_like(u)
    candidates = {
        baseline: lambda _: conv2d(u, kernel, padding=1),
        "pool_p": lambda _: fwnet.pool_p(u, P, dim=1, eps=1e-3),
        "plain operators": lambda _: _plain(fwnet.pool_p)(u, P, dim=1, eps=1e-3),
        "the paper's two steps, with pow": lambda _: _two_steps(u),
        "softmax": lambda _: u.softmax(1),
        "copy": lambda _: target.copy_(u),
    }
    targets = {"pool_p": case.forward_target}
    return compare(f"forward, {case.title}", candidates, options, targets=targets)


def _softmax(u: Tensor, _: Tensor, dim: int) -> Tensor:
    return u.softmax(dim)


def _two_steps(u: Tensor) -> Tensor:
    """y = u/‖u‖_q, then −sign(y)|y|^(1/(p−1)): the unit as the paper writes it."""
    q = fwnet.dual_exponent(P)
    y = u / u.abs().pow(q).sum(1, keepdim=True).pow(1 / q)
    return -y.sign() * y.abs().pow(1 / (P - 1))


def _plain(unit: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(*arguments: object, **options: object) -> Tensor:
        with use_reference():
            return unit(*arguments, **options)

    return call


def random_input(case: Case, seed: int, device: torch.device) -> Tensor:
    """Draw fresh random numbers; these shapes are several times any cache."""
    generator = torch.Generator(device).manual_seed(seed)
    u = torch.randn(case.shape, generator=generator, device=device).to(case.dtype)
    return u.contiguous(memory_format=torch.channels_last) if case.channels_last else u
