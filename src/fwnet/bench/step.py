"""The fused Frank-Wolfe step z' = (1 − γ)·z + γ·pool_p(a + b), beside a copy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.bench.harness import Options, Report, Row, compare
from fwnet.bench.pool import Case, gpu_cases, random_input
from fwnet.functional import frank_wolfe_step, pool_excess

__all__ = ["run"]

EXCESS, STEP = 0.4, 0.3


def run(options: Options) -> Report:
    """Compare forward, and forward with all gradients, in every layout of the pool benchmark."""
    report = options.report("step", baseline="copy")
    for case in gpu_cases(options.quick or options.device.type == "cpu"):
        if case.dtype == torch.float32:
            report.rows += _compare(case, options)
    return report


def _compare(case: Case, options: Options) -> list[Row]:
    z, a, b, grad = (random_input(case, seed, options.device) for seed in range(4))
    excess, step = (torch.tensor(v, device=a.device) for v in (EXCESS, STEP))
    inputs = [t.requires_grad_() for t in (z, a, b, step, excess)]
    target = torch.empty_like(a)
    units: dict[str, Callable[..., Tensor]] = {
        "fused step": frank_wolfe_step,
        "pool_p and plain operators": _separate,
    }

    def forward(unit: Callable[..., Tensor]) -> Callable[[int], object]:
        def call(_: int) -> None:
            with torch.no_grad():
                unit(*inputs, dim=case.dim)

        return call

    def both(unit: Callable[..., Tensor]) -> Callable[[int], object]:
        return lambda _: torch.autograd.grad(unit(*inputs, dim=case.dim), inputs, grad)

    rows = []
    for title, measured, limit in (
        ("forward", forward, 2.3),
        ("forward and gradients", both, 6.0),
    ):
        candidates: dict[str, Callable[[int], object]] = {
            "copy": lambda _: target.copy_(a.detach())
        }
        candidates |= {name: measured(unit) for name, unit in units.items()}
        targets = {"fused step": limit} if options.device.type == "cuda" else {}
        rows += compare(f"{title}, {case.title}", candidates, options, targets=targets)
    return rows


def _separate(z: Tensor, a: Tensor, b: Tensor, step: Tensor, excess: Tensor, dim: int) -> Tensor:
    return (1 - step) * z + step * pool_excess(a + b, excess, dim=dim)
