"""Certified codes at every p, beside CVXPY and, at p = 1, scikit-learn: CPU time of one thread.

Codes in float64 are timed on all cores, too, by the clock.

scikit-learn minimizes ½‖x − Dz‖² + α‖z‖₁. The penalty that gives the code of `solve` is different
for every row, α = ‖Dᵀ(x − Dz)‖_∞; rows divided by it have the same solution with the penalty 1.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fwnet
from fwnet.bench.codes import paper_data, solve_with_cvxpy
from fwnet.bench.dictionary import NORM, SIDE, patches
from fwnet.bench.harness import Options, Report, Row
from fwnet.hardware import one_thread
from fwnet.progress import Progress
from fwnet.solvers import Solution
from fwnet.solvers.problem import Penalized

NAME = "codes-by-p"
ALL = (1.0, 1.02, 1.1, 1.3, 1.5, 2.0, 3.5, 4.0, 8.0, math.inf)
BASELINE = 1.3
SHAPES = ((50, 100), (64, 256), (64, 512))
RADIUS, RADII = 2.5, (1.0, 2.5, 5.0)
NUM_ATOMS = 256
TIGHTEST_LASSO = 1e-13
NUM_SYNTHETIC, NUM_PATCHES = 5_000, 2_000  # signals for `solve`, in one call
NUM_SCIKIT_LEARN, NUM_CVXPY = 500, 4  # of them for the others, whose time per code is constant


@dataclass(frozen=True)
class Data:
    """Signals, a dictionary, the radius of the codes, and the exponents."""

    name: str
    x: Tensor
    dictionary: Tensor
    radius: float
    exponents: tuple[float, ...]


def run(options: Options) -> Report:
    """Time `solve` for every p and dictionary, and the others on some of the same rows.

    At p = 1 there are two more radii: scikit-learn is the faster the shorter the codes.
    """
    with one_thread():
        report = options.report(NAME, f"solve, float64, p = {BASELINE:g} or the first p")
        problems = list(_problems(options))
    for data in problems:
        _compare(data, options, report)
    return report


def _problems(options: Options) -> Iterator[Data]:
    count = 200 if options.quick else NUM_SYNTHETIC
    exponents = options.exponents or ALL
    for n, m in SHAPES[:1] if options.quick else SHAPES:
        x, dictionary = paper_data(count, n, m)
        for radius in RADII:
            some = exponents if radius == RADIUS else tuple(p for p in exponents if p == 1)
            if some:
                yield Data(f"synthetic, {n} × {m}", x, dictionary, radius, some)
    count = min(count, NUM_PATCHES)
    rows = torch.from_numpy(patches(count, equal_contrast=True, seed=1)).double()
    if not options.quick:
        learner = fwnet.LpDictionaryLearning(NUM_ATOMS, p=1.0, radius=NORM, random_state=0)
        components = learner.fit(patches(20_000, equal_contrast=True, seed=0)).components_
        learned = torch.from_numpy(np.ascontiguousarray(components.T, dtype=np.float64))
        yield Data(f"image patches, {NUM_ATOMS} learned atoms", rows, learned, NORM, exponents)
    yield Data(f"image patches, {NUM_ATOMS} cosines", rows, overcomplete_dct(), NORM, exponents)


def overcomplete_dct(side: int = SIDE, waves: int = 16) -> Tensor:
    """Return products of cosines with `waves` frequencies per axis, (side², waves²)."""
    place, frequency = torch.arange(side).double() + 0.5, torch.arange(waves).double()
    cosines = torch.cos(math.pi * place[:, None] * frequency / waves)
    if waves > side:
        cosines[:, 1:] -= cosines[:, 1:].mean(0)
    cosines /= cosines.norm(dim=0)
    return torch.kron(cosines, cosines)


def _compare(data: Data, options: Options, report: Report) -> None:
    """Time all p in turn, each of them several times, and then the others once."""
    radius, exponents = data.radius, data.exponents
    group = f"{data.name}, radius {radius:g}"
    first = BASELINE if BASELINE in exponents else exponents[0]
    candidates: dict[str, Callable[[], Solution]] = {}
    notes: dict[str, Any] = {}
    for dtype in (torch.float64, torch.float32):
        x, dictionary = data.x.to(dtype), data.dictionary.to(dtype)
        for p in (first, *(p for p in exponents if p != first)):
            name = f"p = {p:g}, {str(dtype)[6:]}"
            ball = fwnet.LpBall(p, radius)
            candidates[name] = partial(fwnet.solve, x, dictionary, ball)
            options.progress(Progress(f"{group}, {name}", len(notes), 2 * len(exponents), "p"))
            notes[name] = int(candidates[name]().certified.sum())
    times: dict[str, list[float]] = {name: [] for name in candidates}
    rounds, cores = 2, torch.get_num_threads()
    for index in range(rounds):
        options.progress(Progress(group, index, rounds, "rounds"))
        for name, solving in candidates.items():
            times[name].append(_cpu_milliseconds(solving) / len(data.x))
        for p in exponents:
            name = f"p = {p:g}, float64"
            start = time.perf_counter()
            candidates[name]()
            elapsed = 1e3 * (time.perf_counter() - start) / len(data.x)
            times.setdefault(f"{name}, {cores} cores", []).append(elapsed)
    medians = {name: statistics.median(values) for name, values in times.items()}
    unit = next(iter(medians.values()))
    report.rows += [
        Row(group, name, value / unit, value, np.ptp(times[name]) / value, None)
        for name, value in medians.items()
    ]
    report.notes[f"{group}, certified of {len(data.x)}"] = notes
    report.notes[f"{group}, codes per second"] = {
        name: round(1e3 / value) for name, value in medians.items()
    }
    for p in exponents:
        ours = medians[f"p = {p:g}, float64"]
        others = {}
        if importlib.util.find_spec("cvxpy"):
            options.progress(Progress(f"{group}, CVXPY", exponents.index(p), len(exponents), "p"))
            few = data.x[: 2 if options.quick else NUM_CVXPY].numpy()
            job = (few, data.dictionary.numpy(), p, radius, False)
            solve_with_cvxpy((few[:1], *job[1:]))
            others["CVXPY"] = _cpu_milliseconds(partial(solve_with_cvxpy, job)) / len(few)
        if p == 1:
            options.progress(Progress(f"{group}, scikit-learn", 0, 1, "run"))
            some = dataclasses.replace(data, x=data.x[:NUM_SCIKIT_LEARN])
            others |= _scikit_learn(some, report.notes, group)
        report.rows += [
            Row(group, f"p = {p:g}, {name}", value / unit, value, 0.0, None)
            for name, value in others.items()
        ]
        report.notes[f"{group}, p = {p:g}"] = {
            f"times as fast as {name}": value / ours for name, value in others.items()
        }


def _cpu_milliseconds(run: Callable[[], object]) -> float:
    """Return the CPU time of one thread, which is the time on an idle machine."""
    with one_thread():
        start = time.process_time()
        run()
        return 1e3 * (time.process_time() - start)


def _scikit_learn(data: Data, notes: dict[str, Any], group: str) -> dict[str, float]:
    """Return milliseconds per code of scikit-learn's algorithms; note their gaps."""
    from sklearn.decomposition import sparse_encode
    from sklearn.linear_model import Lasso

    code = fwnet.solve(data.x, data.dictionary, fwnet.LpBall(1.0, data.radius)).code
    residual = data.x - code @ data.dictionary.T
    penalty = (residual @ data.dictionary).abs().amax(-1, keepdim=True)
    used = (penalty > 1e-9 * data.x.norm(dim=-1, keepdim=True)).squeeze(-1)  # the constraint binds
    if not used.any():
        return {}
    x = (data.x / penalty)[used]
    rows, atoms = x.numpy(), np.ascontiguousarray(data.dictionary.T.numpy())
    problem = Penalized(data.dictionary, 1.0, 1.0)

    def encode(algorithm: str) -> Callable[[], np.ndarray]:
        return lambda: sparse_encode(rows, atoms, algorithm=algorithm, alpha=1.0)

    def lasso(tol: float) -> Callable[[], np.ndarray]:
        model = Lasso(
            1 / rows.shape[1], fit_intercept=False, precompute=True, tol=tol, max_iter=100_000
        )
        return lambda: model.fit(atoms.T, rows.T).coef_

    def gap(codes: np.ndarray) -> float:
        z = torch.from_numpy(np.ascontiguousarray(codes)).reshape(len(x), -1)
        found = problem.gap(x, z, x - problem.decode(z))
        return float((found / (0.5 * x.square().sum(-1))).max())

    ways = {name: encode(name) for name in ("lasso_cd", "lasso_lars")}
    tol = 1e-8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while tol > TIGHTEST_LASSO and gap(lasso(tol)()) > 1e-10:
            tol /= 10
        ways["lasso_cd, gap 1e-10"] = lasso(tol)
        times = {}
        for name, way in ways.items():
            median = statistics.median(_cpu_milliseconds(way) for _ in range(2))
            times[f"scikit-learn, {name}"] = median / len(x)
            notes[f"{group}, {name}"] = {"largest gap": gap(way())}
    return times
