"""What the command line shows: lines, tables and progress bars."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.bench import Report
    from fwnet.coding import CoderReport, EncodeProgress, EncodeReport
    from fwnet.experiments import Experiment, Result
    from fwnet.imaging import DenoisedFile, DenoiseProgress
    from fwnet.training import DenoiserReport, ReadingProgress, TrainingProgress
    from fwnet.zoo import Card

__all__ = [
    "is_first_process",
    "job_progress",
    "list_experiments",
    "pixel_progress",
    "print_card",
    "print_coder",
    "print_codes",
    "print_denoised",
    "print_denoiser",
    "print_models",
    "print_report",
    "print_result",
    "row_progress",
    "say",
    "training_progress",
]


def say(line: str) -> None:
    """One line on stderr, however long."""
    Console(stderr=True).print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def is_first_process() -> bool:
    """Whether this is the one process, or the first of several, which speaks for all."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def training_progress() -> Iterator[Callable[[ReadingProgress | TrainingProgress], None]]:
    """A bar on stderr with loss, validation, p and γ."""
    from fwnet.training import ReadingProgress

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    shown = console.is_terminal and is_first_process()
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("", total=1, figures="")

        def show(progress: ReadingProgress | TrainingProgress) -> None:
            if isinstance(progress, ReadingProgress):
                done, count = progress.done, progress.count
                bar.update(task, total=count, completed=done, description="reading images")
                if done == count:  # what follows has a speed of its own
                    bar.reset(task, total=1)
                return
            figures = {"loss": progress.loss, "validation": progress.shown_validation}
            bar.update(
                task,
                total=progress.num_steps,
                completed=progress.step,
                description=f"epoch {progress.epoch} of {progress.num_epochs}",
                figures="  ".join(
                    f"{name} {_figures(value)}"
                    for name, value in {**figures, **progress.watched}.items()
                    if value is not None
                ),
            )

        yield show


