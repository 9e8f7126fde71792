"""The base of every estimator that turns rows into codes: checks, chunks, arrays and tensors."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.coding.chunks import chunk_slices, default_chunk_rows, to_tensor
from fwnet.coding.estimator_files import EstimatorFileMixin
from fwnet.hardware import choose_device
from fwnet.sets import LpBall
from fwnet.solvers import Status, solve

__all__ = [
    "FLOATS",
    "CodeTransformer",
    "Coder",
    "certified_coder",
    "check_tolerance",
    "device_for",
    "numpy_dtype",
]

FLOATS = (np.float64, np.float32)

# A function from a chunk of rows to codes, and the counts of the status codes of its searches.
Coder = tuple[Callable[[Tensor], Tensor], Counter[int]]


class CodeTransformer(
    EstimatorFileMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """z = code(x) and x ≈ zD for rows of arrays or tensors, chunk by chunk.

    Array-likes give NumPy arrays; torch tensors give tensors on the same device, without gradients.
    float32 and float64 are kept; every other number type becomes float64. A subclass has the
    parameters `device` and `chunk_rows`, sets `components_` in `fit`, and defines `_coder`.
    """

    components_: np.ndarray
    device: str
    chunk_rows: int | None

    def transform(self, X: Any) -> Any:
        """Return the codes of X, (n_samples, n_components)."""
        check_is_fitted(self)
        self._check_chunk_rows()
        X = self._checked_samples(X, reset=False)
        device, dtype = device_for(self.device, X), numpy_dtype(X)
        code_of, counts = self._coder(dtype, device)
        num_components, num_features = self.components_.shape
        shape = (X.shape[0], num_components)
        codes: Any = X.new_empty(shape) if isinstance(X, Tensor) else np.empty(shape, X.dtype)
        chunk_rows = self.chunk_rows or default_chunk_rows(num_features, num_components)
        for rows in chunk_slices(X.shape[0], chunk_rows):
            if isinstance(X, Tensor):
                codes[rows] = code_of(X[rows].to(device))
            else:
                codes[rows] = code_of(to_tensor(X[rows], dtype, device)).cpu().numpy()
        _warn_of_uncertified(counts, X.shape[0])
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """Return samples rebuilt from codes: X @ components_, (n_samples, n_features)."""
        check_is_fitted(self)
        X = _checked_tensor(X) if isinstance(X, Tensor) else check_array(X, dtype=FLOATS)
        num_components = len(self.components_)
        if X.shape[1] != num_components:
            raise ValueError(
                f"X must have {num_components} columns, one for each component, got {X.shape[1]}"
            )
        if isinstance(X, Tensor):
            return X @ to_tensor(self.components_, numpy_dtype(X), X.device)
        return X @ self.components_.astype(X.dtype, copy=False)

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        """Return the number of names from `get_feature_names_out`."""
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked_samples(self, X: Any, reset: bool) -> Any:
        """Return a tensor of two axes for a tensor, and an array for everything else."""
        if isinstance(X, Tensor):
            X = _checked_tensor(X)
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(self, X, reset=reset, dtype=FLOATS)

    def _check_chunk_rows(self) -> None:
        if self.chunk_rows is not None:
            check_integer("chunk_rows", self.chunk_rows)

    def _checked_dictionary(self, given: Any, num_features: int) -> np.ndarray:
        """Return a copy of a dictionary in scikit-learn's shape, as an array."""
        if isinstance(given, Tensor):
            given = given.detach().cpu().numpy()
        components: np.ndarray = check_array(given, dtype=FLOATS, input_name="dictionary")
        if components.shape[1] != num_features:
            hint = ""
            if components.shape[0] == num_features:
                hint = "; this is the paper's (n, m), one atom per column: pass its transpose"
            raise ValueError(
                f"dictionary must have shape (n_components, n_features) with n_features = "
                f"{num_features}, the columns of X, got {components.shape}{hint}"
            )
        return components.copy()


def certified_coder(
    components: np.ndarray, ball: LpBall, tol: float | None, dtype: np.dtype, device: torch.device
) -> Coder:
    """Return a coder that calls `fwnet.solve` for a dictionary in scikit-learn's shape."""
    dictionary = to_tensor(components.T, dtype, device)
    counts: Counter[int] = Counter()

    def certified(chunk: Tensor) -> Tensor:
        solution = solve(chunk, dictionary, ball, tol=tol)
        counts.update(solution.status_code.tolist())
        return solution.code

    return certified, counts


def check_tolerance(name: str, value: float | None) -> None:
    """Raise unless a tolerance is None or in (0, 1)."""
    if value is not None and not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")


def device_for(name: str, X: Any) -> torch.device:
    """Return where to compute; for "auto", a tensor stays on its own device."""
    return X.device if name == "auto" and isinstance(X, Tensor) else choose_device(name)


def numpy_dtype(X: Any) -> np.dtype:
    """Return NumPy's dtype of a float32 or float64 array or tensor."""
    if isinstance(X, Tensor):
        return np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)
    dtype: np.dtype = X.dtype
    return dtype


def _checked_tensor(X: Tensor) -> Tensor:
    """Apply scikit-learn's checks of an array to a tensor."""
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {tuple(X.shape)}")
    if 0 in X.shape:
        raise ValueError(f"X must have at least 1 sample and 1 feature, got {tuple(X.shape)}")
    if X.is_complex():
        raise ValueError(f"X must be real, got {X.dtype}")
    X = X.detach()
    if X.dtype not in (torch.float32, torch.float64):
        X = X.double()
    bad = (~X.isfinite()).any(-1)
    if bad.any():
        raise ValueError(
            f"X must be finite, got NaN or infinity in {int(bad.sum())} of {len(X)} samples"
        )
    return X


def _warn_of_uncertified(counts: Counter[int], num_samples: int) -> None:
    left = {Status(code): count for code, count in sorted(counts.items()) if code != 0}
    if left:
        reasons = "; ".join(f"{count} {status.words}" for status, count in left.items())
        warnings.warn(
            f"{sum(left.values())} of {num_samples} samples have no certified code: {reasons}",
            ConvergenceWarning,
            stacklevel=3,
        )
