"""Which image files are meant, and where their results go."""

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fwnet.files import resolved, why_not_readable, why_not_writable
from fwnet.imaging.formats import (
    RAW_PROBLEM,
    check_suffix,
    is_raw_suffix,
    is_readable_suffix,
    is_writable_suffix,
)
from fwnet.imaging.image_files import existing
from fwnet.imaging.pixels import ImageError

SIDECARS = (".aae", ".db", ".dop", ".ini", ".pp3", ".thm", ".xmp")  # of cameras and programs
NAMES_SHOWN = 5


@dataclass(frozen=True)
class Job:
    """One file to work on.

    Attributes:
        source: The file.
        place: The file of its result.
        problem: Why it cannot be done, if so.
        compared: The file of the picture of before and after, if one is wanted.
    """

    source: Path
    place: Path
    problem: str | None = None
    compared: Path | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a result already, and the file it was made of."""
        return is_file(self.place) and is_file(self.source)

    def check(self, force: bool) -> None:
        """Raise if it cannot be done, or its result not written; make the folder for the result."""
        if self.problem is not None:
            raise ImageError(self.problem)
        if problem := why_not_readable(self.source):
            raise ImageError(f"{self.source} {problem}")
        if not force and is_file(self.place) and resolved(self.place) == resolved(self.source):
            raise ImageError(
                f"{self.place} is the input itself: choose another OUT; --force would replace it"
            )
        for place in (self.place, self.compared):
            if place is not None:
                _check_place(place, force)

    @contextmanager
    def here(self) -> Iterator["Job"]:
        """Yield a job whose files are on this machine: this one."""
        yield self

    def absolute(self) -> "Job":
        """Return the same job for a process that works in another folder."""
        compared = self.compared and self.compared.absolute()
        return Job(self.source.absolute(), self.place.absolute(), self.problem, compared)


def list_jobs(
    inputs: Sequence[str],
    output: str,
    *,
    compare: bool = False,
    warn: Callable[[str], object] = lambda _: None,
) -> list[Job]:
    """Find the files of the inputs, and a place for the result of each.

    The result of one file is `output`, or has the name of the file if `output` is a folder. Other
    results go into a folder, which is made if needed: files keep their names, files in a folder
    their relative paths; with several inputs, a folder also keeps its own name. A file in a format
    that cannot be written becomes a .png: x.gif becomes x.png, or x.gif.png if others go there.

    Args:
        inputs: Files, folders, and patterns such as "*.png".
        output: A file or a folder. A name that ends in a slash is a folder.
        compare: Whether a picture of before and after is wanted: NAME-compare.png, or
            NAME.SUFFIX-compare.png where several files would have that name.
        warn: Called with a line about files of folders that are not images.
    """
    target = Path(output)
    is_folder = _is_folder(target) or output.endswith(("/", os.sep))
    if len(inputs) == 1 and not _is_pattern(inputs[0]) and not _is_folder(Path(inputs[0])):
        source = Path(inputs[0])
        if is_folder:
            target /= _written_name(source).name
        check_suffix(target)
        jobs = [Job(source, target)]
    elif _exists(target) and not _is_folder(target):
        raise ImageError(f"several files go into a folder, and {target} is a file")
    elif is_readable_suffix(target) and not is_folder:
        raise ImageError(
            f"several files go into a folder, and {target} is named like an image; a folder of "
            f"that name is {target}/"
        )
    else:
        skipped: list[Path] = []
        found = [_find(text, target, len(inputs) == 1, skipped) for text in inputs]
        jobs = list(_without_clashes([job for some in found for job in some]))
        if skipped:
            warn(_skipped_line(skipped))
    return _with_comparisons(jobs) if compare else jobs


def _skipped_line(skipped: list[Path]) -> str:
    names = ", ".join(map(str, skipped[:NAMES_SHOWN]))
    more = len(skipped) - NAMES_SHOWN
    names += f" and {more} more" if more > 0 else ""
    hint = f" ({RAW_PROBLEM})" if any(map(is_raw_suffix, skipped)) else ""
    kind = "not named as an image" if len(skipped) == 1 else "not named as images"
    return f"{files_in_words(len(skipped))} skipped, {kind}: {names}{hint}."


def files_in_words(count: int) -> str:
    """Return "1 file" or "2 files"."""
    return "1 file" if count == 1 else f"{count} files"


def _find(text: str, target: Path, alone: bool, skipped: list[Path]) -> Iterator[Job]:
    """Yield the files of an input; add those of folders that are not images to `skipped`."""
    paths = [Path(text)]
    if _is_pattern(text):
        alone = False
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207, for absolute patterns
        paths = [Path(match) for match in matches]
        if not paths:
            yield Job(Path(text), target, f"no file matches {text}")
    for path in paths:
        if not _is_folder(path):
            yield Job(path, target / _written_name(path).name)
            continue
        unlisted: list[OSError] = []
        files = [file.relative_to(path) for file in _files_below(path, target, unlisted.append)]
        for error in unlisted:
            folder = Path(error.filename)
            yield Job(folder, target, f"{folder} cannot be read: {error.strerror}")
        images = [file for file in files if is_readable_suffix(file)]
        skipped += (file for file in files if not is_readable_suffix(file))
        if not images and not unlisted:
            yield Job(path, target, f"{path} has no images in it")
        base = target if alone else target / resolved(path).name
        for file in images:
            yield Job(path / file, base / _written_name(file))


def _files_below(folder: Path, target: Path, report: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the files of a folder, sorted, without hidden ones, sidecars and earlier results.

    `report` is called for folders that cannot be listed.
    """
    results = resolved(target)
    for root, folders, names in os.walk(folder, onerror=report):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and resolved(here / name) != results
        )
        for name in sorted(names):
            if not name.startswith(".") and not name.lower().endswith(SIDECARS):
                yield here / name


