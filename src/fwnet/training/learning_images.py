"""The images that a training learns from and validates with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fwnet.data import DataError, ImageSet, image_files, match_pairs, read_pair
from fwnet.files import resolved
from fwnet.progress import Progress
from fwnet.restoration import ImageSource, Restoration, TrainingData
from fwnet.training.checkpoint import PICTURE, holds_training
from fwnet.training.config import TrainingRun

NUM_HELD = 12  # or a tenth of a folder, if that is fewer
NUM_NAMED = 10  # unreadable files that are reported one by one
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
    data: TrainingData,
    run: TrainingRun,
    crop_size: int,
    num_held: int | None = None,
) -> LearningImages:
    """Read images for a training. Unreadable and small ones are reported and skipped.

    Args:
        restoration: Chooses the files and reads them.
        data: A folder of images, with its subfolders; two folders for pairs; None for default
            images.
        run: Reports progress and warnings. Pictures of training histories are not learned from.
        crop_size: Images with a shorter side are skipped.
        num_held: How many images to hold out; None for 12, or a tenth if that is fewer.
    """
    read, kind = restoration.read, "image"
    if isinstance(data, tuple):
        noisy_of = _match(Path(data[0]), Path(data[1]), run.warn)
        source = ImageSource(list(noisy_of), f"of images in {data[0]} and {data[1]}")
        read, kind = lambda path: read_pair(noisy_of[path], path, restoration.read), "pair"
    else:
        found, where = None, BERKELEY
        if data is not None:
            output = resolved(run.folder or ".")
            found = [path for path in image_files(Path(data)) if not _is_history(path, output)]
            where = f"in {data}"
        num_wanted = NUM_HELD if num_held is None else num_held
        source = restoration.source(found, where, num_wanted, run.warn)
    others = source.held_files
    size = crop_size + 2 * restoration.margin
    images = _read([*source.files, *(others or [])], read, size, run)
    if others is None:
        if num_held is None:
            num_held = min(NUM_HELD, max(1, len(images) // 10)) if len(images) > 1 else 0
        learn, held = images.split(num_held) if num_held else (images, None)
        count, those = len(images), "of them held out"
    else:
        names = {str(path) for path in others}
        apart = [index for index, name in enumerate(images.names) if name in names]
        kept = [index for index, name in enumerate(images.names) if name not in names]
        learn, held = images.select(kept), images.select(apart) if apart else None
        count, those = len(learn), "others"
    description = f"{count} {kind}{'s' * (count != 1)} {source.description}"
    if held is not None:
        description += f", {len(held)} {those} to validate"
    return LearningImages(learn, held, description)


def _is_history(path: Path, output: Path) -> bool:
    """Return whether a file is the picture of a training; its folder may hold photos as well."""
    if path.name != PICTURE:
        return False
    return resolved(path.parent) == output or holds_training(path.parent)


def _match(noisy: Path, clean: Path, warn: Callable[[str], object]) -> dict[Path, Path]:
    """Return the noisy file of each clean one; files without a partner are reported."""
    noisy_of, alone = match_pairs(noisy, clean)
    if alone:
        more = "" if len(alone) <= NUM_NAMED else ", …"
        warn(
            f"Warning: {len(alone)} file{'s have' if len(alone) > 1 else ' has'} no partner and "
            f"{'are' if len(alone) > 1 else 'is'} skipped: "
            f"{', '.join(map(str, alone[:NUM_NAMED]))}{more}"
        )
    return noisy_of


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
        run.warn(f"Warning: {len(reasons)} of {len(files)} files cannot be used and are skipped.")
    if num_small:
        run.warn(
            f"Warning: {num_small} of {len(files)} images {'is' if num_small == 1 else 'are'} "
            f"smaller than a crop of {crop_size} × {crop_size} and skipped."
        )
    if not arrays:
        raise DataError(
            f"no image to learn from: of {len(files)} files {len(reasons)} cannot be used and "
            f"{num_small} are smaller than a crop of {crop_size} × {crop_size}"
        )
    return ImageSet.of(arrays, names)
