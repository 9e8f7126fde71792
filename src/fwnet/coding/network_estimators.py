"""`FWNetCoder` and `FWNetClassifier`: Frank-Wolfe networks as scikit-learn estimators."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from fwnet.coding.chunks import chunk_slices, default_chunk_rows, named_device, to_tensor
from fwnet.coding.code_transformer import FLOATS, Coder, CodeTransformer
from fwnet.coding.dictionary_learning import LpDictionaryLearning
from fwnet.coding.estimator_files import EstimatorFileMixin
from fwnet.coding.structured_codes import structured_codes
from fwnet.data import keyed_generator
from fwnet.functional import lp_norm
from fwnet.models import CodeClassifier, FWNet, Model
from fwnet.solvers import ksvd
from fwnet.training import (
    Classification,
    CodeRegression,
    Task,
    TrainingConfig,
    TrainingProgress,
    train,
)

__all__ = ["FWNetClassifier", "FWNetCoder"]

LEARN = "learn"
CODER_P_BOUNDS = (1.01, 50.0)  # where a network learns; the p of a problem may be 1 or infinite
FIRST_P = 1.5  # where a learned p starts that nothing else is known of
FLOAT32 = np.dtype(np.float32)
FEWEST_BATCHES = 20  # that a pass consists of
KSVD_ROWS, KSVD_ROUNDS, KSVD_ATOMS_A_NONZERO = 2_000, 5, 10


class _NetworkEstimator:
    """What the two have in common: how networks are trained, and rows held back."""

    num_layers: int
    p: Any
    max_iter: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    validation_fraction: float
    n_iter_no_change: int
    random_state: Any
    device: str
    verbose: bool
    history_: list[dict[str, Any]]
    p_: float
    n_iter_: int

    def _check_parameters(self) -> None:
        for name in ("num_layers", "max_iter", "batch_size", "n_iter_no_change"):
            _check_integer(name, getattr(self, name))
        for name in ("learning_rate", "weight_decay", "validation_fraction"):
            if not isinstance(getattr(self, name), Real):
                raise ValueError(f"{name} must be a number, got {getattr(self, name)!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be in [0, 1), got {self.validation_fraction!r}"
            )
        if self.p != LEARN and not (isinstance(self.p, Real) and 1 < float(self.p) < math.inf):
            raise ValueError(
                f"p must be > 1 and finite, or {LEARN!r}, got {self.p!r}: at 1 and infinity no "
                "weight of the network gets a gradient"
            )
        named_device(self.device)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _learned_exponent(self, network: FWNet) -> float:
        """p as it was given, or as it was learned."""
        if self.p != LEARN or network.p is None:
            return float(self.p)
        return network.p.item()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def _exponent(self, start: float) -> dict[str, Any]:
        """The arguments of a network that say what p is."""
        if self.p == LEARN:
            return {"p": start, "learn_p": True}
        return {"p": float(self.p), "learn_p": False}

    def _config(self, num_rows: int, seed: int) -> TrainingConfig:
        return TrainingConfig(
            num_epochs=int(self.max_iter),
            # Small sets would otherwise be learned in a handful of steps.
            batch_size=max(1, min(int(self.batch_size), num_rows // FEWEST_BATCHES)),
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            clip_norm=1.0,
            seed=seed,
        )

    def _train(self, network: Model, task: Task, config: TrainingConfig, what: str) -> None:
        with _bar(what, self.verbose) as progress:
            result = train(
                network,
                task,
                config,
                device=named_device(self.device),
                keep_best=True,
                patience=self.n_iter_no_change,
                progress=progress,
            )
        network.cpu()
        self.history_ += [{"training": what, **record} for record in result.history]


class FWNetCoder(_NetworkEstimator, CodeTransformer):
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
            _check_integer("n_components", self.n_components)
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
        kept, held = _split(len(x), self.validation_fraction, seed)
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
        low, high = CODER_P_BOUNDS
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
        code_of = _in_precision(self.network_, dtype, device)
        return lambda x: self._unit * code_of(x), Counter()


class FWNetClassifier(
    _NetworkEstimator,
    EstimatorFileMixin,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """softmax(W_C z + b), z = f(x): classes from the codes of a Frank-Wolfe network.

    As the paper does for handwritten digits: every class gets atoms of its own, its leading
    singular vectors; the network learns codes that use the atoms of the right class; then codes and
    softmax layer are trained together.

    Samples are centered and scaled to a root mean square norm of 1 first; `radius` and
    `adversarial_radius` are in that unit.

    Args:
        n_components: The length of a code, shared evenly among the classes; if they are fewer than
            the classes, some have no atom.
        num_layers: T.
        p: The exponent of the norm, a number > 1, or "learn" (from 1.5).
        radius: The bound on the norm of a code.
        max_iter: How many passes over the samples at most, first for codes, then for classes.
        batch_size: How many samples make a step at most; a pass has at least 20 steps.
        learning_rate: Of Adam, falling to 0 as a cosine.
        weight_decay: The factor of ½‖W‖².
        adversarial_radius: How far neighbors are that are to be classified like the samples, the
            worst ones to first order; 0 looks at the samples alone. It keeps networks from learning
            their samples by heart.
        validation_fraction: The part of the samples held back: the weights of the pass that does
            best on them are kept. With 0, of the pass that does best on all.
        n_iter_no_change: End early when that did not improve for so many passes.
        random_state: What weights, held-back samples and their order depend on.
        device: Where to compute: "auto" is a CUDA device where there is one.
        verbose: Whether to show a progress bar.

    Attributes:
        classes_: The classes, sorted.
        p_: The exponent of the network, learned or given.
        network_: The `fwnet.models.CodeClassifier`.
        history_: One record a pass: loss, validation, p, gamma; first for codes, then for classes.
        n_iter_: The number of passes.
        n_features_in_: The number of features seen by `fit`.
        feature_names_in_: Their names, where X had names.
    """

    network_: CodeClassifier
    _mean: np.ndarray
    _scale: float

    def __init__(
        self,
        n_components: int = 150,
        *,
        num_layers: int = 3,
        p: float | str = LEARN,
        radius: float = 8.0,
        max_iter: int = 50,
        batch_size: int = 50,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        adversarial_radius: float = 0.2,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        random_state: Any = None,
        device: str = "auto",
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
        self.adversarial_radius = adversarial_radius
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn to tell the classes y of the samples X."""
        self._check_parameters()
        _check_integer("n_components", self.n_components)
        if not 0 < self.radius < math.inf:
            raise ValueError(f"radius must be > 0 and finite, got {self.radius!r}")
        if not 0 <= self.adversarial_radius < math.inf:
            raise ValueError(
                f"adversarial_radius must be >= 0 and finite, got {self.adversarial_radius!r}"
            )
        X, y = validate_data(self, *_as_arrays(X, y), dtype=FLOATS)
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
        kept, held = _split(len(x), self.validation_fraction, seed, labels)
        self.history_ = []
        encoder = self._learned_codes(x, labels, kept, held, seed, len(classes))
        generator = keyed_generator(seed, "weights")
        network = CodeClassifier.on(encoder, len(classes), generator=generator)
        task = Classification(
            x[kept],
            labels[kept],
            x[held],
            labels[held],
            adversarial_radius=float(self.adversarial_radius),
        )
        self._train(network, task, self._config(len(kept), seed), "classes")
        self.classes_, self.network_ = classes, network
        self.n_iter_ = len(self.history_)
        assert isinstance(network.encoder, FWNet)
        self.p_ = self._learned_exponent(network.encoder)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, (n_samples, n_classes), of NumPy's kind."""
        check_is_fitted(self)
        X, _ = _as_arrays(X, None)
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        device = named_device(self.device)
        scores_of = _in_precision(self.network_, X.dtype, device)
        rows = default_chunk_rows(X.shape[1], self.n_components)
        parts = []
        for chunk in chunk_slices(len(X), rows):
            scores = scores_of(self._features(X[chunk], X.dtype, device))
            parts.append(scores.softmax(-1).cpu().numpy())
        return np.concatenate(parts)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every sample."""
        check_is_fitted(self)
        chosen: np.ndarray = self.classes_[self.predict_proba(X).argmax(1)]
        return chosen

    def _features(self, X: np.ndarray, dtype: np.dtype, device: torch.device) -> Tensor:
        return to_tensor((X - self._mean) * self._scale, dtype, device)

    def _learned_codes(
        self, x: Tensor, labels: Tensor, kept: Tensor, held: Tensor, seed: int, count: int
    ) -> FWNet:
        """A network that has learned codes with the atoms of the right class."""
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
        self._train(network, task, self._config(len(kept), seed), "codes")
        return network


def _check_integer(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def _given_codes(y: Any, num_samples: int, num_components: int | None) -> np.ndarray | None:
    """Codes that were given: what has two axes; labels have one, or one column."""
    y, _ = _as_arrays(y, None)
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


def _split(
    count: int, fraction: float, seed: int, labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Rows to train with, and rows held back; of every class its share, where there are classes."""
    order = torch.randperm(count, generator=keyed_generator(seed, "validation"))
    parts = [order] if labels is None else [order[labels[order] == k] for k in labels.unique()]
    # One of every class at least is learned from.
    counts = [min(round(fraction * len(part)), len(part) - 1) for part in parts]
    held = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
    if not len(held):  # too few samples to hold some back: those trained with are looked at
        return order, order
    return torch.cat([part[count:] for part, count in zip(parts, counts, strict=True)]), held


