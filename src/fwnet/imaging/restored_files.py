"""`restore_files`: image files restored one by one, behind `fwnet denoise` and `fwnet upscale`."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fwnet.imaging.errors import ImageError
from fwnet.imaging.file_lists import Job, list_jobs
from fwnet.imaging.image_files import check_size, read_image, write_image, write_whole
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, with_bits
from fwnet.imaging.restorer import Restorer
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.restoration import Denoising, Restoration, Upscaling


@dataclass(frozen=True)
class RestoredFile:
    """A file that is done.

    Attributes:
        source: The input file.
        place: The file of the result.
        width: Width of the result in pixels.
        height: Height of the result in pixels.
        description: Size and noise level in words.
        sigma: The noise level given to the network; None for a network without that input.
        seconds: How long it took, with reading and writing.
        notes: What was not read or could not be written, in words.
        compared: The picture of before and after, if one was asked for.
    """

    source: Path
    place: Path
    width: int
    height: int
    description: str
    sigma: float | None
    seconds: float
    notes: tuple[str, ...] = ()
    compared: Path | None = None


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be restored, and the reason in one line that names it."""

    source: Path
    reason: str


def restore_files(
    kind: type[Restoration],
    inputs: Sequence[str],
    output: str,
    *,
    model: str | Path | None = None,
    device: str | torch.device | None = None,
    tile: int | None = None,
    compare: bool = False,
    force: bool = False,
    progress: ProgressCallback = silent,
    warn: Callable[[str], object] = lambda _: None,
    **asked: Any,
) -> Iterator[RestoredFile | FailedFile]:
    """Restore files one after the other, and yield the outcome of each.

    A result is written whole or not at all. A file that fails does not stop the others; wrong
    arguments, and a model that cannot be loaded, raise an error before the first file.

    Args:
        kind: A class of restorations, such as `Denoising`.
        inputs: Files, folders and patterns; see `list_jobs` for the names of results.
        output: A file, or a folder.
        model: A name from `fwnet.list_models` or a path; None for shipped networks.
        device: Where to compute; None for a CUDA device if there is one.
        tile: Side of the tiles that large images are cut into, in pixels of the image.
        compare: Also write before and after side by side, as NAME-compare.png, or as
            NAME.SUFFIX-compare.png where another file has that name.
        force: Overwrite existing files.
        progress: Called after every tile.
        warn: Called with a hint if an argument is not used.
        asked: `sigma` on the scale of [0, 1], or `scale`.
    """
    jobs = list_jobs(inputs, output, compare=compare)
    restorer = Restorer(kind, model, device=device, tile=tile, **asked)
    if restorer.unused:
        warn(restorer.unused)
    for index, job in enumerate(jobs):
        number = f" ({index + 1} of {len(jobs)})" if len(jobs) > 1 else ""
        yield _outcome(job, restorer, force, f"{job.source.name}{number}", progress)


denoise_files = partial(restore_files, Denoising)
upscale_files = partial(restore_files, Upscaling)


def _outcome(
    job: Job, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile | FailedFile:
    try:
        if job.problem is not None:
            raise ImageError(job.problem)
        return _restore(job, restorer, force, stage, progress)
    except ImageError as error:
        return FailedFile(job.source, str(error))
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        # NumPy could not hold the result, or torch a tile.
        whole = isinstance(error, MemoryError)
        remedy = "the whole result must fit" if whole else "try a smaller --tile"
        return FailedFile(job.source, f"{job.source}: there is not enough memory: {remedy}")


def _restore(
    job: Job, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile:
    start = time.monotonic()
    for place in (job.place, job.compared):
        if place is not None:
            _check_place(place, force)
    read = read_image(job.source)
    height, width = (restorer.scale * length for length in read.pixels.colors.shape[:2])
    check_size(job.place, width, height)
    progress(Progress(stage, 0, height * width, "pixels"))
    try:
        restored = restorer.run(read.pixels, progress, stage)
    except ValueError as error:
        raise ImageError(f"{job.source}: {' '.join(str(error).split())}") from error
    about = read.about
    if restorer.scale > 1:
        about = about.enlarged(width, height, restorer.scale)
    notes = write_image(job.place, restored.pixels, about)
    if job.compared is not None:
        before = restorer.baseline(read.pixels.colors)
        _write_comparison(job.compared, before, restored.pixels.colors, about)
    return RestoredFile(
        job.source,
        job.place,
        width,
        height,
        restored.restoration.describe(width, height, restored.sigma),
        restored.sigma,
        time.monotonic() - start,
        (*read.notes, *notes),
        job.compared,
    )


def _check_place(place: Path, force: bool) -> None:
    """Raise before the work if its result cannot be written; make the folder for it."""
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
    """Write before and after side by side in 8 bits, turned as a viewer shows them."""
    views = [about.turned(Pixels(with_bits(colors, 8)).pillow()) for colors in (before, after)]
    sheet = Image.new(views[0].mode, (2 * views[0].width, views[0].height))
    for index, view in enumerate(views):
        sheet.paste(view, (index * view.width, 0))
    options = {"icc_profile": about.profile} if about.profile else {}
    write_whole(place, lambda file: sheet.save(file, format="PNG", **options))


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; on a CPU, torch has no class of its own for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "DefaultCPUAllocator" in str(error) or "not enough memory" in str(error)
