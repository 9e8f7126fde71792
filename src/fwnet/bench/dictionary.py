"""Time until a dictionary is as good as scikit-learn's, at p = 1, on patches of photographs.

scikit-learn minimizes ½‖x − zD‖² + α‖z‖₁, `LpDictionaryLearning` ½‖x − zD‖² with ‖z‖₁ ≤ c. Both
dictionaries are evaluated with both objectives on other patches of the images, where c is the mean
L1 norm of scikit-learn's codes. The reported time is when ours is as good as theirs in both.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

import fwnet
from fwnet.bench.harness import Options, Report, Row
from fwnet.coding import LearningProgress
from fwnet.progress import Progress
from fwnet.solvers import ADMM, solve_penalized

PICTURES = ("brick", "camera", "coins", "grass", "gravel", "moon", "page", "text")
SIDE, NORM, LEAST_CONTRAST = 8, 8.0, 0.05
ALPHA = 1.0
SETTINGS = (("lars", 256), ("cd", 256), ("lars", 1024), ("cd", 1024))
N_JOBS = 2
TARGET = 1 / 3
NUM_JUDGED, SNAPSHOTS = 500, 30
LOOSE: dict[str, Any] = {"tol": 1e-4, "method": ADMM(iterations_per_step=20), "max_steps": 50}


@dataclass(frozen=True)
class Snapshot:
    """The objectives of a dictionary during training, the time, and the gap of the codes."""

    seconds: float
    constrained: float
    penalized: float
    gap: float

    def is_as_good_as(self, other: Snapshot) -> bool:
        """Return whether neither objective is larger."""
        return self.constrained <= other.constrained and self.penalized <= other.penalized


def run(options: Options) -> Report:
    """Learn 256 atoms from 100,000 patches of 8 × 8, with equal contrast and unchanged."""
    count, num_atoms = (6_000, 64) if options.quick else (100_000, 256)
    settings = SETTINGS[:1] if options.quick else SETTINGS
    report = options.report("dictionary", "MiniBatchDictionaryLearning until it stops")
    for equal_contrast in (True, False):
        x, judged = (patches(size, equal_contrast, seed=s) for s, size in ((0, count), (1, 10_000)))
        unseen = torch.from_numpy(judged[:NUM_JUDGED])
        what = "equal contrast" if equal_contrast else "as they are"
        group = f"{num_atoms} atoms, {count:,} patches of {SIDE} × {SIDE}, {what}"
        theirs = {}
        for index, (algorithm, batch_size) in enumerate(
            settings if equal_contrast else settings[:1]
        ):
            options.progress(Progress(f"{what}, scikit-learn", index, len(settings), "fits"))
            name = f"scikit-learn, {algorithm}, batches of {batch_size}, n_jobs={N_JOBS}"
            theirs[name] = _fit_theirs(x, num_atoms, algorithm, batch_size)
        radius = mean_norm(unseen, next(iter(theirs.values()))[-1][1])
        ours = []
        rounds = 1 if options.quick else 3
        for index in range(rounds):
            options.progress(Progress(f"{what}, fwnet", index, rounds, "fits"))
            ours.append(_fit_ours(x, num_atoms, radius, options.device, seed=index))
        _compare(report, group, partial(judge, unseen, radius), theirs, ours, both=equal_contrast)
        report.notes[group] |= {"radius c": radius, "patches that judge": len(unseen)}
    return report


def patches(count: int, equal_contrast: bool, seed: int) -> np.ndarray:
    """Return zero-mean patches of scikit-image's images, equally many of each, (count, 64).

    With equal contrast every patch has norm 8 and flat patches are left out; otherwise the root
    mean square of the norms is 8.
    """
    from skimage import data

    rng = np.random.default_rng(seed)
    rows = []
    for name in PICTURES:
        picture = getattr(data, name)().astype(np.float64)
        windows = sliding_window_view(picture, (SIDE, SIDE))
        height, width = windows.shape[:2]
        size = min(height * width, 2 * count // len(PICTURES) + 1)
        chosen = rng.choice(height * width, size, replace=False)
        rows.append(windows[chosen // width, chosen % width].reshape(-1, SIDE * SIDE))
    x = np.concatenate(rows)
    x -= x.mean(1, keepdims=True)
    x *= NORM / np.sqrt((x**2).sum(1).mean())
    if equal_contrast:
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        x = (NORM * x / np.maximum(norms, 1e-9))[norms[:, 0] > LEAST_CONTRAST * NORM]
    chosen_rows: np.ndarray = rng.permutation(x)[:count].astype(np.float32)
    return chosen_rows


def judge(x: Tensor, radius: float, seconds: float, components: np.ndarray) -> Snapshot:
    """Evaluate a dictionary with both objectives on patches that were not used for training."""
    dictionary = _dictionary(components)
    constrained = fwnet.solve(x, dictionary, fwnet.LpBall(1.0, radius), **LOOSE)
    penalized = solve_penalized(x, dictionary, ALPHA, **LOOSE)
    values = [
        0.5 * (x - solution.code @ dictionary.T).square().sum(-1).mean().item()
        for solution in (constrained, penalized)
    ]
    gap = max(solution.gap.mean().item() for solution in (constrained, penalized))
    norm = penalized.code.abs().sum(-1).mean().item()
    return Snapshot(seconds, values[0], values[1] + ALPHA * norm, gap)


def mean_norm(x: Tensor, components: np.ndarray) -> float:
    """Return the mean L1 norm of the codes that minimize scikit-learn's objective."""
    code = solve_penalized(x, _dictionary(components), ALPHA, **LOOSE).code
    return float(code.abs().sum(-1).mean())


