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
    berkeley_training_files,
    berkeley_validation_files,
    image_files,
    t91_files,
    without_bsd68,
)
from fwnet.progress import Progress, ProgressCallback
from fwnet.training.checkpoint import holds_training

__all__ = [
    "ImageSource",
    "LearningImages",
    "files_for_denoising",
    "files_for_upscaling",
    "read_learning_images",
]

NUM_HELD = 12  # or a tenth of a folder, if that is fewer
NUM_TOLD = 10  # of the files that cannot be read
PICTURE = "history.png"  # what the command line draws into the folder of a training
BERKELEY = "of the Berkeley segmentation data set (BSDS500)"


@dataclass(frozen=True)
class ImageSource:
    """Files to learn from.

    Attributes:
        files: Where the images are.
        description: What they are, in words that may follow "images".
        held_files: Others to validate with; None where some of the files are held back.
    """

    files: list[Path]
    description: str
    held_files: list[Path] | None = None


@dataclass(frozen=True)
class LearningImages:
    """What came out of the files.

    Attributes:
        learn: Images to learn from.
        held: Others to validate with, if any.
        description: What they are, in words.
    """

    learn: ImageSet
    held: ImageSet | None
    description: str


def files_for_denoising(
    folder: str | Path | None, output: Path, tell: Callable[[str], None]
) -> ImageSource:
    """The images in a folder and those below it, or those of Berkeley; without BSD68.

    Args:
        folder: Where they are; None for the Berkeley images (`fwnet.data.berkeley_files`).
        output: The folder of the training that is to come. Its picture of the history is none of
            them, and neither are those of other trainings.
        tell: Called with a line if test images are left out.
    """
    if folder is None:
        files, test_files = berkeley_files()
        num_test, source = len(test_files), BERKELEY
    else:
        found = _files_in(folder, output)
        files = without_bsd68(found)
        num_test, source = len(found) - len(files), f"in {folder}"
    if num_test:
        tell(
            f"{num_test} of {num_test + len(files)} images are those of BSD68, which denoisers are "
            "tested on: they are left out."
        )
        source += " outside BSD68"
    return ImageSource(files, source)


def files_for_upscaling(
    folder: str | Path | None, output: Path, num_held: int | None = None
) -> ImageSource:
    """The images in a folder and those below it, or T91 and Berkeley images.

    Args:
        folder: Where they are; None for the 91 images and 199 that Berkeley trains with, which
            are validated with images that Berkeley tests with.
        output: As in `files_for_denoising`.
        num_held: How many those are; None for 12.
    """
    if folder is not None:
        return ImageSource(_files_in(folder, output), f"in {folder}")
    count = NUM_HELD if num_held is None else num_held
    files = [*t91_files(), *berkeley_training_files()]  # in this order: the second may download
    held = berkeley_validation_files(count=count) if count else []
    return ImageSource(files, f"of T91 and {BERKELEY}", held)


def read_learning_images(
    source: ImageSource,
    read: Callable[[Path], np.ndarray],
    *,
    crop_size: int,
    num_held: int | None = None,
    tell: Callable[[str], None],
    progress: ProgressCallback,
) -> LearningImages:
    """Read images as far as they can be learned from.

    Args:
        source: Their files.
        read: From a file to uint8 of shape (height, width, channel).
        crop_size: Images with a shorter side are skipped.
        num_held: How many of the files are held back; None for 12, or a tenth if that is fewer.
        tell: Called with a line for everything that is skipped.
        progress: Called after every file.
    """
    others = source.held_files
    images = _read([*source.files, *(others or [])], read, crop_size, tell, progress)
    if others is None:
        learn, held = _hold_back(images, num_held)
        count, those = len(images), "of them held back"
    else:
        learn, held = _set_apart(images, others)
        count, those = len(learn), "others"
    description = f"{count} {'image' if count == 1 else 'images'} {source.description}"
    if held is not None:
        description += f", {len(held)} {those} to validate"
    return LearningImages(learn, held, description)


def _hold_back(images: ImageSet, count: int | None) -> tuple[ImageSet, ImageSet | None]:
    if count is None:
        count = min(NUM_HELD, max(1, len(images) // 10)) if len(images) > 1 else 0
    return images.split(count) if count else (images, None)


def _set_apart(images: ImageSet, files: list[Path]) -> tuple[ImageSet, ImageSet | None]:
    names = {str(path) for path in files}
    held = [index for index, name in enumerate(images.names) if name in names]
    learn = [index for index, name in enumerate(images.names) if name not in names]
    return images.select(learn), images.select(held) if held else None


def _files_in(folder: str | Path, output: Path) -> list[Path]:
    return [path for path in image_files(Path(folder)) if not _is_history(path, output)]


def _is_history(path: Path, output: Path) -> bool:
    """Whether a file is the picture of a training, in whose folder there may be photos as well."""
    if path.name != PICTURE:
        return False
    return path.parent.resolve() == output.resolve() or holds_training(path.parent)


def _read(
    files: list[Path],
    read: Callable[[Path], np.ndarray],
    crop_size: int,
    tell: Callable[[str], None],
    progress: ProgressCallback,
) -> ImageSet:
    arrays: list[np.ndarray] = []
    names: list[str] = []
    num_small, reasons = 0, []
    for index, path in enumerate(files):
        try:
            pixels = read(path)
        except DataError as error:
            reasons.append(str(error).replace("\n", " "))
        else:
            if min(pixels.shape[:2]) < crop_size:
                num_small += 1
            else:
                arrays.append(pixels)
                names.append(str(path))
        progress(Progress("reading images", index + 1, len(files), "files"))
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
