"""Images at URLs: found with fsspec, copied here to be restored, and the results copied there."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Self

from fwnet.imaging.file_lists import Job
from fwnet.imaging.formats import is_readable_suffix, is_writable_suffix
from fwnet.imaging.image_files import existing
from fwnet.imaging.pixels import ImageError
from fwnet.stores import Store, StoredFile, find_files


@dataclass(frozen=True)
class StoredJob:
    """One file to work on where it or its result is at a URL.

    Attributes:
        source: The file.
        place: The file of its result.
        problem: Why it cannot be done, if so.
        exists: Whether there is a result already.
        compared: None, as no picture of before and after is written to a URL.
    """

    source: Path | StoredFile
    place: Path | StoredFile
    problem: str | None = None
    exists: bool = False
    compared: None = None

    def check(self, force: bool) -> None:
        """Raise if it cannot be done, or the result exists."""
        if self.problem is not None:
            raise ImageError(self.problem)
        if self.exists and not force:
            raise existing(self.place)

    def absolute(self) -> Self:
        """Return the job: URLs are the same for every process."""
        return self

    @contextmanager
    def here(self) -> Iterator[Job]:
        """Yield a job with a copy of the file, whose result is copied to its place afterwards."""
        with TemporaryDirectory() as folder:
            source, place = (
                Path(folder) / kind / path.name
                for kind, path in (("in", self.source), ("out", self.place))
            )
            for path in (source, place):
                path.parent.mkdir()
            try:
                with self.source.open("rb") as far, source.open("wb") as near:
                    shutil.copyfileobj(far, near)
            except FileNotFoundError as error:
                raise ImageError(f"{self.source} does not exist") from error
            yield Job(source, place)
            if place.is_file():
                content = place.read_bytes()
                if isinstance(self.place, StoredFile):
                    self.place.write(content)
                else:
                    Store.at(self.place.parent).write(self.place.name, content)


def list_stored_jobs(inputs: Sequence[str], output: str) -> list[StoredJob]:
    """Find the images of URLs and paths; their results go into the folder `output`.

    Files of a folder or pattern keep their relative paths; with several inputs, a folder also keeps
    its own name. Of two files with the same place, the second is reported.
    """
    target, jobs = Store.at(output), []
    existing = set(target.names())  # asked once: a request per image would take days for millions
    taken: dict[str, StoredJob] = {}
    for text in inputs:
        store, names = find_files(text, lambda name: is_readable_suffix(Path(name)), [target])
        if not names:
            jobs.append(StoredJob(store.file(""), target.file(""), f"{text} has no images in it"))
        own = f"{Path(store.root).name}/" if len(inputs) > 1 < len(names) else ""
        for name in names:
            path = PurePosixPath(name)
            written = path if is_writable_suffix(Path(name)) else path.with_suffix(".png")
            result = f"{own}{written}"
            there = result in existing
            job = StoredJob(store.file(name), target.file(result), exists=there)
            first = taken.setdefault(str(job.place), job)
            problem = f"{job.source} would go to {job.place}, as {first.source} does"
            jobs.append(job if first is job else replace(job, problem=problem))
    return jobs
