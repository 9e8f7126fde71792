"""Exact codes on the faces of the L1 and L∞ balls.

An interior-point method ends near the face on which the code lies. On it some entries are free and
the others are known, z_i = 0 for p = 1 and z_i = ±τ for p = ∞, which leaves a least-squares problem
in the free entries:

    p = 1:   min ‖x − V_F z_F‖²  s.t. Σ|z_F| = c,           or  V_F z_F = x
    p = ∞:   min ‖x − V_F z_F − c·V_B s_B‖²,                or  V_F z_F + τ·V_B s_B = x

the second of each for exact codes. The codes have exact zeros and exact bounds, and gradients use
the face.
"""

import torch
from torch import Tensor

from fwnet.functional import lp_norm
from fwnet.solvers.whitened import Target, cholesky_factor, cholesky_solve, dot


def on_face(
    p: float,
    target: Target,
    code: Tensor,
    freedom: Tensor,
    sign: Tensor,
    binds: Tensor,
    tol: float,
) -> Tensor:
    """Solve on the face where the entries with freedom > 1 are free; keep the code if it is better.

    `sign` holds the signs of the nonzero entries (p = 1), or of those at their bound (p = ∞).
    """
    white = target.white
    chosen = freedom.topk(min(white.basis.shape[-2:]), dim=-1)
    index, free = chosen.indices, chosen.values > 1
    transposed = white.basis.mT.expand(len(code), -1, -1)
    atoms = transposed.gather(1, index.unsqueeze(-1).expand(-1, -1, transposed.shape[-1]))
    free_sign = sign.gather(-1, index) * free
    fixed_sign = torch.where(freedom > 1, 0.0, sign) if p > 1 else torch.zeros_like(sign)
    # For p = ∞ the level of an exact code is one more unknown, whose atom is V_B s_B.
    level_atom = white.synthesize(fixed_sign)
    x = target.x - torch.where(binds, target.radius, 0.0) * level_atom
    level_is_free = ~binds & (p > 1)
    atoms = torch.cat([atoms, level_atom.unsqueeze(-2)], -2)
    free = torch.cat([free, level_is_free], -1)
    atoms = atoms * free.unsqueeze(-1)  # (rows, unknowns, k)
    inverse_metric = torch.where(binds, 1 / white.metric, 1.0)
    gram = torch.matmul(atoms * inverse_metric.unsqueeze(-2), atoms.mT)
    gram.diagonal(dim1=-2, dim2=-1).add_((~free).to(gram.dtype))
    factor = cholesky_factor(gram)

    def fitted(right: Tensor) -> Tensor:
        weighted = (right * inverse_metric).unsqueeze(-1)
        return cholesky_solve(factor, torch.matmul(atoms, weighted).squeeze(-1))

    normal = torch.cat([free_sign, torch.zeros_like(target.radius)], -1)
    by_normal = cholesky_solve(factor, normal)
    spread = dot(normal, by_normal)

    def of_norm_c(u: Tensor) -> Tensor:
        """Return, for p = 1, the best u whose entries times their signs add up to c."""
        if p > 1:
            return u
        return torch.where(binds, u - by_normal * (dot(normal, u) - target.radius) / spread, u)

    u = of_norm_c(fitted(x))
    image = torch.matmul(u.unsqueeze(-2), atoms).squeeze(-2)
    u = of_norm_c(u + fitted(x - image))  # refine once
    level = torch.where(binds, target.radius, u[:, -1:])
    polished = (level * fixed_sign).scatter(-1, index, torch.where(free, u, 0.0)[:, :-1])
    if p == 1:
        consistent = ((u * normal > 0) | (normal == 0)).all(-1, keepdim=True)
    else:
        # An entry that is not free is at its bound.
        polished = torch.where(fixed_sign != 0, level * fixed_sign, polished)
        consistent = polished.abs().amax(-1, keepdim=True) <= level * (1 + 1e-14)

    def error(z: Tensor) -> Tensor:
        residual = target.x - white.synthesize(z)
        return dot(residual, residual / white.metric)

    def norm(z: Tensor) -> Tensor:
        return lp_norm(z, p).unsqueeze(-1)

    exact = (error(polished) <= 1e-4 * tol) & (norm(polished) <= norm(code) * (1 + 1e-14))
    good = torch.where(binds, error(polished) <= error(code) + 1e-14, exact)
    return torch.where(consistent & good, polished, code)
