"""Measure alternatives in one run and report them as ratios.

Absolute times depend on the machine and the day; ratios of times from the same run are more stable.
Every round times each candidate once, so that slow changes of the machine affect all of them. The
median over rounds is reported with its spread. Run benchmarks on an idle machine.
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

import numpy as np
import torch
from torch import Tensor

from fwnet.files import write_whole
from fwnet.hardware import hardware_name
from fwnet.progress import Progress, ProgressCallback, silent


@dataclass(frozen=True)
class Options:
    """How to run a benchmark; `progress` is called before each round."""

    device: torch.device
    quick: bool = False
    progress: ProgressCallback = silent
    exponents: tuple[float, ...] | None = None  # for `codes`; empty: all

    def report(self, name: str, baseline: str) -> Report:
        """Return an empty report of the benchmark `name`."""
        quick = " --quick" if self.quick else ""
        exponents = ""
        if self.exponents is not None:
            exponents = f" --p {','.join(f'{p:g}' for p in self.exponents) or 'all'}"
        benchmark = name.partition("-")[0]
        command = f"fwnet bench {benchmark} --device {self.device.type}{exponents}{quick}"
        return Report(name, command, hardware_name(self.device), baseline)


@dataclass(frozen=True)
class Row:
    """One candidate: its median time, and the ratio to the baseline of its group."""

    group: str
    name: str
    ratio: float
    milliseconds: float
    spread: float  # interquartile range over median
    peak_mib: float | None  # additional memory during the run, if it can be measured
    target: float | None = None  # the largest acceptable ratio


@dataclass
class Report:
    """The result of one benchmark, with the command that repeats it."""

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
        """Write bench-NAME-HARDWARE.json in the folder and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        label = "".join(c if c.isalnum() else "-" for c in self.hardware.lower()).strip("-")
        path = folder / f"bench-{self.name}-{label}.json"
        write_whole(path, json.dumps(asdict(self), indent=2) + "\n")
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
    """Time each candidate once per round and divide by the first, the baseline.

    A candidate is called with the number of the round, so that it can change its inputs. On a GPU
    the caches are flushed before each measurement; by default this also hides the time that Python
    takes to launch kernels. A candidate in `may_fail` (compiled code) is left out if it fails.
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
        options.progress(Progress(group, index, rounds, "rounds"))
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
            spread=float(np.subtract(*np.percentile(times[name], (75, 25)))) / medians[name],
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
    """Return the peak memory during one run, above the memory before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before: float = torch.cuda.memory_allocated(device)
        run()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    try:  # on Linux the peak of a process can be reset
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = resident_kib("VmRSS")
        run()
        return max(0.0, (resident_kib("VmHWM") - before) / 1024)
    except OSError:
        return None


def resident_kib(key: str) -> float:
    """Return VmRSS or VmHWM, the memory of this process now or at most, on Linux."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return float(line.split()[1])
    raise OSError(f"/proc/self/status has no {key}")
