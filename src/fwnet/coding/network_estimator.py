"""What estimators that train a network share: parameters, rows held back, training, precision."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from fwnet.coding.chunks import named_device
from fwnet.data import keyed_generator
from fwnet.models import FWNet, Model
from fwnet.progress import progress_bar
from fwnet.training import (
    Task,
    TrainingConfig,
    TrainingRun,
    train,
)

__all__ = [
    "FIRST_P",
    "FLOAT32",
    "LEARN",
    "NetworkEstimator",
    "as_arrays",
    "check_integer",
    "in_precision",
    "split_rows",
]

LEARN = "learn"
FIRST_P = 1.5  # where a learned p starts that nothing else is known of
FLOAT32 = np.dtype(np.float32)
FEWEST_BATCHES = 20  # that a pass consists of


class NetworkEstimator:
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
        with progress_bar(shown=self.verbose) as show:
            run = TrainingRun(
                device=named_device(self.device),
                progress=lambda now: show(replace(now, stage=f"{what}: {now.stage}")),
            )
            result = train(
                network, task, config, run, keep_best=True, patience=self.n_iter_no_change
            )
        network.cpu()
        self.history_ += [{"training": what, **record} for record in result.history]


def check_integer(name: str, value: Any) -> None:
    """Raise for what is not a count, numbers of NumPy included."""
    if not isinstance(value, Integral) or int(value) < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def split_rows(
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


def as_arrays(X: Any, y: Any) -> tuple[Any, Any]:
    """Tensors as the arrays that scikit-learn understands."""

    def as_array(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        part = part.detach().cpu()
        return (part.float() if part.dtype in (torch.bfloat16, torch.float16) else part).numpy()

    return as_array(X), as_array(y)


def in_precision(network: Model, dtype: np.dtype, device: torch.device) -> Any:
    """The network as a function of tensors of this dtype, on a device."""
    kind = torch.float64 if dtype == np.float64 else torch.float32
    with torch.no_grad():
        moved = copy.deepcopy(network).to(device, kind).eval()

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            outputs: Tensor = moved(x)
        return outputs

    return run
