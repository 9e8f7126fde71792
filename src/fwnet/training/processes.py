"""One process, or several that `accelerate launch` started; and signals that stop them."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn


class Processes:
    """The share of this process in every batch, and the mean over all processes.

    With `accelerate launch`, each process takes an equal part of a batch and gradients are
    averaged, which gives the gradient of the whole batch. Otherwise there is one process, and
    Accelerate is not needed.
    """

    def __init__(self, device: torch.device) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = device
        self._accelerator: Any = None
        self.rank = 0
        if self.count > 1:
            try:
                from accelerate import Accelerator
            except ImportError as error:
                raise RuntimeError(
                    "training on several processes needs accelerate: pip install '.[train]' in the "
                    "clone"
                ) from error
            self._accelerator = Accelerator(cpu=device.type == "cpu")
            self.device = self._accelerator.device
            self.rank = self._accelerator.process_index

    @property
    def is_first(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    def prepare(self, model: nn.Module) -> nn.Module:
        """Return the model to call in training, whose gradients are averaged over processes."""
        if self._accelerator is None:
            return model
        prepared: nn.Module = self._accelerator.prepare_model(model)
        return prepared

    def rows(self, batch_size: int) -> slice:
        """Return the rows of a batch that this process computes."""
        if batch_size % self.count:
            raise ValueError(
                f"batch_size must be a multiple of the number of processes, {self.count}, "
                f"got {batch_size}"
            )
        share = batch_size // self.count
        return slice(self.rank * share, (self.rank + 1) * share)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a number over all processes."""
        if self._accelerator is None:
            return value
        reduced: Tensor = self._accelerator.reduce(value, reduction="mean")
        return reduced

    def agree(self, decision: bool) -> bool:
        """Return the decision of the first process: clocks differ, decisions must not."""
        if self._accelerator is None:
            return decision
        answer = torch.tensor(float(decision and self.is_first), device=self.device)
        return bool(self._accelerator.reduce(answer, reduction="sum") > 0)

    def wait(self) -> None:
        """Wait for all processes."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second one acts at once.

    A training then stops between two steps, when its state is consistent.
    Signals reach only the main thread; elsewhere nothing is deferred.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before: dict[int, Any] = {}

    def note(_number: int, _frame: FrameType | None) -> None:
        asked.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        before.clear()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, note)
    try:
        yield asked
    finally:
        restore()
