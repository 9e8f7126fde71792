"""The ball of a norm of singular values: low rank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.functional import check_rows
from fwnet.sets.convex_set import ConvexSet, widened
from fwnet.sets.lp_ball import LpBall

LARGE = 200  # rows and columns, from where the oracle at p = 1 does without a full decomposition
LANCZOS_STEPS = 200  # at most; where singular values are apart, 10 to 40
LANCZOS_TOL = 1e-5  # of the residual; the singular value itself has about the square of it


@dataclass(frozen=True, eq=False)
class SchattenBall(ConvexSet):
    """{Z : ‖σ(Z)‖_p ≤ radius} for matrices Z of the given shape with singular values σ(Z).

    p = 1 is the nuclear norm, 2 the Frobenius norm, ∞ the spectral norm. As in every set, methods
    work on rows: a row of length height·width is a matrix, `matrix.flatten(-2)`.

    Args:
        shape: (height, width) of the matrices.
        p: Exponent, in [1, ∞] (default 1).
        radius: The radius (default 1).

    >>> import fwnet, torch
    >>> matrix = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> fwnet.SchattenBall((2, 2), p=1.0).gauge(matrix.flatten())
    tensor(7.)
    """

    shape: tuple[int, int]
    p: float = 1.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Sequence) or len(self.shape) != 2:
            raise ValueError(f"shape must be (height, width), got {self.shape!r}")
        for size in self.shape:
            check_integer("shape", size)
        LpBall(self.p, self.radius)  # checks both

    def lmo(self, u: Tensor) -> Tensor:
        """U diag(pool_p(σ)) Vᵀ for the matrix U diag(σ) Vᵀ; at p = 1, one pair of vectors.

        For large matrices that pair comes from `largest_pair`, whose error is about rounding.
        """
        if self.p == 1 and min(self.shape) >= LARGE:
            matrices, spoiled = self._matrices(u, "u")
            left, _, right = largest_pair(matrices.reshape(-1, *self.shape))
            s = -self.radius * left.unsqueeze(-1) * right.unsqueeze(-2)
            return torch.where(spoiled, torch.nan, s.reshape(u.shape)).to(u.dtype)
        return self._on_singular_values(u, "u", self._ball.lmo)

    def project(self, y: Tensor) -> Tensor:
        """U diag(projection of σ on the Lp ball) Vᵀ."""
        inside = self.contains(y, tol=0.0).unsqueeze(-1)
        return torch.where(inside, y, self._on_singular_values(y, "y", self._ball.project))

    def gauge(self, z: Tensor) -> Tensor:
        """‖σ(Z)‖_p / radius; at least float32."""
        return self._ball.gauge(self._singular_values(z, "z"))

    def support(self, y: Tensor) -> Tensor:
        """radius·‖σ(Y)‖_q; at least float32."""
        return self._ball.support(self._singular_values(y, "y"))

    @property
    def _ball(self) -> LpBall:
        return LpBall(self.p, self.radius)

    def _matrices(self, z: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """Return the matrices, and whether a row is not finite: 0 then, since LAPACK refuses it."""
        check_rows(name, z)
        height, width = self.shape
        if z.shape[-1] != height * width:
            raise ValueError(
                f"{name} must have rows of length {height} * {width} = {height * width}, "
                f"got shape {tuple(z.shape)}"
            )
        spoiled = ~z.isfinite().all(-1, keepdim=True)
        rows = torch.where(spoiled, 0.0, widened(z))
        return rows.reshape(*z.shape[:-1], height, width), spoiled

    def _singular_values(self, z: Tensor, name: str) -> Tensor:
        matrices, spoiled = self._matrices(z, name)
        return torch.where(spoiled, torch.nan, torch.linalg.svdvals(matrices))

    def _on_singular_values(
        self, z: Tensor, name: str, function: Callable[[Tensor], Tensor]
    ) -> Tensor:
        matrices, spoiled = self._matrices(z, name)
        left, values, right = torch.linalg.svd(matrices, full_matrices=False)
        result: Tensor = (left * function(values).unsqueeze(-2)) @ right
        return torch.where(spoiled, torch.nan, result.flatten(-2)).to(z.dtype)


def largest_pair(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return u (count, h), σ (count,), v (count, w): A v = σu with the largest σ; 0 for a zero A.

    Golub-Kahan-Lanczos: orthonormal U_k, V_k with A V_k = U_k B_k for a small bidiagonal B_k, whose
    largest singular value σ has the vectors y and z; u = U_k y and v = V_k z. It ends when

        ‖Aᵀu − σv‖ ≤ LANCZOS_TOL·σ

    so A has a singular value that near to σ. It is the largest unless the start, Aᵀ times a fixed
    random vector, happens to be orthogonal to that one's v.
    """
    count, height, width = matrices.shape
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(height, 1, generator=generator).to(matrices)
    rounding = 4 * torch.finfo(matrices.dtype).eps * matrices.norm(dim=(-2, -1)).unsqueeze(-1)
    v = _unit((matrices.mT @ first).squeeze(-1))
    lefts, rights = matrices.new_zeros(count, height, 0), v.unsqueeze(-1)
    steps = min(LANCZOS_STEPS, height, width)
    small = matrices.new_zeros(count, steps, steps)
    for k in range(steps):
        u = (matrices @ rights[..., -1:]).squeeze(-1)
        for _ in range(2):  # twice is enough
            u = u - (lefts @ (lefts.mT @ u.unsqueeze(-1))).squeeze(-1)
        small[:, k, k] = u.norm(dim=-1)
        lefts = torch.cat([lefts, _unit(u, rounding).unsqueeze(-1)], -1)
        v = (matrices.mT @ lefts[..., -1:]).squeeze(-1)
        for _ in range(2):
            v = v - (rights @ (rights.mT @ v.unsqueeze(-1))).squeeze(-1)
        beta = v.norm(dim=-1)
        y, values, z = torch.linalg.svd(small[:, : k + 1, : k + 1])
        if k + 1 == steps or (beta * y[:, -1, 0].abs() <= LANCZOS_TOL * values[:, 0]).all():
            break
        small[:, k, k + 1] = beta
        rights = torch.cat([rights, _unit(v, rounding).unsqueeze(-1)], -1)
    left, right = (
        _unit((basis @ end).squeeze(-1))
        for basis, end in ((lefts, y[..., :1]), (rights, z[:, :1].mT))
    )
    return left, values[:, 0], right


def _unit(v: Tensor, rounding: float | Tensor = 0.0) -> Tensor:
    """Return v/‖v‖, or 0 where v is nothing but rounding: there the Krylov space has ended."""
    norm = v.norm(dim=-1, keepdim=True)
    return torch.where(norm > rounding, v / torch.where(norm > 0, norm, 1.0), 0.0)
