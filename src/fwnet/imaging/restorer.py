"""`Restorer`: a trained network applied to images of any kind and size."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.hardware import choose_device, full_precision
from fwnet.imaging.color import gray_to_luma, luma_to_gray, rgb_to_ycbcr, ycbcr_to_rgb
from fwnet.imaging.photo_noise import noise_level
from fwnet.imaging.pixels import ImageError, Pixels
from fwnet.imaging.tiling import apply_tiled
from fwnet.imaging.transparency import keep_hidden, spread_visible
from fwnet.models import ImageModel, Model
from fwnet.progress import Progress, ProgressCallback, silent
from fwnet.restoration import Restoration
from fwnet.zoo import TrainedModel, load_trained

# Side of a tile in places of the network: pixels, or squares of them. With 16 layers of 64 maps,
# one of 256 × 256 takes about 100 MB; larger ones are no faster on a CPU, and smaller ones do not
# fill a GPU.
TILE_CPU = 256
TILE_GPU = 1024
# JPEG makes noise smoother, and networks remove smooth noise best when told more, up to this part
# more where noise is below the steps of the file: for Berkeley images with white noise of σ = 5 to
# 50, saved with quality 65 to 95, the best levels were 1.1 to 1.4 times σ.
JPEG_RISE = 0.28
LEAST_LEVEL = 1 / 255  # below this estimate there is nothing to see, and nothing is changed
LARGEST_RESULT = 1_000_000_000  # pixels: 3 GB of color with 8 bits


@dataclass(frozen=True)
class Restored:
    """A restored image.

    Attributes:
        pixels: The image, of the dtype of the input.
        sigma: The noise level given to the network; None for a network without that input.
        restoration: What the network was trained for.

    >>> import numpy as np
    >>> from fwnet.imaging import Pixels, Restorer
    >>> from fwnet.restoration import Denoising
    >>> gray = Pixels(np.full((16, 16, 1), 0.5, np.float32))
    >>> round(255 * Restorer(Denoising, sigma=25 / 255, fast=True).run(gray).sigma)
    25
    """

    pixels: Pixels
    sigma: float | None
    restoration: Restoration


@dataclass(frozen=True)
class _Network:
    """A network on its device, and what it restores."""

    model: ImageModel
    restoration: Restoration
    tile: int
    device: torch.device

    @property
    def sees(self) -> int:
        """The number of channels of its images."""
        return self.model.in_channels

    def __call__(self, x: Tensor, sigma: float | None = None) -> Tensor:
        dtype = next((weight.dtype for weight in self.model.parameters()), x.dtype)
        x = x.to(self.device, dtype).contiguous(memory_format=torch.channels_last)
        y: Tensor = self.model(x, sigma)
        return y.float()

    def restore(
        self, colors: np.ndarray, sigma: float | None, progress: ProgressCallback, stage: str
    ) -> np.ndarray:
        """Restore (h, w, channels)."""
        if self.restoration.luma:
            return self._tiled(self._restore_luma, colors, colors.shape[2], sigma, progress, stage)

        def restore(x: Tensor, sigma: float | None) -> Tensor:
            restored = self._restore_seen(x, sigma)
            return self.restoration.within_range(restored, x) if ends else restored

        ends = colors.dtype.kind == "u" or bool(colors.min() >= 0 and colors.max() <= 1)
        # A network for gray images sees the channels of a color image one by one.
        return self._tiled(restore, colors, self.sees, sigma, progress, stage)

    def baseline(self, colors: np.ndarray) -> np.ndarray:
        """Return what (h, w, channels) becomes without the network."""
        return self._tiled(lambda x, _: self.restoration.baseline(x), colors, colors.shape[2])

    def _restore_seen(self, x: Tensor, sigma: float | None) -> Tensor:
        """Restore (1, channels, h, w), where channels are those that the network sees."""
        return self.restoration.restore(self, x, sigma)

    def _restore_luma(self, x: Tensor, sigma: float | None) -> Tensor:
        """Restore the luma of gray or RGB; chroma comes from the restoration's `baseline`."""
        if x.shape[1] == 1:
            return luma_to_gray(self._restore_seen(gray_to_luma(x), sigma))
        luma, chroma = rgb_to_ycbcr(x).split([1, 2], 1)
        parts = [self._restore_seen(luma, sigma), self.restoration.baseline(chroma)]
        return ycbcr_to_rgb(torch.cat(parts, 1))

    def _tiled(
        self,
        call: Callable[[Tensor, float | None], Tensor],
        colors: np.ndarray,
        group: int,
        sigma: float | None = None,
        progress: ProgressCallback = silent,
        stage: str = "",
    ) -> np.ndarray:
        """Return what `call` makes of an image, tile by tile, `group` channels at a time."""
        scale = self.restoration.scale
        height, width, channels = colors.shape
        output = np.empty((scale * height, scale * width, channels), colors.dtype)
        starts = range(0, channels, group)
        done = 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            progress(Progress(stage, done // len(starts), scale**2 * height * width, "pixels"))

        with full_precision(), torch.inference_mode():  # in TF32, tiles would show
            for start in starts:
                part = (..., slice(start, start + group))
                apply_tiled(
                    lambda x: call(x.to(self.device), sigma),
                    colors[part],
                    output[part],
                    size=self.tile,
                    halo=self.restoration.halo(self.model),
                    progress=report,
                    scale=scale,
                    multiple=self.model.reduction,
                )
        return output


class Restorer:
    """A trained network, or the default ones, ready for images of any kind and size.

    Args:
        kind: A class of restorations, such as `Denoising`.
        model: A name from `fwnet.list_models`, a path, an `ImageModel`, which is copied, or what
            `fwnet.zoo.load_trained` returned. None for a shipped network that suits each image.
        device: Where to compute. None for a CUDA device if there is one; for an `ImageModel`, its
            own device.
        tile: Side of the tiles that large images are cut into, in pixels of the image. None for a
            size that suits the device.
        asked: What to do, by the names of the kind's options: `sigma`, `fast`, `scale`, `jpeg`.

    The network is loaded once for many images:

    >>> import numpy as np
    >>> from fwnet.imaging import Pixels, Restorer
    >>> from fwnet.restoration import Upscaling
    >>> restorer = Restorer(Upscaling, scale=2)
    >>> images = [np.full((side, side, 1), 0.5, np.float32) for side in (16, 20)]
    >>> [restorer.run(Pixels(image)).pixels.colors.shape for image in images]
    [(32, 32, 1), (40, 40, 1)]
    """

    def __init__(
        self,
        kind: type[Restoration],
        model: str | Path | ImageModel | TrainedModel | None = None,
        *,
        device: str | torch.device | None = None,
        tile: int | None = None,
        **asked: Any,
    ) -> None:
        self.kind, self.model, self.asked = kind, model, asked
        self.tile = None if tile is None else check_integer("tile", tile)
        if device is None and isinstance(model, ImageModel):
            device = next((weight.device for weight in model.parameters()), None)
        self.device = choose_device(device)
        for name in kind.choices:
            if model is not None and asked.get(name) not in (None, False):
                raise ImageError(f"expected either {name} or a model, got both")
        self._only = None if model is None else self._prepare(_trained(model))
        self._defaults: dict[bool, dict[int, str]] = {}  # for images that were compressed or not
        if model is None:
            self._defaults = {
                lossy: kind.default_models(lossy=lossy, **asked) for lossy in (False, True)
            }
        self._loaded: dict[str, _Network] = {}  # by name

    @property
    def scale(self) -> int:
        """Scale factor of results, the same for all default networks."""
        network = self._only or next(iter(self._loaded.values()), None)
        return (network or self._default(next(iter(self._defaults[False])))).restoration.scale

    @property
    def unused_sigma_hint(self) -> str | None:
        """A hint if σ is given to a network that has no input for it."""
        network = self._only
        given = self.asked.get("sigma") is not None
        if not given or network is None or network.model.noise_level_input:
            return None
        return "this network has no input for the noise level: sigma is not used"

    def run(
        self, pixels: Pixels, progress: ProgressCallback = silent, stage: str = "restoring"
    ) -> Restored:
        """Restore one image; `progress` is called after every tile, with this `stage`."""
        first, *others = np.moveaxis(pixels.colors, 2, 0)
        sees_gray = self._only.sees == 1 if self._only else 1 in self._defaults[False]
        if sees_gray and others and all(np.array_equal(first, other) for other in others):
            # Noise that is the same in all channels would look like a part of the image.
            gray = replace(pixels, colors=pixels.colors[..., :1])
            result = self.run(gray, progress, stage)
            colors = np.repeat(result.pixels.colors, 3, axis=2)
            return Restored(Pixels(colors, result.pixels.alpha), result.sigma, result.restoration)
        network = self._network_for(pixels.colors.shape[2], pixels.lossy)
        height, width = (network.restoration.scale * side for side in pixels.colors.shape[:2])
        if network.restoration.scale > 1 and height * width > LARGEST_RESULT:
            raise ImageError(
                f"the result must have at most {LARGEST_RESULT / 1e6:,.0f} megapixels, got "
                f"{width:,} × {height:,} pixels"
            )
        sigma = self._noise_level(network, pixels)
        if network.restoration.scale == 1 or pixels.alpha is None:
            colors = network.restore(pixels.colors, sigma, progress, stage)
            return Restored(Pixels(colors, pixels.alpha), sigma, network.restoration)
        alpha = network.baseline(pixels.alpha[..., None])[..., 0]
        visible = spread_visible(pixels.colors, pixels.alpha)
        colors = network.restore(visible, sigma, progress, stage)
        keep_hidden(colors, alpha, pixels.colors)
        return Restored(Pixels(colors, alpha), sigma, network.restoration)

    def baseline(self, colors: np.ndarray) -> np.ndarray:
        """Return what (h, w, channels) becomes without a network."""
        return self._network_for(colors.shape[2]).baseline(colors)

    def noise_level(self, pixels: Pixels) -> float | None:
        """Return σ as given or estimated; None for a network without that input."""
        return self._noise_level(self._network_for(pixels.colors.shape[2]), pixels)

    def with_options(self, **asked: Any) -> "Restorer":
        """Return a restorer that differs in some options."""
        asked = self.asked | asked
        return Restorer(self.kind, self.model, device=self.device, tile=self.tile, **asked)

    def _noise_level(self, network: _Network, pixels: Pixels) -> float | None:
        if not network.model.noise_level_input:
            return None
        if network.restoration.sigma is not None:
            return network.restoration.sigma
        opaque = None if pixels.alpha is None else pixels.alpha > 0
        level = noise_level(pixels.colors, opaque, device=self.device)
        if level < LEAST_LEVEL:
            return 0.0
        steps = min(1.0, pixels.jpeg_step / (255 * level))  # in units of the noise
        return level * (1 + JPEG_RISE * math.sqrt(steps))

    def _network_for(self, channels: int, lossy: bool = False) -> _Network:
        network = self._only or self._default(channels, lossy)
        if network.sees > channels:
            raise ImageError(
                f"the network is for color images ({network.sees} channels), got a gray one: "
                "choose a network for gray images, or leave out the model (--model)"
            )
        return network

    def _default(self, channels: int, lossy: bool = False) -> _Network:
        names = self._defaults[lossy]
        name = names[channels if channels in names else next(iter(names))]
        if name not in self._loaded:
            self._loaded[name] = self._prepare(load_trained(name))
        return self._loaded[name]

    def _prepare(self, trained: TrainedModel) -> _Network:
        restoration = self.kind.for_network(trained, **self.asked)
        model: Any = trained.model
        if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in model.parameters()):
            model.float()  # images need more digits
        model.to(self.device, memory_format=torch.channels_last)  # which is faster on a CPU
        usual = TILE_CPU if self.device.type == "cpu" else TILE_GPU
        seen = restoration.scale // model.scale  # enlargement before the network
        tile = self.tile or max(1, usual * model.reduction // seen)
        return _Network(model.eval(), restoration, tile, self.device)


def _trained(model: str | Path | ImageModel | TrainedModel) -> TrainedModel:
    """Load a network, or copy it, so that the caller's stays as it is."""
    if isinstance(model, TrainedModel):
        trained = model
    elif isinstance(model, Model):
        trained = TrainedModel(copy.deepcopy(model), f"a {type(model).__name__}")
    elif isinstance(model, str | Path):
        trained = load_trained(model)
    else:
        raise TypeError(
            f"model must be a name, a path or a network for images, got {type(model).__name__}"
        )
    if not isinstance(trained.model, ImageModel):
        holds = (
            "" if isinstance(model, Model) else f", which holds a {type(trained.model).__name__}"
        )
        raise ImageError(f"expected a network for images, got {trained.name}{holds}")
    return trained
