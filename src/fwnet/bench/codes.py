"""Certified codes from `solve`, compared with CVXPY on the paper's synthetic data."""

import dataclasses
import multiprocessing
import os
import time
from typing import Any

import torch
from torch import Tensor

import fwnet
from fwnet.bench.harness import Options, Report, Row, compare
from fwnet.data import synthetic_codes

P, MADE_AT = 1.3, 5.0
RADII = (5.0, 2.5)
SHAPES = ((50, 100), (64, 512))
AGREEMENT_EXPONENTS = (1.0, 1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 8.0, float("inf"))
NEW, REUSED = "CVXPY, a new problem", "CVXPY, one problem with x as a parameter"
TARGETS = {torch.float64: 1 / 150, torch.float32: 1 / 400}


def run(options: Options) -> Report:
    """Time codes at p = 1.3, certify all of them, and compare with CVXPY at every p.

    With exponents given, time codes at these p instead (on a CPU, `codes_by_p.py`).
    """
    from fwnet.bench import codes_by_p

    on_gpu = options.device.type == "cuda"
    if options.exponents is not None and not on_gpu:
        return codes_by_p.run(options)
    baseline = "codes" if on_gpu else "CVXPY with Clarabel, a sample, all cores"
    report = options.report("codes" if options.exponents is None else codes_by_p.NAME, baseline)
    if not on_gpu:
        _run_beside_cvxpy(options, report)
    elif options.exponents is None:
        for radius in RADII:
            _time_on_gpu(fwnet.LpBall(P, radius), 2_000_000, options, report)
    else:
        for p in options.exponents or codes_by_p.ALL:
            _time_on_gpu(fwnet.LpBall(p, codes_by_p.RADIUS), 400_000, options, report)
    return report


def paper_data(count: int, n: int = 50, m: int = 100) -> tuple[Tensor, Tensor]:
    """Return signals and dictionary: codes of radius 5, unit-norm atoms, noise of σ = 0.1."""
    data = synthetic_codes(
        P,
        num_train=count,
        num_test=0,
        num_features=n,
        num_atoms=m,
        radius=MADE_AT,
        dictionary_scale=1.0,
        unit_atoms=True,
        dtype=torch.float64,
    )
    return data.signals, data.dictionary


def _run_beside_cvxpy(options: Options, report: Report) -> None:
    """Compare the time per sample; both solvers use all cores."""
    for n, m in SHAPES:
        count = 1_500 if options.quick or m > 100 else 15_000
        x, dictionary = paper_data(count, n, m)
        cvx_count = 2 * (os.cpu_count() or 1) * (2 if options.quick else 10)
        for radius in RADII:
            ball = fwnet.LpBall(P, radius)
            group = f"p = {P}, n = {n}, m = {m}, radius {radius:g}"
            cvx = _time_cvxpy(x[:cvx_count], dictionary, radius)
            report.rows += [
                Row(group, name, value / cvx[NEW], 1e3 * value, 0.0, None)
                for name, value in cvx.items()
            ]
            for dtype, tol in ((torch.float64, 2e-11), (torch.float32, 1e-6)):
                rows, matrix = x.to(dtype), dictionary.to(dtype)
                name = f"solve, {str(dtype)[6:]}, tol {tol:g}"
                times = 3 if options.quick else 7
                ours = _time_solve(group, name, (rows, matrix, ball, tol), options, times)
                each = ours.milliseconds / count
                ratio = 1e-3 * each / cvx[NEW]
                target = TARGETS[dtype] if m == 100 else None
                report.rows.append(
                    dataclasses.replace(ours, ratio=ratio, milliseconds=each, target=target)
                )
                report.notes[f"{group}, {name}"] = {
                    "times as fast as CVXPY": 1 / ratio,
                    "as CVXPY with a parameter": 1e3 * cvx[REUSED] / each,
                    **_certificates(rows, matrix, ball, tol),
                }
    report.notes |= _agreement(2 if options.quick else 50)


def _time_solve(
    group: str,
    name: str,
    arguments: tuple[Tensor, Tensor, fwnet.LpBall, float],
    options: Options,
    rounds: int,
) -> Row:
    x, dictionary, ball, tol = arguments
    solve = {name: lambda _: fwnet.solve(x, dictionary, ball, tol=tol)}
    (row,) = compare(group, solve, options, rounds=rounds, warmup=1, hide_launches=False)
    return row


