"""Training commands, one for each restoration: `fwnet train denoise`, `fwnet train upscale`."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import option_parameters, say
from fwnet.cli.train_options import show_training, training_command
from fwnet.restoration import Restoration, option
from fwnet.training import (
    RestorationReport,
    RestorationTask,
    TrainingConfig,
    TrainingRun,
    train_restoration,
)
from fwnet.zoo import load_trained

BATCH_NORM = {"DnCNN": "on", "VDSR": "off"}  # by default
START_HELP = "Start from a trained network (name from fwnet models, or file). "
NOTES = """
Some images are held back to validate the network after every epoch. The averaged weights after \
the last epoch are saved. The output folder contains model.safetensors (for --model), \
history.jsonl, history.png and config.toml. A stopped or killed run continues with --resume.
"""


@dataclass(frozen=True)
class ImageOptions:
    """Options of every training on images."""

    data: Path | None = option(
        None, "Folder of images; subfolders are included.", shown="public data sets"
    )
    start: str | None = option(None, START_HELP, metavar="NAME|FILE")
    crop_size: int | None = option(
        None, "Side of the crops to learn from, in pixels of the clean image.", shown="48"
    )
    steps_per_epoch: int = option(1000, "Batches per epoch.")
    validation: int | None = option(
        None, "Images to hold back for validation.", shown="12, or 10% of the images, if fewer"
    )


@dataclass(frozen=True)
class NetworkOptions:
    """Options of the network to train."""

    model: str | None = option(None, "Class of the network.")
    num_layers: int | None = option(None, "Number of layers.")
    channels: int | None = option(None, "Number of feature channels per layer.", shown="64")
    reduction: int | None = option(
        None,
        "Work at 1/N of the height and width, on N² planes: 2 is four times as fast.",
        shown="1",
        metavar="N",
    )
    plain: bool = option(
        False,
        "As in the authors' code: predict the image, not its difference from the input.",
        flags=("--plain",),
    )
    p: float | None = option(
        None,
        "ConvFWNet: initial p, or the fixed p with --fixed-p.",
        shown="1.5",
        flags=("--p",),
    )
    fixed_p: bool = option(False, "ConvFWNet: do not learn p.", flags=("--fixed-p",))
    batch_norm: bool | None = option(None, "Batch normalization.")


def training_command_for(kind: type[Restoration]) -> Callable[..., None]:
    """Return the command that trains a network for a restoration."""
    names = list(kind.recipe.networks)
    shown = kind.recipe.shown | {"model": names[0]}
    helps = {"model": f"Network: {' or '.join(', '.join(names).rsplit(', ', 1))}."}
    for name in BATCH_NORM.keys() & names:
        helps["batch_norm"], shown["batch_norm"] = f"{name}: batch normalization.", BATCH_NORM[name]
    network = option_parameters(NetworkOptions, shown, helps, panel="Network")
    own = option_parameters(kind.train_options, panel=kind.name.capitalize())
    images = option_parameters(ImageOptions, helps={"start": START_HELP + kind.start_help})
    parameters = {"data": images["data"]} | own | network | images

    def command(run: TrainingRun, settings: dict[str, Any], **options: Any) -> None:
        chosen = {name: options.pop(name) for name in network}
        learned = {name: options.pop(name) for name in own}
        for hint in kind.hints(**learned):
            say(f"Hint: {hint}")
        start = options.pop("start")
        trained = load_trained(start) if start else None
        restoration = kind.from_options(trained, chosen["model"], **learned)
        begun: Any = None if trained is None else trained.model
        made = restoration.make_network(
            chosen.pop("model"),
            start=begun,
            seed=TrainingConfig(**settings).seed,
            plain=chosen.pop("plain") or None,
            learn_p=False if chosen.pop("fixed_p") else None,
            **chosen,
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
        _show(report, restoration)

    command.__name__, command.__doc__ = f"train_{kind.name}", kind.train_help
    return training_command(shown, parameters)(command)


def _show(report: RestorationReport, restoration: Restoration) -> None:
    images = report.images
    held = "" if images.held is None else f" and {len(images.held)} to validate"
    count = len(images.learn)
    lines = [f"{count:,} image{'s' * (count != 1)} to learn from{held}"]
    if report.validation_psnr is not None:
        lines.append(
            f"validation PSNR {report.validation_psnr:.2f} dB after epoch "
            f"{report.training.best_epoch}; {restoration.baseline_words} "
            f"{report.baseline_psnr:.2f} dB"
        )
    use = f"use it:\nfwnet {restoration.name} IN OUT --model {{}}"
    show_training(report, RestorationTask.shown, lines, use)
