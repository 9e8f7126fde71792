"""Commands from image to image, one for each restoration: `fwnet denoise`, `fwnet upscale`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwnet.cli.arguments import Device, option_parameters, with_parameters
from fwnet.cli.terminal import print_lines, reported_errors, say
from fwnet.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from fwnet.imaging import RestoredFile
    from fwnet.restoration import Restoration

NOTES = """
Large images are cut into tiles, with the same result. JPEG files are written with quality 95. \
Unreadable files are reported and skipped; the exit code is then 2. Existing files are not \
overwritten without --force. [bold]fwnet models[/bold] lists networks for --model.
"""

Inputs = Annotated[
    list[str] | None,  # optional, for a message of our own: one argument alone becomes OUT
    typer.Argument(
        metavar="IN...",
        help="Images: files, folders, patterns such as '*.png'.",
        show_default=False,
    ),
]
Output = Annotated[str, typer.Argument(metavar="OUT", help="A file for one image, else a folder.")]


def restoration_command(kind: type[Restoration]) -> Callable[..., None]:
    """Return the command that applies a restoration to files."""

    def shared(
        inputs: Inputs,
        output: Output,
        model: Annotated[
            str | None,
            typer.Option(
                metavar="NAME|FILE",
                help="A network of fwnet models, or a model file.",
                show_default="a shipped network",
            ),
        ] = None,
        device: Device = "auto",
        tile: Annotated[
            int | None,
            typer.Option(
                metavar="N", help="Side of the tiles of large images: smaller ones use less memory."
            ),
        ] = None,
        compare: Annotated[bool, typer.Option("--compare", help=kind.compare_help)] = False,
        force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
        **options: Any,
    ) -> None:
        if not inputs:
            raise typer.BadParameter(
                f"OUT is missing: expected fwnet {kind.name} IN... OUT, got only {output}"
            )
        _restore(
            kind,
            inputs,
            output,
            options,
            model=model,
            device=device,
            tile=tile,
            compare=compare,
            force=force,
        )

    parameters = dict(inspect.signature(shared, eval_str=True, locals=locals()).parameters)
    del parameters["options"]
    parameters["inputs"] = parameters["inputs"].replace(default=None)
    first = {name: parameters.pop(name) for name in ("inputs", "output")}
    own = option_parameters(kind.apply_options)
    return with_parameters(shared, kind.name, first | own | parameters)


def _restore(
    kind: type[Restoration],
    inputs: list[str],
    output: str,
    options: dict[str, Any],
    **arguments: Any,
) -> None:
    """Restore files with a line for each; exit with code 2 if one of them failed."""
    from fwnet.imaging import FailedFile, restore_files

    num_done = num_failed = 0

    def stopped() -> str:
        return f"Stopped. {'1 file is' if num_done == 1 else f'{num_done} files are'} done."

    with reported_errors(stopped), progress_bar() as progress:
        asked = kind.asked(**options)
        for hint in kind.hints(**options):
            say(f"Hint: {hint}")
        for outcome in restore_files(
            kind,
            inputs,
            output,
            progress=progress,
            warn=lambda hint: say(f"Hint: {hint}."),
            **arguments,
            **asked,
        ):
            if isinstance(outcome, FailedFile):
                num_failed += 1
                say(f"Error: {outcome.reason}")
            else:
                num_done += 1
                _print_file(outcome)
    if num_failed:
        raise typer.Exit(2)


def _print_file(file: RestoredFile) -> None:
    """Print one line about a result, and warnings to stderr."""
    for note in file.notes:
        say(f"Warning: {file.source}: {note}.")
    places = " and ".join(str(path) for path in (file.place, file.compared) if path is not None)
    print_lines([f"{file.source}: {file.description}, {file.seconds:.1f} s, written to {places}"])
