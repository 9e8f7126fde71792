"""What is learned: batches, loss, and a look at data that is not trained on."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor, nn

from fwnet.data import keyed_generator
from fwnet.metrics import code_error
from fwnet.training.config import TrainingConfig

__all__ = ["CodeRegression", "Task"]


class Task(ABC):
    """Data and loss. A batch depends on the settings and the number of the step alone.

    So a training that was stopped goes on where it was, without replaying what was drawn before.
    """

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """Return the task with its data on a device."""

    @abstractmethod
    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """How many batches make an epoch; all have the same size."""

    @abstractmethod
    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Return some rows of the batch of a step: all of them, or the share of one process."""

    @abstractmethod
    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """The mean over the rows of a batch, 0-dim."""

    @abstractmethod
    def validate(self, model: nn.Module) -> float | None:
        """A figure, the smaller the better, on data that is not trained on; None without such."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of the data: a training is not continued on other data."""


class CodeRegression(Task):
    """min_W mean ½‖f_W(x) − z‖²: a network learns codes from pairs (x, z) held in memory.

    Args:
        signals: x, of shape (count, n).
        codes: z, of shape (count, m).
        validation_signals: x that is not trained on, if there are any.
        validation_codes: z of those.

    The loss is half the sum over the entries of a code (Caffe's Euclidean loss); `validate` gives
    `fwnet.metrics.code_error`, the sum.
    """

    def __init__(
        self,
        signals: Tensor,
        codes: Tensor,
        validation_signals: Tensor | None = None,
        validation_codes: Tensor | None = None,
    ) -> None:
        if len(signals) != len(codes) or not len(signals):
            raise ValueError(
                f"expected a code for every signal, got {len(signals)} signals, {len(codes)} codes"
            )
        pair = (validation_signals, validation_codes)
        if (pair[0] is None) != (pair[1] is None) or any(
            part is not None and not len(part) for part in pair
        ):
            raise ValueError("expected validation signals and codes, or neither, got one or none")
        self.signals, self.codes = signals, codes
        self.validation_signals, self.validation_codes = validation_signals, validation_codes
        self._order: tuple[tuple[int, int], Tensor] | None = None

    def to(self, device: torch.device) -> Self:
        """Return the task with its data on a device."""
        held = (self.validation_signals, self.validation_codes)
        moved = (None if part is None else part.to(device) for part in held)
        return type(self)(self.signals.to(device), self.codes.to(device), *moved)

    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """Whole batches alone; what is left over differs from epoch to epoch."""
        return max(1, len(self.signals) // config.batch_size)

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Rows in an order that is drawn anew for every epoch."""
        epoch, index = divmod(step, self.steps_per_epoch(config))
        key = (config.seed, epoch)
        if self._order is None or self._order[0] != key:
            generator = keyed_generator(config.seed, "order", epoch)
            order = torch.randperm(len(self.signals), generator=generator)
            self._order = (key, order.to(self.signals.device))
        start = index * config.batch_size
        chosen = self._order[1][start : start + config.batch_size][rows]
        return self.signals[chosen], self.codes[chosen]

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """½·code_error."""
        signals, codes = batch
        return 0.5 * code_error(model(signals).to(codes.dtype), codes)

    def validate(self, model: nn.Module) -> float | None:
        """The error of the validation codes."""
        if self.validation_signals is None or self.validation_codes is None:
            return None
        return code_error(model(self.validation_signals), self.validation_codes).item()

    def fingerprint(self) -> str:
        """SHA-256 of all numbers."""
        digest = hashlib.sha256()
        for part in (self.signals, self.codes, self.validation_signals, self.validation_codes):
            if part is not None:
                digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
                digest.update(part.cpu().contiguous().numpy().data.cast("B"))
        return digest.hexdigest()
