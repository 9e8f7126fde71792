"""`fwnet train coder`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import argument_parameter, option_parameters
from fwnet.cli.train_options import show_training, training_command
from fwnet.restoration import option
from fwnet.training import CodeRegression, TrainingConfig, TrainingRun

NOTES = """
[bold]fwnet train coder signals.npy codes.npy -o mynet[/bold]

A tenth of the rows is held out, and the weights of the epoch with the smallest error on them are \
kept. mynet/ contains model.safetensors for [bold]fwnet encode --model[/bold], history.jsonl, \
history.png and config.toml. A run that was stopped, even killed, continues with --resume and \
ends with the same weights.

On several processes or machines, with pip install 'fwnet\\[train]':

[bold]accelerate launch -m fwnet train coder signals.npy codes.npy -o mynet[/bold]

(two processes on a CPU: accelerate launch --multi_gpu --num_processes 2 -m fwnet … --device cpu)
"""


@dataclass(frozen=True)
class CoderOptions:
    """Options of `fwnet train coder`."""

    model: str = option("FWNet", "Class of the network: FWNet, MLP, LISTA or LCoD.")
    num_layers: int = option(6, "Number of layers.")
    dictionary: Path | None = option(
        None,
        "A .npy file of shape (n, m), one atom per column, to start from.",
        shown="fitted to signals and codes",
        flags=("--dictionary", "-d"),
    )
    p: float = option(2.0, "FWNet: initial p, or the fixed p with --fixed-p.", flags=("--p",))
    fixed_p: bool = option(False, "FWNet: do not learn p.", flags=("--fixed-p",))
    radius: float | None = option(
        None, "FWNet: fixed radius.", shown="learned, starting from the largest norm of a code"
    )
    share_weights: bool | None = option(
        None,
        "One matrix for all layers, or one per layer.",
        shown="separate; shared for LCoD",
        flags=("--share-weights/--separate-weights",),
    )
    validation: float = option(
        0.1,
        "Fraction of the rows to hold out for validation. With 0, the weights of the last epoch "
        "are kept.",
    )


SIGNALS = argument_parameter("signals", Path, "A .npy file, one signal x per row.")
CODES = argument_parameter("codes", Path, "A .npy file, the code z of each signal.")


@training_command({"clip_norm": "no clipping"}, SIGNALS | CODES | option_parameters(CoderOptions))
def train_coder_command(
    run: TrainingRun,
    settings: dict[str, Any],
    signals: Path,
    codes: Path,
    fixed_p: bool,
    **options: Any,
) -> None:
    """Train a network to encode signals, from signals and their codes."""
    from fwnet.coding import train_coder

    config = TrainingConfig(**settings)
    report = train_coder(signals, codes, run, config=config, learn_p=not fixed_p, **options)
    lines = []
    if report.validation_error is not None:
        lines.append(
            f"validation error {report.validation_error:.4g} after epoch "
            f"{report.training.best_epoch}; codes of zeros have {report.zero_error:.4g}"
        )
    use = "code with it:\nfwnet encode DATA.npy --model {} -o CODES.npy"
    show_training(report, CodeRegression.shown, lines, use)
