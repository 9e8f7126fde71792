"""`fwnet train noise`."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import option_parameters
from fwnet.cli.train_options import RUN_NOTES, show_training, training_command
from fwnet.data import keyed_generator
from fwnet.models import NoiseLevelNet
from fwnet.restoration import option
from fwnet.training import NoiseLevelTask, TrainingConfig, TrainingRun, train_noise_level
from fwnet.training.noise_level import CROP_SIZE, SETTINGS

NOTES = f"""
[bold]fwnet train noise --data photos -o mynet[/bold]

Images of --data should be clean. Noise of many kinds is added to crops of them: white noise, \
smooth noise, and that of a sensor, with or without JPEG compression. By default the network \
learns from the Berkeley images (docs/data.md). fwnet.imaging.noise_level(pixels, model=...) uses \
it. mynet/ contains model.safetensors, {RUN_NOTES}

[bold]accelerate launch -m fwnet train noise --data photos -o mynet[/bold]
"""


@dataclass(frozen=True)
class NoiseOptions:
    """Options of `fwnet train noise`."""

    data: Path | None = option(
        None,
        "Folder of images to learn from; subfolders are included.",
        shown="the Berkeley images",
    )
    color: bool = option(True, "Train for color (RGB) or gray images.", flags=("--color/--gray",))
    filters: int = option(16, "Number of filters per scale.")
    channels: int = option(64, "Number of features.")
    crop_size: int = option(CROP_SIZE, "Side of the crops of images to learn from, in pixels.")
    steps_per_epoch: int = option(1000, "Batches per epoch.")
    validation: int | None = option(
        None,
        "Number of images to hold out for validation.",
        shown="12, but at most 10% of the images",
    )


@training_command(SETTINGS, option_parameters(NoiseOptions))
def train_noise(
    run: TrainingRun,
    settings: dict[str, Any],
    data: Path | None,
    color: bool,
    filters: int,
    channels: int,
    **options: Any,
) -> None:
    """Train the network that estimates how much noise a photo has."""
    generator = keyed_generator(TrainingConfig(**settings).seed, "weights")
    network = NoiseLevelNet(3 if color else 1, filters, channels, generator=generator)
    report = train_noise_level(
        network,
        data,
        run,
        settings=settings,
        notes={"command": shlex.join(["fwnet", *sys.argv[1:]])},
        **options,
    )
    lines = []
    if (figure := report.training.last.get("validation")) is not None:
        lines.append(f"mean error of the noise level {NoiseLevelTask.shown.text(figure)}")
    use = "use it in Python:\nfwnet.imaging.noise_level(pixels, model='{}')"
    show_training(report, NoiseLevelTask.shown, lines, use)
