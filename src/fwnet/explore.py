"""`fwnet explore`: which p and radius suit the rows of a file, as one HTML page."""

import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from torch import Tensor

import fwnet
from fwnet.checks import check_integer
from fwnet.coding import EncodeError, LearnedBall, learn_ball
from fwnet.coding.array_files import open_rows, read_dictionary
from fwnet.coding.ball_search import (
    WIDEST_NORMS,
    BallSearch,
    held_out_errors,
    norm_spread,
    random_folds,
)
from fwnet.data import keyed_generator
from fwnet.drawing import label_of, page, svg
from fwnet.files import write_whole
from fwnet.hardware import choose_device
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.solvers import solve

EXPONENTS = (1.0, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0)
RADIUS_FACTORS = (0.125, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # by the learned radius
MAP_ROWS = FIRST_ROWS = 100
FIRST_P, ROUNDS = 1.3, 15  # for a dictionary that is learned
CODE_TOL = 1e-5
USED = 1e-3  # an entry above this share of the largest counts as nonzero
READ_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Cell:
    """What codes in one ball are like.

    Attributes:
        p: Exponent.
        radius: Radius.
        relative: Radius by the median norm of exact codes.
        error: Mean squared error of held-out entries, by the variance of the entries.
        nonzeros: Mean share of the entries of a code that are not nearly 0.
        certified: Share of the codes that are certified.
        binds: Share of the signals that the ball is proven to be too small for.
    """

    p: float
    radius: float
    relative: float
    error: float
    nonzeros: float
    certified: float
    binds: float


@dataclass(frozen=True)
class Exploration:
    """A map of balls for one data set, and the one that is recommended.

    Attributes:
        data: The file.
        num_rows: Rows of the file.
        num_used: Rows of the sample.
        dictionary: D, (n, m), given or learned.
        was_given: Whether it was given.
        norms: 10th and 90th percentile of the norms of the signals.
        normalized: Whether every signal was divided by its norm.
        cells: The map.
        learned: The ball that predicts held-out entries best.
    """

    data: Path
    num_rows: int
    num_used: int
    dictionary: Tensor
    was_given: bool
    norms: tuple[float, float]
    normalized: bool
    cells: list[Cell]
    learned: LearnedBall


def explore(
    data: Path,
    dictionary: Path | None = None,
    *,
    components: int | None = None,
    normalize: bool | None = None,
    rows: int = 500,
    seed: int = 0,
    device: str = "auto",
    progress: ProgressCallback = silent,
) -> Exploration:
    """Code a sample of a file for a grid of p and radius, and learn the best ball.

    Args:
        data: Signals, one per row: .npy or .parquet.
        dictionary: A .npy file with D, (n, m). Default: one is learned from half of the sample.
        components: m, if D is learned. Default: the number of columns.
        normalize: Whether to divide every signal by its norm. Default: if the norms differ by
            more than a factor of 4 (90th by 10th percentile).
        rows: Rows of the sample.
        seed: Seed of the sample and of the first atoms.
        device: Where to compute.
        progress: Called after every step.
    """
    check_integer("rows", rows, 8)
    file, place = open_rows(data), choose_device(device)
    sample = torch.from_numpy(_sample(data, rows, seed)).to(place)
    norms = np.quantile(sample.norm(dim=1).cpu(), (0.1, 0.9)).tolist()
    if normalize is None:
        normalize = norm_spread(sample) > WIDEST_NORMS
    if normalize:
        sample = torch.nn.functional.normalize(sample, dim=1)  # a signal that is 0 stays 0
    held = sample
    if dictionary is not None:
        matrix = read_dictionary(dictionary, data, file.num_columns, np.dtype(np.float64))
        atoms = torch.from_numpy(matrix).to(place)
    else:
        held = sample[: len(sample) // 2]
        atoms = _learned_dictionary(sample[len(sample) // 2 :], held, components, seed, progress)
    learned = learn_ball(held, atoms, seed=seed, progress=_stage("the best ball", progress))
    cells = _map(held[:MAP_ROWS], atoms, learned, seed, progress)
    given, (low, high) = dictionary is not None, norms
    return Exploration(
        data, file.num_rows, len(sample), atoms, given, (low, high), normalize, cells, learned
    )


def _sample(data: Path, count: int, seed: int) -> np.ndarray:
    """Return random rows of a file in float64; raise if they are not finite or too few."""
    file = open_rows(data)
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.permutation(file.num_rows)[:count])
    size = max(1, READ_ENTRIES // file.num_columns)
    parts = []
    for index, shard in enumerate(file.shards(0, size)):
        inside = chosen[(chosen >= index * size) & (chosen < (index + 1) * size)]
        parts.append(shard[inside - index * size].astype(np.float64))
    found = generator.permutation(np.concatenate(parts))
    if not np.isfinite(found).all():
        raise EncodeError(f"{data} must hold finite numbers, got NaN or infinity")
    if len(found) < 8 or file.num_columns < 2:
        raise EncodeError(
            f"{data} must have at least 8 rows and 2 columns, got {file.num_rows} × "
            f"{file.num_columns}"
        )
    if not found.any():
        raise EncodeError(f"{data} must hold numbers other than 0")
    return np.ascontiguousarray(found)


def _learned_dictionary(
    train: Tensor, held: Tensor, components: int | None, seed: int, progress: ProgressCallback
) -> Tensor:
    """Return atoms, (n, m), learned for p = 1.3 and then for the best ball of those."""
    options: dict[str, Any] = {"max_iter": ROUNDS, "random_state": seed}
    norm = float(train.norm(dim=1).square().mean().sqrt())
    progress(Progress("a dictionary, 1 of 2", 0, 2))
    first = fwnet.LpDictionaryLearning(components, FIRST_P, norm, **options).fit(train).components_
    atoms = torch.from_numpy(first.T.copy()).to(train)
    ball = learn_ball(held[:FIRST_ROWS], atoms, seed=seed)
    progress(Progress("a dictionary, 2 of 2", 1, 2))
    learner = fwnet.LpDictionaryLearning(
        components, ball.p, ball.radius, dictionary=first, **options
    )
    return torch.from_numpy(learner.fit(train).components_.T.copy()).to(train)


def _map(
    x: Tensor, dictionary: Tensor, learned: LearnedBall, seed: int, progress: ProgressCallback
) -> list[Cell]:
    """Return cells around the learned ball: for every p, radii relative to exact codes."""
    folds = random_folds(x.shape[1], keyed_generator(seed, "folds")).to(x.device)
    search = BallSearch(x, dictionary, folds)
    variance = float(x.var(0, correction=0).mean()) or math.inf
    report = _stage("the map", progress)
    center = learned.radius / 2.0 ** search.unit(1 / learned.p)
    cells = []
    for p in EXPONENTS:
        unit = 2.0 ** search.unit(1 / p)
        for relative in (factor * center for factor in RADIUS_FACTORS):
            radius = relative * unit
            ball = fwnet.LpBall(p, radius)
            errors, _ = held_out_errors(x, dictionary, ball, folds, CODE_TOL)
            solution = solve(x, dictionary, ball, tol=CODE_TOL, warn=False)
            size = solution.code.abs()
            cells.append(
                Cell(
                    p,
                    radius,
                    relative,
                    float(errors.mean()) / variance,
                    float((size > USED * size.amax(-1, keepdim=True)).double().mean()),
                    float(solution.certified.double().mean()),
                    float(solution.binds.double().mean()),
                )
            )
            report(len(cells), len(EXPONENTS) * len(RADIUS_FACTORS))
    return cells


def recommendation(found: Exploration) -> list[str]:
    """Return what the map says, in sentences."""
    ball = found.learned
    (low_p, high_p), (low, high) = ball.p_interval, ball.radius_interval
    explained = 1 - ball.error / ball.variance if ball.variance else 0.0
    kind = (
        "few atoms per signal: codes are sparse"
        if ball.p < 1.05
        else "some large entries and many small ones"
        if ball.p < 1.9
        else "entries spread over many atoms"
    )
    lines = []
    if ball.error >= ball.variance:
        lines.append(
            "No ball predicts held-out entries better than their mean does: with this dictionary "
            "the data look like noise. Do not choose p and radius by this page."
        )
    else:
        lines.append(
            f"Take p = {ball.p:.2f} and radius = {ball.radius:.3g}. These codes predict held-out "
            f"entries best and explain {explained:.0%} of their variance; they have {kind}."
        )
    wide = [doubt for doubt in ball.doubts if "may be anything" in doubt]
    closely = " They do not tell more closely: other balls of this range serve as well."
    lines.append(
        f"The data allow p from {low_p:.2f} to {high_p:.2f} and a radius from {low:.3g} to "
        f"{high:.3g}.{closely if wide else ''}"
    )
    if found.normalized:
        lines.append(
            f"Norms of the signals are between {found.norms[0]:.3g} and {found.norms[1]:.3g} (10th "
            "and 90th percentile). Every signal was divided by its norm; divide yours as well."
        )
    lines += [f"Doubt: {doubt}." for doubt in ball.doubts if doubt not in wide]
    sparse, best = (
        min(cells, key=lambda cell: cell.error)
        for cells in ([cell for cell in found.cells if cell.p == 1], found.cells)
    )
    if ball.p >= 1.05 and sparse.error <= 1.1 * best.error:
        lines.append(
            f"p = 1 with radius {sparse.radius:.3g} is within 10 % of the best error and uses only "
            f"{sparse.nonzeros:.0%} of the atoms per signal: take it if you want sparse codes."
        )
    worst = min(cell.certified for cell in found.cells)
    if worst < 1:
        lines.append(f"In one ball only {worst:.0%} of the codes are certified.")
    return lines


def write_page(found: Exploration, output: Path) -> None:
    """Write the page, whole or not at all."""
    n, m = found.dictionary.shape
    source = "given" if found.was_given else "learned from the other half of the sample"
    lead = (
        f"{found.data.name}: {found.num_used:,} of {found.num_rows:,} rows of {n} columns; "
        f"dictionary of {m} atoms, {source}. fwnet {fwnet.__version__}"
    )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in recommendation(found))
    error = "Held-out error by the variance: 0 is perfect, 1 is no better than the mean"
    used = "Share of the entries of a code that are not 0"
    parts = [
        f"<h2>Recommendation</h2><ul>{items}</ul>",
        f"<h2>Held-out error</h2><p>{_about_error()}</p>{_heat_map(found, 'error', error)}",
        f"<h2>Sparsity</h2>{_heat_map(found, 'nonzeros', used)}",
        f"<h2>The best radius for each p</h2>{_table(found)}",
        f"<h2>Next</h2><p>{_next(found)}</p>",
    ]
    write_whole(output, page("fwnet explore", "Which p, which radius?", lead, "\n".join(parts)))


def _about_error() -> str:
    return (
        "A quarter of the entries of each signal is hidden, the others are coded, and the hidden "
        "ones are predicted from the code. Balls on the left are too small to follow the signals, "
        "those on the right follow the noise. The ring marks the best cell."
    )


def _heat_map(found: Exploration, name: str, title: str) -> str:
    """Draw one number of every cell, by p and relative radius."""
    values = np.array([getattr(cell, name) for cell in found.cells])
    table = values.reshape(len(EXPONENTS), len(RADIUS_FACTORS))
    logs = name == "error"
    low = max(values.min(), 1e-6)
    norm = LogNorm(low, max(min(values.max(), 3.0), 2 * low)) if logs else Normalize(0, 1)
    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    axis = figure.subplots()
    axis.imshow(table, norm=norm, cmap="viridis_r", aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        color = "#111111" if norm(value) < 0.55 else "#ffffff"
        text = f"{value:.0%}" if not logs else f"{value:.2g}"
        axis.text(column, row, text, ha="center", va="center", color=color, fontsize=9)
    row, column = divmod(int(np.argmin([cell.error for cell in found.cells])), table.shape[1])
    axis.plot(column, row, "o", markersize=30, markerfacecolor="none", markeredgecolor="#d62728")
    axis.set(
        xlabel="radius, by the norm of an exact code",
        ylabel="p",
        xticks=range(len(RADIUS_FACTORS)),
        xticklabels=[f"{cell.relative:.2g}" for cell in found.cells[: len(RADIUS_FACTORS)]],
        yticks=range(len(EXPONENTS)),
        yticklabels=[label_of(p) for p in EXPONENTS],
        title=title,
    )
    axis.spines[:].set_visible(False)
    return svg(figure, title)


def _table(found: Exploration) -> str:
    heads = ("p", "radius", "held-out error", "nonzeros", "ball binds", "certified")
    lines = ["<tr>" + "".join(f"<th>{head}" for head in heads)]
    for p in EXPONENTS:
        best = min((cell for cell in found.cells if cell.p == p), key=lambda cell: cell.error)
        lines.append(
            f"<tr><td>{label_of(p)}<td>{best.radius:.3g}<td>{best.error:.3g}"
            f"<td>{best.nonzeros:.0%}<td>{best.binds:.0%}<td>{best.certified:.0%}"
        )
    return f"<table>{''.join(lines)}</table>"


def _next(found: Exploration) -> str:
    ball, name = found.learned, html.escape(found.data.name)
    given = "" if found.was_given else "Save the dictionary with --save-dictionary D.npy. "
    if found.normalized:
        given += "Divide the rows by their norms. "
    return (
        f"{given}Codes of all rows, with certificates: <code>fwnet encode {name} --dictionary "
        f"D.npy --p {ball.p:.4g} --radius {ball.radius:.4g} -o codes.npy</code>"
    )


def _stage(name: str, progress: ProgressCallback) -> Callable[[int, int], None]:
    """Return a callback of counts that reports a stage."""
    return lambda done, total: progress(Progress(name, done, total))
