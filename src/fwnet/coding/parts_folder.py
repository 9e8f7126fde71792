"""An unfinished encoding on disk, so that a killed run can continue.

    codes.npy.parts/
      manifest.json       what the codes depend on, and how many rows are done
      codes.npy           the codes, written in order
      certificates.npy    one record per row

Rows count as done once the manifest says so, and it is replaced only after they are on the disk.
A run that continues overwrites everything behind them. One process at a time holds the folder.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from fwnet.coding.array_files import open_rows
from fwnet.coding.parquet_files import write_parquet
from fwnet.coding.row_coders import CERTIFICATE
from fwnet.coding.row_files import BAD_HEADER, EncodeError
from fwnet.files import TEMPORARY_NAME, locked, remove_unfinished, write_whole
from fwnet.progress import Progress, ProgressCallback

OURS = MANIFEST, CODES, CERTIFICATES = ("manifest.json", "codes.npy", "certificates.npy")


class PartsFolder:
    """The folder of an unfinished output, locked while it is open.

    Attributes:
        rows_done: Number of rows that are coded, counted from the first.
    """

    def __init__(self, output: Path, num_rows: int) -> None:
        self.output, self.num_rows = output, num_rows
        self.path = output.with_name(f"{output.name}.parts")
        self.rows_done = 0
        self._manifest = self.path / MANIFEST
        self._identity: dict[str, Any] = {}
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.path.mkdir(exist_ok=True)
        for name in sorted({path.name for path in self.path.iterdir()}.difference(OURS)):
            if not TEMPORARY_NAME.fullmatch(name):
                raise EncodeError(
                    f"{self.path} must hold nothing but an unfinished encoding, got {name!r}"
                )
        self._held.enter_context(locked(self.path))
        remove_unfinished([self._manifest])
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if not self._manifest.exists():  # removed while the lock keeps other processes out
                with contextlib.suppress(OSError):
                    for name in OURS:
                        (self.path / name).unlink(missing_ok=True)
                    self.path.rmdir()
        finally:
            self._held.close()

    def check_consent(self, places: list[Path], *, resume: bool, force: bool) -> None:
        """Raise if an unfinished run or an existing file would be overwritten without consent."""
        begun = self._manifest.exists()
        if begun and not (resume or force):
            raise EncodeError(
                f"{self.path} holds an unfinished encoding: continue it with --resume, or start "
                "over with --force"
            )
        # Killed while moving the output: the first run was already allowed to overwrite.
        complete = begun and resume and self._read()["rows_done"] == self.num_rows
        for place in places:
            if place.exists() and not (force or complete):
                raise EncodeError(f"{place} exists; overwrite it with --force")

    def begin(self, identity: dict[str, Any], *, resume: bool) -> None:
        """Continue an encoding of the same identity, or start over without `resume`."""
        self._identity = identity
        if resume and self._manifest.exists():
            found = self._read()
            self.rows_done = found.pop("rows_done")
            check_same(self.path, found, identity)
        else:
            self._write_manifest()

    def append(self, codes: np.ndarray, records: np.ndarray) -> None:
        """Write the codes and the certificates of the next rows."""
        for name, shard in ((CODES, codes), (CERTIFICATES, records)):
            path = self.path / name
            shape = (self.num_rows, *shard.shape[1:])
            if self.rows_done == 0:
                np.lib.format.open_memmap(path, mode="w+", dtype=shard.dtype, shape=shape)
            header_bytes = _mapped(path, shape, shard.dtype).offset
            # Written as a file: on a full disk that raises, while a memory map ends the process.
            with path.open("r+b") as file:
                file.seek(header_bytes + self.rows_done * shard[:1].nbytes)
                file.write(np.ascontiguousarray(shard).data)
                file.flush()
                os.fsync(file.fileno())
        self.rows_done += len(codes)
        self._write_manifest()

    def certificates(self, size: int) -> Iterator[np.ndarray]:
        """Yield the records of all rows, `size` at a time."""
        for first in range(0, self.num_rows, size):
            # Mapped again for every part, so that what was read does not fill the memory.
            records = _mapped(self.path / CERTIFICATES, (self.num_rows,), CERTIFICATE)
            yield np.array(records[first : first + size])

    def deliver(
        self,
        certificates: Path | None,
        group_rows: int,
        progress: ProgressCallback,
        kept: Callable[[int, int], Any],
    ) -> None:
        """Move the output into place and copy the certificates, if requested. This ends the work.

        After a kill the same call continues: if the codes file is gone, it was already moved.

        Args:
            certificates: Where to copy the certificates; None for nowhere.
            group_rows: Rows per row group of a parquet file.
            progress: Called with a `Progress` while a parquet file is written.
            kept: Other columns of a parquet file; see `write_parquet`.
        """
        codes, records = self.path / CODES, self.path / CERTIFICATES
        if certificates is not None:
            with records.open("rb") as source:  # copied, as the place may be on another disk
                write_whole(certificates, lambda file: shutil.copyfileobj(source, file))
        if codes.exists() or not self.output.exists():
            if self.output.suffix == ".npy":
                codes.replace(self.output)
            else:
                write_whole(self.output, lambda f: self._convert(f, group_rows, progress, kept))
        self._manifest.unlink()

    def _convert(
        self,
        file: BinaryIO,
        group_rows: int,
        progress: ProgressCallback,
        kept: Callable[[int, int], Any],
    ) -> None:
        """Write the codes as parquet."""
        done = 0

        def report(shard: np.ndarray) -> np.ndarray:
            nonlocal done
            done += len(shard)
            progress(Progress("writing", done, self.num_rows))
            return shard

        shards = open_rows(self.path / CODES).shards(0, group_rows)
        write_parquet(file, map(report, shards), kept)

    def _read(self) -> dict[str, Any]:
        try:
            found = dict(json.loads(self._manifest.read_text(encoding="utf-8")))
            if not 0 <= int(found["rows_done"]) <= self.num_rows:
                raise ValueError
            return {**found, "rows_done": int(found["rows_done"])}
        except (ArithmeticError, ValueError, KeyError, TypeError) as error:
            raise EncodeError(
                f"{self._manifest} cannot be read; start over with --force"
            ) from error

    def _write_manifest(self) -> None:
        manifest = {**self._identity, "rows_done": self.rows_done}
        write_whole(self._manifest, json.dumps(manifest, indent=2))


def check_same(folder: object, found: dict[str, Any], identity: dict[str, Any]) -> None:
    """Raise if the rows in a folder were coded from something else."""
    differences = []
    for name in identity | found:
        was, now = found.get(name), identity.get(name)
        if was != now:
            is_digest = len(f"{was or now}") == 64
            differences.append(name if is_digest else f"{name} (was {was}, now {now})")
    if differences:
        raise EncodeError(
            f"{folder} was started with other inputs: {', '.join(differences)} differs; "
            "repeat the first command, or start over with --force"
        )


def _mapped(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return an array of an unfinished encoding, mapped into memory."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        if array.shape != shape or array.dtype != dtype:
            raise ValueError
    except BAD_HEADER as error:
        raise EncodeError(f"{path} is damaged; start over with --force") from error
    return array