def _without_clashes(jobs: list[Job]) -> Iterator[Job]:
    """Report a place that is used twice; drop a file that is named twice.

    Files that become a .png make way: a.gif becomes a.gif.png where another file becomes a.png.
    """
    good = [(resolved(job.place), job.source) for job in jobs if job.problem is None]
    wanted = Counter(place for place, _ in {(place, resolved(path)) for place, path in good})
    taken = {place: path for place, path in reversed(good) if is_writable_suffix(path)}
    for job in jobs:
        if job.problem is not None:
            yield job
            continue
        if wanted[resolved(job.place)] > 1 and not is_writable_suffix(job.source):
            job = replace(job, place=job.place.with_name(f"{job.source.name}.png"))
        first = taken.setdefault(resolved(job.place), job.source)
        if first is job.source:
            yield job
        elif resolved(first) != resolved(job.source):
            problem = f"{job.source} would go to {job.place}, as {first} does"
            yield replace(job, problem=problem)


def _with_comparisons(jobs: list[Job]) -> list[Job]:
    """Give each file an unused place for the picture of before and after."""
    wanted = Counter(resolved(compare_path(job.place)) for job in jobs if job.problem is None)
    taken = {resolved(path): job for job in jobs for path in (job.source, job.place)}
    settled = []
    for job in jobs:
        if job.problem is None:
            path = compare_path(job.place)
            if wanted[resolved(path)] > 1 or resolved(path) in taken:
                path = compare_path(job.place, with_suffix=True)
            if resolved(path) in taken:
                other = taken[resolved(path)].source
                problem = f"the comparison of {job.source} would go to {path}, which {other} needs"
                job = replace(job, problem=problem)
            else:
                taken[resolved(path)] = job
                job = replace(job, compared=path)
        settled.append(job)
    return settled


def compare_path(place: Path, *, with_suffix: bool = False) -> Path:
    """Return the place of the picture of before and after."""
    return place.with_name(f"{place.name if with_suffix else place.stem}-compare.png")


def _written_name(path: Path) -> Path:
    return path if is_writable_suffix(path) else path.with_suffix(".png")


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not _exists(Path(text))


# Paths that cannot be checked (a name too long, a folder without permission) count as not being
# folders, and are reported when they are read or written; pathlib would raise.


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path) -> bool:
    """Return whether there is a file."""
    return os.path.isfile(path)  # noqa: PTH113


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _check_place(place: Path, force: bool) -> None:
    """Raise before the work if its result cannot be written; make the folder for it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImageError(f"cannot write {place}: {error.strerror}") from error
    if problem := why_not_writable(place):
        raise ImageError(f"cannot write {place}: {problem}")
    if place.exists() and not force:
        raise existing(place)
