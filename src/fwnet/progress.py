"""How long work reports where it stands, and the one bar that shows it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units of a stage are finished.

    Attributes:
        stage: What is being done: "reading images", "epoch 3 of 10", "photo.jpg (2 of 5)".
        done: Units that are finished.
        total: All of them.
        unit: What is counted, such as "rows"; empty where the number means nothing to a reader.
        figures: Numbers to show beside the bar: loss, validation, p.
    """

    stage: str
    done: int
    total: int
    unit: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


ProgressCallback = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report to no one: the default."""


@contextmanager
def progress_bar(*, shown: bool = True) -> Iterator[ProgressCallback]:
    """Yield a callback that draws a bar on stderr, and nothing where stderr is no terminal.

    The bar disappears whenever a stage is done, so that lines printed between stages stay readable.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(),
    )
    bar = Bar(*columns, console=console, transient=True, redirect_stdout=False)
    task = bar.add_task("", total=1, words="")
    known: tuple[str, int] | None = None

    def show(progress: Progress) -> None:
        nonlocal known
        if not (shown and console.is_terminal):
            return
        kind = (progress.unit, progress.total)
        if kind != known:  # other work has a speed of its own
            known = kind
            bar.reset(task, total=progress.total)
        bar.update(task, completed=progress.done, description=progress.stage, words="")
        bar.update(task, words=_words(progress, bar.tasks[0].speed))
        if progress.done >= progress.total:
            bar.stop()
        elif not bar.live.is_started:
            bar.start()

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def _words(progress: Progress, speed: float | None) -> str:
    """Return counts, speed and figures, as short as they can be read."""
    parts = []
    if progress.unit:
        parts.append(f"{progress.done:,} of {progress.total:,} {progress.unit}")
        if speed:
            parts.append(f"{speed:,.0f} {progress.unit}/s")
    parts += [f"{name} {short_text(value)}" for name, value in progress.figures.items()]
    return "  ".join(parts)


def short_text(value: Any) -> str:
    """Return four digits of a number, a few numbers of a list, or words as they are."""
    if isinstance(value, list):
        few = [f"{part:.2f}" for part in value]
        return " ".join(few if len(few) <= 8 else [*few[:3], "…", *few[-2:]])
    return value if isinstance(value, str) else f"{value:.4g}"
