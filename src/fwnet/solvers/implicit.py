"""Gradients of a certified code, from its optimality conditions.

Where the constraint binds, with r = x − Dz, t = |z|/c and n = sign(z)·t^(p−1),

    Dᵀr = λ·n,   ‖z‖_p = c    ⟹    K a + β n = g,   nᵀa = 0,     K = DᵀD + diag(h)

for the upstream gradient g, and then ∂x = D a, ∂D = r aᵀ − (D a) zᵀ, ∂c = β. For an exact code of
least norm, n = Dᵀv and Dz = x, so that

    H a + Dᵀb = g,   D a = 0,     ∂x = b,   ∂D = v aᵀ − b zᵀ

Both are solved with one k × k matrix V diag(1/h) Vᵀ (+ Λ) per row, as in the solvers. At p = 1 and
p = ∞ the code moves along its face: h is 0 for the free entries and infinite for the others.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fwnet.functional import lp_norm
from fwnet.sets import LpBall
from fwnet.solvers.problem import Constrained
from fwnet.solvers.solution import Solution, Status
from fwnet.solvers.whitened import cholesky_factor, cholesky_solve, dot, weighted_gram

FLATTEST = 1e10  # bound on 1/h relative to its unit, for p > 2, where it is infinite at z_i = 0
STIFFEST = 1e-9  # bound on 1/h relative to its largest, for p < 2, where it is 0 at z_i = 0
ON_FACE = 1e-7  # an entry within this relative distance of its bound is on it
REFINEMENTS = 4


def attach_gradient(
    solution: Solution, problem: Constrained, x: Tensor, dictionary: Tensor, ball: LpBall
) -> Tensor:
    """Return the rows of the code as a differentiable function of x, dictionary and ball.

    `problem` holds the same numbers without gradients; x is the user's, without weights.
    """
    p, radius = (
        value if isinstance(value, Tensor) else torch.tensor(value)
        for value in (ball.p, ball.radius)
    )
    attached: Tensor = _Code.apply(x, dictionary, p, radius, solution, problem)
    return attached


class _Code(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor,
        dictionary: Tensor,
        p: Tensor,
        radius: Tensor,
        solution: Solution,
        problem: Constrained,
    ) -> Tensor:
        return solution.code.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, p, radius, solution, problem = inputs
        ctx.problem, ctx.scalars = problem, (p, radius)
        solved = solution.status_code <= Status.OPTIMAL
        ctx.save_for_backward(x, solution.code, solution.binds, solved)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Compute in float64; rows that are not solved or have the code 0 add nothing."""
        p, radius = ctx.scalars
        x, code, binds, solved = ctx.saved_tensors
        usable = solved & (code != 0).any(-1)
        index = usable.nonzero().squeeze(-1)
        problem = ctx.problem.to(torch.float64).select(index)
        factors = problem.factors
        z, g, target = (t[index].double() for t in (code, grad, x))
        if factors is not None:
            target = torch.where(factors > 0, factors * target, 0.0)
        residual = target - problem.decode(z)
        rows = _Rows(problem, z, g, residual, binds[index].unsqueeze(-1))
        adjoint = rows.smooth() if 1 < rows.p < math.inf else rows.polyhedral()
        a, image, v, coefficients, beta, by_p = adjoint
        if factors is not None:
            residual, image, v = (factors * t for t in (residual, image, v))
        # r aᵀ − (Da) zᵀ where the constraint binds, elsewhere v aᵀ + r bᵀ − (Db) zᵀ: one formula.
        by_dictionary = (residual.T @ coefficients + v.T @ a - image.T @ z).to(x.dtype)
        by_x = torch.zeros_like(x)
        by_x[index] = image.to(x.dtype)
        return by_x, by_dictionary, by_p.sum().to(p), beta.sum().to(radius), None, None


