"""Denoising and upscaling: seconds per megapixel compared with other networks, and memory."""

import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.bench.harness import Options, Report, compare
from fwnet.imaging import Restorer
from fwnet.imaging.bm3d import denoise_bm3d
from fwnet.imaging.pixels import Pixels
from fwnet.models import VDSR, DnCNN, ImageModel
from fwnet.restoration import Denoising, Restoration, Upscaling

SIGMA = 25 / 255
PLAIN_DNCNN = "DnCNN, 17 layers, plain PyTorch"
DEFAULT, FAST = "the default network", "with --fast"
SCALE = 3

# Python code: `make` makes `image` from `picture`, and `work` uses it on `device`.
SCRIPT = """
import json, sys, time
import numpy as np, skimage.data, torch, fwnet
from fwnet.bench.harness import resident_kib
height, width, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
picture = skimage.data.astronaut()
picture = np.tile(picture, (-(-height // 512), -(-width // 512), 1))[:height, :width]
{make}
del picture
start = time.perf_counter()
{work}
seconds = time.perf_counter() - start
try:  # not getrusage, which counts the memory of the process that forked
    peak = resident_kib("VmHWM") / 2**20
except OSError:
    peak = None  # no Linux
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
    """Compare networks and BM3D on gray and color images; then denoise a large picture.

    The baseline is DnCNN as people run it: in plain PyTorch, on the whole image.
    """
    sizes = [(96, 64), (128, 128)] if options.quick else [(481, 321), (1024, 1024)]
    report = options.report(Denoising.name, baseline=PLAIN_DNCNN)
    for channels, (width, height) in itertools.product((1, 3), sizes):
        draw = np.random.default_rng(0).normal(128, 25, (height, width, channels))
        image = draw.clip(0, 255).astype(np.uint8)
        noisy = torch.from_numpy(image).permute(2, 0, 1)[None] / 255
        others: dict[str, Callable[[int], object]] = {
            PLAIN_DNCNN: _plain_dncnn(noisy.to(options.device))
        }
        if channels == 1 and options.device.type == "cpu" and importlib.util.find_spec("bm3d"):
            others["BM3D"] = partial(_denoise_bm3d, noisy)
        usual, fast = (Denoising.default_models(fast=fast)[channels] for fast in (False, True))
        networks: dict[str, str | ImageModel] = {
            "DnCNN, 17 layers, in our tiles": DnCNN(17, in_channels=channels),
            DEFAULT: usual,
            FAST: fast,
        }
        if channels == 1:
            networks["Conv F-W Net, 4 layers"] = "conv_fwnet_t4.denoise_gray_s25"
        targets = {DEFAULT: 1 / 6 if channels == 1 else 1 / 4, FAST: 1 / 20}
        _compare(report, Denoising, image, others, networks, options, targets, sigma=SIGMA)
    height, width = (300, 400) if options.quick else (4000, 6000)
    work = "fwnet.denoise(image, device=device)"
    photo = photo_alone(height, width, options.device, work, ADD_NOISE)
    size = f"{height * width / 1e6:g} megapixels"
    photo["at most"] = 1.0  # GiB
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
    _compare(report, Upscaling, image, {}, networks, options, scale=SCALE)
    height, width = (100, 133) if options.quick else (1000, 1333)
    work = f"fwnet.upscale(image, {SCALE}, device=device)"
    photo = photo_alone(height, width, options.device, work)
    size = f"{SCALE**2 * height * width / 1e6:.3g} megapixels"
    report.notes[f"a color picture that becomes {size}, the default network"] = photo
    return report


def _plain_dncnn(noisy: Tensor) -> Callable[[int], Tensor]:
    """Return DnCNN as published, 17 layers of 64 maps, applied to the whole image."""
    channels = noisy.shape[1]
    layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1), nn.ReLU(inplace=True)]
    for _ in range(15):
        inner = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        layers += [inner, nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    last = nn.Conv2d(64, channels, 3, padding=1, bias=False)
    noise = nn.Sequential(*layers, last).eval().to(noisy.device)

    def run(_: int) -> Tensor:
        with torch.inference_mode():
            clean: Tensor = noisy - noise(noisy)
            return clean

    return run


def _denoise_bm3d(noisy: Tensor, _: int) -> Tensor:
    return denoise_bm3d(noisy, SIGMA, num_threads=0)


def _compare(
    report: Report,
    kind: type[Restoration],
    image: np.ndarray,
    others: dict[str, Callable[[int], object]],
    networks: dict[str, str | ImageModel],
    options: Options,
    targets: dict[str, float] | None = None,
    **asked: Any,
) -> None:
    """Time other methods, and networks in tiles, on one image; the first one is the baseline."""
    pixels, scale = Pixels(image), asked.get("scale", 1)
    candidates = dict(others)
    for name, network in networks.items():
        restorer = Restorer(kind, network, device=options.device, **asked)
        candidates[name] = lambda _, restorer=restorer: restorer.run(pixels)  # type: ignore[misc]
    height, width, channels = image.shape
    group = f"a {'gray' if channels == 1 else 'color'} image of {width} × {height} pixels"
    rows = compare(
        group + (f", {scale} times as high and wide" if scale > 1 else ""),
        candidates,
        options,
        rounds=3 if options.quick else 5,
        warmup=1,
        targets=targets,
    )
    megapixels = scale**2 * height * width / 1e6
    report.rows += rows
    report.notes[f"seconds per megapixel of the result, {group}"] = {
        row.name: row.milliseconds / 1e3 / megapixels for row in rows
    }


def photo_alone(
    height: int, width: int, device: torch.device, work: str, make: str = "image = picture.copy()"
) -> dict[str, float | None]:
    """Work on a large picture in a process of its own; return seconds and peak memory in GiB."""
    script = SCRIPT.format(make=make, work=work)
    arguments = [sys.executable, "-c", script, str(height), str(width), device.type]
    finished = subprocess.run(arguments, check=True, capture_output=True, text=True)
    figures: dict[str, float | None] = json.loads(finished.stdout)
    return figures
