"""Certified codes on every set, compared with CVXPY, both on one core."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import fwnet
from fwnet.bench.harness import Options, Report, Row, compare
from fwnet.hardware import one_thread

N, M, TOL = 50, 100, 1e-10
SLOPES = [2 - i / M for i in range(M)]
GROUPS = [range(first, first + 5) for first in range(0, M, 5)]


def run(options: Options) -> Report:
    """Time `solve` in float64 with a gap of 1e-10 on random x and D; on a CPU beside CVXPY."""
    on_cpu = options.device.type == "cpu"
    report = options.report("sets", "CVXPY with Clarabel, one core" if on_cpu else "codes")
    generator = torch.Generator().manual_seed(0)
    count = (200 if options.quick else 1_000) if on_cpu else 100_000
    x = torch.randn(count, N, dtype=torch.float64, generator=generator)
    dictionary = torch.randn(N, M, dtype=torch.float64, generator=generator)
    x, dictionary = x / x.norm(dim=-1, keepdim=True), dictionary / dictionary.norm(dim=0)
    with one_thread():
        for name, (convex_set, constraints) in problems().items():
            rows = _rows(name, convex_set, constraints, (x, dictionary), options, report)
            report.rows += rows
    return report


def problems() -> dict[str, tuple[fwnet.ConvexSet, Callable[[Any, Any], list[Any]]]]:
    """Return each set, and its constraints as a function of the module cvxpy and a variable."""
    falls = [a - b for a, b in zip(SLOPES, [*SLOPES[1:], 0.0], strict=True)]

    def k_support(cp: Any, z: Any) -> list[Any]:
        shares, parts = cp.Variable(M), cp.Variable(M)
        cones = [cp.quad_over_lin(z[i], shares[i]) <= parts[i] for i in range(M)]
        return [*cones, shares <= 1, cp.sum(shares) <= 10, cp.sum(parts) <= 0.7**2]

    def sorted_l1(cp: Any, z: Any) -> list[Any]:
        sums = [cp.sum_largest(cp.abs(z), count) for count in range(1, M)] + [cp.norm1(z)]
        return [sum(fall * part for fall, part in zip(falls, sums, strict=True)) <= 2]

    return {
        "NonnegativeLpBall(1, 2)": (
            fwnet.NonnegativeLpBall(1.0, 2.0),
            lambda cp, z: [z >= 0, cp.sum(z) <= 2],
        ),
        "NonnegativeLpBall(1.3, 1)": (
            fwnet.NonnegativeLpBall(1.3, 1.0),
            lambda cp, z: [z >= 0, cp.pnorm(z, 1.3, approx=False) <= 1],
        ),
        "NonnegativeLpBall(2, 0.5)": (
            fwnet.NonnegativeLpBall(2.0, 0.5),
            lambda cp, z: [z >= 0, cp.norm(z, 2) <= 0.5],
        ),
        "Simplex(1)": (fwnet.Simplex(), lambda cp, z: [z >= 0, cp.sum(z) == 1]),
        "Simplex(1, cap=0.1)": (
            fwnet.Simplex(1.0, cap=0.1),
            lambda cp, z: [z >= 0, z <= 0.1, cp.sum(z) == 1],
        ),
        "Box(-0.1, 0.1)": (fwnet.Box(-0.1, 0.1), lambda _, z: [z >= -0.1, z <= 0.1]),
        "GroupLpBall, 20 groups of 5": (
            fwnet.GroupLpBall(GROUPS),
            lambda cp, z: [sum(cp.norm(z[list(group)], 2) for group in GROUPS) <= 1],
        ),
        "KSupportBall(10, 0.7)": (fwnet.KSupportBall(10, 0.7), k_support),
        "SortedL1Ball, weights 2 to 1": (fwnet.SortedL1Ball(SLOPES, 2.0), sorted_l1),
    }


def _rows(
    name: str,
    convex_set: fwnet.ConvexSet,
    constraints: Callable[[Any, Any], list[Any]],
    data: tuple[Tensor, Tensor],
    options: Options,
    report: Report,
) -> list[Row]:
    x, dictionary = (t.to(options.device) for t in data)
    group = f"{name}, n = {N}, m = {M}"
    work = {"solve": lambda _: fwnet.solve(x, dictionary, convex_set, tol=TOL)}
    (ours,) = compare(group, work, options, rounds=1 if options.quick else 3, warmup=1)
    solution = fwnet.solve(x, dictionary, convex_set, tol=TOL)
    notes = {
        "codes a second": 1e3 * len(x) / ours.milliseconds,
        "certified": f"{int(solution.certified.sum())} of {len(x)}",
    }
    if options.device.type == "cpu":
        sample = 3 if options.quick else 10
        seconds, values = _time_cvxpy(x[:sample], dictionary, constraints)
        reached = 0.5 * (x[:sample] - solution.code[:sample] @ dictionary.T).square().sum(-1)
        each = ours.milliseconds / len(x)
        ours = dataclasses.replace(ours, ratio=1e-3 * each / seconds, milliseconds=each)
        notes["times as fast as CVXPY"] = 1e3 * seconds / each
        notes["objectives differ by"] = (reached - values).abs().max().item()
        rows = [Row(group, "CVXPY, x as a parameter", 1.0, 1e3 * seconds, 0.0, None), ours]
    else:
        rows = [ours]
    report.notes[group] = notes
    return rows


def _time_cvxpy(
    x: Tensor, dictionary: Tensor, constraints: Callable[[Any, Any], list[Any]]
) -> tuple[float, Tensor]:
    """Return the median seconds per sample, compilation left out, and the objectives."""
    import cvxpy

    cp: Any = cvxpy  # has no annotations
    z, target = cp.Variable(M), cp.Parameter(N)
    loss = cp.Minimize(0.5 * cp.sum_squares(target - dictionary.numpy() @ z))
    problem = cp.Problem(loss, constraints(cp, z))
    seconds, values = [], []
    for row in (x[0], *x):
        target.value = row.numpy()
        start = time.perf_counter()
        problem.solve(solver=cp.CLARABEL)
        seconds.append(time.perf_counter() - start)
        values.append(float(problem.value))
    return float(torch.tensor(seconds[1:]).median()), torch.tensor(values[1:], dtype=x.dtype)
