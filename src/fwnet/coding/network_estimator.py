"""The base of estimators that train a network: shared parameters, training and precision."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from fwnet.checks import check_integer, check_num_layers
from fwnet.coding.chunks import TORCH_DTYPES
from fwnet.coding.coder_network import split_rows
from fwnet.coding.learned_ball import LEARN
from fwnet.hardware import choose_device
from fwnet.models import FWNet, Model
from fwnet.progress import progress_bar
from fwnet.training import Task, TrainingConfig, TrainingRun, train

FIRST_P = 1.5  # where a learned p starts if nothing else is known
FLOAT32 = np.dtype(np.float32)
FEWEST_BATCHES = 20  # per pass over the samples

History = list[dict[str, Any]]


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkEstimator:
    """The shared parameters and their checks, rows to hold out, and the training of a network."""

    num_layers: int
    p: Any = LEARN  # or a number > 1
    max_iter: int
    batch_size: int
    learning_rate: float = 3e-3
    weight_decay: float
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    random_state: Any = None
    device: str = "auto"
    verbose: bool = False

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def _check_parameters(self) -> None:
        check_num_layers(self.num_layers)
        for name in ("max_iter", "batch_size", "n_iter_no_change"):
            check_integer(name, getattr(self, name))
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
        choose_device(self.device)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _split(self, count: int, seed: int, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return rows to train with and rows to validate with; all rows if there are too few."""
        kept, held = split_rows(count, self.validation_fraction, seed, labels)
        return kept, held if len(held) else kept

    def _exponent(self, start: float) -> dict[str, Any]:
        """Return the arguments of a network that define p."""
        if self.p == LEARN:
            return {"p": start, "learn_p": True}
        return {"p": float(self.p), "learn_p": False}

    def _note(self, network: FWNet, history: History) -> None:
        """Set what all trained estimators tell: the history, its length, and p."""
        self.history_, self.n_iter_ = history, len(history)
        assert network.p is not None  # None only with ReLU
        self.p_ = network.p.item() if self.p == LEARN else float(self.p)

    def _train(self, network: Model, task: Task, num_rows: int, seed: int, what: str) -> History:
        """Train a network, move it to the CPU, and return one record per pass."""
        config = TrainingConfig(
            num_epochs=int(self.max_iter),
            # Small data sets would otherwise be learned in a handful of steps.
            batch_size=max(1, min(int(self.batch_size), num_rows // FEWEST_BATCHES)),
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            clip_norm=1.0,
            seed=seed,
        )
        with progress_bar(shown=self.verbose) as show:
            run = TrainingRun(
                device=choose_device(self.device),
                progress=lambda now: show(replace(now, stage=f"{what}: {now.stage}")),
            )
            result = train(
                network, task, config, run, keep_best=True, patience=self.n_iter_no_change
            )
        network.cpu()
        return [{"training": what, **record} for record in result.history]


def in_precision(
    network: Model, dtype: np.dtype, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """Return the network as a function of tensors of a dtype on a device, without gradients."""
    moved = copy.deepcopy(network).to(device, TORCH_DTYPES[np.dtype(dtype)]).eval()
    return torch.no_grad()(moved.forward)