def _dictionary(components: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(components.T, dtype=np.float32))


def _fit_theirs(
    x: np.ndarray, num_atoms: int, algorithm: str, batch_size: int
) -> list[tuple[float, np.ndarray]]:
    """Return dictionaries during training with their times; the last is the result."""
    from sklearn.base import clone
    from sklearn.decomposition import MiniBatchDictionaryLearning
    from sklearn.exceptions import ConvergenceWarning

    way: list[tuple[float, np.ndarray]] = []
    start = time.perf_counter()

    def note(variables: dict[str, Any]) -> None:
        way.append((time.perf_counter() - start, variables["dictionary"].copy()))

    model = MiniBatchDictionaryLearning(
        num_atoms,
        alpha=ALPHA,
        batch_size=batch_size,
        fit_algorithm=algorithm,
        n_jobs=N_JOBS,
        random_state=0,
        callback=note,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # raised thousands of times
        clone(model).set_params(n_components=8, callback=None, max_iter=1).fit(x[:512])
        start = time.perf_counter()  # its processes have started
        model.fit(x)
    way.append((time.perf_counter() - start, model.components_))
    return way


def _fit_ours(
    x: np.ndarray, num_atoms: int, radius: float, device: torch.device, seed: int
) -> list[tuple[float, np.ndarray]]:
    model = fwnet.LpDictionaryLearning(
        num_atoms, p=1.0, radius=radius, random_state=seed, device=device.type
    )
    if seed > 0:  # only one run continues: the comparison needs the first pass
        model.set_params(max_iter=1)
    way: list[tuple[float, np.ndarray]] = []

    def note(progress: LearningProgress) -> None:
        if progress.step <= 10 or progress.step % 5 == 0:
            way.append((progress.seconds, model.components_.copy()))

    start = time.perf_counter()
    model.fit(x, callback=note)
    way.append((time.perf_counter() - start, model.components_))
    return way


def _compare(
    report: Report,
    group: str,
    evaluate: Callable[..., Snapshot],
    theirs: dict[str, list[tuple[float, np.ndarray]]],
    ours: list[list[tuple[float, np.ndarray]]],
    both: bool,
) -> None:
    """Report when ours was as good as their result, in both objectives or in the first."""
    ways = {
        name: [evaluate(*point) for point in _thinned(way)[::4] + way[-1:]]
        for name, way in theirs.items()
    }
    paths = [[evaluate(*point) for point in _thinned(way)] for way in ours]
    ratios = []
    for name, way in ways.items():
        end = way[-1]
        report.rows.append(Row(group, name, 1.0, 1e3 * end.seconds, 0.0, None))
        times = [_when_reached(path, end, both) for path in paths]
        seconds = statistics.median(times)
        spread = (max(times) - min(times)) / seconds if max(times) < math.inf else 0.0
        ratios.append(seconds / end.seconds)
        words = "as good in both" if both else "as good with ‖z‖₁ ≤ c"
        report.rows.append(
            Row(group, f"fwnet, {words}", ratios[-1], 1e3 * seconds, spread, None, TARGET)
        )
    last = {name: way[-1] for name, way in ways.items()} | {"fwnet, until it stops": paths[0][-1]}
    early = [
        point.seconds / statistics.median(_when_reached(path, point, both) for path in paths)
        for way in ways.values()
        for point in way
    ]
    report.notes[group] = {
        "alpha": ALPHA,
        "times as fast, at least": 1 / max(ratios),
        "times as fast to any point of its way, at least": min(early),
        "seconds of fwnet until it stops": paths[0][-1].seconds,
        "at the end: with ‖z‖₁ ≤ c, with α‖z‖₁": {
            name: (point.constrained, point.penalized) for name, point in last.items()
        },
        "fwnet on its way: seconds, with ‖z‖₁ ≤ c, with α‖z‖₁": _as_lists(paths[0]),
        "scikit-learn on its way": {name: _as_lists(way) for name, way in ways.items()},
        "largest mean gap of the codes that judge": max(
            point.gap for way in (*ways.values(), *paths) for point in way
        ),
        "scikit-learn": sklearn.__version__,
    }


def _when_reached(path: list[Snapshot], goal: Snapshot, both: bool) -> float:
    """Return the seconds until a path is as good as the goal; infinity if it never is."""
    for ours in path:
        if ours.is_as_good_as(goal) if both else ours.constrained <= goal.constrained:
            return ours.seconds
    return math.inf


def _thinned(way: list[tuple[float, np.ndarray]]) -> list[tuple[float, np.ndarray]]:
    """Return a few points, more of them at the beginning, and the last."""
    spaced = np.unique(np.geomspace(1, len(way), SNAPSHOTS).astype(int)) - 1
    return [way[index] for index in spaced]


def _as_lists(path: list[Snapshot]) -> list[list[float]]:
    return [[round(v, 4) for v in (s.seconds, s.constrained, s.penalized)] for s in path]
