"""What trainings on images share: options, and lines about what came of them."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwnet.cli.terminal import say_once
from fwnet.cli.train_options import Trained
from fwnet.training.image_task import ImageTask

if TYPE_CHECKING:
    from fwnet.training import ImageReport

__all__ = [
    "Channels",
    "Exponent",
    "FixedExponent",
    "HeldImages",
    "Plain",
    "StepsPerEpoch",
    "image_arguments",
    "trained_on_images",
]

Channels = Annotated[
    int | None, typer.Option(help="The number of maps in a layer.", show_default="64")
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain", help="The authors' form: the output is W_R z, not the input plus that."
    ),
]
Exponent = Annotated[
    float | None,
    typer.Option("--p", help="Of ConvFWNet: the exponent, or its start.", show_default="1.5"),
]
FixedExponent = Annotated[bool, typer.Option("--fixed-p", help="Of ConvFWNet: do not learn p.")]
StepsPerEpoch = Annotated[int, typer.Option(help="How many batches an epoch has.")]
HeldImages = Annotated[
    int | None,
    typer.Option(
        help="How many images to hold back, to see how good the network is.",
        show_default="12, or a tenth if fewer",
    ),
]


def image_arguments() -> dict[str, Any]:
    """What functions that train on images take beside the arguments of all: notes, and a voice."""
    return {"notes": {"command": shlex.join(["fwnet", *sys.argv[1:]])}, "tell": say_once}


def trained_on_images(report: ImageReport, without: str, command: str) -> Trained:
    """What to say of such a training.

    Args:
        report: What came of it.
        without: What has the PSNR that there is without the network, with a verb.
        command: That makes use of the network, with {} for its file.
    """
    images = report.images
    held = "" if images.held is None else f" and {len(images.held)} to validate"
    lines = [f"{len(images.learn):,} images to learn from{held}"]
    if report.validation_psnr is not None:
        lines.append(
            f"validation PSNR {report.validation_psnr:.2f} dB after epoch "
            f"{report.training.best_epoch}; {without} {report.input_psnr:.2f} dB"
        )
    return Trained(report, ImageTask.shown, lines, ("use it:", command))
