"""The name of the machine, for what was measured on it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import torch

__all__ = ["hardware_name"]


def hardware_name(device: torch.device) -> str:
    """Name the GPU, or the processor with the threads that torch uses."""
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
