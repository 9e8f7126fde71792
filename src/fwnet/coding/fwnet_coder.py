"""`FWNetCoder`: a Frank-Wolfe network for codes, as a step of a scikit-learn pipeline."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_array
from torch import Tensor

from fwnet.coding.chunks import to_tensor
from fwnet.coding.code_transformer import FLOATS, Coder, CodeTransformer
from fwnet.coding.dictionary_learning import LpDictionaryLearning
from fwnet.coding.network_estimator import (
    FIRST_P,
    FLOAT32,
    LEARN,
    NetworkEstimator,
    as_arrays,
    check_integer,
    in_precision,
    split_rows,
)
from fwnet.functional import lp_norm
from fwnet.models import FWNet
from fwnet.solvers import ksvd
from fwnet.training import (
    CodeRegression,
)

__all__ = ["FWNetCoder"]

P_BOUNDS = (1.01, 50.0)  # for the start of a learned p; that of a problem may be 1 or infinite
KSVD_ROWS, KSVD_ROUNDS, KSVD_ATOMS_A_NONZERO = 2_000, 5, 10


class FWNetCoder(NetworkEstimator, CodeTransformer):
    """z = f(x), T layers that give the codes of  min ½‖x − zD‖²  s.t.  ‖z‖_p ≤ radius.

    `fit(X, codes)` learns to give those codes for X. `fit(X)` learns a dictionary first
    (`LpDictionaryLearning`, from atoms by K-SVD), and then to give the certified codes for it,
    faster than the solver. A y with one axis, or one column for codes of another length, is
    ignored, as transformers in a pipeline do with labels.

    The dictionary, its codes and p come from all samples; `validation_fraction` of them are held
    back from the training of the network alone.

    Args:
        n_components: The length of a code; with codes given, theirs. Default: that of the samples.
        num_layers: T.
        p: The exponent of the norm, a number > 1, or "learn". p is learned from codes; without
            codes it starts from the p whose codes predict held-out entries of X best.
        radius: The bound on the norm of a code. None: with codes given, learned from the largest of
            their norms; without, the root mean square norm of the samples.
        max_iter: How many passes over the samples at most.
        batch_size: How many samples make a step at most; a pass has at least 20 steps.
        learning_rate: Of Adam, falling to 0 as a cosine.
        weight_decay: The factor of ½‖W‖².
        validation_fraction: The part of the samples held back: the weights of the pass that does
            best on them are kept. With 0, of the pass that does best on all.
        n_iter_no_change: End early when that did not improve for so many passes.
        random_state: What the held-back samples and their order depend on.
        device: Where to compute: "auto" is a CUDA device where there is one.
        chunk_rows: How many samples `transform` codes at a time.
        verbose: Whether to show a progress bar.

    Attributes:
        components_: The dictionary, (n_components, n_features).
        p_: The exponent of the network, learned or given.
        network_: The `fwnet.FWNet`.
        history_: One record a pass: loss, validation, p, gamma.
        n_iter_: The number of passes.
        n_features_in_: The number of features seen by `fit`.
        feature_names_in_: Their names, where X had names.

    >>> import fwnet, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> coder = fwnet.FWNetCoder(16, p="learn", max_iter=10, random_state=0).fit(X)
    >>> coder.transform(X).shape
    (200, 16)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        num_layers: int = 4,
        p: float | str = LEARN,
        radius: float | None = None,
        max_iter: int = 100,
        batch_size: int = 100,
        learning_rate: float = 3e-3,
        weight_decay: float = 2e-4,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        random_state: Any = None,
        device: str = "auto",
        chunk_rows: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.num_layers = num_layers
        self.p = p
        self.radius = radius
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.device = device
        self.chunk_rows = chunk_rows
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn to code X: as the codes y, (n_samples, n_components), or for a learned dictionary.

        A y with one axis is ignored.
        """
        self._check_parameters()
        self._check_chunk_rows()
        if self.n_components is not None:
            check_integer("n_components", self.n_components)
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise ValueError(f"radius must be > 0 and finite, or None, got {self.radius!r}")
        X = self._checked_samples(X, reset=True)
        if isinstance(X, Tensor):
            X = X.cpu().numpy()
        seed = self._seed()
        codes = _given_codes(y, len(X), self.n_components)
        if codes is None:
            components, codes, first_p = self._learned_dictionary(X, seed)
            radius: float | None = self._radius(X)
        else:
            components, first_p = _best_dictionary(X, codes), FIRST_P
            radius = self.radius
        # Codes are learned in a unit in which they have norms of about 1, whatever that of X is.
        norms = np.linalg.norm(codes.astype(np.float64), axis=1)
        self._unit = float(np.sqrt(np.square(norms).mean())) or 1.0
        self.history_ = []
        network = self._network(components, codes, first_p, radius)
        x = to_tensor(X, FLOAT32, torch.device("cpu"))
        z = to_tensor(codes / self._unit, FLOAT32, torch.device("cpu"))
        kept, held = split_rows(len(x), self.validation_fraction, seed)
        task = CodeRegression(x[kept], z[kept], x[held], z[held])
        self._train(network, task, self._config(len(kept), seed), "codes")
        self.components_, self.network_ = components, network
        self.n_iter_ = len(self.history_)
        self.p_ = self._learned_exponent(network)
        return self

    def _radius(self, X: np.ndarray) -> float:
        """The one given, or the root mean square norm of the samples."""
        if self.radius is not None:
            return self.radius
        norm = float(np.sqrt(np.square(X, dtype=np.float64).sum(1).mean()))
        return norm if norm > 0 else 1.0

    def _learned_dictionary(self, X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Atoms, certified codes for them, and the p at which they are."""
        learner = LpDictionaryLearning(
            self.n_components,
            self.p,
            self._radius(X),
            dictionary=_first_atoms(X, self.n_components or X.shape[1], seed),
            transform_tol=1e-6,
            random_state=seed,
            device=self.device,
        )
        codes = learner.fit(X).transform(X)
        low, high = P_BOUNDS
        return learner.components_, codes, min(max(learner.p_, low), high)

    def _network(
        self, components: np.ndarray, codes: np.ndarray, first_p: float, radius: float | None
    ) -> FWNet:
        """The unrolled algorithm for this dictionary, for codes and signals in their own unit."""
        dictionary = to_tensor(components.T, FLOAT32, torch.device("cpu"))
        norm = torch.linalg.matrix_norm(dictionary, ord=2).item()
        scale = 1 / norm if norm > 0 else 1.0
        options = self._exponent(first_p)
        if radius is None:
            norms = lp_norm(torch.from_numpy(np.asarray(codes, np.float64)), options["p"])
            options |= {"radius": float(norms.max()) / self._unit or 1.0, "learn_radius": True}
        else:
            options["radius"] = float(radius) / self._unit
        # W_0 and W_t are those of D of norm 1; they see x and z divided by the unit of codes.
        return FWNet.from_dictionary(
            dictionary * scale, int(self.num_layers), input_scale=scale / self._unit, **options
        )

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        code_of = in_precision(self.network_, dtype, device)
        return lambda x: self._unit * code_of(x), Counter()


