"""Fuzz targets: what one is, how it is run, and the bounds that every input must keep."""

import dataclasses
import importlib
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, strategies

LONGEST = 60  # seconds of CPU time for one input
MEMORY = 2**30  # bytes that one input may take beyond what was taken before

TARGETS: dict[str, "Target"] = {}


class Tried(NamedTuple):
    """One input: its kind, as the table names it, what it got, and how many rows it had."""

    kind: str
    outcome: str
    count: int = 1


class TooSlow(BaseException):  # readers turn an Exception into their own
    """An input took longer than `LONGEST`."""


@dataclasses.dataclass(frozen=True)
class Target:
    """Something that must bear any input.

    Attributes:
        name: Its name on the command line.
        check: Tries one case; raises if it gets what no case should get.
        cases: The strategy that draws cases.
        kept: Cases that failed once.
        examples: How many cases `make test` tries.
        needs: Modules without which the target is skipped.
        memory: The bytes that a case may take.
        usual: Whether `make fuzz` runs it unasked.
    """

    name: str
    check: Callable[[Any], Tried]
    cases: strategies.SearchStrategy[Any]
    kept: Sequence[Any] = ()
    examples: int = 30
    needs: Sequence[str] = ()
    memory: int = MEMORY
    usual: bool = True

    def missing(self) -> str | None:
        """Return why the target cannot run here, if so."""
        for name in self.needs:
            try:
                importlib.import_module(name)
            except ImportError as error:
                return str(error)
        return None

    def run(
        self,
        attempt: Callable[[Any], object],
        examples: int,
        seed: int | None = None,
        *,
        kept: bool = True,
    ) -> None:
        """Call `attempt` with the kept cases and with drawn ones; without a seed, always the same.

        A failure is made small and raised by hypothesis.
        """

        def test(case: Any) -> None:
            attempt(case)

        shown: Any = hypothesis.given(case=self.cases)(test)
        for case in self.kept if kept else ():
            shown = hypothesis.example(case=case)(shown)
        if seed is not None:
            shown = hypothesis.seed(seed)(shown)
        hypothesis.settings(
            max_examples=examples,
            derandomize=seed is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
        )(shown)()

    def bounded(self, case: Any) -> Tried:
        """Check a case within the bounds of time and memory; what is whole must not be refused."""
        before = _forget_peak()
        with _alarm():
            tried = self.check(case)
        whole = tried.kind.endswith((": whole", ": unchanged"))
        assert not whole or tried.outcome not in ("refused", "exit code 2"), "refused what is whole"
        taken = _status("VmHWM") - before
        assert taken <= self.memory, f"took {taken / 2**20:.0f} MB"
        return tried


def target(
    name: str, cases: strategies.SearchStrategy[Any], **options: Any
) -> Callable[[Callable[[Any], Tried]], Callable[[Any], Tried]]:
    """Register a function of one case as a target."""

    def register(check: Callable[[Any], Tried]) -> Callable[[Any], Tried]:
        TARGETS[name] = Target(name, check, cases, **options)
        return check

    return register


def limit_address_space(size: int) -> None:
    """Refuse memory beyond this, so that a fault of fwnet does not stop the machine."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + size,) * 2)


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise `TooSlow` in what takes longer than `LONGEST`."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {LONGEST} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _forget_peak() -> int:
    """Start to measure the peak of the memory anew; return what is taken now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    """Return bytes from Linux's status of this process; 0 elsewhere."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


def clock() -> float:
    """Return seconds that only this process counts."""
    return time.process_time()
