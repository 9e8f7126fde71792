"""Code the rows of a file with the certified solver or with a trained network."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.coding.chunks import to_tensor
from fwnet.coding.row_files import EncodeError
from fwnet.models import SignalModel
from fwnet.sets import ConvexSet
from fwnet.solvers import SolveProgress, Status, solve

# Stored for every row in addition to its code; the words of a status are `Status(code).words`.
CERTIFICATE = np.dtype(
    [
        ("gap", "<f8"),
        ("norm_gap", "<f8"),
        ("status_code", "i1"),
        ("num_steps", "<i4"),
        ("relative_error", "<f8"),  # ‖x − Dz‖ / ‖x‖; NaN for x = 0 and for codes of a network
    ]
)
FROM_NETWORK = -1
BAD_ROW = -2  # with NaN, infinite or missing values
BAD_WORDS = "not finite, with NaN as code"

CountRows = Callable[[int], None]


@dataclass(frozen=True)
class RowCoder:
    """A function that codes rows, and what its codes depend on.

    Attributes:
        num_atoms: Length of a code.
        identity: What the codes depend on in addition to the rows, by name.
        code: Returns codes and records (`CERTIFICATE`) of rows; reports how many rows are done.
        words: Returns the meaning of a status code.
    """

    num_atoms: int
    identity: dict[str, Any]
    code: Callable[[np.ndarray, CountRows], tuple[np.ndarray, np.ndarray]]
    words: Callable[[int], str]

    def code_any(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return codes and records; rows that are not finite have NaN and `BAD_ROW`."""
        good = np.isfinite(rows).all(axis=1)
        if good.all():
            return self.code(rows, lambda _: None)
        records = np.full(len(rows), np.array((np.nan, np.nan, BAD_ROW, 0, np.nan), CERTIFICATE))
        codes = np.full((len(rows), self.num_atoms), np.nan, rows.dtype)
        if good.any():
            some, records[good] = self.code(rows[good], lambda _: None)
            codes = codes.astype(some.dtype)
            codes[good] = some
        return codes, records

    def summary(self, records: np.ndarray) -> dict[str, Any]:
        """Return the largest gaps, a sum of errors, and how many rows have which status."""
        statuses, counts = np.unique(records["status_code"], return_counts=True)
        words = [BAD_WORDS if status == BAD_ROW else self.words(status) for status in statuses]
        return {
            "largest_gap": _largest(records["gap"]),
            "largest_norm_gap": _largest(records["norm_gap"]),
            "sum_of_errors": _sum_of_errors(records["relative_error"]),
            "counts": dict(zip(words, counts.tolist(), strict=True)),
        }


def merged(summaries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of all rows, given those of some at a time."""
    parts = [*summaries]
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part["counts"])
    rows, total = map(sum, zip(*(part["sum_of_errors"] for part in parts), strict=True))
    return {
        "largest_gap": _largest(part["largest_gap"] for part in parts),
        "largest_norm_gap": _largest(part["largest_norm_gap"] for part in parts),
        "relative_error": total / rows if rows else math.nan,
        "counts": dict(counts.most_common()),
    }


def _largest(values: Iterable[float]) -> float:
    """Return the largest value that is a number; NaN if there is none."""
    return float(np.fmax.reduce([*values], initial=np.nan))


def _sum_of_errors(errors: np.ndarray) -> tuple[int, float]:
    """Return how many errors are numbers, and their sum."""
    errors = errors[~np.isnan(errors)]
    return len(errors), float(errors.sum())


def solver_coder(
    matrix: np.ndarray, convex_set: ConvexSet, tol: float | None, device: torch.device
) -> RowCoder:
    """Return a coder that solves min ½‖x − Dz‖² s.t. z ∈ C, with certificates.

    Args:
        matrix: D, of shape (n, m) and the dtype of the rows.
        convex_set: C.
        tol: Tolerance of the certificate.
        device: Where to compute.
    """
    atoms = to_tensor(matrix, matrix.dtype, device)

    def code(rows: np.ndarray, progress: CountRows) -> tuple[np.ndarray, np.ndarray]:
        most = 0

        def report(step: SolveProgress) -> None:
            nonlocal most
            # rows_done falls when rows are solved again in higher precision.
            most = max(most, step.rows_done)
            progress(most)

        x = to_tensor(rows, matrix.dtype, device)
        solution = solve(x, atoms, convex_set, tol=tol, callback=report, warn=False)
        records = np.empty(len(rows), CERTIFICATE)
        for name in ("gap", "norm_gap", "status_code", "num_steps"):
            records[name] = getattr(solution, name).cpu().numpy()
        records["relative_error"] = _relative_error(x, solution.code @ atoms.T).cpu().numpy()
        return solution.code.cpu().numpy(), records

    identity = {
        "dictionary": hashlib.sha256(np.ascontiguousarray(matrix).data.cast("B")).hexdigest(),
        "atoms": matrix.shape[1],
        "set": type(convex_set).__name__,
        **{name: repr(value) for name, value in vars(convex_set).items()},
        "tol": repr(tol),
    }
    return RowCoder(matrix.shape[1], identity, code, lambda status: Status(status).words)


def _relative_error(x: Tensor, rebuilt: Tensor) -> Tensor:
    """‖x − Dz‖ / ‖x‖ of every row; NaN for x = 0."""
    scale = x.abs().amax(-1, keepdim=True)  # no square overflows
    norm = torch.linalg.vector_norm
    errors: Tensor = norm((x - rebuilt) / scale, dim=-1) / norm(x / scale, dim=-1)
    return errors


def network_coder(network: SignalModel, path: Path, digest: str, device: torch.device) -> RowCoder:
    """z = f(x) with a network that `fwnet train coder` wrote; there is no certificate.

    Args:
        network: f.
        path: Its file, for messages.
        digest: The SHA-256 of the file.
        device: Where to compute.
    """
    network, name = network.to(device), type(network).__name__
    dtype = next(network.parameters()).dtype

    def code(rows: np.ndarray, progress: CountRows) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            codes = network.encode(to_tensor(rows, rows.dtype, device).to(dtype))
        if codes.dtype not in (torch.float32, torch.float64):
            codes = codes.float()  # NumPy has no bfloat16
        bad = (~codes.isfinite().all(-1)).nonzero()
        if len(bad):
            raise EncodeError(
                f"{path} gives codes that are NaN or infinite for {len(bad)} of {len(rows)} rows; "
                f"the first has entries of up to {np.abs(rows[int(bad[0])]).max():.3g}"
            )
        progress(len(rows))
        record = np.array((np.nan, np.nan, FROM_NETWORK, 0, np.nan), CERTIFICATE)
        return codes.cpu().numpy(), np.full(len(rows), record)

    probe, _ = code(np.zeros((1, network.num_features), np.float32), lambda _: None)
    words = f"coded by {name}, without a certificate"
    return RowCoder(probe.shape[1], {"model": digest}, code, lambda _: words)
