"""The base of every estimator that turns rows into codes: checks, chunks, arrays and tensors.

A large array is coded in chunks, which bounds the memory.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from fwnet.checks import check_integer, check_tensor
from fwnet.coding.chunks import default_chunk_rows, to_tensor
from fwnet.coding.estimator_files import EstimatorFileMixin
from fwnet.hardware import choose_device
from fwnet.sets import ConvexSet
from fwnet.solvers import Status, solve
from fwnet.solvers.solution import uncertified

FLOATS = (np.float64, np.float32)

# A function from a chunk of rows to codes, and how often each solver status occurred.
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
        values, device = self._checked_samples(X, reset=False)
        code_of, counts = self._coder(values.dtype, device)
        num_components, num_features = self.components_.shape
        codes = np.empty((len(values), num_components), values.dtype)
        chunk_rows = self.chunk_rows or default_chunk_rows(num_features, num_components)
        for rows in gen_batches(len(values), chunk_rows):
            codes[rows] = code_of(to_tensor(values[rows], values.dtype, device)).cpu().numpy()
        _warn_of_uncertified(counts, len(values))
        return _like(X, codes)

    def inverse_transform(self, X: Any) -> Any:
        """Return samples rebuilt from codes: X @ components_, (n_samples, n_features)."""
        check_is_fitted(self)
        codes = check_array(as_array(X), dtype=FLOATS)
        num_components = len(self.components_)
        if codes.shape[1] != num_components:
            raise ValueError(
                f"X must have {num_components} columns, one for each component, got "
                f"{codes.shape[1]}"
            )
        return _like(X, codes @ self.components_.astype(codes.dtype, copy=False))

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

    def _checked_samples(self, X: Any, reset: bool) -> tuple[np.ndarray, torch.device]:
        """Return X as an array, and where to compute: for "auto", the device of a tensor."""
        stays = self.device == "auto" and isinstance(X, Tensor)
        device = X.device if stays else choose_device(self.device)
        return validate_data(self, as_array(X), reset=reset, dtype=FLOATS), device

    def _check_chunk_rows(self) -> None:
        if self.chunk_rows is not None:
            check_integer("chunk_rows", self.chunk_rows)

    def _checked_dictionary(self, given: Any, num_features: int) -> np.ndarray:
        """Return a copy of a dictionary in scikit-learn's shape, as an array."""
        given = as_array(given)
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
    components: np.ndarray,
    convex_set: ConvexSet,
    tol: float | None,
    dtype: np.dtype,
    device: torch.device,
) -> Coder:
    """Return a coder that calls `fwnet.solve` for a dictionary in scikit-learn's shape."""
    dictionary = to_tensor(components.T, dtype, device)
    counts: Counter[int] = Counter()

    def certified(chunk: Tensor) -> Tensor:
        solution = solve(chunk, dictionary, convex_set, tol=tol, warn=False)
        counts.update(solution.status_code.tolist())
        return solution.code

    return certified, counts


def as_array(values: Any) -> Any:
    """Return a tensor as an array, and everything else as it is."""
    if not isinstance(values, Tensor):
        return values
    check_tensor("X", values, floating_point=False)
    values = values.detach().cpu()
    return (values.double() if values.dtype == torch.bfloat16 else values).numpy()


def _like(given: Any, values: np.ndarray) -> Any:
    """Return values as a tensor on the device of `given`, if that is a tensor."""
    return torch.from_numpy(values).to(given.device) if isinstance(given, Tensor) else values


def _warn_of_uncertified(counts: Counter[int], num_samples: int) -> None:
    left = {code: count for code, count in counts.items() if code != Status.CERTIFIED}
    if left:
        warnings.warn(uncertified(left, num_samples), ConvergenceWarning, stacklevel=3)
