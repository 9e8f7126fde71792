"""The shards of an encoding in a folder beside its output, so that a killed run can go on.

    codes.npy.parts/
      manifest.json              what the shards were made from; at the end, what was delivered
      000000.codes.npy           a shard of codes …
      000000.certificates.npy    … and what `solve` certified of each of its rows
      lock                       held by the process at work

Every file is written under another name and renamed: a file that is there is whole. Shards are
made in order, so those that are there are the first ones.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from fwnet.coding.array_files import write_npy
from fwnet.coding.errors import EncodeError

__all__ = ["WorkFolder", "check_unasked", "file_stamp", "folder_of", "is_begun"]

KINDS = ("codes", "certificates")
MANIFEST = "manifest.json"
LOCK = "lock"
ALL_CODES = "all.codes"

# The names of the files that are made here; a file of any other name is somebody else's.
SHARD = r"\d{6,}\.(codes|certificates)\.npy"
TEMPORARY = re.compile(rf"({SHARD}|manifest\.json|all\.codes)\.tmp")
SHARD_OR_TEMPORARY = re.compile(rf"{SHARD}|{TEMPORARY.pattern}")
OURS = re.compile(rf"manifest\.json|lock|{SHARD_OR_TEMPORARY.pattern}")

# How a difference between the manifest of a folder and that of a run is called.
CALLED = {
    "data_sha256": "the data",
    "dictionary_sha256": "the dictionary",
    "model_sha256": "the model",
    "shard_rows": "the rows of a shard",
    "version": "the version of fwnet",
    "device": "the device",
    "dtype": "the dtype",
}


class WorkFolder:
    """A folder of shards, locked while it is open."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock: Any = None

    @classmethod
    def beside(cls, output: Path, manifest: dict[str, Any], *, resume: bool, force: bool) -> Self:
        """Open the folder of an output: with the shards in it to `resume`, else without any.

        Shards that nobody spoke of are refused here too: another run may have begun, and died,
        since this one looked first.
        """
        self = cls(folder_of(output), manifest)
        self.folder.mkdir(exist_ok=True)
        self._check_that_all_is_ours()
        self._take_lock()
        try:
            if is_begun(self.folder):
                check_unasked(self.folder, resume=resume, force=force)
            found = self._read_manifest() if resume else None
            if found is None:
                self._clear()
                self._write_manifest()
            else:
                self._compare(found)
                self.manifest = found
                self._clear(TEMPORARY)
        except BaseException:
            self.close()
            raise
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def count_shards(self) -> int:
        """Count the shards that are whole."""
        index = 0
        while all(self._shard(index, kind).exists() for kind in KINDS):
            index += 1
        return index

    def write_shard(self, index: int, codes: np.ndarray, certificates: np.ndarray) -> None:
        """Keep a shard."""
        for kind, array in zip(KINDS, (codes, certificates), strict=True):
            whole = self._shard(index, kind)
            unfinished = self._temporary(whole.name)
            write_npy(unfinished, array.shape, [array])
            unfinished.replace(whole)

    def read_shards(self, kind: str, count: int) -> Iterator[np.ndarray]:
        """Yield the arrays of the first `count` shards."""
        for index in range(count):
            yield np.load(self._shard(index, kind), allow_pickle=False)

    def all_codes(self) -> Path:
        """The file in which the codes of all shards come together."""
        return self._temporary(ALL_CODES)

    def deliver(self, files: dict[Path, Path], summary: dict[str, Any]) -> None:
        """Move finished files to their places, and remember that: {from: to}."""
        # A rename keeps size and time, by which a run that was killed between it and the end
        # recognizes its own output.
        stamps = {str(place.absolute()): file_stamp(file) for file, place in files.items()}
        self.manifest = {**self.manifest, "delivered": {"files": stamps, "summary": summary}}
        self._write_manifest()
        for file, place in files.items():
            file.replace(place)

    def has_delivered(self, place: Path) -> bool:
        """Whether an earlier run had already put its file in this place."""
        stamps = self.manifest.get("delivered", {}).get("files", {})
        return place.exists() and stamps.get(str(place.absolute())) == file_stamp(place)

    def summary(self) -> dict[str, Any]:
        """What `deliver` was told to remember."""
        summary: dict[str, Any] = self.manifest["delivered"]["summary"]
        return summary

    def remove(self) -> None:
        """Remove the folder; the manifest goes last, as it says that the others are not needed."""
        self._clear()
        for name in (LOCK, MANIFEST):
            (self.folder / name).unlink(missing_ok=True)
        self.folder.rmdir()
        self.close()

    def _shard(self, index: int, kind: str) -> Path:
        return self.folder / f"{index:06d}.{kind}.npy"

    def _temporary(self, name: str) -> Path:
        """A file of this folder that does not count as whole."""
        return self.folder / f"{name}.tmp"

    def _take_lock(self) -> None:
        if sys.platform == "win32":  # two processes on one output are the user's to avoid there
            return
        import fcntl

        self._lock = (self.folder / LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise EncodeError(f"another process is at work in {self.folder}") from error

    def _check_that_all_is_ours(self) -> None:
        """Never touch a folder that somebody made for something else."""
        others = sorted(p.name for p in self.folder.iterdir() if not OURS.fullmatch(p.name))
        if others:
            raise EncodeError(
                f"{self.folder} must hold nothing but the shards of an encoding, got {others[0]!r}"
            )

    def _clear(self, names: re.Pattern[str] = SHARD_OR_TEMPORARY) -> None:
        for path in sorted(self.folder.iterdir()):
            if names.fullmatch(path.name):
                path.unlink()

    def _read_manifest(self) -> dict[str, Any] | None:
        with contextlib.suppress(FileNotFoundError):
            text = (self.folder / MANIFEST).read_text(encoding="utf-8")
            try:
                found = json.loads(text)
                if isinstance(found, dict):
                    return found
            except json.JSONDecodeError:
                pass
            raise EncodeError(f"{self.folder / MANIFEST} cannot be read; start afresh with --force")
        return None

    def _write_manifest(self) -> None:
        unfinished = self._temporary(MANIFEST)
        unfinished.write_text(json.dumps(self.manifest, indent=2), encoding="utf-8")
        unfinished.replace(self.folder / MANIFEST)

    def _compare(self, found: dict[str, Any]) -> None:
        """Raise if the shards were made from something else."""
        differences = []
        for key, wanted in self.manifest.items():
            if found.get(key) != wanted:
                name = CALLED.get(key, key)
                values = "" if key.endswith("sha256") else f" (was {found.get(key)}, now {wanted})"
                differences.append(f"{name}{values}")
        if differences:
            raise EncodeError(
                f"{self.folder} was begun with something else: {', '.join(differences)} differs; "
                "run it as it was begun, or start afresh with --force"
            )


def folder_of(output: Path) -> Path:
    """Where the shards of an output are kept."""
    return output.with_name(f"{output.name}.parts")


def is_begun(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return (folder / MANIFEST).exists()


def check_unasked(folder: Path, *, resume: bool, force: bool) -> None:
    """Raise for what an earlier run left in the folder and nobody spoke of."""
    if resume or force or not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return  # an earlier run was killed before its very last act
    raise EncodeError(
        f"{folder} holds the shards of an earlier run: go on from them with --resume, "
        "or drop them with --force"
    )


def file_stamp(path: Path) -> list[int]:
    """Size and time of a file, which tell whether it is still the same."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
