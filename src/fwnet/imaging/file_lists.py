"""Which files are meant, and where their results go."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fwnet.imaging.errors import ImageError
from fwnet.imaging.image_files import check_suffix, is_readable_suffix, is_writable_suffix

__all__ = ["Job", "compare_path", "list_jobs"]


@dataclass(frozen=True)
class Job:
    """One file to work on.

    Attributes:
        source: The file.
        place: Where its result goes.
        problem: Why it cannot be worked on, if so.
    """

    source: Path
    place: Path
    problem: str | None = None


def list_jobs(inputs: Sequence[str], output: str) -> list[Job]:
    """Find the files of the inputs, and a place for each.

    One file goes to `output`, or with its own name into it if that is a folder. All else goes into
    a folder, which need not exist: files by their names, those of a folder by their places in it;
    beside other inputs, a folder keeps its own name, too. A file in a format that is not written
    goes to a .png.

    Args:
        inputs: Files, folders, and patterns such as "*.png" that no shell has expanded.
        output: A file or a folder. A name that ends in a slash is a folder.
    """
    target = Path(output)
    if len(inputs) == 1 and not _is_pattern(inputs[0]) and not Path(inputs[0]).is_dir():
        source = Path(inputs[0])
        if target.is_dir() or output.endswith(("/", os.sep)):
            return [Job(source, target / _written_name(source).name)]
        check_suffix(target)
        return [Job(source, target)]
    if target.exists() and not target.is_dir():
        raise ImageError(f"several files go into a folder, and {target} is a file")
    found = [pair for text in inputs for pair in _find(text, target, alone=len(inputs) == 1)]
    return list(_without_clashes(Job(file, target / name, why) for file, name, why in found))


def compare_path(place: Path) -> Path:
    """Where the picture of before and after goes."""
    return place.with_name(f"{place.stem}-compare.png")


def _find(text: str, target: Path, alone: bool) -> Iterator[tuple[Path, Path, str | None]]:
    """Yield the files that an input stands for, with their names below the output."""
    if _is_pattern(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207, for absolute patterns
        if not matches:
            yield Path(text), Path(), f"no file matches {text}"
        for match in matches:
            yield from _find_one(Path(match), target, alone=False)
    else:
        yield from _find_one(Path(text), target, alone)


def _find_one(path: Path, target: Path, alone: bool) -> Iterator[tuple[Path, Path, str | None]]:
    if not path.is_dir():
        yield path, _written_name(Path(path.name)), None
        return
    files = list(_images_below(path, target))
    if not files:
        yield path, Path(), f"{path} has no images in it"
    base = Path() if alone else Path(path.resolve().name)
    for file in files:
        yield file, base / _written_name(file.relative_to(path)), None


def _images_below(folder: Path, target: Path) -> Iterator[Path]:
    """Yield the images of a folder, in order, but for hidden files and earlier results."""
    results = target.resolve()
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and (here / name).resolve() != results
        )
        for name in sorted(names):
            if not name.startswith(".") and is_readable_suffix(Path(name)):
                yield here / name


def _without_clashes(jobs: Iterator[Job]) -> Iterator[Job]:
    """Refuse a place that another file's result has already; drop a file that is named twice."""
    taken: dict[Path, Path] = {}
    for job in jobs:
        source, place = job.source.resolve(), job.place.resolve()
        if job.problem is None and place in taken:
            if taken[place].resolve() == source:
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
    return glob.has_magic(text) and not Path(text).exists()
