"""A large picture in a process of its own, whose memory is that of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import torch

from fwnet.models import ImageModel
from fwnet.zoo import load_model

__all__ = ["photo_alone", "shipped"]

# `make` sets the name `image` and `work` uses it.
SCRIPT = """
import json, resource, sys, time
import numpy as np, skimage.data, torch, fwnet
height, width, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
picture = skimage.data.astronaut()
picture = np.tile(picture, (-(-height // 512), -(-width // 512), 1))[:height, :width]
{make}
del picture
start = time.perf_counter()
{work}
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts KiB
print(json.dumps({{"seconds": seconds, "peak_gib": peak}}))
"""


def photo_alone(
    height: int, width: int, device: torch.device, work: str, make: str = "image = picture.copy()"
) -> dict[str, float]:
    """Seconds, and the most memory of the process in GiB.

    Args:
        height: Of the picture.
        width: Of it.
        device: Where to work.
        work: What is done with `image` on `device`, in Python.
        make: How `image` comes out of `picture`.
    """
    script = SCRIPT.format(make=make, work=work)
    arguments = [sys.executable, "-c", script, str(height), str(width), device.type]
    finished = subprocess.run(arguments, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(finished.stdout)
    return figures


def shipped(name: str) -> ImageModel:
    """A network of the package that works on images."""
    model = load_model(name)
    assert isinstance(model, ImageModel)
    return model
