"""Photos whose noise level nobody knows: what the estimate gives, beside the best told level."""

import io
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fwnet.data import DataError, camera_pairs, read_pixels
from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR
from fwnet.experiments.image_training import small_files
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record
from fwnet.imaging import Restorer
from fwnet.imaging.photo_noise import MODELS as METERS
from fwnet.imaging.pixels import Pixels
from fwnet.restoration import Denoising
from fwnet.zoo import find_card

CAMERAS = {"Canon5D2": "Canon 5D Mark II", "Canon80D": "Canon 80D", "Canon600D": "Canon 600D"}
ALL = "all 55 pairs"
PHOTOS = ("astronaut", "chelsea", "coffee", "motorcycle_left", "rocket")
SIGMAS, QUALITIES = (5, 15, 25, 50), (100, 95, 85, 75)  # 100 stands for PNG
FACTORS = (0.8, 1.0, 1.1, 1.25, 1.5)
TOLD = (8, 10, 12)  # one of them for all pairs
NOISY, ESTIMATED, BEST = "as it is", "estimated", "best told"
CHANGE = "change of clean photos, gray levels"
LEAST = 38.5  # dB for the pairs


@dataclass(frozen=True)
class PhotoTest(Job):
    """Denoise photos.

    Attributes:
        name: Name of the network.
        sha256: Checksum of its file.
        meter: Checksum of the network that tells the noise level.
        photos: The first part of the names of the pairs; or names of pictures of scikit-image.
        sigma: Standard deviation of the white noise that is added, 0 to 255; None for pairs.
        quality: Quality of the JPEG that the noisy photo is saved as; 100 for PNG.
    """

    name: str
    sha256: str
    meter: str
    photos: tuple[str, ...]
    sigma: int | None = None
    quality: int = 100

    def execute(self, device: torch.device) -> Record:
        """Return lists, one number per photo: PSNR by level, σ, and the change of clean photos."""
        restorer = Restorer(Denoising, self.name, device=device)
        record: dict[str, list[float]] = {}
        for noisy, clean in self._pairs():
            told = TOLD if self.sigma is None else [factor * self.sigma for factor in FACTORS]
            lossy = self.sigma is None or self.quality < 100
            results = {level: _denoised(restorer, noisy, level, lossy) for level in (None, *told)}
            kept = _denoised(restorer, clean, None, self.sigma is None)[0]
            figures = {
                NOISY: _psnr(noisy, clean),
                **{str(level): _psnr(result[0], clean) for level, result in results.items()},
                "sigma": 255 * results[None][1],
                CHANGE: math.sqrt(np.square(kept.astype(float) - clean).mean()),
            }
            for key, value in figures.items():
                record.setdefault(key, []).append(value)
        return record

    def _pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.sigma is None:
            pairs = camera_pairs().items()
            chosen = [pair for pair in pairs if pair[0].name.startswith(self.photos)]
            if not chosen:
                raise DataError(f"expected pairs of {', '.join(self.photos)}, got none")
            return [(_read(noisy), _read(clean)) for clean, noisy in chosen]
        clean = [_read(path) for path in small_files(self.photos)]
        return [(_with_noise(image, self.sigma, self.quality), image) for image in clean]


def _read(path: Path) -> np.ndarray:
    return read_pixels(path, color=True)


def _with_noise(clean: np.ndarray, sigma: int, quality: int) -> np.ndarray:
    """Add noise that is always the same, round to 8 bits, and write and read a file."""
    noise = np.random.default_rng(sigma).standard_normal(clean.shape)
    pixels = np.rint(clean + sigma * noise).clip(0, 255).astype(np.uint8)
    if quality == 100:
        return pixels
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file))


def _denoised(
    restorer: Restorer, pixels: np.ndarray, level: float | None, lossy: bool
) -> tuple[np.ndarray, float]:
    """Return the result and the σ that the network was told, on the scale of [0, 1]."""
    told = restorer if level is None else restorer.with_options(sigma=level / 255)
    result = told.run(Pixels(pixels, lossy=lossy))
    assert result.sigma is not None
    return result.pixels.colors, result.sigma


def _psnr(found: np.ndarray, wanted: np.ndarray) -> float:
    error = np.square(found.astype(float) - wanted).mean()
    return float(10 * math.log10(255**2 / error)) if error else math.inf


