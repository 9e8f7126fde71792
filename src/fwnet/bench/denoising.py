"""Denoising: seconds a megapixel beside DnCNN and BM3D, and the memory of a large picture."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import torch

from fwnet.bench.harness import Options, Report, compare
from fwnet.bench.photos import photo_alone, shipped
from fwnet.imaging import Denoiser
from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.imaging.pixels import Pixels
from fwnet.models import DnCNN, ImageModel

__all__ = ["run"]

BASELINE = "DnCNN, 17 layers"
SIGMA = 25 / 255
PHOTO = (3000, 4000)  # 12 megapixels
MEMORY_TARGET = 1.5  # GiB

# Row by row, so that the noise takes no memory to speak of.
ADD_NOISE = """
rng = np.random.default_rng(0)
image = np.empty_like(picture)
for row in range(height):
    image[row] = (picture[row] + rng.normal(0, 25, (width, 3))).round().clip(0, 255)
"""


def run(options: Options) -> Report:
    """Networks and BM3D on one gray image, then a large picture in a process of its own."""
    report = options.report("denoise", baseline=BASELINE)
    side = 128 if options.quick else 512
    levels = np.random.default_rng(0).normal(128, 25, (side, side, 1))
    image = levels.clip(0, 255).astype(np.uint8)
    networks: dict[str, ImageModel] = {
        BASELINE: DnCNN(17),
        "Conv F-W Net, 16 layers, all σ": shipped("conv_fwnet_t16.denoise_gray"),
        "Conv F-W Net, 4 layers": shipped("conv_fwnet_t4.denoise_gray_s25"),
    }
    candidates: dict[str, Callable[[int], object]] = {
        name: _call(Denoiser(network, device=options.device), Pixels(image, None))
        for name, network in networks.items()
    }
    if options.device.type == "cpu" and importlib.util.find_spec("bm3d") is not None:
        noisy = torch.from_numpy(image).permute(2, 0, 1)[None] / 255
        candidates["BM3D"] = lambda _: denoise_bm3d(noisy, SIGMA, num_threads=0)
    report.rows = compare(
        f"a gray image of {side} × {side} pixels",
        candidates,
        options,
        rounds=3 if options.quick else 5,
        warmup=1,
    )
    megapixels = side * side / 1e6
    report.notes["seconds a megapixel"] = {
        row.name: row.milliseconds / 1e3 / megapixels for row in report.rows
    }
    height, width = (300, 400) if options.quick else PHOTO
    photo = photo_alone(
        height, width, options.device, "fwnet.denoise(image, device=device)", ADD_NOISE
    )
    size = f"{height * width / 1e6:g} megapixels"
    report.notes[f"a noisy color picture of {size}, the default network"] = {
        "seconds": photo["seconds"],
        "peak memory of the process in GiB": photo["peak_gib"],
        "at most": MEMORY_TARGET,
    }
    return report


def _call(denoiser: Denoiser, pixels: Pixels) -> Callable[[int], object]:
    return lambda _: denoiser.run(pixels, SIGMA)
