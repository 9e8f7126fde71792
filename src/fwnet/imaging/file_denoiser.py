"""`denoise_files`: image files from noisy to clean, behind `fwnet denoise`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fwnet.imaging.denoiser import Denoiser, checked_sigma
from fwnet.imaging.errors import ImageError
from fwnet.imaging.file_lists import Job, list_jobs
from fwnet.imaging.image_files import read_image, write_image, write_whole
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, as_unit_range

__all__ = ["DenoiseProgress", "DenoisedFile", "FailedFile", "denoise_files"]


@dataclass(frozen=True)
class DenoiseProgress:
    """How far the work is.

    Attributes:
        source: The file at work.
        index: Its number, from 0.
        count: How many files there are.
        pixels_done: How many of its pixels are done.
        pixels: How many it has.
    """

    source: Path
    index: int
    count: int
    pixels_done: int
    pixels: int


@dataclass(frozen=True)
class DenoisedFile:
    """A file that is done.

    Attributes:
        source: Where it came from.
        place: Where the result is.
        width: In pixels.
        height: In pixels.
        sigma: The noise that the network was told, in [0, 1]; None for one that is not told any.
        estimated: Whether sigma is an estimate.
        seconds: How long it took, reading and writing included.
        notes: What of the image was not read, or could not be written, in words.
        compared: Where the picture of before and after is.
    """

    source: Path
    place: Path
    width: int
    height: int
    sigma: float | None
    estimated: bool
    seconds: float
    notes: tuple[str, ...] = ()
    compared: Path | None = None


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be done, and why, in one line that names it."""

    source: Path
    reason: str


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
    progress: Callable[[DenoiseProgress], None] | None = None,
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
        progress: Called with a `DenoiseProgress` after every tile.
    """
    sigma = checked_sigma(sigma)
    jobs = list_jobs(inputs, output, compare=compare)
    denoiser = Denoiser(model, device=device, tile=tile)
    for index, job in enumerate(jobs):

        def tell(done: int, pixels: int, index: int = index, job: Job = job) -> None:
            if progress is not None:
                progress(DenoiseProgress(job.source, index, len(jobs), done, pixels))

        outcome: DenoisedFile | FailedFile
        try:
            if job.problem is not None:
                raise ImageError(job.problem)
            outcome = _denoise_file(job, denoiser, sigma, force, tell)
        except ImageError as error:
            outcome = FailedFile(job.source, str(error))
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            reason = f"{job.source}: there is not enough memory: try a smaller --tile"
            outcome = FailedFile(job.source, reason)
        yield outcome


def _denoise_file(
    job: Job,
    denoiser: Denoiser,
    sigma: float | None,
    force: bool,
    tell: Callable[[int, int], None],
) -> DenoisedFile:
    start = time.monotonic()
    for place in (job.place, job.compared):
        if place is not None:
            _check_place(place, force)
    read = read_image(job.source)
    height, width = read.pixels.colors.shape[:2]
    tell(0, height * width)
    try:
        found = denoiser.run(read.pixels, sigma, tell)
    except ValueError as error:
        raise ImageError(f"{job.source}: {' '.join(str(error).split())}") from error
    notes = write_image(job.place, Pixels(found.colors, read.pixels.alpha), read.about)
    if job.compared is not None:
        _write_comparison(job.compared, read.pixels.colors, found.colors, read.about)
    return DenoisedFile(
        job.source,
        job.place,
        width,
        height,
        found.sigma,
        estimated=sigma is None and found.sigma is not None,
        seconds=time.monotonic() - start,
        notes=(*read.notes, *notes),
        compared=job.compared,
    )


def _check_place(place: Path, force: bool) -> None:
    """Find out before the work whether its result can be written; make the folder for it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        exists, is_file = place.exists(), place.is_file()
    except OSError as error:
        raise ImageError(f"cannot write {place}: {error.strerror}") from error
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise ImageError(f"cannot write {place}: no permission in {place.parent}")
    if exists and not is_file:
        raise ImageError(f"cannot write {place}: it exists and is not a file")
    if exists and not force:
        raise ImageError(f"{place} exists; overwrite it with --force")


def _write_comparison(place: Path, before: np.ndarray, after: np.ndarray, about: Metadata) -> None:
    """Write before and after side by side, as a viewer shows them, in 8 bits."""
    views = [about.turned(Pixels(_in_eight_bits(colors)).pillow()) for colors in (before, after)]
    sheet = Image.new(views[0].mode, (2 * views[0].width, views[0].height))
    for index, view in enumerate(views):
        sheet.paste(view, (index * view.width, 0))
    options = {"icc_profile": about.profile} if about.profile else {}
    write_whole(place, lambda file: sheet.save(file, format="PNG", **options))


def _in_eight_bits(colors: np.ndarray) -> np.ndarray:
    if colors.dtype == np.uint8:
        return colors
    whole: np.ndarray = np.rint(as_unit_range(colors).clip(0, 1) * 255)
    return whole.astype(np.uint8)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that; on a CPU, torch has no class of its own for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "DefaultCPUAllocator" in str(error) or "not enough memory" in str(error)
