"""`FWNetCoder`: a network that codes, as a step of a scikit-learn pipeline."""

import warnings
from collections import Counter
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_array

from fwnet.checks import check_size
from fwnet.coding.chunks import to_tensor
from fwnet.coding.code_transformer import FLOATS, Coder, CodeTransformer, as_array
from fwnet.coding.coder_network import dictionary_from_pairs, network_for_codes
from fwnet.coding.dictionary_learning import LpDictionaryLearning
from fwnet.coding.learned_ball import LEARN, UnidentifiedWarning, check_ball
from fwnet.coding.network_estimator import FIRST_P, FLOAT32, NetworkEstimator, in_precision
from fwnet.models import FWNet
from fwnet.solvers import ksvd
from fwnet.training import CodeRegression

P_BOUNDS = (1.01, 50.0)  # bounds of the initial value of a learned p
KSVD_ROWS, KSVD_ROUNDS, KSVD_ATOMS_PER_NONZERO = 2_000, 5, 10


@dataclass(eq=False, repr=False)
class FWNetCoder(NetworkEstimator, CodeTransformer):
    """z = f(x), T layers that give the codes of  min ½‖x − zD‖²  s.t.  ‖z‖_p ≤ radius.

    `fit(X, codes)` learns to give those codes for X. `fit(X)` first learns a dictionary
    (`LpDictionaryLearning`, starting from K-SVD), then the certified codes for it; the network is
    faster than the solver. A y with one axis is ignored, as are labels in a pipeline; so is a y
    with one column unless n_components is 1.

    The dictionary, its codes and p come from all samples; `validation_fraction` holds samples back
    from the training of the network only.

    Args:
        n_components: Length of a code. Default: that of the given codes, or of the samples.
        num_layers: T.
        p: Exponent of the norm, a number > 1, or "learn". Without codes, a learned p starts from
            the p whose codes predict held-out entries of X best.
        radius: Bound on the norm of a code. Default: with codes, learned from their largest norm;
            without, the root mean square norm of the samples. "learn": without codes, the radius
            whose codes predict held-out entries best, with an `UnidentifiedWarning` if the data do
            not tell it.
        max_iter: Largest number of passes over the samples.
        batch_size: Largest number of samples per step; a pass has at least 20 steps.
        learning_rate: Of Adam, falling to 0 as a cosine.
        weight_decay: Factor of ½‖W‖².
        validation_fraction: Fraction of the samples to hold out. The weights of the pass with the
            smallest error on them are kept. With 0 all samples are used for both.
        n_iter_no_change: Stop after this number of passes without improvement.
        random_state: Seed of the held-out samples and of the order of samples.
        device: Where to compute. "auto" means CUDA if present, else the CPU.
        chunk_rows: Samples that `transform` codes at a time. Default: chosen from the row width.
        verbose: Whether to show a progress bar.

    Attributes:
        components_: The dictionary, (n_components, n_features).
        p_: Exponent of the network, learned or given.
        network_: The `fwnet.FWNet`.
        history_: One record per pass: loss, validation, p, gamma.
        n_iter_: Number of passes.
        n_features_in_: Number of features seen by `fit`.
        feature_names_in_: Their names, if X has names.

    >>> import fwnet, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> coder = fwnet.FWNetCoder(16, p="learn", max_iter=10, random_state=0).fit(X)
    >>> coder.transform(X).shape
    (200, 16)
    """

    n_components: int | None = None
    _: KW_ONLY
    num_layers: int = 4
    radius: float | str | None = None
    max_iter: int = 100
    batch_size: int = 100
    weight_decay: float = 2e-4
    chunk_rows: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn to code X: to give the codes y, (n_samples, n_components), or to solve.

        A y with one axis is ignored.
        """
        self._check_parameters()
        self._check_chunk_rows()
        if self.n_components is not None:
            check_size("n_components", self.n_components)
        if self.radius is not None:
            check_ball(FIRST_P, self.radius)
        X, _ = self._checked_samples(X, reset=True)
        seed = self._seed()
        codes = _given_codes(y, len(X), self.n_components)
        radius: float | None
        if codes is None:
            components, codes, first_p, radius = self._learn_dictionary(X, seed)
        else:
            pairs = torch.from_numpy(np.array(X)), torch.from_numpy(np.array(codes))
            components = dictionary_from_pairs(*pairs).T.numpy()
            first_p = FIRST_P
            radius = None if self.radius is None or self.radius == LEARN else float(self.radius)
        # Codes are learned in a unit in which their norms are about 1, so no unit of X matters.
        norms = np.linalg.norm(codes.astype(np.float64), axis=1)
        self._unit = float(np.sqrt(np.square(norms).mean())) or 1.0
        network = network_for_codes(
            "FWNet",
            torch.tensor(components.T),
            torch.tensor(codes),
            int(self.num_layers),
            radius=None if radius is None else float(radius),
            unit=self._unit,
            **self._exponent(first_p),
        )
        x = to_tensor(X, FLOAT32, torch.device("cpu"))
        z = to_tensor(codes / self._unit, FLOAT32, torch.device("cpu"))
        kept, held = self._split(len(x), seed)
        task = CodeRegression(x[kept], z[kept], x[held], z[held])
        history = self._train(network, task, len(kept), seed, "codes")
        self.components_, self.network_ = components, cast("FWNet", network)
        self._note(self.network_, history)
        return self

    def _learn_dictionary(
        self, X: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return atoms, their certified codes, and the p and the radius of these codes."""
        norm = float(np.sqrt(np.square(X, dtype=np.float64).sum(1).mean()))
        radius = self.radius or norm or 1.0
        learner = LpDictionaryLearning(
            self.n_components,
            self.p,
            radius,
            dictionary=_first_atoms(X, self.n_components or X.shape[1], seed),
            transform_tol=1e-6,
            random_state=seed,
            device=self.device,
        )
        with warnings.catch_warnings():
            if radius != LEARN:  # p is only where the training begins
                warnings.simplefilter("ignore", UnidentifiedWarning)
            codes = learner.fit(X).transform(X)
        low, high = P_BOUNDS
        return learner.components_, codes, min(max(learner.p_, low), high), learner.radius_

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        code_of = in_precision(self.network_, dtype, device)
        return lambda x: self._unit * code_of(x), Counter()


def _given_codes(y: Any, num_samples: int, num_components: int | None) -> np.ndarray | None:
    """Return y if it holds codes, and None for labels, which have one axis or one column."""
    y = as_array(y)
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
    """Return atoms for sparse codes of some of the samples, by K-SVD, (num_atoms, n_features)."""
    rows = np.random.default_rng(seed).permutation(len(X))[:KSVD_ROWS]
    x = torch.from_numpy(np.asarray(X[rows], np.float64))
    most = max(1, min(x.shape[1], num_atoms) // KSVD_ATOMS_PER_NONZERO)
    found = ksvd(x, num_atoms, most, num_rounds=KSVD_ROUNDS, exact=False, seed=seed)
    return found.dictionary.T.numpy()
