"""Colors that nobody sees, and that must not become seen where an image is enlarged."""

from __future__ import annotations

import numpy as np

__all__ = ["keep_hidden", "spread_visible"]


def spread_visible(colors: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Give each fully transparent place the color of the nearest one that is seen.

    What hides there, often black, would otherwise darken the border of what is seen.

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
    """Write to places of a large image that are fully transparent the colors that hid there before.

    Those who drop the transparency, as a JPEG file does, then find what they know.

    Args:
        large: (s·h, s·w, channels).
        large_alpha: (s·h, s·w).
        colors: Of the small image, (h, w, channels).
    """
    scale = len(large) // len(colors)
    for index, row in enumerate(colors):
        rows = slice(scale * index, scale * (index + 1))
        hidden = large_alpha[rows] <= 0
        if hidden.any():
            blocks = np.broadcast_to(row.repeat(scale, 0), large[rows].shape)
            large[rows][hidden] = blocks[hidden]
