"""pool_p and its derivatives in high precision, written from the paper's formula alone."""

import functools
from collections.abc import Sequence

import mpmath as mp
import torch
from torch import Tensor

DIGITS = 80
DIFFERENCE_DIGITS = 240  # a difference over 60 orders of magnitude leaves 80 of them


def pool(u: Sequence[mp.mpf], excess: mp.mpf, radius: mp.mpf, eps: mp.mpf) -> list[mp.mpf]:
    """−radius · sign(u_i) · (|u_i| / (‖u‖_q + eps))^(1/(p−1)), 1 < p < ∞."""
    q = 1 + 1 / excess
    norm = mp.fsum(abs(v) ** q for v in u) ** (1 / q)
    if norm == 0:
        return [mp.mpf(0) for _ in u]
    return [-radius * mp.sign(v) * (abs(v) / (norm + eps)) ** (1 / excess) for v in u]


def pool_tensor(u: Tensor, excess: float, radius: float = 1.0, eps: float = 0.0) -> list[mp.mpf]:
    """The same for the exact values of a float tensor."""
    with mp.workdps(DIGITS):
        return pool([mp.mpf(v) for v in u.tolist()], mp.mpf(excess), mp.mpf(radius), mp.mpf(eps))


def gradients(
    u: Tensor, grad: Tensor, excess: float, radius: float = 1.0, eps: float = 0.0
) -> tuple[list[mp.mpf | None], mp.mpf, mp.mpf]:
    """Derivatives of Σ grad·pool_p(u) in u, p and radius, by central differences.

    Entries that are 0 have no derivative that a difference could find, and give None.
    """
    with mp.workdps(DIFFERENCE_DIGITS):
        values, upstream = [mp.mpf(v) for v in u.tolist()], [mp.mpf(v) for v in grad.tolist()]
        at = {"excess": mp.mpf(excess), "radius": mp.mpf(radius), "eps": mp.mpf(eps)}

        def loss(vector: Sequence[mp.mpf], **changed: mp.mpf) -> mp.mpf:
            s = pool(vector, **{**at, **changed})
            return mp.fsum(g * v for g, v in zip(upstream, s, strict=True))

        def slope(function, point: mp.mpf) -> mp.mpf:
            step = abs(point) * mp.mpf(10) ** (-DIGITS // 2)
            return (function(point + step) - function(point - step)) / (2 * step)

        by_u = []
        for i, v in enumerate(values):
            moved = lambda x, i=i: loss([*values[:i], x, *values[i + 1 :]])  # noqa: E731
            by_u.append(slope(moved, v) if v != 0 else None)
        by_p = slope(lambda e: loss(values, excess=e), at["excess"])
        by_radius = slope(lambda r: loss(values, radius=r), at["radius"])
        return by_u, by_p, by_radius


@functools.cache
def of_row(
    name: str, excess: float, radius: float, eps: float
) -> tuple[list[mp.mpf], Tensor, tuple[list[mp.mpf | None], mp.mpf, mp.mpf]]:
    """pool_p of one of `rows()`, an upstream gradient, and the gradients: once for all kernels."""
    u = rows()[name]
    grad = torch.randn(u.shape, generator=torch.Generator().manual_seed(0))
    return pool_tensor(u, excess, radius, eps), grad, gradients(u, grad, excess, radius, eps)


@functools.cache
def rows() -> dict[str, Tensor]:
    """Rows of float32 that break careless implementations."""
    generator = torch.Generator().manual_seed(7)
    plain = torch.randn(8, generator=generator)
    signs = torch.tensor([1.0, -1.0] * 4)
    exponents = torch.linspace(-30, 30, 8)
    return {
        "plain": plain,
        "small": plain * 1e-11,  # its fourth powers have hardly any digits
        "tiny": plain * 1e-30,
        "huge": plain * 1e30,
        "wide": signs * 10.0**exponents,
        "ties": torch.tensor([1.0, -1.0, 1.0, 0.5, -0.5, 0.25, 1.0, -0.125]),
        "near_ties": signs * (1 + 1.2e-7 * torch.arange(8.0)),
        "zeros": torch.tensor([0.0, 2.0, 0.0, -1.0, 0.0, 0.5, -0.0, 0.1]),
        "one_hot": torch.tensor([0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        "equal": torch.full((8,), 1e-30),
        "largest": plain * 1e37,
    }


EXCESSES = [1e-6, 1e-3, 0.1, 0.3, 1 / 3, 1.0, 10.0, 1e6]  # 0.1 to 1/3: the kernels' short forms
