"""Denoising by overlapping patches: by K-SVD and OMP (Elad and Aharon, 2006), or by a network."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import fold, unfold

from fwnet.checks import check_integer
from fwnet.data import ImageSet
from fwnet.models import CodingNetwork, ImageModel, create_model
from fwnet.solvers import ksvd, omp

# Elad and Aharon use a gain of 1.15, and λ = 30/σ with σ in gray levels. Of the values tried on
# Berkeley training images, for σ from 15/255 to 50/255, their λ and a gain of 1.12 are best.
GAIN = 1.12
BLEND = 30 / 255  # λσ
CHUNK_PATCHES = {"cpu": 1 << 14, "cuda": 1 << 17}  # codes of 512 numbers take 32 MiB and 256 MiB
PATCH_SIZE = 8
ERROR = 15 / 255  # root mean square error per pixel that codes leave while D is learned
DRAWN = 3  # times as many patches are drawn as are used: most of an image may be flat
BATCH_SIZE = 20_000
WINDOW = 0.25  # standard deviation of the Gaussian w, in sides of a patch


def denoise_ksvd(image: Tensor, sigma: float, dictionary: Tensor) -> Tensor:
    """y = (λx + Σ_i R_iᵀ ŷ_i) / (λ + Σ_i R_iᵀ 1),   ŷ_i = mean(x_i) + D z_i,   x_i = R_i x.

    z_i has as few nonzeros as orthogonal matching pursuit needs for an error of at most
    (gain·σ)² per pixel. The patches x_i overlap at every shift of one pixel.

    Args:
        image: Noisy gray images x in [0, 1], not clipped: (batch, 1, height, width).
        sigma: The standard deviation σ of the noise, on that scale: 25/255, not 25.
        dictionary: D of shape (size², m), columns of norm 1, such as `patch_dictionary` learns
            from clean images.
    """
    size, weight = math.isqrt(len(dictionary)), BLEND / sigma
    dictionary = dictionary.to(image)

    def rebuild(rests: Tensor) -> Tensor:
        return omp(rests, dictionary, noise=GAIN * sigma) @ dictionary.T

    total = sum_of_patches(image, size, lambda patches: around_mean(patches, rebuild))
    coverage = sum_of_patches(torch.ones_like(image[:1]), size, lambda ones: ones)
    return (weight * image + total) / (weight + coverage)


def patch_dictionary(
    images: ImageSet, num_atoms: int = 512, *, num_patches: int = 100_000, num_rounds: int = 50
) -> Tensor:
    """min_D Σ_i ‖z_i‖₀  s.t.  ‖x_i − Dz_i‖² ≤ error²·n, ‖d_j‖ = 1, for clean patches x_i, by K-SVD.

    The same number of patches is drawn from every image, and their means are removed. Patches that
    are within the error without any atom are left out.

    Args:
        images: Clean gray images.
        num_atoms: m, the number of atoms.
        num_patches: Number of patches to learn from.
        num_rounds: Number of rounds; each updates the codes, then the atoms.

    Returns D, (n, m).
    """
    generator = torch.Generator().manual_seed(0)
    share = -(-DRAWN * num_patches // len(images))
    parts = []
    for index in range(len(images)):
        windows = images[index][0, 0].unfold(0, PATCH_SIZE, 1).unfold(1, PATCH_SIZE, 1)  # a view
        down, right = windows.shape[:2]
        places = torch.randperm(down * right, generator=generator)[:share]
        patches = windows[places // right, places % right].flatten(1)
        patches = patches - patches.mean(-1, keepdim=True)
        parts.append(patches[patches.square().mean(-1) > ERROR**2])
    patches = torch.cat(parts)
    order = torch.randperm(len(patches), generator=generator)[:num_patches]
    return ksvd(
        patches[order],
        num_atoms,
        noise=ERROR,
        num_rounds=num_rounds,
        batch_size=BATCH_SIZE,
        exact=False,
    ).dictionary


def sum_of_patches(x: Tensor, size: int, rebuild: Callable[[Tensor], Tensor]) -> Tensor:
    """Σ_i R_iᵀ f(R_i x) for gray images, (batch, 1, height, width).

    Args:
        x: The images.
        size: Side of a patch R_i x. The patches overlap at every shift of one pixel.
        rebuild: f, from patches to patches of the same shape, (count, size²).
    """
    columns = unfold(x, size)  # (batch, size², patches)
    patches = columns.transpose(1, 2).reshape(-1, size * size)
    # A compiled graph for all sizes cannot have a number of chunks.
    whole = torch.compiler.is_compiling()
    chunks = [patches] if whole else patches.split(CHUNK_PATCHES[x.device.type])
    rebuilt = torch.cat([rebuild(chunk) for chunk in chunks])
    rebuilt = rebuilt.reshape(x.shape[0], columns.shape[2], size * size).transpose(1, 2)
    return fold(rebuilt, x.shape[-2:], size)


def around_mean(patches: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """mean(x_i) + f(x_i − mean(x_i)) for patches x_i, (count, pixels)."""
    means = patches.mean(-1, keepdim=True)
    return means + function(patches - means)


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
