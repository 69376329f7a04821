"""Runs the worker processes of one compiler: spawns, watches, kills and replaces them as `supervision` decides."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiocg.errors import EnvironmentNotSupported, WorkerStartError
from aiocg.folder import RuntimeFolder
from aiocg.supervision import (
    KillReason,
    Observation,
    Policy,
    Slot,
    SlotState,
    describe_death,
    is_explained,
    is_outside_kill,
)
from aiocg.transport.messages import Refused, Welcome
from aiocg.transport.status import Execution, StatusPage
from aiocg.worker import Death, Worker

TICK = 0.05  # seconds between looks at the workers; a deadline is enforced at most this late
STDERR_TAIL = 4096  # bytes of a worker's last words that are kept

logger = logging.getLogger("aiocg.supervisor")


class WorkerProcess:
    """One worker process, from its start to its death."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, status: StatusPage) -> None:
        self._process = process
        self.address = address
        self.status = status
        self.pid = process.pid
        self.refusal: Refused | None = None
        self.condemned: Execution | None = None  # what it was killed for
        self._tail = bytearray()
        self._reader = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(
        cls, kind: str, address: str, options: Mapping[str, Any], environ: Mapping[str, str], memory_limit: int
    ) -> "WorkerProcess":
        """Spawn a worker that binds `address`.

        Raises:
            OSError: when no process can be made.
        """
        status = StatusPage.create()
        command = [
            *(sys.executable, "-P", "-m", "aiocg.workers", kind, "--address", address),
            *("--parent", str(os.getpid()), "--status", str(status.descriptor)),
            *("--memory-limit", str(memory_limit), "--options", json.dumps(dict(options))),
        ]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(status.descriptor,),
                env={**os.environ, **environ},
                start_new_session=True,  # the terminal's Ctrl-C is for us; and a group of its own to kill
            )
        except BaseException:
            status.close()
            raise
        return cls(process, address, status)

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            self._tail += chunk
            del self._tail[:-STDERR_TAIL]

    @property
    def stopped(self) -> bool:
        """Is the process stopped by a signal such as SIGSTOP?"""
        try:
            return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        except OSError:
            return False

    @property
    def memory(self) -> int:
        """Resident bytes."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    def kill(self) -> None:
        """End the process and all its children at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of the process and its last words; return its exit status, minus the signal if killed."""
        return_code = await self._process.wait()
        self.kill()  # children it may have left
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader, 1.0)
        return return_code

    @property
    def stderr(self) -> str:
        """The last lines the process wrote."""
        return self._tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Free what belongs to the dead process on our side."""
        self._reader.cancel()
        self.status.close()


