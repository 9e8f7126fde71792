"""Images for training: kept in memory, and cut into random crops."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fwnet.checks import check_number, check_tensor
from fwnet.data.folders import DataError
from fwnet.data.seeds import keyed_generator


@dataclass(frozen=True)
class Squares:
    """Squares of the images of a set, each mirrored and turned.

    Attributes:
        images: Indices of the images.
        rows: First rows.
        columns: First columns.
        symmetries: From 0 to 7: which of the 8 symmetries of a square is applied.
        size: Height and width of all squares.

    >>> import fwnet, numpy as np, torch
    >>> images = fwnet.data.ImageSet.of([np.zeros((20, 30, 1), np.uint8)], ["sea"])
    >>> squares = images.draw_squares(4, 8, torch.Generator().manual_seed(0))
    >>> squares.size, len(squares.images)
    (8, 4)
    """

    images: Tensor
    rows: Tensor
    columns: Tensor
    symmetries: Tensor
    size: int

    def enlarged(self, scale: int) -> Self:
        """Return the same squares for images of `scale` times the height and width."""
        return replace(
            self, rows=scale * self.rows, columns=scale * self.columns, size=scale * self.size
        )


@dataclass(frozen=True)
class ImageSet:
    """Images of any sizes in one tensor, so that a batch of crops is one index operation.

    Attributes:
        pixels: The pixels of all images, one image after the other, (pixel, channel): uint8, or
            floating-point from 0 to 255.
        sizes: Height and width of every image, (count, 2).
        names: Names of the images.

    >>> import fwnet, numpy as np
    >>> pictures = [np.zeros((20, 30, 1), np.uint8), np.zeros((40, 10, 1), np.uint8)]
    >>> images = fwnet.data.ImageSet.of(pictures, ["sea", "tower"])
    >>> len(images), images[1].shape, images.names
    (2, torch.Size([1, 1, 40, 10]), ('sea', 'tower'))
    """

    pixels: Tensor
    sizes: Tensor
    names: tuple[str, ...]

    @classmethod
    def of(cls, images: Sequence[np.ndarray | Tensor], names: Sequence[str]) -> Self:
        """Make a set of images (height, width, channel): uint8, or floats from 0 to 255."""
        if not images:
            raise DataError("expected at least one image, got none")
        tensors = [torch.as_tensor(image) for image in images]
        sizes = torch.tensor([tensor.shape[:2] for tensor in tensors])
        return cls(torch.cat([tensor.flatten(0, 1) for tensor in tensors]), sizes, tuple(names))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> Tensor:
        """Return one image as networks take it: (1, channel, height, width), float32 in [0, 1]."""
        return self._stored(index).permute(2, 0, 1)[None].float() / 255

    @property
    def channels(self) -> int:
        """Return 1 for gray, 3 for color."""
        return self.pixels.shape[1]

    def to(self, device: torch.device) -> Self:
        """Return the set with its pixels on a device."""
        return type(self)(self.pixels.to(device), self.sizes, self.names)

    def select(self, indices: Sequence[int]) -> Self:
        """Return a set of the images with these indices."""
        names = [self.names[index] for index in indices]
        return self.of([self._stored(index) for index in indices], names)

    def split(self, count: int) -> tuple[Self, Self]:
        """Return two sets: the others, and `count` images that are spread evenly."""
        if not 0 < count < len(self):
            raise DataError(f"cannot hold out {count} of {len(self)} images")
        held = evenly_spread(count, len(self))
        kept = [index for index in range(len(self)) if index not in held]
        return self.select(kept), self.select(held)

    def middles(self, side: int) -> Self:
        """Return the middle of every image, at most `side` pixels high and wide."""
        parts = []
        for index, sides in enumerate(self.sizes.tolist()):
            top, left = (max(0, length - side) // 2 for length in sides)
            parts.append(self._stored(index)[top : top + side, left : left + side])
        return self.of(parts, self.names)

    def with_smaller_copies(self, factors: Sequence[float], least: int) -> Self:
        """Return these images and, after them, copies of sizes s·h × s·w for each factor s < 1.

        Copies are bicubic and rounded to 8 bits; those lower or narrower than `least` pixels are
        left out.
        """
        if not all(0 < factor < 1 for factor in factors):
            raise ValueError(f"factors must be in (0, 1), got {factors!r}")
        images = [self._stored(index) for index in range(len(self))]
        names = list(self.names)
        for factor, (index, sides) in product(factors, enumerate(self.sizes.tolist())):
            size = [round(factor * side) for side in sides]
            if min(size) < least:
                continue
            image = self._stored(index).permute(2, 0, 1)[None].double()
            copy = interpolate(image, size, mode="bicubic", antialias=True)[0]
            copy = (copy * 2**20).round() / 2**20  # so that halves are halves on every CPU
            images.append(copy.round().clamp(0, 255).byte().permute(1, 2, 0))
            names.append(f"{self.names[index]} × {factor:g}")
        return self.of(images, names)

    def crops(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        """Return random squares, mirrored and turned at random: (count, channel, size, size).

        All images are equally likely, whatever their sizes. Values are float32 in [0, 1].
        """
        return self.cut(self.draw_squares(count, size, generator))

    def draw_squares(self, count: int, size: int, generator: torch.Generator) -> Squares:
        """Draw the squares of `crops`."""
        draws = torch.rand(4, count, generator=generator, dtype=torch.float64)
        chosen = (draws[0] * len(self)).long()
        heights, widths = self.sizes[chosen].T
        rows = (draws[1] * (heights - size + 1)).long()
        columns = (draws[2] * (widths - size + 1)).long()
        return Squares(chosen, rows, columns, (draws[3] * 8).long(), size)

    def cut(self, squares: Squares) -> Tensor:
        """Return the pixels of squares: (count, channel, size, size), float32 in [0, 1]."""
        size, symmetry = squares.size, squares.symmetries
        widths = self.sizes[squares.images, 1]
        start = self._starts()[squares.images] + squares.rows * widths + squares.columns
        # One row down and one column right are steps in memory. A symmetry of the square reverses
        # or exchanges them.
        down, right = widths, torch.ones_like(widths)
        for bit, step in ((1, down), (2, right)):
            start = start + torch.where(symmetry & bit > 0, (size - 1) * step, 0)
        down = torch.where(symmetry & 1 > 0, -down, down)
        right = torch.where(symmetry & 2 > 0, -right, right)
        turned = symmetry & 4 > 0
        steps = torch.where(turned, right, down), torch.where(turned, down, right)
        where = torch.stack([start, *steps]).to(self.pixels.device, non_blocking=True)
        start, down, right = where[:, :, None, None]
        place = torch.arange(size, device=where.device)
        index = start + down * place[:, None] + right * place
        return self.pixels[index].permute(0, 3, 1, 2).float() / 255

    def check_sides(self, least: int, meaning: str) -> None:
        """Raise unless every image is at least `least` × `least`; `meaning` explains the number."""
        for name, sides in zip(self.names, self.sizes.tolist(), strict=True):
            if min(sides) < least:
                raise DataError(
                    f"{name} must have at least {least} × {least} pixels, {meaning}, "
                    f"got {sides[1]} × {sides[0]}"
                )

    def digest(self) -> str:
        """Return the SHA-256 of all pixels and sizes."""
        sha = hashlib.sha256(repr((self.sizes.tolist(), self.channels)).encode())
        sha.update(self.pixels.cpu().numpy().data.cast("B"))
        return sha.hexdigest()

    def _stored(self, index: int) -> Tensor:
        """Return one image as it is stored, (height, width, channel)."""
        height, width = self.sizes[index].tolist()
        start = int(self._starts()[index])
        return self.pixels[start : start + height * width].reshape(height, width, -1)

    def _starts(self) -> Tensor:
        ends = self.sizes.prod(1).cumsum(0)
        return ends - self.sizes.prod(1)


def noisy(image: Tensor, sigma: float, index: int) -> Tensor:
    """x + N(0, σ²), not clipped, with one fixed seed per image: all methods see the same noise.

    >>> import fwnet, torch
    >>> image = torch.full((1, 1, 100, 100), 0.5)
    >>> round(fwnet.data.noisy(image, sigma=0.1, index=0).std().item(), 2)
    0.1
    """
    check_tensor("image", image)
    check_number("sigma", sigma, or_tensor=True)
    noise = torch.randn(image.shape, generator=keyed_generator(0, "noise", index))
    return image + sigma * noise.to(image.device)


def evenly_spread(count: int, length: int) -> list[int]:
    """Return the middles of `count` equal parts of range(length)."""
    return [(2 * k + 1) * length // (2 * count) for k in range(count)]
