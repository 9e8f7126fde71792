"""Super-resolution: seconds a megapixel beside VDSR, and the memory of a large picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fwnet.bench.harness import Options, Report, compare
from fwnet.bench.photos import photo_alone, shipped
from fwnet.imaging import Upscaler
from fwnet.imaging.pixels import Pixels
from fwnet.models import VDSR, ImageModel

__all__ = ["run"]

BASELINE = "VDSR, 20 layers"
SCALE = 3
PHOTO = (1000, 1333)  # becomes 12 megapixels


def run(options: Options) -> Report:
    """Networks on one gray image, then a color picture in a process of its own."""
    report = options.report("upscale", baseline=BASELINE)
    side = 64 if options.quick else 256
    levels = np.random.default_rng(0).integers(0, 256, (side, side, 1))
    pixels = Pixels(levels.astype(np.uint8), None)
    networks: dict[str, ImageModel] = {
        BASELINE: VDSR(20),
        "Conv F-W Net, 19 layers, sub-pixel": shipped("conv_fwnet_t19.upscale_x3"),
        "Conv F-W Net, 4 layers, sub-pixel": shipped("conv_fwnet_t4.upscale_x3"),
    }
    candidates: dict[str, Callable[[int], object]] = {
        name: _call(Upscaler(network, SCALE, device=options.device), pixels)
        for name, network in networks.items()
    }
    report.rows = compare(
        f"a gray image of {side} × {side} pixels, {SCALE} times as high and wide",
        candidates,
        options,
        rounds=3 if options.quick else 5,
        warmup=1,
    )
    megapixels = (SCALE * side) ** 2 / 1e6
    report.notes["seconds a megapixel of the result"] = {
        row.name: row.milliseconds / 1e3 / megapixels for row in report.rows
    }
    height, width = (100, 133) if options.quick else PHOTO
    photo = photo_alone(height, width, options.device, "fwnet.upscale(image, 3, device=device)")
    size = f"{SCALE**2 * height * width / 1e6:.3g} megapixels"
    report.notes[f"a color picture that becomes {size}, the default network"] = {
        "seconds": photo["seconds"],
        "peak memory of the process in GiB": photo["peak_gib"],
    }
    return report


def _call(upscaler: Upscaler, pixels: Pixels) -> Callable[[int], object]:
    return lambda _: upscaler.run(pixels)
