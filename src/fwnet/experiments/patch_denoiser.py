"""A coding network of vectors, applied to all overlapping patches of an image."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.experiments.patch_coding import around_mean, sum_of_patches
from fwnet.models import CodingNetwork, ImageModel, create_model

WINDOW = 0.25  # standard deviation of the Gaussian w, in sides of a patch


class PatchDenoiser(ImageModel):
    """y = Σ_i R_iᵀ w∘ŷ_i / Σ_i R_iᵀ w,   ŷ_i = mean(x_i) + W_R z(x_i − mean(x_i)),   x_i = R_i x.

    The patches x_i overlap at every shift of one pixel. A pixel is the weighted mean over the
    patches that contain it; w falls from the middle of a patch to its rim, where the network sees
    less around a pixel. It is trained on images of the size of one patch.

    Args:
        coder: Description of the network that makes z, with W_R: the name of a `model`, such as
            "FWNet", and the arguments of its constructor; `num_features` is the number of pixels of
            a patch.
        patch_size: Side of a patch.
        generator: Generator of the initial weights.
    """

    weights: Tensor

    def __init__(
        self,
        coder: Mapping[str, Any],
        patch_size: int = 8,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(1, residual=False, noise_level_input=False)
        check_integer("patch_size", patch_size)
        if not isinstance(coder, Mapping) or "model" not in coder:
            raise ValueError(f"coder must be a mapping with a model, got {coder!r}")
        options = {name: value for name, value in coder.items() if name != "model"}
        network = create_model(coder["model"], **options, generator=generator)
        if not isinstance(network, CodingNetwork) or network.last is None:
            raise ValueError(f"coder must rebuild signals (reconstruct=True), got {dict(coder)}")
        if network.num_features != patch_size**2:
            raise ValueError(
                f"num_features of coder must be {patch_size**2}, the pixels of a patch, "
                f"got {network.num_features}"
            )
        self.coder, self.patch_size = network, patch_size
        place = torch.arange(patch_size) - (patch_size - 1) / 2
        profile = torch.exp(-0.5 * (place / (WINDOW * patch_size)) ** 2)
        self.register_buffer("weights", torch.outer(profile, profile).flatten(), persistent=False)

    @classmethod
    def on(cls, coder: CodingNetwork, **options: Any) -> Self:
        """Return a denoiser with a copy of a network."""
        about = {"model": type(coder).__name__, **coder.config}
        model = cls(about, **options).to(coder.first.weight)
        model.coder.load_state_dict(coder.state_dict())
        return model

    @property
    def receptive_radius(self) -> int:
        """A pixel depends on those that share a patch with it."""
        return self.patch_size - 1

    @property
    def multiply_adds(self) -> int:
        """Multiplications of one patch: there is about one patch per pixel."""
        return self.coder.multiply_adds

    def watched(self) -> dict[str, float | list[float]]:
        """Return the learned numbers of the coder to show during training."""
        return self.coder.watched()

    def _transform(self, x: Tensor) -> Tensor:
        size = self.patch_size
        height, width = x.shape[-2:]
        if min(height, width) < size:
            raise ValueError(
                f"images must have at least {size} × {size} pixels, got {height} × {width}"
            )
        if (height, width) == (size, size):
            return self._denoise(x.flatten(1)).reshape(x.shape)
        total = sum_of_patches(x, size, lambda patches: self.weights * self._denoise(patches))
        norm = sum_of_patches(torch.ones_like(x[:1]), size, lambda ones: self.weights * ones)
        return total / norm

    def _denoise(self, patches: Tensor) -> Tensor:
        return around_mean(patches, self.coder)
