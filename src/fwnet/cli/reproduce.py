"""`fwnet reproduce`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from fwnet.cli.arguments import Device, chosen_device, make_folder
from fwnet.cli.terminal import print_lines, progress_bar, rounded, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.experiments import Experiment, Result

__all__ = ["NOTES", "reproduce"]

NOTES = """
[bold]fwnet reproduce synthetic-l1 --quick[/bold]    a small version, in less than a minute

[bold]fwnet reproduce synthetic-l1[/bold]            all of it: results/synthetic-l1.json and .png

Settings are chosen on validation data for every method, so a full experiment is hundreds of \
trainings: minutes on a GPU, hours on a CPU. Finished trainings are kept in results/runs.jsonl and \
not repeated; a run that was stopped goes on from there.
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Which experiments, or all; without any they are listed."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished",
            help="Train nothing: make tables of finished trainings. Where an experiment can, it "
            "leaves out what has none.",
        ),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for figures and pictures.")
    ] = Path("results"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets (mnist/ for the digits); also FWNET_DATA. Without "
            "either they are downloaded."
        ),
    ] = None,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(help="Trainings at a time; by default one a core, at most 16."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write the page of all results in the output folder to this file."),
    ] = None,
) -> None:
    """Measure the tables and figures of the paper again, with the baselines, side by side."""
    from fwnet.data import DATA_SETS, DATA_VARIABLE, DataError
    from fwnet.experiments import EXPERIMENTS, Lab, Runner, UnfinishedError
    from fwnet.training import DivergedError

    if not names:
        if page:
            _write_page(page, output)
        else:
            _list_experiments(output)
        return
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            expected = ", ".join((*EXPERIMENTS, "all"))
            raise typer.BadParameter(
                f"expected some of {expected}, got {name!r}", param_hint="NAMES"
            )
    if workers is not None and workers < 1:
        raise typer.BadParameter(f"expected 1 or more, got {workers}", param_hint="--workers")
    chosen = chosen_device(device)
    make_folder(output)
    if page and not page.parent.is_dir():
        raise typer.BadParameter(f"{page.parent} is not a folder", param_hint="--page")
    if data is not None:
        if not any((data / name).is_dir() for name in DATA_SETS):
            raise typer.BadParameter(
                f"expected a folder with some of {', '.join(DATA_SETS)} in it, got {data}",
                param_hint="--data",
            )
        os.environ[DATA_VARIABLE] = str(data.resolve())  # for the processes that do the work
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    count = workers or min(os.cpu_count() or 1, 16)
    cache = None if quick else output / "runs.jsonl"
    try:
        with _job_progress() as show, Runner(chosen, count, cache, show, finished) as runner:
            for name in wanted:
                experiment = EXPERIMENTS[name]
                result = experiment.run(Lab(runner, quick))
                paths = experiment.write(result, output, "-quick" if quick else "")
                _print_result(experiment, result, paths)
    except (ImportError, OSError, DataError, DivergedError, UnfinishedError) as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    if page:
        _write_page(page, output)


def _write_page(page: Path, output: Path) -> None:
    from fwnet.experiments.page import results_page

    try:
        page.write_text(results_page(output), encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write {page}: {error.strerror}", param_hint="--page"
        ) from error
    except ValueError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error


@contextmanager
def _job_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr: trainings done."""
    columns = (
        TextColumn("trainings and solutions"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,}"),
        TimeRemainingColumn(),
    )
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=1)
        yield lambda done, count: bar.update(task, completed=done, total=max(1, count))


def _list_experiments(output: Path) -> None:
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


def _print_result(experiment: Experiment, result: Result, paths: list[Path]) -> None:
    """Show what an experiment measured, beside the paper."""
    console = Console()
    table = Table("", "", "the paper", "here", "spread", title=experiment.title)
    for row in result.rows:
        setting = ", ".join(f"{key} = {rounded(value)}" for key, value in row.setting.items())
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
    print_lines([f"Saved to {saved}."])
