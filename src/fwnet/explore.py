"""`fwnet explore`: which p and radius suit the rows of a file, as one HTML page."""

import html
import math
import shlex
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
    LARGEST_SAMPLE,
    BallSearch,
    held_out_errors,
    random_folds,
)
from fwnet.coding.learned_ball import WIDEST_NORMS, norm_spread
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
        num_left_out: Rows of the file that hold NaN or infinity.
        dictionary: D, (n, m), given or learned.
        given: The file that it was read from; None if it was learned.
        norms: 10th and 90th percentile of the norms of the signals.
        normalized: Whether every signal was divided by its norm.
        cells: The map.
        learned: The ball that predicts held-out entries best.
    """

    data: Path
    num_rows: int
    num_used: int
    num_left_out: int
    dictionary: Tensor
    given: Path | None
    norms: tuple[float, float]
    normalized: bool
    cells: list[Cell]
    learned: LearnedBall

    @property
    def recommended(self) -> Cell:
        """The cell of the learned ball."""
        own = [cell for cell in self.cells if cell.p == self.learned.p]
        return min(own, key=lambda cell: abs(cell.radius - self.learned.radius))


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
    if dictionary is not None and components is not None:
        raise EncodeError(
            f"components is for a dictionary that is learned: expected none with {dictionary}, "
            f"got {components}"
        )
    file, place = open_rows(data), choose_device(device)
    values, num_left_out = _sample(data, rows, seed)
    sample = torch.from_numpy(values).to(place)
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
    return Exploration(
        data=data,
        num_rows=file.num_rows,
        num_used=len(sample),
        num_left_out=num_left_out,
        dictionary=atoms,
        given=dictionary,
        norms=(norms[0], norms[1]),
        normalized=normalize,
        cells=cells,
        learned=learned,
    )


def _sample(data: Path, count: int, seed: int) -> tuple[np.ndarray, int]:
    """Return random finite rows of a file in float64, and how many rows are not finite."""
    file = open_rows(data)
    places = np.random.default_rng(seed).permutation(file.num_rows)  # the first are taken
    size = max(1, READ_ENTRIES // file.num_columns)
    found, order, num_finite = np.empty((0, file.num_columns)), places[:0], 0
    for index, shard in enumerate(file.shards(0, size)):
        finite = np.isfinite(shard).all(1)
        num_finite += int(finite.sum())
        order = np.concatenate([order, places[index * size :][: len(shard)][finite]])
        first = np.argsort(order)[:count]
        found, order = np.concatenate([found, shard[finite]])[first], order[first]
    if not num_finite:
        raise EncodeError(f"{data} must hold finite numbers, got NaN or infinity in every row")
    if num_finite < 8 or file.num_columns < 2:
        raise EncodeError(
            f"{data} must have at least 8 finite rows and 2 columns, got {num_finite} × "
            f"{file.num_columns}"
        )
    if not found.any():
        raise EncodeError(f"{data} must hold numbers other than 0")
    return found, file.num_rows - num_finite


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
    """Return cells around the learned ball, itself one of them.

    For every p there are the same radii, relative to exact codes.
    """
    folds = random_folds(x.shape[1], keyed_generator(seed, "folds")).to(x.device)
    search = BallSearch(x, dictionary, folds)
    variance = float(x.var(0, correction=0).mean()) or math.inf
    report = _stage("the map", progress)
    center = learned.radius / 2.0 ** search.unit(1 / learned.p)
    exponents = sorted({*EXPONENTS, learned.p})
    cells = []
    for p in exponents:
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
            report(len(cells), len(exponents) * len(RADIUS_FACTORS))
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
        f"For this dictionary the data allow p from {low_p:.2f} to {high_p:.2f} and a radius from "
        f"{low:.3g} to {high:.3g}.{closely if wide else ''}"
    )
    if found.given is not None:
        lines.append(
            f"If {found.given} was learned from these rows, the interval is too narrow and p is "
            "biased: explore rows that it was not learned from."
        )
    if found.num_left_out:
        lines.append(
            f"Rows left out because they hold NaN or infinity: {found.num_left_out:,} of "
            f"{found.num_rows:,}."
        )
    if found.normalized:
        lines.append(
            f"Norms of the signals are between {found.norms[0]:.3g} and {found.norms[1]:.3g} (10th "
            "and 90th percentile). Every signal was divided by its norm; divide yours as well: the "
            "page says how, under Next."
        )
    others = [doubt for doubt in ball.doubts if doubt not in wide]
    lines += [f"Doubt: {doubt}." for doubt in others]
    if others and ball.error < ball.variance:
        lines.append(
            "With a doubt, p and radius still predict held-out entries best, but do not read p as "
            "a property of the data (docs/learning_p.md, Doubts)."
        )
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


def write_page(found: Exploration, output: Path, saved: Path | None = None) -> None:
    """Write the page, whole or not at all. `saved`: where the dictionary is saved."""
    n, m = found.dictionary.shape
    source = "given" if found.given else "learned from the other half of the sample"
    lead = (
        f"{found.data.name}: {found.num_used:,} of {found.num_rows:,} rows of {n} columns; "
        f"dictionary of {m} atoms, {source}. fwnet {fwnet.__version__}"
    )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in recommendation(found))
    error = "Held-out error ÷ variance: 0 is perfect, 1 is no better than the mean"
    used = "Share of the entries of a code that are not 0"
    parts = [
        f"<h2>Recommendation</h2><ul>{items}</ul>",
        f"<h2>Held-out error</h2><p>{_about_error()}</p>{_heat_map(found, 'error', error)}",
        f"<h2>Sparsity</h2>{_heat_map(found, 'nonzeros', used)}",
        f"<h2>The best radius for each p</h2>{_table(found)}",
        f"<h2>Next</h2>{_next(found, saved)}",
    ]
    write_whole(output, page("fwnet explore", "Which p, which radius?", lead, "\n".join(parts)))


def _about_error() -> str:
    return (
        "The columns are divided at random into four parts. Each part is hidden once: the other "
        "entries are coded, and the hidden ones are predicted from the code. Balls on the left "
        "are too small to follow the signals, those on the right follow the noise. The ring marks "
        f"the p and the radius named above. They were chosen with at most {LARGEST_SAMPLE} rows; "
        f"the map shows at most {MAP_ROWS} of them, so another cell may have a lower error."
    )


def _heat_map(found: Exploration, name: str, title: str) -> str:
    """Draw one number of every cell, by p and relative radius."""
    values = np.array([getattr(cell, name) for cell in found.cells])
    table = values.reshape(-1, len(RADIUS_FACTORS))
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
    row, column = divmod(found.cells.index(found.recommended), table.shape[1])
    axis.plot(column, row, "o", markersize=30, markerfacecolor="none", markeredgecolor="#d62728")
    axis.set(
        xlabel="radius ÷ norm of an exact code (absolute radii are in the table)",
        ylabel="p",
        xticks=range(len(RADIUS_FACTORS)),
        xticklabels=[f"{cell.relative:.2g}" for cell in found.cells[: len(RADIUS_FACTORS)]],
        yticks=range(len(table)),
        yticklabels=[label_of(round(cell.p, 2)) for cell in found.cells[:: len(RADIUS_FACTORS)]],
        title=title,
    )
    axis.spines[:].set_visible(False)
    return svg(figure, title)


def _table(found: Exploration) -> str:
    heads = ("p", "radius", "held-out error", "nonzeros", "ball binds", "certified")
    lines = ["<tr>" + "".join(f"<th>{head}" for head in heads)]
    for p in sorted({cell.p for cell in found.cells}):
        best = min((cell for cell in found.cells if cell.p == p), key=lambda cell: cell.error)
        here = p == found.learned.p
        best = found.recommended if here else best
        lines.append(
            f"<tr{' style=font-weight:bold' * here}><td>{label_of(round(p, 2))}"
            f"<td>{best.radius:.3g}<td>{best.error:.3g}"
            f"<td>{best.nonzeros:.0%}<td>{best.binds:.0%}<td>{best.certified:.0%}"
        )
    return f"<table>{''.join(lines)}</table><p>Bold: the p and the radius named above.</p>"


def _next(found: Exploration, saved: Path | None) -> str:
    ball, rows, parts = found.learned, found.data, []
    dictionary = found.given or saved
    if dictionary is None:
        dictionary = Path("D.npy")
        parts.append(f"<p>Run this again with --save-dictionary {dictionary}.</p>")
    if found.normalized or found.num_left_out:
        rows = Path("prepared.npy")
        parts.append(f"<p>Prepare the rows in Python:</p>{_code(_preparation(found, rows))}")
    options = ["--dictionary", dictionary, "--p", f"{ball.p:.4g}", "--radius", f"{ball.radius:.4g}"]
    command = ["fwnet", "encode", rows, *options, "-o", "codes.npy"]
    parts.append(f"<p>Code all rows, with certificates:</p>{_code(shlex.join(map(str, command)))}")
    if found.normalized:
        restored = "codes = norms * np.load('codes.npy')"
        parts.append(f"<p>Then in Python, codes in the unit of the data:</p>{_code(restored)}")
    return "".join(parts)


def _preparation(found: Exploration, output: Path) -> str:
    """Return Python code that writes the rows as they were explored."""
    lines = ["import numpy as np"]
    if found.data.suffix == ".parquet":
        lines += ["import pyarrow.parquet as pq", f"table = pq.read_table({str(found.data)!r})"]
        lines += ["x = np.column_stack([column.to_numpy() for column in table.columns])"]
    else:
        lines += [f"x = np.load({str(found.data)!r})"]
    if found.num_left_out:
        lines += ["x = x[np.isfinite(x).all(axis=1)]"]
    if found.normalized:
        lines += ["norms = np.linalg.norm(x, axis=1, keepdims=True)"]
        lines += ["x = x / np.where(norms > 0, norms, 1)"]
    return "\n".join([*lines, f"np.save({str(output)!r}, x)"])


def _code(text: str) -> str:
    return f'<pre style="white-space: pre-wrap"><code>{html.escape(text)}</code></pre>'


def _stage(name: str, progress: ProgressCallback) -> Callable[[int, int], None]:
    """Return a callback of counts that reports a stage."""
    return lambda done, total: progress(Progress(name, done, total))
