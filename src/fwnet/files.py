"""Files that are written whole or not at all, the check before it, and folders in use."""

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
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
    return None if stat.S_ISREG(status.st_mode) else "is not a file"


def temporary_name(name: str) -> str:
    """Return a name, different every time, for a file that is not complete yet."""
    # Shortened, so that it is never longer than a name may be.
    return f".{name[:40]}-{secrets.token_hex(4)}.tmp"


def write_whole(path: Path, content: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file through a temporary one: a kill leaves the old file or the new one.

    Args:
        path: The file to write or replace.
        content: Text (UTF-8), bytes, or a function that writes to the open file.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        with temporary.open("xb+") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; raise `BlockingIOError` if one is in.

    The lock ends with the process, and leaves no file. Windows has none: there, users must not
    start two runs in one folder.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
