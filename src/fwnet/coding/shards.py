"""The work behind `encode_file`: check everything, code shard by shard, make one file of them."""

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

from fwnet.coding.array_files import RowFile, open_rows, write_npy, write_rows
from fwnet.coding.chunks import default_chunk_rows
from fwnet.coding.errors import EncodeError
from fwnet.coding.row_coders import RowCoder
from fwnet.coding.work_folder import WorkFolder, file_stamp
from fwnet.version import __version__

__all__ = ["EncodeProgress", "ShardedEncoding"]


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
        make_coder: Callable[[RowFile], RowCoder],
        device: torch.device,
        shard_rows: int | None,
    ) -> None:
        if shard_rows is not None and not shard_rows >= 1:
            raise EncodeError(f"the rows of a shard must be >= 1, got {shard_rows!r}")
        self.data, self.device = data, device
        self._data_stamp = file_stamp(data) if data.is_file() else []
        self.source: RowFile = open_rows(data)
        self.coder = make_coder(self.source)
        self.shard_rows = shard_rows or default_chunk_rows(
            self.source.num_columns, self.coder.num_atoms
        )
        self.num_shards = -(-self.source.num_rows // self.shard_rows)

    def manifest(self, tell: Callback) -> dict[str, Any]:
        """Everything that the codes depend on. Reads the data once, to see that it is finite."""
        return {
            "version": __version__,
            "data_sha256": self._checked_digest(tell),
            "rows": self.source.num_rows,
            "features": self.source.num_columns,
            "dtype": str(self.source.dtype),
            "device": self.device.type,
            "shard_rows": self.shard_rows,
            **self.coder.manifest,
        }

    def run(self, work: WorkFolder, tell: Callback) -> None:
        """Code the shards that are not there yet."""
        rows = self.source.num_rows
        first = work.count_shards()
        done = min(first * self.shard_rows, rows)
        tell(EncodeProgress("coding", done, rows))
        for index, shard in enumerate(self._blocks(done), start=first):
            work.write_shard(index, *self.coder.code(shard, _listener(tell, done, rows)))
            done += len(shard)
            tell(EncodeProgress("coding", done, rows))

    def deliver(self, work: WorkFolder, places: list[Path], tell: Callback) -> dict[str, Any]:
        """Make one file of the shards, put it in its place, and sum up the certificates.

        places: the file for the codes and, if it is wanted, the one for the certificates.
        """
        rows = self.source.num_rows
        records = work.read_shards("certificates", self.num_shards)
        summary = _summary(records, self.coder.words)
        files = {}
        try:
            for place in places[1:]:
                file = _new_file_beside(place)  # maybe on another disk than the shards
                files[file] = place
                write_npy(file, (rows,), work.read_shards("certificates", self.num_shards))
            file = work.all_codes()
            files[file] = places[0]
            codes = _counted(work.read_shards("codes", self.num_shards), tell, rows)
            write_rows(file, places[0].suffix, (rows, self.coder.num_atoms), codes)
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


def _new_file_beside(place: Path) -> Path:
    """Make an empty file in the same folder, under a name that no other file has."""
    file = place.with_name(f".fwnet-{secrets.token_hex(8)}.tmp")
    file.touch(exist_ok=False)  # unlike those of tempfile, with the permissions of any new file
    return file


def _listener(tell: Callback, before: int, rows: int) -> Callable[[int], None]:
    """Tell of all rows what the coder says of a shard."""
    return lambda done: tell(EncodeProgress("coding", before + done, rows))


def _summary(shards: Iterator[np.ndarray], words: Callable[[int], str]) -> dict[str, Any]:
    gap, norm_gap, counts = 0.0, 0.0, Counter[int]()
    for records in shards:
        gap = float(np.maximum(gap, records["gap"].max()))  # NaN stays NaN
        norm_gap = float(np.maximum(norm_gap, records["norm_gap"].max()))
        counts.update(records["status_code"].tolist())
    said = {words(code): count for code, count in sorted(counts.items())}
    return {"largest_gap": gap, "largest_norm_gap": norm_gap, "counts": said}


def _counted(shards: Iterator[np.ndarray], tell: Callback, rows: int) -> Iterator[np.ndarray]:
    """Tell how many rows have been taken."""
    done = 0
    for shard in shards:
        yield shard
        done += len(shard)
        tell(EncodeProgress("writing", done, rows))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")