def _given_codes(y: Any, num_samples: int, num_components: int | None) -> np.ndarray | None:
    """Codes that were given: what has two axes; labels have one, or one column."""
    y, _ = as_arrays(y, None)
    if issparse(y):
        raise ValueError("codes must be a dense array, got a sparse one: pass codes.toarray()")
    shape = () if y is None else np.asarray(y).shape
    if len(shape) < 2 or (shape[1] == 1 and num_components != 1):
        return None
    codes: np.ndarray = check_array(y, dtype=FLOATS, input_name="codes")
    if len(codes) != num_samples:
        raise ValueError(
            f"codes must have a row for each of the {num_samples} samples, got {len(codes)}"
        )
    if num_components is not None and codes.shape[1] != num_components:
        raise ValueError(
            f"codes must have n_components = {num_components} columns, got {codes.shape[1]}"
        )
    return codes


def _first_atoms(X: np.ndarray, num_atoms: int, seed: int) -> np.ndarray:
    """Atoms for sparse codes of some of the samples, by K-SVD, (num_atoms, n_features)."""
    rows = np.random.default_rng(seed).permutation(len(X))[:KSVD_ROWS]
    x = torch.from_numpy(np.asarray(X[rows], np.float64))
    most = max(1, min(x.shape[1], num_atoms) // KSVD_ATOMS_A_NONZERO)
    found = ksvd(x, num_atoms, most, num_rounds=KSVD_ROUNDS, exact=False, seed=seed)
    return found.dictionary.T.numpy()


def _best_dictionary(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """argmin_D ‖X − ZD‖²: the dictionary that given codes belong to, of least norm."""
    z, x = codes.astype(np.float64), X.astype(np.float64)
    found: np.ndarray = np.linalg.lstsq(z, x, rcond=1e-6)[0]
    return found
