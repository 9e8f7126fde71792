"""`fwnet encode`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fwnet.cli.command import STOPPED, Device, print_lines, reported_errors, say
from fwnet.progress import progress_bar

if TYPE_CHECKING:
    from fwnet.coding import EncodeReport

NOTES = """
[bold]fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy[/bold]

The data may be larger than memory. Unfinished codes are kept in the folder codes.npy.parts; \
codes.npy appears when it is complete. A run that was stopped, even killed, continues with \
--resume and ends with the same bytes. If the data or the options differ from those of the \
stopped run, an error says what differs.

With a network that fwnet train coder wrote, coding is fast but has no certificates:

[bold]fwnet encode data.npy --model mynet/model.safetensors -o codes.npy[/bold]

Parquet needs pyarrow: pip install 'fwnet\\[parquet]'. Every column is a feature.
"""


def encode(
    data: Annotated[Path, typer.Argument(help="Signals, one per row: .npy or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the codes: .npy or .parquet.")
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
            help="A .npy file of shape (n, m), one atom per column: the transpose of "
            "scikit-learn's components_. Default: the identity.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A network from fwnet train coder, instead of --p and --radius."),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Tolerance of the certificate. Default: 1e-6, or 1e-10 for float64."),
    ] = None,
    device: Device = "auto",
    certificates: Annotated[
        Path | None,
        typer.Option(help="A .npy file for one record per row: gap, norm_gap, status_code, …"),
    ] = None,
    shard_rows: Annotated[
        int | None, typer.Option(help="Rows per shard. Default: chosen from the row width.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue a run that was stopped, if there is one."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Overwrite the output; without --resume, discard an unfinished run.",
        ),
    ] = False,
) -> None:
    """Code the rows of a file: min ½‖x − Dz‖² such that ‖z‖_p ≤ radius, or with a network."""
    from fwnet.coding import encode_file

    with reported_errors(lambda: STOPPED), progress_bar() as progress:
        report = encode_file(
            data,
            output,
            p=p,
            radius=radius,
            dictionary=dictionary,
            model=model,
            tol=tol,
            device=device,
            certificates=certificates,
            shard_rows=shard_rows,
            resume=resume,
            force=force,
            progress=progress,
        )
    _print_report(report)
    if report.certifies and report.rows_uncertified:
        say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


def _print_report(report: EncodeReport) -> None:
    """Print what is certified, how long it took and where the codes are."""
    resumed = f", {report.rows_resumed:,} of them from before" if report.rows_resumed else ""
    coded = report.rows > report.rows_resumed
    speed = f", {report.rows_per_second:,.0f} rows per second" if coded else ""
    gaps = f"largest gap {report.largest_gap:.2e}, largest norm gap {report.largest_norm_gap:.2e}"
    lines = [
        f"{report.rows:,} rows{resumed}",
        *(f"{count:,} {words}" for words, count in report.counts.items()),
        *([gaps] if report.certifies else []),
        f"{report.seconds:.1f} s{speed}",
        f"written to {report.output}",
    ]
    print_lines(lines)
