"""Photos whose noise level nobody knows: what the estimate gives, beside the best told level."""

import io
import math
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fwnet.data import DataError, berkeley_validation_files, camera_pairs, read_pixels
from fwnet.experiments.claims import Claim
from fwnet.experiments.drawings import DRAWINGS
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR
from fwnet.experiments.image_training import small_files
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record
from fwnet.imaging import Pixels, Restorer
from fwnet.imaging.image_files import read_image
from fwnet.imaging.photo_noise import MODELS as METERS
from fwnet.imaging.pixels import jpeg_step
from fwnet.restoration import Denoising
from fwnet.zoo import find_card

CAMERAS = {"Canon5D2": "Canon 5D Mark II", "Canon80D": "Canon 80D", "Canon600D": "Canon 600D"}
ALL = "all 55 pairs"
PHOTOS = ("astronaut", "chelsea", "coffee", "motorcycle_left", "rocket")
GRAY_PHOTOS = ("brick", "camera", "cell", "grass", "gravel", "moon")
CLEAN_PHOTOS = (*PHOTOS, "color", "ihc", "retina")
NUM_BERKELEY = 50
SIGMAS, QUALITIES = (5, 15, 25, 50), (100, 95, 85, 75)  # 100 stands for PNG
CLEAN_QUALITIES = (100, 95, 90)
FACTORS = (0.8, 1.0, 1.1, 1.25, 1.5)
TOLD = (8.0, 10.0, 12.0)  # one of them for all pairs
NOISY, ESTIMATED, BEST = "as it is", "estimated", "best told"
CHANGE = "largest change of a clean picture, gray levels rms"
CHANGED = "clean pictures that change by more than 0.7 gray levels, %"
MEANS, COLOR, GRAY, DRAWN = "means of shots", "color photos", "gray photos", "text and line art"
BERKELEY, BERKELEY_GRAY = "Berkeley photos", "gray Berkeley photos"
LEAST = 38.5  # dB for the pairs
MOST = 0.7  # gray levels for clean pictures


@dataclass(frozen=True)
class PhotoTest(Job):
    """Denoise photos.

    Attributes:
        name: Name of the network.
        sha256: Checksum of its file.
        meter: Checksum of the network that tells the noise level; None to tell several levels.
        photos: The first part of the names of the pairs; or names of pictures of scikit-image.
        sigma: Standard deviation of the white noise that is added, 0 to 255; None for pairs.
        quality: Quality of the JPEG that the noisy photo is saved as; 100 for PNG.
    """

    name: str
    sha256: str
    meter: str | None
    photos: tuple[str, ...]
    sigma: int | None = None
    quality: int = 100

    def execute(self, device: torch.device) -> Record:
        """Return PSNRs by level, one number per photo; level 0 is the noisy photo."""
        restorer = Restorer(Denoising, self.name, device=device)
        record: dict[str, list[float]] = {}
        for noisy, clean in self._pairs():
            for level in self.told if self.meter is None else [None]:
                told = restorer if level is None else restorer.with_options(sigma=level / 255)
                change = _change(told.run(noisy).pixels, clean)
                record.setdefault(str(level), []).append(20 * math.log10(255 / change))
        return record

    @property
    def told(self) -> list[float]:
        """The levels to tell."""
        if self.sigma is None:
            return [0.0, *TOLD]
        factors = (1.0,) if self.quality == 100 else FACTORS  # white noise has the level it has
        return [0.0, *(factor * self.sigma for factor in factors)]

    def _pairs(self) -> list[tuple[Pixels, np.ndarray]]:
        if self.sigma is None:
            pairs = _pairs_of(self.photos)
            return [(read_image(noisy).pixels, _colors(clean)) for clean, noisy in pairs.items()]
        clean = [read_pixels(path, color=True) for path in small_files(self.photos)]
        return [(saved(with_noise(image, self.sigma), self.quality), image) for image in clean]


@dataclass(frozen=True)
class CleanTest(Job):
    """Denoise pictures without visible noise.

    Attributes:
        name: Name of the network.
        sha256: Checksum of its file.
        meter: Checksum of the network that tells the noise level.
        kind: `MEANS`, `COLOR`, `GRAY`, `DRAWN`, `BERKELEY` or `BERKELEY_GRAY`.
        pictures: The first part of the names of the pairs; or names of pictures; or none.
        quality: Quality of the JPEG that they are saved as; 100 for PNG.
    """

    name: str
    sha256: str
    meter: str
    kind: str
    pictures: tuple[str, ...]
    quality: int = 100

    def execute(self, device: torch.device) -> Record:
        """Return by how many gray levels each picture changes, rms."""
        restorer = Restorer(Denoising, self.name, device=device)
        pictures = self._pictures()
        return {CHANGE: [_change(restorer.run(one).pixels, one.colors) for one in pictures]}

    def _pictures(self) -> list[Pixels]:
        if self.kind == MEANS:
            return [read_image(clean).pixels for clean in _pairs_of(self.pictures)]
        if self.kind == DRAWN:
            drawn = [DRAWINGS[name]() for name in self.pictures]
        else:
            files = small_files(self.pictures) or berkeley_validation_files(count=NUM_BERKELEY)
            drawn = [read_pixels(path, color=self.kind in (COLOR, BERKELEY)) for path in files]
        return [saved(image, self.quality) for image in drawn]


def _pairs_of(names: tuple[str, ...]) -> dict[Path, Path]:
    pairs = camera_pairs().items()
    chosen = {clean: noisy for clean, noisy in pairs if noisy.name.startswith(names)}
    if not chosen:
        raise DataError(f"expected pairs of {', '.join(names)}, got none")
    return chosen


def _colors(path: Path) -> np.ndarray:
    return read_image(path).pixels.colors