class _Rows:
    """The adjoint systems; both methods return (a, ∂x, v, coefficients of r, ∂c, ∂p)."""

    def __init__(
        self, problem: Constrained, z: Tensor, grad: Tensor, residual: Tensor, binds: Tensor
    ):
        self.problem, self.white, self.p = problem, problem.white, problem.exponent
        self.z, self.grad, self.binds = z, grad, binds
        self.norm = lp_norm(z, self.p).unsqueeze(-1)
        self.metric = self.white.metric / self.white.scale**2  # Λ in the units of D itself
        self.multiplier = dot(problem.correlate(residual), z) / self.norm  # λ

    def smooth(self) -> tuple[Tensor, ...]:
        """Solve for 1 < p < ∞."""
        p, z, binds = self.p, self.z, self.binds
        t = z.abs() / self.norm
        n = torch.copysign(t.pow(p - 1), z)
        unit = self.norm / (p - 1) / torch.where(binds, self.multiplier, 1.0)
        tiny = torch.finfo(t.dtype).tiny
        inverse_h = unit * t.clamp(min=tiny).pow(2 - p).clamp(max=FLATTEST)
        # A zero entry of an exact code is stiff, but moves where Dz = x requires it.
        least = STIFFEST * inverse_h.amax(-1, keepdim=True)
        inverse_h = torch.where(binds, inverse_h, torch.maximum(inverse_h, least))
        solve, part = self._woodbury(inverse_h)
        a = solve(self.grad)
        by_norm = solve(n)
        beta = torch.where(binds, dot(n, a) / _nonzero(dot(n, by_norm)), 0.0)
        a = a - beta * by_norm
        image, v, coefficients = self._images(a, part(self.grad), n)
        log_t = torch.where(t > 0, t, 1.0).log()
        along_norm = beta * self.norm / p * dot(t.pow(p), log_t)
        scale = torch.where(binds, self.multiplier, 1.0)
        by_p = -scale * dot(a, n * log_t) - along_norm
        return a, image, v, coefficients, beta, by_p

    def polyhedral(self) -> tuple[Tensor, ...]:
        """Solve for p = 1 or p = ∞, where ∂p is 0."""
        z, binds = self.z, self.binds
        size = z.abs()
        peak = size.amax(-1, keepdim=True)
        if self.p == 1:
            free, fixed_sign = size > ON_FACE * peak, None
        else:
            free = size < (1 - ON_FACE) * peak
            fixed_sign = torch.where(free, 0.0, z.sign())
        mask = free.to(z.dtype)
        a, beta = self._on_face(mask, z.sign() * mask if self.p == 1 else None)
        inner = self._follow(mask, fixed_sign)
        a = torch.where(binds, a, 0.0)
        image, v, coefficients = self._images(a, inner, torch.zeros_like(z))
        if fixed_sign is not None:
            pulled = self.grad - self.problem.correlate(torch.where(binds, image, 0.0))
            beta = dot(fixed_sign, pulled)
        return a, image, v, coefficients, torch.where(binds, beta, 0.0), torch.zeros_like(beta)

    def _follow(self, mask: Tensor, fixed_sign: Tensor | None) -> Tensor:
        """Solve the transpose of the square system that defines an exact code.

        Its unknowns are the free entries, and for p = ∞ the level of the others. If D is square,
        all entries are free.
        """
        white = self.white
        if white.basis.shape[-2] == white.basis.shape[-1]:
            return white.synthesize(self.grad)
        gram = weighted_gram(white, mask)
        right = white.synthesize(mask * self.grad)
        if fixed_sign is not None:
            level = white.synthesize(fixed_sign)
            gram = gram + level.unsqueeze(-1) * level.unsqueeze(-2)
            right = right + level * dot(fixed_sign, self.grad)
        return cholesky_solve(cholesky_factor(gram), right)

    def _on_face(self, mask: Tensor, normal: Tensor | None) -> tuple[Tensor, Tensor]:
        """D_FᵀD_F a + βn = g on the free entries, with nᵀa = 0 if there is a normal.

        Solved with a small h instead of 0, then refined to remove its effect.
        """
        soft = 1e-4 * self.white.scale**2
        solve, _ = self._woodbury(mask / soft, everywhere=True)

        def exact(right: Tensor) -> Tensor:
            a = solve(right)
            for _ in range(REFINEMENTS):
                image = self.problem.correlate(self.problem.decode(a))
                a = a + solve(right - image)
            return a * mask

        a = exact(self.grad)
        if normal is None:
            return a, torch.zeros_like(self.norm)
        by_norm = exact(normal)
        beta = dot(normal, a) / _nonzero(dot(normal, by_norm))
        return a - beta * by_norm, beta

    def _woodbury(
        self, inverse_h: Tensor, everywhere: bool = False
    ) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """Return u ↦ K⁻¹u, and u ↦ w where K⁻¹u = (u − Vᵀw)/h."""
        white = self.white
        matrix = weighted_gram(white, inverse_h)
        with_metric = torch.ones_like(self.binds) if everywhere else self.binds
        matrix.diagonal(dim1=-2, dim2=-1).add_(torch.where(with_metric, self.metric, 0.0))
        factor = cholesky_factor(matrix)

        def part(u: Tensor) -> Tensor:
            return cholesky_solve(factor, white.synthesize(inverse_h * u))

        def solve(u: Tensor) -> Tensor:
            return inverse_h * (u - white.analyze(part(u)))

        return solve, part

    def _images(self, a: Tensor, inner: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ∂x, v, and the factor of r in ∂D; `inner` is Db in whitened coordinates."""
        white, binds = self.white, self.binds
        exact_image = white.unwhiten(inner / white.scale)
        image = torch.where(binds, self.problem.decode(a), exact_image)
        v = white.unwhiten(white.synthesize(n) / white.scale)
        back = white.analyze(inner * self.metric)
        return image, torch.where(binds, 0.0, v), torch.where(binds, a, back)


def _nonzero(value: Tensor) -> Tensor:
    return torch.where(value == 0, 1.0, value)
