"""`fwnet train denoise`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import is_first_process, print_lines, say_once, shown_figures
from fwnet.cli.train_options import training_progress, with_training_options
from fwnet.training.denoiser_recipe import RECIPE, RECIPE_IN_WORDS

if TYPE_CHECKING:
    from fwnet.training import DenoiserReport

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


@with_training_options({**RECIPE, **RECIPE_IN_WORDS})
def train_denoise_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is trained.")],
    settings: dict[str, Any],
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
    channels: Annotated[
        int | None, typer.Option(help="The number of maps in a layer.", show_default="64")
    ] = None,
    color: Annotated[
        bool | None,
        typer.Option("--color/--gray", help="What images are read as.", show_default="gray"),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="The authors' form: the output is W_R z, not the input plus that."
        ),
    ] = False,
    p: Annotated[
        float | None,
        typer.Option("--p", help="Of ConvFWNet: the exponent, or its start.", show_default="1.5"),
    ] = None,
    fixed_p: Annotated[
        bool, typer.Option("--fixed-p", help="Of ConvFWNet: do not learn p.")
    ] = False,
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
    steps_per_epoch: Annotated[int, typer.Option(help="How many batches an epoch has.")] = 1000,
    validation: Annotated[
        int | None,
        typer.Option(
            help="How many images to hold back, to see how good the network is.",
            show_default="12, or a tenth if fewer",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file of training settings; options go before it."),
    ] = None,
    device: Device = "auto",
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How much work a kill may cost.")
    ] = 30.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where a run was stopped, or begin.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew though the folder has an earlier run.")
    ] = False,
) -> None:
    """Learn to remove noise: a network is trained on a folder of clean images."""
    from fwnet.training import TrainingConfig, make_denoiser, train_denoiser, trained_levels
    from fwnet.zoo import load_model

    chosen = chosen_device(device)
    try:
        other: Any = load_model(start) if start else None
        if start and sigma is None and max_sigma is None:
            sigma, max_sigma = trained_levels(start, other)
        levels = _noise_levels(sigma, max_sigma)
        given = {**(TrainingConfig.read_settings(config) if config else {}), **settings}
        seed = TrainingConfig(**given).seed
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
            seed=seed,
        )
        with training_progress() as show:
            report = train_denoiser(
                network,
                data,
                output,
                sigma=levels,
                start=other,
                settings=given,
                crop_size=crop_size,
                steps_per_epoch=steps_per_epoch,
                validation=validation,
                device=chosen,
                resume=resume,
                force=force,
                checkpoint_seconds=checkpoint_seconds,
                notes={"command": shlex.join(["fwnet", *sys.argv[1:]])},
                tell=say_once,
                progress=show,
            )
        if is_first_process():
            _print_denoiser(report, output)
    except (ValueError, OSError) as error:
        say_once(f"Error: {error}")
        raise typer.Exit(2) from error
    except torch.OutOfMemoryError as error:
        say_once("Error: the GPU has too little memory: try a smaller --batch-size.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say_once("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error


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


def _print_denoiser(report: DenoiserReport, output: Path) -> None:
    """Say what came of a training, and draw its history."""
    from fwnet.training import Denoising
    from fwnet.training.picture import draw_history

    result, images = report.training, report.images
    if result.history:
        draw_history(result.history, Denoising.shown).savefig(output / "history.png", dpi=120)
    held = "" if images.held is None else f" and {len(images.held)} to validate"
    lines = [
        f"{report.network.num_parameters:,} parameters, {result.seconds:.1f} s",
        f"{len(images.learn):,} images to learn from{held}",
    ]
    if report.validation_psnr is not None:
        lines.append(
            f"validation PSNR {report.validation_psnr:.2f} dB after epoch {result.best_epoch}; "
            f"the noisy images have {report.noisy_psnr:.2f} dB"
        )
    lines += [f"{name} {shown_figures(value)}" for name, value in report.network.watched().items()]
    lines += [
        f"written to {report.model_path}; use it:",
        f"fwnet denoise IN OUT --model {report.model_path}",
    ]
    print_lines(lines)