def _figures(value: float | str | list[float]) -> str:
    """A number, words about one, or a few of a list."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else f"{value:.4g}"
    few = [f"{part:.2f}" for part in value]
    return " ".join(few if len(few) <= 8 else [*few[:3], "…", *few[-2:]])


@contextmanager
def job_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr: trainings done."""
    console = Console(stderr=True)
    columns = (
        TextColumn("trainings and solutions"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=1)
        yield lambda done, count: bar.update(task, completed=done, total=max(1, count))


def list_experiments(output: Path) -> None:
    """Say what can be measured, and what has been."""
    from fwnet.experiments import EXPERIMENTS, Result

    table = Table("experiment", "what", f"measured, in {output}")
    for name, experiment in EXPERIMENTS.items():
        path = output / f"{name}.json"
        measured = ""
        if path.is_file():
            try:
                rows = Result.load(path).rows
                hardware = {row.hardware for row in rows if row.hardware}
                measured = f"{len(rows)} figures {', '.join(sorted(hardware))}".strip()
            except ValueError:
                measured = "unreadable"
        table.add_row(name, experiment.title, measured)
    Console().print(table)


def print_result(experiment: Experiment, result: Result, paths: list[Path]) -> None:
    """Show what an experiment measured, beside the paper."""
    console = Console()
    table = Table("", "", "the paper", "here", "spread", title=experiment.title)
    for row in result.rows:
        setting = ", ".join(f"{key} = {_rounded(value)}" for key, value in row.setting.items())
        table.add_row(
            row.method if row.quantity == "test error" else f"{row.method} ({row.quantity})",
            setting,
            "" if row.paper is None else f"{row.paper:g}",
            f"{row.ours:.4g}",
            "" if row.spread is None else f"± {row.spread:.2g}",
        )
    console.print(table)
    for line in [f"The paper: {result.claim}", *result.findings]:
        console.print(f"• {line}", highlight=False, markup=False)
    saved = " and ".join(str(path) for path in paths)
    console.print(f"Saved to {saved}.", highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_coder(report: CoderReport, output: Path) -> None:
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
    lines += [f"{name} {_figures(value)}" for name, value in report.network.watched().items()]
    lines += [
        f"written to {report.model_path}; code with it:",
        f"fwnet encode DATA.npy --model {report.model_path} -o CODES.npy",
    ]
    for line in lines:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_denoiser(report: DenoiserReport, output: Path) -> None:
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
    lines += [f"{name} {_figures(value)}" for name, value in report.network.watched().items()]
    lines += [
        f"written to {report.model_path}; use it:",
        f"fwnet denoise IN OUT --model {report.model_path}",
    ]
    for line in lines:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def row_progress() -> Iterator[Callable[[EncodeProgress], None]]:
    """A bar on stderr: rows done, rows a second, remaining time. Nothing where no one looks."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} rows"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=1, speed="")

        def show(progress: EncodeProgress) -> None:
            done, rows, stage = progress.rows_done, progress.rows, progress.stage
            if bar.tasks[0].description != stage:  # another stage has another speed
                bar.reset(task, total=rows, completed=done, description=stage, speed="")
            speed = bar.tasks[0].speed
            text = f"{speed:,.0f} rows/s" if speed else ""
            bar.update(task, completed=done, speed=text)

        yield show


def print_codes(report: EncodeReport) -> None:
    """Say what is certified, how long it took and where the codes are."""
    resumed = f", {report.rows_resumed:,} of them from before" if report.rows_resumed else ""
    coded = report.rows > report.rows_resumed
    speed = f", {report.rows_per_second:,.0f} rows a second" if coded else ""
    gaps = f"largest gap {report.largest_gap:.2e}, largest norm gap {report.largest_norm_gap:.2e}"
    lines = [
        f"{report.rows:,} rows{resumed}",
        *(f"{count:,} {words}" for words, count in report.counts.items()),
        *([gaps] if report.certifies else []),
        f"{report.seconds:.1f} s{speed}",
        f"written to {report.output}",
    ]
    for line in lines:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_models(cards: list[Card]) -> None:
    """Show the models that come with the package."""
    console = Console()
    if not cards:
        console.print("No trained models come with this version.")
        return
    table = Table("model", "parameters", "size", "figures", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[:3]:
        column.no_wrap = True
    for column in table.columns[1:3]:
        column.justify = "right"
    for task in dict.fromkeys(card.task for card in cards):
        table.add_section()
        table.add_row(f"[bold]{task}[/bold]")
        for card in cards:
            if card.task == task:
                figures = "\n".join(f"{name} {x:g}" for name, x in card.figures.items())
                size = f"{card.num_bytes / 1e6:.2f} MB"
                table.add_row(card.name, f"{card.num_parameters:,}", size, figures)
    console.print(table)
    console.print("fwnet models NAME tells all about one.", highlight=False)


def print_card(card: Card) -> None:
    """Show everything that is known about a model."""
    facts = {
        "task": card.task,
        "class": card.model,
        "parameters": f"{card.num_parameters:,}",
        "multiply-adds": f"{card.multiply_adds:,} a pixel",
        **{name: f"{value:g}" for name, value in card.figures.items()},
        "data": card.data,
        "their license": card.data_license,
        "trained by": card.command,
        "trained in": f"{card.seconds:,.0f} s on {card.hardware}",
        "file": f"{card.num_bytes:,} bytes, kernels in {card.dtype}",
        "sha256": card.sha256,
    }
    width = max(len(name) for name in facts)
    lines = [f"{name:{width}}  {value}" for name, value in facts.items()]
    for line in [card.name, card.summary, "", *lines]:
        Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def pixel_progress() -> Iterator[Callable[[DenoiseProgress], None]]:
    """A bar on stderr for every file, while it is at work: megapixels done, remaining time."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[size]}"),
        TimeRemainingColumn(),
    )
    # Lines for stdout must get there, and find no bar in their way: it comes and goes.
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    task = bar.add_task("", total=1, size="")

    def show(progress: DenoiseProgress) -> None:
        done, pixels = progress.pixels_done, progress.pixels
        if not console.is_terminal:
            return
        if done >= pixels:
            clear()
            return
        if not bar.live.is_started:
            count = f" ({progress.index + 1} of {progress.count})" if progress.count > 1 else ""
            bar.reset(task, total=pixels, description=f"{progress.source.name}{count}")
            bar.start()
        size = f"{done / 1e6:.1f} of {pixels / 1e6:.1f} megapixels"
        bar.update(task, completed=done, size=size)

    def clear() -> None:
        if bar.live.is_started:
            bar.stop()

    try:
        yield show
    finally:
        clear()


def print_denoised(file: DenoisedFile) -> None:
    """Say in a line what became of a file, and on stderr what did not."""
    for note in file.notes:
        say(f"Warning: {file.source}: {note}.")
    noise = "the noise that the network is made for"
    if file.sigma is not None:
        noise = f"sigma {255 * file.sigma:.1f} ({'estimated' if file.estimated else 'given'})"
    places = " and ".join(str(path) for path in (file.place, file.compared) if path is not None)
    size = f"{file.width} × {file.height}"
    line = f"{file.source}: {size}, {noise}, {file.seconds:.1f} s, written to {places}"
    Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_report(console: Console, report: Report) -> None:
    """Show ratios beside their targets."""
    table = Table("", "ratio", "target", "ms", "spread", "peak MiB", title=report.hardware)
    group = None
    for row in report.rows:
        if row.group != group:
            group = row.group
            table.add_section()
            table.add_row(f"[bold]{group}[/bold]")
        table.add_row(
            row.name,
            f"{row.ratio:.3g}",
            "" if row.target is None else f"≤ {row.target:g}",
            f"{row.milliseconds:.4g}",
            f"±{row.spread:.0%}",
            "" if row.peak_mib is None else f"{row.peak_mib:.0f}",
        )
    console.print(table)
    for key, value in report.notes.items():
        parts = value if isinstance(value, dict) else {"": value}
        shown = ", ".join(f"{name} {_rounded(part)}".strip() for name, part in parts.items())
        console.print(f"{key}: {shown}", highlight=False)


def _rounded(value: object) -> object:
    return f"{value:.3g}" if isinstance(value, float) else value
