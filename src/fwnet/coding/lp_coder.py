"""`LpCoder`: certified codes as a step of a scikit-learn pipeline."""

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch

from fwnet.checks import check_tolerance
from fwnet.coding.ball_search import learn_ball
from fwnet.coding.chunks import to_tensor
from fwnet.coding.code_transformer import Coder, CodeTransformer, certified_coder
from fwnet.coding.learned_ball import LEARN, LEARNED, check_ball, note_learned_ball
from fwnet.sets import ConvexSet, LpBall


@dataclass(eq=False, repr=False)
class LpCoder(CodeTransformer):
    """min_z ½‖x − zD‖²  s.t.  ‖z‖_p ≤ radius, or z ∈ C, for every row x of X, by `fwnet.solve`.

    The dictionary D is given; `fit` checks the input, and learns p and radius if asked to.
    Array-likes give NumPy arrays; torch tensors give tensors on the same device, without gradients
    (`fwnet.solve` has gradients). float32 and float64 are kept; every other number type becomes
    float64.

    Args:
        dictionary: D of shape (n_components, n_features), one atom per row: scikit-learn's
            convention, the transpose of the paper's (n, m) that `fwnet.solve` takes. None means
            the identity: the code is the nearest point of the set, exact to rounding.
        p: Exponent of the norm, in [1, ∞], or "learn".
        radius: Bound on the norm of a code, > 0, or "learn". With "learn", `fit` hides some entries
            of X and takes the value that predicts them best (`learn_ball`). An
            `UnidentifiedWarning` says if the data do not determine it.
        convex_set: C, one of `fwnet.sets` such as `Simplex()`, instead of p and radius.
        tol: Tolerance of the certificate; see `fwnet.solve`.
        device: Where to compute. "auto" means CUDA if present, else the CPU; a tensor stays on its
            own device.
        chunk_rows: Samples to solve at a time, which bounds the memory. Default: chosen so that a
            chunk has 16 million numbers.

    Attributes:
        components_: The dictionary, (n_components, n_features).
        p_: The exponent, given or learned; not with a convex_set.
        radius_: The radius, given or learned; not with a convex_set.
        p_interval_: If p or radius is learned, the p that the data allow, lowest and highest.
        radius_interval_: The same for the radius.
        doubts_: Reasons, in words, why p or radius may not be identified.
        n_features_in_: Number of features seen by `fit`.
        feature_names_in_: Their names, if X has names.

    A `ConvergenceWarning` says how many codes could not be certified, and why.

    >>> import fwnet
    >>> fwnet.LpCoder(p=2.0, radius=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]])
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    dictionary: Any = None
    p: float | str = 1.3
    radius: float | str = 5.0
    _: KW_ONLY
    convex_set: ConvexSet | None = None
    tol: float | None = None
    device: str = "auto"
    chunk_rows: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X, the dictionary and the parameters; learn the ball if asked to. y is ignored."""
        X, device = self._checked_samples(X, reset=True)
        check_ball(self.p, self.radius)
        check_tolerance("tol", self.tol)
        self._check_chunk_rows()
        num_features = X.shape[1]
        if self.dictionary is None:
            self.components_ = np.eye(num_features, dtype=X.dtype)
        else:
            self.components_ = self._checked_dictionary(self.dictionary, num_features)
        self._is_identity = self.dictionary is None
        self._choose_ball(X, device)
        self._set()
        return self

    def _choose_ball(self, X: np.ndarray, device: torch.device) -> None:
        for name in ("p_", "radius_", *LEARNED):
            self.__dict__.pop(name, None)
        if LEARN not in (self.p, self.radius):
            if self.convex_set is None:
                self.p_, self.radius_ = float(self.p), float(self.radius)
            return
        if self._is_identity or self.convex_set is not None:
            raise ValueError(
                "p and radius can be learned with a dictionary and without a convex_set, got "
                + ("no dictionary" if self._is_identity else f"convex_set={self.convex_set!r}")
            )
        x, atoms = (to_tensor(values, X.dtype, device) for values in (X, self.components_.T))
        note_learned_ball(self, learn_ball(x, atoms, self.p, self.radius))

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        if self._is_identity:
            return self._set().project, Counter()
        return certified_coder(self.components_, self._set(), self.tol, dtype, device)

    def _set(self) -> ConvexSet:
        if self.convex_set is None:
            return LpBall(self.p_, self.radius_)
        if isinstance(self.convex_set, type) or not isinstance(self.convex_set, ConvexSet):
            raise TypeError(
                f"convex_set must be a ConvexSet such as Simplex(), got {self.convex_set!r}"
            )
        return self.convex_set
