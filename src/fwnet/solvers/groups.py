"""Groups of atoms that are orthogonal to all others have codes of their own, for p > 2.

If D = (D₁, D₂, …) with D_aᵀD_b = 0, then ‖x − Dz‖² is a sum over the groups, up to a constant, and

    p = ∞                             z_a solves the problem of x and D_a
    an exact code is in the ball      z_a is the shortest exact code of the part of x in D_a's range

Cosines without their means are such a dictionary. The scales of the z_a differ, so the systems of
all groups together are nearly singular; at p = ∞ only one of the z_a is unique. Exact codes with
N_a = ‖z_a‖_p and dual vectors v_a, of length ‖D_aᵀv_a‖_q = 1, have together the dual vector
Σ N_a^(p−1) v_a. Rows without an exact code are solved with all atoms if p < ∞.
"""

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.functional import dual_exponent, lp_norm
from fwnet.solvers.loop import Limits, Method, Outcome, Progress, iterate
from fwnet.solvers.problem import Constrained
from fwnet.solvers.solution import Status
from fwnet.solvers.whitened import ROUNDINGS, dot

MOST_ATOMS = 1024  # of a dictionary: all pairs are looked at
MOST_GROUPS = 8  # each costs a search
BEYOND = 1e-10  # a bound on the norm that exceeds c by this share of it is no rounding


class Groups:
    """The search for codes, group by group."""

    def __init__(
        self, problem: Constrained, groups: list[Tensor], bind: Callable[[Constrained], Method]
    ):
        self.problem, self.groups, self.bind = problem, groups, bind
        self.parts = [
            dataclasses.replace(problem, dictionary=problem.dictionary[:, group].contiguous())
            for group in groups
        ]
        self.methods = [bind(part) for part in self.parts]

    def search(self, x: Tensor, limits: Limits) -> Outcome:
        """Return codes, and dual vectors that certify them."""
        problem, p = self.problem, self.problem.exponent
        found = Outcome(
            x.new_zeros(len(x), problem.dictionary.shape[1]),
            torch.zeros_like(x),
            torch.full((len(x),), Status.CERTIFIED, dtype=torch.int8, device=x.device),
            torch.zeros(len(x), dtype=torch.int32, device=x.device),
        )
        norm, bound = (x.new_zeros(len(x), len(self.groups)) for _ in range(2))
        quiet = _quiet(limits, len(x))
        duals = torch.zeros_like(x).unsqueeze(1).repeat(1, len(self.groups), 1)
        for number, (group, part, method) in enumerate(
            zip(self.groups, self.parts, self.methods, strict=True)
        ):
            rows = part.has_part(x).nonzero().squeeze(-1)
            if not len(rows):
                continue
            own = iterate(method, x[rows], quiet)
            length = lp_norm(part.correlate(own.dual), dual_exponent(p)).unsqueeze(-1)
            dual = own.dual / length
            found.code[rows.unsqueeze(-1), group] = own.code
            duals[rows, number] = dual
            norm[rows, number] = lp_norm(own.code, p)
            bound[rows, number] = dot(x[rows], dual).squeeze(-1)
            found.num_steps[rows] = torch.maximum(found.num_steps[rows], own.num_steps)
            ended = own.status != Status.CERTIFIED
            found.status[rows[ended]] = own.status[ended]
        share = norm / norm.amax(-1, keepdim=True)
        found.dual.copy_((share.pow(p - 1).unsqueeze(-1) * duals).sum(1))
        if p == math.inf:
            binds = (bound > (1 + BEYOND) * problem.radius).any(-1, keepdim=True)
            residual = problem.inside(x) - problem.decode(found.code)
            return dataclasses.replace(found, dual=torch.where(binds, residual, found.dual))
        outside = (lp_norm(found.code, p) > problem.radius).nonzero().squeeze(-1)
        if len(outside):
            joint = iterate(self.bind(problem), x[outside], quiet)
            for field in dataclasses.fields(found):
                getattr(found, field.name)[outside] = getattr(joint, field.name)
        return found


def orthogonal_groups(problem: Constrained) -> list[Tensor]:
    """Return the atoms of every group; atoms orthogonal to all others are one group, the last.

    There are none if all atoms belong together, or if there are too many atoms or groups.
    """
    dictionary = problem.dictionary
    count = dictionary.shape[1]
    if count > MOST_ATOMS:
        return []
    unit = torch.nn.functional.normalize(dictionary.double(), dim=0)
    rounding = ROUNDINGS * torch.finfo(problem.given_in or dictionary.dtype).eps
    together = ((unit.T @ unit).abs() > rounding).fill_diagonal_(True)
    if together.all():
        return []
    first, before = torch.arange(count, device=dictionary.device), None
    while before is None or not torch.equal(first, before):
        before = first
        first = torch.where(together, first, count).amin(-1)
        first = first[first]
    alone = together.sum(-1) == 1
    groups = [(first == atom).nonzero().squeeze(-1) for atom in first[~alone].unique()]
    groups += [alone.nonzero().squeeze(-1)] if alone.any() else []
    return groups if 1 < len(groups) <= MOST_GROUPS else []


def _quiet(limits: Limits, rows: int) -> Limits:
    """Count no row as done before all groups are."""
    callback = limits.callback
    if callback is None:
        return limits
    return dataclasses.replace(
        limits, callback=lambda now: callback(Progress(now.step, 0, rows, now.seconds))
    )
