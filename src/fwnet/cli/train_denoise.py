"""`fwnet train denoise`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fwnet.cli.terminal import say_once
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
from fwnet.training import make_denoiser, train_denoiser, trained_levels
from fwnet.training.denoiser_recipe import DENOISING_RECIPE
from fwnet.zoo import load_model

__all__ = ["NOTES", "train_denoise_command"]

NOTES = """
[bold]fwnet train denoise --data photos --sigma 25 -o mynet[/bold]        for noise of one level

[bold]fwnet train denoise --data photos --max-sigma 55 -o mynet[/bold]    one network for all levels

[bold]fwnet train denoise --start conv_fwnet_t16.denoise_gray_s25 --data photos -o mynet[/bold]

The last one goes on from a network that comes with fwnet ([bold]fwnet models[/bold]), whose form \
and noise level it keeps.

Images should be clean: noise is added to squares of them, anew at every step. Some images are \
held back to show how good the network is after every epoch; the weights of the last one are kept. \
Without --data the network learns from the Berkeley images (FWNET_DATA, or a download of 70 MB), \
outside the 68 that everyone tests on.

The defaults train 4 layers in two minutes on a large GPU, and in a day on a CPU: there, try \
--batch-size 8 --steps-per-epoch 100 first. mynet/ has model.safetensors for [bold]fwnet denoise \
IN OUT --model[/bold], history.jsonl, history.png, config.toml. A run that was stopped, even \
killed, goes on with --resume. Learning rates were chosen on held-back Berkeley images after \
2,000 to 3,000 steps.
"""


@training_command(DENOISING_RECIPE.shown)
def train_denoise_command(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of images, with those below it; by default the Berkeley ones."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise, 0 to 255.",
            show_default="25, or 0 beside --max-sigma; with --start what that was trained for",
        ),
    ] = None,
    max_sigma: Annotated[
        float | None,
        typer.Option(
            help="One network for all levels from --sigma to this; fwnet denoise tells it which."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="ConvFWNet, ConvLISTA or DnCNN.", show_default="ConvFWNet"),
    ] = None,
    num_layers: Annotated[
        int | None, typer.Option(help="The number of layers.", show_default="4; DnCNN 17")
    ] = None,
    channels: Channels = None,
    color: Annotated[
        bool | None,
        typer.Option("--color/--gray", help="What images are read as.", show_default="gray"),
    ] = None,
    plain: Plain = False,
    p: Exponent = None,
    fixed_p: FixedExponent = False,
    batch_norm: Annotated[
        bool | None, typer.Option(help="Of DnCNN: normalize or not.", show_default="batch-norm")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Go on from a trained network: one of fwnet models, or a file. One for gray may "
            "become one for color, one for a level one for all.",
        ),
    ] = None,
    crop_size: Annotated[int, typer.Option(help="Side of the squares that are learned from.")] = 48,
    steps_per_epoch: StepsPerEpoch = 1000,
    validation: HeldImages = None,
) -> Trained:
    """Learn to remove noise: a network is trained on a folder of clean images."""
    other: Any = load_model(start) if start else None
    if start and sigma is None and max_sigma is None:
        sigma, max_sigma = trained_levels(start, other)
    levels = _noise_levels(sigma, max_sigma)
    network = make_denoiser(
        model,
        num_layers=num_layers,
        channels=channels,
        color=color,
        noise_level_input=max_sigma is not None,
        plain=plain or None,
        p=p,
        learn_p=False if fixed_p else None,
        batch_norm=batch_norm,
        start=other,
        seed=run.config.seed,
    )
    report = train_denoiser(
        network,
        data,
        run.output,
        sigma=levels,
        start=other,
        settings=run.settings,
        crop_size=crop_size,
        steps_per_epoch=steps_per_epoch,
        validation=validation,
        **image_arguments(),
        **run.arguments,
    )
    return trained_on_images(report, "the noisy images have", "fwnet denoise IN OUT --model {}")


def _noise_levels(sigma: float | None, max_sigma: float | None) -> float | tuple[float, float]:
    """What to train for, on the scale of [0, 1], from 0 to 255 as everyone writes it."""
    low = sigma if sigma is not None else 25.0 if max_sigma is None else 0.0
    if max_sigma is None and not 0 < low <= 255:
        raise ValueError(f"--sigma must be in (0, 255], got {low:g}")
    if max_sigma is not None and not (0 <= low <= max_sigma <= 255 and max_sigma > 0):
        raise ValueError(
            "--sigma and --max-sigma must satisfy 0 <= sigma <= max-sigma <= 255 and "
            f"max-sigma > 0, got {low:g} and {max_sigma:g}"
        )
    high = low if max_sigma is None else max_sigma
    if high < 1:
        say_once(f"Hint: --sigma is on the scale 0 to 255, where {high:g} is hardly any noise.")
    return low / 255 if max_sigma is None else (low / 255, high / 255)
