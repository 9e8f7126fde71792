"""Ctrl-C and SIGTERM between two steps, where everything fits together, not within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interrupts", "deferred_interrupts"]


class Interrupts:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def deferred_interrupts() -> Iterator[Interrupts]:
    """Note the first Ctrl-C or SIGTERM instead of raising it; a second one acts at once.

    Signals reach the main thread alone; elsewhere nothing is deferred.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before: dict[int, Any] = {}

    def note(_number: int, _frame: FrameType | None) -> None:
        interrupts.asked = True
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        before.clear()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, note)
    try:
        yield interrupts
    finally:
        restore()
