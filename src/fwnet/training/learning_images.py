"""Images of any folder to learn from, and some of them held back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fwnet.data import (
    DataError,
    ImageSet,
    berkeley_files,
    image_files,
    read_pixels,
    without_bsd68,
)
from fwnet.training.checkpoint import holds_training

__all__ = ["LearningImages", "ReadingProgress", "read_learning_images"]

NUM_HELD = 12  # or a tenth, if that is fewer
NUM_TOLD = 10  # of the files that cannot be read
PICTURE = "history.png"  # what the command line draws into the folder of a training


@dataclass(frozen=True)
class ReadingProgress:
    """How many files have been read."""

    done: int
    count: int


@dataclass(frozen=True)
class LearningImages:
    """What came out of a folder.

    Attributes:
        learn: Images to learn from.
        held: Others to validate with, if any.
        description: What they are, in words.
    """

    learn: ImageSet
    held: ImageSet | None
    description: str


def read_learning_images(
    folder: str | Path | None,
    *,
    color: bool,
    crop_size: int,
    num_held: int | None = None,
    output: Path | None = None,
    tell: Callable[[str], None],
    progress: Callable[[ReadingProgress], None],
) -> LearningImages:
    """Read all images in a folder and those below it, as far as they can be learned from.

    Args:
        folder: Where they are; None for the Berkeley images (`fwnet.data.berkeley_files`).
        color: Whether they are read as RGB; else as gray.
        crop_size: Images with a shorter side are skipped.
        num_held: How many are held back; None for 12, or a tenth if that is fewer.
        output: The folder of the training that is to come. Its picture of the history is none of
            them, and neither are those of other trainings.
        tell: Called with a line for everything that is skipped.
        progress: Called after every file.
    """
    if num_held is not None and num_held < 0:
        raise DataError(f"validation must be an integer >= 0, got {num_held}")
    if folder is None:
        files, test_files = berkeley_files()
        num_test, source = len(test_files), "of the Berkeley segmentation data set (BSDS500)"
    else:
        found = [path for path in image_files(Path(folder)) if not _is_history(path, output)]
        files = without_bsd68(found)
        num_test, source = len(found) - len(files), f"in {folder}"
    if num_test:
        tell(
            f"{num_test} of {num_test + len(files)} images are those of BSD68, which denoisers are "
            "tested on: they are left out."
        )
        source += " outside BSD68"
    images = _read(files, color, crop_size, tell, progress)
    if num_held is None:
        num_held = min(NUM_HELD, max(1, len(images) // 10)) if len(images) > 1 else 0
    description = f"{len(images)} {'image' if len(images) == 1 else 'images'} {source}"
    if not num_held:
        return LearningImages(images, None, description)
    learn, held = images.split(num_held)
    return LearningImages(learn, held, f"{description}, {num_held} of them held back to validate")


def _read(
    files: list[Path],
    color: bool,
    crop_size: int,
    tell: Callable[[str], None],
    progress: Callable[[ReadingProgress], None],
) -> ImageSet:
    arrays: list[np.ndarray] = []
    names: list[str] = []
    num_small, reasons = 0, []
    for index, path in enumerate(files):
        try:
            pixels = read_pixels(path, color)
        except DataError as error:
            reasons.append(str(error).replace("\n", " "))
        else:
            if min(pixels.shape[:2]) < crop_size:
                num_small += 1
            else:
                arrays.append(pixels)
                names.append(str(path))
        progress(ReadingProgress(index + 1, len(files)))
    for reason in reasons[:NUM_TOLD]:
        tell(f"Warning: {reason}; it is skipped.")
    if len(reasons) > NUM_TOLD:
        tell(f"Warning: {len(reasons)} of {len(files)} files cannot be read and are skipped.")
    if num_small:
        tell(
            f"Warning: {num_small} of {len(files)} images {'is' if num_small == 1 else 'are'} "
            f"smaller than a crop of {crop_size} × {crop_size} and skipped."
        )
    if not arrays:
        raise DataError(
            f"no image to learn from: of {len(files)} files {len(reasons)} cannot be read and "
            f"{num_small} are smaller than a crop of {crop_size} × {crop_size}"
        )
    return ImageSet.of(arrays, names)


def _is_history(path: Path, output: Path | None) -> bool:
    """Whether a file is the picture of a training, in whose folder there may be photos as well."""
    if path.name != PICTURE:
        return False
    is_ours = output is not None and path.parent.resolve() == output.resolve()
    return is_ours or holds_training(path.parent)
