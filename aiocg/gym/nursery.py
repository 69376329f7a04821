"""One process from which other processes have their workers forked."""

import contextlib
import os
from collections.abc import Iterator

from aiocg.gym.portal import Portal
from aiocg.host.local import LocalMachine
from aiocg.host.nursery import VARIABLE
from aiocg.host.shared_memory import choose_memory
from aiocg.registry import environment
from aiocg.runtime import DEFAULT_MEMORY_LIMIT

__all__ = ["shared_nursery"]


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
