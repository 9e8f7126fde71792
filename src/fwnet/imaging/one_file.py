"""One image file, restored: read, restored page by page, and written with its metadata."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fwnet.hardware import is_out_of_memory
from fwnet.imaging.file_lists import Job
from fwnet.imaging.formats import FORMATS, JPEG, check_size, is_tiff_suffix
from fwnet.imaging.image_files import (
    ImageFile,
    one_line,
    only_first,
    read_image,
    write_image,
    write_pages,
    write_whole,
)
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import ImageError, Pixels
from fwnet.imaging.preview import before_and_after, preview
from fwnet.imaging.restorer import Restored, Restorer
from fwnet.models.noise_level_net import BLOCK
from fwnet.progress import Progress, ProgressCallback
from fwnet.restoration.denoising import TOO_SMALL
from fwnet.stores import StoredFile


@dataclass(frozen=True)
class RestoredFile:
    """A file that is done.

    Attributes:
        source: The input file.
        place: The file of the result.
        width: Width of the result in pixels; of several pages, the first counts.
        height: Height of the result in pixels.
        description: Pages, size and noise level in words.
        sigma: The noise level given to the network; None for a network without that input.
        seconds: How long it took, with reading and writing.
        notes: What was not read or could not be written, in words.
        compared: The picture of before and after, if one was asked for.

    >>> import fwnet
    >>> from PIL import Image
    >>> from fwnet.restoration import Upscaling
    >>> Image.new("L", (32, 24)).save("small.png")
    >>> (done,) = fwnet.imaging.restore_files(Upscaling, ["small.png"], "large.png", scale=2)
    >>> done.place.name, done.width, done.height
    ('large.png', 64, 48)
    """

    source: Path | StoredFile
    place: Path | StoredFile
    width: int
    height: int
    description: str
    sigma: float | None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    compared: Path | None = None


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be restored, and the reason in one line that names it.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from fwnet.restoration import Denoising
    >>> _ = Path("bad.png").write_text("not an image")
    >>> (failed,) = fwnet.imaging.restore_files(Denoising, ["bad.png"], "clean.png")
    >>> type(failed).__name__, failed.source.name
    ('FailedFile', 'bad.png')
    """

    source: Path | StoredFile
    reason: str


@contextmanager
def reported_memory(source: Path | StoredFile) -> Iterator[None]:
    """Turn errors about too little memory into those of the file."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        whole = isinstance(error, MemoryError)  # of NumPy, which holds the result
        remedy = "the whole result must fit" if whole else "try a smaller --tile"
        raise ImageError(f"{source}: there is not enough memory: {remedy}") from error


def restore_file(
    job: Job, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile:
    """Restore a file; raise an `ImageError` that names it if that cannot be done."""
    start = time.monotonic()
    read = read_image(job.source)
    if restorer.asked.get("preview"):
        done = _write_preview(job, read, restorer, force)
    else:
        done = _write_result(job, read, restorer, force, stage, progress)
    return replace(done, seconds=time.monotonic() - start)


def _write_preview(job: Job, read: ImageFile, restorer: Restorer, force: bool) -> RestoredFile:
    sigma = restorer.noise_level(read.pixels)
    sheet = preview(restorer, read.pixels, read.about, sigma)
    write_image(job.place, Pixels.of_pillow(sheet), Metadata(), replace=force)
    known = "estimated" if restorer.asked.get("sigma") is None else "given"
    words = "preview" if sigma is None else f"preview, sigma {255 * sigma:.1f} ({known})"
    if sigma == 0 and known == "estimated":
        small = min(read.pixels.colors.shape[:2]) < BLOCK
        why = TOO_SMALL if small else "no noise found, or only texture (try --sigma 5)"
        words += f": {why}, so all five are alike"
    return RestoredFile(job.source, job.place, *sheet.size, words, sigma)


def _write_result(
    job: Job,
    read: ImageFile,
    restorer: Restorer,
    force: bool,
    stage: str,
    progress: ProgressCallback,
) -> RestoredFile:
    """Write all pages, and before and after if that is wanted."""
    count = len(read.pages) if is_tiff_suffix(job.place) else 1

    def restored_page(number: int, read: ImageFile) -> tuple[Restored, Metadata]:
        words = f"{stage}, page {number} of {count}" if count > 1 else stage
        return _restored(job, read, restorer, words, progress)

    def other_pages() -> Iterator[tuple[Pixels, Metadata]]:
        for number, page in enumerate(read.pages[1:], 2):
            with reported_memory(job.source):
                other, its = restored_page(number, read_image(job.source, page))
            yield other.pixels, its

    restored, about = restored_page(1, read)
    notes = list(read.notes)
    if job.compared is not None:  # first: where there is a result, the file is done
        before = restorer.baseline(read.pixels.colors)
        _write_comparison(job.compared, before, restored.pixels, about, force)
    try:
        if count > 1 or (is_tiff_suffix(job.place) and read.description is not None):
            num_bytes = count * restored.pixels.channels().nbytes
            pages = itertools.chain([(restored.pixels, about)], other_pages())
            write_pages(job.place, pages, num_bytes, read.description, replace=force)
        else:
            notes += [only_first(len(read.pages))] if len(read.pages) > 1 else []
            if _is_unchanged_jpeg(job.place, read.pixels, restored.pixels):
                original = job.source.read_bytes()  # compressing it again would change it
                write_whole(job.place, lambda file: file.write(original), replace=force)
            else:
                notes += write_image(job.place, restored.pixels, about, replace=force)
    except BaseException:
        if job.compared is not None:
            job.compared.unlink(missing_ok=True)
        raise
    height, width = restored.pixels.colors.shape[:2]
    words = restored.restoration.describe(width, height, restored.sigma)
    return RestoredFile(
        job.source,
        job.place,
        width,
        height,
        f"{count} pages, {words}" if count > 1 else words,
        restored.sigma,
        notes=tuple(notes),
        compared=job.compared,
    )


def _is_unchanged_jpeg(place: Path, before: Pixels, after: Pixels) -> bool:
    """Return whether a JPEG file would be written again with the same pixels."""
    to_jpeg = FORMATS[place.suffix.lower()] is JPEG
    return before.lossy and to_jpeg and np.array_equal(before.colors, after.colors)


def _restored(
    job: Job, read: ImageFile, restorer: Restorer, stage: str, progress: ProgressCallback
) -> tuple[Restored, Metadata]:
    """Return the result of one image and its metadata."""
    height, width = (restorer.scale * length for length in read.pixels.colors.shape[:2])
    check_size(job.place, width, height)
    progress(Progress(stage, 0, height * width, "pixels"))
    try:
        restored = restorer.run(read.pixels, progress, stage)
    except ValueError as error:
        raise ImageError(f"{job.source}: {one_line(error)}") from error
    about = read.about
    if restorer.scale > 1:
        about = about.enlarged(width, height, restorer.scale)
    return restored, about


def _write_comparison(
    place: Path, before: np.ndarray, after: Pixels, about: Metadata, force: bool
) -> None:
    sheet = before_and_after(before, after, about)
    options = {"icc_profile": about.profile} if about.profile else {}
    write_whole(place, lambda file: sheet.save(file, format="PNG", **options), replace=force)
