"""The dictionary in coordinates in which its rows are orthonormal.

With D = σ·U diag(s) V, the largest of s being 1, and x̂ = diag(s)⁻¹ Uᵀ x / σ,

    ½‖x − Dz‖² = ½‖x − UUᵀx‖² + ½σ²·(x̂ − Vz)ᵀ Λ⁻¹ (x̂ − Vz),      Λ = diag(s)⁻² ≥ 1

so D z = x means V z = x̂, whatever the condition of D, and every Newton system of the solvers is
Λ, scaled, plus V diag(w) Vᵀ. A dictionary that is rank-deficient, or has more rows than columns,
has a smaller V. With weights on the entries of x every row has its own D and V.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from fwnet.solvers.rows import RowState
from fwnet.solvers.threads import threads_for

ROUNDINGS = 4  # singular values up to this many roundings count as 0
GRAM_ENTRIES = 1 << 20  # of a block of V diag(w) at a time, so that it stays in the cache
PAIR_ENTRIES = 1 << 23  # of products of two entries of the same column of V, at most
FEWEST_FOR_PAIRS = 16  # rows for which these products are worth their time


class Whitened(NamedTuple):
    """V (k, m), Λ (k,), U diag(s)⁻¹ (n, k) and σ (1,), or one of each per row."""

    basis: Tensor
    metric: Tensor
    to_white: Tensor
    scale: Tensor

    def select(self, rows: Tensor | slice) -> Self:
        """Return the matrices of the given rows, if every row has its own."""
        return self if self.shared else type(self)(*(t[rows] for t in self))

    def to(self, dtype: torch.dtype) -> Self:
        """Return the same matrices in another precision."""
        return type(self)(*(t.to(dtype) for t in self))

    @property
    def shared(self) -> bool:
        """Whether all rows have the same dictionary."""
        return self.basis.ndim == 2

    def whiten(self, x: Tensor) -> Tensor:
        """x ↦ σ·x̂."""
        return _times(x, self.to_white)

    def unwhiten(self, v: Tensor) -> Tensor:
        """Return the dual vector of x for one of x̂: U diag(s)⁻¹ v, so that Dᵀ(…) = σ·Vᵀv."""
        return _times(v, self.to_white.mT)

    def analyze(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """v ↦ Vᵀv, (rows, k) to (rows, m)."""
        return _times(v, self.basis, out)

    def synthesize(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        """z ↦ Vz, (rows, m) to (rows, k)."""
        return _times(z, self.basis.mT, out)


def whiten(dictionary: Tensor, given_in: torch.dtype = torch.float64) -> Whitened:
    """Decompose one dictionary (n, m), or one per row (rows, n, m), in float64.

    Singular values below the rounding of `given_in`, the dtype of the user's data, count as 0: in
    float32 the entries of zero-mean atoms add up to 0 only approximately.
    """
    wide = dictionary.to(torch.float64)
    if _is_identity(wide):
        ones = torch.ones_like(wide[0])
        return Whitened(basis=wide, metric=ones, to_white=wide, scale=ones[:1])
    with threads_for(wide):
        u, s, basis = torch.linalg.svd(wide, full_matrices=False)
    largest = s[..., :1]
    rounding = max(
        max(wide.shape[-2:]) * torch.finfo(wide.dtype).eps, ROUNDINGS * torch.finfo(given_in).eps
    )
    kept = s > largest * rounding
    if dictionary.ndim == 2:
        u, s, basis, kept = u[:, kept], s[kept], basis[kept], kept[kept]
    # Dropped directions have x̂ = 0 and a zero row in V, so they have no effect.
    scale = torch.where(largest > 0, largest, 1.0)
    relative = torch.where(kept, s / scale, 1.0)
    return Whitened(
        basis=basis * kept.unsqueeze(-1),
        metric=relative**-2,
        to_white=u * (kept / relative).unsqueeze(-2),
        scale=scale,
    )


@dataclass(frozen=True)
class Target(RowState):
    """The rows in whitened coordinates, scaled to length 1.

    With x̄ = x̂/u and the radius c/u, where u is the length of x in the range of D divided by σ, a
    code t of x̄ is the code u·t of x. So the solvers see the same numbers whatever the scale of x,
    D and c: (x̄ᵀ Λ⁻¹ x̄) = 1, and their gap is relative to ½‖x‖².
    """

    x: Tensor  # x̄, (rows, k)
    radius: Tensor  # c/u, (rows, 1)
    unit: Tensor  # u, (rows, 1), in float64
    white: Whitened

    @classmethod
    def of(cls, x: Tensor, radius: float, white: Whitened) -> Self:
        """Scale the rows of x; each must have a nonzero part in the range of D."""
        peak = x.abs().amax(-1, keepdim=True)
        coordinates = white.whiten(x / peak)
        length = dot(coordinates, coordinates / white.metric).sqrt()
        unit = length.double() * peak.double() / white.scale.double()
        limit = torch.finfo(x.dtype)
        scaled = (radius / unit).clamp(limit.tiny, limit.max).to(x.dtype)
        return cls(coordinates / length, scaled, unit, white)

    def to(self, dtype: torch.dtype) -> Self:
        """Return the same rows in another precision."""
        limit = torch.finfo(dtype)
        radius = self.radius.clamp(limit.tiny, limit.max).to(dtype)
        return type(self)(self.x.to(dtype), radius, self.unit, self.white.to(dtype))

    def binds(self, bound: Tensor) -> Tensor:
        """Return whether a lower bound on the norm of exact codes exceeds c, beyond rounding."""
        return bound > self.radius * (1 + 64 * torch.finfo(self.x.dtype).eps)

    def answer(self, code: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        """Return the code and the dual vector of x for those of x̄; the dual up to its length."""
        return (code * self.unit).to(code.dtype), self.white.unwhiten(dual)


def weighted_gram(white: Whitened, weights: Tensor) -> Tensor:
    """V diag(w) Vᵀ for every row, (rows, k, k), of which only the lower half may be filled."""
    basis = white.basis
    k, m = basis.shape[-2:]
    count = len(weights)
    if count >= FEWEST_FOR_PAIRS and has_cheap_gram(white):
        return _gram_of_pairs(basis, weights)
    if weights.device.type == "cpu":
        count = max(1, GRAM_ENTRIES // max(1, k * m))
    out = weights.new_empty(len(weights), k, k)
    for start in range(0, len(weights), max(1, count)):
        rows = slice(start, start + count)
        own = basis if white.shared else basis[rows]
        torch.matmul(own * weights[rows].unsqueeze(-2), own.mT, out=out[rows])
    return out


def has_cheap_gram(white: Whitened) -> bool:
    """Return whether V diag(w) Vᵀ of many rows takes little more than its arithmetic."""
    k, m = white.basis.shape[-2:]
    fits = m * k * (k + 1) // 2 <= PAIR_ENTRIES
    return white.shared and white.basis.device.type == "cpu" and fits


def _gram_of_pairs(basis: Tensor, weights: Tensor) -> Tensor:
    """The same, for many rows: half of its entries by one product with those of all v_i v_iᵀ."""
    k = len(basis)
    first, second = torch.tril_indices(k, k)
    half = weights @ (basis[first] * basis[second]).T
    out = weights.new_empty(len(weights), k, k)
    start = 0
    for row in range(k):
        out[:, row, : row + 1] = half[:, start : start + row + 1]
        start += row + 1
    return out


def cholesky_factor(matrix: Tensor) -> Tensor:
    """Return Cholesky factors of positive semidefinite matrices (rows, k, k), which are changed.

    Only the lower half of a matrix is read. The diagonal is increased by a rounding so that a
    semidefinite matrix can be factored. If that is not enough, the factor has a diagonal of NaN,
    whose solutions no line search accepts.
    """
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    rounding = 4 * torch.finfo(matrix.dtype).eps
    diagonal.mul_(1 + rounding).add_(diagonal.amax(-1, keepdim=True) * rounding**2)
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    factor.diagonal(dim1=-2, dim2=-1).masked_fill_((info > 0).unsqueeze(-1), torch.nan)
    return factor


def cholesky_solve(factor: Tensor, right: Tensor) -> Tensor:
    """Solve for one right side per row, (rows, k), or for several, (rows, k, count)."""
    if right.ndim == 3:
        return torch.cholesky_solve(right, factor)
    return torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)


def _is_identity(matrix: Tensor) -> bool:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return False
    return bool((matrix.diagonal() == 1).all()) and int(matrix.count_nonzero()) == len(matrix)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ for every row, with the axis kept: (rows, 1)."""
    product: Tensor = torch.linalg.vecdot(a, b)
    return product.unsqueeze(-1)


