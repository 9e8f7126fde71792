"""`FWNetClassifier`: a network that classifies by its codes, as a scikit-learn estimator."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from fwnet.checks import check_size
from fwnet.coding.chunks import default_chunk_rows, to_tensor
from fwnet.coding.code_transformer import FLOATS, as_array
from fwnet.coding.estimator_files import EstimatorFileMixin
from fwnet.coding.network_estimator import (
    FIRST_P,
    FLOAT32,
    History,
    NetworkEstimator,
    in_precision,
)
from fwnet.coding.structured_codes import structured_codes
from fwnet.data import keyed_generator
from fwnet.functional import check_radius
from fwnet.hardware import choose_device
from fwnet.models import CodeClassifier, FWNet
from fwnet.training import Classification, CodeRegression


@dataclass(eq=False, repr=False)
class FWNetClassifier(
    NetworkEstimator,
    EstimatorFileMixin,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """softmax(W_C z + b), z = f(x): classes from the codes of a Frank-Wolfe network.

    The method of the paper for handwritten digits: every class has atoms of its own, its leading
    singular vectors; the network learns codes that use the atoms of the right class; then network
    and softmax layer are trained together.

    Samples are centered and scaled to a root mean square norm of 1 first; `radius` and
    `adversarial_radius` are in that unit.

    Args:
        n_components: Length of a code, shared evenly among the classes. If there are more classes,
            some have no atom.
        p: Exponent of the norm, a number > 1, or "learn" (starting from 1.5).
        radius: Bound on the norm of a code.
        max_iter: Largest number of passes over the samples, first for codes, then for classes.
        adversarial_radius: Distance of the adversarial neighbors that are trained with, against
            overfitting; 0 trains with the samples only.
        random_state: Seed of the weights, the held-out samples and the order of samples.

    The other parameters are those of `FWNetCoder`.

    Attributes:
        classes_: The classes, sorted.
        p_: Exponent of the network, learned or given.
        network_: The `fwnet.models.CodeClassifier`.
        history_: One record per pass: loss, validation, p, gamma; first for codes, then for
            classes.
        n_iter_: Number of passes.
        n_features_in_: Number of features seen by `fit`.
        feature_names_in_: Their names, if X has names.

    >>> import fwnet
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> model = fwnet.FWNetClassifier(30, num_layers=2, max_iter=5, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    """

    n_components: int = 150
    _: KW_ONLY
    num_layers: int = 3
    radius: float = 8.0
    max_iter: int = 50
    batch_size: int = 50
    weight_decay: float = 1e-4
    adversarial_radius: float = 0.2

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes y of the samples X."""
        self._check_parameters()
        check_size("n_components", self.n_components)
        check_radius(self.radius)
        if not 0 <= self.adversarial_radius < math.inf:
            raise ValueError(
                f"adversarial_radius must be >= 0 and finite, got {self.adversarial_radius!r}"
            )
        X, y = validate_data(self, as_array(X), as_array(y), dtype=FLOATS)
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got one class: {classes[0]!r}")
        seed = self._seed()
        wide = X.astype(np.float64)
        self._mean = wide.mean(0)
        norm = float(np.sqrt(np.square(wide - self._mean).sum(1).mean()))
        self._scale = 1 / norm if norm > 0 else 1.0
        x = self._features(X, FLOAT32, torch.device("cpu"))
        labels = torch.from_numpy(indices.astype(np.int64))
        kept, held = self._split(len(x), seed, labels)
        encoder, history = self._learn_codes(x, labels, kept, held, seed, len(classes))
        generator = keyed_generator(seed, "weights")
        network = CodeClassifier.on(encoder, len(classes), generator=generator)
        task = Classification(
            x[kept],
            labels[kept],
            x[held],
            labels[held],
            adversarial_radius=float(self.adversarial_radius),
        )
        history += self._train(network, task, len(kept), seed, "classes")
        self.classes_, self.network_ = classes, network
        self._note(cast("FWNet", network.encoder), history)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, an array (n_samples, n_classes)."""
        check_is_fitted(self)
        X = validate_data(self, as_array(X), reset=False, dtype=FLOATS)
        device = choose_device(self.device)
        scores_of = in_precision(self.network_, X.dtype, device)
        parts = []
        for rows in gen_batches(len(X), default_chunk_rows(X.shape[1], self.n_components)):
            scores = scores_of(self._features(X[rows], X.dtype, device))
            parts.append(scores.softmax(-1).cpu().numpy())
        return np.concatenate(parts)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every sample."""
        check_is_fitted(self)
        chosen: np.ndarray = self.classes_[self.predict_proba(X).argmax(1)]
        return chosen

    def _features(self, X: np.ndarray, dtype: np.dtype, device: torch.device) -> Tensor:
        return to_tensor((X - self._mean) * self._scale, dtype, device)

    def _learn_codes(
        self, x: Tensor, labels: Tensor, kept: Tensor, held: Tensor, seed: int, count: int
    ) -> tuple[FWNet, History]:
        """Return a network that has learned codes with the atoms of the right class."""
        per_class, more = divmod(int(self.n_components), count)
        widths = [per_class + (label < more) for label in range(count)]
        generator = keyed_generator(seed, "atoms")
        structured = structured_codes(x[kept].double(), labels[kept], widths, generator)
        options = {**self._exponent(FIRST_P), "radius": float(self.radius)}
        network = FWNet.from_dictionary(
            structured.dictionary.float(), int(self.num_layers), **options
        )
        codes, held_codes = (structured.codes(x[rows], labels[rows]) for rows in (kept, held))
        task = CodeRegression(x[kept], codes, x[held], held_codes)
        return network, self._train(network, task, len(kept), seed, "codes")
