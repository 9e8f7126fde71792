"""Lines on the terminal, and errors that become lines and exit codes."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout unchanged, however long."""
    for line in lines:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(line: str) -> None:
    """Print one line to stderr unchanged, however long."""
    Console(stderr=True).print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say_once(line: str) -> None:
    """Print a line to stderr from the first of several processes."""
    if is_first_process():
        say(line)


def is_first_process() -> bool:
    """Return whether this is the only process, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def reported_errors(
    stopped: Callable[[], str] = lambda: "Stopped.", memory: str = "it"
) -> Iterator[None]:
    """Turn errors of users into a line and exit code 2, and Ctrl-C into exit code 130.

    Args:
        stopped: Returns the line to print after Ctrl-C.
        memory: What to try with less of when a GPU has too little memory.
    """
    import torch

    try:
        yield
    except (ValueError, OSError) as error:
        say_once(f"Error: {error}")
        raise typer.Exit(2) from error
    except torch.OutOfMemoryError as error:
        say_once(f"Error: the GPU has too little memory: try a smaller {memory}.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say_once(stopped())
        raise typer.Exit(130) from error


def progress_bar(*columns: ProgressColumn, shown: bool = True) -> Progress:
    """Return a bar on stderr that disappears at the end; none where stderr is no terminal."""
    console = Console(stderr=True)
    return Progress(
        *columns, console=console, transient=True, disable=not (shown and console.is_terminal)
    )


def rounded(value: object) -> object:
    """Return three digits of a number; anything else unchanged."""
    return f"{value:.3g}" if isinstance(value, float) else value
