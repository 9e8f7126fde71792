"""The command line: reads arguments, calls the library, shows progress. Nothing else."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

import fwnet

if TYPE_CHECKING:
    from fwnet.bench import Report

__all__ = ["app", "main"]

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
        shown = f"{value:.3g}" if isinstance(value, float) else value
        console.print(f"{key}: {shown}", highlight=False)
