"""`RayEngine`: work on many items as tasks of Ray, where files carry the data."""

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Self, TypeVar

import psutil  # comes with Ray
import ray
import torch
from ray.exceptions import RayError, RayTaskError

from fwnet.engine import Lost
from fwnet.errors import FwnetError
from fwnet.hardware import choose_device

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_PER_GPU = 4  # one computes while others read, decode and write
RETRIES = 5  # of an item whose process or machine died
PATIENCE_SECONDS = 30.0
CONNECT_SECONDS = 10.0
STORE_BYTES = 256 << 20  # of a cluster of one machine: only functions and records pass through it

_functions: dict[str, Callable[[Any], Any]] = {}  # of this process, by the id of the object


class RayEngine:
    """Runs work on a Ray cluster: one item per task, one CPU (and a quarter of a GPU) per task.

    Items and results are small; data goes from file to worker to file. At most two tasks per place
    are submitted at a time, so neither memory nor Ray's queue grows with the number of items. A
    task whose worker or machine died runs again, up to five times.

    Args:
        address: Of a running cluster ("auto", "host:6379", "ray://…"), on whose machines fwnet is
            installed and files have the same paths. None for $RAY_ADDRESS or, if that is not set,
            a cluster of this machine alone, which ends with the engine. A program that has called
            `ray.init` keeps its cluster.
        num_cpus: CPUs of a cluster of this machine alone. Default: all.
        warn: Called with a line while the cluster has no room.

    >>> import fwnet, numpy as np
    >>> np.save("data.npy", np.random.default_rng(0).standard_normal((100, 8)))
    >>> with fwnet.ray.RayEngine(num_cpus=1) as engine:
    ...     report = fwnet.coding.encode_folder("data.npy", "codes", p=2, radius=1, engine=engine)
    >>> report.counts
    {'certified': 100}
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: int | None = None,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.address, self.num_cpus, self.warn = address, num_cpus, warn
        self._is_gpu = False
        self._counted, self._places = -math.inf, 1
        self._started = False

    def __enter__(self) -> Self:
        if ray.is_initialized():
            return self
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        address = self.address or os.environ.get("RAY_ADDRESS")
        try:
            if address:
                _check_answers(address)
                ray.init(address, **quiet)
            else:
                ray.init(
                    "local",
                    num_cpus=self.num_cpus,
                    include_dashboard=False,
                    object_store_memory=STORE_BYTES,
                    **quiet,
                )
                _end_autoscaler()
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise FwnetError(
                f"cannot reach a Ray cluster at {address or 'home'}: {reason}"
            ) from error
        self._started = True
        # Processes import torch while this one looks at the files.
        for _ in range(self._slots()):
            ray.remote(_start).options(num_cpus=1).remote()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._started:
            ray.shutdown()

    def choose_device(self, device: str | torch.device | None) -> torch.device:
        """Return the device of a worker; None and "auto" mean CUDA if the cluster has it."""
        gpus = int(ray.cluster_resources().get("GPU", 0))
        kind = "auto" if device is None else str(device)
        if kind == "auto":
            kind = "cuda" if gpus else "cpu"
        if kind == "cuda" and not gpus:
            raise FwnetError("device cuda needs a cluster with GPUs, got one without")
        self._is_gpu, self._counted = kind == "cuda", -math.inf  # places are counted anew
        return torch.device("cuda") if self._is_gpu else choose_device(kind)

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Lost]]:
        """Yield every item with its result as it comes; raise what the function raises."""
        waiting = iter(items)
        batch = [*islice(waiting, 2 * self._slots())]
        if not batch:
            return
        wanted = {"num_cpus": 1, "num_gpus": 1 / TASKS_PER_GPU if self._is_gpu else 0}
        probe = ray.remote(_start).options(**wanted).remote()
        call = ray.remote(_apply).options(max_retries=RETRIES, **wanted)
        shared = ray.put(function)
        running = {call.remote([shared], item): item for item in batch}
        try:
            self._wait_for_room(probe)
            while running:
                refs = [*running]
                ray.wait(refs, num_returns=1)
                for ready in ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
                    yield running.pop(ready), _result(ready)
                for item in islice(waiting, max(0, 2 * self._slots() - len(running))):
                    running[call.remote([shared], item)] = item
        finally:
            for task in running:
                ray.cancel(task, force=True)

    def _slots(self) -> int:
        """Return how many tasks run at a time; counted every second, as machines come and go."""
        if time.monotonic() - self._counted < 1:
            return self._places
        self._counted, resources = time.monotonic(), ray.cluster_resources()
        places = (
            TASKS_PER_GPU * resources.get("GPU", 0) if self._is_gpu else resources.get("CPU", 0)
        )
        self._places = max(1, int(places))
        return self._places

    def _wait_for_room(self, probe: Any) -> None:
        """Wait until a task, the first of many, has run; say so if that takes long.

        Actors of other programs can hold every CPU, and Ray waits without a word.
        """
        while not ray.wait([probe], timeout=PATIENCE_SECONDS)[0]:
            name = "GPU" if self._is_gpu else "CPU"
            total, free = (
                int(resources.get(name, 0))
                for resources in (ray.cluster_resources(), ray.available_resources())
            )
            self.warn(
                f"Waiting for the cluster: {free} of {total} {name}s are free. Other programs may "
                "hold them: see ray status."
            )


def _check_answers(address: str) -> None:
    """Raise if nobody listens at host:port; Ray would wait for minutes."""
    host, colon, port = address.rpartition("//")[2].rpartition(":")
    if colon:
        if not port.isdigit():
            raise ValueError(f"expected a number after the colon of {address}, got {port!r}")
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def _end_autoscaler() -> None:
    """End the process that adds machines: this cluster has one, and its own end takes a second."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any("autoscaler" in part for part in child.cmdline()):
                child.kill()


def _start() -> None:
    """Do nothing, in a process that has imported torch and this module for it."""


def _apply(shared: list[Any], item: Any) -> Any:
    """Call a function that every process fetches once, with what it has prepared."""
    key = shared[0].hex()
    if key not in _functions:
        torch.set_num_threads(1)  # one CPU per task: two threads would take that of another
        _functions.clear()
        _functions[key] = ray.get(shared[0])
    return _functions[key](item)


def _result(task: Any) -> Any:
    try:
        return ray.get(task)
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        reason = str(error).strip().partition("\n")[0]
        return Lost(f"the worker died {RETRIES + 1} times ({type(error).__name__}: {reason})")
