"""Where work on many items runs: in this process, or wherever another `Engine` takes it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch

from fwnet.hardware import choose_device

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Lost:
    """Instead of a result: the processes that worked on the item died, again and again."""

    reason: str


class Engine(Protocol):
    """Applies a function to items. `fwnet.ray.RayEngine` does so on many machines."""

    def choose_device(self, device: str | torch.device | None) -> torch.device:
        """Return the device that the function will find; None and "auto" leave the choice."""

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Lost]]:
        """Yield every item with its result, in any order; raise what the function raises.

        The function may run more than once for an item, even at the same time in two processes. It
        must leave the same files however often it runs.
        """


class OneProcess:
    """The engine of one machine: one item after the other, in this process."""

    def choose_device(self, device: str | torch.device | None) -> torch.device:
        """Return a device that works here."""
        return choose_device(device)

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Lost]]:
        """Yield every item with its result, in order."""
        for item in items:
            yield item, function(item)
