"""Blocks of rows side by side on a CPU, each on one thread.

Threads that share an operator wait for each other at the end of every one, thousands of times in a
search, and each time until the slowest of them is done. Threads with blocks of their own wait once.
Rounding then does not depend on the number of threads.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from fwnet.hardware import one_thread

SMALL = 1 << 18  # entries of a matrix that one thread decomposes

_at_work = threading.Lock()


def threads_for(matrix: Tensor) -> AbstractContextManager[None]:
    """Compute with one thread if the matrix is small.

    Threads would gain little, and rounding does not depend on how many there are.
    """
    return one_thread() if matrix.numel() <= SMALL else nullcontext()


def for_each(work: Callable[[int], None], parts: range, threads: int) -> None:
    """Call work(part) for all parts, without gradients, at most `threads` of them side by side.

    Each has one thread of torch. Calls from several threads at once do not add up: only the first
    uses more than its own thread. An error in a part is raised here, once the parts that have begun
    are done.
    """
    inference = torch.is_inference_mode_enabled()

    def alone(part: int) -> None:  # threads and modes are those of a thread
        with one_thread(), torch.inference_mode(inference), torch.no_grad():
            work(part)

    threads = min(threads, len(parts))
    if threads < 2 or not _at_work.acquire(blocking=False):
        for part in parts:
            alone(part)
        return
    try:
        with ThreadPoolExecutor(threads, "fwnet") as pool:
            waiting = [pool.submit(alone, part) for part in parts]
            try:
                for result in waiting:
                    result.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        _at_work.release()
