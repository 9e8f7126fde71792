"""Denoising and upscaling: seconds per megapixel compared with other networks, and memory."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fwnet.bench.harness import Options, Report, compare
from fwnet.imaging import Restorer
from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.imaging.pixels import Pixels
from fwnet.models import VDSR, DnCNN, ImageModel
from fwnet.restoration import Denoising, Restoration, Upscaling

SIGMA = 25 / 255
DNCNN = "DnCNN, 17 layers"
SCALE = 3

# Python code: `make` makes `image` from `picture`, and `work` uses it on `device`.
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

# Row by row, so that the noise takes little memory.
ADD_NOISE = """
rng = np.random.default_rng(0)
image = np.empty_like(picture)
for row in range(height):
    image[row] = (picture[row] + rng.normal(0, 25, (width, 3))).round().clip(0, 255)
"""


def denoise(options: Options) -> Report:
    """Compare networks and BM3D on a gray and a color image; then denoise a large picture."""
    side = 128 if options.quick else 1024
    draw = np.random.default_rng(0).normal(128, 25, (side, side, 3))
    image = draw.clip(0, 255).astype(np.uint8)
    usual, fast = (Denoising.default_models(fast=fast) for fast in (False, True))
    others: dict[str, Callable[[int], object]] = {}
    if options.device.type == "cpu" and importlib.util.find_spec("bm3d") is not None:
        noisy = torch.from_numpy(image[..., :1]).permute(2, 0, 1)[None] / 255
        others["BM3D"] = lambda _: denoise_bm3d(noisy, SIGMA, num_threads=0)
    report = options.report(Denoising.name, baseline=DNCNN)
    for channels in (1, 3):
        networks: dict[str, str | ImageModel] = {
            DNCNN: DnCNN(17, in_channels=channels),
            "the default network": usual[channels],
            "with --fast": fast[channels],
        }
        if channels == 1:
            networks["Conv F-W Net, 4 layers"] = "conv_fwnet_t4.denoise_gray_s25"
        seen = image[..., :channels]
        _compare(report, Denoising, seen, networks, others, options, sigma=SIGMA)
        others = {}
    height, width = (300, 400) if options.quick else (4000, 6000)
    work = "fwnet.denoise(image, device=device)"
    photo = photo_alone(height, width, options.device, work, ADD_NOISE)
    size = f"{height * width / 1e6:g} megapixels"
    photo["at most"] = 1.5  # GiB
    work = "from fwnet.imaging import noise_level; noise_level(image, device=device)"
    level = photo_alone(height, width, options.device, work, ADD_NOISE)
    photo["seconds of the estimate of its noise"] = level["seconds"]
    report.notes[f"a noisy color picture of {size}, the default network"] = photo
    return report


def upscale(options: Options) -> Report:
    """Compare networks on one gray image; then enlarge a large picture."""
    side = 64 if options.quick else 256
    image = np.random.default_rng(0).integers(0, 256, (side, side, 1)).astype(np.uint8)
    networks: dict[str, str | ImageModel] = {
        "VDSR, 20 layers": VDSR(20),
        "Conv F-W Net, 19 layers, sub-pixel": "conv_fwnet_t19.upscale_x3",
        "Conv F-W Net, 4 layers, sub-pixel": "conv_fwnet_t4.upscale_x3",
    }
    report = options.report(Upscaling.name, baseline=next(iter(networks)))
    _compare(report, Upscaling, image, networks, {}, options, scale=SCALE)
    height, width = (100, 133) if options.quick else (1000, 1333)
    work = f"fwnet.upscale(image, {SCALE}, device=device)"
    photo = photo_alone(height, width, options.device, work)
    size = f"{SCALE**2 * height * width / 1e6:.3g} megapixels"
    report.notes[f"a color picture that becomes {size}, the default network"] = photo
    return report


def _compare(
    report: Report,
    kind: type[Restoration],
    image: np.ndarray,
    networks: dict[str, str | ImageModel],
    others: dict[str, Callable[[int], object]],
    options: Options,
    **asked: Any,
) -> None:
    """Time networks and other methods on one image; the first network is the baseline."""
    pixels, scale = Pixels(image), asked.get("scale", 1)
    candidates: dict[str, Callable[[int], object]] = {}
    for name, network in networks.items():
        restorer = Restorer(kind, network, device=options.device, **asked)
        candidates[name] = lambda _, restorer=restorer: restorer.run(pixels)  # type: ignore[misc]
    group = f"a {'gray' if image.shape[2] == 1 else 'color'} image of {len(image)} × {len(image)} "
    rows = compare(
        f"{group}pixels" + (f", {scale} times as high and wide" if scale > 1 else ""),
        candidates | others,
        options,
        rounds=3 if options.quick else 5,
        warmup=1,
    )
    megapixels = (scale * len(image)) ** 2 / 1e6
    report.rows += rows
    report.notes[f"seconds per megapixel of the result, {group}pixels"] = {
        row.name: row.milliseconds / 1e3 / megapixels for row in rows
    }


def photo_alone(
    height: int, width: int, device: torch.device, work: str, make: str = "image = picture.copy()"
) -> dict[str, float]:
    """Work on a large picture in a process of its own; return seconds and peak memory in GiB."""
    script = SCRIPT.format(make=make, work=work)
    arguments = [sys.executable, "-c", script, str(height), str(width), device.type]
    finished = subprocess.run(arguments, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(finished.stdout)
    return figures
