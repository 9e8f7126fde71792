"""`encode_folder`: the codes of many files, in one process or wherever an engine takes the work.

A range of rows is the unit of work and of a restart. Its codes depend on its rows alone; they are
written whole, and the record after them (`codes_folder`). A process that dies leaves a range with a
record, or one that is done again with the same bytes, also if two processes do it at the same time.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import torch

from fwnet.checks import check_integer
from fwnet.coding.array_files import SUFFIXES, open_rows
from fwnet.coding.chunks import default_chunk_rows
from fwnet.coding.codes_folder import DONE, CodesFolder, RowRange, at_the_same_time
from fwnet.coding.encode_file import EncodeReport, check_alternatives, coder_maker
from fwnet.coding.parquet_files import write_parquet
from fwnet.coding.row_coders import BAD_WORDS, RowCoder, merged
from fwnet.coding.row_files import EncodeError, RowFile
from fwnet.engine import Engine, Lost, OneProcess
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.stores import Store, find_files
from fwnet.version import __version__


def encode_folder(
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
    strict: bool = False,
    resume: bool = False,
    force: bool = False,
    engine: Engine | None = None,
    progress: ProgressCallback = silent,
    warn: Callable[[str], object] = lambda _: None,
) -> EncodeReport:
    """min_z ½‖x − Dz‖²  s.t.  ‖z‖_p ≤ radius, for every row x of many files, into a folder.

    Every file of rows becomes a file of codes of the same name and kind. A file of more than
    `shard_rows` rows becomes several, NAME-00000, NAME-00001, …, which are coded side by side. Rows
    keep their order. A run that was killed continues with `resume`, repeats nothing that is done,
    and ends with the same bytes.

    Rows with NaN, infinite or missing values have NaN as code, and are counted.

    Args:
        data: A file, a folder (with its subfolders) or a pattern such as `data/*.parquet`; a path,
            or a URL that fsspec knows, such as "s3://bucket/data".
        output: The folder for the codes, a path or a URL.
        p: See `encode_file`.
        radius: See `encode_file`.
        constraint: See `encode_file`.
        dictionary: See `encode_file`. Only this process reads it.
        model: See `encode_file`. Only this process reads it.
        tol: See `encode_file`.
        device: Where to compute; "auto" means CUDA if the engine has it, else the CPU.
        certificates: A folder for one .npy file of records beside each file of codes.
        columns: See `encode_file`.
        keep: See `encode_file`.
        shard_rows: The most rows in a file of codes. Default: chosen so that they and their signals
            have 16 million numbers.
        strict: Stop at a row that is not finite.
        resume: Continue an earlier run with the same arguments, if there is one.
        force: Discard an earlier run.
        engine: Where the work runs; default: in this process. See `fwnet.ray.RayEngine`.
        progress: Called with a `Progress` for the stages "opening" and "coding".
        warn: Called with a line about every file that has bad rows.

    >>> import fwnet, numpy as np
    >>> from pathlib import Path
    >>> Path("data").mkdir()
    >>> for name in "ab":
    ...     np.save(f"data/{name}.npy", np.random.default_rng(0).standard_normal((100, 8)))
    >>> report = fwnet.coding.encode_folder("data", "codes", p=1.3, radius=0.5)
    >>> report.rows, report.counts, np.load("codes/b.npy").shape
    (200, {'certified': 200}, (100, 8))
    """
    start = time.monotonic()
    engine = engine or OneProcess()
    options: dict[str, Any] = {"p": p, "radius": radius, "dictionary": dictionary, "tol": tol}
    check_alternatives(model, constraint, {**options, "certificates": certificates})
    folder = CodesFolder(Store.at(output))
    proofs = None if certificates is None else Store.at(certificates)
    inputs, names = _find_rows(str(data), folder.store, proofs, keep)
    chosen = engine.choose_device(device)
    try:
        sources = _open_all(inputs, names, columns, keep, progress)
        make_coder = coder_maker(sources[0], model, constraint, **options)
        coder = make_coder(torch.device("cpu"))  # for what can be said before the work
        if shard_rows is None:
            shard_rows = default_chunk_rows(sources[0].num_columns, coder.num_atoms)
        ranges = _ranges(names, sources, check_integer("shard_rows", shard_rows))
        identity = {
            "fwnet version": __version__,
            "device": chosen.type,
            "shard_rows": shard_rows,
            "files": _digest(
                [(n, s.num_rows, *s.stamp) for n, s in zip(names, sources, strict=True)]
            ),
            "features": sources[0].num_columns,
            "dtype": str(sources[0].dtype),
            "columns": [*columns],
            "keep": [*keep],
            "certificates": certificates is not None,
            **coder.identity,
        }
        with folder.locked():
            folder.begin(identity, ranges, proofs, resume=resume, force=force)
            records = folder.records(ranges, proofs)
            rows_resumed = sum(record["rows"] for record in records.values())
            work = CodeRange(
                make_coder,
                chosen,
                inputs,
                folder.store,
                proofs,
                tuple(columns),
                tuple(keep),
                strict,
            )
            records |= _code_ranges(engine, work, ranges, records, progress)
            folder.finish(identity, ranges, records)
    except OSError as error:
        where = error.filename or output
        raise EncodeError(f"cannot read or write {where}: {error.strerror or error}") from error
    _warn_of_bad_rows(inputs, ranges, records, warn)
    return EncodeReport(
        Path(output) if folder.store.folder else str(folder.store),
        sum(source.num_rows for source in sources),
        rows_resumed,
        **merged(records.values()),
        seconds=time.monotonic() - start,
        certifies=model is None,
        files=len(names),
    )


def _code_ranges(
    engine: Engine,
    work: "CodeRange",
    ranges: list[RowRange],
    known: dict[str, dict[str, Any]],
    progress: ProgressCallback,
) -> dict[str, dict[str, Any]]:
    """Code the ranges without a record; return their records by name."""
    records = {}
    waiting = [one for one in ranges if one.name not in known]
    rows = sum(one.count for one in ranges)
    done = rows - sum(one.count for one in waiting)
    progress(Progress("coding", done, rows, "rows"))
    for item, result in engine.each(work, waiting):
        if isinstance(result, Lost):
            raise EncodeError(
                f"{item.source}, rows {item.first} to {item.first + item.count - 1}: "
                f"{result.reason}; continue with --resume"
            )
        records[item.name] = result
        done += item.count
        progress(Progress("coding", done, rows, "rows"))
    return records


@dataclass(frozen=True)
class CodeRange:
    """Codes one range of rows and writes the codes, then the record. It can be pickled."""

    make_coder: Callable[[torch.device], RowCoder]
    device: torch.device
    inputs: Store
    output: Store
    certificates: Store | None
    columns: tuple[str, ...]
    keep: tuple[str, ...]
    strict: bool

    @cached_property
    def coder(self) -> RowCoder:
        """The coder on its device, made once per process."""
        return self.make_coder(self.device)

    def __call__(self, part: RowRange) -> dict[str, Any]:
        """Return the record of a range."""
        source = open_rows(self.inputs.file(part.source), self.columns, self.keep)
        if source.stamp != part.stamp:
            raise EncodeError(f"{source.path} changed while it was read")
        rows = source.rows(part.first, part.count)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if self.strict and len(bad):
            raise EncodeError(_bad_line(source.path, part.first + bad[0], len(bad)))
        codes, certificates = self.coder.code_any(rows)
        if self.certificates is not None:
            self.certificates.write(part.proof, lambda file: np.save(file, certificates))

        def write(file: BinaryIO) -> None:
            if part.name.endswith(".npy"):
                np.save(file, codes)
            else:
                write_parquet(file, [codes], lambda *_: source.kept(part.first, part.count))

        self.output.write(part.name, write)
        record = {"rows": part.count, **self.coder.summary(certificates)}
        if len(bad):
            record["first_bad_row"] = part.first + int(bad[0])
        self.output.write(f"{DONE}/{part.name}.json", json.dumps(record).encode())
        return record


def _find_rows(
    data: str, codes: Store, proofs: Store | None, keep: Sequence[str]
) -> tuple[Store, list[str]]:
    """Return the folder and the names of the files of rows; raise for places that are the same."""
    results = {"codes": codes} | ({"certificates": proofs} if proofs else {})
    inputs, names = find_files(data, lambda name: name.endswith(SUFFIXES), [*results.values()])
    taken = {str(inputs)}
    for what, store in results.items():
        if str(store) in taken:
            raise EncodeError(f"{what} must go into a folder of their own, got {store}")
        taken.add(str(store))
    if not names:
        raise EncodeError(f"expected files that end in {' or '.join(SUFFIXES)}, got none in {data}")
    if keep and (others := [name for name in names if not name.endswith(".parquet")]):
        raise EncodeError(f"columns are kept in .parquet files alone, got {others[0]}")
    return inputs, names


def _open_all(
    inputs: Store,
    names: list[str],
    columns: Sequence[str],
    keep: Sequence[str],
    progress: ProgressCallback,
) -> list[RowFile]:
    """Open all files and check that they fit together."""
    with at_the_same_time(inputs) as apply:
        opened = apply(lambda name: open_rows(inputs.file(name), columns, keep), names)
        sources: list[RowFile] = []
        for source in opened:
            sources.append(source)
            progress(Progress("opening", len(sources), len(names), "files"))
            first = sources[0]
            kinds = [f"{s.num_columns} columns of {s.dtype}" for s in (first, source)]
            if kinds[0] != kinds[1]:
                raise EncodeError(
                    f"{source.path} must have {kinds[0]}, as {first.path} has, got {kinds[1]}"
                )
    return sources


def _ranges(names: list[str], sources: list[RowFile], size: int) -> list[RowRange]:
    """Cut the files into ranges of at most `size` rows."""
    found = []
    for name, source in zip(names, sources, strict=True):
        path = PurePosixPath(name)
        firsts = range(0, source.num_rows, size)
        for index, first in enumerate(firsts):
            own = f"{path.stem}-{index:05}{path.suffix}" if len(firsts) > 1 else path.name
            count = min(size, source.num_rows - first)
            found.append(RowRange(name, first, count, str(path.with_name(own)), source.stamp))
    twice = [name for name, times in Counter(one.name for one in found).items() if times > 1]
    if twice:
        raise EncodeError(f"every file of codes must have its own name, got {twice[0]} twice")
    return found


def _warn_of_bad_rows(
    inputs: Store,
    ranges: list[RowRange],
    records: dict[str, dict[str, Any]],
    warn: Callable[[str], object],
) -> None:
    """Warn once for every file that has bad rows."""
    firsts: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for one in ranges:
        record = records[one.name]
        if "first_bad_row" in record:
            firsts.setdefault(one.source, record["first_bad_row"])
            counts[one.source] += record["counts"][BAD_WORDS]
    for name, first in firsts.items():
        line = _bad_line(inputs.file(name), first, counts[name])
        warn(f"Warning: {line}; their codes are NaN.")


def _bad_line(path: object, first: int, count: int) -> str:
    return (
        f"{path} must be finite, got NaN, infinite or missing values in {count} of its rows, the "
        f"first of them row {first} (counted from 0)"
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
