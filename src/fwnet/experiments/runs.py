"""Run many trainings: each once, several at a time, with finished ones kept in a file."""

import hashlib
import json
import multiprocessing
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Self

import torch

from fwnet.errors import FwnetError
from fwnet.hardware import hardware_name
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.version import __version__

Record = dict[str, Any]


class UnfinishedError(FwnetError):
    """A training is not finished, and only finished ones were asked for."""


@dataclass(frozen=True)
class Job(ABC):
    """A piece of work whose result depends only on its fields, which are JSON values."""

    @abstractmethod
    def execute(self, device: torch.device) -> Record:
        """Do the work and return its result as JSON values."""

    def execute_in(self, folder: Path | None, device: torch.device) -> Record:  # noqa: ARG002
        """Do the work with a folder for checkpoints."""
        return self.execute(device)

    @property
    def key(self) -> str:
        """The key of the result: a hash of version, class and fields."""
        text = json.dumps([__version__, type(self).__name__, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def execute(job: Job, folder: Path | None, device: torch.device) -> Record:
    """Execute a job in a process that may have executed others; its record has its origin."""
    torch.compiler.reset()  # torch limits how many networks a process compiles
    record: Record = rounded({**origin(device), **job.execute_in(folder, device)})
    return record


def origin(device: torch.device) -> dict[str, str]:
    """Return what a figure is measured with, and when: hardware, date, state of the code."""
    return {
        "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
        "state": _state(),
    }


@cache
def _state() -> str:
    """Return the version of fwnet, and in a clone the commit and whether files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        root = _printed([*git, "rev-parse", "--show-toplevel"])
        if not Path(__file__).is_relative_to(Path(root) / "src"):
            return __version__  # installed somewhere inside another project
        commit = _printed([*git, "rev-parse", "--short=8", "HEAD"])
        changes = _printed([*git, "status", "--porcelain", "--", root + "/src"])
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__}, commit {commit}" + (" with changes" if changes else "")


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def rounded(value: Any) -> Any:
    """Round all numbers of a JSON value to seven digits."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


class Runner(AbstractContextManager["Runner"]):
    """Execute jobs and keep their results in a file of JSON lines. Threads may share a runner.

    Args:
        device: Device that the jobs run on.
        num_workers: Jobs at the same time. With more than one, each has a process with one thread.
        cache: File of finished jobs; None keeps them only in memory. Weights of networks, and
            trainings that were stopped, are in the folder "networks" beside it.
        progress: Called after every job.
        finished_only: Raise `UnfinishedError` instead of executing anything.
    """

    def __init__(
        self,
        device: torch.device,
        num_workers: int = 1,
        cache: Path | None = None,
        progress: ProgressCallback = silent,
        finished_only: bool = False,
    ) -> None:
        self.finished_only = finished_only
        self.device, self.num_workers, self.cache = device, num_workers, cache
        self.progress = progress
        self.folder = None if cache is None else cache.parent / "networks"
        self._records: dict[str, Record] = {}
        self._asked: set[str] = set()
        self._lock = Lock()
        self._pool: Executor | None = None
        self._futures: dict[str, Future[Record]] = {}
        if cache is not None and cache.exists():
            text = cache.read_text(encoding="utf-8", errors="replace")
            if text and not text.endswith("\n"):  # a kill cut the last line short
                with cache.open("a", encoding="utf-8") as file:
                    file.write("\n")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    self._records[entry["key"]] = entry["record"]
                except (ValueError, KeyError, TypeError):
                    continue  # an incomplete line

    def __enter__(self) -> Self:
        if self.num_workers > 1:
            self._pool = ProcessPoolExecutor(
                self.num_workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=torch.set_num_threads,
                initargs=(1,),
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def knows(self, job: Job) -> bool:
        """Return whether a job is finished."""
        return job.key in self._records

    def can_run(self, jobs: Sequence[Job]) -> bool:
        """Return whether `run` can give these records."""
        return not self.finished_only or all(self.knows(job) for job in jobs)

    def run(self, jobs: Sequence[Job]) -> list[Record]:
        """Return the records of the jobs in their order; finished jobs are not repeated."""
        missing_count = sum(not self.knows(job) for job in jobs)
        if self.finished_only and missing_count:
            raise UnfinishedError(f"{missing_count} of {len(jobs)} trainings are not finished")
        waiting: dict[Future[Record], Job] = {}
        with self._lock:
            self._asked |= {job.key for job in jobs}
            missing = {job.key: job for job in jobs if job.key not in self._records}
            if self._pool is not None:
                for key, job in missing.items():
                    if key not in self._futures:  # another thread may wait for this job
                        self._futures[key] = self._pool.submit(
                            execute, job, self.folder, self.device
                        )
                    waiting[self._futures[key]] = job
        self._report()
        for future in as_completed(waiting):
            self._keep(waiting[future], future.result())
        if self._pool is None:
            for job in missing.values():
                self._keep(job, execute(job, self.folder, self.device))
        return [self._records[job.key] for job in jobs]

    def _keep(self, job: Job, record: Record) -> None:
        entry = {"key": job.key, "job": asdict(job), "record": record}
        with self._lock:
            known = job.key in self._records
            self._records[job.key] = record
            if self.cache is not None and not known:
                self.cache.parent.mkdir(parents=True, exist_ok=True)
                with self.cache.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
        self._report()

    def _report(self) -> None:
        with self._lock:
            done = len(self._asked & self._records.keys())
            stage = f"{done:,} of {len(self._asked):,} trainings and solutions"
            self.progress(Progress(stage, done, len(self._asked)))
