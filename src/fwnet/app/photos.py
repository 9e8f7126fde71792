"""What the app does with a photo: look at a part of it, and write the whole in full depth."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from fwnet.imaging import FailedFile, ImageError, Restorer, restore_files
from fwnet.imaging.formats import is_writable_suffix
from fwnet.imaging.image_files import read_image
from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, with_bits
from fwnet.progress import ProgressCallback, silent
from fwnet.restoration import Denoising, Restoration, Upscaling

SIDE = 480  # of the part that is shown, in pixels of the result
JOBS: dict[str, dict[str, Any]] = {
    "Clean": {},
    "Enlarge 2 ×": {"scale": 2},
    "Enlarge 3 ×": {"scale": 3},
    "Enlarge 4 ×": {"scale": 4},
}


@dataclass(frozen=True)
class Photo:
    """A photo of the user.

    Attributes:
        path: The uploaded file.
        width: In pixels.
        height: In pixels.
        middle: The middle of it.
        about: Its metadata, which say how a viewer turns it.
        sigma: Its estimated noise level.
    """

    path: Path
    width: int
    height: int
    middle: Pixels
    about: Metadata
    sigma: float | None


def open_photo(path: str | Path) -> Photo:
    """Read a file; raise an `ImageError` that says in one line what is wrong with it."""
    path = Path(path)
    try:
        read = read_image(path)
    except ImageError as error:
        # The user knows the name, not the folder that it was uploaded to.
        raise ImageError(str(error).replace(str(path), path.name)) from error
    height, width = read.pixels.colors.shape[:2]
    sigma = _restorer("Clean").noise_level(read.pixels)
    return Photo(path, width, height, read.pixels.middle(SIDE), read.about, sigma)


def look(photo: Photo, job: str, strength: float) -> tuple[Image.Image, Image.Image]:
    """Return the middle of a photo before and after, upright, in 8 bits."""
    restorer = _restorer(job)
    if job == "Clean":
        restorer = restorer.with_options(sigma=photo.sigma, strength=strength)
    part = photo.middle.middle(SIDE // restorer.scale)
    views = restorer.baseline(part.colors), restorer.run(part).pixels.colors
    before, after = (photo.about.turned(Pixels(with_bits(one, 8)).pillow()) for one in views)
    return before, after


def restore(
    photo: Photo, job: str, strength: float, folder: Path, progress: ProgressCallback = silent
) -> tuple[Path, str]:
    """Write the whole photo to a folder, with all its bits and metadata; describe it in a line."""
    suffix = photo.path.suffix if is_writable_suffix(photo.path) else ".png"
    scale = JOBS[job].get("scale")
    place = folder / f"{photo.path.stem}-{'clean' if scale is None else f'{scale}x'}{suffix}"
    asked = {"strength": strength} if scale is None else JOBS[job]
    (outcome,) = restore_files(
        _kind(job), [str(photo.path)], str(place), progress=progress, force=True, **asked
    )
    if isinstance(outcome, FailedFile):
        raise ImageError(outcome.reason.replace(str(photo.path), photo.path.name))
    notes = "".join(f"; {note}" for note in outcome.notes)
    return place, f"{outcome.description}, {outcome.seconds:.1f} s{notes}"


def _kind(job: str) -> type[Restoration]:
    return Upscaling if JOBS[job] else Denoising


@cache
def _restorer(job: str) -> Restorer:
    return Restorer(_kind(job), **JOBS[job])