def with_noise(clean: np.ndarray, sigma: int) -> np.ndarray:
    """Add noise that is always the same, and round to 8 bits."""
    noise = np.random.default_rng(sigma).standard_normal(clean.shape)
    return np.rint(clean + sigma * noise).clip(0, 255).astype(np.uint8)


def saved(pixels: np.ndarray, quality: int) -> Pixels:
    """Return an image as it is read from a file: PNG, or JPEG of a quality below 100."""
    if quality == 100:
        return Pixels(pixels)
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=quality)
    image = Image.open(file)
    return replace(Pixels.of_pillow(image), jpeg_step=jpeg_step(image))


def _change(pixels: Pixels, other: np.ndarray) -> float:
    """Return the rms difference in gray levels."""
    return math.sqrt(np.square(pixels.colors.astype(float) - other).mean())


def measure(lab: Lab, result: Result) -> None:
    """Denoise pairs of cameras, photos with added noise, and clean pictures."""
    models = Denoising.default_models(fast=lab.quick)
    networks = {channels: (name, find_card(name).sha256) for channels, name in models.items()}
    meters = {channels: find_card(name).sha256 for channels, name in METERS.items()}
    cameras = {} if lab.quick else CAMERAS
    photos = PHOTOS[:1] if lab.quick else PHOTOS
    told = {
        label: PhotoTest(*networks[3], None, (camera,)) for camera, label in cameras.items()
    } | {
        _label(sigma, quality): PhotoTest(*networks[3], None, photos, sigma, quality)
        for sigma in (SIGMAS[2:3] if lab.quick else SIGMAS)
        for quality in QUALITIES
    }
    estimated = [replace(job, meter=meters[3]) for job in told.values()]
    clean = [CleanTest(*networks[3], meters[3], MEANS, (camera,)) for camera in cameras]
    clean += [
        CleanTest(*networks[channels], meters[channels], kind, pictures, quality)
        for kind, channels, pictures in (
            (COLOR, 3, photos if lab.quick else CLEAN_PHOTOS),
            (GRAY, 1, GRAY_PHOTOS[:1] if lab.quick else GRAY_PHOTOS),
            (DRAWN, 3, tuple(DRAWINGS)),
        )
        for quality in CLEAN_QUALITIES
    ]
    if not lab.quick:
        clean += [
            CleanTest(*networks[channels], meters[channels], kind, (), quality)
            for kind, channels in ((BERKELEY, 3), (BERKELEY_GRAY, 1))
            for quality in CLEAN_QUALITIES
        ]
    jobs: list[Job] = [*told.values(), *estimated, *clean]
    records = dict(zip(jobs, lab.runner.run(jobs), strict=True))
    both = [
        records[one] | records[other] for one, other in zip(told.values(), estimated, strict=True)
    ]
    if cameras:
        together = {key: [x for one in both[: len(cameras)] for x in one[key]] for key in both[0]}
        best = max(TOLD, key=lambda level: statistics.fmean(together[str(level)]))
        result.details["told"] = [best]
    for (label, job), record in zip(told.items(), both, strict=True):
        _add(result, label, record, [best] if job.sigma is None else job.told[1:])
    if cameras:
        _add(result, ALL, together, [best])
    for test in clean:
        name = CAMERAS[test.pictures[0]] if test.kind == MEANS else _format(test.quality)
        changes = records[test][CHANGE]
        share = 100 * statistics.fmean(change > MOST for change in changes)
        for quantity, value in ((CHANGE, max(changes)), (CHANGED, share)):
            result.add(f"{test.kind}, {name}", {"level": ESTIMATED}, quantity, [value], [])


def _label(sigma: int, quality: int) -> str:
    return f"σ = {sigma}, {_format(quality)}"


def _format(quality: int) -> str:
    return "PNG" if quality == 100 else f"JPEG {quality}"


def _add(result: Result, label: str, record: Record, told: list[float]) -> None:
    """Add rows: means over the photos; the best told level is that with the best mean."""
    best = max((record[str(level)] for level in told), key=statistics.fmean)
    for level, values in ((NOISY, record["0.0"]), (ESTIMATED, record["None"]), (BEST, best)):
        result.add(label, {"level": level}, PSNR, [statistics.fmean(values)], [])


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


def keeps(kind: str) -> Claim:
    """Return the claim that clean pictures of a kind hardly change."""

    def check(result: Result) -> tuple[bool, str]:
        names = CAMERAS.values() if kind == MEANS else map(_format, CLEAN_QUALITIES)
        most = max(result.find(f"{kind}, {name}", CHANGE).mean for name in names)
        return most <= MOST, f"{most:.2f}"

    return Claim(f"{kind}: none changes by more than {MOST:g} gray levels rms", check)


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
        *(keeps(kind) for kind in (MEANS, COLOR, GRAY, DRAWN, BERKELEY, BERKELEY_GRAY)),
    ),
    columns="level",
    needs=("PolyU", "BSDS500"),
    note="Pairs of one shot and the mean of many, 512 × 512, of the PolyU set; the synthetic noise "
    "that the networks learned from was chosen with the pairs of two cameras, nothing with those "
    "of the 600D. White noise is added to pictures of scikit-image, from which nothing was "
    "learned (" + ", ".join(PHOTOS) + "), which are rounded to 8 bits and saved by Pillow. Pairs "
    "have one told level, the best of "
    + ", ".join(f"{level:g}" for level in TOLD)
    + "; white noise its σ, and as JPEG the best of "
    + ", ".join(f"{factor:g}" for factor in FACTORS)
    + " times σ. Clean pictures are the "
    "means of the pairs, the same pictures of scikit-image and in gray "
    + ", ".join(GRAY_PHOTOS)
    + ", and pages of text, line art and a rendering that the program draws.",
)
