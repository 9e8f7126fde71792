"""`train_noise_level`: a network learns how much noise photos have."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fwnet.checks import check_integer
from fwnet.data import keyed_generator
from fwnet.hardware import choose_device, hardware_name
from fwnet.models import NoiseLevelNet
from fwnet.models.noise_level_net import LEAST, level_of
from fwnet.restoration import Denoising
from fwnet.restoration.shots import take_shots
from fwnet.training.checkpoint import MODEL, TrainingFolder
from fwnet.training.config import ConfigError, TrainingConfig, TrainingRun
from fwnet.training.learning_images import LearningImages, read_learning_images
from fwnet.training.loop import TrainingResult, train
from fwnet.training.restoration_task import RestorationTask
from fwnet.training.task import ShownFigure

SETTINGS = {"num_epochs": 10, "batch_size": 32, "learning_rate": 4e-3, "clip_norm": 1.0}
CROP_SIZE = 128
NUM_SHOTS = 8  # of every validation image
DOUBT = 0.7  # by how much levels that are too small count more, for the noise of cameras
NAME = "noise"  # of the task, on cards


class NoiseLevelTask(RestorationTask):
    """mean ρ(log(255·σ + ½) − log(255·σ̂ + ½)) over shots with noise of all kinds.

    ρ(d) is |d| for white noise and none. For the noise of cameras, which leaves more doubt, it is
    1.7·d for levels that are too small and 0.3·|d| for those that are too large: noise that stays
    hurts more than detail that goes.

    Arguments are those of `RestorationTask`; the restoration is a `Denoising`.

    >>> import fwnet
    >>> from skimage.data import camera
    >>> images = fwnet.data.ImageSet.of([camera()[:, :, None]], ["camera"])
    >>> restoration = fwnet.restoration.Denoising((0.0, 1.0))
    >>> task = fwnet.training.NoiseLevelTask(restoration, images, crop_size=96)
    >>> config = fwnet.training.TrainingConfig(batch_size=4)
    >>> seen, sigma, camera = task.batch(0, slice(None), config)
    >>> len(seen), sigma.shape
    (4, torch.Size([4]))
    """

    shown = ShownFigure("error of the noise level", "%", lambda error: 100 * error)

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Return shots of crops, their noise levels, and whether it is the noise of a camera."""
        generator = keyed_generator(config.seed, "crops", step)
        crops = self.images.crops(config.batch_size, self.crop_size, generator)
        return tuple(part[rows] for part in self._shots(crops, config.seed, step))

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Return the mean of ρ."""
        seen, sigma, camera = batch
        missing = level_of(sigma) - model(seen).float()
        lean = DOUBT * camera * missing.sign()
        error: Tensor = ((1 + lean) * missing.abs()).mean()
        return error

    def validate(self, model: nn.Module) -> float | None:
        """Return the same for shots of validation images."""
        if self.validation is None:
            return None
        errors = []
        for index in range(len(self.validation)):
            clean = self.validation.middles(2 * CROP_SIZE)[index].repeat(NUM_SHOTS, 1, 1, 1)
            errors.append(self.loss(model, *self._shots(clean, 0, -1 - index)))
        return torch.stack(errors).mean().item()

    def _shots(self, clean: Tensor, seed: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
        shots = take_shots(clean, keyed_generator(seed, "shots", step, device=clean.device))
        return shots.seen, shots.sigma, shots.camera


@dataclass(frozen=True)
class NoiseLevelReport:
    """What was trained.

    Attributes:
        model_path: The model file.
        network: The trained network.
        images: The images it was trained and validated with.
        training: History, seconds, and the epoch whose weights were kept: the last one.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skimage.data import camera
    >>> Path("photos").mkdir()
    >>> Image.fromarray(camera()).save("photos/camera.png")
    >>> report = fwnet.training.train_noise_level(
    ...     fwnet.models.NoiseLevelNet(in_channels=1),
    ...     "photos",
    ...     fwnet.training.TrainingRun("mynet"),
    ...     settings={"num_epochs": 1, "batch_size": 4},
    ...     steps_per_epoch=2,
    ... )
    >>> len(report.training.history)
    1
    """

    model_path: Path
    network: NoiseLevelNet
    images: LearningImages
    training: TrainingResult


def train_noise_level(
    network: NoiseLevelNet,
    data: str | Path | None,
    run: TrainingRun,
    *,
    settings: Mapping[str, Any] | None = None,
    crop_size: int = CROP_SIZE,
    steps_per_epoch: int = 1000,
    validation: int | None = None,
    notes: Mapping[str, Any] | None = None,
) -> NoiseLevelReport:
    """Train a network to tell the effective noise level of photos (`effective_sigma`).

    Arguments are those of `train_restoration`.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from skimage.data import camera
    >>> Path("photos").mkdir()
    >>> Image.fromarray(camera()).save("photos/camera.png")
    >>> report = fwnet.training.train_noise_level(
    ...     fwnet.models.NoiseLevelNet(in_channels=1),
    ...     "photos",
    ...     fwnet.training.TrainingRun("mynet"),
    ...     settings={"num_epochs": 1, "batch_size": 4},
    ...     steps_per_epoch=2,
    ... )
    >>> report.model_path.as_posix()
    'mynet/model.safetensors'
    """
    if run.folder is None:
        raise ConfigError("run.folder must be a folder for the trained network, got None")
    if check_integer("crop_size", crop_size) < LEAST:
        raise ConfigError(f"crop_size must be at least {LEAST}, got {crop_size}")
    color = network.in_channels == 3
    restoration = Denoising((0.0, 1.0), color=color)
    config = TrainingConfig(**{**SETTINGS, **(settings or {})})
    folder, device = Path(run.folder), choose_device(run.device)
    TrainingFolder(folder, {}).check_unasked(resume=run.resume, force=run.force)
    images = read_learning_images(restoration, data, run, crop_size, validation)
    task = NoiseLevelTask(
        restoration,
        images.learn,
        images.held,
        crop_size=crop_size,
        crops_per_epoch=steps_per_epoch * config.batch_size,
    )
    about = {"color": color, "crop_size": crop_size, "steps_per_epoch": steps_per_epoch}
    result = train(
        network,
        task,
        config,
        replace(run, device=device),
        identity=about,
        notes={
            **about,
            "data": images.description,
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
            "task": NAME,
            **(notes or {}),
        },
    )
    return NoiseLevelReport(folder / MODEL, network, images, result)
