"""Find input files, and the places of their results."""

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fwnet.imaging.errors import ImageError
from fwnet.imaging.image_files import check_suffix, is_readable_suffix, is_writable_suffix


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


def list_jobs(inputs: Sequence[str], output: str, *, compare: bool = False) -> list[Job]:
    """Find the files of the inputs, and a place for the result of each.

    The result of one file is `output`, or has the name of the file if `output` is a folder. Other
    results go into a folder, which is made if needed: files keep their names, files in a folder
    their relative paths; with several inputs, a folder also keeps its own name. A file in a format
    that cannot be written becomes a .png.

    Args:
        inputs: Files, folders, and patterns such as "*.png".
        output: A file or a folder. A name that ends in a slash is a folder.
        compare: Whether a picture of before and after is wanted: NAME-compare.png, or
            NAME.SUFFIX-compare.png where several files would have that name.
    """
    jobs = _list_results(inputs, output)
    return _with_comparisons(jobs) if compare else jobs


def _list_results(inputs: Sequence[str], output: str) -> list[Job]:
    target = Path(output)
    if len(inputs) == 1 and not _is_pattern(inputs[0]) and not _is_folder(Path(inputs[0])):
        source = Path(inputs[0])
        if _is_folder(target) or output.endswith(("/", os.sep)):
            return [Job(source, target / _written_name(source).name)]
        check_suffix(target)
        return [Job(source, target)]
    if _exists(target) and not _is_folder(target):
        raise ImageError(f"several files go into a folder, and {target} is a file")
    found = [pair for text in inputs for pair in _find(text, target, alone=len(inputs) == 1)]
    return list(_without_clashes(Job(file, target / name, why) for file, name, why in found))


def _with_comparisons(jobs: list[Job]) -> list[Job]:
    """Give each file an unused place for the picture of before and after."""
    wanted = Counter(_resolved(compare_path(job.place)) for job in jobs if job.problem is None)
    taken = {_resolved(path): job for job in jobs for path in (job.source, job.place)}
    settled = []
    for job in jobs:
        if job.problem is not None:
            settled.append(job)
            continue
        path = compare_path(job.place)
        if wanted[_resolved(path)] > 1 or _resolved(path) in taken:
            path = compare_path(job.place, with_suffix=True)
        if _resolved(path) in taken:
            other = taken[_resolved(path)].source
            problem = f"the comparison of {job.source} would go to {path}, which {other} needs"
            settled.append(replace(job, problem=problem))
            continue
        taken[_resolved(path)] = job
        settled.append(replace(job, compared=path))
    return settled


def compare_path(place: Path, *, with_suffix: bool = False) -> Path:
    """Return the place of the picture of before and after."""
    return place.with_name(f"{place.name if with_suffix else place.stem}-compare.png")


def _find(text: str, target: Path, alone: bool) -> Iterator[tuple[Path, Path, str | None]]:
    """Yield the files of an input, with their names below the output."""
    if _is_pattern(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207, for absolute patterns
        if not matches:
            yield Path(text), Path(), f"no file matches {text}"
        for match in matches:
            yield from _find_one(Path(match), target, alone=False)
    else:
        yield from _find_one(Path(text), target, alone)


def _find_one(path: Path, target: Path, alone: bool) -> Iterator[tuple[Path, Path, str | None]]:
    if not _is_folder(path):
        yield path, _written_name(Path(path.name)), None
        return
    files = list(_images_below(path, target))
    if not files:
        yield path, Path(), f"{path} has no images in it"
    base = Path() if alone else Path(_resolved(path).name)
    for file in files:
        yield file, base / _written_name(file.relative_to(path)), None


def _images_below(folder: Path, target: Path) -> Iterator[Path]:
    """Yield the images of a folder, sorted, without hidden files and earlier results."""
    results = _resolved(target)
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and _resolved(here / name) != results
        )
        for name in sorted(names):
            if not name.startswith(".") and is_readable_suffix(Path(name)):
                yield here / name


def _without_clashes(jobs: Iterator[Job]) -> Iterator[Job]:
    """Report a place that is used twice; drop a file that is named twice."""
    taken: dict[Path, Path] = {}
    for job in jobs:
        source, place = _resolved(job.source), _resolved(job.place)
        if job.problem is None and place in taken:
            if _resolved(taken[place]) == source:
                continue
            problem = f"{job.source} would go to {job.place}, as {taken[place]} does"
            yield Job(job.source, job.place, problem)
            continue
        if job.problem is None:
            taken[place] = job.source
        yield job


def _written_name(path: Path) -> Path:
    return path if is_writable_suffix(path) else path.with_suffix(".png")


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not _exists(Path(text))


# Paths that cannot be checked (a name too long, a folder without permission) are no folders here,
# and are reported when they are read or written; pathlib would raise.


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
