"""Runs the worker processes of one compiler: spawns, watches, kills and replaces them as `supervision` decides."""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from aiocg.death import Death
from aiocg.errors import AiocgError, BudgetExhausted, EnvironmentNotSupported, WorkerStartError
from aiocg.launcher import Launcher, Look, WorkerProcess
from aiocg.placement import WorkerLoad, choose_worker
from aiocg.quarantine import Quarantine
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
from aiocg.worker import Worker

TICK = 0.05  # seconds between looks at the workers; between two of them, no deadline is missed that was seen before
SHORTEST_WAIT = 0.001  # seconds between two looks, whatever is to come

logger = logging.getLogger("aiocg.supervisor")


@dataclass(slots=True)
class _Life:
    """One process in a slot."""

    process: WorkerProcess
    refusal: Refused | None = None
    condemned: Execution | None = None  # what it was killed for
    unwanted: tuple[int, float] | None = None  # a request that it executes for nobody, and since when


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
        quarantine: what has killed its worker; one of its own if None.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        launcher: Launcher,
        *,
        client: str,
        policy: Policy | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.kind = kind
        self._launcher = launcher
        self._policy = policy or Policy()
        quarantine = quarantine if quarantine is not None else Quarantine(self._policy.quarantine_deaths)
        self.workers = [Worker(client, {"kind": kind, "slot": index}, quarantine) for index in range(count)]
        self._slots = [Slot(self._policy) for _ in range(count)]
        self._lives: list[_Life | None] = [None] * count
        self._successors: dict[int, WorkerProcess] = {}  # of workers that have grown, by slot
        self._replacing: set[asyncio.Task[None]] = set()
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
            self._give_up(index, WorkerStartError(f"the {self.kind} worker cannot be kept running: {error!r}"))
        await self._dispose(index)

    async def _dispose(self, index: int) -> None:
        """End the successor of a worker in a slot that needs none, if there is one."""
        successor = self._successors.pop(index, None)
        if successor is not None:
            successor.kill()
            await successor.wait()
            successor.close()

    def _give_up(self, index: int, error: AiocgError) -> None:
        """Leave a slot empty for good; what lives there moves to the least busy of the others, if any is left."""
        loads = [worker.load_now() for worker in self.workers]
        loads[index] = WorkerLoad(usable=False, sessions=0, pending=0)
        heir = choose_worker(loads)
        self.workers[index].give_up(error, self.workers[heir] if heir is not None else None)

    async def _fill(self, index: int) -> None:
        slot, worker = self._slots[index], self.workers[index]
        while not self._closing.is_set():
            cause, stderr, refusal, explained = "no process could be made", "", None, False
            try:
                successor = index in self._successors
                life = _Life(self._successors.pop(index) if successor else await self._launcher.spawn())
            except OSError as error:
                stderr = str(error)
                slot.started(time.monotonic())
            except AiocgError as error:
                self._give_up(index, error)
                return
            else:
                worker.tally.starts += 1
                death = await self._live(index, life)
                worker.died(death)
                cause, stderr, refusal = death.cause, death.stderr, life.refusal
                explained = is_explained(
                    slot.kill_reason, outside=death.outside, executing=death.execution is not None
                )
            if self._closing.is_set():
                return
            delay = slot.died(time.monotonic(), explained=explained)
            if refusal is not None:
                self._give_up(index, EnvironmentNotSupported(refusal.message))
                return
            if delay is None:
                self._give_up(index, self._exhaustion(index, cause, stderr))
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), delay)

    def _exhaustion(self, index: int, cause: str, stderr: str) -> BudgetExhausted:
        spent = self._slots[index].exhausted
        assert spent is not None
        whose = f"worker {index} of {len(self.workers)} for {self.kind}"
        return BudgetExhausted(whose, spent.limit, spent.allowed, spent.deaths, spent.seconds, cause, stderr)

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
        reason, overrun, cancelled = slot.kill_reason, None, False
        outside = is_outside_kill(return_code, reason)
        if reason is KillReason.DEADLINE:
            condemned = life.condemned
            assert condemned is not None
            overrun = condemned.deadline - condemned.started
            outside = execution is None or not execution.is_same(condemned)  # it had got done in the last moment
        elif reason is KillReason.CANCELLED:
            cancelled = execution is not None and life.condemned is not None and execution.is_same(life.condemned)
            execution = execution if cancelled else None  # whatever came after it is not to blame
        cause = describe_death(return_code, reason)
        if not self._closing.is_set():  # that it was closed is no news
            worker.tally.deaths[cause] += 1
            level = logging.INFO if reason in (KillReason.MEMORY, KillReason.CANCELLED) else logging.WARNING
            fields = {"pid": life.process.pid, "cause": cause}
            if execution is not None:
                fields |= {"session": execution.session or None, "request": execution.request}
            logger.log(level, "worker ended", extra={**worker.name, **fields})
        return Death(cause, execution, outside, None if outside else overrun, cancelled, life.process.stderr)

    # ------------------------------------------------------------------------------------------- watch

    async def _watch(self) -> None:
        """Look at every worker once a tick, and when something is known to come; kill those that `supervision` says."""
        pause = TICK
        while True:
            await asyncio.sleep(pause)
            pause = self._look()

    def _look(self) -> float:
        """Look at every worker; return in how many seconds to look again."""
        soonest = time.monotonic() + TICK
        for index, (slot, worker, life) in enumerate(zip(self._slots, self.workers, self._lives, strict=True)):
            if life is None or slot.state not in (SlotState.STARTING, SlotState.READY, SlotState.DRAINING):
                continue
            look = life.process.look()
            now = time.monotonic()
            seen = self._observe(worker, life, look, now)
            if slot.observed(seen, now) is not None:
                life.condemned = look.execution
                life.process.kill()
                continue
            if index not in self._successors and slot.outgrown(seen, now):
                task = asyncio.create_task(self._replace(index))
                self._replacing.add(task)
                task.add_done_callback(self._replacing.discard)
            soonest = min(soonest, slot.next_look(seen, now))
        return max(soonest - time.monotonic(), SHORTEST_WAIT)

    def _observe(self, worker: Worker, life: _Life, look: Look, now: float) -> Observation:
        execution, waiting, until = look.execution, worker.waiting > 0, None
        if execution is not None and worker.is_unwanted(execution.request):
            if life.unwanted is None or life.unwanted[0] != execution.request:
                life.unwanted = (execution.request, now)
            until = min(life.unwanted[1], execution.started) + self._policy.cancel_grace
        return Observation(
            look.sequence,
            execution.deadline if execution is not None else None,
            waiting,
            waiting and look.stopped,
            look.memory,
            look.unreachable,
            until,
        )

    async def _replace(self, index: int) -> None:
        """Start a successor for a worker that has grown; when it is up, let the old one finish what it has begun.

        The requests that come meanwhile wait for the successor, where each session is rebuilt when it is needed.
        """
        slot, worker = self._slots[index], self.workers[index]
        logger.info("worker has grown", extra=dict(worker.name))
        try:
            successor = await self._launcher.spawn()
        except (OSError, AiocgError) as error:
            logger.warning("no successor for a worker that has grown", extra={**worker.name, "cause": brief(error)})
            if slot.drain(time.monotonic()):
                worker.drain()  # there may be room for one when this one is gone
            return
        self._successors[index] = successor
        patience = time.monotonic() + self._policy.start_timeout
        while self._successors.get(index) is successor:  # otherwise the old one has died, and it is in use
            if self._runners[index].done() or time.monotonic() > patience:
                await self._dispose(index)
            elif successor.look().sequence > 0:
                if slot.drain(time.monotonic()):
                    worker.drain()
                return  # the death of the old one, of whatever, is what it waits for
            else:
                await asyncio.sleep(TICK)

    def interrupt(self, error: Exception) -> None:
        """Fail all requests in flight, and replace the workers that had any: what they execute cannot be stopped."""
        for slot, worker, life in zip(self._slots, self.workers, self._lives, strict=True):
            if worker.interrupt(error) and life is not None and slot.state is not SlotState.DYING:
                life.condemned = life.process.look().execution
                slot.condemn(KillReason.CANCELLED, time.monotonic())
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
        await asyncio.gather(self._monitor, *self._runners, *self._replacing, return_exceptions=True)
