"""Measure alternatives side by side in one run, and report them as ratios.

Absolute times belong to one machine on one day; the ratio of two things measured in turn, in the
same run, carries further. Every round times each candidate once, so that slow changes of the
machine reach them all; the median over rounds is reported with its spread. It still takes a machine
that is otherwise idle: code of many short parallel operations suffers most from competition.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.hardware import hardware_name

__all__ = ["Options", "Report", "Row", "compare"]


@dataclass(frozen=True)
class Options:
    """How to run a benchmark; `on_round` hears (group, round, rounds) for a progress display."""

    device: torch.device
    quick: bool = False
    on_round: Callable[[str, int, int], None] = lambda *_: None

    def report(self, name: str, baseline: str) -> Report:
        """Start the report of the benchmark `name`."""
        quick = " --quick" if self.quick else ""
        command = f"fwnet bench {name} --device {self.device.type}{quick}"
        return Report(name, command, hardware_name(self.device), baseline)


@dataclass(frozen=True)
class Row:
    """One candidate: its median time, and that time over the time of the group's baseline."""

    group: str
    name: str
    ratio: float
    milliseconds: float
    spread: float  # interquartile range over median
    peak_mib: float | None  # memory above what the inputs hold, where it can be measured
    target: float | None = None  # the largest ratio that is good enough


@dataclass
class Report:
    """The result of one benchmark, with what is needed to repeat it."""

    name: str
    command: str
    hardware: str
    baseline: str
    rows: list[Row] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(
        default_factory=lambda: {"python": platform.python_version(), "torch": torch.__version__}
    )

    def save(self, folder: Path) -> Path:
        """Write results/bench-NAME-HARDWARE.json through a temporary file."""
        folder.mkdir(parents=True, exist_ok=True)
        label = "".join(c if c.isalnum() else "-" for c in self.hardware.lower()).strip("-")
        path = folder / f"bench-{self.name}-{label}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
        return path


def compare(
    group: str,
    candidates: Mapping[str, Callable[[int], object]],
    options: Options,
    *,
    rounds: int = 20,
    warmup: int = 3,
    targets: Mapping[str, float] | None = None,
    measure_memory: bool = True,
    hide_launches: bool = True,
    may_fail: Container[str] = (),
) -> list[Row]:
    """Time each candidate once a round and divide by the first, which is the baseline.

    A candidate takes the number of the round, so that it can rotate its inputs past the cache.
    On a GPU the caches are flushed before each measurement, and by default that work also hides
    the time that Python takes to launch kernels; what is left is the time of the kernels. A
    candidate in `may_fail` (a compiler's output, say) is left out if it does not run.
    """
    candidates = {
        name: run
        for name, run in candidates.items()
        if _warm_up(run, warmup, must_run=name not in may_fail)
    }
    device = options.device
    timer = _cpu_milliseconds
    if device.type == "cuda":
        flushed = torch.empty(2**30, dtype=torch.int8, device=device)
        timer = partial(_cuda_milliseconds, flushed=flushed, times=8 if hide_launches else 1)
    peaks: dict[str, float | None] = dict.fromkeys(candidates)
    for name, run in candidates.items():
        if measure_memory:
            peaks[name] = _peak_mib(partial(run, 0), device)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for index in range(rounds):
        options.on_round(group, index, rounds)
        for name, run in candidates.items():
            times[name].append(timer(partial(run, index)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    baseline = next(iter(medians.values()))
    return [
        Row(
            group=group,
            name=name,
            ratio=medians[name] / baseline,
            milliseconds=medians[name],
            spread=_interquartile_range(times[name]) / medians[name],
            peak_mib=peaks[name],
            target=(targets or {}).get(name),
        )
        for name in candidates
    ]


def _warm_up(run: Callable[[int], object], times: int, must_run: bool) -> bool:
    try:
        for index in range(times):
            run(index)
    except Exception:
        if must_run:
            raise
        return False
    return True


def _cpu_milliseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def _cuda_milliseconds(run: Callable[[], object], flushed: Tensor, times: int) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(times):
        flushed.zero_()
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))


def _peak_mib(run: Callable[[], object], device: torch.device) -> float | None:
    """Return the high-water mark of memory during one run, above where it started."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before: float = torch.cuda.memory_allocated(device)
        run()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    try:  # Linux forgets the resident high-water mark of a process when told to
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _resident_kib("VmRSS")
        run()
        return max(0.0, (_resident_kib("VmHWM") - before) / 1024)
    except OSError:
        return None


def _resident_kib(key: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return float(line.split()[1])
    raise OSError(f"/proc/self/status has no {key}")


def _interquartile_range(values: list[float]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return high - low
