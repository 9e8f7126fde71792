"""`upscale_files`: image files from small to large, behind `fwnet upscale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from fwnet.imaging.file_lists import list_jobs
from fwnet.imaging.file_runs import Change, FailedFile, FileProgress, FinishedFile, run_on_files
from fwnet.imaging.image_files import ImageFile
from fwnet.imaging.upscaler import Upscaler

__all__ = ["UpscaledFile", "upscale_files"]


@dataclass(frozen=True, kw_only=True)
class UpscaledFile(FinishedFile):
    """A file that is done.

    Attributes:
        scale: How many times as high and wide as the image the result is.
    """

    scale: int


def upscale_files(
    inputs: Sequence[str],
    output: str,
    *,
    scale: int | None = None,
    model: str | Path | None = None,
    device: str | torch.device | None = None,
    tile: int | None = None,
    compare: bool = False,
    force: bool = False,
    progress: Callable[[FileProgress], None] | None = None,
) -> Iterator[UpscaledFile | FailedFile]:
    """Enlarge files one after the other, and yield what became of each.

    A result is there whole or not at all. What is wrong with one file does not keep the others
    from being done; what is wrong with the arguments raises `ImageError`, or the error of a model
    that cannot be loaded, before the work.

    Args:
        inputs: Files, folders and patterns; see `list_jobs` for where each of them goes.
        output: A file, or a folder.
        scale: How many times as high and wide images become; None leaves it to the model, and
            stands for 3 without one.
        model: A name of `fwnet.list_models` or a path; see `fwnet.upscale`.
        device: Where to compute.
        tile: The side of the tiles that large images are cut into, in pixels of the small image.
        compare: Whether to write what bicubic interpolation makes of the image and the result side
            by side, too, as NAME-compare.png, or as NAME.SUFFIX-compare.png where another file has
            that name.
        force: Whether files that exist may be overwritten.
        progress: Called with a `FileProgress` after every tile.
    """
    jobs = list_jobs(inputs, output, compare=compare)
    upscaler = Upscaler(model, scale, device=device, tile=tile)

    def enlarge(read: ImageFile, tell: Callable[[int, int], None]) -> Change[UpscaledFile]:
        large = upscaler.run(read.pixels, tell)
        height, width = large.colors.shape[:2]
        return Change(
            large,
            read.about.enlarged(width, height, upscaler.scale),
            before=lambda: upscaler.enlarge_bicubic(read.pixels.colors),
            report=partial(UpscaledFile, scale=upscaler.scale),
        )

    yield from run_on_files(jobs, enlarge, scale=upscaler.scale, force=force, progress=progress)
