"""JPEG files enlarged: the networks for them beside those for images as they are."""

import io
import statistics
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fwnet.data import read_pixels
from fwnet.data.images import to_luma
from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR
from fwnet.experiments.image_training import small_files
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.runs import Job, Record
from fwnet.imaging import upscale
from fwnet.metrics import psnr, shave
from fwnet.resize import enlarge, shrink
from fwnet.restoration.upscaling import JPEG_MODELS, MODELS
from fwnet.zoo import find_card

PHOTOS = ("astronaut", "camera", "chelsea", "coffee", "motorcycle_left", "rocket")
QUALITIES = (30, 50, 75, 90)
BICUBIC = "bicubic"
SCALE = 3  # that claims are about
GAINS = {75: 0.8, 50: 0.6}  # dB over bicubic enlargement that would be worth having


@dataclass(frozen=True)
class JpegTest(Job):
    """Shrink photos, save them as JPEG, and enlarge the files.

    Attributes:
        name: Name of the network; "" for bicubic enlargement.
        sha256: Checksum of its file.
        scale: Scale factor.
        quality: Quality of the JPEG files.
        photos: Names of pictures of scikit-image.
    """

    name: str
    sha256: str
    scale: int
    quality: int
    photos: tuple[str, ...]

    def execute(self, device: torch.device) -> Record:
        """Return the mean PSNR of the luma."""
        values, scale = [], self.scale
        for path in small_files(self.photos):
            pixels = read_pixels(path, None)
            height, width = (scale * (side // scale) for side in pixels.shape[:2])
            wanted = pixels[:height, :width]
            file = compressed(_displayed(shrink(_planes(wanted), scale)), self.quality)
            if self.name:
                large = np.atleast_3d(np.asarray(upscale(file, scale, self.name, device=device)))
            else:
                large = _displayed(enlarge(_planes(np.atleast_3d(np.asarray(file))), scale))
            pair = [shave(_planes(_luma(image)), scale) for image in (large, wanted)]
            values.append(psnr(*pair).item())
        return {"psnr": statistics.fmean(values)}


def compressed(pixels: np.ndarray, quality: int) -> Image.Image:
    """Return pixels written as JPEG, with Pillow's subsampling, and read again."""
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=quality)
    return Image.open(file)


def _planes(pixels: np.ndarray) -> Tensor:
    """Return (1, channels, h, w) in float64, in [0, 1]."""
    return torch.from_numpy(pixels.astype(np.float64) / 255).permute(2, 0, 1)[None]


def _displayed(planes: Tensor) -> np.ndarray:
    """Return (h, w, channels) with 8 bits."""
    levels: np.ndarray = (255 * planes[0]).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    return levels


def _luma(pixels: np.ndarray) -> np.ndarray:
    return to_luma(pixels) if pixels.shape[2] == 3 else pixels


def measure(lab: Lab, result: Result) -> None:
    """Test both networks and bicubic enlargement at every quality."""
    photos = PHOTOS[:1] if lab.quick else PHOTOS
    for scale in JPEG_MODELS:
        for name in ("", JPEG_MODELS[scale], MODELS[scale]):
            digest = find_card(name).sha256 if name else ""
            jobs = [JpegTest(name, digest, scale, quality, photos) for quality in QUALITIES]
            for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
                setting = {"quality": job.quality, "scale": scale}
                result.add(name or BICUBIC, setting, PSNR, [record["psnr"]], [record])


def gains(quality: int, least: float) -> Claim:
    """Return the claim that the network for JPEG is ahead of bicubic enlargement."""

    def check(result: Result) -> tuple[bool, str]:
        ours, bicubic = (
            result.find(name, PSNR, quality=quality, scale=SCALE).mean
            for name in (JPEG_MODELS[SCALE], BICUBIC)
        )
        return ours - bicubic >= least, f"{ours:.2f} against {bicubic:.2f}"

    text = f"at quality {quality} and × {SCALE} it is {least:g} dB above bicubic enlargement"
    return Claim(text, check)


EXPERIMENT = Experiment(
    "upscale-jpeg",
    "JPEG files enlarged",
    "The paper enlarges only images that were never compressed.",
    measure,
    panels(Lines(quantity=PSNR, x="quality", by="scale", title="× ")),
    claims=tuple(gains(quality, least) for quality, least in GAINS.items()),
    columns="quality",
    note="Six pictures of scikit-image (" + ", ".join(PHOTOS) + "), from which nothing was learned "
    "or chosen, shrunk bicubically by a factor of 2, 3 or 4 to 8 bits and saved by Pillow as JPEG "
    "of the given quality, with subsampled color. PSNR of the luma without a border of as many "
    "pixels as the factor. Weights are those of the package.",
)
