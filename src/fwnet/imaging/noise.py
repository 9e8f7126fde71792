"""Estimate the noise level of an image from the image alone."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from fwnet.hardware import one_thread
from fwnet.imaging.pixels import as_unit_range, check_pixels

# Fewest patches for each patch side. A gray image of 32 × 32 has 900, one of 64 × 64 about 3,600.
SIDES = {7: 3_300, 5: 1_200, 3: 90}
# Patch side: gradient strength that a fraction 1 − 10⁻⁶ of patches of noise with σ = 1 stay below,
# by a gamma distribution with the mean and the degrees of freedom of the quadratic form.
FLAT_LIMITS = {7: 81.82076743668523, 5: 47.96179195171, 3: 21.532912127766252}
MAX_PATCHES = 120_000  # 24 MB in float32
ENOUGH = 10  # least number of patches for a covariance, per pixel of a patch
NOISE_PATCHES = 40_000  # patches of random noise to draw when there are few …
MOST_DRAWS = 8  # … in at most this many draws
MOST_NOISE = 4_000_000  # largest draw: 16 MB
MARGIN = 2.0  # distance from black and white in σ: closer to them noise is clipped
MOST_MARGIN = 0.4  # the margin at most, on the scale [0, 1]
MEDIAN_OF_NORMAL = 0.6744897501960817  # of |N(0, 1)|


def estimate_noise(pixels: np.ndarray, opaque: np.ndarray | None = None) -> float:
    """σ² = the smallest eigenvalue of the covariance of flat patches (Liu et al., 2013).

    White noise adds σ² to all eigenvalues; the image adds nothing to the smallest. A patch is flat
    if its gradients are no stronger than those of noise with the current σ, so σ and the flat
    patches are computed in turn. Patches near black and white, where noise is clipped, are left
    out. The noise of JPEG files and of shrunk photos is not white; its estimate is too small.

    With few patches the smallest eigenvalue is too small: by half for 32 × 32 pixels. It is
    therefore divided by that of random noise with σ = 1, at the same places and in the directions
    without image content. From `MAX_PATCHES` patches on this factor is nearly 1 and left out.
    How accurate the estimate is: docs/imaging.md.

    Args:
        pixels: The image, (h, w, channels), integers or values in [0, 1].
        opaque: The visible pixels, (h, w); patches that include others are left out.

    Returns σ on the scale [0, 1], for all channels together.

    >>> import fwnet, numpy as np
    >>> noisy = np.random.default_rng(0).normal(128, 10, (128, 128, 1)).round().astype(np.uint8)
    >>> round(255 * fwnet.imaging.estimate_noise(noisy))
    10
    """
    check_pixels(pixels)
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
        flat = strength <= variance * FLAT_LIMITS[side]
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
    """Return the smallest box that holds all visible pixels."""
    rows, columns = (np.flatnonzero(opaque.any(axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _draw_places(
    shape: tuple[int, ...], opaque: np.ndarray | None, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the corners of all patches, or of a random `MAX_PATCHES`."""
    height, width, channels = shape
    rows, columns = max(height - side + 1, 0), max(width - side + 1, 0)
    most = MAX_PATCHES // channels
    if rows * columns <= most:
        at = np.divmod(np.arange(rows * columns), max(columns, 1))
    else:
        generator = np.random.default_rng(0)  # fixed, so that an image always has the same σ
        at = (generator.integers(rows, size=most), generator.integers(columns, size=most))
    if opaque is not None and len(at[0]):
        shown = sliding_window_view(opaque, (side, side))[at].all((1, 2))
        at = (at[0][shown], at[1][shown])
    return at


def _patches_at(pixels: np.ndarray, places: tuple[np.ndarray, np.ndarray], side: int) -> np.ndarray:
    """Return the patches of all channels as rows in [0, 1]."""
    windows = sliding_window_view(pixels, (side, side), axis=(0, 1))
    return as_unit_range(windows[places]).reshape(-1, side**2)


def _noise_at(
    shape: tuple[int, ...], places: tuple[np.ndarray, np.ndarray], side: int
) -> Iterator[np.ndarray]:
    """Yield patches of noise with σ = 1, minus their means; nothing if there are many patches."""
    count = len(places[0]) * shape[2]
    if count >= MAX_PATCHES - shape[2] or math.prod(shape) > MOST_NOISE:
        return
    for seed in range(min(max(NOISE_PATCHES // count, 1), MOST_DRAWS)):
        noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
        patches = _patches_at(noise, places, side)
        yield patches - patches.mean(1)[:, None]


def _gradient_strength(patches: np.ndarray, side: int) -> np.ndarray:
    """Return the sum of squared central differences of each patch."""
    squares = patches.reshape(-1, side, side)
    across = squares[:, :, 2:] - squares[:, :, :-2]
    down = squares[:, 2:] - squares[:, :-2]
    strength: np.ndarray = (np.square(across).sum((1, 2)) + np.square(down).sum((1, 2))) / 4
    return strength


def _least_variance(patches: np.ndarray, noises: list[np.ndarray]) -> float:
    """Return the smallest eigenvalue divided by that of noise with σ = 1.

    Only directions without image content count: their eigenvalues are no larger than those of
    noise. Without `noises`, return the eigenvalue itself. The first one, 0, belongs to the mean.
    """
    covariance, *covariances = map(_covariance, (patches, *noises))
    values, directions = np.linalg.eigh(covariance)
    values, directions = values[1:], directions[:, 1:]
    least = max(float(values[0]), 0.0)
    if not noises:
        return least
    spectra = [np.linalg.eigvalsh(covariance) for covariance in covariances]
    largest = float(np.mean([spectrum[-1] for spectrum in spectra]))
    variance = least / float(np.mean([spectrum[1] for spectrum in spectra]))
    free = directions[:, values <= max(variance * largest, values[0])]
    seen = [np.linalg.eigvalsh(free.T @ covariance @ free)[0] for covariance in covariances]
    return least / float(np.mean(seen))


def _covariance(rows: np.ndarray) -> np.ndarray:
    """Return the covariance of the columns, in float64.

    On one thread: NumPy's threads wait for each other much longer than this takes if the machine
    does other work.
    """
    with one_thread():
        covariance: np.ndarray = torch.from_numpy(rows).double().T.cov().numpy()
    return covariance


def _median_deviation(pixels: np.ndarray) -> float:
    """median |d| / 0.6745, d = differences across and then down: an estimate for tiny images."""
    if min(pixels.shape[:2]) < 2:
        return 0.0
    values = as_unit_range(pixels)
    across = values[:, 1:] - values[:, :-1]
    differences = (across[1:] - across[:-1]) / 2
    return float(np.median(np.abs(differences)) / MEDIAN_OF_NORMAL)
