"""The ball of a norm of singular values: low rank."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.functional import check_rows
from fwnet.sets.convex_set import ConvexSet, widened
from fwnet.sets.lp_ball import LpBall


@dataclass(frozen=True)
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
        if len(self.shape) != 2:
            raise ValueError(f"shape must be (height, width), got {self.shape!r}")
        for size in self.shape:
            check_integer("shape", size)
        LpBall(self.p, self.radius)  # checks both

    def lmo(self, u: Tensor) -> Tensor:
        """U diag(pool_p(σ)) Vᵀ for the matrix U diag(σ) Vᵀ; at p = 1, one pair of vectors."""
        return self._on_singular_values(u, "u", self._ball.lmo)

    def project(self, y: Tensor) -> Tensor:
        """U diag(projection of σ on the Lp ball) Vᵀ."""
        inside = self.contains(y, tol=0.0).unsqueeze(-1)
        return torch.where(inside, y, self._on_singular_values(y, "y", self._ball.project))

    def gauge(self, z: Tensor) -> Tensor:
        """‖σ(Z)‖_p / radius; at least float32."""
        return self._ball.gauge(torch.linalg.svdvals(self._matrices(z, "z")))

    def support(self, y: Tensor) -> Tensor:
        """radius·‖σ(Y)‖_q; at least float32."""
        return self._ball.support(torch.linalg.svdvals(self._matrices(y, "y")))

    @property
    def _ball(self) -> LpBall:
        return LpBall(self.p, self.radius)

    def _matrices(self, z: Tensor, name: str) -> Tensor:
        check_rows(name, z)
        height, width = self.shape
        if z.shape[-1] != height * width:
            raise ValueError(
                f"{name} must have rows of length {height} * {width} = {height * width}, "
                f"got shape {tuple(z.shape)}"
            )
        return widened(z).reshape(*z.shape[:-1], height, width)

    def _on_singular_values(
        self, z: Tensor, name: str, function: Callable[[Tensor], Tensor]
    ) -> Tensor:
        left, values, right = torch.linalg.svd(self._matrices(z, name), full_matrices=False)
        result: Tensor = (left * function(values).unsqueeze(-2)) @ right
        return result.flatten(-2).to(z.dtype)
