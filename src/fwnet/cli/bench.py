"""`fwnet bench`."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from fwnet.checks import did_you_mean
from fwnet.cli.command import Device, make_folder, reported_errors, rounded
from fwnet.hardware import choose_device
from fwnet.progress import progress_bar

if TYPE_CHECKING:
    from fwnet.bench import Report


def bench(
    name: Annotated[
        str | None, typer.Argument(help="The benchmark to run; without it, list all.")
    ] = None,
    device: Device = "auto",
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            metavar="LIST",
            help="For codes: exponents to compare, such as [bold]1,1.5,inf[/bold], or "
            "[bold]all[/bold]. [dim]\\[default: 1.3 only][/dim]",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Also write bench-NAME-HARDWARE.json into this folder. "
            "[dim]\\[default: no file][/dim]",
        ),
    ] = None,
) -> None:
    """Compare the speed and memory of solvers, networks and layers. Run it on an idle machine."""
    from fwnet.bench import BENCHMARKS, Options, run_benchmark

    console = Console()
    if name is None:
        for key, (_, what) in BENCHMARKS.items():
            console.print(f"[bold]{key:12}[/bold] {what}", highlight=False)
        console.print("\nfwnet bench NAME runs one, with --quick in small sizes.", highlight=False)
        return
    if name not in BENCHMARKS:
        expected = f"expected one of {', '.join(BENCHMARKS)}, got {name!r}"
        hint = did_you_mean(name, BENCHMARKS)
        raise typer.BadParameter(expected + hint, param_hint="NAME")
    exponents = None
    if p is not None:
        if name != "codes":
            raise typer.BadParameter(f"only codes has several p, got {name}", param_hint="--p")
        exponents = _exponents(p)
    if output:
        make_folder(output)
    with reported_errors(), progress_bar() as progress:
        report = run_benchmark(name, Options(choose_device(device), quick, progress, exponents))
    path = report.save(output) if output else None
    if as_json:
        console.print_json(json.dumps(dataclasses.asdict(report)))
        return
    _print_report(console, report)
    if path:
        console.print(f"Saved to {path}.", highlight=False, markup=False)


def _exponents(text: str) -> tuple[float, ...]:
    """Return the numbers of a list; none for all."""
    if text == "all":
        return ()
    try:
        exponents = tuple(float(part) for part in text.split(","))
    except ValueError:
        exponents = (math.nan,)
    if not all(p >= 1 for p in exponents):
        message = f"expected all, or numbers >= 1 such as 1,1.5,inf, got {text!r}"
        raise typer.BadParameter(message, param_hint="--p")
    return exponents


def _print_report(console: Console, report: Report) -> None:
    """Print ratios beside their targets."""
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
            "" if row.target is None else f"≤ {row.target:.3g}",
            f"{row.milliseconds:.4g}",
            f"±{row.spread:.0%}",
            "" if row.peak_mib is None else f"{row.peak_mib:.0f}",
        )
    console.print(table)
    for key, value in report.notes.items():
        parts = value if isinstance(value, dict) else {"": value}
        shown = ", ".join(f"{name} {rounded(part)}".strip() for name, part in parts.items())
        console.print(f"{key}: {shown}", highlight=False)
