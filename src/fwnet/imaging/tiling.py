"""Apply a network to tiles of an image, in bounded memory, with the result of the whole."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fwnet.imaging.pixels import as_unit_range, white_level


@dataclass(frozen=True)
class Tile:
    """One tile: the pixels to compute, and those needed for that.

    Attributes:
        inner: Rows and columns of the image to compute.
        outer: The same with a halo of all pixels that have an influence, within the image.
        crop: The position of `inner` within `outer`.
    """

    inner: tuple[slice, slice]
    outer: tuple[slice, slice]
    crop: tuple[slice, slice]


def cut_tiles(height: int, width: int, size: int, halo: int, multiple: int = 1) -> Iterator[Tile]:
    """Cut an image into tiles of nearly the same size, none larger than size × size.

    The halo ends where the image does, so that a network sees zeros beyond the border of the image,
    as it does for the whole image, and nowhere else. Halos begin and, within the image, end at a
    multiple of `multiple`: those of a network that works on squares of pixels.
    """
    for rows, columns in itertools.product(_cut(height, size), _cut(width, size)):
        top, down = _widen(rows, halo, height, multiple)
        left, across = _widen(columns, halo, width, multiple)
        yield Tile((rows, columns), (top, left), (down, across))


def _cut(length: int, size: int) -> list[slice]:
    count = -(-length // size)
    edges = [length * index // count for index in range(count + 1)]
    return [slice(*pair) for pair in itertools.pairwise(edges)]


def _widen(inner: slice, halo: int, length: int, multiple: int) -> tuple[slice, slice]:
    start = max(0, inner.start - halo) // multiple * multiple
    stop = min(length, -(-(inner.stop + halo) // multiple) * multiple)
    return slice(start, stop), slice(inner.start - start, inner.stop - start)


def apply_tiled(
    network: Callable[[Tensor], Tensor],
    colors: np.ndarray,
    output: np.ndarray,
    *,
    size: int,
    halo: int,
    scale: int = 1,
    multiple: int = 1,
    progress: Callable[[int], object] = lambda _: None,
) -> None:
    """Write the output of a network for an image to `output`, of the same dtype.

    Only one tile at a time is in floating point. Values are clipped to [0, 1], and rounded for
    integers.

    Args:
        network: Takes (1, channels, h, w) in [0, 1] in float32, and returns
            (1, channels, scale·h, scale·w).
        colors: The image, (h, w, channels).
        output: The result, (scale·h, scale·w, channels).
        size: The largest side of a tile, in pixels of the image, halo excluded.
        halo: How far away a pixel of the image can be and still change the result.
        scale: Scale factor of the result.
        multiple: Where tiles with their halo may begin and end.
        progress: Called with the number of pixels of the result after every tile.
    """
    white = white_level(colors.dtype)
    height, width, _ = colors.shape
    for tile in cut_tiles(height, width, size, halo, multiple):
        seen = torch.from_numpy(as_unit_range(colors[tile.outer]))  # (h, w, channels)
        made = network(seen.permute(2, 0, 1)[None])[0].permute(1, 2, 0)
        made = made[_enlarged(tile.crop, scale)].clamp(0, 1)
        if colors.dtype.kind == "u":
            made = (made * white).round()
        output[_enlarged(tile.inner, scale)] = made.cpu().numpy()
        progress(made.shape[0] * made.shape[1])


def _enlarged(part: tuple[slice, slice], scale: int) -> tuple[slice, slice]:
    rows, columns = (slice(scale * one.start, scale * one.stop) for one in part)
    return rows, columns
