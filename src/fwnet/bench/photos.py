"""Work on a large picture in a separate process, to measure its memory."""

import json
import subprocess
import sys

import torch

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
print(json.dumps({{"seconds": seconds, "peak memory of the process in GiB": peak}}))
"""


def photo_alone(
    height: int, width: int, device: torch.device, work: str, make: str = "image = picture.copy()"
) -> dict[str, float]:
    """Return seconds, and the peak memory of the process in GiB.

    Args:
        height: Height of the picture.
        width: Width of the picture.
        device: Where to compute.
        work: Python code that works on `image` on `device`.
        make: Python code that makes `image` from `picture`.
    """
    script = SCRIPT.format(make=make, work=work)
    arguments = [sys.executable, "-c", script, str(height), str(width), device.type]
    finished = subprocess.run(arguments, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(finished.stdout)
    return figures
