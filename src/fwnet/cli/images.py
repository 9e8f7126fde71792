"""Commands from image to image, one for each restoration: `fwnet denoise`, `fwnet upscale`."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from fwnet.cli.command import (
    DEVICE_HELP,
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
from fwnet.restoration import Restoration, option

if TYPE_CHECKING:
    from fwnet.imaging import RestoredFile

NOTES = """
Folders are searched with their subfolders. If OUT is a folder, each result gets the name of its \
input, in the same subfolder: with the input photos/, photos/a/1.png becomes OUT/a/1.png. With \
several inputs it becomes OUT/photos/a/1.png. \
Formats that cannot be written (HEIC, AVIF, GIF) become .png: a.heic becomes a.png, or a.heic.png \
if another input becomes a.png. JPEG files are written with quality 95. A TIFF keeps all its pages \
if the result is a TIFF; otherwise the first is used. HEIC needs pillow-heif: \
pip install '.\\[heif]' in the clone.

Files of a folder that are not images are skipped, and named in one line. An image that cannot be \
read is reported, and so is one whose result exists already (without --force or --skip-existing) \
or would replace that of another input; the others are processed, and the exit code is 2. Camera \
raw files are not supported.

IN and OUT may be URLs that fsspec knows, such as s3://bucket/photos; OUT is then a folder.

--engine ray works on as many files at a time as there are cores, and prints a line for each as \
it is done. A run that was stopped continues with --skip-existing.
"""

INPUTS = argument_parameter(
    "inputs",
    list[str] | None,  # optional, for a message of our own: one argument alone becomes OUT
    "Images: files, folders, or patterns such as '*.png'.",
    default=None,
    metavar="IN...",
    show_default=False,
)
OUTPUT = argument_parameter(
    "output", str, "A file for one image, or a folder. Missing folders are created.", metavar="OUT"
)


@dataclass(frozen=True)
class FileOptions:
    """Options of every command from image to image."""

    model: str | None = option(
        None, "A name from fwnet models, or a model file.", metavar="NAME|FILE"
    )
    device: str = option("auto", DEVICE_HELP)
    tile: int | None = option(
        None,
        "Side of the tiles that large images are cut into, in pixels of the input; smaller tiles "
        "use less memory. At least 32.",
        shown="chosen for the device",
    )
    compare: bool = option(
        False,
        "Also write NAME-compare.png next to each result: BASELINE on the left, and the result on "
        "the right, both upright.",
        flags=("--compare",),
    )
    force: bool = option(False, "Overwrite existing results.", flags=("--force",))
    skip_existing: bool = option(
        False,
        "Leave existing results alone and count them; do the others.",
        flags=("--skip-existing",),
    )


def restoration_command(kind: type[Restoration]) -> Callable[..., None]:
    """Return the command that applies a restoration to files."""
    shown = {"model": kind.model_shown}
    helps = {
        field.name: field.metadata["help"].replace("BASELINE", kind.baseline_name)
        for field in fields(FileOptions)
    }
    options = option_parameters(kind.apply_options) | option_parameters(FileOptions, shown, helps)
    options |= option_parameters(EngineOptions)
    return with_parameters(partial(_restore, kind), kind.name, INPUTS | OUTPUT | options)


def _restore(
    kind: type[Restoration],
    inputs: list[str] | None,
    output: str,
    engine: str,
    address: str | None,
    **options: Any,
) -> None:
    """Restore files with a line for each; exit with code 2 if one of them failed."""
    from fwnet.imaging import FailedFile, restore_files

    if not inputs:
        raise typer.BadParameter(
            f"OUT is missing: expected fwnet {kind.name} IN... OUT, got only {output}"
        )
    if not output:
        raise typer.BadParameter("OUT is empty: expected a file or a folder")
    if output in ("true", "false"):
        raise typer.BadParameter(
            f"OUT is {output}: options such as --force take no value; a folder of this name is "
            f"{output}/"
        )
    num_done = num_failed = 0

    def stopped() -> str:
        return f"Stopped. {'1 file is' if num_done == 1 else f'{num_done} files are'} done."

    own = {field.name: options.pop(field.name) for field in fields(kind.apply_options)}
    with (
        reported_errors(stopped),
        progress_bar() as progress,
        chosen_engine(engine, address) as chosen,
    ):
        asked = kind.from_command_line(**own)
        for hint in kind.hints(**own):
            say(f"Hint: {hint}")
        for outcome in restore_files(
            kind,
            inputs,
            output,
            engine=chosen if engine != "local" else None,
            progress=progress,
            warn=say,
            **options,
            **asked,
        ):
            if isinstance(outcome, FailedFile):
                num_failed += 1
                say(f"Error: {outcome.reason}")
            else:
                num_done += 1
                _print_file(outcome)
    if num_failed:
        if num_done + num_failed > 1:
            say(f"{num_done} written, {num_failed} failed.")
        raise typer.Exit(2)


def _print_file(file: "RestoredFile") -> None:
    """Print one line about a result, and warnings to stderr."""
    for note in file.notes:
        say(f"Warning: {file.source}: {note}.")
    places = " and ".join(str(path) for path in (file.place, file.compared) if path is not None)
    print_lines([f"{file.source}: {file.description}, {file.seconds:.1f} s, written to {places}"])
