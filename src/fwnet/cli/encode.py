"""`fwnet encode`."""

import math
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwnet.cli.command import (
    DEVICE_HELP,
    STOPPED,
    EngineOptions,
    argument_parameter,
    chosen_engine,
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

[bold]fwnet encode spectra.npy -d D.npy --set simplex --radius 1 -o shares.npy[/bold]

The data may be larger than memory. Unfinished codes are kept in the folder codes.npy.parts; \
codes.npy appears when it is complete. A run that was stopped, even killed, continues with \
--resume and gives the same file. If the data or the options differ from those of the \
stopped run, an error says what differs.

With a network that fwnet train coder wrote, coding is fast but has no certificates:

[bold]fwnet encode data.npy --model mynet/model.safetensors -o codes.npy[/bold]

Parquet needs pyarrow: pip install '.\\[parquet]' in the clone. Every column is a feature, or \
those of --columns; --keep carries others along.

Many files become a folder of files with the same names; those with more than --shard-rows rows \
become several. Local paths, and URLs that fsspec knows:

[bold]fwnet encode 'data/*.parquet' --p 1.3 --radius 5 -o codes/ --engine ray[/bold]

In a folder of codes, rows that are not finite have NaN as code, and are counted in a warning.
"""

COLUMNS_HELP = (
    "Columns of .parquet files that make the signal: names or patterns, separated by commas, "
    "such as 'a,b' or 'x*'."
)


@dataclass(frozen=True)
class EncodeOptions:
    """Options of `fwnet encode`."""

    output: str = option(
        MISSING,
        "File for the codes, .npy or .parquet; or a folder, for any number of files: a name "
        "without a dot, or one that ends in a slash. Missing folders are created.",
        flags=("--output", "-o"),
        metavar="PATH",
    )
    p: float | None = option(
        None,
        "Exponent of the norm, 1 to inf. Required, except with --model or --set simplex.",
        flags=("--p",),
    )
    radius: float | None = option(
        None,
        "Bound on the norm of a code; the sum of its entries with --set simplex. Required, except "
        "with --model.",
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
    certificates: str | None = option(
        None,
        "Also write a .npy file (a folder of them, if the codes go into a folder) with one record "
        "per row: gap (the duality gap), norm_gap (a bound on how far the norm is above the least "
        "norm of an optimal code; NaN with --set simplex), status_code (0: certified; -2: the row "
        "is not finite; others: fwnet.solvers.Status), num_steps and relative_error "
        "(‖x − Dz‖ / ‖x‖). Not with --model.",
        shown="no file",
        metavar="PATH",
    )
    columns: str | None = option(
        None,
        COLUMNS_HELP,
        shown="all but those of --keep",
        metavar="NAMES",
    )
    keep: str | None = option(
        None,
        "Columns of .parquet files to copy beside the codes, such as id.",
        shown="none",
        metavar="NAMES",
    )
    shard_rows: int | None = option(
        None,
        "Rows to encode and save at a time; fewer rows use less memory. In a folder, also the "
        "largest number of rows per file of codes.",
        shown="chosen from the lengths of signals and codes",
    )
    strict: bool = option(
        False,
        "In a folder: stop at a row that is not finite. A single file always does.",
        flags=("--strict",),
    )
    resume: bool = option(
        False,
        "Continue a stopped run; start one if there is none. A single file that is complete needs "
        "--force.",
        flags=("--resume",),
    )
    force: bool = option(
        False,
        "Overwrite existing files and discard an unfinished run (with --resume, continue it). "
        "Without --force, an existing file is an error, and so is an unfinished run unless "
        "--resume is given.",
        flags=("--force",),
    )


def _encode(
    data: str,
    output: str,
    columns: str | None,
    keep: str | None,
    strict: bool,
    engine: str,
    address: str | None,
    **options: Any,
) -> None:
    """Encode the rows of a file, or of many files, with a dictionary or a trained network.

    The code z of a row x minimizes ½‖x − Dz‖² subject to ‖z‖_p ≤ radius, or on another --set.
    """
    from fwnet.coding import encode_file, encode_folder

    ball = "ball" if options["constraint"] == "lp" else "set"
    has_atoms = options["model"] is not None or options["dictionary"] is not None
    note = [] if has_atoms else [f"no --dictionary: rows are projected on the {ball}"]
    options |= {"columns": names_in(columns), "keep": names_in(keep)}
    with reported_errors(lambda: STOPPED, "--shard-rows", OPTIONS), progress_bar() as progress:
        if output.endswith("/") or not Path(output).suffix:
            with chosen_engine(engine, address) as chosen:
                report = encode_folder(
                    data,
                    output,
                    **options,
                    strict=strict,
                    engine=chosen,
                    progress=progress,
                    warn=say,
                )
        elif engine != "local" or address is not None:
            given = f"--address {address}" if engine == "local" else f"--engine {engine}"
            raise ValueError(f"{given} writes a folder, got the file {output}")
        else:
            if Path(data).is_dir():
                raise ValueError(f"{data} is a folder: its codes go into a folder, got -o {output}")
            report = encode_file(data, output, **options, progress=progress)
    written = [report.output, *([options["certificates"]] if options["certificates"] else [])]
    _print_report(report, note, " and ".join(map(str, written)))
    if report.certifies and report.rows_uncertified:
        say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


def names_in(text: str | None) -> list[str]:
    """Return names that are separated by commas."""
    return [name for part in (text or "").split(",") if (name := part.strip())]


DATA = argument_parameter(
    "data",
    str,
    "Signals, one per row: a .npy or .parquet file, a folder of them, or a pattern.",
)
OPTIONS = [EncodeOptions, EngineOptions]
PARAMETERS = DATA | option_parameters(EncodeOptions) | option_parameters(EngineOptions)
encode = with_parameters(_encode, "encode", PARAMETERS)


def _print_report(report: "EncodeReport", note: list[str], written: str) -> None:
    """Print what is certified, how close codes are, how long it took and where they are."""
    resumed = f", {report.rows_resumed:,} of them from before" if report.rows_resumed else ""
    files = f" in {report.files:,} files" if report.files > 1 else ""
    coded = report.rows > report.rows_resumed
    speed = f", {report.rows_per_second:,.0f} rows per second" if coded else ""
    gaps = f"largest gap {report.largest_gap:.2e} (allowed: --tol times ½‖x‖² of the row)"
    if not math.isnan(report.largest_norm_gap):
        gaps += f", largest norm gap {report.largest_norm_gap:.2e}"
    error = f"relative error ‖x − Dz‖ / ‖x‖: {report.relative_error:.3g} (mean of the rows)"
    has_error = not math.isnan(report.relative_error)
    lines = [
        f"{report.rows:,} rows{files}{resumed}",
        *(f"{count:,} {words}" for words, count in report.counts.items()),
        *note,
        *([gaps] if report.certifies else []),
        *([error] if has_error else []),
        f"{report.seconds:.1f} s{speed}",
        f"written to {written}",
    ]
    print_lines(lines)
