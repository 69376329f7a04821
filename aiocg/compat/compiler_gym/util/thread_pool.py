"""Threads that are shared."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["get_thread_pool_executor"]

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None


def get_thread_pool_executor() -> ThreadPoolExecutor:
    """Return the one executor of the process, with as many threads as there are processors."""
    global _executor
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(max_workers=os.cpu_count())
        return _executor


def _forget() -> None:
    global _lock, _executor
    _lock, _executor = threading.Lock(), None  # a fork of the process has none of the threads


os.register_at_fork(after_in_child=_forget)
