"""`encode_file`: the codes of a file of any size, behind `fwnet encode`."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fwnet.checks import check_integer, check_tolerance, did_you_mean
from fwnet.coding.array_files import check_suffix, open_rows, read_dictionary
from fwnet.coding.chunks import default_chunk_rows
from fwnet.coding.parts_folder import PartsFolder
from fwnet.coding.row_coders import RowCoder, merged, network_coder, solver_coder
from fwnet.coding.row_files import EncodeError, RowFile
from fwnet.files import remove_unfinished, resolved, why_not_writable
from fwnet.hardware import choose_device
from fwnet.models import SignalModel, load_model
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.sets import ConvexSet, LpBall, NonnegativeLpBall, Simplex
from fwnet.solvers import Status
from fwnet.version import __version__
from fwnet.zoo import list_models

LEAST_TOL = torch.finfo(torch.float64).eps  # gaps are computed in float64, and rounded

# The sets of `fwnet encode --set`, by name: functions of p and radius.
CONSTRAINTS: dict[str, Callable[[Any, Any], ConvexSet]] = {
    "lp": lambda p, radius: LpBall(p, radius),
    "nonnegative": lambda p, radius: NonnegativeLpBall(p, radius),
    "simplex": lambda _, radius: Simplex(radius),
}


@dataclass(frozen=True)
class EncodeReport:
    """The result of `encode_file`.

    Attributes:
        output: The file or folder of the codes.
        rows: Number of rows.
        rows_resumed: Number of rows that an earlier run had coded.
        largest_gap: Largest `gap` of a row; see `fwnet.Solution`.
        largest_norm_gap: Largest `norm_gap` of a row; NaN for sets other than Lp balls.
        relative_error: Mean of ‖x − Dz‖ / ‖x‖ over the rows x ≠ 0; NaN for codes of a network.
        counts: Number of rows by status, in words.
        seconds: Duration of this run.
        certifies: Whether codes have certificates; those of a network do not.
        files: Number of files of rows.

    >>> import fwnet, numpy as np
    >>> np.save("data.npy", np.random.default_rng(0).standard_normal((100, 8)))
    >>> report = fwnet.coding.encode_file("data.npy", "codes.npy", p=1.3, radius=0.5)
    >>> report.rows, report.largest_gap < 1e-8, round(report.relative_error, 2)
    (100, True, 0.86)
    """

    output: Path | str
    rows: int
    rows_resumed: int
    largest_gap: float
    largest_norm_gap: float
    relative_error: float
    counts: dict[str, int]
    seconds: float
    certifies: bool = True
    files: int = 1

    @property
    def rows_uncertified(self) -> int:
        """Number of rows whose code is not certified."""
        return self.rows - self.counts.get(Status.CERTIFIED.words, 0)

    @property
    def rows_per_second(self) -> float:
        """Rows that this run coded per second, reading and writing included."""
        return (self.rows - self.rows_resumed) / max(self.seconds, 1e-9)


def encode_file(
    data: str | Path,
    output: str | Path,
    *,
    p: float | None = None,
    radius: float | None = None,
    constraint: str = "lp",
    dictionary: str | Path | None = None,
    model: str | Path | None = None,
    tol: float | None = None,
    device: str | torch.device = "auto",
    certificates: str | Path | None = None,
    columns: Sequence[str] = (),
    keep: Sequence[str] = (),
    shard_rows: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: ProgressCallback = silent,
) -> EncodeReport:
    """min_z ½‖x − Dz‖²  s.t.  ‖z‖_p ≤ radius, for every row x of a file, into another file.

    Rows are read, coded and stored in shards, so memory does not grow with their number. The
    unfinished codes are in the folder OUTPUT.parts; `output` appears when it is complete. A killed
    run continues with `resume` and ends with the same bytes, on the same kind of machine. The
    number of threads does not matter, but for dictionaries of more than 262,144 entries.

    Args:
        data: A .npy file (2 axes) or .parquet file (columns are features), one signal per row.
            float32 stays float32; every other number type becomes float64.
        output: The .npy or .parquet file for the codes, one per row. Missing folders are made.
        p: Exponent of the norm, in [1, ∞].
        radius: Bound on the norm of a code, > 0; the sum of its entries for the simplex.
        constraint: "lp" for ‖z‖_p ≤ radius (default), "nonnegative" for z ≥ 0 in addition, or
            "simplex" for z ≥ 0 and Σz = radius, without p.
        dictionary: A .npy file with D of shape (n, m), one atom per column: the transpose of
            scikit-learn's `components_`. Default: the identity.
        model: A network file written by `fwnet train coder`, used instead of p, radius and
            dictionary. Its codes have no certificates.
        tol: Tolerance of the certificate; see `fwnet.solve`.
        device: Where to compute; "auto" means CUDA if present, else the CPU.
        certificates: A .npy file for one record per row: gap, norm_gap, status_code, num_steps and
            relative_error.
        columns: Columns of a .parquet file that make the signal, as names or patterns such as
            "x*". Default: all but those to keep.
        keep: Columns of a .parquet file that are copied to the output, which must be .parquet too.
        shard_rows: Rows per shard. Default: chosen so that a shard has 16 million numbers.
        resume: Continue an earlier run with the same arguments, if there is one.
        force: Overwrite existing files and, without `resume`, discard an unfinished run.
        progress: Called with a `Progress` for the stages "checking", "coding" and "writing".

    Raises `ValueError` with one line that says what was expected and received (`EncodeError` for
    files). Arguments and data are checked before the work starts, including that every row is
    finite.

    >>> import fwnet, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> np.save("data.npy", rng.standard_normal((100, 8)))
    >>> np.save("D.npy", rng.standard_normal((8, 16)))
    >>> report = fwnet.coding.encode_file(
    ...     "data.npy", "codes.npy", dictionary="D.npy", p=1.3, radius=0.5
    ... )
    >>> np.load("codes.npy").shape, report.counts
    ((100, 16), {'certified': 100})
    """
    start = time.monotonic()
    places = [Path(path) for path in (output, certificates) if path is not None]
    inputs = [Path(path) for path in (data, dictionary, model) if path is not None]
    options: dict[str, Any] = {"p": p, "radius": radius, "dictionary": dictionary, "tol": tol}
    check_alternatives(model, constraint, {**options, "certificates": certificates})
    _check_places(places, inputs)
    if keep and places[0].suffix != ".parquet":
        raise EncodeError(f"keep needs a .parquet output, got {places[0]}")
    chosen = choose_device(device)
    try:
        source = open_rows(Path(data), columns, keep)
        coder = coder_maker(source, model, constraint, **options)(chosen)
        if shard_rows is None:
            shard_rows = default_chunk_rows(source.num_columns, coder.num_atoms)
        check_integer("shard_rows", shard_rows)
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
        with PartsFolder(places[0], source.num_rows) as folder:
            folder.check_consent(places, resume=resume, force=force)
            remove_unfinished(places)
            identity = {
                "fwnet version": __version__,
                "device": chosen.type,
                "shard_rows": shard_rows,
                **_data_identity(source, shard_rows, progress),
                "columns": [*columns],
                "keep": [*keep],
                **coder.identity,
            }
            folder.begin(identity, resume=resume)
            rows_resumed = folder.rows_done
            _code_rows(source, coder, folder, shard_rows, progress)
            summary = merged(map(coder.summary, folder.certificates(shard_rows)))
            copy = places[1] if certificates else None
            folder.deliver(copy, shard_rows, progress, source.kept)
    except OSError as error:
        where = error.filename or places[0]
        raise EncodeError(f"cannot read or write {where}: {error.strerror or error}") from error
    return EncodeReport(
        places[0],
        source.num_rows,
        rows_resumed,
        **summary,
        seconds=time.monotonic() - start,
        certifies=model is None,
    )


def coder_maker(
    source: RowFile,
    model: str | Path | None,
    constraint: str,
    *,
    p: float | None,
    radius: float | None,
    dictionary: str | Path | None,
    tol: float | None,
) -> Callable[[torch.device], RowCoder]:
    """Check that the arguments fit the rows; return what makes the coder on a device.

    It can be pickled, and needs no file: it works on other machines.
    """
    if model is None:
        convex_set = CONSTRAINTS[constraint](p, radius)
        check_tolerance("tol", tol)
        if tol is not None and tol < LEAST_TOL:
            raise EncodeError(f"tol must be at least {LEAST_TOL:.2g}, got {tol}")
        if dictionary is None:
            matrix = np.eye(source.num_columns, dtype=source.dtype)
        else:
            columns, dtype = source.num_columns, source.dtype
            matrix = read_dictionary(Path(dictionary), source.path, columns, dtype)
        return partial(solver_coder, matrix, convex_set, tol)
    path = Path(model)
    if not path.exists() and str(path) in [card.name for card in list_models()]:
        raise EncodeError(
            f"{path} is a network for images; encode needs a file that fwnet train coder wrote"
        )
    network = load_model(path)
    if not isinstance(network, SignalModel):
        name = type(network).__name__
        raise EncodeError(f"{path} must hold a network that codes signals, got {name}")
    if network.num_features != source.num_columns:
        raise EncodeError(
            f"{source.path} must have {network.num_features} columns, the input size of {path}, "
            f"got {source.num_columns}"
        )
    return partial(network_coder, network, path, hashlib.sha256(path.read_bytes()).hexdigest())


def _data_identity(source: RowFile, shard_rows: int, progress: ProgressCallback) -> dict[str, Any]:
    """Read all rows once: hash them, and raise if some are not finite."""
    rows, done = source.num_rows, 0
    digest = hashlib.sha256()
    bad_count, first_bad = 0, 0
    progress(Progress("checking", 0, rows))
    for shard in source.shards(0, shard_rows):
        digest.update(shard.data.cast("B"))
        bad = np.flatnonzero(~np.isfinite(shard).all(axis=1))
        if len(bad) and not bad_count:
            first_bad = done + int(bad[0])
        bad_count += len(bad)
        done += len(shard)
        progress(Progress("checking", done, rows))
    if bad_count:
        raise EncodeError(
            f"{source.path} must be finite, got NaN, infinite or missing values in "
            f"{bad_count} of {rows} rows, the first of them row {first_bad} (counted from 0); "
            "remove or fill these rows, or write into a folder (-o codes/), where their codes "
            "are NaN"
        )
    return {
        "data": digest.hexdigest(),
        "rows": rows,
        "features": source.num_columns,
        "dtype": str(source.dtype),
    }


def _code_rows(
    source: RowFile,
    coder: RowCoder,
    folder: PartsFolder,
    shard_rows: int,
    progress: ProgressCallback,
) -> None:
    """Code the rows that are not done yet. A shard depends on its own rows alone."""

    def report(done_in_shard: int = 0) -> None:
        done = folder.rows_done + done_in_shard
        progress(Progress("coding", done, source.num_rows, "rows"))

    report()
    for shard in source.shards(folder.rows_done, shard_rows):
        folder.append(*coder.code(shard, report))
        report()


def check_alternatives(model: str | Path | None, constraint: str, options: dict[str, Any]) -> None:
    """Raise unless there is either a network or a problem to solve."""
    if constraint not in CONSTRAINTS:
        expected = f"set must be one of {', '.join(CONSTRAINTS)}, got {constraint!r}"
        raise EncodeError(expected + did_you_mean(constraint, CONSTRAINTS))
    given = [name for name, value in options.items() if value is not None]
    if model is None and constraint == "simplex":
        if "p" in given or "radius" not in given:
            got = f"p {options['p']}" if "p" in given else "no radius"
            raise EncodeError(f"simplex expects radius, the sum of a code, and no p, got {got}")
        return
    missing = {"p", "radius"}.difference(given)
    if model is None and missing:
        got = "neither" if len(missing) == 2 else f"no {missing.pop()}"
        raise EncodeError(f"expected p and radius, or a model, got {got}")
    if model is not None and given:
        raise EncodeError(
            "a model has its own p, radius and dictionary, and no certificates: expected no other "
            f"option, got {given[0]} {options[given[0]]}"
        )


def _check_places(places: list[Path], inputs: list[Path]) -> None:
    """Raise for outputs that cannot be written or that are inputs."""
    check_suffix(places[0])
    for certificates in places[1:]:
        check_suffix(certificates, (".npy",))
    taken = {resolved(path) for path in inputs}
    for place in places:
        if resolved(place) in taken:
            raise EncodeError(f"every file must have its own path, got {place} twice")
        taken.add(resolved(place))
        if problem := why_not_writable(place):
            raise EncodeError(f"cannot write {place}: {problem}")
