"""What all commands speak with: lines and bars."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console
from rich.progress import Progress, ProgressColumn

__all__ = [
    "is_first_process",
    "print_lines",
    "progress_bar",
    "rounded",
    "say",
    "say_once",
    "shown_figures",
]


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, however long, as they are."""
    for line in lines:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(line: str) -> None:
    """One line on stderr, however long."""
    Console(stderr=True).print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say_once(line: str) -> None:
    """Say a line, in the first of several processes."""
    if is_first_process():
        say(line)


def is_first_process() -> bool:
    """Whether this is the one process, or the first of several, which speaks for all."""
    return os.environ.get("RANK", "0") == "0"


def progress_bar(*columns: ProgressColumn, shown: bool = True) -> Progress:
    """A bar on stderr that goes when it is done; none where no one looks."""
    console = Console(stderr=True)
    return Progress(
        *columns, console=console, transient=True, disable=not (shown and console.is_terminal)
    )


def shown_figures(value: float | str | list[float]) -> str:
    """A number, words about one, or a few of a list."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else f"{value:.4g}"
    few = [f"{part:.2f}" for part in value]
    return " ".join(few if len(few) <= 8 else [*few[:3], "…", *few[-2:]])


def rounded(value: object) -> object:
    """Three digits of a number; anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else value
