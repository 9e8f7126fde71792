"""Commands from image to image: `fwnet denoise`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import print_lines, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fwnet.imaging import DenoisedFile, DenoiseProgress

__all__ = ["DENOISE_NOTES", "denoise"]

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


def denoise(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IN...", help="Images: files, folders, patterns such as '*.png'."),
    ],
    output: Annotated[
        str,
        typer.Argument(metavar="OUT", help="A file for one image; else a folder, made if need be."),
    ],
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
    tile: Annotated[
        int | None,
        typer.Option(help="Side of the tiles of large images: smaller ones take less memory."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Write before and after side by side: OUT-compare.png."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Remove noise from images with a trained network, whatever their size and format."""
    from fwnet.imaging import FailedFile, denoise_files

    chosen = chosen_device(device)
    num_done = num_failed = 0
    try:
        if sigma is not None and not 0 <= sigma <= 255:
            raise ValueError(f"--sigma must be in [0, 255], got {sigma:g}")
        if sigma is not None and 0 < sigma < 1:
            say(f"Hint: --sigma is on the scale 0 to 255, where {sigma:g} is hardly any noise.")
        with _pixel_progress() as show:
            for outcome in denoise_files(
                inputs,
                output,
                sigma=None if sigma is None else sigma / 255,
                model=model,
                device=chosen,
                tile=tile,
                compare=compare,
                force=force,
                progress=show,
            ):
                if isinstance(outcome, FailedFile):
                    num_failed += 1
                    say(f"Error: {outcome.reason}")
                    continue
                if sigma is not None and outcome.sigma is None and not num_done:
                    say("Hint: this network serves one noise level; --sigma is not used.")
                num_done += 1
                _print_denoised(outcome)
    except ValueError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        files = "1 file is" if num_done == 1 else f"{num_done} files are"
        say(f"Stopped. {files} done.")
        raise typer.Exit(130) from error
    if num_failed:
        raise typer.Exit(2)


@contextmanager
def _pixel_progress() -> Iterator[Callable[[DenoiseProgress], None]]:
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

    def show(progress: DenoiseProgress) -> None:
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


def _print_denoised(file: DenoisedFile) -> None:
    """Say in a line what became of a file, and on stderr what did not."""
    for note in file.notes:
        say(f"Warning: {file.source}: {note}.")
    noise = "the noise that the network is made for"
    if file.sigma is not None:
        noise = f"sigma {255 * file.sigma:.1f} ({'estimated' if file.estimated else 'given'})"
    places = " and ".join(str(path) for path in (file.place, file.compared) if path is not None)
    size = f"{file.width} × {file.height}"
    line = f"{file.source}: {size}, {noise}, {file.seconds:.1f} s, written to {places}"
    print_lines([line])
