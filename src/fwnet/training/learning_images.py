"""Images to learn from: those of a folder, or default ones, and some held back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fwnet.data import DataError, ImageSet, image_files
from fwnet.progress import Progress
from fwnet.restoration import Restoration
from fwnet.training.checkpoint import holds_training
from fwnet.training.config import TrainingRun

NUM_HELD = 12  # or a tenth of a folder, if that is fewer
NUM_NAMED = 10  # unreadable files that are reported one by one
PICTURE = "history.png"  # drawn into the folder of a training by the command line
BERKELEY = "of the Berkeley segmentation data set (BSDS500)"


@dataclass(frozen=True)
class LearningImages:
    """Images that were read.

    Attributes:
        learn: Images to learn from.
        held: Other images to validate with, if any.
        description: What they are, in words.
    """

    learn: ImageSet
    held: ImageSet | None
    description: str


def read_learning_images(
    restoration: Restoration,
    folder: str | Path | None,
    run: TrainingRun,
    crop_size: int,
    num_held: int | None = None,
) -> LearningImages:
    """Read images for a training. Unreadable and small ones are reported and skipped.

    Args:
        restoration: Chooses the files and reads them.
        folder: A folder of images, with its subfolders; None for default images.
        run: Reports progress and warnings. Pictures of training histories are not learned from.
        crop_size: Images with a shorter side are skipped.
        num_held: How many images to hold back; None for 12, or a tenth if that is fewer.
    """
    found, where = None, BERKELEY
    if folder is not None:
        output = Path(run.folder or ".").resolve()
        found = [path for path in image_files(Path(folder)) if not _is_history(path, output)]
        where = f"in {folder}"
    source = restoration.source(found, where, NUM_HELD if num_held is None else num_held, run.warn)
    others = source.held_files
    images = _read([*source.files, *(others or [])], restoration.read, crop_size, run)
    if others is None:
        if num_held is None:
            num_held = min(NUM_HELD, max(1, len(images) // 10)) if len(images) > 1 else 0
        learn, held = images.split(num_held) if num_held else (images, None)
        count, those = len(images), "of them held back"
    else:
        names = {str(path) for path in others}
        apart = [index for index, name in enumerate(images.names) if name in names]
        kept = [index for index, name in enumerate(images.names) if name not in names]
        learn, held = images.select(kept), images.select(apart) if apart else None
        count, those = len(learn), "others"
    description = f"{count} {'image' if count == 1 else 'images'} {source.description}"
    if held is not None:
        description += f", {len(held)} {those} to validate"
    return LearningImages(learn, held, description)


def _is_history(path: Path, output: Path) -> bool:
    """Return whether a file is the picture of a training; its folder may hold photos as well."""
    if path.name != PICTURE:
        return False
    return path.parent.resolve() == output or holds_training(path.parent)


def _read(
    files: list[Path], read: Callable[[Path], np.ndarray], crop_size: int, run: TrainingRun
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
        run.progress(Progress("reading images", index + 1, len(files), "files"))
    for reason in reasons[:NUM_NAMED]:
        run.warn(f"Warning: {reason}; it is skipped.")
    if len(reasons) > NUM_NAMED:
        run.warn(f"Warning: {len(reasons)} of {len(files)} files cannot be read and are skipped.")
    if num_small:
        run.warn(
            f"Warning: {num_small} of {len(files)} images {'is' if num_small == 1 else 'are'} "
            f"smaller than a crop of {crop_size} × {crop_size} and skipped."
        )
    if not arrays:
        raise DataError(
            f"no image to learn from: of {len(files)} files {len(reasons)} cannot be read and "
            f"{num_small} are smaller than a crop of {crop_size} × {crop_size}"
        )
    return ImageSet.of(arrays, names)
