"""`LpCoder`: certified codes as a step of a scikit-learn pipeline."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from fwnet.coding.chunks import chunk_slices, default_chunk_rows, named_device, to_tensor
from fwnet.functional import value_of
from fwnet.sets import LpBall
from fwnet.solvers import Status, solve

__all__ = ["LpCoder"]

FLOATS = (np.float64, np.float32)


class LpCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """min_z ½‖x − zD‖²  s.t.  ‖z‖_p ≤ radius, for every row x of X, by `fwnet.solve`.

    The dictionary D is given, `fit` only checks that everything goes together. NumPy arrays and
    whatever scikit-learn takes for one give NumPy arrays; torch tensors give tensors on the same
    device, without gradients (`fwnet.solve` has those). float32 and float64 are kept, every
    other kind of number becomes float64.

    Args:
        dictionary: D of shape (n_components, n_features), one atom a row: scikit-learn's
            convention, the transpose of the paper's (n, m) that `fwnet.solve` takes. None stands
            for the identity: the code is the nearest point of the ball, exact to rounding.
        p: The exponent of the norm, in [1, ∞], both ends included.
        radius: The bound on the norm of a code, > 0.
        tol: The tolerance of the certificate; see `fwnet.solve`.
        device: Where to compute: "auto" is a CUDA device where there is one, and for a tensor the
            device it is on. Otherwise a name such as "cpu" or "cuda".
        chunk_rows: How many samples to solve at a time, which bounds the memory beside that of
            the codes. Default: what makes a chunk 16 million numbers.

    Attributes:
        components_: The dictionary, (n_components, n_features).
        n_features_in_: The number of features seen by `fit`.
        feature_names_in_: Their names, where X had names.

    A `ConvergenceWarning` says how many codes could not be certified, and why.

    >>> import fwnet
    >>> fwnet.LpCoder(p=2.0, radius=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]])
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    def __init__(
        self,
        dictionary: Any = None,
        p: float = 1.3,
        radius: float = 5.0,
        *,
        tol: float | None = None,
        device: str = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.p = p
        self.radius = radius
        self.tol = tol
        self.device = device
        self.chunk_rows = chunk_rows

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing; check X, the dictionary and the parameters. y is ignored."""
        X = self._checked_samples(X, reset=True)
        self._ball()
        if self.tol is not None and not 0 < self.tol < 1:
            raise ValueError(f"tol must be in (0, 1), got {self.tol!r}")
        if self.chunk_rows is not None and not self.chunk_rows >= 1:
            raise ValueError(f"chunk_rows must be >= 1, got {self.chunk_rows!r}")
        _device(self.device, X)
        self.components_ = self._checked_dictionary(X)
        self._is_identity = self.dictionary is None
        return self

    def transform(self, X: Any) -> Any:
        """Return the codes of X, (n_samples, n_components)."""
        check_is_fitted(self)
        X = self._checked_samples(X, reset=False)
        device, dtype = _device(self.device, X), _numpy_dtype(X)
        code_of, counts = self._coder(dtype, device)
        num_components, num_features = self.components_.shape
        codes = _empty_like(X, (X.shape[0], num_components))
        chunk_rows = self.chunk_rows or default_chunk_rows(num_features, num_components)
        for rows in chunk_slices(X.shape[0], chunk_rows):
            if isinstance(X, Tensor):
                codes[rows] = code_of(X[rows].to(device))
            else:
                codes[rows] = code_of(to_tensor(X[rows], dtype, device)).cpu().numpy()
        _warn_of_uncertified(counts, X.shape[0])
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """Rebuild samples from codes: X @ components_, (n_samples, n_features)."""
        check_is_fitted(self)
        X = _checked_tensor(X) if isinstance(X, Tensor) else check_array(X, dtype=FLOATS)
        num_components = len(self.components_)
        if X.shape[1] != num_components:
            raise ValueError(
                f"X must have {num_components} columns, one for each component, got {X.shape[1]}"
            )
        if isinstance(X, Tensor):
            return X @ to_tensor(self.components_, _numpy_dtype(X), X.device)
        return X @ self.components_.astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        """How many names `get_feature_names_out` makes."""
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _coder(
        self, dtype: np.dtype, device: torch.device
    ) -> tuple[Callable[[Tensor], Tensor], Counter[int]]:
        """What turns a chunk into codes, and how its searches end, counted by status."""
        ball = self._ball()
        counts: Counter[int] = Counter()
        if self._is_identity:
            return ball.project, counts
        dictionary = to_tensor(self.components_.T, dtype, device)

        def certified(chunk: Tensor) -> Tensor:
            solution = solve(chunk, dictionary, ball, tol=self.tol)
            counts.update(solution.status_code.tolist())
            return solution.code

        return certified, counts

    def _ball(self) -> LpBall:
        return LpBall(value_of(self.p), value_of(self.radius))

    def _checked_samples(self, X: Any, reset: bool) -> Any:
        """A tensor of two axes for a tensor, an array for everything else."""
        if isinstance(X, Tensor):
            X = _checked_tensor(X)
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(self, X, reset=reset, dtype=FLOATS)

    def _checked_dictionary(self, X: Any) -> np.ndarray:
        num_features = X.shape[1]
        if self.dictionary is None:
            return np.eye(num_features, dtype=_numpy_dtype(X))
        given = self.dictionary
        if isinstance(given, Tensor):
            given = given.detach().cpu().numpy()
        components: np.ndarray = check_array(given, dtype=FLOATS, input_name="dictionary")
        if components.shape[1] != num_features:
            hint = ""
            if components.shape[0] == num_features:
                hint = "; this is the paper's (n, m), one atom a column: pass its transpose"
            raise ValueError(
                f"dictionary must have shape (n_components, n_features) with n_features = "
                f"{num_features}, the columns of X, got {components.shape}{hint}"
            )
        return components.copy()


def _checked_tensor(X: Tensor) -> Tensor:
    """Hold a tensor to what scikit-learn asks of an array."""
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


def _device(name: str, X: Any) -> torch.device:
    return X.device if name == "auto" and isinstance(X, Tensor) else named_device(name)


def _numpy_dtype(X: Any) -> np.dtype:
    if isinstance(X, Tensor):
        return np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)
    dtype: np.dtype = X.dtype
    return dtype


def _empty_like(X: Any, shape: tuple[int, int]) -> Any:
    return X.new_empty(shape) if isinstance(X, Tensor) else np.empty(shape, X.dtype)


def _warn_of_uncertified(counts: Counter[int], num_samples: int) -> None:
    left = {Status(code): count for code, count in sorted(counts.items()) if code != 0}
    if left:
        reasons = "; ".join(f"{count} {status.words}" for status, count in left.items())
        warnings.warn(
            f"{sum(left.values())} of {num_samples} samples have no certified code: {reasons}",
            ConvergenceWarning,
            stacklevel=3,
        )
