"""Coding problems on any convex set: what differs from the Lp ball, and gradients of their codes.

A set need not contain 0, but the solvers begin there. With the point z₀ of C nearest to 0,

    min ½‖x − Dz‖²  s.t.  z ∈ C     is     min ½‖(x − Dz₀) − Dw‖²  s.t.  w ∈ C − z₀,  z = z₀ + w

Of several optimal codes any is accepted: a code is certified by its gap alone.

A code is the fixed point z = P(y), y = z + Dᵀ(x − Dz)/L, of a gradient step with the projection P.
With the derivative J of P at y, symmetric with eigenvalues in [0, 1], and B = I − DᵀD/L, an
upstream gradient g becomes

    w = (I − BJ)⁻¹g = g + Be,        (J⁻¹ − B) e = g

and autograd takes it through P and y to x, D and the tensors of the set. Conjugate gradients,
preconditioned by J, find e with products with D and J alone. So a set needs only its projection.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fwnet.sets import ConvexSet, Face
from fwnet.solvers.problem import Constrained
from fwnet.solvers.solution import Solution, Status
from fwnet.solvers.whitened import dot

ADJOINT_TOL = 1e-11  # of the conjugate gradients, relative
ADJOINT_STEPS = 5  # times m


@dataclass(frozen=True, eq=False)
class Shifted(ConvexSet):
    """C − z₀."""

    base: ConvexSet
    origin: Tensor  # z₀, (m,)

    def __repr__(self) -> str:
        """Return the name that the user knows."""
        return repr(self.base)

    def lmo(self, u: Tensor) -> Tensor:
        """Return the oracle of C, shifted."""
        return self.base.lmo(u) - self.origin.to(u)

    def project(self, y: Tensor) -> Tensor:
        """Return the projection on C, shifted."""
        return self.base.project(y + self.origin.to(y)) - self.origin.to(y)

    def face(self, y: Tensor, z: Tensor) -> Face | None:
        """Return the face of C."""
        origin = self.origin.to(y)
        return self.base.face(y + origin, z + origin)

    def gauge(self, z: Tensor) -> Tensor:
        """Raise: it does not follow from that of C, and no method needs it."""
        raise NotImplementedError

    def contains(self, z: Tensor, tol: float | None = None) -> Tensor:
        """Return whether z + z₀ is in C."""
        return self.base.contains(z + self.origin.to(z), tol)


@dataclass(frozen=True)
class AnySet(Constrained):
    """min ½‖x − Dz‖²  s.t.  z ∈ C, without a wish for the least norm."""

    def _into_set(self, code: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
        """Project codes that are not in C. The gauge is not used: 0."""
        if not self.convex_set.contains(code).all():
            code = self.convex_set.project(code)
        return (code if dtype is None else code.to(dtype)), torch.zeros_like(code[..., 0])


def has_projection(convex_set: ConvexSet, m: int) -> bool:
    """Return False for a set whose `project` raises NotImplementedError."""
    try:
        convex_set.project(torch.zeros(1, m))
    except NotImplementedError:
        return False
    return True


def any_set_problem(problem: Constrained, x: Tensor) -> tuple[AnySet, Tensor, Tensor]:
    """Return the problem of w, its rows x − Dz₀, and z₀, (m,)."""
    origin = x.new_zeros(problem.dictionary.shape[1])
    convex_set, start = problem.convex_set, problem.start
    if not bool(convex_set.contains(origin)):
        origin = convex_set.project(origin).detach()
        convex_set = Shifted(convex_set, origin)
        start = None if start is None else start - origin
        x = x - problem.decode(origin.expand(len(x), -1))
    shifted = AnySet(problem.dictionary, convex_set, factors=problem.factors, start=start)
    return shifted, x, origin


def finished_solution(solution: Solution, origin: Tensor) -> Solution:
    """Return z = z₀ + w; the least norm is not known."""
    unknown = torch.full_like(solution.norm_gap, torch.nan)
    return dataclasses.replace(solution, code=solution.code + origin, norm_gap=unknown)


def attach_set_gradient(
    solution: Solution, problem: Constrained, x: Tensor, dictionary: Tensor, convex_set: ConvexSet
) -> Tensor:
    """Return the rows of the code as a differentiable function of x, dictionary and the set.

    `problem` holds the numbers without gradients; x is the user's, without weights.
    """
    factors = problem.factors
    solved = (solution.status_code <= Status.OPTIMAL).unsqueeze(-1)
    code = torch.where(solved, solution.code, 0.0)
    step_size = problem.white.scale.to(x.dtype) ** -2
    residual = torch.where(solved, x, 0.0) - code @ dictionary.T
    if factors is not None:
        residual = torch.where(factors > 0, factors.square() * residual, 0.0)
    y = code + step_size * (residual @ dictionary)
    moving = convex_set.project(y)
    wide = problem.to(torch.float64)

    def adjoint(grad: Tensor | None) -> Tensor | None:
        if grad is None:  # what autograd passes for a code that has no effect
            return None
        if torch.is_grad_enabled():
            raise RuntimeError("the code of solve has no second derivative")
        g = torch.where(solved, grad, 0.0).double()
        return _adjoint(wide, convex_set, y.detach().double(), g).to(grad.dtype)

    moving.register_hook(adjoint)
    return moving + (solution.code - moving).detach()


def _adjoint(problem: Constrained, convex_set: ConvexSet, y: Tensor, g: Tensor) -> Tensor:
    """w = (I − BJ)⁻¹g, by conjugate gradients for e in (J⁻¹ − B) e = g."""
    step_size = problem.white.scale**-2

    def damped(v: Tensor) -> Tensor:
        return v - step_size * problem.correlate(problem.decode(v))

    e = conjugate_gradients(damped, _derivative(convex_set, y), g)
    return g + damped(e)


def _derivative(convex_set: ConvexSet, y: Tensor) -> Callable[[Tensor], Tensor]:
    """Return v ↦ Jv; J is symmetric, so it is the product that autograd has."""
    with torch.enable_grad():
        y = y.requires_grad_()
        nearest = convex_set.project(y)

    def product(v: Tensor) -> Tensor:
        (jv,) = torch.autograd.grad(nearest, y, v, retain_graph=True)
        return jv

    return product


def conjugate_gradients(
    damped: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor], g: Tensor
) -> Tensor:
    """Solve (J⁻¹ − B) e = g with the preconditioner J. Directions are p = Jq, so J⁻¹p is q."""
    e, rho = torch.zeros_like(g), g
    s = slope(rho)
    p, q, size = s, rho, dot(rho, s)
    enough = ADJOINT_TOL**2 * size
    for _ in range(ADJOINT_STEPS * g.shape[-1]):
        if (size <= enough).all():
            break
        image = q - damped(p)
        alpha = size / _nonzero(dot(p, image))
        e, rho = e + alpha * p, rho - alpha * image
        s = slope(rho)
        before, size = size, dot(rho, s)
        beta = size / _nonzero(before)
        p, q = s + beta * p, rho + beta * q
    return e


def _nonzero(value: Tensor) -> Tensor:
    return torch.where(value == 0, 1.0, value)
