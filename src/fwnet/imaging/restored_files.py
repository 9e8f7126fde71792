"""`restore_files`: image files restored one by one, behind `fwnet denoise` and `fwnet upscale`."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fwnet.checks import check_integer
from fwnet.engine import Engine, Lost
from fwnet.files import remove_unfinished
from fwnet.hardware import is_out_of_memory
from fwnet.imaging.file_lists import Job, files_in_words, is_file, list_jobs
from fwnet.imaging.image_files import (
    ImageFile,
    check_size,
    is_tiff_suffix,
    one_line,
    only_first,
    read_image,
    write_image,
    write_pages,
    write_whole,
)
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import ImageError, Pixels, with_bits
from fwnet.imaging.preview import preview, side_by_side
from fwnet.imaging.restorer import Restored, Restorer
from fwnet.imaging.stored_images import StoredJob, list_stored_jobs
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.restoration import Restoration
from fwnet.stores import StoredFile, is_url
from fwnet.zoo import load_trained

SMALLEST_TILE = 32  # a halo of 17 pixels around 8 × 8 takes 28 times the work, around 32 × 32 four


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
    seconds: float
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
    skip_existing: bool = False,
    engine: Engine | None = None,
    progress: ProgressCallback = silent,
    warn: Callable[[str], object] = lambda _: None,
    **asked: Any,
) -> Iterator[RestoredFile | FailedFile]:
    """Restore files, and yield the outcome of each: one after the other, or as an engine has them.

    A result is written whole or not at all. A file that fails does not stop the others; wrong
    arguments, and a model that cannot be loaded, raise an error before the first file.

    Args:
        kind: A class of restorations, such as `Denoising`.
        inputs: Files, folders and patterns; see `list_jobs` for the names of results. If one of
            them or `output` is a URL that fsspec knows, see `list_stored_jobs`.
        output: A file, or a folder; for URLs always a folder.
        model: A name or a path, see `Restorer`.
        device: See `Restorer`.
        tile: See `Restorer`; at least 32.
        compare: Also write before and after side by side, as NAME-compare.png, or as
            NAME.SUFFIX-compare.png where another file has that name.
        force: Overwrite existing files.
        skip_existing: Leave existing files alone, and do only those whose result is missing.
        engine: Where the work runs; default: in this process. See `fwnet.ray.RayEngine`.
        progress: Called after every tile; with an engine, after every file.
        warn: Called with a line about files that are skipped, or an argument that is not used.
        asked: `sigma` on the scale of [0, 1], or `scale`.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from fwnet.restoration import Denoising
    >>> Path("photos").mkdir()
    >>> Image.new("L", (32, 32), 128).save("photos/sea.png")
    >>> for done in fwnet.imaging.restore_files(Denoising, ["photos"], "clean", sigma=25 / 255):
    ...     print(done.place.as_posix(), done.width, done.height)
    clean/sea.png 32 32
    """
    if force and skip_existing:
        raise ImageError("expected --force or --skip-existing, got both")
    if tile is not None:
        check_integer("tile", tile, SMALLEST_TILE)
    jobs: Sequence[Job | StoredJob]
    if any(map(is_url, (*inputs, output))):
        if compare:
            raise ImageError("--compare is for paths, got a URL")
        jobs = list_stored_jobs(inputs, output)
    else:
        jobs = list_jobs(inputs, output, compare=compare, warn=warn)
        remove_unfinished(path for job in jobs for path in (job.place, job.compared) if path)
    options = {"model": model, "tile": tile, **asked}
    if engine is not None and model is not None:
        options["model"] = load_trained(model)  # other machines may not have the file
    # With an engine this one works on no image; it checks the arguments before the work.
    restorer = Restorer(kind, device="cpu" if engine else device, **options)
    if restorer.unused_sigma_hint:
        warn(f"Hint: {restorer.unused_sigma_hint}.")
    if skip_existing:
        missing = [job for job in jobs if job.problem is not None or not job.exists]
        if count := len(jobs) - len(missing):
            warn(f"{files_in_words(count)} skipped: existing results are kept.")
        jobs = [
            replace(job, compared=None)
            if isinstance(job, Job) and job.compared and is_file(job.compared)
            else job
            for job in missing
        ]
    if engine is not None:
        yield from _run_elsewhere(engine, jobs, kind, device, options, force, progress)
        return
    for index, job in enumerate(jobs):
        number = f" ({index + 1} of {len(jobs)})" if len(jobs) > 1 else ""
        yield _outcome(job, restorer, force, f"{job.source.name}{number}", progress)


def _outcome(
    job: Job | StoredJob, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile | FailedFile:
    try:
        job.check(force)
        if isinstance(job, StoredJob):
            with job.here() as paths:
                local = Job(*paths)
                return _as_given(job, local, _outcome(local, restorer, True, stage, progress))
        with _reported_memory(job.source):
            return _restore(job, restorer, force, stage, progress)
    except ImageError as error:
        return FailedFile(job.source, str(error))
    except OSError as error:  # of a store
        if isinstance(job, Job):
            raise
        return FailedFile(job.source, f"{job.source}: {one_line(error)}")


@dataclass(frozen=True)
class RestoreFile:
    """Restores the file of a job. It can be pickled; every process loads the network once.

    It overwrites: a process that died after it had written a result is followed by another.
    """

    kind: type[Restoration]
    device: torch.device
    options: dict[str, Any]

    @cached_property
    def restorer(self) -> Restorer:
        """The network on its device."""
        return Restorer(self.kind, device=self.device, **self.options)

    def __call__(self, job: Job | StoredJob) -> RestoredFile | FailedFile:
        """Return the outcome of a job."""
        return _outcome(job, self.restorer, True, job.source.name, silent)


def _run_elsewhere(
    engine: Engine,
    jobs: Sequence[Job | StoredJob],
    kind: type[Restoration],
    device: str | torch.device | None,
    options: dict[str, Any],
    force: bool,
    progress: ProgressCallback,
) -> Iterator[RestoredFile | FailedFile]:
    """Yield what can be said before the work, then outcomes as they come."""
    ready = []
    for job in jobs:
        try:
            job.check(force)
            ready.append(job)
        except ImageError as error:
            yield FailedFile(job.source, str(error))
    work = RestoreFile(kind, engine.choose_device(device), options)
    progress(Progress("restoring", 0, len(ready), "files"))
    # Other processes work in other folders.
    given = {job.absolute() if isinstance(job, Job) else job: job for job in ready}
    for count, (job, result) in enumerate(engine.each(work, given), 1):
        progress(Progress("restoring", count, len(ready), "files"))
        yield _as_given(given[job], job, result)


def _as_given(
    job: Job | StoredJob, sent: Job | StoredJob, result: RestoredFile | FailedFile | Lost
) -> RestoredFile | FailedFile:
    """Return the outcome with the paths that the user gave."""
    if isinstance(result, Lost):
        return FailedFile(job.source, f"{job.source}: {result.reason}")
    if isinstance(result, RestoredFile):
        compared = job.compared if isinstance(job, Job) else None
        return replace(result, source=job.source, place=job.place, compared=compared)
    reason = result.reason.replace(str(sent.source), str(job.source))
    return FailedFile(job.source, reason.replace(str(sent.place), str(job.place)))


@contextmanager
def _reported_memory(source: Path) -> Iterator[None]:
    """Turn errors about too little memory into those of the file."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        whole = isinstance(error, MemoryError)  # of NumPy, which holds the result
        remedy = "the whole result must fit" if whole else "try a smaller --tile"
        raise ImageError(f"{source}: there is not enough memory: {remedy}") from error


