"""`fwnet encode`."""

import math
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwnet.cli.command import (
    DEVICE_HELP,
    STOPPED,
    argument_parameter,
    option_parameters,
    print_lines,
    reported_errors,
    say,
    with_parameters,
)
from fwnet.progress import progress_bar
from fwnet.restoration import option

if TYPE_CHECKING:
    from fwnet.coding import EncodeReport

NOTES = """
[bold]fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy[/bold]

The duality gap is an upper bound on how far ½‖x − Dz‖² is above its minimum. If several codes \
are optimal, the one of least norm is wanted. Codes that are not certified are counted in a warning.

[bold]fwnet encode spectra.npy --dictionary D.npy --set simplex --radius 1 -o shares.npy[/bold]

The data may be larger than memory. Unfinished codes are kept in the folder codes.npy.parts; \
codes.npy appears when it is complete. A run that was stopped, even killed, continues with \
--resume and gives the same file. If the data or the options differ from those of the \
stopped run, an error says what differs.

With a network that fwnet train coder wrote, coding is fast but has no certificates:

[bold]fwnet encode data.npy --model mynet/model.safetensors -o codes.npy[/bold]

Parquet needs pyarrow: pip install '.\\[parquet]' in the clone. Every column is a feature.
"""


@dataclass(frozen=True)
class EncodeOptions:
    """Options of `fwnet encode`."""

    output: Path = option(
        MISSING, "File for the codes: .npy or .parquet.", flags=("--output", "-o")
    )
    p: float | None = option(
        None,
        "Exponent of the norm, 1 to inf. Required without --model and --set simplex.",
        flags=("--p",),
    )
    radius: float | None = option(
        None,
        "Bound on the norm of a code; the sum of its entries with --set simplex. Required without "
        "--model.",
    )
    constraint: str = option(
        "lp",
        "Set of the codes: lp (‖z‖_p ≤ radius), nonnegative (z ≥ 0 as well), or simplex (z ≥ 0 "
        "with the sum radius).",
        metavar="NAME",
        flags=("--set",),
    )
    dictionary: Path | None = option(
        None,
        "A .npy file with D, of shape (length of a signal, length of a code): one atom per column, "
        "the transpose of scikit-learn's components_.",
        shown="the identity",
        flags=("--dictionary", "-d"),
    )
    model: Path | None = option(
        None,
        "A file that fwnet train coder wrote, instead of --p, --radius and --dictionary.",
        metavar="FILE",
    )
    tol: float | None = option(
        None,
        "Tolerance: a code z is certified if its duality gap is at most X·½‖x‖², and its norm_gap "
        "(see --certificates) at most 10·X·‖z‖_p.",
        shown="1e-6 for float32 data, else 1e-10",
    )
    device: str = option("auto", DEVICE_HELP)
    certificates: Path | None = option(
        None,
        "Also write a .npy file with one record per row: gap (the duality gap), norm_gap (a bound "
        "on how far the norm is above the least norm of an optimal code), status_code (0: "
        "certified; others: fwnet.solvers.Status) and num_steps. Not with --model.",
        shown="no file",
    )
    shard_rows: int | None = option(
        None,
        "Rows to encode and save at a time; fewer rows use less memory.",
        shown="chosen from the lengths of signals and codes",
    )
    resume: bool = option(
        False, "Continue a stopped run; start one if there is none.", flags=("--resume",)
    )
    force: bool = option(
        False,
        "Overwrite existing files and discard an unfinished run (with --resume, continue it). "
        "Without --force, an existing file is an error, and so is an unfinished run unless "
        "--resume is given.",
        flags=("--force",),
    )


def _encode(**options: Any) -> None:
    """Encode each row x of a file with a dictionary D, or with a trained network.

    The code z minimizes ½‖x − Dz‖² subject to ‖z‖_p ≤ radius, or on another --set.
    """
    from fwnet.coding import encode_file

    with reported_errors(lambda: STOPPED), progress_bar() as progress:
        report = encode_file(**options, progress=progress)
    _print_report(report)
    if report.certifies and report.rows_uncertified:
        say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


DATA = argument_parameter("data", Path, "Signals, one per row: .npy or .parquet.")
encode = with_parameters(_encode, "encode", DATA | option_parameters(EncodeOptions))


def _print_report(report: "EncodeReport") -> None:
    """Print what is certified, how long it took and where the codes are."""
    resumed = f", {report.rows_resumed:,} of them from before" if report.rows_resumed else ""
    coded = report.rows > report.rows_resumed
    speed = f", {report.rows_per_second:,.0f} rows per second" if coded else ""
    gaps = f"largest gap {report.largest_gap:.2e}"
    if not math.isnan(report.largest_norm_gap):
        gaps += f", largest norm gap {report.largest_norm_gap:.2e}"
    lines = [
        f"{report.rows:,} rows{resumed}",
        *(f"{count:,} {words}" for words, count in report.counts.items()),
        *([gaps] if report.certifies else []),
        f"{report.seconds:.1f} s{speed}",
        f"written to {report.output}",
    ]
    print_lines(lines)
