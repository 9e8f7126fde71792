"""Commands from image to image: `fwnet denoise`, `fwnet upscale`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import print_lines, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.imaging import DenoisedFile, FailedFile, FileProgress, FinishedFile, UpscaledFile

    Finished = TypeVar("Finished", bound=FinishedFile)

__all__ = ["DENOISE_NOTES", "UPSCALE_NOTES", "denoise", "upscale"]

DENOISE_NOTES = """
[bold]fwnet denoise photo.jpg clean.png[/bold]             one file; the noise is estimated

[bold]fwnet denoise photo.jpg clean.png --sigma 25[/bold]  known noise, on the scale 0 to 255

[bold]fwnet denoise photos/ clean/ --compare[/bold]        a folder; before and after side by side

[bold]fwnet denoise 'scans/*.tif' logo.png clean/[/bold]   several files into a folder

Size, bits per channel, transparency, EXIF, color profile and resolution stay. JPEG files are \
written with quality 95. Large images are cut into tiles, with the same result. A file that is not \
an image is told in a line, the others are done, and the exit code is 2. What exists is not \
overwritten without --force. [bold]fwnet models[/bold] lists networks for --model.
"""

UPSCALE_NOTES = """
[bold]fwnet upscale small.png large.png[/bold]             three times as high and wide

[bold]fwnet upscale small.jpg large.png --scale 4[/bold]   four times; 2 for twice

[bold]fwnet upscale photos/ large/ --compare[/bold]        a folder; bicubic and this side by side

[bold]fwnet upscale 'scans/*.tif' logo.png large/[/bold]   several files into a folder

A network enlarges the light of an image; colors and transparency follow bicubically. Bits per \
channel, EXIF and color profile stay. The resolution in dots per inch grows as the image does, so \
that a print has the size it had. JPEG files are written with quality 95. Large images are cut \
into tiles, with the same result. A file that is not an image is told in a line, the others are \
done, and the exit code is 2. What exists is not overwritten without --force. [bold]fwnet \
models[/bold] lists networks for --model.
"""

Inputs = Annotated[
    list[str],
    typer.Argument(metavar="IN...", help="Images: files, folders, patterns such as '*.png'."),
]
Output = Annotated[
    str,
    typer.Argument(metavar="OUT", help="A file for one image; else a folder, made if need be."),
]
Tile = Annotated[
    int | None,
    typer.Option(help="Side of the tiles of large images: smaller ones take less memory."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def denoise(
    inputs: Inputs,
    output: Output,
    sigma: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise, 0 to 255; by default estimated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A network of fwnet models, or a file; by default one for gray or for color.",
        ),
    ] = None,
    device: Device = "auto",
    tile: Tile = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Write before and after side by side: OUT-compare.png."),
    ] = False,
    force: Force = False,
) -> None:
    """Remove noise from images with a trained network, whatever their size and format."""
    from fwnet.imaging import denoise_files

    chosen = chosen_device(device)
    if sigma is not None and not 0 <= sigma <= 255:
        say(f"Error: --sigma must be in [0, 255], got {sigma:g}")
        raise typer.Exit(2)
    if sigma is not None and 0 < sigma < 1:
        say(f"Hint: --sigma is on the scale 0 to 255, where {sigma:g} is hardly any noise.")
    is_told = False

    def describe(file: DenoisedFile) -> str:
        nonlocal is_told
        if file.sigma is None and sigma is not None and not is_told:
            is_told = True
            say("Hint: this network serves one noise level; --sigma is not used.")
        noise = "the noise that the network is made for"
        if file.sigma is not None:
            noise = f"sigma {255 * file.sigma:.1f} ({'estimated' if file.estimated else 'given'})"
        return f"{file.width} × {file.height}, {noise}"

    _run(
        lambda show: denoise_files(
            inputs,
            output,
            sigma=None if sigma is None else sigma / 255,
            model=model,
            device=chosen,
            tile=tile,
            compare=compare,
            force=force,
            progress=show,
        ),
        describe,
    )


def upscale(
    inputs: Inputs,
    output: Output,
    scale: Annotated[
        int | None,
        typer.Option(
            help="How many times as high and wide: 2, 3, 4.",
            show_default="3, or what the model was trained for",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A network of fwnet models, or a file; by default one for the scale.",
        ),
    ] = None,
    device: Device = "auto",
    tile: Tile = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Write bicubic and this side by side: OUT-compare.png."),
    ] = False,
    force: Force = False,
) -> None:
    """Enlarge images with a trained network, whatever their size and format."""
    from fwnet.imaging import upscale_files

    chosen = chosen_device(device)

    def describe(file: UpscaledFile) -> str:
        before = f"{file.width // file.scale} × {file.height // file.scale}"
        return f"{before} to {file.width} × {file.height}"

    _run(
        lambda show: upscale_files(
            inputs,
            output,
            scale=scale,
            model=model,
            device=chosen,
            tile=tile,
            compare=compare,
            force=force,
            progress=show,
        ),
        describe,
    )


def _run(
    work: Callable[[Callable[[FileProgress], None]], Iterator[Finished | FailedFile]],
    describe: Callable[[Finished], str],
) -> None:
    """Do the work, with a line for every file, and end with the exit code that it has earned."""
    from fwnet.imaging import FailedFile

    num_done = num_failed = 0
    try:
        with _pixel_progress() as show:
            for outcome in work(show):
                if isinstance(outcome, FailedFile):
                    num_failed += 1
                    say(f"Error: {outcome.reason}")
                else:
                    num_done += 1
                    _print_file(outcome, describe(outcome))
    except ValueError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        files = "1 file is" if num_done == 1 else f"{num_done} files are"
        say(f"Stopped. {files} done.")
        raise typer.Exit(130) from error
    if num_failed:
        raise typer.Exit(2)


def _print_file(file: FinishedFile, words: str) -> None:
    """Say in a line what became of a file, and on stderr what did not."""
    for note in file.notes:
        say(f"Warning: {file.source}: {note}.")
    places = " and ".join(str(path) for path in (file.place, file.compared) if path is not None)
    print_lines([f"{file.source}: {words}, {file.seconds:.1f} s, written to {places}"])


@contextmanager
def _pixel_progress() -> Iterator[Callable[[FileProgress], None]]:
    """A bar on stderr for every file, while it is at work: megapixels done, remaining time."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[size]}"),
        TimeRemainingColumn(),
    )
    # Lines for stdout must get there, and find no bar in their way: it comes and goes.
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    task = bar.add_task("", total=1, size="")

    def show(progress: FileProgress) -> None:
        done, pixels = progress.pixels_done, progress.pixels
        if not console.is_terminal:
            return
        if done >= pixels:
            clear()
            return
        if not bar.live.is_started:
            count = f" ({progress.index + 1} of {progress.count})" if progress.count > 1 else ""
            bar.reset(task, total=pixels, description=f"{progress.source.name}{count}")
            bar.start()
        size = f"{done / 1e6:.1f} of {pixels / 1e6:.1f} megapixels"
        bar.update(task, completed=done, size=size)

    def clear() -> None:
        if bar.live.is_started:
            bar.stop()

    try:
        yield show
    finally:
        clear()