def _as_arrays(X: Any, y: Any) -> tuple[Any, Any]:
    """Tensors as the arrays that scikit-learn understands."""

    def as_array(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        part = part.detach().cpu()
        return (part.float() if part.dtype in (torch.bfloat16, torch.float16) else part).numpy()

    return as_array(X), as_array(y)


def _in_precision(network: Model, dtype: np.dtype, device: torch.device) -> Any:
    """The network as a function of tensors of this dtype, on a device."""
    kind = torch.float64 if dtype == np.float64 else torch.float32
    with torch.no_grad():
        moved = copy.deepcopy(network).to(device, kind).eval()

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            outputs: Tensor = moved(x)
        return outputs

    return run


@contextmanager
def _bar(what: str, shown: bool) -> Iterator[Any]:
    """A progress bar that says where the training stands, or nothing."""
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns) as bars:
        bar = bars.add_task(what, total=None)

        def tell(progress: TrainingProgress) -> None:
            words = f"{what}: pass {progress.epoch}/{progress.num_epochs}, loss {progress.loss:.4g}"
            if progress.validation is not None:
                words += f", held back {progress.validation:.4g}"
            p = progress.watched.get("p")
            if isinstance(p, float):
                words += f", p {p:.3f}"
            bars.update(bar, total=progress.num_steps, completed=progress.step, description=words)

        yield tell
