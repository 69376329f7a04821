"""The runtime behind synchronous environments: an asynchronous one in its own thread."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiocg.datasets.collection import Datasets
from aiocg.datasets.locking import ForkedLock
from aiocg.errors import RuntimeClosed
from aiocg.fleet.requests import Receiver
from aiocg.fleet.supervision import Policy
from aiocg.gym.portal import Portal
from aiocg.node import NODE_TIMEOUT
from aiocg.runtime import DEFAULT_MEMORY_LIMIT, Runtime

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from aiocg.cluster.hosts import Host
    from aiocg.host.shared_memory import Places
    from aiocg.transport.security import ClientSecurity

T = TypeVar("T")


class RuntimeThread:
    """A `Runtime` on an event loop in its own thread; see `SyncRuntime`, which makes environments on it."""

    def __init__(
        self,
        *,
        workers: int | None = None,
        datasets: Datasets | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        options: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        node: str | None = None,
        cluster: "str | Iterable[str | Host] | None" = None,
        keys: "ClientSecurity | None" = None,
        node_timeout: float = NODE_TIMEOUT,
        memory: "Places" = None,
        tracer: "Tracer | None" = None,
    ) -> None:
        self.runtime = Runtime(
            workers=workers,
            datasets=datasets,
            memory_limit=memory_limit,
            options=options,
            policy=policy,
            node=node,
            cluster=cluster,
            keys=keys,
            node_timeout=node_timeout,
            memory=memory,
            tracer=tracer,
        )
        self._lock = ForkedLock()
        self._portal: Portal | None = None
        self._closed = False
        self._end: weakref.finalize[Any, Any] | None = None

    # ---------------------------------------------------------------------------------- the other thread

    @property
    def portal(self) -> Portal:
        """The portal to the thread of the runtime's event loop; started on first use.

        Raises:
            RuntimeClosed: when the runtime was closed.
        """
        portal = self._portal
        if portal is not None and not self._closed:
            return portal
        return self._start()

    def _start(self) -> Portal:
        with self._lock:
            if self._closed:
                raise RuntimeClosed("the runtime was closed")
            if self._portal is None:
                self._portal = Portal()
                self._end = weakref.finalize(self, _end, self._portal, self.runtime)  # at exit, too
            return self._portal

    def wait(self, start: Callable[[], "asyncio.Future[T]"]) -> T:
        """Call a function on the event loop, and wait for the future it returns; see `Portal.wait`."""
        return self.portal.wait(start)

    def deliver(self, send: Callable[[Receiver], object]) -> Any:
        """Call a function with a receiver on the event loop, and return the result; see `Portal.deliver`."""
        return self.portal.deliver(send)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an asynchronous function on the event loop; see `Portal.run`."""
        return self.portal.run(function, *args)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the runtime's."""
        return self._portal is not None and self._portal.forked

    @property
    def closed(self) -> bool:
        """Whether the runtime was closed, by `close` or at exit."""
        return self._closed or (self._end is not None and not self._end.alive)

    # -------------------------------------------------------------------------------------- what it offers

    @property
    def datasets(self) -> Datasets:
        """Where the benchmarks of its environments come from."""
        return self.runtime.datasets

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return self.runtime.worker_pids()

    # ---------------------------------------------------------------------------------------------- close

    def close(self) -> None:
        """Stop all workers and the thread; pending calls fail with RuntimeClosed. Idempotent."""
        self._closed = True
        with self._lock:  # should it be starting just now
            pass
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return default_thread, ()


_abandoned: list[object] = []  # of another process; freeing it here could end what that process still uses
_default: RuntimeThread | None = None
_default_lock = threading.Lock()
_make: Callable[[], RuntimeThread] = RuntimeThread


def make_default_by(make: Callable[[], RuntimeThread]) -> None:
    """Set the factory of the default runtime."""
    global _make
    _make = make


def default_thread() -> RuntimeThread:
    """Return the runtime that all environments of this process share; see `aiocg.gym.default_runtime`."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = _make()
        return _default


def shutdown() -> None:
    """Close the default runtime and its workers; its environments become unusable."""
    global _default
    with _default_lock:
        runtime, _default = _default, None
    if runtime is not None:
        runtime.close()


def _forget_default() -> None:
    """Reset the default runtime in a fork of the process, where the lock may be held for ever."""
    global _default, _default_lock
    _abandoned.append(_default)
    _default, _default_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_default)


def _end(portal: Portal, runtime: Runtime) -> None:
    if portal.forked:
        _abandoned.append((portal, runtime))
    elif portal.is_current_thread:  # the garbage collector may run in any thread, and this one cannot wait for itself
        threading.Thread(target=_end, args=(portal, runtime)).start()
    else:
        try:
            portal.run(runtime.close)
        finally:
            portal.close()
