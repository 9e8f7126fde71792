"""The command line: reads arguments, calls the library, shows progress. Nothing else."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import fwnet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.bench import Report
    from fwnet.coding import EncodeProgress, EncodeReport

__all__ = ["app", "main"]

ENCODE_NOTES = """
[bold]fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy[/bold]

The file may be larger than memory. Codes are kept in shards in the folder codes.npy.parts until \
all are there; then they become codes.npy, and the folder goes. A run that was stopped, even \
killed, goes on with --resume and ends with the same bytes. Shards of an earlier run are never \
used or dropped unless --resume or --force says so, and never mixed with those of other data or \
options: that is refused with a line that says what differs.

Parquet needs pyarrow: pip install 'fwnet\\[parquet]'. Every column is a feature.
"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lp-norm constrained coding with the Frank-Wolfe Network.",
    epilog="Start with [bold]fwnet demo[/bold]: it takes seconds and needs no data.",
)


def main() -> None:
    """Run the command line; bad input ends with a line of explanation and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ∞ shows a question mark
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"fwnet {fwnet.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Lp-norm constrained coding with the Frank-Wolfe Network."""


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page and its pictures.")
    ] = Path("demo"),
) -> None:
    """Show the main ideas on built-in data and write one HTML page with the pictures."""
    from fwnet.demo import write_demo

    console = Console()
    _make_folder(output)
    with console.status("") as status:
        report = write_demo(output, progress=status.update)
    for line in report.summary:
        console.print(f"• {line}", highlight=False, markup=False)
    console.print(f"Open {report.page} in a browser.", highlight=False, markup=False)


@app.command()
def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark; without it they are listed.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to save bench-NAME-HARDWARE.json in."),
    ] = None,
) -> None:
    """Measure speed and memory as ratios, side by side in one run, on an idle machine."""
    from fwnet.bench import BENCHMARKS, Options, run_benchmark

    console = Console()
    if name is None:
        for key, (_, what) in BENCHMARKS.items():
            console.print(f"[bold]{key:12}[/bold] {what}", highlight=False)
        return
    if name not in BENCHMARKS:
        expected = ", ".join(BENCHMARKS)
        raise typer.BadParameter(f"expected one of {expected}, got {name!r}", param_hint="NAME")
    chosen = _device(device)
    if output:
        _make_folder(output)
    with Console(stderr=True).status("") as status:

        def show(group: str, index: int, rounds: int) -> None:
            status.update(f"{group}: round {index + 1} of {rounds}")

        report = run_benchmark(name, Options(chosen, quick, show))
    path = report.save(output) if output else None
    if as_json:
        console.print_json(json.dumps(dataclasses.asdict(report)))
        return
    _print_report(console, report)
    if path:
        console.print(f"Saved to {path}.", highlight=False, markup=False)


@app.command(epilog=ENCODE_NOTES)
def encode(
    data: Annotated[Path, typer.Argument(help="Signals, one a row: .npy, or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the codes go: .npy or .parquet.")
    ],
    p: Annotated[float, typer.Option("--p", help="Exponent of the norm, from 1 to inf.")],
    radius: Annotated[float, typer.Option(help="Bound on the norm of a code.")],
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="An .npy of shape (n, m), one atom a column: the transpose of scikit-learn's "
            "components_. Without it, the identity.",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Tolerance of the certificate; by default 1e-6 or, in float64, 1e-10."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    certificates: Annotated[
        Path | None,
        typer.Option(help="An .npy to write one record a row: gap, norm_gap, status_code, …"),
    ] = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(help="Rows that are solved, and kept, together; by default by their width."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the shards of a run that was stopped. Without any, begin.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Overwrite the output; without --resume, drop the shards of an earlier run.",
        ),
    ] = False,
) -> None:
    """Code the rows of a file: min ½‖x − Dz‖² such that ‖z‖_p ≤ radius, with certificates."""
    from fwnet.coding import EncodeError, encode_file

    chosen = _device(device)
    try:
        with _row_progress() as show:
            report = encode_file(
                data,
                output,
                p=p,
                radius=radius,
                dictionary=dictionary,
                tol=tol,
                device=chosen,
                certificates=certificates,
                shard_rows=shard_rows,
                resume=resume,
                force=force,
                progress=show,
            )
    except EncodeError as error:
        _say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        _say("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error
    _print_codes(report)
    if report.rows_uncertified:
        _say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


def _make_folder(output: Path) -> None:
    """Find out before the work whether its result can be written."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {output}: {error.strerror}", param_hint="--output"
        ) from error


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise typer.BadParameter(f"expected auto, cpu or cuda, got {name!r}", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("this machine has no CUDA device", param_hint="--device")
    return torch.device(name)


def _say(line: str) -> None:
    """One line on stderr, however long."""
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _row_progress() -> Iterator[Callable[[EncodeProgress], None]]:
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


def _print_codes(report: EncodeReport) -> None:
    resumed = f", {report.rows_resumed:,} of them from before" if report.rows_resumed else ""
    coded = report.rows > report.rows_resumed
    speed = f", {report.rows_per_second:,.0f} rows a second" if coded else ""
    lines = [
        f"{report.rows:,} rows{resumed}",
        *(f"{count:,} {words}" for words, count in report.counts.items()),
        f"largest gap {report.largest_gap:.2e}, largest norm gap {report.largest_norm_gap:.2e}",
        f"{report.seconds:.1f} s{speed}",
        f"written to {report.output}",
    ]
    for line in lines:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def _print_report(console: Console, report: Report) -> None:
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
