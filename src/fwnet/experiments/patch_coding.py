"""Denoising by sparse codes of patches: K-SVD and OMP (Elad and Aharon, 2006)."""

import math

import torch
from torch import Tensor
from torch.nn.functional import fold, unfold

from fwnet.data import ImageSet
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
    coverage = torch.outer(*(_coverage(side, size).to(image) for side in image.shape[-2:]))
    denoised = torch.empty_like(image)
    for x, y in zip(image[:, 0], denoised[:, 0], strict=True):
        total = _sum_of_patches(x, dictionary, GAIN * sigma, size)
        torch.div(weight * x + total, weight + coverage, out=y)
    return denoised


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
        patches, _ = _without_mean(windows[places // right, places % right].flatten(1))
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


def _sum_of_patches(x: Tensor, dictionary: Tensor, noise: float, size: int) -> Tensor:
    """Σ_i R_iᵀ ŷ_i of one image (height, width), in bands of about `CHUNK_PATCHES` patches."""
    height, width = x.shape
    total = torch.zeros_like(x)
    rows = max(1, CHUNK_PATCHES[x.device.type] // (width - size + 1))
    for top in range(0, height - size + 1, rows):
        band = slice(top, min(top + rows + size - 1, height))
        part = x[band]
        patches, means = _without_mean(unfold(part[None, None], size)[0].T)
        rebuilt = means + omp(patches, dictionary, noise=noise) @ dictionary.T
        total[band] += fold(rebuilt.T[None], part.shape, size)[0, 0]
    return total


def _without_mean(patches: Tensor) -> tuple[Tensor, Tensor]:
    means = patches.mean(-1, keepdim=True)
    return patches - means, means


def _coverage(side: int, size: int) -> Tensor:
    """Return how many patches contain a pixel, along one side."""
    place = torch.arange(side)
    return place.clamp(max=side - size) - (place - size + 1).clamp(min=0) + 1