def norm_gradient(z: Tensor, p: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """N = ‖z‖_p, s = ∇N and w = (|z|/N)^(p−2) = |s|·N/|z|, for every row.

    p is one number or (rows, 1). Magnitudes are taken relative to the largest of the row, whose
    powers cannot overflow.
    """
    a = z.abs()
    peak = a.amax(-1, keepdim=True)
    a /= peak
    w = a.pow(p - 2)
    s = w * a
    total = dot(s, a)
    # Not as powers of N, whose rounding a large exponent would multiply.
    s = torch.copysign(s, z).mul_(total.pow(1 / p - 1))
    return peak * total.pow(1 / p), s, w.mul_(total.pow(2 / p - 1))


def row_norm(z: Tensor, p: float | Tensor) -> Tensor:
    """‖z‖_p for every row, (rows, 1), p being one number or (rows, 1)."""
    a = z.abs()
    peak = a.amax(-1, keepdim=True)
    a /= peak.clamp(min=torch.finfo(z.dtype).tiny)
    return peak * a.pow_(p).sum(-1, keepdim=True).pow(1 / p)


def _times(rows: Tensor, matrix: Tensor, out: Tensor | None = None) -> Tensor:
    if matrix.ndim == 2:
        return torch.matmul(rows, matrix, out=out)
    product = torch.matmul(rows.unsqueeze(-2), matrix).squeeze(-2)
    return product if out is None else out.copy_(product)
