"""The colors of fully transparent pixels, which must not show in an enlarged image."""

import numpy as np


def spread_visible(colors: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the colors with every fully transparent pixel replaced by the nearest visible one.

    Otherwise the hidden colors, often black, would darken the edges of visible areas.

    Args:
        colors: (h, w, channels).
        alpha: (h, w), 0 for fully transparent.
    """
    from scipy.ndimage import distance_transform_edt

    hidden = alpha <= 0
    if not hidden.any() or hidden.all():
        return colors
    nearest = distance_transform_edt(hidden, return_distances=False, return_indices=True)
    spread = colors.copy()
    spread[hidden] = colors[tuple(place[hidden] for place in nearest)]
    return spread


def keep_hidden(large: np.ndarray, large_alpha: np.ndarray, colors: np.ndarray) -> None:
    """Restore the hidden colors in the fully transparent pixels of an enlarged image, in place.

    They show again when a program drops the transparency, as a JPEG file does.

    Args:
        large: Colors of the enlarged image, (s·h, s·w, channels).
        large_alpha: Its alpha, (s·h, s·w).
        colors: Colors of the small image, (h, w, channels).
    """
    scale = len(large) // len(colors)
    for index, row in enumerate(colors):
        rows = slice(scale * index, scale * (index + 1))
        hidden = large_alpha[rows] <= 0
        if hidden.any():
            blocks = np.broadcast_to(row.repeat(scale, 0), large[rows].shape)
            large[rows][hidden] = blocks[hidden]
