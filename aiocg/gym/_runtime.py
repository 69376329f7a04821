"""The synchronous runtime."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.gym._compilers import environment_class
from aiocg.gym._env import CompilerEnv
from aiocg.gym._portal import Portal, RuntimeThread, default_thread, make_default_by
from aiocg.gym.vector import CompilerVectorEnv
from aiocg.host.local import LocalMachine, choose_memory
from aiocg.host.nursery import VARIABLE
from aiocg.registry import environment
from aiocg.runtime import DEFAULT_MEMORY_LIMIT
from aiocg.states.state import CompilerEnvState, LegacyState

if TYPE_CHECKING:
    from aiocg.transitions import TransitionLog
    from aiocg.validation import ValidationResult


class SyncRuntime(RuntimeThread):
    """A `Runtime` for blocking code::

        with aiocg.gym.SyncRuntime(workers=4) as runtime:
            env = runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
            env.reset()
            env.step("mem2reg")

    It can be used from any thread, even where an event loop is running, such as in a notebook. Whoever calls it runs
    its event loop and, meanwhile, a thread that starts on first use. Leaving the block, `close`, or the end of the
    interpreter stops the thread and all workers. Copying returns the runtime itself, and unpickling the default
    runtime of the process.

    Args:
        settings: as for `aiocg.Runtime`, by keyword.
    """

    def make(self, id: str, **settings: Any) -> CompilerEnv:
        """Make an environment on this runtime.

        Args:
            id: of the environment, such as `"llvm-v0"`.
            settings: as for `CompilerEnv`.
        """
        return environment_class(id)(id, runtime=self, **settings)

    def make_vec(self, id: str, num_envs: int = 1, **settings: Any) -> CompilerVectorEnv:
        """Make a vector of environments on this runtime.

        Args:
            id: of the environments.
            num_envs: how many.
            settings: as for `CompilerVectorEnv`.
        """
        return CompilerVectorEnv(id, num_envs, runtime=self, **settings)

    def log_to(self, path: str | Path, observations: Iterable[str] = (), *, block: bool = True) -> "TransitionLog":
        """Log what all environments see from now on to a file; see `aiocg.Runtime.log_to`.

        To wait until everything is in the file: `runtime.run(log.flush)`.
        """
        return self.runtime.log_to(path, observations, block=block)

    def replay(self, state: CompilerEnvState, **settings: Any) -> CompilerEnv:
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
            states: to validate; consumed in the thread of the event loop.
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


make_default_by(SyncRuntime)  # environments, which know no more than the thread, are given one, too


def default_runtime() -> SyncRuntime:
    """Return the runtime that environments of this process use by default.

    It is made on first use and closed by `shutdown` or at exit. A fork of the process gets its own.
    """
    runtime = default_thread()
    assert isinstance(runtime, SyncRuntime)
    return runtime


@contextlib.contextmanager
def shared_nursery(*ids: str) -> Iterator[None]:
    """Have processes that begin meanwhile fork their workers from one process, which has loaded the compiler::

        with aiocg.gym.shared_nursery("llvm-autophase-ic-v0"):
            envs = make_vec_env("aiocg.gym:llvm-autophase-ic-v0", 8, vec_env_cls=SubprocVecEnv)

    Libraries that give each environment a process would load a compiler in each. Every process still has workers of
    its own, one unless it says how many, so none is disturbed by the programs of another. At the end of the block all
    of them end; a process that goes on starts others by itself.

    The processes find the nursery by the environment variable AIOCG_NURSERY. Those of a fork server inherit what it
    was when the server was started, so enter the block before.

    Args:
        ids: of the environments, such as `"llvm-v0"`; one of each compiler, with its settings, is enough.

    Raises:
        UnknownName: for an environment that does not exist.
        WorkerStartError: if no process can be started.
    """
    machine = LocalMachine(choose_memory(None))
    portal = Portal()
    before = os.environ.get(VARIABLE)
    try:
        for spec in {spec.pool: spec for spec in map(environment, ids)}.values():
            portal.run(machine.share, spec, DEFAULT_MEMORY_LIMIT)
        if machine.path is not None:
            os.environ[VARIABLE] = str(machine.path)
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        try:
            portal.run(machine.close)
        finally:
            portal.close()
