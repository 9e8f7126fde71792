"""`denoise`: a trained network on images of any kind and size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.imaging.errors import ImageError
from fwnet.imaging.noise import estimate_noise
from fwnet.imaging.pixels import AnyImage, Pixels, map_images
from fwnet.imaging.tiling import apply_tiled
from fwnet.imaging.worker import ImageWorker, exact_inference, gray_of
from fwnet.models import ImageModel

__all__ = ["DEFAULT_MODELS", "Denoised", "Denoiser", "checked_sigma", "denoise"]

# By the number of channels: what serves every σ.
DEFAULT_MODELS = {1: "conv_fwnet_t16.denoise_gray", 3: "conv_fwnet_t16.denoise_color"}

LARGEST_SIGMA = 55 / 255  # that networks were trained for if their files do not say another


@dataclass(frozen=True)
class Denoised:
    """What became of an image.

    Attributes:
        colors: The image, (h, w, channels), of the dtype it had.
        sigma: The noise that the network was told, given or estimated; None for one that is not
            told any.
    """

    colors: np.ndarray
    sigma: float | None


class Denoiser(ImageWorker):
    """A network put to work on images of any size: one for all, or by default one a kind.

    Args:
        model: A name of `fwnet.list_models`, a path, or an `ImageModel`, which is copied. None
            stands for the network for gray images or that for color, whichever an image needs.
        device: Where to compute; None stands for a CUDA device where there is one, and for that
            of an `ImageModel`.
        tile: The side of the tiles that large images are cut into; None for what suits the device.
    """

    def __init__(
        self,
        model: str | Path | ImageModel | None = None,
        *,
        device: str | torch.device | None = None,
        tile: int | None = None,
    ) -> None:
        super().__init__(model, device, tile)
        self._loaded: dict[str, ImageModel] = {}
        self._largest_sigmas: dict[ImageModel, float] = {}
        self.model = None if model is None else self._prepared(model)

    def takes_sigma(self) -> bool:
        """Whether σ is of use: the networks by default and many others must be told it."""
        return self.model is None or self.model.noise_level_input

    def run(
        self,
        pixels: Pixels,
        sigma: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Denoised:
        """Denoise one image; arguments are those of `denoise`."""
        gray = gray_of(pixels.colors) if self._sees_gray() else None
        if gray is not None:
            # The same noise three times: a network for color would take it for a part of the image.
            found = self.run(Pixels(gray, pixels.alpha), sigma, progress)
            return Denoised(np.repeat(found.colors, 3, axis=2), found.sigma)
        height, width, channels = pixels.colors.shape
        model = self._model_for(channels)
        if not model.noise_level_input:
            sigma = None
        elif sigma is None:
            opaque = None if pixels.alpha is None else pixels.alpha > 0
            sigma = estimate_noise(pixels.colors, opaque)
        output = np.empty_like(pixels.colors)
        done = 0
        starts = range(0, channels, model.in_channels)  # one for gray images sees one at a time

        def tell(more: int) -> None:
            nonlocal done
            done += more
            if progress is not None:
                progress(done // len(starts), height * width)

        with exact_inference():
            for start in starts:
                part = (..., slice(start, start + model.in_channels))
                apply_tiled(
                    lambda x: self._clean(model, x, sigma),
                    pixels.colors[part],
                    output[part],
                    size=self.tile,
                    halo=model.receptive_radius,
                    progress=tell,
                )
        return Denoised(output, sigma)

    def _sees_gray(self) -> bool:
        return self.model is None or self.model.in_channels == 1

    def _clean(self, model: ImageModel, x: Tensor, sigma: float | None) -> Tensor:
        largest = self._largest_sigmas[model]
        if sigma is None or sigma <= largest:
            return self._call(model, x, sigma)
        # Pulled towards gray, the image has a noise that the network knows.
        scale = largest / sigma
        return 0.5 + (self._call(model, 0.5 + scale * (x - 0.5), largest) - 0.5) / scale

    def _model_for(self, channels: int) -> ImageModel:
        if self.model is not None:
            if self.model.in_channels > channels:
                raise ImageError(
                    f"the network is one for color images ({self.model.in_channels} channels), and "
                    "this one is gray: leave the model out, or name one for gray images"
                )
            return self.model
        name = DEFAULT_MODELS[channels]
        if name not in self._loaded:
            self._loaded[name] = self._prepared(name)
        return self._loaded[name]

    def _prepared(self, model: str | Path | ImageModel) -> ImageModel:
        network = self._load(model)
        if network.model.scale != 1 or network.notes.get("task") == "upscale":
            raise ImageError(
                f"expected a network that removes noise, got {network.name}, which enlarges"
            )
        if network.model.in_channels not in DEFAULT_MODELS:
            raise ImageError(
                f"expected a network for 1 or 3 channels, got one for {network.model.in_channels}"
            )
        self._largest_sigmas[network.model] = _largest_sigma(network.notes)
        return network.model


def denoise(
    image: AnyImage,
    sigma: float | None = None,
    model: str | Path | ImageModel | None = None,
    *,
    device: str | torch.device | None = None,
    tile: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AnyImage:
    """Return y ≈ x, given image = x + noise of standard deviation σ: x as a network estimates it.

    What comes back is what was given: array, tensor or PIL image, its shape and its dtype. Alpha
    is kept as it is. Large images are cut into tiles, with the result of the whole.

    Args:
        image: A NumPy array (h, w) or (h, w, channels), a tensor (h, w) or (…, channels, h, w), or
            a PIL image. Channels are gray, gray and alpha, RGB, or RGB and alpha. Integers are
            uint8 or uint16; floating-point values are in [0, 1], a little more where there is
            noise, and leave within [0, 1]. PIL modes that cannot hold the result come back as
            another: 1 as L, P and CMYK as RGB, a transparent color as alpha.
        sigma: The standard deviation of the noise on the scale of [0, 1], also for integers:
            25/255. None has it estimated, for every image of a batch (`estimate_noise`). A
            network for one noise level uses none.
        model: A name of `fwnet.list_models`, the path of a file that `Model.save` wrote, or an
            `ImageModel`. None chooses by the image: a network for gray or one for color; a color
            image whose channels are equal counts as gray. A network for gray images is applied to
            each channel of a color image; one for color refuses gray images, in which it would
            take the noise, the same in all channels, for a part of the image.
        device: Where to compute. None stands for a CUDA device where there is one, and for that of
            an `ImageModel`.
        tile: The side of a tile, which bounds the memory; None for what suits the device.
        progress: Called after every tile with the pixels done, and those of the image.
    """
    sigma = checked_sigma(sigma)
    denoiser = Denoiser(model, device=device, tile=tile)
    if sigma is not None and not denoiser.takes_sigma():
        warnings.warn(
            f"this network serves one noise level: sigma={sigma} is not used", stacklevel=2
        )

    def clean(pixels: Pixels) -> Pixels:
        return Pixels(denoiser.run(pixels, sigma, progress).colors, pixels.alpha)

    return map_images(image, clean)


def checked_sigma(sigma: float | None) -> float | None:
    """σ as a number in [0, 1], or an error that says what to write instead of 25."""
    if sigma is None:
        return None
    value = float(sigma)
    if not 0 <= value <= 1:
        hint = f": write sigma={value:g}/255" if 1 < value <= 255 else ""
        raise ImageError(f"sigma must be in [0, 1], the scale of the image, got {value:g}{hint}")
    return value


def _largest_sigma(notes: Mapping[str, Any]) -> float:
    """The strongest noise that a network was trained for, by what training wrote to its file."""
    told = notes.get("sigma")  # a number or an interval, of 255
    levels = told if isinstance(told, list) else [told]
    if not levels or not all(isinstance(level, int | float) for level in levels):
        return LARGEST_SIGMA
    largest = max(levels) / 255
    return largest if 0 < largest <= 1 else LARGEST_SIGMA
