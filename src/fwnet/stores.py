"""Folders and files, on this machine or at a URL that fsspec knows, such as s3://…"""

import glob
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from fwnet.errors import FwnetError
from fwnet.files import TEMPORARY_NAME, stem_of, temporary_name, write_whole

# Stores in which a file appears when it is complete. In others it gets its name when it is.
WHOLE_OBJECTS = {"abfs", "az", "gcs", "gs", "memory", "s3", "s3a"}


@dataclass(frozen=True)
class StoredFile:
    """A file at a URL, with those methods of `Path` that its readers need."""

    fs: Any
    location: str

    @property
    def name(self) -> str:
        """The name without folders."""
        return PurePosixPath(self.location).name

    @property
    def suffix(self) -> str:
        """The end of the name, with its dot."""
        return PurePosixPath(self.location).suffix

    def exists(self) -> bool:
        """Return whether there is something at the URL."""
        return bool(self.fs.exists(self.location))

    def is_file(self) -> bool:
        """Return whether that is a file."""
        return bool(self.fs.isfile(self.location))

    def open(self, mode: str) -> Any:
        """Open the file."""
        return self.fs.open(self.location, mode)

    def stamp(self) -> tuple[Any, ...]:
        """Return what changes with the content: the size, and a time or a tag if there is one."""
        about = self.fs.info(self.location)
        changed = next(
            (about[key] for key in ("ETag", "etag", "mtime", "created") if key in about), ""
        )
        return int(about["size"]), str(changed)

    def write(self, content: bytes | Callable[[BinaryIO], object]) -> None:
        """Write the file so that others see all of it or nothing."""
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else {*self.fs.protocol}
        folder, written = self.location.rpartition("/")[0], self.location
        if not protocols & WHOLE_OBJECTS:
            written = f"{folder}/{temporary_name(self.name)}"
        self.fs.makedirs(folder, exist_ok=True)
        with self.fs.open(written, "wb") as file:
            content(file) if callable(content) else file.write(content)
        if written != self.location:
            self.fs.mv(written, self.location)

    def __str__(self) -> str:
        return str(self.fs.unstrip_protocol(self.location))


@dataclass(frozen=True)
class Store:
    """A folder, on this machine or at a URL."""

    fs: Any
    root: str

    @classmethod
    def at(cls, text: str | Path) -> "Store":
        """Return the folder of a path or URL; it need not exist."""
        return cls(*_resolved(str(text)))

    @property
    def folder(self) -> Path | None:
        """The folder as a path, if it is on this machine."""
        return Path(self.root) if isinstance(self.fs, LocalFileSystem) else None

    def file(self, name: str) -> Path | StoredFile:
        """Return a file of this folder."""
        return self.folder / name if self.folder else StoredFile(self.fs, f"{self.root}/{name}")

    def make(self) -> None:
        """Make the folder."""
        self.fs.makedirs(f"{self.root}/", exist_ok=True)

    def names(self, folder: str = "") -> list[str]:
        """Return the files of a folder in it, with the folders below; sorted, fresh."""
        place = f"{self.root}/{folder}".rstrip("/")
        self.fs.invalidate_cache()
        found = self.fs.find(place) if self.fs.isdir(place) else []
        return sorted(str(path)[len(place) + 1 :] for path in found)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            return bytes(self.fs.cat_file(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes | Callable[[BinaryIO], object]) -> None:
        """Write a file so that others see all of it or nothing."""
        place = self.file(name)
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content)
        else:
            place.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it exists."""
        place = f"{self.root}/{name}"
        if self.fs.exists(place):
            self.fs.rm(place, recursive=self.fs.isdir(place))

    def remove_unfinished(self, files: Iterable[str] | None = None) -> None:
        """Remove what killed processes left of these files, or of all."""
        paths = None if files is None else map(PurePosixPath, files)
        ours = paths and {stem_of(str(p.with_name(temporary_name(p.name)))) for p in paths}
        for name in self.names():
            is_ours = ours is None or stem_of(name) in ours
            if is_ours and TEMPORARY_NAME.fullmatch(PurePosixPath(name).name):
                self.remove(name)

    def __str__(self) -> str:
        return str(self.folder or self.fs.unstrip_protocol(self.root))


def is_url(text: str) -> bool:
    """Return whether a text is a URL, not a path."""
    return "://" in text


def find_files(
    text: str, is_wanted: Callable[[str], bool], results: Sequence[Store] = ()
) -> tuple[Store, list[str]]:
    """Return a folder and the names of files in it that a path or URL stands for.

    Args:
        text: A file, a folder (with its subfolders) or a pattern.
        is_wanted: Whether a file of a folder or pattern is wanted, by its name. Names that begin
            with a dot or an underscore never are.
        results: Folders whose files are not wanted either.
    """
    fs, path = _resolved(text)
    if glob.has_magic(path) and not fs.exists(path):
        root, found = re.split(r"[*?[]", path)[0].rpartition("/")[0], fs.glob(path)
    elif fs.isdir(path):
        root, found = path, fs.find(path)
    else:
        root, _, name = path.rpartition("/")
        return Store(fs, root), [name]
    ends = tuple(f"{store.root}/" for store in results)
    names = sorted(str(one)[len(root) + 1 :] for one in found if not str(one).startswith(ends))
    hidden = (".", "_")
    shown = [n for n in names if not any(p.startswith(hidden) for p in n.split("/"))]
    return Store(fs, root), [name for name in shown if is_wanted(name)]


def _resolved(text: str) -> tuple[Any, str]:
    try:
        fs, path = url_to_fs(text)
    except (ImportError, ValueError) as error:
        raise FwnetError(f"cannot open {text}: {error}") from error
    return fs, path.rstrip("/")
