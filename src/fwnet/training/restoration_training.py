"""`train_restoration`: a network learns a restoration from a folder of images."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.hardware import choose_device, hardware_name
from fwnet.models import ImageModel
from fwnet.models.conv_coding_networks import ConvCodingNetwork
from fwnet.restoration import Restoration, TrainingData
from fwnet.training.checkpoint import MODEL, TrainingFolder
from fwnet.training.config import ConfigError, TrainingConfig, TrainingRun
from fwnet.training.learning_images import LearningImages, read_learning_images
from fwnet.training.loop import TrainingResult, train
from fwnet.training.restoration_task import RestorationTask, decibels


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
    figures = result.last.get("validation"), task.validate_baseline()
    return RestorationReport(
        folder / MODEL,
        network,
        images,
        replace(result, best_epoch=result.last.get("epoch")),
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
