"""Denoising by sparse codes of patches: K-SVD and OMP (Elad and Aharon, 2006)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import fold, unfold

from fwnet.checks import check_integer
from fwnet.imaging.bm3d import check_noisy_gray
from fwnet.solvers import ksvd, omp

# Elad and Aharon use a gain of 1.15, and λ = 30/σ with σ in gray levels. Of the values tried on
# Berkeley training images, for σ from 15/255 to 50/255, their λ and a gain of 1.12 are best.
GAIN = 1.12
BLEND = 30 / 255
CHUNK_PATCHES = 1 << 14  # codes of 512 numbers take 32 MiB
CHUNK_PATCHES_GPU = 1 << 17
DRAWN = 3  # times as many patches are drawn as are used: most of an image may be flat


def denoise_ksvd(
    image: Tensor,
    sigma: float,
    dictionary: Tensor,
    *,
    gain: float = GAIN,
    blend: float = BLEND,
    chunk_patches: int | None = None,
) -> Tensor:
    """y = (λx + Σ_i R_iᵀ ŷ_i) / (λ + Σ_i R_iᵀ 1),   ŷ_i = mean(x_i) + D z_i,   x_i = R_i x.

    z_i has as few nonzeros as orthogonal matching pursuit needs for an error of at most
    (gain·σ)² per pixel. The patches x_i overlap at every shift of one pixel.

    Args:
        image: Noisy gray images x in [0, 1], not clipped: (batch, 1, height, width).
        sigma: The standard deviation σ of the noise, on that scale: 25/255, not 25.
        dictionary: D of shape (size², m), columns of norm 1, such as `patch_dictionary` learns
            from clean images.
        gain: Error of a patch in units of the noise.
        blend: λσ, the weight of x in y.
        chunk_patches: Number of patches that are coded together; None for what suits the device.
    """
    check_noisy_gray(image, sigma)
    size = _checked_size(image, dictionary)
    for name, value in {"gain": gain, "blend": blend}.items():
        if not value >= 0:
            raise ValueError(f"{name} must be >= 0, got {value!r}")
    if chunk_patches is None:
        chunk_patches = CHUNK_PATCHES if image.device.type == "cpu" else CHUNK_PATCHES_GPU
    if not chunk_patches >= 1:
        raise ValueError(f"chunk_patches must be >= 1, got {chunk_patches!r}")
    image, noise, weight = image.detach(), gain * sigma, blend / sigma
    dictionary = dictionary.detach().to(image)
    coverage = torch.outer(*(_coverage(side, size).to(image) for side in image.shape[-2:]))
    denoised = torch.empty_like(image)
    for x, y in zip(image[:, 0], denoised[:, 0], strict=True):
        total = _sum_of_patches(x, dictionary, noise, size, chunk_patches)
        torch.div(weight * x + total, weight + coverage, out=y)
    return denoised


def patch_dictionary(
    images: Sequence[Tensor],
    num_atoms: int = 512,
    patch_size: int = 8,
    *,
    num_patches: int = 100_000,
    error: float = 15 / 255,
    num_rounds: int = 50,
    batch_size: int = 20_000,
    seed: int = 0,
) -> Tensor:
    """min_D Σ_i ‖z_i‖₀  s.t.  ‖x_i − Dz_i‖² ≤ error²·n, ‖d_j‖ = 1, for clean patches x_i, by K-SVD.

    The same number of patches is drawn from every image, and their means are removed. Patches that
    are within the error without any atom are left out.

    Args:
        images: Clean gray images in [0, 1], each (height, width) or (1, 1, height, width).
        num_atoms: m, the number of atoms.
        patch_size: Side of a patch; n is its square.
        num_patches: Number of patches to learn from.
        error: Root mean square error per pixel that a code may leave.
        num_rounds: Number of rounds; each updates the codes, then the atoms.
        batch_size: Number of patches, drawn at random, that a round uses.
        seed: Seed of the patches and the first atoms.

    Returns D, (patch_size², m), on the device of the images.
    """
    if not len(images):
        raise ValueError("expected at least one image, got none")
    for name, count in {
        "num_atoms": num_atoms,
        "patch_size": patch_size,
        "num_patches": num_patches,
    }.items():
        check_integer(name, count)
    if not error > 0:
        raise ValueError(f"error must be > 0, got {error!r}")
    generator = torch.Generator().manual_seed(seed)
    share = -(-DRAWN * num_patches // len(images))
    parts = []
    for index in range(len(images)):
        image = images[index].detach()
        if image.ndim < 2 or image.shape[:-2].numel() != 1:
            raise ValueError(f"images must be gray, (height, width), got {tuple(image.shape)}")
        image = image.reshape(image.shape[-2:])
        patches, _ = _without_mean(_drawn_patches(image, share, patch_size, generator))
        parts.append(patches[patches.square().mean(-1) > error**2])
    patches = torch.cat(parts)
    if not len(patches):
        raise ValueError(f"images must have patches that vary by more than error={error:g}")
    order = torch.randperm(len(patches), generator=generator)[:num_patches].to(patches.device)
    found = ksvd(
        patches[order],
        num_atoms,
        noise=error,
        num_rounds=num_rounds,
        batch_size=batch_size,
        exact=False,
        seed=seed,
    )
    return found.dictionary


def _sum_of_patches(x: Tensor, dictionary: Tensor, noise: float, size: int, chunk: int) -> Tensor:
    """Σ_i R_iᵀ ŷ_i of one image (height, width), in bands of about `chunk` patches."""
    height, width = x.shape
    total = torch.zeros_like(x)
    rows = max(1, chunk // (width - size + 1))
    for top in range(0, height - size + 1, rows):
        band = slice(top, min(top + rows + size - 1, height))
        part = x[band]
        patches, means = _without_mean(unfold(part[None, None], size)[0].T)
        rebuilt = means + omp(patches, dictionary, noise=noise) @ dictionary.T
        total[band] += fold(rebuilt.T[None], part.shape, size)[0, 0]
    return total


def _drawn_patches(image: Tensor, count: int, size: int, generator: torch.Generator) -> Tensor:
    """Patches of one image (height, width), drawn without replacement: (count or fewer, size²)."""
    _check_sides(image, size)
    windows = image.unfold(0, size, 1).unfold(1, size, 1)  # a view
    down, right = windows.shape[:2]
    places = torch.randperm(down * right, generator=generator)[:count].to(image.device)
    return windows[places // right, places % right].flatten(1)


def _without_mean(patches: Tensor) -> tuple[Tensor, Tensor]:
    means = patches.mean(-1, keepdim=True)
    return patches - means, means


def _coverage(side: int, size: int) -> Tensor:
    """Return how many patches contain a pixel, along one side."""
    place = torch.arange(side)
    return place.clamp(max=side - size) - (place - size + 1).clamp(min=0) + 1


def _checked_size(image: Tensor, dictionary: Tensor) -> int:
    """Return the side of a patch."""
    if dictionary.ndim != 2 or math.isqrt(dictionary.shape[0]) ** 2 != dictionary.shape[0]:
        hint = ""
        if dictionary.ndim == 2 and math.isqrt(dictionary.shape[1]) ** 2 == dictionary.shape[1]:
            hint = "; this may be scikit-learn's (n_components, n_features): pass its transpose"
        raise ValueError(
            "dictionary must have shape (n, m), where n is the pixels of a square patch, "
            f"got {tuple(dictionary.shape)}{hint}"
        )
    size = math.isqrt(dictionary.shape[0])
    _check_sides(image, size)
    return size


def _check_sides(image: Tensor, size: int) -> None:
    height, width = image.shape[-2:]
    if min(height, width) < size:
        raise ValueError(
            f"images must have at least {size} × {size} pixels, got {height} × {width}"
        )
