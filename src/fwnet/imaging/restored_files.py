"""`restore_files`: image files restored one by one, behind `fwnet denoise` and `fwnet upscale`."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from fwnet.checks import check_integer
from fwnet.engine import Engine, Lost
from fwnet.files import remove_unfinished, resolved
from fwnet.imaging.file_lists import Job, files_in_words, is_file, list_jobs
from fwnet.imaging.image_files import one_line
from fwnet.imaging.one_file import FailedFile, RestoredFile, reported_memory, restore_file
from fwnet.imaging.pixels import ImageError
from fwnet.imaging.restorer import Restorer
from fwnet.imaging.stored_images import StoredJob, list_stored_jobs
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.restoration import Restoration
from fwnet.stores import is_url
from fwnet.zoo import load_trained

SMALLEST_TILE = 32  # a halo of 17 pixels around 8 × 8 takes 28 times the work, around 32 × 32 four


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
    if asked.get("preview") and (compare or asked.get("strength", 1) != 1):
        other = "--compare" if compare else "--strength"
        raise ImageError(f"expected --preview or {other}, got both")
    for name in kind.choices:
        if model is not None and asked.get(name) not in (None, False):
            raise ImageError(f"expected --{name} or --model, got both")
    if tile is not None:
        check_integer("tile", tile, SMALLEST_TILE)
    jobs: Sequence[Job | StoredJob]
    if any(map(is_url, (*inputs, output))):
        if compare:
            raise ImageError("--compare is for paths, got a URL")
        jobs = list_stored_jobs(inputs, output)
    else:
        if not force and not skip_existing:
            _check_folders(inputs, output)
        jobs = list_jobs(inputs, output, compare=compare, warn=warn)
        if asked.get("preview"):
            jobs = _previews(jobs, output)
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
            replace(job, compared=None) if job.compared and is_file(job.compared) else job
            for job in missing
        ]
    if engine is not None:
        yield from _run_elsewhere(engine, jobs, kind, device, options, force, progress)
        return
    for index, job in enumerate(jobs):
        number = f" ({index + 1} of {len(jobs)})" if len(jobs) > 1 else ""
        yield _outcome(job, restorer, force, f"{job.source.name}{number}", progress)


def _check_folders(inputs: Sequence[str], output: str) -> None:
    """Raise before the first file if images would be replaced by their results."""
    for text in inputs:
        if os.path.isdir(text) and resolved(Path(text)) == resolved(Path(output)):  # noqa: PTH112
            raise ImageError(
                f"{output} is the folder of the images: choose another OUT; "
                "--force would replace them"
            )


def _previews(jobs: Sequence[Job], output: str) -> list[Job]:
    """Name previews in folders NAME-preview.png, as they are no results."""
    count = Counter(job.place.with_suffix("") for job in jobs if job.problem is None)

    def named(job: Job) -> Job:
        if job.problem is not None or job.place == Path(output):
            return job
        name = job.place.stem if count[job.place.with_suffix("")] == 1 else job.place.name
        return replace(job, place=job.place.with_name(f"{name}-preview.png"))

    return [named(job) for job in jobs]


def _outcome(
    job: Job | StoredJob, restorer: Restorer, force: bool, stage: str, progress: ProgressCallback
) -> RestoredFile | FailedFile:
    local: Job | StoredJob = job
    try:
        job.check(force)
        with job.here() as local, reported_memory(job.source):
            is_copy = local is not job
            done = restore_file(local, restorer, force or is_copy, stage, progress)
            return _as_given(job, local, done)
    except ImageError as error:
        return _as_given(job, local, FailedFile(local.source, str(error)))
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
    given = {job.absolute(): job for job in ready}
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
        compared = job.compared if result.compared else None
        return replace(result, source=job.source, place=job.place, compared=compared)
    reason = result.reason.replace(str(sent.source), str(job.source))
    return FailedFile(job.source, reason.replace(str(sent.place), str(job.place)))
