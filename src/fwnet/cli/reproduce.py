"""`fwnet reproduce`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fwnet.cli.command import Device, make_folder, print_lines, reported_errors, rounded

if TYPE_CHECKING:
    from fwnet.experiments import Experiment, Result

QUICK = "With --quick, every experiment needs no data and 5 to 17 seconds of one CPU core."
HOURS = (
    "In full, the tested networks trained for the hours above, in sum; choosing settings comes on "
    "top."
)
NO_HOURS = "The times in full are on the page of results of the documentation."
QUICK_SHOWS = "This small version shows only that the code runs."
NOTES = """
[bold]fwnet reproduce synthetic-l1 --quick[/bold]    a small version, 5 to 17 s of one CPU core

[bold]fwnet reproduce[/bold]                         all experiments, their data and times

[bold]fwnet reproduce synthetic-l1[/bold]            in full

The files of small versions have names that end in -quick: both can use the same folder.

Settings are chosen on validation data for every method, so a full experiment trains up to \
hundreds of networks. Each finished training is recorded in results/runs.jsonl and not repeated: \
to continue after a stop, give the same command again.
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Experiments, or the word all. Without names, list the experiments."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small sizes and data that needs no download.")
    ] = False,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished", help="Train nothing; make the tables from the trainings finished so far."
        ),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="Folder for the results.")
    ] = Path("results"),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Folder with the data sets (docs/data.md). MNIST and the Berkeley images "
            "(BSDS500), if missing, are downloaded once into the cache of the user (on Linux, "
            "~/.cache/fwnet); T91, Set5 and Set14 must be supplied. "
            "[dim]\\[default: $FWNET_DATA][/dim]",
        ),
    ] = None,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Trainings at the same time. [dim]\\[default: one per core, at most 16][/dim]",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Also write all results found in the --output folder to this Markdown file. "
            "[dim]\\[default: no file][/dim]",
        ),
    ] = None,
) -> None:
    """Rerun the experiments of the Frank-Wolfe Network paper and compare with its results."""
    from fwnet.checks import did_you_mean
    from fwnet.data import DATA_SETS, DATA_VARIABLE
    from fwnet.experiments import EXPERIMENTS, Lab, Runner
    from fwnet.experiments.page import results_page
    from fwnet.files import resolved, write_whole
    from fwnet.hardware import choose_device
    from fwnet.progress import progress_bar

    for name in names or ():
        if name not in (*EXPERIMENTS, "all"):
            hint = did_you_mean(name, EXPERIMENTS) or ": run fwnet reproduce for a list"
            raise typer.BadParameter(f"unknown experiment {name!r}{hint}")
    if page and not page.parent.is_dir():
        raise typer.BadParameter(f"{page.parent} is not a folder", param_hint="--page")
    if data is not None:
        if not any((data / name).is_dir() for name in DATA_SETS):
            raise typer.BadParameter(
                f"expected a folder with some of {', '.join(DATA_SETS)} in it, got {data}",
                param_hint="--data",
            )
        os.environ[DATA_VARIABLE] = str(resolved(data))  # for the worker processes
    if not names and not page:
        _list_experiments(output)
    if names:
        make_folder(output)
        wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
        count = workers or min(os.cpu_count() or 1, 16)
        cache = None if quick else output / "runs.jsonl"
        stopped = "Stopped. The same command continues with the runs that are not finished."
        with (
            reported_errors(lambda: stopped),
            progress_bar() as progress,
            Runner(choose_device(device), count, cache, progress, finished) as runner,
        ):
            for name in wanted:
                experiment = EXPERIMENTS[name]
                result = experiment.run(Lab(runner, quick))
                paths = experiment.write(result, output, "-quick" if quick else "")
                _print_result(experiment, result, paths, quick)
    if page:
        with reported_errors():
            write_whole(page, results_page(output))


def _list_experiments(output: Path) -> None:
    """Print all experiments with the data that they need, what was measured, and how long."""
    from fwnet.errors import FwnetError
    from fwnet.experiments import EXPERIMENTS, Result

    table, timed = Table.grid(padding=(0, 2)), False
    for name, experiment in EXPERIMENTS.items():
        path = output / f"{name}.json"
        measured = ""
        if path.is_file():
            try:
                found = Result.load(path)
                hours = found.training_hours.items()
                timed |= bool(hours)
                times = [f"{time:.2g} h of training on {name}" for name, time in hours]
                measured = "; ".join(["", f"{len(found.rows)} figures measured", *times])
            except FwnetError:
                measured = "; results unreadable"
        needs = f" (needs {', '.join(experiment.needs)})" if experiment.needs else ""
        table.add_row(Text(name, "bold", no_wrap=True), Text(experiment.title + needs + measured))
    Console().print(table, f"\n{QUICK} {HOURS if timed else NO_HOURS}", highlight=False)


def _print_result(experiment: Experiment, result: Result, paths: list[Path], quick: bool) -> None:
    """Print the figures of an experiment beside those of the paper, and in full the verdicts."""
    console = Console()
    figures = []
    for row in result.rows:
        setting = ", ".join(f"{key} = {rounded(value)}" for key, value in row.setting.items())
        paper = "" if row.paper is None else f"{row.paper:g}"
        spread = "" if row.spread is None else f"± {row.spread:.2g}"
        figures.append((row.method, setting, row.quantity, paper, f"{row.mean:.4g}", spread))
    heads = ("method", "setting", "quantity", "paper", "here", "spread")
    used = [index for index in range(len(heads)) if any(one[index] for one in figures)]
    table = Table(*(heads[index] for index in used), title=experiment.title)
    for one in figures:
        table.add_row(*(one[index] for index in used))
    console.print(table)
    verdicts = [str(verdict) for verdict in experiment.verdicts(result) if verdict.measured]
    for line in [f"The paper: {experiment.paper_says}", *([] if quick else verdicts)]:
        console.print(f"• {line}", highlight=False, markup=False)
    saved = " and ".join(str(path) for path in paths)
    print_lines([f"Saved to {saved}.", *([QUICK_SHOWS] if quick else [])])
