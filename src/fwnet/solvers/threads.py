"""Blocks of rows side by side on a CPU, each on one thread.

Threads that share an operator wait for each other at the end of every one, thousands of times in a
search, and each time until the slowest of them is done. Threads with blocks of their own wait once.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_at_work = threading.Lock()


def for_each(work: Callable[[int], None], parts: range, threads: int) -> None:
    """Call work(part) for all parts, without gradients, at most `threads` of them side by side.

    Meanwhile torch has one thread per operator. Calls from several threads at once do not add up:
    only the first uses more than its own thread. An error in a part is raised here, once the parts
    that have begun are done.
    """
    threads = min(threads, len(parts))
    if threads < 2 or not _at_work.acquire(blocking=False):
        for part in parts:
            work(part)
        return
    before, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def alone(part: int) -> None:
        with torch.inference_mode(inference), torch.no_grad():  # modes are those of a thread
            work(part)

    try:
        torch.set_num_threads(1)
        with ThreadPoolExecutor(threads, "fwnet") as pool:
            waiting = [pool.submit(alone, part) for part in parts]
            try:
                for result in waiting:
                    result.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(before)
        _at_work.release()
