"""Where jobs are run: on this machine, on a cluster through submitit, or nowhere."""

import contextlib
import functools
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from aiocg.compat.model import Field, Model

__all__ = ["Executor"]

logger = logging.getLogger("compiler_gym.util.executor")


class _Type(StrEnum):
    """The kinds of executors."""

    SLURM = "slurm"
    LOCAL = "local"
    DEBUG = "debug"
    NOOP = "noop"


def _at_least(least: float, kind: Any, *, itself: bool = True) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        number = kind(value)
        if number < least or (number == least and not itself):
            raise ValueError(f"ensure this value is {'at least' if itself else 'greater than'} {least}")
        return number

    return convert


class Executor(Model):
    """Where and how jobs are run::

        executor = Executor(type="local", cpus=4)
        with executor.get_executor(logs_dir) as jobs:
            jobs.submit(function, argument)

    Attributes:
        type: "slurm" for a cluster, "local" for processes of this machine, "debug" to run each job at the end of the
            block in this process, "noop" not to run them.
        slurm_partition: of the cluster.
        cpus: of each job; for "local" the number of processes, -1 for one per processor.
        gpus: of each job, on a cluster.
        timeout_hours: that a job may take.
        block: wait for the jobs at the end of the block; "local" always does.
    """

    Type = _Type

    type: _Type
    slurm_partition: str | None
    cpus: int
    gpus: int
    timeout_hours: float
    block: bool

    _fields: ClassVar = {
        "type": Field(_Type, frozen=True),
        "slurm_partition": Field(lambda value: value, default=None, frozen=True),
        "cpus": Field(_at_least(-1, int), default=1, frozen=True),
        "gpus": Field(_at_least(0, int), default=0, frozen=True),
        "timeout_hours": Field(_at_least(0, float, itself=False), default=12.0, frozen=True),
        "block": Field(bool, default=False, frozen=True),
    }

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)
        if self.type == _Type.SLURM and not self.slurm_partition:
            raise ValueError("Must specify a partition for executor: slurm")
        if self.type == _Type.LOCAL and self.cpus == -1:
            self.__dict__["cpus"] = os.cpu_count() or 1
        if self.type in (_Type.LOCAL, _Type.NOOP):
            self.__dict__["block"] = True

    @contextlib.contextmanager
    def get_executor(
        self, logs_dir: Path, timeout_hours: float | None = None, cpus: int | None = None
    ) -> "Iterator[_Jobs]":
        """Return a context manager for an object with `submit(function, *args, **kwargs)`.

        Args:
            logs_dir: where a cluster writes what jobs print.
            timeout_hours, cpus: in place of the attributes.

        Raises:
            OSError: when submitit is needed and not installed.
        """
        seconds = round((timeout_hours or self.timeout_hours) * 3600)
        with contextlib.ExitStack() as stack:
            submit = self._submitter(stack, Path(logs_dir), seconds, cpus or self.cpus)
            jobs = _Jobs(submit, self.slurm_partition or self.type.value)
            yield jobs
            if self.block or self.type == _Type.DEBUG:
                jobs.wait(cancel_on_error=self.type == _Type.SLURM)

    def _submitter(self, stack: contextlib.ExitStack, logs: Path, seconds: int, cpus: int) -> Callable[..., Any]:
        if self.type == _Type.SLURM:
            return _cluster(logs, seconds, cpus, self.gpus, self.slurm_partition)
        if self.type == _Type.LOCAL:
            pool = stack.enter_context(multiprocessing.Pool(cpus))

            def submit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> _Job:
                return _Job(functools.partial(pool.apply_async(function, args, kwargs).get, timeout=seconds))

            return submit
        run = self.type == _Type.DEBUG
        return lambda function, *args, **kwargs: _Job(
            functools.partial(function, *args, **kwargs) if run else lambda: None
        )

    @staticmethod
    def get_default_local_executor() -> "Executor":
        """Return the one local executor of the process, with a process per processor."""
        return _default()


@functools.cache
def _default() -> Executor:
    return Executor(type="local", cpus=os.cpu_count() or 1)


class _Job:
    """A job of this machine: its result, computed or waited for when asked for."""

    def __init__(self, result: Callable[[], Any]) -> None:
        self.job_id = 0
        self.result = result

    def cancel(self) -> None:
        """Do nothing: the pool ends with the block."""


class _Jobs:
    """Submits jobs and remembers them."""

    def __init__(self, submit: Callable[..., Any], name: str) -> None:
        self._submit = submit
        self.name = name
        self.jobs: list[Any] = []

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a function with its arguments, and return the job, which has a `result()`."""
        job = self._submit(*args, **kwargs)
        if isinstance(job, _Job):
            job.job_id = len(self.jobs) + 1
        logger.info("Submitting job %s to %s ...", job.job_id, self)
        self.jobs.append(job)
        return job

    def wait(self, cancel_on_error: bool) -> None:
        """Wait for all jobs; the error of one is raised, or cancels those that are left."""
        for number, job in enumerate(self.jobs, 1):
            try:
                job.result()
            except Exception as error:
                if not cancel_on_error:
                    raise
                logger.error("Job %s failed with %s: %s", job.job_id, type(error).__name__, error)
                for other in self.jobs[number - 1 :]:
                    with contextlib.suppress(Exception):
                        other.cancel()
                return
            logger.info("Jobs completed = %d of %d ...", number, len(self.jobs))

    def __repr__(self) -> str:
        return self.name


def _cluster(logs: Path, seconds: int, cpus: int, gpus: int, partition: str | None) -> Callable[..., Any]:
    import importlib

    try:
        submitit = importlib.import_module("submitit")
    except ImportError as error:
        raise OSError(
            "Using the slurm executor requires the submitit library. Install it using: python -m pip install submitit"
        ) from error
    executor = submitit.AutoExecutor(folder=logs)
    executor.update_parameters(
        timeout_min=round(seconds / 60),
        nodes=1,
        cpus_per_task=cpus,
        gpus_per_node=gpus,
        slurm_partition=partition,
    )
    submit: Callable[..., Any] = executor.submit
    return submit