def _certificates(x: Tensor, dictionary: Tensor, ball: fwnet.LpBall, tol: float) -> dict[str, Any]:
    solution = fwnet.solve(x, dictionary, ball, tol=tol)
    gauge = ball.gauge(solution.code)
    return {
        "certified": f"{int(solution.certified.sum())} of {len(x)}",
        "largest gap": solution.gap.max().item(),
        "largest norm_gap": solution.norm_gap.max().item(),
        "largest norm over radius, minus 1": gauge.max().item() - 1,
        "with optimum 0": int((gauge < 1 - 1e-6).sum()),
    }


def _agreement(count: int) -> dict[str, Any]:
    """Return the largest differences from CVXPY's objectives and codes, and CVXPY's gap."""
    x, dictionary = paper_data(count)
    notes = {}
    for p in AGREEMENT_EXPONENTS:
        for radius in RADII:
            ball = fwnet.LpBall(p, radius)
            ours = fwnet.solve(x, dictionary, ball)
            theirs = fwnet.solve(x, dictionary, ball, method="cvx", tol=1e-6)
            objectives = [
                0.5 * (x - s.code @ dictionary.T).square().sum(-1) for s in (ours, theirs)
            ]
            notes[f"CVXPY, p = {p:g}, radius {radius:g}, {count} samples"] = {
                "certified here": int(ours.certified.sum()),
                "objectives differ by": (objectives[0] - objectives[1]).abs().max().item(),
                "codes differ by": (ours.code - theirs.code).abs().max().item(),
                "its own gap": theirs.gap.max().item(),
            }
    return notes


def _time_cvxpy(x: Tensor, dictionary: Tensor, radius: float) -> dict[str, float]:
    """Return seconds per sample with one process per core, without the least norm."""
    processes = os.cpu_count() or 1
    parts = [part.numpy() for part in x.chunk(processes)]
    context = multiprocessing.get_context("spawn")
    ways = {NEW: False, REUSED: True}
    with context.Pool(processes) as pool:
        jobs = [
            (part, dictionary.numpy(), P, radius, reuse)
            for reuse in ways.values()
            for part in parts
        ]
        pool.map(solve_with_cvxpy, [(part[:1], *rest) for part, *rest in jobs], chunksize=1)
        seconds = {}
        for name, reuse in ways.items():
            chosen = [job for job in jobs if job[4] == reuse]
            slowest = max(pool.map(solve_with_cvxpy, chosen, chunksize=1))
            seconds[name] = slowest / len(x)
    return seconds


def solve_with_cvxpy(job: tuple[Any, ...]) -> float:
    """Solve as a user of CVXPY would; return the seconds."""
    import cvxpy

    cp: Any = cvxpy  # has no annotations
    rows, dictionary, p, radius, reuse = job
    z, parameter = cp.Variable(dictionary.shape[1]), cp.Parameter(dictionary.shape[0])

    def problem(x: Any) -> Any:
        squares = cp.sum_squares(x - dictionary @ z)
        return cp.Problem(cp.Minimize(0.5 * squares), [cp.pnorm(z, p, approx=False) <= radius])

    kept = problem(parameter)
    if reuse:
        parameter.value = rows[0]
        kept.solve(solver=cp.CLARABEL)  # compile once, untimed
    start = time.perf_counter()
    for x in rows:
        if reuse:
            parameter.value = x
            kept.solve(solver=cp.CLARABEL)
        else:
            problem(x).solve(solver=cp.CLARABEL)
    return time.perf_counter() - start


def _time_on_gpu(ball: fwnet.LpBall, count: int, options: Options, report: Report) -> None:
    """Time codes in float32, and a quarter of them in float64."""
    count = min(count, 100_000) if options.quick else count
    for dtype, tol in ((torch.float32, 1e-6), (torch.float64, 1e-10)):
        rows = count if dtype == torch.float32 else count // 4
        x, dictionary = (t.to(options.device, dtype) for t in paper_data(min(rows, 100_000)))
        x = x.repeat(rows // len(x), 1)
        name = f"{rows:,} codes, {str(dtype)[6:]}"
        group = f"p = {ball.p:g}, n = 50, m = 100, radius {ball.radius:g}"
        row = _time_solve(group, name, (x, dictionary, ball, tol), options, rounds=3)
        report.rows.append(row)
        report.notes[f"{group}, {name}"] = {
            "codes a second": 1e3 * rows / row.milliseconds,
            **_certificates(x[:100_000], dictionary, ball, tol),
        }
