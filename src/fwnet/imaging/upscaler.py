"""`upscale`: a trained network makes images of any kind larger."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fwnet.imaging.color import gray_to_luma, luma_to_gray, rgb_to_ycbcr, ycbcr_to_rgb
from fwnet.imaging.errors import ImageError
from fwnet.imaging.metadata import read_metadata
from fwnet.imaging.pixels import AnyImage, Pixels, map_images
from fwnet.imaging.tiling import apply_tiled
from fwnet.imaging.transparency import keep_hidden, spread_visible
from fwnet.imaging.worker import ImageWorker, LoadedNetwork, exact_inference, gray_of
from fwnet.models import ImageModel
from fwnet.resize import REACH, enlarge

__all__ = ["DEFAULT_SCALE", "DEFAULT_UPSCALERS", "Upscaler", "upscale"]

DEFAULT_UPSCALERS = {scale: f"conv_fwnet_t19.upscale_x{scale}" for scale in (2, 3, 4)}
DEFAULT_SCALE = 3

LARGEST_RESULT = 1_000_000_000  # pixels: 3 GB of color with 8 bits


class Upscaler(ImageWorker):
    """A network put to work: it enlarges the light of an image, Y; colors follow bicubically.

    Args:
        model: A name of `fwnet.list_models`, a path, or an `ImageModel`, which is copied. None
            stands for the network of the package for this scale.
        scale: How many times as high and wide images become. None leaves it to the model; without
            one it is 3.
        device: Where to compute; None stands for a CUDA device where there is one, and for that
            of an `ImageModel`.
        tile: The side, in pixels of the small image, of the tiles that large ones are cut into;
            None for what suits device and network.
    """

    def __init__(
        self,
        model: str | Path | ImageModel | None = None,
        scale: int | None = None,
        *,
        device: str | torch.device | None = None,
        tile: int | None = None,
    ) -> None:
        super().__init__(model, device, tile)
        scale = _checked_scale(scale)
        network = self._load(_default_model(scale) if model is None else model)
        self.model, self.scale = network.model, _settled_scale(network, scale)
        self._sees_large = self.model.scale == 1
        radius = self.model.receptive_radius
        # Colors are enlarged bicubically, whatever the network does.
        self._halo = -(-radius // self.scale) + REACH if self._sees_large else max(radius, REACH)
        if self._sees_large and tile is None:
            self.tile = max(1, self.tile // self.scale)

    def run(self, pixels: Pixels, progress: Callable[[int, int], None] | None = None) -> Pixels:
        """Enlarge one image; arguments are those of `upscale`."""
        gray = gray_of(pixels.colors)
        if gray is not None:
            small = self.run(Pixels(gray, pixels.alpha), progress)
            return Pixels(np.repeat(small.colors, 3, axis=2), small.alpha)
        height, width = (self.scale * length for length in pixels.colors.shape[:2])
        if height * width > LARGEST_RESULT:
            raise ImageError(
                f"the result would have {width:,} × {height:,} pixels, "
                f"{height * width / 1e6:,.0f} megapixels: no more than "
                f"{LARGEST_RESULT / 1e6:,.0f} are made"
            )
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            if progress is not None:
                progress(done, height * width)

        if pixels.alpha is None:
            return Pixels(self._apply(self._enlarge, pixels.colors, self._halo, tell))
        alpha = self.enlarge_bicubic(pixels.alpha[..., None])[..., 0]
        seen = spread_visible(pixels.colors, pixels.alpha)
        colors = self._apply(self._enlarge, seen, self._halo, tell)
        keep_hidden(colors, alpha, pixels.colors)
        return Pixels(colors, alpha)

    def enlarge_bicubic(self, colors: np.ndarray) -> np.ndarray:
        """What (h, w, channels) becomes without a network, cut off to the range of its dtype."""
        return self._apply(
            lambda x: enlarge(x.to(self.device), self.scale), colors, REACH, lambda _: None
        )

    def _apply(
        self,
        function: Callable[[Tensor], Tensor],
        colors: np.ndarray,
        halo: int,
        tell: Callable[[int], None],
    ) -> np.ndarray:
        height, width, channels = colors.shape
        large = np.empty((self.scale * height, self.scale * width, channels), colors.dtype)
        with exact_inference():
            apply_tiled(
                function,
                colors,
                large,
                size=self.tile,
                halo=halo,
                progress=tell,
                scale=self.scale,
            )
        return large

    def _enlarge(self, x: Tensor) -> Tensor:
        """Gray or RGB, (1, channels, h, w)."""
        x = x.to(self.device)
        if x.shape[1] == 1:
            return luma_to_gray(self._enlarge_luma(gray_to_luma(x)))
        luma, chroma = rgb_to_ycbcr(x).split([1, 2], 1)
        return ycbcr_to_rgb(torch.cat([self._enlarge_luma(luma), enlarge(chroma, self.scale)], 1))

    def _enlarge_luma(self, luma: Tensor) -> Tensor:
        if self._sees_large:
            luma = enlarge(luma, self.scale)
        return self._call(self.model, luma)


def upscale(
    image: AnyImage,
    scale: int | None = None,
    model: str | Path | ImageModel | None = None,
    *,
    device: str | torch.device | None = None,
    tile: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AnyImage:
    """Return y, `scale` times as high and wide as the image, such that the image is y made smaller.

    What comes back is what was given: array, tensor or PIL image, its channels and its dtype. The
    network enlarges Y of YCbCr (BT.601); Cb, Cr and alpha are enlarged bicubically. A gray image
    becomes what its RGB copy does. Large images are cut into tiles, with the result of the whole.

    Args:
        image: A NumPy array (h, w) or (h, w, channels), a tensor (h, w) or (…, channels, h, w), or
            a PIL image. Channels are gray, gray and alpha, RGB, or RGB and alpha. Integers are
            uint8 or uint16; floating-point values are in [0, 1]. PIL modes that cannot hold the
            result come back as another: 1 as L, P and CMYK as RGB, a transparent color as alpha.
            Colors of fully transparent places do not show in the border of what is seen.
        scale: 2, 3 or 4, or what the model was trained for. None stands for that; without a model
            it is 3.
        model: A name of `fwnet.list_models`, the path of a file that `Model.save` wrote, or an
            `ImageModel` for one channel: either one whose result is `scale` times as large, or one
            that was trained to improve what bicubic interpolation has enlarged. None chooses by
            the scale.
        device: Where to compute. None stands for a CUDA device where there is one, and for that of
            an `ImageModel`.
        tile: The side of a tile in pixels of the image, which bounds the memory; None for what
            suits device and network.
        progress: Called after every tile with the pixels of the result that are done, and all.
    """
    upscaler = Upscaler(model, scale, device=device, tile=tile)
    result = map_images(image, lambda pixels: upscaler.run(pixels, progress), upscaler.scale)
    if isinstance(result, Image.Image):
        about = read_metadata(result).enlarged(result.width, result.height, upscaler.scale)
        changed = {"exif": about.exif, "dpi": about.dpi}
        result.info |= {key: value for key, value in changed.items() if value is not None}
    return result


def _checked_scale(scale: int | None) -> int | None:
    if scale is None:
        return None
    try:
        whole = operator.index(scale)
    except TypeError:
        whole = 0
    if whole < 2:
        raise ImageError(f"scale must be an integer >= 2, got {scale!r}")
    return whole


def _default_model(scale: int | None) -> str:
    scale = DEFAULT_SCALE if scale is None else scale
    if scale not in DEFAULT_UPSCALERS:
        *some, last = DEFAULT_UPSCALERS
        raise ImageError(
            f"scale must be {', '.join(map(str, some))} or {last}, for which there are networks, "
            f"or that of a model trained for it, got {scale} and no model"
        )
    return DEFAULT_UPSCALERS[scale]


def _settled_scale(network: LoadedNetwork, scale: int | None) -> int:
    """That of the network, or of its training; raise for one that does something else."""
    model, name, notes = network.model, network.name, network.notes
    if model.noise_level_input or notes.get("task", "upscale") != "upscale":
        raise ImageError(f"expected a network that enlarges, got {name}, which removes noise")
    if model.in_channels != 1:
        raise ImageError(f"expected a network for 1 channel, got one for {model.in_channels}")
    told = model.scale if model.scale > 1 else notes.get("scale")
    known = told if isinstance(told, int) and told > 1 else None
    settled = scale if known is None else known
    if settled is None:
        raise ImageError(f"scale must be given: {name} does not say what it was trained for")
    if scale not in (None, settled):
        raise ImageError(f"scale must be {settled}, for which {name} was trained, got {scale}")
    return settled
