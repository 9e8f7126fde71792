"""Pairs of a noisy and a clean image: files that belong together, their sizes and their shift."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fwnet.data.folders import DATA_VARIABLE, DataError, data_folder
from fwnet.data.images import image_files

NOISY_WORDS, CLEAN_WORDS = ("noisy", "real"), ("clean", "mean", "gt")
SEPARATORS = "/_. -"
SHIFT_SIDE = 512  # pixels: only the middle of larger images is compared
SHIFT_GAIN = 0.8  # a shift must lower the squared difference to this; by chance it falls to 0.84


def camera_pairs(folder: str | Path | None = None) -> dict[Path, Path]:
    """Return the noisy shot of each clean mean: the 55 pairs of Canon cameras of the PolyU set.

    folder: That of the cropped images, or its parent. Default: $FWNET_DATA/polyu. They are for
        non-commercial use and not downloaded.

    >>> import fwnet
    >>> len(fwnet.data.camera_pairs())
    55
    """
    found = data_folder("polyu", folder)
    if found is None:
        raise DataError(
            "expected the cropped images of the PolyU set (github.com/csjunxu/"
            "PolyU-Real-World-Noisy-Images-Dataset, *_real.JPG and *_mean.JPG): copy them to a "
            f"folder polyu, and set {DATA_VARIABLE} to its parent"
        )
    return {
        clean: noisy
        for clean, noisy in match_pairs(found, found)[0].items()
        if clean.name.startswith("Canon")
    }


def match_pairs(noisy: Path, clean: Path) -> tuple[dict[Path, Path], list[Path]]:
    """Return the noisy file of each clean one, and the files that have no partner.

    Two files are a pair if their paths below the folders agree, without suffixes. Among the others,
    the words noisy and real in the one, and clean, mean and gt in the other, do not count:
    `a_real.JPG` and `a_mean.JPG` are a pair, and both may be in one folder.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> for name in ("a_real.png", "a_mean.png", "b_real.png"):
    ...     Image.new("L", (8, 8)).save(name)
    >>> pairs, alone = fwnet.data.match_pairs(Path(), Path())
    >>> {clean.name: noisy.name for clean, noisy in pairs.items()}, [path.name for path in alone]
    ({'a_mean.png': 'a_real.png'}, ['b_real.png'])
    """
    files = image_files(noisy), image_files(clean)
    found: dict[Path, Path] = {}
    for words in (((), ()), (NOISY_WORDS, CLEAN_WORDS)):
        used = {*found, *found.values()}
        ours, theirs = (
            {_key(path.relative_to(folder), some): path for path in part if path not in used}
            for folder, part, some in zip((noisy, clean), files, words, strict=True)
        )
        both = ours.keys() & theirs.keys()
        found |= {theirs[key]: ours[key] for key in both if not theirs[key].samefile(ours[key])}
    if not found:
        raise DataError(
            "expected noisy and clean images of the same names, "
            f"got {files[0][0]} and {files[1][0]}, for example"
        )
    used = {*found, *found.values()}
    return dict(sorted(found.items())), sorted({*files[0], *files[1]} - used)


def _key(path: Path, words: tuple[str, ...]) -> str:
    """Return a path without its suffix and without these words."""
    name = path.with_suffix("").as_posix()
    if not words:
        return name
    edge = f"[{re.escape(SEPARATORS)}]"
    pattern = rf"(?:^|{edge})(?:{'|'.join(words)})(?={edge}|$)"
    return re.sub(pattern, "", name, flags=re.IGNORECASE).strip(SEPARATORS)


def read_pair(noisy: Path, clean: Path, read: Callable[[Path], np.ndarray]) -> np.ndarray:
    """Return the channels of the clean image, then those of the noisy one: (h, w, 2·channels).

    Raise for images of different sizes, and for those that seem shifted by more than half a pixel.

    >>> import fwnet
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> Image.new("L", (30, 20), 100).save("clean.png")
    >>> Image.new("L", (30, 20), 110).save("noisy.png")
    >>> read = lambda path: fwnet.data.read_pixels(path, color=False)
    >>> fwnet.data.read_pair(Path("noisy.png"), Path("clean.png"), read)[0, 0]
    array([100, 110], dtype=uint8)
    """
    images = read(clean), read(noisy)
    wanted, got = (f"{image.shape[1]} × {image.shape[0]}" for image in images)
    if wanted != got:
        raise DataError(f"{noisy} must have the size of {clean}, {wanted}, got {got}")
    down, right = estimate_shift(*images)
    if (down, right) != (0, 0):
        raise DataError(f"{noisy} seems shifted by ({down}, {right}) pixels against {clean}")
    return np.concatenate(images, axis=2)


def estimate_shift(clean: np.ndarray, noisy: np.ndarray) -> tuple[int, int]:
    """argmin_s Σ_x (noisy(x + s) − clean(x))²: how far down and right `noisy` is, in whole pixels.

    All shifts are compared at once by the fast Fourier transform of images (h, w, channel), without
    their smooth parts and their finest details. Noise alone also has a best shift, by chance: the
    result is (0, 0) unless the difference falls by a fifth.

    >>> import fwnet, numpy as np
    >>> from skimage.data import camera
    >>> clean = camera()[:128, :128, None]
    >>> fwnet.data.estimate_shift(clean, np.roll(clean, (2, -3), axis=(0, 1)))
    (2, -3)
    """
    height, width = (min(side, SHIFT_SIDE) for side in clean.shape[:2])
    top, left = (clean.shape[0] - height) // 2, (clean.shape[1] - width) // 2
    window = np.outer(np.hanning(height), np.hanning(width))  # against edges at the border
    squared = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.rfftfreq(width) ** 2
    # The difference of two Gaussian filters, with standard deviations of 1 and 4 pixels.
    band = np.exp(-2 * np.pi**2 * squared) - np.exp(-32 * np.pi**2 * squared)
    spectra = []
    for image in (clean, noisy):
        gray = image[top : top + height, left : left + width].mean(2)
        spectra.append(np.fft.rfft2((gray - gray.mean()) * window) * band)
    first, second = spectra
    products = np.fft.irfft2(first.conj() * second, (height, width))
    squares = np.fft.irfft2(abs(first) ** 2 + abs(second) ** 2, (height, width))[0, 0]
    errors = 1 + squares - 2 * products  # 1: rounding errors of constant images do not count
    best = int(errors.argmin())
    if errors.flat[best] >= SHIFT_GAIN * errors[0, 0]:
        return 0, 0
    down, right = divmod(best, width)
    return (down + height // 2) % height - height // 2, (right + width // 2) % width - width // 2
