"""Where the files of a data set are: a folder of the user, or a checksummed download."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from fwnet.errors import FwnetError

__all__ = [
    "DATA_SETS",
    "DATA_VARIABLE",
    "DataError",
    "cache_folder",
    "data_folder",
    "download",
    "md5",
]

DATA_VARIABLE = "FWNET_DATA"
DATA_SETS = ("bsds500", "mnist", "set5", "set14", "t91")  # the names of their folders


class DataError(FwnetError):
    """Data that is not there, or not what it should be, in one line."""


def data_folder(name: str, folder: str | Path | None = None) -> Path | None:
    """The folder of a data set: the one given, or $FWNET_DATA/name; None where there is neither.

    A folder that is given may be that of the data set itself or the one above it.
    """
    given = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if not given:
        return None
    path = Path(given)
    if (path / name).is_dir():
        return path / name
    if folder is None:  # the variable may point at other data sets alone
        return None
    if not path.is_dir():
        raise DataError(f"expected a folder with the data set {name}, got {path}")
    return path


def cache_folder(name: str) -> Path:
    """Where downloads of a data set are kept."""
    import pooch

    return Path(pooch.os_cache("fwnet")) / name


def download(name: str, file: str, checksum: str | None, sources: Sequence[str]) -> Path:
    """Fetch one file of a data set into the user's cache, once; return where it is.

    Args:
        name: The data set.
        file: The file.
        checksum: "md5:…" of what must come; None where its content is checked later.
        sources: Addresses of folders that have the file, tried in this order.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    cache = cache_folder(name)
    reasons = []
    for source in sources:
        try:
            path = pooch.retrieve(
                source + file, known_hash=checksum, fname=file, path=cache, progressbar=False
            )
        except (OSError, ValueError) as error:  # no network, or something else than the file
            reasons.append(f"{source}: {type(error).__name__}")
            continue
        return Path(path)
    raise DataError(
        f"{file} of {name} could not be downloaded ({', '.join(reasons)}): get it by other means, "
        f"and set {DATA_VARIABLE} to the folder that has {name}/{file}"
    )


def md5(content: bytes) -> str:
    """The checksum that the data sets are published with."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
