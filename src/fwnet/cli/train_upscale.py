"""`fwnet train upscale`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fwnet.cli.train_images import (
    Channels,
    Exponent,
    FixedExponent,
    HeldImages,
    Plain,
    StepsPerEpoch,
    image_arguments,
    trained_on_images,
)
from fwnet.cli.train_options import Run, Trained, training_command
from fwnet.training import make_upscaler, train_upscaler, trained_scale
from fwnet.training.upscaler_recipe import UPSCALING_RECIPE
from fwnet.zoo import load_model

__all__ = ["NOTES", "train_upscale_command"]

USUAL_SCALE = 3

NOTES = """
[bold]fwnet train upscale --data photos --scale 3 -o mynet[/bold]

[bold]fwnet train upscale --start conv_fwnet_t19.upscale_x3 --scale 4 --data photos -o mynet[/bold]

The second one goes on from a network that comes with fwnet ([bold]fwnet models[/bold]), whose \
form it keeps; without --scale also its scale.

Images should be sharp: they are made smaller, and the network learns to undo that. It learns from \
their light, Y, which is what [bold]fwnet upscale[/bold] gives it. Some images are held back to \
show how good it is after every epoch; the weights of the last one are kept. Without --data it \
learns from the 91 images that most methods learn from (FWNET_DATA/t91) and 199 that Berkeley \
trains with (FWNET_DATA/bsds500, or a download of 70 MB).

By default it sees the small image, and its last layer makes the pixels of the large one: that is \
fast. With --enlarged it sees the image after bicubic interpolation, as in the paper.

mynet/ has model.safetensors for [bold]fwnet upscale IN OUT --model[/bold], history.jsonl, \
history.png, config.toml. A run that was stopped, even killed, goes on with --resume. For a first \
look on a CPU, try --num-layers 4 --batch-size 16 --steps-per-epoch 100.

Learning rates were chosen on held-back Berkeley images after 2,000 steps, --clip-norm with 4 \
layers that see the enlarged image, with VDSR of 5 and with SRCNN. The 19 layers of the package \
learned from larger squares, --crop-size 72, for 40 epochs: on held-back images that is less than \
0.01 dB better than 20. Without smaller copies of the images they were 0.02 dB worse there after \
10; whoever has many images may do without.
"""


@training_command(UPSCALING_RECIPE.shown)
def train_upscale_command(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder of images, with those below it; by default T91 and Berkeley ones."
        ),
    ] = None,
    scale: Annotated[
        int | None,
        typer.Option(
            help="How many times as high and wide images become.",
            show_default="3; with --start what that was trained for",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="ConvFWNet, VDSR or SRCNN.", show_default="ConvFWNet")
    ] = None,
    num_layers: Annotated[
        int | None, typer.Option(help="The number of layers.", show_default="19; VDSR 20")
    ] = None,
    channels: Channels = None,
    enlarged: Annotated[
        bool,
        typer.Option(
            "--enlarged", help="The paper's form: it sees the image enlarged bicubically."
        ),
    ] = False,
    plain: Plain = False,
    p: Exponent = None,
    fixed_p: FixedExponent = False,
    batch_norm: Annotated[
        bool | None, typer.Option(help="Of VDSR: normalize or not.", show_default="no-batch-norm")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Go on from a trained network: one of fwnet models, or a file. It may be one for "
            "another scale.",
        ),
    ] = None,
    crop_size: Annotated[
        int | None,
        typer.Option(
            help="Side of the squares that are learned from, in pixels of the large image: a "
            "multiple of the scale.",
            show_default="48, or the largest one below",
        ),
    ] = None,
    steps_per_epoch: StepsPerEpoch = 1000,
    smaller_copies: Annotated[
        bool,
        typer.Option(
            help="Learn from copies of the images as well, at 0.9 to 0.6 of their sizes. It makes "
            "more of few images, and takes 3.3 times the memory for them."
        ),
    ] = True,
    validation: HeldImages = None,
) -> Trained:
    """Learn to enlarge images: a network is trained on a folder of sharp ones."""
    other: Any = load_model(start) if start else None
    if scale is None:
        scale = trained_scale(start, other) if start else USUAL_SCALE
    network = make_upscaler(
        model,
        scale=scale,
        num_layers=num_layers,
        channels=channels,
        enlarged=enlarged or None,
        plain=plain or None,
        p=p,
        learn_p=False if fixed_p else None,
        batch_norm=batch_norm,
        start=other,
        seed=run.config.seed,
    )
    report = train_upscaler(
        network,
        data,
        run.output,
        scale=scale,
        start=other,
        settings=run.settings,
        crop_size=crop_size,
        steps_per_epoch=steps_per_epoch,
        smaller_copies=smaller_copies,
        validation=validation,
        **image_arguments(),
        **run.arguments,
    )
    return trained_on_images(report, "bicubic enlargement has", "fwnet upscale IN OUT --model {}")
