"""Groups of atoms that are orthogonal to all others: their exact codes are found one by one.

If D = (D₁, D₂, …) with D_aᵀD_b = 0, the shortest exact code of x consists of those of the parts of
x in the ranges of the D_a. Where N_a = ‖z_a‖_p, and v_a are dual vectors with ‖D_aᵀv_a‖_q = 1, its
dual vector is Σ N_a^(p−1)·v_a. Products of cosines without their means are such a dictionary. For
p > 2 the curvatures of groups with different N_a differ by orders of magnitude, and so Newton's
method finds one group at a time anyway. Rows whose code is too long are solved with all atoms.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from fwnet.functional import dual_exponent, lp_norm
from fwnet.solvers.loop import Limits, Method, Outcome, SolveProgress, iterate
from fwnet.solvers.problem import Constrained, Problem
from fwnet.solvers.solution import Status
from fwnet.solvers.whitened import ROUNDINGS

MOST_ATOMS = 1024  # of a dictionary: all pairs are looked at
MOST_GROUPS = 8  # each costs a search


class Groups:
    """The search for codes group by group, for 2 < p < ∞."""

    def __init__(
        self, problem: Constrained, groups: list[Tensor], bind: Callable[[Problem], Method]
    ):
        self.problem, self.groups, self.whole = problem, groups, bind(problem)
        self.parts = [
            dataclasses.replace(problem, dictionary=problem.dictionary[:, group].contiguous())
            for group in groups
        ]
        self.methods = [bind(part) for part in self.parts]

    def search(self, x: Tensor, limits: Limits) -> Outcome:
        """Return codes, and dual vectors that certify them."""
        problem, p, callback = self.problem, self.problem.exponent, limits.callback
        limits = _quiet(limits, len(x))
        code = x.new_zeros(len(x), problem.dictionary.shape[1])
        duals, norms = x.new_zeros(len(x), len(self.groups), x.shape[-1]), []
        status = torch.full((len(x),), Status.CERTIFIED, dtype=torch.int8, device=x.device)
        num_steps = torch.zeros(len(x), dtype=torch.int32, device=x.device)
        for number, group in enumerate(self.groups):
            part = self.parts[number]
            rows = part.has_part(x).nonzero().squeeze(-1)
            if len(rows):
                own = iterate(self.methods[number], x[rows], limits)
                length = lp_norm(part.correlate(own.dual), dual_exponent(p)).unsqueeze(-1)
                code[rows.unsqueeze(-1), group] = own.code
                duals[rows, number] = own.dual / length
                num_steps[rows] = torch.maximum(num_steps[rows], own.num_steps)
                failed = own.status != Status.CERTIFIED
                status[rows[failed]] = own.status[failed]
            norms.append(lp_norm(code[:, group], p))
        norm = torch.stack(norms, -1)
        tiny = torch.finfo(norm.dtype).tiny
        share = (norm / norm.amax(-1, keepdim=True).clamp(min=tiny)).pow(p - 1)
        found = Outcome(code, (share.unsqueeze(-1) * duals).sum(1), status, num_steps)
        outside = (lp_norm(code, p) > problem.radius).nonzero().squeeze(-1)
        if len(outside):
            joint = iterate(self.whole, x[outside], limits)
            for field in dataclasses.fields(found):
                getattr(found, field.name)[outside] = getattr(joint, field.name)
        if callback is not None:
            done = int((found.status == Status.CERTIFIED).sum())
            callback(SolveProgress(int(found.num_steps.max()), done, len(x), 0.0))
        return found


def orthogonal_groups(problem: Constrained) -> list[Tensor]:
    """Return the atoms of every group; atoms orthogonal to all others are one group, the last.

    There are none if all atoms belong together, or if there are too many atoms or groups.
    """
    dictionary = problem.dictionary
    count = dictionary.shape[1]
    if count > MOST_ATOMS:
        return []
    tiny = torch.finfo(torch.float64).tiny
    unit = torch.nn.functional.normalize(dictionary.double(), dim=0, eps=tiny)
    rounding = ROUNDINGS * torch.finfo(problem.given_in or dictionary.dtype).eps
    together = ((unit.T @ unit).abs() > rounding).fill_diagonal_(True)
    if together.all():
        return []
    # Every atom learns of the first one that it is connected with.
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
        limits, callback=lambda now: callback(SolveProgress(now.step, 0, rows, now.seconds))
    )
