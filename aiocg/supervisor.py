"""Runs the worker processes of one compiler: spawns, watches, kills and replaces them as `supervision` decides."""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from aiocg.errors import AiocgError, EnvironmentNotSupported, WorkerStartError
from aiocg.launcher import Launcher, Look, WorkerProcess
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
from aiocg.telemetry.logs import brief
from aiocg.transport.messages import Refused, Welcome
from aiocg.transport.status import Execution
from aiocg.worker import Death, Worker

TICK = 0.05  # seconds between looks at the workers; a deadline is enforced at most this late

logger = logging.getLogger("aiocg.supervisor")


@dataclass(slots=True)
class _Life:
    """One process in a slot."""

    process: WorkerProcess
    refusal: Refused | None = None
    condemned: Execution | None = None  # what it was killed for


class Supervisor:
    """Keeps a number of workers of one kind alive.

    Attributes:
        workers: one handle per slot.

    Args:
        kind: of the workers.
        count: how many.
        launcher: starts them.
        client: who we are, for messages.
        policy: the numbers behind decisions.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        launcher: Launcher,
        *,
        client: str,
        policy: Policy | None = None,
    ) -> None:
        self.kind = kind
        self._launcher = launcher
        self.workers = [Worker(client, {"kind": kind, "slot": index}) for index in range(count)]
        self._slots = [Slot(policy or Policy()) for _ in range(count)]
        self._lives: list[_Life | None] = [None] * count
        self._closing = asyncio.Event()
        self._runners = [asyncio.create_task(self._run(index)) for index in range(count)]
        self._monitor = asyncio.create_task(self._watch())

    def processes(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [life.process.pid for life in self._lives if life is not None]

    def looks(self) -> list[tuple[Slot, Worker, Look | None]]:
        """Return of each slot its state, its worker, and what is to be seen of its process, None when none is up."""
        looks = [life.process.look() if life is not None else None for life in self._lives]
        return list(zip(self._slots, self.workers, looks, strict=True))

    async def _run(self, index: int) -> None:
        """Keep one slot filled; should that fail in a way that nobody thought of, tell those who wait for it."""
        try:
            await self._fill(index)
        except Exception as error:
            logger.exception("slot lost", extra=dict(self.workers[index].name))
            self.workers[index].give_up(WorkerStartError(f"the {self.kind} worker cannot be kept running: {error!r}"))

    async def _fill(self, index: int) -> None:
        slot, worker = self._slots[index], self.workers[index]
        while not self._closing.is_set():
            stderr, refusal, explained = "", None, False
            try:
                life = _Life(await self._launcher.spawn())
            except OSError as error:
                stderr = str(error)
                slot.started(time.monotonic())
            except AiocgError as error:
                worker.give_up(error)
                return
            else:
                worker.tally.starts += 1
                death = await self._live(index, life)
                worker.died(death)
                stderr, refusal = death.stderr, life.refusal
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

    async def _live(self, index: int, life: _Life) -> Death:
        """Accompany one process from its start to its end."""
        slot, worker, process = self._slots[index], self.workers[index], life.process
        self._lives[index] = life
        slot.started(started := time.monotonic())
        name = {**worker.name, "pid": process.pid}
        logger.debug("worker started", extra=name)

        def greeted(answer: Welcome | Refused) -> None:
            if isinstance(answer, Refused):
                life.refusal = answer
                process.kill()
            else:
                slot.ready(time.monotonic())
                logger.info("worker ready", extra={**name, "seconds": round(time.monotonic() - started, 3)})

        def broken(error: Exception) -> None:
            logger.warning("worker sent garbage", extra={**name, "cause": brief(error)})
            slot.condemn(KillReason.GARBAGE, time.monotonic())
            process.kill()

        try:
            if self._closing.is_set():
                process.kill()
            worker.connect(process.connect, greeted, broken)
            return_code = await process.wait()
            return self._autopsy(index, life, return_code)
        finally:
            self._lives[index] = None
            process.close()

    def _autopsy(self, index: int, life: _Life, return_code: int) -> Death:
        slot, worker = self._slots[index], self.workers[index]
        look = life.process.look()
        execution = look.execution
        if look.counts is not None:
            worker.tally.compiler_seconds += look.counts.compiler_seconds
        reason, overrun = slot.kill_reason, None
        outside = is_outside_kill(return_code, reason)
        if reason is KillReason.DEADLINE:
            condemned = life.condemned
            assert condemned is not None
            overrun = condemned.deadline - condemned.started
            outside = execution is None or not execution.is_same(condemned)  # it had got done in the last moment
        cause = describe_death(return_code, reason)
        if not self._closing.is_set():  # that it was closed is no news
            worker.tally.deaths[cause] += 1
            level = logging.INFO if reason is KillReason.MEMORY else logging.WARNING
            fields = {"pid": life.process.pid, "cause": cause}
            if execution is not None:
                fields |= {"session": execution.session or None, "request": execution.request}
            logger.log(level, "worker ended", extra={**worker.name, **fields})
        return Death(cause, execution, outside, None if outside else overrun, life.process.stderr)

    async def _watch(self) -> None:
        """Look at every worker once a tick, and kill those that `supervision` says are to be killed."""
        while True:
            await asyncio.sleep(TICK)
            for slot, worker, life in zip(self._slots, self.workers, self._lives, strict=True):
                if life is None or slot.state not in (SlotState.STARTING, SlotState.READY):
                    continue
                look = life.process.look()
                waiting = worker.waiting > 0
                deadline = look.execution.deadline if look.execution is not None else None
                seen = Observation(look.sequence, deadline, waiting, waiting and look.stopped, look.memory)
                if slot.observed(seen, time.monotonic()) is not None:
                    life.condemned = look.execution
                    life.process.kill()

    def interrupt(self, error: Exception) -> None:
        """Fail all requests in flight, and replace the workers that had any: what they execute cannot be stopped."""
        for worker, life in zip(self.workers, self._lives, strict=True):
            if worker.interrupt(error) and life is not None:
                life.process.kill()

    async def close(self) -> None:
        """End every worker and wait until they are gone; what is in flight fails with `RuntimeClosed`."""
        self._closing.set()
        self._monitor.cancel()
        for worker in self.workers:
            worker.close()
        for life in self._lives:
            if life is not None:
                life.process.kill()
        await asyncio.gather(self._monitor, *self._runners, return_exceptions=True)
