"""How strong the noise of an image is, from the image alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fwnet.imaging.pixels import as_unit_range

__all__ = ["estimate_noise"]

# Sides of a patch, and how many patches they need: the less there are, the fewer directions can be
# told apart. A gray image of 32 × 32 has 900, one of 64 × 64 3 400 to 3 800.
SIDES = {7: 3_300, 5: 1_200, 3: 90}
MAX_PATCHES = 120_000  # looked at: 24 MB in float32
ENOUGH = 10  # patches a pixel of one, below which a covariance says little
NOISE_VALUES = 40_000  # drawn to learn what few patches of noise give …
MOST_DRAWS = 8  # … but no more often
MOST_NOISE = 4_000_000  # values of a large image that shows in a few places: 16 MB
CONFIDENCE = 1 - 1e-6  # of flat patches, the part that is recognized as such
MARGIN = 2.0  # in σ, from black and white: nearer to them noise is cut off
MOST_MARGIN = 0.4  # of the range, whatever σ is
MEDIAN_OF_NORMAL = 0.6744897501960817  # of |N(0, 1)|


def estimate_noise(pixels: np.ndarray, opaque: np.ndarray | None = None) -> float:
    """σ² = the least eigenvalue of the covariance of flat patches (Liu et al., 2013).

    White noise adds σ² to all eigenvalues, and the image itself nothing to the least. Patches are
    flat if their gradients are no stronger than those of noise of the σ so far; so the two are
    found in turn. Patches near black and white, where noise is cut off, are left out. For white
    noise: that of a JPEG file or of a photo that was made smaller is not, and is found too weak.

    Of few patches the least eigenvalue is too small, by half for 32 × 32 pixels. So it is divided
    by that of drawn noise of σ = 1, at the same places and in the directions that the image leaves
    free; this is 1 or nearly so, and not computed, from `MAX_PATCHES` patches on. On gray ramps of
    32, 64 and 128 pixels a side with σ = 25 the median of estimates is 24.9, 24.9, 24.7; it would
    be 17.7, 22.2, 23.6.

    Measured on 100 of the color images for training of BSDS500 with noise of σ = 5, 15, 25, 50
    (of 255), values rounded and cut off to 8 bits: the median error is 0.07, 0.19, 0.37, 2.5, and
    8 of 400 estimates are off by more than 1 and 10%. Not cut off, it is 0.07, 0.19, 0.28, 1.4.
    The clean images give 0.26, the median. On 36 images at σ = 5, 22 estimates by the median of a
    wavelet's details were off by that much, 16 by all eigenvalues (Chen et al., 2015), none here.

    Args:
        pixels: The image, (h, w, channels), integers or values in [0, 1].
        opaque: Where the image shows, (h, w); patches that have other places are left out.

    Returns σ on the scale of [0, 1], of all channels together.
    """
    if opaque is not None and opaque.any():
        box = _box(opaque)
        pixels, opaque = pixels[box], opaque[box]
    for side, least in SIDES.items():
        places = _draw_places(pixels.shape, opaque, side)
        if len(places[0]) * pixels.shape[2] >= least:
            break
    else:
        return _median_deviation(pixels)
    patches = _patches_at(pixels, places, side)
    enough = ENOUGH * side**2
    strength = _gradient_strength(patches, side)
    means = patches.mean(1)
    patches = patches - means[:, None]
    noises = list(_noise_at(pixels.shape, places, side))
    variance = _least_variance(patches, noises)
    for _ in range(10):
        margin = min(MARGIN * variance**0.5, MOST_MARGIN)
        flat = strength <= variance * _flat_limit(side)
        chosen = flat & (means > margin) & (means < 1 - margin)
        if chosen.sum() < enough:
            chosen = flat
        if chosen.sum() < enough:
            break
        before = variance
        variance = _least_variance(patches[chosen], [noise[chosen] for noise in noises])
        if abs(variance - before) <= 1e-3 * before:
            break
    return float(variance**0.5)


def _box(opaque: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns that have something to show, from the first to the last."""
    rows, columns = (np.flatnonzero(opaque.any(axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _draw_places(
    shape: tuple[int, ...], opaque: np.ndarray | None, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the corners of all patches, or of as many as are looked at."""
    height, width, channels = shape
    rows, columns = max(height - side + 1, 0), max(width - side + 1, 0)
    most = MAX_PATCHES // channels
    if rows * columns <= most:
        at = np.divmod(np.arange(rows * columns), max(columns, 1))
    else:
        generator = np.random.default_rng(0)  # the same image gives the same σ
        at = (generator.integers(rows, size=most), generator.integers(columns, size=most))
    if opaque is not None and len(at[0]):
        shown = sliding_window_view(opaque, (side, side))[at].all((1, 2))
        at = (at[0][shown], at[1][shown])
    return at


def _patches_at(pixels: np.ndarray, places: tuple[np.ndarray, np.ndarray], side: int) -> np.ndarray:
    """The patches of all channels as rows in [0, 1]."""
    windows = sliding_window_view(pixels, (side, side), axis=(0, 1))
    return as_unit_range(windows[places]).reshape(-1, side**2)


def _noise_at(
    shape: tuple[int, ...], places: tuple[np.ndarray, np.ndarray], side: int
) -> Iterator[np.ndarray]:
    """Yield patches of noise of σ = 1, without their means; none where patches are many."""
    count = len(places[0]) * shape[2]
    if count >= MAX_PATCHES - shape[2] or math.prod(shape) > MOST_NOISE:
        return
    for seed in range(min(max(NOISE_VALUES // count, 1), MOST_DRAWS)):
        noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
        patches = _patches_at(noise, places, side)
        yield patches - patches.mean(1)[:, None]


def _gradient_strength(patches: np.ndarray, side: int) -> np.ndarray:
    """The sum of the squares of all central differences, a patch."""
    squares = patches.reshape(-1, side, side)
    across = squares[:, :, 2:] - squares[:, :, :-2]
    down = squares[:, 2:] - squares[:, :-2]
    strength: np.ndarray = (np.square(across).sum((1, 2)) + np.square(down).sum((1, 2))) / 4
    return strength


@functools.cache
def _flat_limit(side: int) -> float:
    """What the strength of noise of σ = 1 seldom exceeds: a quantile of the gamma law near it."""
    from scipy.stats import gamma

    pixels = np.eye(side**2).reshape(-1, side, side)
    across = (pixels[:, :, 2:] - pixels[:, :, :-2]).reshape(side**2, -1) / 2
    down = (pixels[:, 2:] - pixels[:, :-2]).reshape(side**2, -1) / 2
    form = across @ across.T + down @ down.T
    rank = np.linalg.matrix_rank(form)
    return float(gamma.ppf(CONFIDENCE, rank / 2, scale=2 * np.trace(form) / rank))


def _least_variance(patches: np.ndarray, noises: list[np.ndarray]) -> float:
    """The least eigenvalue over that of noise of σ = 1, in the directions that show noise alone.

    Those have eigenvalues no larger than noise of that variance gives. Without `noises` it is the
    least eigenvalue itself. The 0 of the direction that is lost with the mean is left out.
    """
    values, directions = np.linalg.eigh(_covariance(patches))
    values, directions = values[1:], directions[:, 1:]
    least = max(float(values[0]), 0.0)
    if not noises:
        return least
    covariances = [_covariance(noise) for noise in noises]
    spectra = [np.linalg.eigvalsh(covariance) for covariance in covariances]
    largest = float(np.mean([spectrum[-1] for spectrum in spectra]))
    variance = least / float(np.mean([spectrum[1] for spectrum in spectra]))
    free = directions[:, values <= max(variance * largest, values[0])]
    seen = [np.linalg.eigvalsh(free.T @ covariance @ free)[0] for covariance in covariances]
    return least / float(np.mean(seen))


def _covariance(patches: np.ndarray) -> np.ndarray:
    covariance: np.ndarray = np.cov(patches, rowvar=False, dtype=np.float64)
    return covariance


def _median_deviation(pixels: np.ndarray) -> float:
    """median |d| / 0.6745, d = the differences across and down in turn: for tiny images."""
    if min(pixels.shape[:2]) < 2:
        return 0.0
    values = as_unit_range(pixels)
    across = values[:, 1:] - values[:, :-1]
    differences = (across[1:] - across[:-1]) / 2
    return float(np.median(np.abs(differences)) / MEDIAN_OF_NORMAL)
