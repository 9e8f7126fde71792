"""`train_restoration`: a network learns a restoration from a folder of images."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.data import DataError, ImageSet, image_files, match_pairs, read_pair
from fwnet.files import resolved
from fwnet.hardware import choose_device, hardware_name
from fwnet.models import ImageModel
from fwnet.models.conv_coding_networks import ConvCodingNetwork
from fwnet.progress import Progress
from fwnet.restoration import ImageSource, Restoration, TrainingData
from fwnet.training.checkpoint import MODEL, PICTURE, TrainingFolder, holds_training
from fwnet.training.config import ConfigError, TrainingConfig, TrainingRun
from fwnet.training.loop import TrainingResult, train
from fwnet.training.restoration_task import RestorationTask, decibels

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


@dataclass(frozen=True)
class RestorationReport:
    """What was trained.

    Attributes:
        model_path: The model file, for the option --model of the command.
        network: The trained network.
        images: The images it was trained and validated with.
        training: History, seconds, and the epoch whose weights were kept: the last one.
        validation_psnr: Mean PSNR of the validation images in dB; None without such images.
        baseline_psnr: The same without a network.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skimage.data import camera
    >>> Path("photos").mkdir()
    >>> for name, part in {"left": camera()[:, :256], "right": camera()[:, 256:]}.items():
    ...     Image.fromarray(part).save(f"photos/{name}.png")
    >>> report = fwnet.training.train_restoration(
    ...     fwnet.restoration.Upscaling(3),
    ...     fwnet.ConvFWNet(num_layers=2, channels=4, scale=3),
    ...     "photos",
    ...     fwnet.training.TrainingRun("mynet"),
    ...     settings={"num_epochs": 1, "batch_size": 4},
    ...     steps_per_epoch=3,
    ...     validation=1,
    ... )
    >>> len(report.training.history), report.baseline_psnr > 15
    (1, True)
    """

    model_path: Path
    network: ImageModel
    images: LearningImages
    training: TrainingResult
    validation_psnr: float | None
    baseline_psnr: float | None


def train_restoration(
    restoration: Restoration,
    network: ImageModel,
    data: TrainingData,
    run: TrainingRun,
    *,
    start: ImageModel | None = None,
    settings: Mapping[str, Any] | None = None,
    crop_size: int | None = None,
    steps_per_epoch: int = 1000,
    validation: int | None = None,
    notes: Mapping[str, Any] | None = None,
) -> RestorationReport:
    """Train a network on images; its loss is that of the restoration.

    Args:
        restoration: What to learn, such as `Denoising(25 / 255)` or `Upscaling(3)`.
        network: The network, such as `restoration.make_network()`; trained in place.
        data: A folder of images, with its subfolders; None for the restoration's default images.
            For pairs, such as `Denoising(pairs=True)`, two folders: noisy and clean images of the
            same names. Unreadable files and the history.png of trainings are skipped.
        run: Folder, device, checkpoints and progress. The folder must be given.
        start: A trained network to take initial weights from.
        settings: Settings that differ from the recipe, by the names of `TrainingConfig`.
        crop_size: Side of a crop; by default that of the restoration.
        steps_per_epoch: Batches per epoch.
        validation: Images to hold out and validate with after every epoch: by default 12, or a
            tenth if that is fewer. The weights of the last epoch are kept.
        notes: What the model file should say besides data, settings and figures.

    Raises a `ValueError` (`DataError`, `ConfigError`, `TrainingError`) for input that does not fit,
    most of them before images are read.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skimage.data import camera
    >>> Path("photos").mkdir()
    >>> Image.fromarray(camera()).save("photos/camera.png")
    >>> report = fwnet.training.train_restoration(
    ...     fwnet.restoration.Denoising(25 / 255),
    ...     fwnet.ConvFWNet(num_layers=2, channels=4),
    ...     "photos",
    ...     fwnet.training.TrainingRun("mynet"),
    ...     settings={"num_epochs": 1, "batch_size": 4},
    ...     steps_per_epoch=3,
    ... )
    >>> report.model_path.as_posix()
    'mynet/model.safetensors'
    """
    check_integer("steps_per_epoch", steps_per_epoch)
    if validation is not None:
        check_integer("validation", validation, 0)
    if run.folder is None:
        raise ConfigError("run.folder must be a folder for the trained network, got None")
    if isinstance(data, tuple) != restoration.pairs:
        expected = "two folders, (noisy, clean)" if restoration.pairs else "one folder"
        raise ConfigError(f"data must be {expected}, got {data!r}")
    restoration.check_network(network)
    crop_size = restoration.crop_size if crop_size is None else crop_size
    restoration.check_crop_size(check_integer("crop_size", crop_size))
    if crop_size % network.reduction:
        raise ConfigError(
            f"crop_size must be a multiple of the network's reduction, {network.reduction}, "
            f"got {crop_size}"
        )
    folder, device = Path(run.folder), choose_device(run.device)
    given = dict(settings or {})  # instead of those of the recipe
    recipe = restoration.recipe
    fixed = recipe.fixed_settings(type(network).__name__, network.config)
    num_steps = steps_per_epoch * TrainingConfig(**{**fixed, **given}).num_epochs
    chosen = recipe.settings(network, device, num_steps, has_start=start is not None)
    config = TrainingConfig(**{**chosen, **given})
    if start is not None:
        _adopt(network, start)
    TrainingFolder(folder, {}).check_unasked(resume=run.resume, force=run.force)
    images = read_learning_images(restoration, data, run, crop_size, validation)
    task = RestorationTask(
        restoration,
        images.learn,
        images.held,
        crop_size=crop_size,
        crops_per_epoch=steps_per_epoch * config.batch_size,
    )
    sizes = {"crop_size": crop_size, "steps_per_epoch": steps_per_epoch}
    digest = None if start is None else weights_digest(start.state_dict())
    result = train(
        network,
        task,
        config,
        replace(run, device=device),
        identity={**restoration.facts, **sizes, "start": digest},
        notes={
            **task.restoration.facts,
            **sizes,
            "data": images.description,
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            "task": restoration.name,
            **(notes or {}),
        },
    )
    last = result.history[-1] if result.history else {}
    figures = last.get("validation"), task.validate_baseline()
    return RestorationReport(
        folder / MODEL,
        network,
        images,
        replace(result, best_epoch=last.get("epoch")),
        *(None if figure is None else decibels(figure) for figure in figures),
    )


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return the first 16 digits of the SHA-256 of weights."""
    sha = hashlib.sha256()
    for name, value in sorted(weights.items()):
        sha.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        sha.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()[:16]


def _adopt(network: ImageModel, start: ImageModel) -> None:
    """Copy the weights of a network of the same class."""
    if isinstance(network, ConvCodingNetwork) and isinstance(start, ConvCodingNetwork):
        network.adopt(start)
        return
    ours, theirs = ({"model": type(one).__name__, **one.config} for one in (network, start))
    ours.pop("output_gain", None)  # only matters for initial weights
    different = [name for name in ours if ours[name] != theirs.get(name)]
    if different:
        name = different[0]
        raise ValueError(
            f"the network to start from must have {name} {ours[name]!r}, got {theirs.get(name)!r}"
        )
    network.load_state_dict(start.state_dict())


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
