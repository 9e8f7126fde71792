"""Networks of fwnet in deepinv (extra `deepinv`): a prior for plug-and-play algorithms."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.models import ImageModel
from fwnet.restoration import Denoising
from fwnet.zoo import TrainedModel, load_trained

try:
    from deepinv.models import Denoiser as _Denoiser
except ImportError as error:
    raise ImportError(
        "fwnet.deepinv needs deepinv: pip install '.[deepinv]' in the clone"
    ) from error
except RuntimeError as error:  # of torchvision, which deepinv imports first
    raise ImportError(
        f"torchvision does not fit this torch; install both from one source: {error}"
    ) from error


class Denoiser(_Denoiser):  # type: ignore[misc]
    """D(x, σ): the image in x, where x is an image with white noise of standard deviation σ.

    A `deepinv.models.Denoiser`, for `deepinv.optim.PnP`, `deepinv.optim.DPIR` and the like.
    Gradients pass through it, so that it can be trained further.

    Args:
        model: A name from `fwnet.list_models`, the path of a model file, or an `ImageModel`, which
            is used as it is. None for the shipped network for all noise levels.
        in_channels: 1 for gray or 3 (default) for color images: which shipped network to take.
        device: Where to put the network.
    """

    def __init__(
        self,
        model: str | Path | ImageModel | None = None,
        in_channels: int = 3,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        if model is None:
            names = Denoising.default_models()
            if in_channels not in names:
                raise ValueError(f"in_channels must be 1 or 3, got {in_channels!r}")
            model = names[in_channels]
        trained = (
            TrainedModel(model, f"a {type(model).__name__}")
            if isinstance(model, ImageModel)
            else load_trained(model)
        )
        self.largest_sigma = Denoising.for_network(trained).high
        self.network: Any = trained.model
        self.to(device)

    def forward(self, x: Tensor, sigma: float | Tensor | None = None, **_: Any) -> Tensor:
        """Denoise images.

        Args:
            x: (batch, channel, h, w), in [0, 1] but for the noise. A network for gray images is
                applied to every channel.
            sigma: The noise level on the same scale, one number or one per image. A network for one
                level does not use it.
        """
        batch, channels, *size = x.shape
        if self.network.in_channels == 1 and channels > 1:
            each = None if sigma is None else self._levels(sigma, x).repeat_interleave(channels)
            gray: Tensor = self.forward(x.reshape(batch * channels, 1, *size), each)
            return gray.reshape(x.shape)
        if not self.network.noise_level_input:
            y: Tensor = self.network(x)
            return y
        if sigma is None:
            raise ValueError("sigma must be a number or one per image for this network, got None")
        level = self._levels(sigma, x)
        # More noise than the network knows is scaled down, towards gray.
        scale = (self.largest_sigma / level).clamp(max=1).reshape(-1, 1, 1, 1)
        seen = 0.5 + scale * (x - 0.5)
        restored = self.network(seen, level.clamp(max=self.largest_sigma))
        result: Tensor = 0.5 + (restored - 0.5) / scale
        return result

    def _levels(self, sigma: float | Tensor, x: Tensor) -> Tensor:
        """Return σ of every image, (batch,)."""
        level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).flatten()
        if level.numel() not in (1, len(x)):
            raise ValueError(
                f"sigma must be one number, or one for each of {len(x)} images, got {len(level)}"
            )
        return level.expand(len(x))
