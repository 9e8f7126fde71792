"""Training commands, one for each restoration: `fwnet train denoise`, `fwnet train upscale`."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fwnet.cli.command import option_parameters, say
from fwnet.cli.train_options import (
    CPU_NOTES,
    RUN_NOTES,
    TRAIN_LONGER,
    show_training,
    training_command,
)
from fwnet.restoration import Restoration, option
from fwnet.training import (
    RestorationReport,
    RestorationTask,
    TrainingConfig,
    TrainingRun,
    train_restoration,
)
from fwnet.zoo import load_trained

START_HELP = (
    "Start from a trained network (name from fwnet models, or file). Options under Network are "
    "taken from it; those that you give must agree with it."
)
ARGUMENTS = {"plain": "residual", "fixed_p": "learn_p"}  # of networks, where names differ
NOTES = f"""
After every epoch the network is validated on images that are held out. This does not choose the \
weights: those after the last epoch are saved, averaged unless --average is 0. mynet/ contains \
model.safetensors (for [bold]fwnet TASK --model[/bold]), {RUN_NOTES}

[bold]accelerate launch -m fwnet train TASK --data photos -o mynet[/bold]
{CPU_NOTES}"""


@dataclass(frozen=True)
class ImageOptions:
    """Options of every training on images."""

    data: Path | None = option(None, "Folder of images to learn from; subfolders are included.")
    start: str | None = option(None, START_HELP, metavar="NAME|FILE")
    crop_size: int | None = option(
        None, "Side of the crops of images to learn from, in pixels.", shown="48"
    )
    steps_per_epoch: int = option(1000, "Batches per epoch.")
    validation: int | None = option(
        None,
        "Number of images to hold out for validation.",
        shown="12, but at most 10% of the images",
    )


@dataclass(frozen=True)
class NetworkOptions:
    """Options of the network to train."""

    model: str | None = option(None, "Kind of network.")
    num_layers: int | None = option(None, "Number of layers.")
    channels: int | None = option(None, "Number of feature channels per layer.", shown="64")
    reduction: int | None = option(
        None,
        "Work at 1/N of the height and width: each square of N × N pixels becomes one pixel with "
        "N² values. With 2, the network computes about a quarter as much.",
        shown="1",
        metavar="N",
    )
    plain: bool = option(
        False,
        "Predict the image itself, as the program of the Frank-Wolfe Network's authors does. By "
        "default, the output is added to BASELINE.",
        flags=("--plain",),
    )
    p: float | None = option(
        None,
        "Initial p, or the fixed p with --fixed-p.",
        shown="1.5",
        flags=("--p",),
    )
    fixed_p: bool = option(False, "Do not learn p.", flags=("--fixed-p",))
    radius: float | None = option(
        None, "Radius of the ball, or its initial value.", shown="1; 2 with --reduction 2"
    )
    learn_radius: bool | None = option(
        None,
        "Learn a radius for every layer.",
        shown="only with --reduction 2",
    )
    batch_norm: bool | None = option(None, "Batch normalization.")


def training_command_for(kind: type[Restoration]) -> Callable[..., None]:
    """Return the command that trains a network for a restoration."""
    names, shown = list(kind.recipe.networks), kind.recipe.shown
    helps: dict[str, str] = {}
    for field in fields(NetworkOptions):
        helps[field.name] = text = field.metadata["help"].replace("BASELINE", kind.baseline_name)
        some = kind.recipe.networks_with(ARGUMENTS.get(field.name, field.name))
        if some and some != names:
            helps[field.name] = f"{', '.join(some)}: {text[0].lower()}{text[1:]}"
    helps["model"] = f"Kind of network: {' or '.join(', '.join(names).rsplit(', ', 1))}."
    network = option_parameters(NetworkOptions, shown, helps, panel="Network")
    own = option_parameters(kind.train_options, panel=kind.name.capitalize())
    data, start = {"data": kind.data_shown}, {"start": START_HELP + kind.start_help}
    images = option_parameters(ImageOptions, data, start)
    parameters = {"data": images["data"]} | own | network | images

    def command(run: TrainingRun, settings: dict[str, Any], **options: Any) -> None:
        chosen = {name: options.pop(name) for name in network}
        learned = {name: options.pop(name) for name in own}
        for hint in kind.hints(**learned):
            say(f"Hint: {hint}")
        start = options.pop("start")
        trained = load_trained(start) if start else None
        data = kind.data_from_options(options.pop("data"), **learned)
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
            data,
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
    kind = "pair" if restoration.pairs else "image"
    lines = [f"{count:,} {kind}{'s' * (count != 1)} to learn from{held}"]
    if report.validation_psnr is not None:
        lines.append(
            f"validation PSNR {report.validation_psnr:.2f} dB after epoch "
            f"{report.training.best_epoch}; {restoration.baseline_words} "
            f"{report.baseline_psnr:.2f} dB"
        )
        if report.baseline_psnr is not None and report.validation_psnr < report.baseline_psnr:
            say(f"Warning: the network makes images worse. {TRAIN_LONGER}")
    use = f"use it:\nfwnet {restoration.name} IN OUT --model {{}}"
    show_training(report, RestorationTask.shown, lines, use)
