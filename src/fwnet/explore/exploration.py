"""Code a sample of a file for a grid of p and radius, and learn the ball that suits it best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fwnet
from fwnet.checks import check_integer
from fwnet.coding import EncodeError, LearnedBall, learn_ball
from fwnet.coding.array_files import open_rows, read_dictionary
from fwnet.coding.ball_search import BallSearch, held_out_errors, random_folds
from fwnet.coding.learned_ball import WIDEST_NORMS, norm_spread
from fwnet.coding.row_files import RowFile
from fwnet.data import keyed_generator
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
        columns: The columns as they were asked for; empty means all.
        names: The columns of a parquet file that make the signal.
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
    columns: Sequence[str] = ()
    names: Sequence[str] = ()

    @property
    def recommended(self) -> Cell:
        """The cell of the learned ball."""
        own = [cell for cell in self.cells if cell.p == self.learned.p]
        return min(own, key=lambda cell: abs(cell.radius - self.learned.radius))


def explore(
    data: Path,
    dictionary: Path | None = None,
    *,
    columns: Sequence[str] = (),
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
        columns: Columns of a .parquet file that make the signal, as names or patterns such as
            "x*". Default: all.
        components: m, if D is learned. Default: the number of columns.
        normalize: Whether to divide every signal by its norm. Default: if the norms differ by
            more than a factor of 4 (90th by 10th percentile).
        rows: Rows of the sample.
        seed: Seed of the sample and of the first atoms.
        device: Where to compute.
        progress: Called after every step.
    """
    check_integer("rows", rows, 8)
    if components is not None:
        check_integer("components", components)
    if dictionary is not None and components is not None:
        raise EncodeError(
            f"components is for a dictionary that is learned: expected none with {dictionary}, "
            f"got {components}"
        )
    file, place = open_rows(data, columns), choose_device(device)
    values, num_left_out = _sample(file, rows, seed)
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
    learned = learn_ball(held, atoms, seed=seed, progress=progress)
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
        columns=columns,
        names=file.columns,
    )


def _sample(file: RowFile, count: int, seed: int) -> tuple[np.ndarray, int]:
    """Return random finite rows of a file in float64, and how many rows are not finite."""
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
        raise EncodeError(f"{file.path} must hold finite numbers, got NaN or infinity in every row")
    if num_finite < 8 or file.num_columns < 2:
        raise EncodeError(
            f"{file.path} must have at least 8 finite rows and 2 columns, got {num_finite} × "
            f"{file.num_columns}"
        )
    if not found.any():
        raise EncodeError(f"{file.path} must hold numbers other than 0")
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
            progress(Progress("the map", len(cells), len(exponents) * len(RADIUS_FACTORS)))
    return cells
