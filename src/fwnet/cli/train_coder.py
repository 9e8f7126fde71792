"""`fwnet train coder`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fwnet.cli.train_options import Trained, training_command
from fwnet.training import CodeRegression, TrainingConfig, TrainingRun

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


@training_command({})
def train_coder_command(
    signals: Annotated[Path, typer.Argument(help="An .npy, one signal x a row.")],
    codes: Annotated[Path, typer.Argument(help="An .npy, the code z of each signal.")],
    run: TrainingRun,
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
) -> Trained:
    """Learn to code: a network is trained on signals and the codes that you have for them."""
    from fwnet.coding import train_coder

    report = train_coder(
        signals,
        codes,
        run.folder or "",
        config=TrainingConfig(**settings),
        model=model,
        num_layers=num_layers,
        dictionary=dictionary,
        p=p,
        learn_p=not fixed_p,
        radius=radius,
        share_weights=share_weights,
        validation=validation,
        device=run.device,
        resume=run.resume,
        force=run.force,
        checkpoint_seconds=run.checkpoint_seconds,
        progress=run.progress,
    )
    lines = []
    if report.validation_error is not None:
        lines.append(
            f"validation error {report.validation_error:.4g} after epoch "
            f"{report.training.best_epoch}; codes of zeros have {report.zero_error:.4g}"
        )
    use = ("code with it:", "fwnet encode DATA.npy --model {} -o CODES.npy")
    return Trained(report, CodeRegression.shown, lines, use)
