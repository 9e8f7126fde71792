"""`LpDictionaryLearning`: a dictionary for signals, with codes in an Lp ball, and p if need be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.coding.chunks import to_tensor
from fwnet.coding.code_transformer import Coder, CodeTransformer, device_for, numpy_dtype
from fwnet.coding.exponent_search import LARGEST_SAMPLE, ExponentSearch, search_exponent
from fwnet.coding.lp_coder import certified_coder
from fwnet.functional import value_of
from fwnet.sets import LpBall
from fwnet.solvers.alternation import Alternation, alternate, online_step
from fwnet.solvers.atoms import initial_atoms

__all__ = ["LearningProgress", "LpDictionaryLearning"]

BATCH_SIZE = 512
CODE_TOL, CODE_TOL_IN_BATCHES = 1e-4, 1e-2
MOST_ROWS_AT_ONCE = 4_096  # of which "auto" takes all at once


@dataclass(frozen=True)
class LearningProgress:
    """What a callback hears: after every pass over all samples, or after every batch.

    Attributes:
        step: How many passes, or batches, are done.
        num_steps: How many there are at most; fewer if the error stops falling.
        error: The newest of `reconstruction_err_`; for a p on trial, its held-out error.
        seconds: Since the beginning.
        p: The exponent at work; while p is learned, the one on trial.
    """

    step: int
    num_steps: int
    error: float
    seconds: float
    p: float


Callback = Callable[[LearningProgress], bool | None]


class LpDictionaryLearning(CodeTransformer):
    """min_{D, Z} ½‖X − ZD‖²  s.t.  ‖z_i‖_p ≤ radius,  ‖d_j‖₂ = 1.

    Codes by `fwnet.solve` and atoms, each the best for the others, take turns. With all samples at
    once the error never rises; in batches, what was learned from earlier ones fades.

    Arrays and tensors are taken and given as by `LpCoder`.

    Args:
        n_components: The number of atoms; by default that of the features.
        p: The exponent of the norm in [1, ∞], or "learn": the one whose codes predict held-out
            entries best. Reconstruction alone could not tell, as a larger p never loses.
        radius: The bound on the norm of a code, > 0.
        max_iter: How many passes over the samples at most.
        tol: Stop when a pass lowers the error by less than this part of it.
        batch_size: How many samples at a time, None for all. "auto" takes all of at most 4,096
            samples, and batches of 512 of more.
        code_tol: The tolerance of codes while learning, relative to ½‖x‖². By default 1e-2 in
            batches, of which each moves the atoms a little, and 1e-4 with all samples at once.
        dictionary: Atoms to begin with, (n_components, n_features), brought to norm 1; by default
            samples drawn at random.
        warm_start: Whether `fit` goes on from the atoms of the last fit.
        transform_tol: The tolerance of the certificate of codes in `transform`; see `fwnet.solve`.
        random_state: What draws the first atoms and the order of samples.
        device: Where to compute: "auto" is a CUDA device where there is one, and for a tensor the
            device it is on. Otherwise a name such as "cpu" or "cuda".
        chunk_rows: How many samples `transform` codes at a time.

    Attributes:
        components_: The dictionary, (n_components, n_features), rows of norm 1.
        p_: The exponent: p, or what was learned for it.
        p_path_: With p="learn", the exponents that were tried, rising.
        held_out_error_: Their mean squared errors on entries that were held out.
        reconstruction_err_: ½‖x − zD‖², the mean over samples, after every pass; in batches, of
            every batch before the dictionary had seen it.
        n_iter_: The number of passes.
        n_steps_: The number of passes, or of batches.
        n_features_in_: The number of features seen by `fit`.
        feature_names_in_: Their names, where X had names.

    >>> import fwnet, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> model = fwnet.LpDictionaryLearning(16, p=1.5, radius=2.0, random_state=0)
    >>> model.fit_transform(X).shape
    (200, 16)
    """

    def __init__(
        self,
        n_components: int | None = None,
        p: float | str = 1.5,
        radius: float = 5.0,
        *,
        max_iter: int = 100,
        tol: float = 1e-3,
        batch_size: int | str | None = "auto",
        code_tol: float | None = None,
        dictionary: Any = None,
        warm_start: bool = False,
        transform_tol: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.p = p
        self.radius = radius
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.code_tol = code_tol
        self.dictionary = dictionary
        self.warm_start = warm_start
        self.transform_tol = transform_tol
        self.random_state = random_state
        self.device = device
        self.chunk_rows = chunk_rows

    def fit(self, X: Any, y: Any = None, *, callback: Callback | None = None) -> Self:
        """Learn the dictionary, and p if asked to. y is ignored.

        callback: Called with a `LearningProgress`; returning True ends the learning.
        """
        fitted = hasattr(self, "components_")
        X = self._checked_samples(X, reset=True)
        self._check_parameters()
        rows = _Rows(X, device_for(self.device, X))
        told = _Told(callback)
        generator = self._generator()
        before = self.components_ if fitted and self.warm_start else self.dictionary
        atoms = self._first_atoms(before, rows, generator)
        self._search_exponent(rows, len(atoms), generator, told)
        self.reconstruction_err_: list[float] = []
        batch_size = self._batch_size(len(rows))
        if batch_size is None:
            self._fit_at_once(rows.all(), atoms, told)
        else:
            self._fit_in_batches(rows, batch_size, atoms, told, generator)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch, from the first also p if asked to. y is ignored."""
        first = not hasattr(self, "components_")
        X = self._checked_samples(X, reset=first)
        self._check_parameters()
        rows = _Rows(X, device_for(self.device, X))
        if first:
            generator = self._generator()
            atoms = self._first_atoms(self.dictionary, rows, generator)
            self._search_exponent(rows, len(atoms), generator, _Told(None))
            self.n_iter_, self.reconstruction_err_ = 0, []
            state = Alternation.begin(atoms)
        else:
            atoms, codes_gram, codes_signals = (
                to_tensor(value, rows.dtype, rows.device)
                for value in (self.components_, self._codes_gram, self._codes_signals)
            )
            state = Alternation(atoms, codes_gram, codes_signals, self.n_steps_)
        self.n_iter_ += 1
        self._keep(
            online_step(state, rows.all(), self._ball(), self._code_tol(CODE_TOL_IN_BATCHES))
        )
        return self

    def _fit_at_once(self, x: Tensor, atoms: Tensor, told: _Told) -> None:
        rounds = alternate(x, atoms, self._ball(), self._code_tol(CODE_TOL))
        before = math.inf
        for state in islice(rounds, self.max_iter):
            self._keep(state)
            self.n_iter_ = state.num_steps
            stop = told(state.num_steps, self.max_iter, state.error, self.p_)
            if stop or before - state.error <= self.tol * state.error:
                break
            before = state.error

    def _fit_in_batches(
        self,
        rows: _Rows,
        batch_size: int,
        atoms: Tensor,
        told: _Told,
        generator: torch.Generator,
    ) -> None:
        state = Alternation.begin(atoms)
        code_tol = self._code_tol(CODE_TOL_IN_BATCHES)
        num_batches = math.ceil(len(rows) / batch_size)
        before = math.inf
        for n_iter in range(1, self.max_iter + 1):
            self.n_iter_ = n_iter
            total = 0.0
            for index in torch.randperm(len(rows), generator=generator).split(batch_size):
                state = online_step(state, rows[index], self._ball(), code_tol)
                self._keep(state)
                total += state.error * len(index)
                if told(state.num_steps, self.max_iter * num_batches, state.error, self.p_):
                    return
            error = total / len(rows)
            if before - error <= self.tol * error:
                break
            before = error

    def _search_exponent(
        self, rows: _Rows, num_atoms: int, generator: torch.Generator, told: _Told
    ) -> None:
        for name in ("p_path_", "held_out_error_"):
            self.__dict__.pop(name, None)
        if not isinstance(self.p, str):
            self.p_ = value_of(self.p)
            return
        chosen = torch.randperm(len(rows), generator=generator)[:LARGEST_SAMPLE]
        count = 0

        def on_trial(p: float, error: float) -> bool:
            nonlocal count
            count += 1
            return told(count, ExponentSearch.most_trials, error, p)

        found = search_exponent(
            rows[chosen],
            num_atoms,
            value_of(self.radius),
            self._code_tol(CODE_TOL),
            generator,
            on_trial,
        )
        self.p_, self.p_path_, self.held_out_error_ = found.best, found.exponents, found.held_out

    def _keep(self, state: Alternation) -> None:
        self.reconstruction_err_.append(state.error)
        self.n_steps_ = state.num_steps
        self.components_, self._codes_gram, self._codes_signals = (
            value.cpu().numpy() for value in (state.atoms, state.codes_gram, state.codes_signals)
        )

    def _first_atoms(self, given: Any, rows: _Rows, generator: torch.Generator) -> Tensor:
        num_components = self.n_components or rows.num_features
        if given is None:
            sample = torch.randperm(len(rows), generator=generator)[: 2 * num_components]
            return initial_atoms(rows[sample], num_components, generator)
        atoms = self._checked_dictionary(given, rows.num_features)
        if self.n_components is not None and len(atoms) != num_components:
            raise ValueError(
                f"dictionary must have n_components = {num_components} rows, got {len(atoms)}"
            )
        tensor = to_tensor(atoms, rows.dtype, rows.device)
        if not (tensor != 0).any(-1).all():
            raise ValueError("dictionary must have no atom that is 0")
        return normalize(tensor, dim=-1)

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        return certified_coder(self.components_, self._ball(), self.transform_tol, dtype, device)

    def _ball(self) -> LpBall:
        return LpBall(self.p_, value_of(self.radius))

    def _code_tol(self, default: float) -> float:
        return default if self.code_tol is None else self.code_tol

    def _batch_size(self, num_rows: int) -> int | None:
        if self.batch_size == "auto":
            return None if num_rows <= MOST_ROWS_AT_ONCE else BATCH_SIZE
        assert not isinstance(self.batch_size, str)
        return self.batch_size

    def _generator(self) -> torch.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return torch.Generator().manual_seed(int(seed))

    def _check_parameters(self) -> None:
        if not isinstance(self.p, str):
            LpBall(value_of(self.p), value_of(self.radius))
        elif self.p != "learn":
            raise ValueError(f"p must be in [1, inf] or 'learn', got {self.p!r}")
        LpBall(1.0, value_of(self.radius))
        _check_count("max_iter", self.max_iter)
        if self.n_components is not None:
            _check_count("n_components", self.n_components)
        if self.batch_size is not None and self.batch_size != "auto":
            _check_count("batch_size", self.batch_size)
        if not self.tol >= 0:
            raise ValueError(f"tol must be >= 0, got {self.tol!r}")
        if self.code_tol is not None and not 0 < self.code_tol < 1:
            raise ValueError(f"code_tol must be in (0, 1), got {self.code_tol!r}")
        if self.transform_tol is not None and not 0 < self.transform_tol < 1:
            raise ValueError(f"transform_tol must be in (0, 1), got {self.transform_tol!r}")
        self._check_chunk_rows()


def _check_count(name: str, value: Any) -> None:
    if not (isinstance(value, Integral) and value >= 1):  # type: ignore[operator]
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


class _Rows:
    """Samples of an array or a tensor, on the device where they are needed."""

    def __init__(self, X: Any, device: torch.device) -> None:
        self.X, self.device, self.dtype = X, device, numpy_dtype(X)
        self.num_features = X.shape[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, index: Tensor) -> Tensor:
        if isinstance(self.X, Tensor):
            return self.X[index.to(self.X.device)].to(self.device)
        return to_tensor(self.X[index.numpy()], self.dtype, self.device)

    def all(self) -> Tensor:
        return self[torch.arange(len(self))]


class _Told:
    """A callback with its clock; it may be nobody. Once it said stop, that holds."""

    def __init__(self, callback: Callback | None) -> None:
        self.callback, self.start, self.stopped = callback, time.monotonic(), False

    def __call__(self, step: int, num_steps: int, error: float, p: float) -> bool:
        if self.callback is not None and not self.stopped:
            seconds = time.monotonic() - self.start
            progress = LearningProgress(step, num_steps, error, seconds, p)
            self.stopped = bool(self.callback(progress))
        return self.stopped
