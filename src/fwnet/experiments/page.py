"""The page of results: every experiment with its table, picture and sentences, made of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fwnet.experiments.experiment import Result, Row
from fwnet.experiments.synthetic import EPOCHS, LEARNING_RATES, WEIGHT_DECAYS

__all__ = ["results_page"]

HEAD = """# Results

Made of the files in [results/](../results/) by `fwnet reproduce --page docs/results.md`; every
table is measured by the command under its title. "±" is the standard deviation over seeds, which
change data, dictionary and order of samples together (for handwritten digits, which are what they
are, first weights and order). Seconds are those of one training, with several at a time (16 on the
H200). Errors of codes are sums over the entries of a code, means over samples (half of it is
Caffe's loss). Unless a sentence says otherwise, learning rate, weight decay and
number of epochs were chosen for every method and depth from one grid, on a validation split of
data that no figure is measured on; the choices and all validation errors are in the files. For
networks that work on images that is the learning rate alone: all of a table learn for as long, and
[results/README.md](../results/README.md) says how the rest was chosen. "Better" and "worse" are
told by Student's test on the seeds, at 5%. Of images PSNR is the mean over those of BSD68, of Set5
or of Set14; where a network has a single seed, differences below 0.1 dB are not told apart.
"""


def results_page(folder: Path) -> str:
    """The page in Markdown, for the results that there are in a folder."""
    from fwnet.experiments import EXPERIMENTS

    parts = [HEAD]
    for name in EXPERIMENTS:
        path = folder / f"{name}.json"
        if path.exists():
            parts.append(_section(Result.load(path)))
    return "\n".join(parts)


def _section(result: Result) -> str:
    lines = [
        f"## {result.title}",
        "",
        f"`{result.command}`",
        "",
        f"*The paper:* {result.claim}",
        "",
    ]
    if result.choices:
        choice = result.choices[0]
        if "validation_psnr" in choice:
            lines += [_rates(result), ""]
        else:
            lines += [_edges(result) if "learning_rate" in choice else _choices(result), ""]
    lines += ["*Here:*", "", *(f"* {finding}" for finding in result.findings), ""]
    lines += [f"![{result.title}](../results/{result.id}.png)", ""]
    return "\n".join([*lines, *_table(result.rows), ""])


def _edges(result: Result) -> str:
    """How many settings might be better outside the grid."""
    limits = {
        "learning_rate": (min(LEARNING_RATES), max(LEARNING_RATES)),
        "weight_decay": (None, max(WEIGHT_DECAYS)),
        "num_epochs": (None, max(EPOCHS)),
    }
    edges = sum(
        any(choice.get(name) in ends for name, ends in limits.items()) for choice in result.choices
    )
    return (
        f"*Settings:* {len(result.choices)} were chosen; {edges} of them lie at an end of the grid "
        "(smallest or largest learning rate, largest decay, most epochs)."
    )


def _rates(result: Result) -> str:
    """The learning rates, which were doubled or halved as long as that helped."""
    parts = [
        f"{choice['method']} {choice['learning_rate']:g} (of {len(choice['all_validation_psnr'])})"
        for choice in result.choices
    ]
    return f"*Learning rates chosen on images that were held back:* {'; '.join(parts)}."


def _choices(result: Result) -> str:
    """What was chosen, for each method; all that was tried is in the file."""
    parts = []
    for choice in result.choices:
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_value(value)}"
            for name, value in choice.items()
            if name not in ("method", "validation_error", "all_validation_errors")
        )
        tried = len(choice["all_validation_errors"])
        parts.append(
            f"{choice['method']}: {numbers} (best of {tried}, validation error "
            f"{choice['validation_error']:.2f}%)"
        )
    return f"*Settings chosen on validation images:* {'; '.join(parts)}."


def _table(rows: list[Row]) -> list[str]:
    """One line a figure."""
    header = ["", "setting", "the paper", "here", "parameters", "seconds", "hardware"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        spread = "" if row.spread is None else f" ± {_number(row.spread)}"
        cells = [
            row.method if row.quantity == "test error" else f"{row.method} ({row.quantity})",
            ", ".join(f"{key} = {_value(value)}" for key, value in row.setting.items()),
            "" if row.paper is None else f"{row.paper:g}",
            f"{_number(row.ours)}{spread}",
            "" if row.num_parameters is None else f"{row.num_parameters:,}",
            "" if row.seconds is None else f"{row.seconds:.3g}",
            row.hardware or "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.3f}"
