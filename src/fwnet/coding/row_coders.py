"""What turns rows of a file into codes: the certified solver, or a trained network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from fwnet.coding.array_files import RowFile, read_npy_matrix
from fwnet.coding.chunks import to_tensor
from fwnet.coding.errors import EncodeError
from fwnet.models import ModelFileError, SignalModel, load_model
from fwnet.sets import LpBall
from fwnet.solvers import Progress, Solution, Status, solve

__all__ = ["CERTIFICATE", "NetworkCoder", "RowCoder", "SolverCoder"]

# What is kept of every row beside its code; the words of a status are `Status(code).words`.
CERTIFICATE = np.dtype(
    [("gap", "<f8"), ("norm_gap", "<f8"), ("status_code", "i1"), ("num_steps", "<i4")]
)
FROM_NETWORK = -1

Listener = Callable[[int], None]


class RowCoder(Protocol):
    """Codes depend on the rows and on what `manifest` says, on nothing done before."""

    num_atoms: int
    manifest: dict[str, Any]

    def code(self, rows: np.ndarray, listen: Listener) -> tuple[np.ndarray, np.ndarray]:
        """Return codes and records (`CERTIFICATE`) of the rows; tell how many are done."""
        ...

    def words(self, status_code: int) -> str:
        """Say what the status of a record means."""
        ...


class SolverCoder:
    """min ½‖x − Dz‖²  s.t.  z ∈ ball, certified."""

    def __init__(
        self,
        source: RowFile,
        data: Path,
        dictionary: Path | None,
        ball: LpBall,
        tol: float | None,
        device: torch.device,
    ) -> None:
        if tol is not None and not 0 < tol < 1:
            raise EncodeError(f"tol must be in (0, 1), got {tol!r}")
        if dictionary is None:
            matrix = np.eye(source.num_columns, dtype=source.dtype)
        else:
            matrix = _read_dictionary(dictionary, data, source)
        self.num_atoms = matrix.shape[1]
        self._ball, self._tol, self._dtype, self._device = ball, tol, source.dtype, device
        self._dictionary = to_tensor(matrix, source.dtype, device)
        digest = hashlib.sha256(np.ascontiguousarray(matrix).data.cast("B"))
        self.manifest = {
            "dictionary_sha256": digest.hexdigest(),
            "atoms": self.num_atoms,
            "p": repr(ball.p),
            "radius": repr(ball.radius),
            "tol": repr(tol),
        }

    def code(self, rows: np.ndarray, listen: Listener) -> tuple[np.ndarray, np.ndarray]:
        """Solve, and keep what was certified of each row."""
        most = 0

        def hear(progress: Progress) -> bool | None:
            nonlocal most
            most = max(most, progress.rows_done)  # fewer: some rows are solved again, more exactly
            listen(most)
            return None

        x = to_tensor(rows, self._dtype, self._device)
        solution = solve(x, self._dictionary, self._ball, tol=self._tol, callback=hear)
        return solution.code.cpu().numpy(), _certificates(solution)

    def words(self, status_code: int) -> str:
        """Say how the search for a code ended."""
        return Status(status_code).words


class NetworkCoder:
    """z = f(x) with a network that `fwnet train` wrote; there is no certificate."""

    def __init__(self, path: Path, source: RowFile, data: Path, device: torch.device) -> None:
        try:
            network = load_model(path, device)
        except ModelFileError as error:
            raise EncodeError(str(error)) from error
        if not isinstance(network, SignalModel):
            raise EncodeError(
                f"{path} must hold a network that codes signals, got {type(network).__name__}"
            )
        if network.num_features != source.num_columns:
            raise EncodeError(
                f"{data} must have {network.num_features} columns, as {path} was made for, "
                f"got {source.num_columns}"
            )
        self._network = network
        self._name, self._path = type(network).__name__, path
        self._device = device
        self._weights_dtype = next(network.parameters()).dtype
        with torch.no_grad():
            probe = torch.zeros(1, network.num_features, dtype=self._weights_dtype, device=device)
            self.num_atoms = network.encode(probe).shape[-1]
        self.manifest = {"model_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def code(self, rows: np.ndarray, listen: Listener) -> tuple[np.ndarray, np.ndarray]:
        """One pass through the network."""
        x = to_tensor(rows, rows.dtype, self._device).to(self._weights_dtype)
        with torch.no_grad():
            codes = self._network.encode(x)
        if codes.dtype not in (torch.float32, torch.float64):
            codes = codes.float()  # NumPy has no bfloat16
        bad = (~codes.isfinite().all(-1)).nonzero()
        if len(bad):
            raise EncodeError(
                f"{self._path} gives codes that are NaN or infinite for {len(bad)} of {len(rows)} "
                f"rows; the first has entries of up to {np.abs(rows[int(bad[0])]).max():.3g}"
            )
        records = np.zeros(len(rows), CERTIFICATE)
        records["gap"] = records["norm_gap"] = np.nan
        records["status_code"] = FROM_NETWORK
        listen(len(rows))
        return codes.cpu().numpy(), records

    def words(self, status_code: int) -> str:  # noqa: ARG002
        """Say where codes come from."""
        return f"coded by {self._name}, without a certificate"


def _read_dictionary(path: Path, data: Path, source: RowFile) -> np.ndarray:
    dictionary = read_npy_matrix(path)
    num_features = source.num_columns
    if dictionary.shape[0] != num_features:
        hint = ""
        if dictionary.shape[1] == num_features:
            hint = "; this is scikit-learn's (n_components, n_features): save its transpose"
        raise EncodeError(
            f"{path} must have shape (n, m) with n = {num_features}, the columns of {data}, "
            f"got {dictionary.shape}{hint}"
        )
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        dictionary = dictionary.astype(source.dtype)
    if not np.isfinite(dictionary).all():
        raise EncodeError(f"{path} must be finite in {source.dtype}, got NaN or infinity")
    return dictionary


def _certificates(solution: Solution) -> np.ndarray:
    records = np.empty(len(solution.code), CERTIFICATE)
    for name in CERTIFICATE.names or ():
        records[name] = getattr(solution, name).cpu().numpy()
    return records
