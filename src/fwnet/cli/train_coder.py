"""`fwnet train coder`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import is_first_process, print_lines, say, shown_figures
from fwnet.cli.train_options import training_progress, with_training_options

if TYPE_CHECKING:
    from fwnet.coding import CoderReport

__all__ = ["NOTES", "train_coder_command"]

NOTES = """
[bold]fwnet train coder signals.npy codes.npy -o mynet[/bold]

A tenth of the rows is held back and the weights of the best epoch are kept. mynet/ has \
model.safetensors for [bold]fwnet encode --model[/bold], history.jsonl, history.png, config.toml. \
A run that was stopped, even killed, goes on with --resume and ends with the same weights.

On several processes or machines, with pip install 'fwnet\\[train]':

[bold]accelerate launch -m fwnet train coder signals.npy codes.npy -o mynet[/bold]

(two processes on a CPU: accelerate launch --multi_gpu --num_processes 2 -m fwnet … --device cpu)
"""


@with_training_options({})
def train_coder_command(
    signals: Annotated[Path, typer.Argument(help="An .npy, one signal x a row.")],
    codes: Annotated[Path, typer.Argument(help="An .npy, the code z of each signal.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is trained.")],
    settings: dict[str, Any],
    model: Annotated[str, typer.Option(help="FWNet, MLP, LISTA or LCoD.")] = "FWNet",
    num_layers: Annotated[int, typer.Option(help="T, the number of layers.")] = 6,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="An .npy of shape (n, m), one atom a column, to start from; by default the one "
            "that rebuilds the signals from the codes best.",
        ),
    ] = None,
    p: Annotated[float, typer.Option("--p", help="Of FWNet: the exponent, or its start.")] = 2.0,
    fixed_p: Annotated[bool, typer.Option("--fixed-p", help="Of FWNet: do not learn p.")] = False,
    radius: Annotated[
        float | None,
        typer.Option(help="Of FWNet: the radius; by default learned from the largest norm on."),
    ] = None,
    share_weights: Annotated[
        bool | None,
        typer.Option(
            "--share-weights/--separate-weights",
            help="One matrix for all layers, or one each. By default separate; shared for LCoD.",
        ),
    ] = None,
    validation: Annotated[
        float, typer.Option(help="Part of the rows to hold back; 0 keeps the last epoch.")
    ] = 0.1,
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
    """Learn to code: a network is trained on signals and the codes that you have for them."""
    from fwnet.coding import train_coder
    from fwnet.training import TrainingConfig

    chosen = chosen_device(device)
    try:
        read = TrainingConfig.read(config, **settings) if config else TrainingConfig(**settings)
        with training_progress() as show:
            report = train_coder(
                signals,
                codes,
                output,
                config=read,
                model=model,
                num_layers=num_layers,
                dictionary=dictionary,
                p=p,
                learn_p=not fixed_p,
                radius=radius,
                share_weights=share_weights,
                validation=validation,
                device=chosen,
                resume=resume,
                force=force,
                checkpoint_seconds=checkpoint_seconds,
                progress=show,
            )
        if is_first_process():
            _print_coder(report, output)
    except (ValueError, OSError) as error:
        if is_first_process():
            say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error


def _print_coder(report: CoderReport, output: Path) -> None:
    """Say what came of a training, and draw its history."""
    from fwnet.training import CodeRegression
    from fwnet.training.picture import draw_history

    result = report.training
    if result.history:  # a file of the run that someone removed
        draw_history(result.history, CodeRegression.shown).savefig(output / "history.png", dpi=120)
    lines = [f"{report.network.num_parameters:,} parameters, {result.seconds:.1f} s"]
    if report.validation_error is not None:
        lines.append(
            f"validation error {report.validation_error:.4g} after epoch {result.best_epoch}; "
            f"codes of zeros have {report.zero_error:.4g}"
        )
    lines += [f"{name} {shown_figures(value)}" for name, value in report.network.watched().items()]
    lines += [
        f"written to {report.model_path}; code with it:",
        f"fwnet encode DATA.npy --model {report.model_path} -o CODES.npy",
    ]
    print_lines(lines)
