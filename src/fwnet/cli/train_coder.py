"""`fwnet train coder`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fwnet.cli.train_options import Trained, training_command
from fwnet.training import CodeRegression, TrainingConfig, TrainingRun

NOTES = """
[bold]fwnet train coder signals.npy codes.npy -o mynet[/bold]

A tenth of the rows is held back, and the weights of the epoch with the smallest error on them are \
kept. mynet/ contains model.safetensors for [bold]fwnet encode --model[/bold], history.jsonl, \
history.png and config.toml. A run that was stopped, even killed, continues with --resume and \
ends with the same weights.

On several processes or machines, with pip install 'fwnet\\[train]':

[bold]accelerate launch -m fwnet train coder signals.npy codes.npy -o mynet[/bold]

(two processes on a CPU: accelerate launch --multi_gpu --num_processes 2 -m fwnet … --device cpu)
"""


@training_command({})
def train_coder_command(
    signals: Annotated[Path, typer.Argument(help="A .npy file, one signal x per row.")],
    codes: Annotated[Path, typer.Argument(help="A .npy file, the code z of each signal.")],
    run: TrainingRun,
    settings: dict[str, Any],
    model: Annotated[str, typer.Option(help="FWNet, MLP, LISTA or LCoD.")] = "FWNet",
    num_layers: Annotated[int, typer.Option(help="Number of layers.")] = 6,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="A .npy file of shape (n, m), one atom per column, to start from. Default: the "
            "dictionary that rebuilds the signals from the codes best.",
        ),
    ] = None,
    p: Annotated[
        float, typer.Option("--p", help="For FWNet: the exponent, or the start of a learned one.")
    ] = 2.0,
    fixed_p: Annotated[bool, typer.Option("--fixed-p", help="For FWNet: do not learn p.")] = False,
    radius: Annotated[
        float | None,
        typer.Option(
            help="For FWNet: the radius. Default: learned, starting from the largest norm of a "
            "code."
        ),
    ] = None,
    share_weights: Annotated[
        bool | None,
        typer.Option(
            "--share-weights/--separate-weights",
            help="One matrix for all layers, or one per layer. Default: shared for LCoD only.",
        ),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(help="Fraction of the rows to hold back; 0 keeps the last epoch."),
    ] = 0.1,
) -> Trained:
    """Train a network to code signals, from signals and their codes."""
    from fwnet.coding import train_coder

    report = train_coder(
        signals,
        codes,
        run,
        config=TrainingConfig(**settings),
        model=model,
        num_layers=num_layers,
        dictionary=dictionary,
        p=p,
        learn_p=not fixed_p,
        radius=radius,
        share_weights=share_weights,
        validation=validation,
    )
    lines = []
    if report.validation_error is not None:
        lines.append(
            f"validation error {report.validation_error:.4g} after epoch "
            f"{report.training.best_epoch}; codes of zeros have {report.zero_error:.4g}"
        )
    use = ("code with it:", "fwnet encode DATA.npy --model {} -o CODES.npy")
    return Trained(report, CodeRegression.shown, lines, use)
