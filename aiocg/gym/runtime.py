"""The runtime behind synchronous environments: an asynchronous one on a portal, shared by all unless told otherwise."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiocg.datasets.collection import Datasets
from aiocg.datasets.forks import ForkedLock
from aiocg.errors import RuntimeClosed
from aiocg.gym.portal import Portal
from aiocg.node import NODE_TIMEOUT
from aiocg.requests import Receiver
from aiocg.runtime import DEFAULT_MEMORY_LIMIT, Runtime
from aiocg.state import CompilerEnvState, LegacyState
from aiocg.supervision import Policy

if TYPE_CHECKING:
    from aiocg.gym.env import CompilerEnv
    from aiocg.gym.vector import CompilerVectorEnv
    from aiocg.transport.security import ClientSecurity
    from aiocg.validation import ValidationResult

__all__ = ["SyncRuntime", "default_runtime", "shutdown"]

T = TypeVar("T")


class SyncRuntime:
    """A `Runtime` for blocking code: it lives on an event loop in a thread of its own::

        with aiocg.gym.SyncRuntime(workers=4) as runtime:
            env = runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
            env.reset()
            env.step("mem2reg")

    It can be used from any thread, also where an event loop runs already, such as in a notebook. The thread starts
    with the first use; leaving the block, `close`, or the end of the interpreter ends it and all workers. Copies are
    the runtime itself, and pickling gives the default runtime of the process that unpickles.

    Args:
        workers, datasets, memory_limit, options, policy, node, keys, node_timeout: as for `aiocg.Runtime`.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        datasets: Datasets | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        options: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        node: str | None = None,
        keys: "ClientSecurity | None" = None,
        node_timeout: float = NODE_TIMEOUT,
    ) -> None:
        self.runtime = Runtime(
            workers=workers,
            datasets=datasets,
            memory_limit=memory_limit,
            options=options,
            policy=policy,
            node=node,
            keys=keys,
            node_timeout=node_timeout,
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
        """Return the result of the future that a function returns, called on the event loop; see `Portal.wait`."""
        return self.portal.wait(start)

    def deliver(self, send: Callable[[Receiver], object]) -> Any:
        """Return what a receiver is given that a function is called with, on the event loop; see `Portal.deliver`."""
        return self.portal.deliver(send)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return what an asynchronous function returns, awaited on the event loop; see `Portal.wait`."""
        return self.portal.run(function, *args)

    @property
    def forked(self) -> bool:
        """Does the runtime belong to another process, of which this one is a fork?"""
        return self._portal is not None and self._portal.forked

    @property
    def closed(self) -> bool:
        """Was the runtime closed, by `close` or by the end of the interpreter?"""
        return self._closed or (self._end is not None and not self._end.alive)

    # -------------------------------------------------------------------------------------- what it offers

    @property
    def datasets(self) -> Datasets:
        """Where the benchmarks of its environments come from."""
        return self.runtime.datasets

    def make(self, id: str, **settings: Any) -> "CompilerEnv":
        """Make an environment on this runtime.

        Args:
            id: of the environment, such as `"llvm-v0"`.
            settings: as for `CompilerEnv`.
        """
        from aiocg.gym.registration import environment_class

        return environment_class(id)(id, runtime=self, **settings)

    def make_vec(self, id: str, num_envs: int = 1, **settings: Any) -> "CompilerVectorEnv":
        """Make a vector of environments on this runtime.

        Args:
            id: of the environments.
            num_envs: how many.
            settings: as for `CompilerVectorEnv`.
        """
        from aiocg.gym.vector import CompilerVectorEnv

        return CompilerVectorEnv(id, num_envs, runtime=self, **settings)

    def replay(self, state: CompilerEnvState, **settings: Any) -> "CompilerEnv":
        """Make an environment and bring it to a state.

        Args:
            state: such as `CompilerEnv.state`.
            settings: as for `CompilerEnv`.

        Raises:
            UnknownName, InvalidAction: when an action of the state does not exist in the compiler at hand.
            ServiceError: when an action fails.
        """
        settings.setdefault("reward_space", state.reward_space)
        env = self.make(state.environment, benchmark=state.benchmark, **settings)
        try:
            env.apply(state)
        except BaseException:
            env.close()
            raise
        return env

    def validate_states(
        self, states: Iterable[CompilerEnvState | LegacyState], *, ordered: bool = False, **options: Any
    ) -> "Iterator[ValidationResult]":
        """Validate many states, as many at a time as there are workers, and yield the results as they come.

        Args:
            states: what to validate; they are taken in the thread of the event loop.
            ordered: yield the results in the order of the states.
            options: as for `aiocg.validation.validate_states`.
        """
        from aiocg.validation import validate_states  # which imports all that it takes to build and run programs

        results = validate_states(self.runtime, states, ordered=ordered, **options)
        try:
            while (result := self.run(anext, results, None)) is not None:
                yield result
        finally:
            self.run(results.aclose)

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return self.runtime.worker_pids()

    # ---------------------------------------------------------------------------------------------- close

    def close(self) -> None:
        """End all workers and the thread; what is in flight fails with RuntimeClosed. Idempotent."""
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
        return default_runtime, ()


_abandoned: list[object] = []  # of another process; freeing it here could end what that process still uses
_default: SyncRuntime | None = None
_default_lock = threading.Lock()


def default_runtime() -> SyncRuntime:
    """Return the runtime that all environments of this process share unless they are given another.

    It is made on first use and ended when the interpreter exits, or by `shutdown`. A fork of the process gets one of
    its own.
    """
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = SyncRuntime()
        return _default


def shutdown() -> None:
    """End the default runtime with its workers now; environments made on it cannot be used any more."""
    global _default
    with _default_lock:
        runtime, _default = _default, None
    if runtime is not None:
        runtime.close()


def _forget_default() -> None:
    """Have a fork of the process begin anew; another thread may have held the lock when it was forked."""
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
