"""Images in memory, restored: `fwnet.denoise` and `fwnet.upscale`."""

import warnings
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from fwnet.imaging.metadata import read_metadata
from fwnet.imaging.pixels import AnyImage, Pixels, map_images
from fwnet.imaging.restorer import Restorer
from fwnet.models import ImageModel
from fwnet.progress import ProgressCallback, silent
from fwnet.restoration import Denoising, Restoration, Upscaling


def restore(
    kind: type[Restoration],
    image: AnyImage,
    model: str | Path | ImageModel | None = None,
    *,
    device: str | torch.device | None = None,
    tile: int | None = None,
    progress: ProgressCallback | None = None,
    **asked: Any,
) -> AnyImage:
    """Restore an array, a tensor or a PIL image; arguments are those of `Restorer`.

    >>> import fwnet, torch
    >>> from fwnet.restoration import Denoising
    >>> fwnet.imaging.restore(Denoising, torch.rand(1, 3, 32, 32), sigma=25 / 255, fast=True).shape
    torch.Size([1, 3, 32, 32])
    """
    restorer = Restorer(kind, model, device=device, tile=tile, **asked)
    if restorer.unused_sigma_hint:
        warnings.warn(restorer.unused_sigma_hint, stacklevel=3)

    def run(pixels: Pixels) -> Pixels:
        return restorer.run(pixels, progress or silent).pixels

    result = map_images(image, run)
    if restorer.scale > 1 and isinstance(result, Image.Image):
        about = read_metadata(result).enlarged(result.width, result.height, restorer.scale)
        changed = {"exif": about.exif, "dpi": about.dpi}
        result.info |= {key: value for key, value in changed.items() if value is not None}
    return result


def denoise(
    image: AnyImage,
    sigma: float | None = None,
    model: str | Path | ImageModel | None = None,
    *,
    strength: float = 1.0,
    fast: bool = False,
    device: str | torch.device | None = None,
    tile: int | None = None,
    progress: ProgressCallback | None = None,
) -> AnyImage:
    """Remove noise of standard deviation σ from an image: return y ≈ x, given image = x + noise.

    The result has the type of the input (array, tensor or PIL image), its shape and its dtype.
    Alpha is kept. Large images are cut into tiles, with the same result.

    Args:
        image: A NumPy array (h, w) or (h, w, channels), a tensor (h, w) or (…, channels, h, w), or
            a PIL image. Channels are gray, gray and alpha, RGB, or RGB and alpha. Integers are
            uint8 or uint16; floating-point values are in [0, 1], or slightly outside because of
            noise, and results are in [0, 1]. PIL modes that cannot hold the result are converted:
            1 to L, P and CMYK to RGB, a transparent color to alpha.
        sigma: The standard deviation of the noise on the scale of [0, 1], also for integers:
            25/255. None to estimate it for every image of a batch (`fwnet.imaging.noise_level`). A
            network for one noise level does not use it.
        model: A name from `fwnet.list_models`, the path of a file that `Model.save` wrote, or an
            `ImageModel`. None for a network for gray or for color, by the image; a color image with
            equal channels counts as gray. A network for gray images is applied to each channel of a
            color image; one for color refuses gray images, because it would take noise that is the
            same in all channels for a part of the image.
        strength: How much noise to remove, a factor of σ in [0, 10]: 0 for none, 0.5 for less, 2
            for more. A network for one noise level is mixed with the image instead.
        fast: Whether to use small networks by default, which take a fifth (gray) or a quarter
            (color) of the time and have about 0.3 dB less.
        device: Where to compute. None for a CUDA device if there is one; for an `ImageModel`, its
            own device.
        tile: Side of a tile, which bounds the memory; None for a size that suits the device.
        progress: Called with a `fwnet.progress.Progress` after every tile.

    >>> import fwnet, numpy as np
    >>> from skimage.data import camera
    >>> image = camera()[:96, :128]
    >>> noise = np.random.default_rng(0).normal(0, 25, image.shape)
    >>> noisy = (image + noise).clip(0, 255).astype(np.uint8)
    >>> clean = fwnet.denoise(noisy, sigma=25 / 255)
    >>> clean.shape, clean.dtype
    ((96, 128), dtype('uint8'))
    >>> before, after = (np.square(one - image.astype(float)).mean() for one in (noisy, clean))
    >>> bool(after < before / 5)
    True
    """
    sigma = None if sigma is None else float(sigma)
    asked = {"sigma": sigma, "strength": strength, "fast": fast}
    return restore(Denoising, image, model, device=device, tile=tile, progress=progress, **asked)


def upscale(
    image: AnyImage,
    scale: int | None = None,
    model: str | Path | ImageModel | None = None,
    *,
    jpeg: bool | None = None,
    device: str | torch.device | None = None,
    tile: int | None = None,
    progress: ProgressCallback | None = None,
) -> AnyImage:
    """Return y, `scale` times the height and width of the image, such that y↓ ≈ image.

    The result has the type of the input (array, tensor or PIL image), its channels and its dtype.
    The network enlarges Y of YCbCr (BT.601); Cb, Cr and alpha are enlarged bicubically. A gray
    image gives the same result as its RGB copy. Large images are cut into tiles, with the same
    result.

    Args:
        image: An array, a tensor or a PIL image, as for `denoise`. Colors of fully transparent
            pixels do not change visible ones.
        scale: 2, 3 or 4, or what the model was trained for. None for that; without a model, 3.
        model: A name from `fwnet.list_models`, the path of a file that `Model.save` wrote, or an
            `ImageModel` for one channel: either one whose result is `scale` times as large, or one
            that improves bicubically enlarged images. None for a shipped network of this scale.
        jpeg: Whether the default network is one that also removes the artifacts of JPEG. None to
            use it for PIL images from JPEG files.
        device: As for `denoise`.
        tile: Side of a tile in pixels of the given image, as for `denoise`.
        progress: As for `denoise`.

    >>> import fwnet
    >>> from PIL import Image
    >>> fwnet.upscale(Image.new("RGB", (40, 30), "teal"), scale=2).size
    (80, 60)
    """
    asked = {"scale": scale, "jpeg": jpeg}
    return restore(Upscaling, image, model, device=device, tile=tile, progress=progress, **asked)
