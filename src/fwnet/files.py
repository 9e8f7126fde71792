"""Files that are written whole or not at all, the check before it, and locks."""

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

TEMPORARY_NAME = re.compile(r"\..+-[0-9a-f]{8}\.tmp")  # of a file that is not complete


def why_not_writable(path: Path) -> str | None:
    """Return why a file cannot be written, if so; a missing folder is no reason."""
    try:
        if path.exists() and not path.is_file():
            return "it exists and is not a file"
        if path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
            return f"no permission in {path.parent}"
    except OSError as error:
        return error.strerror
    return None


def why_not_readable(path: Path) -> str | None:
    """Return why a file cannot be read, if so. Pipes and devices are none: they may never end."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:  # a name too long, no permission
        return f"cannot be read: {error.strerror}"
    except ValueError as error:  # a null character
        return f"cannot be read: {error}"
    return None if stat.S_ISREG(status.st_mode) else "is not a file"


def temporary_name(name: str) -> str:
    """Return a name, different every time, for a file that is not complete yet."""
    # Shortened, so that it is never longer than a name may be.
    return f".{name[:40]}-{secrets.token_hex(4)}.tmp"


def write_whole(
    path: Path, content: str | bytes | Callable[[BinaryIO], object], *, replace: bool = True
) -> None:
    """Write a file through a temporary one: a kill leaves the old file or the new one.

    Args:
        path: The file to write or replace.
        content: Text (UTF-8), bytes, or a function that writes to the open file.
        replace: Whether a file may be replaced; otherwise raise `FileExistsError`, also if the file
            has appeared while the new one was written.
    """
    try:
        with _temporary_file(path) as (temporary, file):
            with file:
                if callable(content):
                    content(file)
                else:
                    file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(path)
            else:
                _name(temporary, path)
    except OSError as error:
        named = error.filename is None or TEMPORARY_NAME.fullmatch(Path(error.filename).name)
        if error.strerror and named:
            error.filename = str(path)  # which a user knows
        raise


@contextlib.contextmanager
def _temporary_file(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file beside another one, locked against `remove_unfinished`; remove it after."""
    while True:
        temporary = path.with_name(temporary_name(path.name))
        try:
            with temporary.open("xb+") as file, contextlib.ExitStack() as held:
                with contextlib.suppress(OSError):  # a disk without locks
                    held.enter_context(locked(temporary, wait=True))
                if temporary.exists():  # otherwise it was removed before it was locked
                    yield temporary, file
                    return
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _name(temporary: Path, path: Path) -> None:
    """Give a file a name that no other file has."""
    try:
        os.link(temporary, path)  # unlike a rename, in one step with the check
    except FileExistsError:
        raise
    except OSError as error:  # a disk without links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.replace(path)


def remove_unfinished(places: Iterable[Path]) -> None:
    """Remove what killed processes left of these files. What is being written stays."""
    names = defaultdict(set)
    for place in places:
        names[place.parent].add(stem_of(temporary_name(place.name)))
    for folder, ours in names.items():
        with contextlib.suppress(OSError):
            left = [path for path in folder.iterdir() if TEMPORARY_NAME.fullmatch(path.name)]
            for path in left:
                if stem_of(path.name) in ours:
                    with contextlib.suppress(OSError), locked(path):
                        path.unlink()


def stem_of(name: str) -> str:
    """Return what the temporary names of a file have in common."""
    return name.rpartition("-")[0]


def resolved(path: str | Path) -> Path:
    """Return a path without links; `Path.resolve` raises where links lead in a circle."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes out of a folder or file; wait or raise `BlockingIOError` if one is in.

    The lock ends with the process, and leaves no file. Windows has none: there, users must not
    start two runs in one folder.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            words = "another process is at work there"
            raise BlockingIOError(error.errno, words, str(path)) from error
        yield
    finally:
        os.close(descriptor)
