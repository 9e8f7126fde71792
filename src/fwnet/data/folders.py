"""Find the files of a data set: in a folder of the user, or by a download."""

import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from posixpath import normpath

from fwnet.errors import FwnetError

DATA_VARIABLE = "FWNET_DATA"
DATA_SETS = ("bsds500", "mnist", "polyu", "set5", "set14", "t91")  # the names of their folders


class DataError(FwnetError):
    """Data that is missing or differs from what was published.

    >>> import fwnet
    >>> try:
    ...     fwnet.data.set5_files("nosuchfolder")
    ... except fwnet.data.DataError as error:
    ...     print(error)
    expected ...
    """


def data_folder(name: str, folder: str | Path | None = None) -> Path | None:
    """Return the folder of a data set, by default $FWNET_DATA/name; None if there is none.

    A given folder may be that of the data set or its parent.
    """
    given = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if not given:
        return None
    path = Path(given)
    if (path / name).is_dir():
        return path / name
    if folder is None:  # the variable may name a folder with other data sets only
        return None
    if not path.is_dir():
        raise DataError(f"expected a folder with the data set {name}, got {path}")
    return path


def cache_folder(name: str) -> Path:
    """Return the folder that keeps the downloads of a data set."""
    import pooch

    return Path(pooch.os_cache("fwnet")) / name


def download(
    name: str, file: str, checksum: str | None, sources: Sequence[str], unpack: str | None = None
) -> Path:
    """Download one file of a data set into the user's cache unless it is there; return its path.

    Args:
        name: The data set.
        file: The name of the file.
        checksum: "md5:…" of the file; None if its content is checked later.
        sources: URLs of folders with the file, tried in this order.
        unpack: A folder of a tar archive, which is unpacked to `file`.untar beside the archive.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    cache = cache_folder(name)
    reasons = []
    for source in sources:
        try:
            pooch.retrieve(source + file, checksum, file, cache)
            if unpack:  # pooch's own Untar trusts the archive's paths on Python 3.11
                with tarfile.open(cache / file) as archive:
                    members = [one for one in archive if normpath(one.name).startswith(unpack)]
                    archive.extractall(cache / f"{file}.untar", members, filter="data")
            return cache / file
        except (OSError, ValueError, EOFError, tarfile.TarError, zlib.error) as error:
            # Otherwise the next attempt would use the damaged archive again.
            (cache / file).unlink(missing_ok=True)
            shutil.rmtree(cache / f"{file}.untar", ignore_errors=True)
            reason = getattr(error, "strerror", None) or type(error).__name__
            reasons.append(f"{source}: {reason}")
    raise DataError(
        f"{file} of {name} could not be downloaded ({', '.join(reasons)}): get it by other means, "
        f"and set {DATA_VARIABLE} to the folder that has {name}/{file}"
    )
