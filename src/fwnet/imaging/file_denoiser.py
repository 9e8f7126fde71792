"""`denoise_files`: image files from noisy to clean, behind `fwnet denoise`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from fwnet.imaging.denoiser import Denoiser, checked_sigma
from fwnet.imaging.file_lists import list_jobs
from fwnet.imaging.file_runs import Change, FailedFile, FileProgress, FinishedFile, run_on_files
from fwnet.imaging.image_files import ImageFile
from fwnet.imaging.pixels import Pixels

__all__ = ["DenoisedFile", "denoise_files"]


@dataclass(frozen=True, kw_only=True)
class DenoisedFile(FinishedFile):
    """A file that is done.

    Attributes:
        sigma: The noise that the network was told, in [0, 1]; None for one that is not told any.
        estimated: Whether sigma is an estimate.
    """

    sigma: float | None
    estimated: bool


def denoise_files(
    inputs: Sequence[str],
    output: str,
    *,
    sigma: float | None = None,
    model: str | Path | None = None,
    device: str | torch.device | None = None,
    tile: int | None = None,
    compare: bool = False,
    force: bool = False,
    progress: Callable[[FileProgress], None] | None = None,
) -> Iterator[DenoisedFile | FailedFile]:
    """Denoise files one after the other, and yield what became of each.

    A result is there whole or not at all. What is wrong with one file does not keep the others
    from being done; what is wrong with the arguments raises `ImageError`, or the error of a model
    that cannot be loaded, before the work.

    Args:
        inputs: Files, folders and patterns; see `list_jobs` for where each of them goes.
        output: A file, or a folder.
        sigma: The standard deviation of the noise on the scale of [0, 1]; None has it estimated
            for every file.
        model: A name of `fwnet.list_models` or a path; see `fwnet.denoise`.
        device: Where to compute.
        tile: The side of the tiles that large images are cut into.
        compare: Whether to write before and after side by side, too, as NAME-compare.png, or as
            NAME.SUFFIX-compare.png where another file has that name.
        force: Whether files that exist may be overwritten.
        progress: Called with a `FileProgress` after every tile.
    """
    sigma = checked_sigma(sigma)
    jobs = list_jobs(inputs, output, compare=compare)
    denoiser = Denoiser(model, device=device, tile=tile)

    def clean(read: ImageFile, tell: Callable[[int, int], None]) -> Change[DenoisedFile]:
        found = denoiser.run(read.pixels, sigma, tell)
        estimated = sigma is None and found.sigma is not None
        return Change(
            Pixels(found.colors, read.pixels.alpha),
            read.about,
            before=lambda: read.pixels.colors,
            report=partial(DenoisedFile, sigma=found.sigma, estimated=estimated),
        )

    yield from run_on_files(jobs, clean, force=force, progress=progress)
