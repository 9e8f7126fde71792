"""The devices of this machine: choose one, and name it beside what was measured on it."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from threadpoolctl import ThreadpoolController

from fwnet.errors import FwnetError

WITHOUT_FLOAT64 = ("mps",)


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """Return a device that works here; None and "auto" mean CUDA if present, else the CPU."""
    if device is None or device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError) as error:
        kind = str(device).partition(":")[0]
        if kind in ("cuda", "mps"):
            raise FwnetError(
                f"device {device} is not available on this machine; cpu always is"
            ) from error
        raise FwnetError(
            f"unknown device {str(device)!r}: expected auto, cpu, cuda or mps"
        ) from error
    return chosen


def widest_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on devices that lack it: Apple's GPUs."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


@contextmanager
def full_precision() -> Iterator[None]:
    """Convolve in float32, not in TF32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: for small matrices, and to time what a core does.

    It affects only the calling thread of Python. `torch.set_num_threads` affects the whole process,
    and after it torch may find wrong inverses (pytorch issue 142815).
    """
    torch.get_num_threads()  # on its first use in a thread, torch sets the number itself
    with _openmp().limit(limits=1):
        yield


@cache
def _openmp() -> ThreadpoolController:
    """Return the runtime that torch's threads are of."""
    return ThreadpoolController().select(user_api="openmp")


def hardware_name(device: torch.device) -> str:
    """Name the GPU, or the processor with the number of threads that torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = next(_processor_models(), platform.machine())
    return f"{model} x{torch.get_num_threads()}"


def _processor_models() -> Iterator[str]:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                yield line.partition(":")[2].strip()


def is_exporting() -> bool:
    """Return whether torch.export is tracing. (Some versions of dynamo say so when compiling.)"""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that there is too little memory.

    On a CPU, torch has no class for that.
    """
    words = ["DefaultCPUAllocator", "not enough memory", "Cannot allocate memory", "bad_alloc"]
    words += ["can't start new thread"]
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or any(text in str(error) for text in words)
