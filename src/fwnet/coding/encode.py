"""`encode_file`: the codes of a file of any size, shard by shard, behind `fwnet encode`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from fwnet.coding.array_files import RowFile, check_suffix
from fwnet.coding.chunks import named_device
from fwnet.coding.errors import EncodeError
from fwnet.coding.row_coders import NetworkCoder, RowCoder, SolverCoder
from fwnet.coding.shards import EncodeProgress, ShardedEncoding
from fwnet.coding.work_folder import WorkFolder, check_unasked, folder_of, is_begun
from fwnet.sets import LpBall
from fwnet.solvers import Status

__all__ = ["EncodeReport", "encode_file"]


@dataclass(frozen=True)
class EncodeReport:
    """What became of a file.

    Attributes:
        output: Where the codes are.
        rows: How many there are.
        rows_resumed: How many of them an earlier run had left.
        largest_gap: The largest `gap` of a row; see `fwnet.Solution`.
        largest_norm_gap: The largest `norm_gap` of a row.
        counts: How many rows ended how, in words.
        seconds: How long this run took.
        certifies: Whether codes have certificates; those of a network do not.
    """

    output: Path
    rows: int
    rows_resumed: int
    largest_gap: float
    largest_norm_gap: float
    counts: dict[str, int]
    seconds: float
    certifies: bool = True

    @property
    def rows_uncertified(self) -> int:
        """How many rows have a code that is not certified."""
        return self.rows - self.counts.get(Status.CERTIFIED.words, 0)

    @property
    def rows_per_second(self) -> float:
        """How many rows this run coded in a second, reading and writing included."""
        return (self.rows - self.rows_resumed) / max(self.seconds, 1e-9)


def encode_file(
    data: str | Path,
    output: str | Path,
    *,
    p: float | None = None,
    radius: float | None = None,
    dictionary: str | Path | None = None,
    model: str | Path | None = None,
    tol: float | None = None,
    device: str | torch.device = "auto",
    certificates: str | Path | None = None,
    shard_rows: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[EncodeProgress], None] | None = None,
) -> EncodeReport:
    """min_z ½‖x − Dz‖²  s.t.  ‖z‖_p ≤ radius, for every row x of a file, into another file.

    The rows are read, solved and kept in shards; memory does not grow with their number. Shards
    lie in the folder OUTPUT.parts until all are there and become one file, which is renamed to
    `output`: it is there whole or not at all. A run that was killed goes on with `resume`, and its
    output is the same to the last byte, on the same machine with as many threads: rounding is
    theirs.

    Args:
        data: A matrix in a file .npy (2 axes) or .parquet (every column a feature), a row a signal.
            float32 stays float32, every other kind of number becomes float64.
        output: Where the codes go, .npy or .parquet; one row a code.
        p: The exponent of the norm, in [1, ∞].
        radius: The bound on the norm of a code, > 0.
        dictionary: A file .npy with D of shape (n, m), one atom a column: the paper's convention,
            the transpose of scikit-learn's `components_`. None stands for the identity.
        model: A network in a file that `fwnet train coder` wrote, to code with instead of p, radius
            and dictionary. Its codes have no certificate.
        tol: The tolerance of the certificate; see `fwnet.solve`.
        device: Where to solve; "auto" is a CUDA device where there is one.
        certificates: A file .npy for one record a row: gap, norm_gap, status_code, num_steps.
        shard_rows: How many rows make a shard. Default: what makes 16 million numbers.
        resume: Go on from the shards of an earlier run with the same arguments, if there are any.
        force: Overwrite files that exist, and without `resume` drop the shards of earlier runs.
        progress: Called with an `EncodeProgress` now and then.

    Raises `EncodeError`, with one line that says what was expected and what came. What is wrong
    with the arguments or the data, rows that are not finite included, is found before the work.
    Data that changes during the work is refused, with the shards of what it was before kept.
    """
    start = time.monotonic()
    tell = progress or (lambda _: None)
    places = [Path(path) for path in (output, certificates) if path is not None]
    inputs = [Path(path) for path in (data, dictionary, model) if path is not None]
    chosen = _device(device)
    _check_alternatives(model, p, radius, dictionary, tol, certificates)

    def make_coder(source: RowFile) -> RowCoder:
        if model is not None:
            return NetworkCoder(Path(model), source, Path(data), chosen)
        matrix = None if dictionary is None else Path(dictionary)
        return SolverCoder(source, Path(data), matrix, _ball(p, radius), tol, chosen)

    try:
        _check_places(places, inputs)
        encoding = ShardedEncoding(Path(data), make_coder, chosen, shard_rows)
        _check_earlier_work(places, resume, force)
        manifest = encoding.manifest(tell)
        with WorkFolder.beside(places[0], manifest, resume=resume, force=force) as work:
            rows = encoding.source.num_rows
            resumed = min(work.count_shards() * encoding.shard_rows, rows)
            missing = [place for place in places if not work.has_delivered(place)]
            if missing:
                _check_existing(missing, force)
                encoding.run(work, tell)
                summary = encoding.deliver(work, places, tell)
            else:  # killed after the last rename, with nothing left to do but to tidy up
                summary, resumed = work.summary(), rows
            work.remove()
    except OSError as error:
        where = error.filename or places[0]
        raise EncodeError(f"cannot read or write {where}: {error.strerror or error}") from error
    seconds = time.monotonic() - start
    return EncodeReport(
        Path(output), rows, resumed, **summary, seconds=seconds, certifies=model is None
    )


def _check_alternatives(
    model: str | Path | None,
    p: float | None,
    radius: float | None,
    dictionary: str | Path | None,
    tol: float | None,
    certificates: str | Path | None,
) -> None:
    """Raise unless there is either a network or a problem to solve."""
    if model is None:
        if p is None or radius is None:
            given = (
                "only p" if p is not None else "only radius" if radius is not None else "neither"
            )
            raise EncodeError(f"expected p and radius, or a model, got {given}")
        return
    others = {
        "p": p,
        "radius": radius,
        "dictionary": dictionary,
        "tol": tol,
        "certificates": certificates,
    }
    for name, value in others.items():
        if value is not None:
            raise EncodeError(
                f"a model has its own p, radius and dictionary, and no certificates: "
                f"expected it alone, got {name} {value} beside it"
            )


def _ball(p: float | None, radius: float | None) -> LpBall:
    assert p is not None
    assert radius is not None
    try:
        return LpBall(float(p), float(radius))
    except ValueError as error:
        raise EncodeError(str(error)) from error


def _device(device: str | torch.device) -> torch.device:
    try:
        return named_device(device)
    except ValueError as error:
        raise EncodeError(str(error)) from error


def _check_places(places: list[Path], inputs: list[Path]) -> None:
    """Raise for outputs that could not be written, or that are inputs."""
    check_suffix(places[0])
    for certificates in places[1:]:
        if certificates.suffix != ".npy":
            raise EncodeError(f"certificates go to a file that ends in .npy, got {certificates}")
    taken = {path.resolve() for path in inputs}
    for place in places:
        if place.resolve() in taken:
            raise EncodeError(f"every file must have a path of its own, got {place} twice")
        taken.add(place.resolve())
        if not place.parent.is_dir():
            raise EncodeError(f"cannot write {place}: {place.parent} is not a folder")
        if not os.access(place.parent, os.W_OK | os.X_OK):
            raise EncodeError(f"cannot write {place}: no permission in {place.parent}")
        if place.exists() and not place.is_file():
            raise EncodeError(f"cannot write {place}: it exists and is not a file")


def _check_earlier_work(places: list[Path], resume: bool, force: bool) -> None:
    """Refuse before the data is read what an earlier run left and nobody spoke of."""
    folder = folder_of(places[0])
    check_unasked(folder, resume=resume, force=force)
    if not is_begun(folder):
        _check_existing(places, force)


def _check_existing(places: list[Path], force: bool) -> None:
    for place in places:
        if place.exists() and not force:
            raise EncodeError(f"{place} exists; overwrite it with --force")
