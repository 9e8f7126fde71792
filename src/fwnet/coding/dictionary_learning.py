"""`LpDictionaryLearning`: learn a dictionary for signals whose codes lie in an Lp ball."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor
from torch.nn.functional import normalize

from fwnet.checks import check_integer, check_size, check_tolerance
from fwnet.coding.chunks import to_tensor
from fwnet.coding.code_transformer import Coder, CodeTransformer, certified_coder
from fwnet.coding.exponent_search import LARGEST_SAMPLE, MOST_TRIALS, search_exponent
from fwnet.coding.learned_ball import LEARN, LEARNED, check_ball, note_learned_ball
from fwnet.sets import LpBall, NonnegativeLpBall
from fwnet.solvers.alternation import Alternation, Ball, alternate, online_step
from fwnet.solvers.atoms import initial_atoms

BATCH_SIZE = 512
CODE_TOL, CODE_TOL_IN_BATCHES = 1e-4, 1e-2
MOST_ROWS_AT_ONCE = 4_096  # above this, batch_size="auto" learns in batches


@dataclass(frozen=True)
class LearningProgress:
    """The state of the learning, after every pass over all samples or after every batch.

    Attributes:
        step: Number of passes, or batches, that are done.
        num_steps: Largest number of them; the learning stops earlier if the error stops falling.
        error: The newest of `reconstruction_err_`; while p is learned, the held-out error.
        seconds: Time since the start.
        p: The exponent in use; while p is learned, the one on trial.

    >>> import fwnet, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> errors = []
    >>> model = fwnet.LpDictionaryLearning(16, radius=2.0, max_iter=5, tol=0, random_state=0)
    >>> _ = model.fit(X, callback=lambda now: errors.append(now.error))
    >>> errors == sorted(errors, reverse=True)
    True
    """

    step: int
    num_steps: int
    error: float
    seconds: float
    p: float


Callback = Callable[[LearningProgress], bool | None]
Report = Callable[[int, int, float, float], bool]


@dataclass(eq=False, repr=False)
class LpDictionaryLearning(CodeTransformer):
    """min_{D, Z} ½‖X − ZD‖²  s.t.  ‖z_i‖_p ≤ radius,  ‖d_j‖₂ = 1.

    Codes (by `fwnet.solve`) and atoms are improved in turn. With all samples at once the error
    never rises; in batches, earlier ones count less and less.

    Arrays and tensors are accepted and returned as by `LpCoder`.

    Args:
        n_components: Number of atoms. Default: the number of features.
        p: Exponent of the norm in [1, ∞], or "learn": the one whose codes predict held-out entries
            best. (The reconstruction error cannot choose p: it never grows with p.)
        radius: Bound on the norm of a code, > 0, or "learn": found in the same way, for every p
            that is tried. An `UnidentifiedWarning` says if the data do not tell them.
        nonnegative: Whether atoms and codes have no negative entries: parts that add up, as in
            scikit-learn's NMF, with a bound on the codes. X must have none either. p and radius
            must be numbers.
        max_iter: Largest number of passes over the samples.
        tol: Stop when a pass lowers the error by less than this fraction.
        batch_size: Samples at a time, None for all. "auto" takes all of at most 4,096 samples at
            once, and more in batches of 512.
        code_tol: Tolerance of codes while learning, relative to ½‖x‖². Default: 1e-2 in batches,
            1e-4 with all samples at once.
        dictionary: Atoms to start from, (n_components, n_features), scaled to norm 1. Default:
            samples drawn at random.
        warm_start: Whether `fit` continues from the atoms of the last fit.
        transform_tol: Tolerance of the certificate of codes in `transform`; see `fwnet.solve`.
        random_state: Seed of the first atoms and of the order of samples.
        device: Where to compute; see `LpCoder`.
        chunk_rows: Samples that `transform` codes at a time. Default: chosen from the row width.

    Attributes:
        components_: The dictionary, (n_components, n_features), rows of norm 1.
        p_: The exponent, given or learned.
        radius_: The radius, given or learned.
        p_path_: With p or radius "learn", the exponents that were tried, rising.
        held_out_error_: Their mean squared errors on held-out entries, each with its best radius.
        p_interval_: The p that the data allow, lowest and highest; see `LearnedBall`. It does not
            include how far the dictionary is from the true one.
        radius_interval_: The same for the radius.
        doubts_: Reasons, in words, why p or radius may not be identified.
        reconstruction_err_: ½‖x − zD‖², the mean over samples, after every pass; in batches, of
            every batch before the dictionary was fitted to it.
        n_iter_: Number of passes.
        n_steps_: Number of passes, or of batches.
        n_features_in_: Number of features seen by `fit`.
        feature_names_in_: Their names, if X has names.

    >>> import fwnet, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 8))
    >>> model = fwnet.LpDictionaryLearning(16, p=1.5, radius=2.0, random_state=0)
    >>> model.fit_transform(X).shape
    (200, 16)
    """

    n_components: int | None = None
    p: float | str = 1.5
    radius: float | str = 5.0
    _: KW_ONLY
    nonnegative: bool = False
    max_iter: int = 100
    tol: float = 1e-3
    batch_size: int | str | None = "auto"
    code_tol: float | None = None
    dictionary: Any = None
    warm_start: bool = False
    transform_tol: float | None = None
    random_state: Any = None
    device: str = "auto"
    chunk_rows: int | None = None

    def fit(self, X: Any, y: Any = None, *, callback: Callback | None = None) -> Self:
        """Learn the dictionary, and p and radius if asked to. y is ignored.

        callback: Called with a `LearningProgress`; returning True ends the learning.
        """
        fitted = hasattr(self, "components_")
        X, device = self._checked_samples(X, reset=True)
        self._check_parameters(X)
        report = _reporter(callback)
        generator = self._generator()
        before = self.components_ if fitted and self.warm_start else self.dictionary
        atoms = self._first_atoms(before, X, generator, device)
        self._choose_ball(X, atoms, generator, report)
        self.reconstruction_err_: list[float] = []
        sizes = [len(rows) for rows in torch.arange(len(X)).split(self._batch_rows(len(X)))]
        if len(sizes) == 1 and self.batch_size in (None, "auto"):
            x = to_tensor(X, X.dtype, device)
            states = alternate(x, atoms, self._ball(), self.code_tol or CODE_TOL)
        else:
            states = self._learn_in_batches(X, atoms, generator)
        num_steps = self.max_iter * len(sizes)
        before = math.inf
        for state in islice(states, num_steps):
            self._keep(state)
            self.n_iter_: int = math.ceil(state.num_steps / len(sizes))
            if report(state.num_steps, num_steps, state.error, self.p_):
                break
            if state.num_steps % len(sizes) == 0:  # the end of a pass
                error = np.average(self.reconstruction_err_[-len(sizes) :], weights=sizes)
                if before - error <= self.tol * error:
                    break
                before = error
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch; the first one also decides a learned ball. y is ignored."""
        first = not hasattr(self, "components_")
        X, device = self._checked_samples(X, reset=first)
        self._check_parameters(X)
        if first:
            generator = self._generator()
            atoms = self._first_atoms(self.dictionary, X, generator, device)
            self._choose_ball(X, atoms, generator, _reporter(None))
            self.n_iter_, self.reconstruction_err_ = 0, []
            state = Alternation.begin(atoms)
        else:
            atoms, codes_gram, codes_signals = (
                to_tensor(value, X.dtype, device)
                for value in (self.components_, self._codes_gram, self._codes_signals)
            )
            state = Alternation(atoms, codes_gram, codes_signals, self.n_steps_)
        self.n_iter_ += 1
        code_tol = self.code_tol or CODE_TOL_IN_BATCHES
        self._keep(online_step(state, to_tensor(X, X.dtype, device), self._ball(), code_tol))
        return self

    def _batch_rows(self, num_rows: int) -> int:
        if self.batch_size == "auto" and num_rows > MOST_ROWS_AT_ONCE:
            return BATCH_SIZE
        return num_rows if self.batch_size in (None, "auto") else int(self.batch_size)

    def _learn_in_batches(
        self, X: np.ndarray, atoms: Tensor, generator: torch.Generator
    ) -> Iterator[Alternation]:
        """Yield the dictionary after every batch, without end."""
        state = Alternation.begin(atoms)
        code_tol = self.code_tol or CODE_TOL_IN_BATCHES
        while True:
            order = torch.randperm(len(X), generator=generator)
            for index in order.split(self._batch_rows(len(X))):
                batch = to_tensor(X[index.numpy()], X.dtype, atoms.device)
                state = online_step(state, batch, self._ball(), code_tol)
                yield state

    def _choose_ball(
        self, X: np.ndarray, atoms: Tensor, generator: torch.Generator, report: Report
    ) -> None:
        for name in ("p_path_", "held_out_error_", *LEARNED):
            self.__dict__.pop(name, None)
        p, radius = (None if one == LEARN else float(one) for one in (self.p, self.radius))
        if p is not None and radius is not None:
            self.p_, self.radius_ = p, radius
            return
        trials = iter(range(1, MOST_TRIALS + 1))
        num_trials = MOST_TRIALS if p is None else 1
        sample = torch.randperm(len(X), generator=generator)[:LARGEST_SAMPLE].numpy()
        learned, errors = search_exponent(
            to_tensor(X[sample], X.dtype, atoms.device),
            len(atoms),
            p,
            radius,
            self.code_tol or CODE_TOL,
            generator,
            lambda p, error: report(next(trials), num_trials, error, p),
        )
        self.p_path_, self.held_out_error_ = list(errors), list(errors.values())
        note_learned_ball(self, learned)

    def _keep(self, state: Alternation) -> None:
        self.reconstruction_err_.append(state.error)
        self.n_steps_ = state.num_steps
        self.components_, self._codes_gram, self._codes_signals = (
            value.cpu().numpy() for value in (state.atoms, state.codes_gram, state.codes_signals)
        )

    def _first_atoms(
        self, given: Any, X: np.ndarray, generator: torch.Generator, device: torch.device
    ) -> Tensor:
        num_components = self.n_components or X.shape[1]
        if given is None:
            sample = torch.randperm(len(X), generator=generator)[: 2 * num_components].numpy()
            drawn = initial_atoms(to_tensor(X[sample], X.dtype, device), num_components, generator)
            return drawn.abs() if self.nonnegative else drawn  # those beyond the samples are random
        atoms = self._checked_dictionary(given, X.shape[1])
        if self.n_components is not None and len(atoms) != num_components:
            raise ValueError(
                f"dictionary must have n_components = {num_components} rows, got {len(atoms)}"
            )
        if self.nonnegative and atoms.min() < 0:
            raise ValueError(f"dictionary must be >= 0 with nonnegative=True, got {atoms.min()}")
        if not atoms.any(axis=1).all():
            raise ValueError("dictionary must have no atom that is 0")
        return normalize(to_tensor(atoms, X.dtype, device), dim=-1)

    def _coder(self, dtype: np.dtype, device: torch.device) -> Coder:
        return certified_coder(self.components_, self._ball(), self.transform_tol, dtype, device)

    def _ball(self) -> Ball:
        return (NonnegativeLpBall if self.nonnegative else LpBall)(self.p_, self.radius_)

    def _generator(self) -> torch.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return torch.Generator().manual_seed(int(seed))

    def _check_parameters(self, X: np.ndarray) -> None:
        check_ball(self.p, self.radius)
        if self.nonnegative and LEARN in (self.p, self.radius):
            raise ValueError(
                "p and radius must be numbers with nonnegative=True, "
                f"got p={self.p!r} and radius={self.radius!r}"
            )
        if self.nonnegative and X.min() < 0:
            raise ValueError(f"X must be >= 0 with nonnegative=True, got {X.min()}")
        check_integer("max_iter", self.max_iter)
        if self.n_components is not None:
            check_size("n_components", self.n_components)
        if self.batch_size not in (None, "auto"):
            check_integer("batch_size", self.batch_size)
        if not self.tol >= 0:
            raise ValueError(f"tol must be >= 0, got {self.tol!r}")
        check_tolerance("code_tol", self.code_tol)
        check_tolerance("transform_tol", self.transform_tol)
        self._check_chunk_rows()


def _reporter(callback: Callback | None) -> Report:
    """Return a function that calls the callback and returns whether it has asked to stop."""
    start, stopped = time.monotonic(), False

    def report(step: int, num_steps: int, error: float, p: float) -> bool:
        nonlocal stopped
        if callback is not None and not stopped:
            seconds = time.monotonic() - start
            stopped = bool(callback(LearningProgress(step, num_steps, error, seconds, p)))
        return stopped

    return report
