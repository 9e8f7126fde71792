"""The 500 images of the Berkeley segmentation data set: 432 to learn from, BSD68 to test on."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path

from fwnet.data.folders import DATA_VARIABLE, DataError, cache_folder, data_folder, download
from fwnet.data.images import evenly_spread, image_files

__all__ = [
    "BSD68",
    "berkeley_files",
    "berkeley_training_files",
    "berkeley_validation_files",
    "without_bsd68",
]

# Everyone's 68 test images, gray or in color; all are in the folder `val`.
BSD68_NAMES = """
101085 101087 102061 103070 105025 106024 108005 108070 108082 109053 119082 12084 123074
126007 130026 134035 14037 143090 145086 147091 148026 148089 157055 159008 160068 16077
163085 167062 167083 170057 175032 175043 182053 189080 19021 196073 197017 208001 210088
21077 216081 219090 220075 223061 227092 229036 236037 24077 241004 241048 253027 253055
260058 271035 285079 291000 295087 296007 296059 299086 300091 302008 304034 304074 306005
3096 33039 351093
"""
BSD68 = frozenset(BSD68_NAMES.split())
HAS_WOMAN = "302003"  # of the folder train: a part of it, at 0.72 of its size, is woman of Set5
FOLDER = "bsds500"
ARCHIVE = "BSR_bsds500.tgz"
SOURCES = ("http://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/",)
PARTS = ("train", "val", "test")  # in this order: which images are held back depends on it
PLACES = (".", "images", "data/images", "BSDS500/data/images", "BSR/BSDS500/data/images")
BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)  # what such files raise
CONTENT = "b6ce70152c6f4d55bc6d2580490eed06"  # MD5 of the names and bytes of the 500 images


def berkeley_files(folder: str | Path | None = None) -> tuple[list[Path], list[Path]]:
    """The files of the 432 images to learn from, and of the 68 to test on.

    Args:
        folder: Where they are: with the folders train, val and test, or as unpacked from the
            archive of the data set, or the folder above. Default: $FWNET_DATA/bsds500; where there
            is none, the archive is downloaded (70 MB) and kept.

    All images together are checked against their MD5. They are for research and education that is
    not commercial.
    """
    files = [path for part in _parts(folder).values() for path in part]
    learn = [path for path in files if path.stem not in BSD68]
    return learn, [path for path in files if path.stem in BSD68]


def berkeley_training_files(folder: str | Path | None = None) -> list[Path]:
    """The files of 199 images of the folder train, which super-resolution is learned from.

    The 200th, 302003, has `woman` of Set5 in it and is left out. BSD68 and BSD100, which others
    test on, are in the folder val. The folder is that of `berkeley_files`.
    """
    return [path for path in _parts(folder)["train"] if path.stem != HAS_WOMAN]


def berkeley_validation_files(folder: str | Path | None = None, *, count: int = 12) -> list[Path]:
    """The files of a few images, spread evenly over the folder test, to choose settings with.

    Super-resolution is neither learned from them nor tested on them. The folder is that of
    `berkeley_files`.
    """
    files = _parts(folder)["test"]
    if not 0 < count <= len(files):
        raise DataError(f"cannot choose {count} of {len(files)} images")
    return [files[index] for index in evenly_spread(count, len(files))]


def without_bsd68(files: list[Path]) -> list[Path]:
    """Leave the images out that everyone tests on, where nearly all of them are among the files.

    In a folder of other images a few names may be the same by chance.
    """
    kept = [path for path in files if path.stem not in BSD68]
    return kept if len(files) - len(kept) >= 60 else files


def _parts(folder: str | Path | None) -> dict[str, list[Path]]:
    """The files of all 500 images, by the folders they are in, checked against their MD5."""
    where = data_folder(FOLDER, folder)
    if where is None:
        where = cache_folder(FOLDER)
        if not (where / "val").is_dir():
            _unpack(download(FOLDER, ARCHIVE, None, SOURCES), where)
    found = [where / place for place in PLACES if (where / place / "val").is_dir()]
    if not found:
        raise DataError(
            f"expected the folders train, val and test of the Berkeley images in {where}, got none "
            f"(without a folder and without {DATA_VARIABLE}, they are downloaded)"
        )
    parts = {part: image_files(found[0] / part) for part in PARTS}
    files = [path for part in parts.values() for path in part]
    digest = hashlib.md5(usedforsecurity=False)
    for path in sorted(files, key=lambda path: path.stem):
        digest.update(path.stem.encode() + path.read_bytes())
    if digest.hexdigest() != CONTENT:
        raise DataError(
            f"{found[0]} does not hold the 500 Berkeley images as they are published: expected the "
            f"MD5 {CONTENT}, got {digest.hexdigest()} of {len(files)} images"
        )
    return parts


def _unpack(archive: Path, where: Path) -> None:
    """Take the images out of the archive, and nothing else: all of them, or none."""
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where) as folder:
            _extract(archive, Path(folder))
            for part in ("train", "test", "val"):  # the last one is there when all are
                if (where / part).exists():  # of an unpacking that was stopped
                    shutil.rmtree(where / part)
                (Path(folder) / part).replace(where / part)
    except BROKEN as error:
        archive.unlink(missing_ok=True)  # or it would be taken for good the next time
        raise DataError(f"{archive} is not the archive of the Berkeley images: {error}") from error
    except OSError as error:
        raise DataError(f"cannot unpack {archive} to {where}: {error}") from error


def _extract(archive: Path, folder: Path) -> None:
    """Write the images of an archive into a folder for each part."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            part = path.parent.name
            if member.isfile() and path.suffix == ".jpg" and part in PARTS:
                content = tar.extractfile(member) or io.BytesIO()
                target = folder / part / path.name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(content.read())
    for part in PARTS:
        if not (folder / part).is_dir():
            raise tarfile.ReadError(f"expected images in a folder {part}, got none")
