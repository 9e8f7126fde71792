"""Low-rank matrices from a tenth of their entries: `minimize`, beside alternating least squares."""

import time

import torch
from torch import Tensor

import fwnet
from fwnet.bench.harness import Options, Report, Row
from fwnet.hardware import one_thread
from fwnet.progress import Progress

RANK, SEEN, TOL, SWEEPS = 10, 0.1, 1e-4, 500
RIDGE = 1e-6  # of alternating least squares, so that rows with few seen entries can be solved


def run(options: Options) -> Report:
    """Time both until ½‖seen entries − those of Z‖² is proven, or known, to be near its minimum.

    Z is in the ball of the true matrix's nuclear norm, where the minimum is 0. `minimize` ends when
    its gap is 1e-4 of ½‖seen entries‖², alternating least squares, which is told the rank, when its
    error is. On a CPU, seconds of one core are reported.
    """
    report = options.report("completion", "alternating least squares, the rank given")
    size, seen = (200, 0.4) if options.quick else (1000, SEEN)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(size, RANK, generator=generator) for _ in range(2))
    mask = (torch.rand(size, size, generator=generator) < seen).float().to(options.device)
    matrix = (left @ right.T).to(options.device)
    radius = torch.linalg.svdvals(matrix.double()).sum().item()
    energy = 0.5 * (mask * matrix).square().sum().item()
    works = {
        "alternating least squares, the rank given": lambda: _alternate(matrix, mask, energy),
        "minimize on a SchattenBall": lambda: _minimize(matrix, mask, radius, energy),
    }
    group = f"{size} × {size}, rank {RANK}, {seen:.0%} seen, to 1e-4"
    seconds: dict[str, float] = {}
    notes: dict[str, float] = {}
    for name, work in works.items():
        options.progress(Progress(name, len(seconds), len(works), "methods"))
        with one_thread():
            start = _clock(options.device)
            found, notes[f"{name}: steps"] = work()
            seconds[name] = _clock(options.device) - start
        hidden = (found - matrix)[mask == 0].norm() / matrix[mask == 0].norm()
        notes[f"{name}: relative error of hidden entries"] = hidden.item()
    first = next(iter(seconds.values()))
    report.rows = [
        Row(group, name, value / first, 1e3 * value, 0.0, None) for name, value in seconds.items()
    ]
    report.notes[group] = notes
    return report


def _minimize(matrix: Tensor, mask: Tensor, radius: float, energy: float) -> tuple[Tensor, int]:
    ball = fwnet.SchattenBall((len(matrix), len(matrix)), 1.0, radius)
    seen, flat = (mask * matrix).flatten(), mask.flatten()

    def f(z: Tensor) -> Tensor:
        return 0.5 * (z * flat - seen).square().sum(-1)

    start = torch.zeros_like(seen).unsqueeze(0)
    found = fwnet.minimize(f, ball, start, variant="projected", tol=TOL * energy)
    # The gap once more, with the norm of the gradient from a full decomposition.
    gradient = found.point * flat - seen
    gap = ((gradient * found.point).sum(-1) + ball.support(-gradient)).item()
    if gap > 1.001 * TOL * energy:
        raise RuntimeError(f"expected a gap of {TOL * energy}, got {gap}")
    return found.point.reshape(matrix.shape), int(found.num_steps)


def _alternate(matrix: Tensor, mask: Tensor, energy: float) -> tuple[Tensor, int]:
    """Solve for the rows of L, then for those of R, with Z = L Rᵀ, again and again."""
    generator = torch.Generator().manual_seed(1)
    right = torch.randn(len(matrix), RANK, generator=generator).to(matrix)
    for sweep in range(SWEEPS):
        left = _least_squares(right, matrix, mask)
        right = _least_squares(left, matrix.T, mask.T)
        found = left @ right.T
        if 0.5 * (mask * (found - matrix)).square().sum() <= TOL * energy:
            return found, sweep + 1
    raise RuntimeError(f"alternating least squares did not get there in {SWEEPS} sweeps")


def _least_squares(factor: Tensor, matrix: Tensor, mask: Tensor) -> Tensor:
    """min Σ_j mask_ij·(matrix_ij − ⟨row_i, factor_j⟩)², for every row i."""
    pairs = (factor.unsqueeze(-1) * factor.unsqueeze(-2)).flatten(1)
    grams = (mask @ pairs).unflatten(1, (RANK, RANK))
    grams.diagonal(dim1=-2, dim2=-1).add_(RIDGE)
    rows: Tensor = torch.linalg.solve(grams, (mask * matrix) @ factor)
    return rows


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()
