"""The work behind `encode_file`: check everything, solve shard by shard, make one file of them."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fwnet.coding.array_files import RowFile, open_rows, read_npy_matrix, write_npy, write_rows
from fwnet.coding.chunks import default_chunk_rows, to_tensor
from fwnet.coding.errors import EncodeError
from fwnet.coding.work_folder import WorkFolder, file_stamp
from fwnet.sets import LpBall
from fwnet.solvers import Progress, Solution, Status, solve
from fwnet.version import __version__

__all__ = ["CERTIFICATE", "EncodeProgress", "ShardedEncoding"]

# What is kept of every row beside its code; the words of a status are `Status(code).words`.
CERTIFICATE = np.dtype(
    [("gap", "<f8"), ("norm_gap", "<f8"), ("status_code", "i1"), ("num_steps", "<i4")]
)


@dataclass(frozen=True)
class EncodeProgress:
    """What a callback hears: of `stage` ("checking", "coding", "writing"), how many rows."""

    stage: str
    rows_done: int
    rows: int


Callback = Callable[[EncodeProgress], None]


class ShardedEncoding:
    """The arguments of an encoding, checked, and the steps of the work, in order.

    What a shard becomes depends on its own rows and these arguments, on nothing done before.
    """

    def __init__(
        self,
        data: Path,
        dictionary: Path | None,
        ball: LpBall,
        tol: float | None,
        device: torch.device,
        shard_rows: int | None,
    ) -> None:
        if tol is not None and not 0 < tol < 1:
            raise EncodeError(f"tol must be in (0, 1), got {tol!r}")
        if shard_rows is not None and not shard_rows >= 1:
            raise EncodeError(f"the rows of a shard must be >= 1, got {shard_rows!r}")
        self.data, self.ball, self.tol, self.device = data, ball, tol, device
        self._data_stamp = file_stamp(data) if data.is_file() else []
        self.source: RowFile = open_rows(data)
        num_features = self.source.num_columns
        if dictionary is None:
            self.dictionary = np.eye(num_features, dtype=self.source.dtype)
        else:
            self.dictionary = _read_dictionary(dictionary, data, self.source)
        self.num_atoms = self.dictionary.shape[1]
        self.shard_rows = shard_rows or default_chunk_rows(num_features, self.num_atoms)
        self.num_shards = -(-self.source.num_rows // self.shard_rows)

    def manifest(self, tell: Callback) -> dict[str, Any]:
        """Everything that the codes depend on. Reads the data once, to see that it is finite."""
        return {
            "version": __version__,
            "data_sha256": self._checked_digest(tell),
            "dictionary_sha256": hashlib.sha256(_bytes(self.dictionary)).hexdigest(),
            "rows": self.source.num_rows,
            "features": self.source.num_columns,
            "atoms": self.num_atoms,
            "dtype": str(self.source.dtype),
            "p": repr(self.ball.p),
            "radius": repr(self.ball.radius),
            "tol": repr(self.tol),
            "device": self.device.type,
            "shard_rows": self.shard_rows,
        }

    def run(self, work: WorkFolder, tell: Callback) -> None:
        """Solve the shards that are not there yet."""
        dtype, rows = self.source.dtype, self.source.num_rows
        dictionary = to_tensor(self.dictionary, dtype, self.device)
        first = work.count_shards()
        done = min(first * self.shard_rows, rows)
        tell(EncodeProgress("coding", done, rows))
        for index, shard in enumerate(self._blocks(done), start=first):
            x = to_tensor(shard, dtype, self.device)
            listener = _listener(tell, done, rows)
            solution = solve(x, dictionary, self.ball, tol=self.tol, callback=listener)
            work.write_shard(index, solution.code.cpu().numpy(), _certificates(solution))
            done += len(shard)
            tell(EncodeProgress("coding", done, rows))

    def deliver(self, work: WorkFolder, places: list[Path], tell: Callback) -> dict[str, Any]:
        """Make one file of the shards, put it in its place, and sum up the certificates.

        places: the file for the codes and, if it is wanted, the one for the certificates.
        """
        rows = self.source.num_rows
        summary = _summary(work.read_shards("certificates", self.num_shards))
        files = {}
        try:
            for place in places[1:]:
                file = _new_file_beside(place)  # maybe on another disk than the shards
                files[file] = place
                write_npy(file, (rows,), work.read_shards("certificates", self.num_shards))
            file = work.all_codes()
            files[file] = places[0]
            codes = _counted(work.read_shards("codes", self.num_shards), tell, rows)
            write_rows(file, places[0].suffix, (rows, self.num_atoms), codes)
            work.deliver(files, summary)
        except BaseException:
            for file in files:
                file.unlink(missing_ok=True)
            raise
        return summary

    def _blocks(self, start: int) -> Iterator[np.ndarray]:
        """Yield the shards from a row on, and raise once the file is not what it was."""
        self._check_unchanged()
        for block in self.source.blocks(start, self.shard_rows):
            self._check_unchanged()
            yield block
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if file_stamp(self.data) != self._data_stamp:
            raise EncodeError(f"{self.data} changed while it was read, so no codes were written")

    def _checked_digest(self, tell: Callback) -> str:
        """Hash the data, and raise if some rows are not finite."""
        rows, done = self.source.num_rows, 0
        digest = hashlib.sha256()
        bad_count, first_bad = 0, -1
        tell(EncodeProgress("checking", 0, rows))
        for block in self._blocks(0):
            digest.update(_bytes(block))
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if len(bad) and first_bad < 0:
                first_bad = done + int(bad[0])
            bad_count += len(bad)
            done += len(block)
            tell(EncodeProgress("checking", done, rows))
        if bad_count:
            raise EncodeError(
                f"{self.data} must be finite, got NaN, infinite or missing values in "
                f"{bad_count} of {rows} rows, the first of them row {first_bad} (counted from 0)"
            )
        return digest.hexdigest()


def _read_dictionary(path: Path, data: Path, source: RowFile) -> np.ndarray:
    dictionary = read_npy_matrix(path)
    num_features = source.num_columns
    if dictionary.shape[0] != num_features:
        hint = ""
        if dictionary.shape[1] == num_features:
            hint = "; this is scikit-learn's (n_components, n_features): save its transpose"
        raise EncodeError(
            f"{path} must have shape (n, m) with n = {num_features}, the columns of {data}, "
            f"got {dictionary.shape}{hint}"
        )
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        dictionary = dictionary.astype(source.dtype)
    if not np.isfinite(dictionary).all():
        raise EncodeError(f"{path} must be finite in {source.dtype}, got NaN or infinity")
    return dictionary


def _new_file_beside(place: Path) -> Path:
    """Make an empty file in the same folder, under a name that no other file has."""
    file = place.with_name(f".fwnet-{secrets.token_hex(8)}.tmp")
    file.touch(exist_ok=False)  # unlike those of tempfile, with the permissions of any new file
    return file


def _listener(tell: Callback, before: int, rows: int) -> Callable[[Progress], bool | None]:
    """Tell of all rows what the solver says of a shard."""
    most = 0

    def listen(progress: Progress) -> bool | None:
        nonlocal most
        most = max(most, progress.rows_done)  # fewer: some rows are solved again, more exactly
        tell(EncodeProgress("coding", before + most, rows))
        return None

    return listen


def _certificates(solution: Solution) -> np.ndarray:
    records = np.empty(len(solution.code), CERTIFICATE)
    for name in CERTIFICATE.names or ():
        records[name] = getattr(solution, name).cpu().numpy()
    return records


def _summary(shards: Iterator[np.ndarray]) -> dict[str, Any]:
    gap, norm_gap, counts = 0.0, 0.0, Counter[int]()
    for records in shards:
        gap = max(gap, float(records["gap"].max()))
        norm_gap = max(norm_gap, float(records["norm_gap"].max()))
        counts.update(records["status_code"].tolist())
    words = {Status(code).words: count for code, count in sorted(counts.items())}
    return {"largest_gap": gap, "largest_norm_gap": norm_gap, "counts": words}


def _counted(shards: Iterator[np.ndarray], tell: Callback, rows: int) -> Iterator[np.ndarray]:
    """Tell how many rows have been taken."""
    done = 0
    for shard in shards:
        yield shard
        done += len(shard)
        tell(EncodeProgress("writing", done, rows))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")
