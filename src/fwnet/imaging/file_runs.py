"""Image files one after the other, whatever is done with them: read, changed, written, compared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from PIL import Image

from fwnet.imaging.errors import ImageError
from fwnet.imaging.file_lists import Job
from fwnet.imaging.image_files import ImageFile, check_size, read_image, write_image, write_whole
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, with_bits

__all__ = ["Change", "FailedFile", "FileProgress", "FinishedFile", "run_on_files"]


@dataclass(frozen=True)
class FileProgress:
    """How far the work is.

    Attributes:
        source: The file at work.
        index: Its number, from 0.
        count: How many files there are.
        pixels_done: How many pixels of its result are done.
        pixels: How many that has.
    """

    source: Path
    index: int
    count: int
    pixels_done: int
    pixels: int


@dataclass(frozen=True, kw_only=True)
class FinishedFile:
    """A file that is done.

    Attributes:
        source: Where it came from.
        place: Where the result is.
        width: Of the result, in pixels.
        height: The same.
        seconds: How long it took, reading and writing included.
        notes: What of the image was not read, or could not be written, in words.
        compared: Where the picture of before and after is.
    """

    source: Path
    place: Path
    width: int
    height: int
    seconds: float
    notes: tuple[str, ...] = ()
    compared: Path | None = None


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be done, and why, in one line that names it."""

    source: Path
    reason: str


Report = TypeVar("Report", bound=FinishedFile)


@dataclass(frozen=True)
class Change(Generic[Report]):
    """What an image becomes.

    Attributes:
        pixels: The result.
        about: What its file says of it.
        before: Makes the colors that are shown beside those of the result, of the same shape.
        report: Makes the report, given the fields of a `FinishedFile`.
    """

    pixels: Pixels
    about: Metadata
    before: Callable[[], np.ndarray]
    report: Callable[..., Report]


def run_on_files(
    jobs: Sequence[Job],
    change: Callable[[ImageFile, Callable[[int, int], None]], Change[Report]],
    *,
    scale: int = 1,
    force: bool = False,
    progress: Callable[[FileProgress], None] | None = None,
) -> Iterator[Report | FailedFile]:
    """Change files one after the other, and yield what became of each.

    A result is there whole or not at all. What is wrong with one file does not keep the others
    from being done.

    Args:
        jobs: The files, and where their results go.
        change: Makes an image of an image, and tells the pixels that are done, and all of them.
        scale: How many times as high and wide results are.
        force: Whether files that exist may be overwritten.
        progress: Called whenever `change` tells something.
    """
    for index, job in enumerate(jobs):

        def tell(done: int, pixels: int, index: int = index, job: Job = job) -> None:
            if progress is not None:
                progress(FileProgress(job.source, index, len(jobs), done, pixels))

        outcome: Report | FailedFile
        try:
            if job.problem is not None:
                raise ImageError(job.problem)
            outcome = _run(job, change, scale, force, tell)
        except ImageError as error:
            outcome = FailedFile(job.source, str(error))
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            # NumPy could not hold the result, or torch what a tile takes.
            whole = isinstance(error, MemoryError)
            remedy = "the whole result must fit" if whole else "try a smaller --tile"
            reason = f"{job.source}: there is not enough memory: {remedy}"
            outcome = FailedFile(job.source, reason)
        yield outcome


def _run(
    job: Job,
    change: Callable[[ImageFile, Callable[[int, int], None]], Change[Report]],
    scale: int,
    force: bool,
    tell: Callable[[int, int], None],
) -> Report:
    start = time.monotonic()
    for place in (job.place, job.compared):
        if place is not None:
            _check_place(place, force)
    read = read_image(job.source)
    height, width = (scale * length for length in read.pixels.colors.shape[:2])
    check_size(job.place, width, height)
    tell(0, height * width)
    try:
        changed = change(read, tell)
    except ValueError as error:
        raise ImageError(f"{job.source}: {' '.join(str(error).split())}") from error
    notes = write_image(job.place, changed.pixels, changed.about)
    if job.compared is not None:
        _write_comparison(job.compared, changed.before(), changed.pixels.colors, changed.about)
    return changed.report(
        source=job.source,
        place=job.place,
        width=width,
        height=height,
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
    views = [about.turned(Pixels(with_bits(colors, 8)).pillow()) for colors in (before, after)]
    sheet = Image.new(views[0].mode, (2 * views[0].width, views[0].height))
    for index, view in enumerate(views):
        sheet.paste(view, (index * view.width, 0))
    options = {"icc_profile": about.profile} if about.profile else {}
    write_whole(place, lambda file: sheet.save(file, format="PNG", **options))


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that; on a CPU, torch has no class of its own for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "DefaultCPUAllocator" in str(error) or "not enough memory" in str(error)
