"""Training commands, one for each restoration: `fwnet train denoise`, `fwnet train upscale`."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import option_parameters, say
from fwnet.cli.train_options import Trained, training_command
from fwnet.restoration import Restoration, option
from fwnet.training import (
    RestorationReport,
    RestorationTask,
    TrainingConfig,
    TrainingRun,
    train_restoration,
)
from fwnet.zoo import load_trained

NOTES = """
Some images are held back to validate the network after every epoch; the weights of the last epoch \
are kept. The output folder has model.safetensors for the option --model, history.jsonl, \
history.png and config.toml. A stopped or killed run continues with --resume.
"""


@dataclass(frozen=True)
class ImageOptions:
    """Options of every training on images."""

    data: Path | None = option(
        None, "Folder of images; subfolders are included.", shown="public data sets"
    )
    start: str | None = option(
        None,
        "A trained network to start from: a name from fwnet models, or a file. It may be for "
        "another scale, for gray instead of color, or for one noise level instead of all.",
        metavar="NAME|FILE",
    )
    crop_size: int | None = option(
        None, "Side of the crops to learn from, in pixels of the clean image.", shown="48"
    )
    steps_per_epoch: int = option(1000, "Batches per epoch.")
    validation: int | None = option(
        None,
        "Images to hold back for validation.",
        shown="12, or a tenth if that is fewer",
    )


@dataclass(frozen=True)
class NetworkOptions:
    """Options of the network to train."""

    model: str | None = option(None, "Class of the network.")
    num_layers: int | None = option(None, "Number of layers.")
    channels: int | None = option(None, "Number of maps per layer.", shown="64")
    plain: bool = option(
        False,
        "The authors' form: the network predicts the image, not the difference from its input.",
        flags=("--plain",),
    )
    p: float | None = option(
        None, "ConvFWNet: the exponent, or its initial value.", shown="1.5", flags=("--p",)
    )
    fixed_p: bool = option(False, "ConvFWNet: do not learn p.", flags=("--fixed-p",))
    batch_norm: bool | None = option(
        None, "DnCNN, VDSR: batch normalization.", shown="on for DnCNN, off for VDSR"
    )


def training_command_for(kind: type[Restoration]) -> Callable[..., None]:
    """Return the command that trains a network for a restoration."""
    shown = kind.recipe.shown
    network = option_parameters(NetworkOptions, shown, panel="Network")
    own = option_parameters(kind.train_options, panel=kind.name.capitalize())
    images = option_parameters(ImageOptions)
    parameters = {"data": images["data"]} | own | network | images

    def command(run: TrainingRun, settings: dict[str, Any], **options: Any) -> Trained:
        chosen = {name: options.pop(name) for name in network}
        learned = {name: options.pop(name) for name in own}
        for hint in kind.hints(**learned):
            say(f"Hint: {hint}")
        start = options.pop("start")
        trained = load_trained(start) if start else None
        restoration = kind.from_options(trained, chosen["model"], **learned)
        begun: Any = None if trained is None else trained.model
        made = restoration.make_network(
            chosen["model"],
            start=begun,
            seed=TrainingConfig(**settings).seed,
            num_layers=chosen["num_layers"],
            channels=chosen["channels"],
            plain=chosen["plain"] or None,
            p=chosen["p"],
            learn_p=False if chosen["fixed_p"] else None,
            batch_norm=chosen["batch_norm"],
        )
        report = train_restoration(
            restoration,
            made,
            options.pop("data"),
            run,
            start=begun,
            settings=settings,
            notes={"command": shlex.join(["fwnet", *sys.argv[1:]])},
            **options,
        )
        return _trained(report, restoration)

    command.__name__, command.__doc__ = f"train_{kind.name}", kind.train_help
    return training_command(shown, parameters)(command)


def _trained(report: RestorationReport, restoration: Restoration) -> Trained:
    images = report.images
    held = "" if images.held is None else f" and {len(images.held)} to validate"
    lines = [f"{len(images.learn):,} images to learn from{held}"]
    if report.validation_psnr is not None:
        lines.append(
            f"validation PSNR {report.validation_psnr:.2f} dB after epoch "
            f"{report.training.best_epoch}; {restoration.baseline_words} "
            f"{report.baseline_psnr:.2f} dB"
        )
    use = f"fwnet {restoration.name} IN OUT --model {{}}"
    return Trained(report, RestorationTask.shown, lines, ("use it:", use))