def _restore(
    job: Job, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile:
    start = time.monotonic()
    read = read_image(job.source)
    if restorer.asked.get("preview"):
        sigma = restorer.noise_level(read.pixels)
        sheet = preview(restorer, read.pixels, read.about, sigma)
        write_image(job.place, Pixels.of_pillow(sheet), Metadata(), replace=force)
        known = "estimated" if restorer.asked.get("sigma") is None else "given"
        words = "preview" if sigma is None else f"preview, sigma {255 * sigma:.1f} ({known})"
        seconds = time.monotonic() - start
        return RestoredFile(job.source, job.place, *sheet.size, words, sigma, seconds)
    count = len(read.pages) if is_tiff_suffix(job.place) else 1

    def restored_page(number: int, read: ImageFile) -> tuple[Restored, Metadata]:
        words = f"{stage}, page {number} of {count}" if count > 1 else stage
        return _restored(job, read, restorer, words, progress)

    def other_pages() -> Iterator[tuple[Pixels, Metadata]]:
        for number, page in enumerate(read.pages[1:], 2):
            with _reported_memory(job.source):
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
        time.monotonic() - start,
        tuple(notes),
        job.compared,
    )


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
    """Write before and after side by side in 8 bits on white, turned as a viewer shows them."""
    views = []
    for colors in (before, after.colors):
        view = Pixels(with_bits(colors, 8)).pillow()
        if after.alpha is not None:
            cover = Pixels(with_bits(after.alpha, 8)[..., None]).pillow()
            view = Image.composite(view, Image.new(view.mode, view.size, "white"), cover)
        views.append(about.turned(view))
    sheet = side_by_side(views, ["before", "after"])
    options = {"icc_profile": about.profile} if about.profile else {}
    write_whole(place, lambda file: sheet.save(file, format="PNG", **options), replace=force)
