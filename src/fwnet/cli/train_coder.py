"""`fwnet train coder`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import argument_parameter, option_parameters, say
from fwnet.cli.train_options import (
    CPU_NOTES,
    RUN_NOTES,
    TRAIN_LONGER,
    show_training,
    training_command,
)
from fwnet.coding.train_coder import SETTINGS
from fwnet.restoration import option
from fwnet.training import CodeRegression, TrainingConfig, TrainingRun

NOTES = f"""
[bold]fwnet train coder signals.npy codes.npy -o mynet[/bold]

A tenth of the rows is held out, and the weights of the epoch with the smallest error on them are \
kept. FWNet learns one p for all layers, which is printed at the end, unless the codes are sparse. \
mynet/ contains \
model.safetensors (for [bold]fwnet encode --model[/bold]), {RUN_NOTES}

[bold]accelerate launch -m fwnet train coder signals.npy codes.npy -o mynet[/bold]
{CPU_NOTES}"""
NOTHING_LEARNED = 0.9  # of the error of zeros


@dataclass(frozen=True)
class CoderOptions:
    """Options of `fwnet train coder`."""

    model: str = option(
        "FWNet",
        "Kind of network: FWNet (Frank-Wolfe Network), LISTA (learned ISTA), LCoD (learned "
        "coordinate descent) or MLP (multilayer perceptron).",
    )
    num_layers: int = option(6, "Number of layers.")
    dictionary: Path | None = option(
        None,
        "A .npy file to start from, of shape (length of a signal, length of a code): one atom per "
        "column.",
        shown="fitted to signals and codes",
        flags=("--dictionary", "-d"),
    )
    p: float = option(2.0, "FWNet: initial p, or the fixed p with --fixed-p.", flags=("--p",))
    fixed_p: bool = option(False, "FWNet: do not learn p.", flags=("--fixed-p",))
    radius: float | None = option(
        None,
        "FWNet: keep the radius fixed at this value.",
        shown="each layer learns one, starting from the largest Lp norm of a code for the "
        "initial p",
    )
    sparse: bool | None = option(
        None,
        "FWNet: layers for sparse codes, which have no p, or layers that learn p. Try both: on "
        "codes of random dictionaries the first are much better, on those of digits the second.",
        shown="sparse if most entries of the codes are 0, unless p is fixed",
        flags=("--sparse/--dense",),
    )
    share_weights: bool | None = option(
        None,
        "One matrix for all layers, or one per layer. For FWNet, either means the paper's form, "
        "with one learned step size per layer.",
        shown="FWNet: a step size for every signal, by line search; LCoD: shared; others: separate",
        flags=("--share-weights/--separate-weights",),
    )
    validation: float = option(
        0.1,
        "Fraction of the rows to hold out for validation. With 0, the weights of the last epoch "
        "are kept.",
    )


SIGNALS = argument_parameter("signals", Path, "A .npy file, one signal x per row.")
CODES = argument_parameter(
    "codes",
    Path,
    "A .npy file, one code z per row, in the order of the signals; for example from fwnet encode. "
    "Codes of the network are near those, but need not be on a --set.",
)


@training_command(
    {"clip_norm": "no clipping", **SETTINGS}, SIGNALS | CODES | option_parameters(CoderOptions)
)
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

    config = TrainingConfig(**{**SETTINGS, **settings})
    report = train_coder(signals, codes, run, config=config, learn_p=not fixed_p, **options)
    lines = []
    if report.validation_error is not None:
        lines.append(
            f"validation error {report.validation_error:.4g} after epoch "
            f"{report.training.best_epoch} (mean of ‖z − ẑ‖²); zeros in place of codes would have "
            f"{report.zero_error:.4g}"
        )
        if report.validation_error > NOTHING_LEARNED * report.zero_error:
            say(f"Warning: the codes are hardly better than zeros. {TRAIN_LONGER}")
    use = "code with it:\nfwnet encode DATA.npy --model {} -o CODES.npy"
    show_training(report, CodeRegression.shown, lines, use)