def measure(lab: Lab, result: Result) -> None:
    """Denoise pairs of cameras, and photos with added noise."""
    name = Denoising.default_models(fast=lab.quick)[3]
    checksums = find_card(name).sha256, find_card(METERS[3]).sha256
    cameras = {} if lab.quick else CAMERAS
    photos = PHOTOS[:1] if lab.quick else PHOTOS
    jobs = [PhotoTest(name, *checksums, (camera,)) for camera in cameras]
    jobs += [
        PhotoTest(name, *checksums, photos, sigma, quality)
        for sigma in (SIGMAS[2:3] if lab.quick else SIGMAS)
        for quality in QUALITIES
    ]
    records = dict(zip(jobs, lab.runner.run(jobs), strict=True))
    pairs = [records[job] for job in jobs if job.sigma is None]
    if pairs:
        together = {key: [x for one in pairs for x in one[key]] for key in pairs[0]}
        best = str(max(TOLD, key=lambda level: statistics.fmean(together[str(level)])))
        for job in jobs[: len(pairs)]:
            _add(result, CAMERAS[job.photos[0]], records[job], [best])
        _add(result, ALL, together, [best])
        result.details["told"] = [float(best)]
    for job in jobs[len(pairs) :]:
        factors = (1.0,) if job.quality == 100 else FACTORS  # white noise has the level it has
        told = [str(factor * job.sigma) for factor in factors if job.sigma is not None]
        _add(result, _label(job.sigma, job.quality), records[job], told)


def _label(sigma: int | None, quality: int) -> str:
    return f"σ = {sigma}, {'PNG' if quality == 100 else f'JPEG {quality}'}"


def _add(result: Result, label: str, record: Record, told: list[str]) -> None:
    """Add rows: means over the photos; the best told level is that with the best mean."""
    best = max((record[level] for level in told), key=statistics.fmean)
    columns = {NOISY: record[NOISY], ESTIMATED: record["None"], BEST: best}
    for level, values in columns.items():
        result.add(label, {"level": level}, PSNR, [statistics.fmean(values)], [])
    result.add(label, {"level": ESTIMATED}, CHANGE, [max(record[CHANGE])], [])


def near_the_best(sigma: int, quality: int, most: float) -> Claim:
    """Return the claim that little is lost by the estimate."""

    def check(result: Result) -> tuple[bool, str]:
        label = _label(sigma, quality)
        ours, best = (result.find(label, PSNR, level=level).mean for level in (ESTIMATED, BEST))
        return best - ours <= most, f"{ours:.2f} of {best:.2f}"

    return Claim(f"{_label(sigma, quality)}: within {most:g} dB of the best told level", check)


def _cleans_pairs(result: Result) -> tuple[bool, str]:
    ours = result.find(ALL, PSNR, level=ESTIMATED).mean
    return ours >= LEAST, f"{ours:.2f}"


def _keeps_clean_photos(result: Result) -> tuple[bool, str]:
    most = max(row.mean for row in result.find_all(quantity=CHANGE))
    return most <= 0.7, f"{most:.2f}"


EXPERIMENT = Experiment(
    "denoise-photos",
    "Photos whose noise level nobody knows",
    "The paper adds white noise of a known level.",
    measure,
    panels(Bars(quantity=PSNR, by="level")),
    claims=(
        Claim(f"{ALL}: at least {LEAST:g} dB", _cleans_pairs),
        *(
            near_the_best(sigma, quality, 0.05 if quality == 100 else 0.3)
            for sigma in SIGMAS
            for quality in QUALITIES
        ),
        Claim("no clean photo changes by more than 0.7 gray levels rms", _keeps_clean_photos),
    ),
    columns="level",
    needs=("PolyU",),
    note="Pairs of one shot and the mean of many, 512 × 512, of the PolyU set; the synthetic noise "
    "that the networks learned from was chosen with the pairs of two cameras, nothing with those "
    "of the 600D. White noise is added to pictures of scikit-image, from which nothing was "
    "learned (" + ", ".join(PHOTOS) + "), which are rounded to 8 bits and saved by Pillow. Pairs "
    "have one told level, the best of "
    + ", ".join(map(str, TOLD))
    + "; white noise its σ, and as JPEG the best of "
    + ", ".join(f"{factor:g}" for factor in FACTORS)
    + " times σ. Changes are the largest of all "
    "photos.",
)
