"""`minimize`: Frank-Wolfe for any differentiable function on any convex set, many starts at once.

    s = lmo(∇f(z)),     gap = ⟨∇f(z), z − s⟩ ≥ f(z) − min f    for convex f

z is kept as a mean of the points that the oracle gave, z = Σ α_k a_k. Plain steps go towards s.
They zigzag if the minimum is on a face; the others also use the worst of the points,
v = argmax ⟨∇f, a_k⟩:

    plain       d = s − z                              γ ≤ 1
    away        the steeper of s − z and z − v         γ ≤ α_v/(1 − α_v) for the second
    pairwise    d = s − v                              γ ≤ α_v
    blended     a − v, with the best point a in use,   γ ≤ α_v
                unless s − z promises more             γ ≤ 1

    projected   accelerated gradient steps with the set's projection instead of its oracle

The last is not a Frank-Wolfe method, but has the same gap. It is the fastest where the solution is
on a curved face, such as low-rank matrices in a `SchattenBall`. Its step size is that of f along
the step, halved until f falls as it should.

The step size γ of the others is the root of the slope ⟨∇f(z + γd), d⟩, by secants and bisection:
two evaluations if f is quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fwnet.checks import check_integer, check_number, check_tensor
from fwnet.sets import ConvexSet
from fwnet.solvers.whitened import dot

Variant = Literal["plain", "away", "pairwise", "blended", "projected"]

SEARCHES = 24  # evaluations of a line search
FLAT = 1e-3  # it ends at this share of the first slope
FIRST_SLOTS = 8


@dataclass(frozen=True)
class Minimum:
    """What `minimize` found; every field but `point` has one entry per start.

    Attributes:
        point: z, of shape (…, m).
        value: f(z).
        gap: ⟨∇f(z), z − lmo(∇f(z))⟩: for convex f an upper bound on how far f(z) is above the
            minimum, for others a measure of how far z is from being stationary.
        converged: Whether gap ≤ tol.
        num_steps: The number of steps.

    >>> import fwnet, torch
    >>> start = torch.zeros(1, 3)
    >>> fwnet.minimize(lambda z: z.sum(-1), fwnet.Box(-1.0, 1.0), start)
    Minimum(point: (1, 3), largest gap 0.0e+00, 1 of 1 converged)
    """

    point: Tensor
    value: Tensor
    gap: Tensor
    converged: Tensor
    num_steps: Tensor

    def __repr__(self) -> str:
        gap = self.gap.max().item() if self.gap.numel() else 0.0
        done = int(self.converged.sum())
        return (
            f"Minimum(point: {tuple(self.point.shape)}, largest gap {gap:.1e}, "
            f"{done} of {self.gap.numel()} converged)"
        )


@dataclass(frozen=True)
class MinimizeProgress:
    """The argument of a callback of `minimize`, after every step.

    >>> import fwnet, torch
    >>> gaps = []
    >>> box, start = fwnet.Box(-1.0, 1.0), torch.zeros(1, 3)
    >>> _ = fwnet.minimize(lambda z: z.sum(-1), box, start, callback=lambda at: gaps.append(at.gap))
    >>> [gap.item() for gap in gaps]
    [3.0, 0.0]
    """

    step: int
    point: Tensor  # (rows, m)
    value: Tensor  # (rows,)
    gap: Tensor  # (rows,)


def minimize(
    f: Callable[[Tensor], Tensor],
    convex_set: ConvexSet,
    start: Tensor,
    *,
    variant: Variant = "blended",
    tol: float = 1e-6,
    max_steps: int = 1000,
    max_points: int | None = None,
    callback: Callable[[MinimizeProgress], bool | None] | None = None,
) -> Minimum:
    """min f(z)  s.t.  z ∈ C, by Frank-Wolfe, for every row of `start`.

    Args:
        f: A function from points (rows, m) to values (rows,), differentiable by autograd. Each
            value depends on its own row alone. It may be the result of `torch.compile`.
        convex_set: C; only `lmo` and `contains` are used, with "projected" also `project`.
        start: Points of C, (…, m).
        variant: "plain", "away", "pairwise", "blended" (default) or "projected" (see the top of
            this file).
        tol: A row is finished when its gap is at most tol (default 1e-6).
        max_steps: The largest number of steps (default 1000).
        max_points: The largest number of points a_k per row, which bounds the memory; beyond it
            the two with the smallest α become one (default m + 1, which suffices for every z).
        callback: Called with a `MinimizeProgress` after every step. Return True to stop.

    >>> import fwnet, torch
    >>> target = torch.tensor([[1.0, 0.5, -1.0]], dtype=torch.float64)
    >>> start = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    >>> found = fwnet.minimize(lambda z: (z - target).square().sum(-1), fwnet.Simplex(), start)
    >>> found.point.round(decimals=4).tolist(), bool(found.converged)
    ([[0.75, 0.25, 0.0]], True)
    """
    rows = _checked_start(start, convex_set)
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {get_args(Variant)}, got {variant!r}")
    check_number("tol", tol)
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    check_integer("max_steps", max_steps, least=0)
    most = rows.shape[-1] + 1 if max_points is None else check_integer("max_points", max_points, 2)
    z = rows
    held = None if variant == "projected" else _Held(z, most)
    ahead = _Ahead(z) if held is None else None
    num_steps = torch.zeros(len(z), dtype=torch.int32, device=z.device)
    with torch.no_grad():
        for step in range(max_steps + 1):
            value, gradient = _evaluate(f, z)
            oracle = convex_set.lmo(gradient)
            gap = dot(gradient, z - oracle)
            active = gap > tol
            told = MinimizeProgress(step, z, value, gap.squeeze(-1))
            stop = callback is not None and callback(told)
            if stop or step == max_steps or not active.any():
                break
            if ahead is not None:
                z = torch.where(active, ahead.step(f, convex_set, z, gradient, oracle), z)
                num_steps += active.squeeze(-1).int()
                continue
            assert held is not None
            move = held.move(variant, z, gradient, oracle, gap)
            size = _line_search(f, z, value, move, dot(gradient, move.direction), active)
            z = z + size * move.direction
            held.update(move, size, oracle)
            num_steps += active.squeeze(-1).int()
    shape = start.shape[:-1]
    return Minimum(
        z.reshape(start.shape),
        value.reshape(shape),
        gap.reshape(shape),
        (gap <= tol).reshape(shape),
        num_steps.reshape(shape),
    )


@dataclass(frozen=True)
class _Move:
    """A direction, its largest step size, and what a step of size γ does to the shares α."""

    direction: Tensor
    limit: Tensor  # (rows, 1)
    grows: Tensor  # α is multiplied by 1 + grows·γ
    adds_oracle: Tensor  # whether s gets γ, (rows, 1)
    adds_best: Tensor  # whether the best point in use gets γ
    takes: Tensor  # whether the worst point in use gives γ
    best: Tensor  # indices (rows, 1)
    worst: Tensor


class _Held:
    """The points a_k, (rows, slots, m), and their shares α_k, (rows, slots): 0 in unused slots."""

    def __init__(self, start: Tensor, most: int):
        slots = min(FIRST_SLOTS, most)
        self.points = start.new_zeros(len(start), slots, start.shape[-1])
        self.shares = start.new_zeros(len(start), slots)
        self.points[:, 0], self.shares[:, 0], self.most = start, 1.0, most

    def move(
        self, variant: Variant, z: Tensor, gradient: Tensor, oracle: Tensor, gap: Tensor
    ) -> _Move:
        """Return the direction of the variant."""
        slopes = (self.points @ gradient.unsqueeze(-1)).squeeze(-1)
        used = self.shares > 0
        worst = torch.where(used, slopes, -torch.inf).argmax(-1, keepdim=True)
        best = torch.where(used, slopes, torch.inf).argmin(-1, keepdim=True)
        share = self.shares.gather(-1, worst)
        bad, good = (self._point(index) for index in (worst, best))
        no, yes = torch.zeros_like(gap, dtype=torch.bool), torch.ones_like(gap, dtype=torch.bool)
        one = torch.ones_like(gap)
        plain = _Move(oracle - z, one, -one, yes, no, no, best, worst)
        if variant == "plain":
            return plain
        if variant == "pairwise":
            return _Move(oracle - bad, share, 0 * one, yes, no, yes, best, worst)
        if variant == "away":
            room = share / (1 - share).clamp(min=torch.finfo(z.dtype).tiny)
            chosen = (dot(gradient, bad - z) > gap) & (share < 1)
            other = _Move(z - bad, room, one, no, no, yes, best, worst)
        else:
            chosen = dot(gradient, bad - good) >= gap
            other = _Move(good - bad, share, 0 * one, no, yes, yes, best, worst)
        pairs = zip(vars(other).values(), vars(plain).values(), strict=True)
        return _Move(*(torch.where(chosen, *pair) for pair in pairs))

    def update(self, move: _Move, size: Tensor, oracle: Tensor) -> None:
        """Change the shares by a step; new points take a free slot."""
        shares = self.shares * (1 + move.grows * size)
        taken = shares.gather(-1, move.worst) - size
        emptied = move.takes & ((size >= move.limit) | (taken <= 0))
        taken = torch.where(emptied, 0.0, taken)
        taken = torch.where(move.takes & (size > 0), taken, shares.gather(-1, move.worst))
        shares = shares.scatter(-1, move.worst, taken)
        self.shares = shares.scatter_add(-1, move.best, torch.where(move.adds_best, size, 0.0))
        self._add(oracle, torch.where(move.adds_oracle, size, 0.0))

    def _add(self, point: Tensor, share: Tensor) -> None:
        """Add to the share of a point; it may be there already."""
        wanted = share > 0
        if not wanted.any():
            return None
        apart = (self.points - point.unsqueeze(1)).abs().amax(-1)
        scale = point.abs().amax(-1, keepdim=True)
        same = (apart <= 64 * torch.finfo(point.dtype).eps * scale) & (self.shares > 0)
        known = same.any(-1, keepdim=True)
        free = self.shares == 0
        if (wanted & ~known & ~free.any(-1, keepdim=True)).any():
            self._make_room()
            return self._add(point, share)
        slot = torch.where(known, same, free).int().argmax(-1, keepdim=True)
        index = slot.unsqueeze(-1).expand(-1, 1, point.shape[-1])
        new = torch.where(wanted & ~known, point, self._point(slot)).unsqueeze(1)
        self.points = self.points.scatter(1, index, new)
        self.shares = self.shares.scatter_add(-1, slot, share)
        return None

    def _make_room(self) -> None:
        """Double the slots, or join the two points with the smallest shares, in every row."""
        slots = self.shares.shape[-1]
        if slots < self.most:
            extra = min(slots, self.most - slots)
            self.points = torch.nn.functional.pad(self.points, (0, 0, 0, extra))
            self.shares = torch.nn.functional.pad(self.shares, (0, extra))
            return
        small = self.shares.topk(2, -1, largest=False)
        index = small.indices.unsqueeze(-1).expand(-1, -1, self.points.shape[-1])
        total = small.values.sum(-1, keepdim=True)
        part = small.values / torch.where(total > 0, total, 1.0)
        joined = (part.unsqueeze(-1) * self.points.gather(1, index)).sum(1)
        self.points = self.points.scatter(1, index[:, :1], joined.unsqueeze(1))
        values = torch.cat([total, torch.zeros_like(total)], -1)
        self.shares = self.shares.scatter(-1, small.indices, values)

    def _point(self, slot: Tensor) -> Tensor:
        index = slot.unsqueeze(-1).expand(-1, 1, self.points.shape[-1])
        return self.points.gather(1, index).squeeze(1)


class _Ahead:
    """Accelerated projected gradient steps: y = z + β(z − z_before), z = P(y − ∇f(y)/L)."""

    def __init__(self, start: Tensor):
        self.y = start
        self.momentum = torch.ones_like(start[:, :1])
        self.bend = torch.zeros_like(self.momentum)  # L, a bound on the curvature; 0: unknown

    def step(
        self,
        f: Callable[[Tensor], Tensor],
        convex_set: ConvexSet,
        z: Tensor,
        gradient: Tensor,
        oracle: Tensor,
    ) -> Tensor:
        """Return the next z; L grows until f is below its quadratic bound there."""
        if not self.bend.any():
            probe = (oracle - z) * FLAT
            _, there = _evaluate(f, z + probe)
            self.bend = dot(there - gradient, probe).abs() / _divisor(dot(probe, probe))
        tiny = torch.finfo(z.dtype).tiny
        self.bend = (0.9 * self.bend).clamp(min=tiny)
        value, slope = _evaluate(f, self.y)
        rounding = 8 * torch.finfo(z.dtype).eps * (1 + value.abs())
        for _ in range(SEARCHES):
            new = convex_set.project(self.y - slope / self.bend)
            d = new - self.y
            bound = value + (dot(slope, d) + 0.5 * self.bend * dot(d, d)).squeeze(-1)
            above = ~(_evaluate(f, new)[0] <= bound + rounding)
            if not above.any():
                break
            self.bend = torch.where(above.unsqueeze(-1), 2 * self.bend, self.bend)
        momentum = (1 + (1 + 4 * self.momentum.square()).sqrt()) / 2
        against = dot(self.y - new, new - z) > 0
        beta = torch.where(against, 0.0, (self.momentum - 1) / momentum)
        self.momentum = torch.where(against, 1.0, momentum)
        self.y = new + beta * (new - z)
        return new


def _divisor(value: Tensor) -> Tensor:
    return torch.where(value > 0, value, 1.0)


def _evaluate(f: Callable[[Tensor], Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
    """Return f(z) and its gradient, row by row."""
    with torch.inference_mode(False), torch.enable_grad():
        point = z.detach().clone().requires_grad_()
        value = f(point)
        if not isinstance(value, Tensor) or value.shape != z.shape[:1]:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"f must return one value per row, ({len(z)},), got {got}")
        (gradient,) = torch.autograd.grad(value.sum(), point)
    return value.detach(), gradient


def _line_search(
    f: Callable[[Tensor], Tensor],
    z: Tensor,
    value: Tensor,
    move: _Move,
    slope: Tensor,
    active: Tensor,
) -> Tensor:
    """Return γ in [0, limit] where the slope along the direction vanishes, or the limit."""
    limit = torch.where(active, move.limit, 0.0)
    highest = (value + 64 * torch.finfo(z.dtype).eps * (1 + value.abs())).unsqueeze(-1)
    low, low_slope = torch.zeros_like(limit), slope.clamp(max=0)
    size = high = limit
    done, high_slope = ~active, torch.zeros_like(slope)
    for trial in range(SEARCHES):
        value, gradient = _evaluate(f, z + size * move.direction)
        here = dot(gradient, move.direction)
        # Beyond the domain of f, or beyond a hill if f is not convex: the root is nearer.
        value = value.unsqueeze(-1)
        usable = (value <= highest) | ((here > 0) & value.isfinite())
        here = torch.where(usable & here.isfinite(), here, low_slope.abs())
        settled = here.abs() <= FLAT * slope.abs()
        done |= settled | ((here <= 0) & (size >= limit))
        if done.all():
            return size
        left = (here < 0) & ~done
        right = ~left & ~done
        low, low_slope = torch.where(left, size, low), torch.where(left, here, low_slope)
        high, high_slope = torch.where(right, size, high), torch.where(right, here, high_slope)
        spread = high_slope - low_slope
        secant = low - low_slope * (high - low) / torch.where(spread > 0, spread, 1.0)
        # Secants alone move only one end if the slope is steep at the other: halve in between.
        inside = (secant > low) & (secant < high) & (trial % 2 == 0)
        ahead = torch.where(inside, secant, (low + high) / 2)
        size = torch.where(done, size, ahead)
    return torch.where(done, size, low)


def _checked_start(start: Tensor, convex_set: ConvexSet) -> Tensor:
    if isinstance(convex_set, type) or not isinstance(convex_set, ConvexSet):
        raise TypeError(f"convex_set must be a ConvexSet such as Simplex(), got {convex_set!r}")
    if not isinstance(start, Tensor) or not start.is_floating_point() or start.ndim == 0:
        got = f"{start.dtype} of shape {tuple(start.shape)}" if isinstance(start, Tensor) else start
        raise TypeError(f"start must be a floating-point tensor (..., m), got {got}")
    check_tensor("start", start)
    if not start.shape[-1]:
        raise ValueError(f"start must have entries, got shape {tuple(start.shape)}")
    rows = start.detach().reshape(-1, start.shape[-1])
    outside = ~convex_set.contains(rows)
    if outside.any():
        raise ValueError(
            f"start must be in the set, got {int(outside.sum())} of {len(rows)} rows outside; "
            "use convex_set.project(start)"
        )
    return rows
