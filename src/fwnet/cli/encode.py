"""`fwnet encode`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import print_lines, progress_bar, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.coding import EncodeProgress, EncodeReport

__all__ = ["NOTES", "encode"]

NOTES = """
[bold]fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy[/bold]

The file may be larger than memory. Codes are kept in shards in the folder codes.npy.parts until \
all are there; then they become codes.npy, and the folder goes. A run that was stopped, even \
killed, goes on with --resume and ends with the same bytes. Shards of an earlier run are never \
used or dropped unless --resume or --force says so, and never mixed with those of other data or \
options: that is refused with a line that says what differs.

With a network that fwnet train coder wrote, codes are learned and fast, and have no certificates:

[bold]fwnet encode data.npy --model mynet/model.safetensors -o codes.npy[/bold]

Parquet needs pyarrow: pip install 'fwnet\\[parquet]'. Every column is a feature.
"""


def encode(
    data: Annotated[Path, typer.Argument(help="Signals, one a row: .npy, or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the codes go: .npy or .parquet.")
    ],
    p: Annotated[
        float | None, typer.Option("--p", help="Exponent of the norm, from 1 to inf.")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Bound on the norm of a code.")] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="An .npy of shape (n, m), one atom a column: the transpose of scikit-learn's "
            "components_. Without it, the identity.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A network that fwnet train coder wrote, instead of p and radius."),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Tolerance of the certificate; by default 1e-6 or, in float64, 1e-10."),
    ] = None,
    device: Device = "auto",
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
    """Code the rows of a file: min ½‖x − Dz‖² such that ‖z‖_p ≤ radius, or with a network."""
    from fwnet.coding import EncodeError, encode_file

    chosen = chosen_device(device)
    try:
        with _row_progress() as show:
            report = encode_file(
                data,
                output,
                p=p,
                radius=radius,
                dictionary=dictionary,
                model=model,
                tol=tol,
                device=chosen,
                certificates=certificates,
                shard_rows=shard_rows,
                resume=resume,
                force=force,
                progress=show,
            )
    except EncodeError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error
    _print_codes(report)
    if report.certifies and report.rows_uncertified:
        say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


@contextmanager
def _row_progress() -> Iterator[Callable[[EncodeProgress], None]]:
    """A bar on stderr: rows done, rows a second, remaining time. Nothing where no one looks."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} rows"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with progress_bar(*columns) as bar:
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
    print_lines(lines)