class Supervisor:
    """Keeps a number of workers of one kind alive.

    Attributes:
        workers: one handle per slot.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        folder: RuntimeFolder,
        *,
        client: str,
        options: Mapping[str, Any],
        environ: Mapping[str, str],
        memory_limit: int,
        policy: Policy | None = None,
    ) -> None:
        self.kind = kind
        self._folder = folder
        self._options = options
        self._environ = environ
        self._memory_limit = memory_limit
        self._names = itertools.count()
        self.workers = [Worker(client) for _ in range(count)]
        self._slots = [Slot(policy or Policy()) for _ in range(count)]
        self._processes: list[WorkerProcess | None] = [None] * count
        self._closing = asyncio.Event()
        self._runners = [asyncio.create_task(self._run(index)) for index in range(count)]
        self._monitor = asyncio.create_task(self._watch())

    def processes(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [process.pid for process in self._processes if process is not None]

    async def _run(self, index: int) -> None:
        """Keep one slot filled; should that fail in a way that nobody thought of, tell those who wait for it."""
        try:
            await self._fill(index)
        except Exception as error:
            logger.exception("slot %d of the %s workers is lost", index, self.kind)
            self.workers[index].give_up(WorkerStartError(f"the {self.kind} worker cannot be kept running: {error!r}"))

    async def _fill(self, index: int) -> None:
        slot, worker = self._slots[index], self.workers[index]
        while not self._closing.is_set():
            stderr, refusal, explained = "", None, False
            try:
                process = await self._spawn()
            except OSError as error:
                stderr = str(error)
                slot.started(time.monotonic())
            else:
                death = await self._live(index, process)
                worker.died(death)
                stderr, refusal = death.stderr, process.refusal
                explained = is_explained(
                    slot.kill_reason, outside=death.outside, executing=death.execution is not None
                )
            if self._closing.is_set():
                return
            delay = slot.died(time.monotonic(), explained=explained)
            if refusal is not None:
                worker.give_up(EnvironmentNotSupported(refusal.message))
                return
            if delay is None:
                worker.give_up(
                    WorkerStartError(f"the {self.kind} worker died {slot.deaths} times; giving up. It wrote:", stderr)
                )
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), delay)

    async def _spawn(self) -> WorkerProcess:
        address = f"ipc://{self._folder.path}/{self.kind}-{next(self._names)}"
        scratch = _scratch(address)
        self._folder.ensure()
        scratch.mkdir()
        environ = {**self._environ, "TMPDIR": str(scratch)}
        options = {"shared_folder": str(self._folder.path), **self._options}
        process = await WorkerProcess.start(self.kind, address, options, environ, self._memory_limit)
        self._folder.guard(process.pid)
        return process

    async def _live(self, index: int, process: WorkerProcess) -> Death:
        """Accompany one process from its start to its end."""
        slot, worker = self._slots[index], self.workers[index]
        self._processes[index] = process
        slot.started(time.monotonic())

        def greeted(answer: Welcome | Refused) -> None:
            if isinstance(answer, Refused):
                process.refusal = answer
                process.kill()
            else:
                slot.ready(time.monotonic())

        def broken(error: Exception) -> None:
            logger.warning("worker %d sent garbage and is replaced: %s", process.pid, error)
            slot.condemn(KillReason.GARBAGE, time.monotonic())
            process.kill()

        try:
            if self._closing.is_set():
                process.kill()
            worker.connect(process.address, greeted, broken)
            return_code = await process.wait()
            return self._autopsy(slot, process, return_code)
        finally:
            self._processes[index] = None
            process.kill()
            self._folder.release(process.pid)
            process.close()
            with contextlib.suppress(OSError):
                Path(process.address.removeprefix("ipc://")).unlink()
            shutil.rmtree(_scratch(process.address), ignore_errors=True)

    def _autopsy(self, slot: Slot, process: WorkerProcess, return_code: int) -> Death:
        _, execution = process.status.read()
        reason, overrun = slot.kill_reason, None
        outside = is_outside_kill(return_code, reason)
        if reason is KillReason.DEADLINE:
            condemned = process.condemned
            assert condemned is not None
            overrun = condemned.deadline - condemned.started
            outside = execution != condemned  # it had got done in the last moment
        cause = describe_death(return_code, reason)
        level = logging.DEBUG if self._closing.is_set() else logging.INFO  # that it was closed is no news
        logger.log(level, "worker %d ended: %s", process.pid, cause)
        return Death(cause, execution, outside, None if outside else overrun, process.stderr)

    async def _watch(self) -> None:
        """Look at every worker once a tick, and kill those that `supervision` says are to be killed."""
        while True:
            await asyncio.sleep(TICK)
            for slot, worker, process in zip(self._slots, self.workers, self._processes, strict=True):
                if process is None or slot.state not in (SlotState.STARTING, SlotState.READY):
                    continue
                sequence, execution = process.status.read()
                waiting = worker.waiting > 0
                deadline = execution.deadline if execution is not None else None
                seen = Observation(sequence, deadline, waiting, waiting and process.stopped, process.memory)
                if slot.observed(seen, time.monotonic()) is not None:
                    process.condemned = execution
                    process.kill()

    def interrupt(self, error: Exception) -> None:
        """Fail all requests in flight, and replace the workers that had any: what they execute cannot be stopped."""
        for worker, process in zip(self.workers, self._processes, strict=True):
            if worker.interrupt(error) and process is not None:
                process.kill()

    async def close(self) -> None:
        """End every worker and wait until they are gone; what is in flight fails with `RuntimeClosed`."""
        self._closing.set()
        self._monitor.cancel()
        for worker in self.workers:
            worker.close()
        for process in self._processes:
            if process is not None:
                process.kill()
        await asyncio.gather(self._monitor, *self._runners, return_exceptions=True)


def _scratch(address: str) -> Path:
    """Return the folder for temporary files of the worker at an address; it goes when the worker does."""
    return Path(f"{address.removeprefix('ipc://')}.tmp")
