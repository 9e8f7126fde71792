"""Handle Ctrl-C and SIGTERM between two steps, when the state is consistent."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Whether the user asked to stop."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def deferred_interrupts() -> Iterator[Interrupts]:
    """Record the first Ctrl-C or SIGTERM instead of raising it; a second one acts at once.

    Signals reach only the main thread; elsewhere nothing is deferred.
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
