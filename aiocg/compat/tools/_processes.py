"""Subprocesses, threads, jobs and logging."""

import contextlib
import copy
import functools
import importlib
import logging
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from aiocg.compat._model import Model
from aiocg.gym.wrappers import ForkableIterator


def run_command(cmd: Sequence[str], timeout: float) -> str:
    """Run a program and return its output; raise OSError with its standard error if it fails."""
    done = subprocess.run(cmd, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        problem = f"Compilation job failed with returncode {done.returncode}"
        raise OSError(f"{problem}\nCommand: {' '.join(cmd)}\nStderr: {done.stderr.strip()}")
    return done.stdout


@functools.cache
def get_thread_pool_executor() -> ThreadPoolExecutor:
    """Return the process's thread pool, which has one thread per processor."""
    return ThreadPoolExecutor(max_workers=os.cpu_count())


os.register_at_fork(after_in_child=get_thread_pool_executor.cache_clear)  # threads do not survive a fork


def thread_safe_tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """Like `itertools.tee`, but the iterators may be used from different threads."""
    first: Iterator[Any] = ForkableIterator(functools.partial(iter, iterable))
    return tuple(copy.copy(first) for _ in range(n))


_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def get_debug_level() -> int:
    """Return the debugging level: 0 for errors, 1 for warnings, 2 for information, 3 or more for everything."""
    return max(int(os.environ.get("COMPILER_GYM_DEBUG", "0")), 0)


def get_logging_level() -> int:
    """Return the level of `logging` for the debugging level."""
    return _LEVELS[min(get_debug_level(), len(_LEVELS) - 1)]


def set_debug_level(level: int) -> None:
    """Set the debugging level of this process, and the level of the logger `compiler_gym`."""
    os.environ["COMPILER_GYM_DEBUG"] = str(level)
    logging.getLogger("compiler_gym").setLevel(get_logging_level())


def init_logging(level: int = logging.INFO, logger: logging.Logger | None = None) -> None:
    """Make a logger print its records, prefixed by the time and the logger's name."""
    logger = logger or logging.getLogger()
    logger.setLevel(level)
    handler = logging.StreamHandler(sys.stdout)
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(fmt="%(asctime)s %(name)s] %(message)s", datefmt="%m%d %H:%M:%S"))
    logger.addHandler(handler)


class _Type(StrEnum):
    SLURM = "slurm"
    LOCAL = "local"
    DEBUG = "debug"
    NOOP = "noop"


class Executor(Model):
    """Runs jobs::

        executor = Executor(type="local", cpus=4)
        with executor.get_executor(logs_dir) as jobs:
            jobs.submit(function, argument)

    Attributes:
        type: "slurm" for a cluster, "local" for processes on this machine, "debug" to run each job in this process, or
            "noop" to run none.
        slurm_partition, gpus: the cluster's partition, and GPUs per job.
        cpus: processors per job; for "local" the number of processes, -1 for one per processor.
        timeout_hours: the time limit of a job.
        block: wait for the jobs at the end of the block; only "slurm" can do otherwise.
    """

    model_config = ConfigDict(frozen=True)

    Type: ClassVar = _Type

    type: _Type
    slurm_partition: str | None = None
    cpus: int = Field(default=1, ge=-1)
    gpus: int = Field(default=0, ge=0)
    timeout_hours: float = Field(default=12.0, gt=0)
    block: bool = False

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == _Type.SLURM and not self.slurm_partition:
            raise ValueError("Must specify a partition for executor: slurm")
        if self.type == _Type.LOCAL and self.cpus == -1:
            self.__dict__["cpus"] = os.cpu_count() or 1
        if self.type in (_Type.LOCAL, _Type.NOOP):
            self.__dict__["block"] = True
        return self

    @contextlib.contextmanager
    def get_executor(
        self, logs_dir: Path, timeout_hours: float | None = None, cpus: int | None = None
    ) -> Iterator["_Jobs"]:
        """Yield an object whose `submit(function, *args, **kwargs)` returns a job."""
        seconds = round((timeout_hours or self.timeout_hours) * 3600)
        if self.type == _Type.SLURM:
            jobs = _Jobs(self._cluster(logs_dir, seconds, cpus or self.cpus).submit)
            yield jobs
            if self.block:
                jobs.wait()
            return
        with multiprocessing.Pool(cpus or self.cpus) if self.type == _Type.LOCAL else contextlib.nullcontext() as pool:

            def submit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                if pool is not None:
                    return SimpleNamespace(result=pool.apply_async(function, args, kwargs).get)
                run = functools.cache(lambda: function(*args, **kwargs) if self.type == _Type.DEBUG else None)
                return SimpleNamespace(result=lambda timeout=None: run())

            jobs = _Jobs(submit)
            yield jobs
            jobs.wait(timeout=seconds)

    def _cluster(self, logs: Path, seconds: int, cpus: int) -> Any:
        try:
            executor = importlib.import_module("submitit").AutoExecutor(folder=logs)
        except ImportError as error:
            raise OSError("the slurm executor needs submitit: python -m pip install submitit") from error
        executor.update_parameters(
            timeout_min=round(seconds / 60),
            nodes=1,
            cpus_per_task=cpus,
            gpus_per_node=self.gpus,
            slurm_partition=self.slurm_partition,
        )
        return executor

    @staticmethod
    @functools.cache
    def get_default_local_executor() -> "Executor":
        """Return the shared local executor, which runs one process per processor."""
        return Executor(type=_Type.LOCAL, cpus=-1)


class _Jobs:
    """Submits jobs and keeps track of them."""

    def __init__(self, submit: Callable[..., Any]) -> None:
        self._submit = submit
        self.jobs: list[Any] = []

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.jobs.append(self._submit(*args, **kwargs))
        return self.jobs[-1]

    def wait(self, **timeout: float) -> None:
        for job in self.jobs:
            job.result(**timeout)
