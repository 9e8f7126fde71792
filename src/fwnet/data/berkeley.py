"""The Berkeley segmentation data set: 432 training images and the 68 test images of BSD68."""

import hashlib
import shutil
from pathlib import Path

from fwnet.data.folders import DATA_VARIABLE, DataError, cache_folder, data_folder, download
from fwnet.data.image_sets import evenly_spread
from fwnet.data.images import image_files

# The usual 68 test images, gray or color; all are in the folder `val`.
BSD68_NAMES = """
101085 101087 102061 103070 105025 106024 108005 108070 108082 109053 119082 12084 123074
126007 130026 134035 14037 143090 145086 147091 148026 148089 157055 159008 160068 16077
163085 167062 167083 170057 175032 175043 182053 189080 19021 196073 197017 208001 210088
21077 216081 219090 220075 223061 227092 229036 236037 24077 241004 241048 253027 253055
260058 271035 285079 291000 295087 296007 296059 299086 300091 302008 304034 304074 306005
3096 33039 351093
"""
BSD68 = frozenset(BSD68_NAMES.split())
HAS_WOMAN = "302003"  # an image of the folder train; a part of it is `woman` of Set5
FOLDER = "bsds500"
ARCHIVE = "BSR_bsds500.tgz"
IMAGES = "BSR/BSDS500/data/images"  # in the archive
SOURCES = ("http://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/",)
PARTS = ("train", "val", "test")  # the choice of validation images depends on this order
PLACES = (".", "images", "data/images", "BSDS500/data/images", IMAGES, f"{ARCHIVE}.untar/{IMAGES}")
CONTENT = "b6ce70152c6f4d55bc6d2580490eed06"  # MD5 of the names and bytes of the 500 images


def berkeley_files(folder: str | Path | None = None) -> tuple[list[Path], list[Path]]:
    """Return the files of the 432 training images and of the 68 test images.

    Args:
        folder: The folder with train, val and test, the folder of the unpacked archive, or the
            parent of either. Default: $FWNET_DATA/bsds500; without it, the archive is downloaded
            (70 MB) and kept.

    All images together are checked against their MD5. Their license allows non-commercial research
    and education.

    >>> import fwnet
    >>> train, test = fwnet.data.berkeley_files()
    >>> len(train), len(test)
    (432, 68)
    """
    files = [path for part in _parts(folder).values() for path in part]
    learn = [path for path in files if path.stem not in BSD68]
    return learn, [path for path in files if path.stem in BSD68]


def berkeley_training_files(folder: str | Path | None = None) -> list[Path]:
    """Return the files of 199 images of the folder train, which train super-resolution.

    The 200th image, 302003, contains `woman` of Set5 and is left out. BSD68 and BSD100, two usual
    test sets, are in the folder val. For `folder` see `berkeley_files`.

    >>> import fwnet
    >>> len(fwnet.data.berkeley_training_files())
    199
    """
    return [path for path in _parts(folder)["train"] if path.stem != HAS_WOMAN]


def berkeley_validation_files(folder: str | Path | None = None, *, count: int = 12) -> list[Path]:
    """Return `count` files, spread evenly over the folder test, to choose settings with.

    Super-resolution is neither trained nor tested on them. For `folder` see `berkeley_files`.

    >>> import fwnet
    >>> len(fwnet.data.berkeley_validation_files(count=12))
    12
    """
    files = _parts(folder)["test"]
    if not 0 < count <= len(files):
        raise DataError(f"cannot choose {count} of {len(files)} images")
    return [files[index] for index in evenly_spread(count, len(files))]


def without_bsd68(files: list[Path]) -> list[Path]:
    """Return the files without the images of BSD68 if at least 60 of them are there.

    In other folders a few files may have the same names by chance.

    >>> import fwnet
    >>> from pathlib import Path
    >>> files = [Path(f"{number}.jpg") for number in (*fwnet.data.BSD68, "mine")]
    >>> fwnet.data.without_bsd68(files)
    [PosixPath('mine.jpg')]
    """
    kept = [path for path in files if path.stem not in BSD68]
    return kept if len(files) - len(kept) >= 60 else files


def _parts(folder: str | Path | None) -> dict[str, list[Path]]:
    """Return the files of all 500 images by their folders, checked against their MD5."""
    given = data_folder(FOLDER, folder)
    where = given or cache_folder(FOLDER)
    if given is None and _find_images(where) is None:
        shutil.rmtree(where / f"{ARCHIVE}.untar", ignore_errors=True)  # of an interrupted run
        download(FOLDER, ARCHIVE, None, SOURCES, unpack=IMAGES)
    found = _find_images(where)
    if found is None:
        raise DataError(
            f"expected the folders train, val and test of the Berkeley images in {where}, got none "
            f"(without a folder and without {DATA_VARIABLE}, they are downloaded)"
        )
    parts = {part: image_files(found / part) for part in PARTS}
    files = [path for part in parts.values() for path in part]
    digest = hashlib.md5(usedforsecurity=False)
    for path in sorted(files, key=lambda path: path.stem):
        digest.update(path.stem.encode() + path.read_bytes())
    if digest.hexdigest() != CONTENT:
        if given is None:  # so that the next call starts over
            shutil.rmtree(where)
        raise DataError(
            f"{found} does not hold the 500 Berkeley images as they are published: expected the "
            f"MD5 {CONTENT}, got {digest.hexdigest()} of {len(files)} images"
        )
    return parts


def _find_images(where: Path) -> Path | None:
    """Return the folder that holds train, val and test."""
    found = [where / place for place in PLACES]
    return next((place for place in found if all((place / part).is_dir() for part in PARTS)), None)
