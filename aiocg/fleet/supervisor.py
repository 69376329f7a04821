"""Runs the worker processes of one compiler: starts, watches, kills and replaces them as `supervision` decides."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiocg.errors import AiocgError, BudgetExhausted, EnvironmentNotSupported, NoRoom, WorkerStartError
from aiocg.fleet.blame import brief
from aiocg.fleet.placement import WorkerLoad, choose_worker
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.restart_policy import (
    Death,
    KillReason,
    Observation,
    Policy,
    SlotLifecycle,
    SlotState,
    describe_death,
    is_explained,
    is_outside_kill,
)
from aiocg.fleet.slot import WorkerSlot
from aiocg.host.launcher import Launcher, Look, WorkerProcess
from aiocg.host.run_time import Stopwatch
from aiocg.transport.messages import Refused, Welcome
from aiocg.transport.status import Execution

TICK = 0.05  # seconds between looks at the workers; known deadlines are met in between
SHORTEST_WAIT = 0.001  # seconds between two looks

logger = logging.getLogger("aiocg.fleet.supervisor")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How an attempt to run a process in a slot ended; by default, no process could be made."""

    cause: str = "no process could be made"
    stderr: str = ""
    refusal: Refused | None = None
    explained: bool = False


@dataclass(slots=True, eq=False)
class _Life:
    """One process in a slot.

    Attributes:
        refusal: its answer to the hello, if that was a refusal.
        condemned: the execution that it was killed for.
        unwanted: number of a request that it executes for nobody, and since when.
    """

    process: WorkerProcess
    refusal: Refused | None = None
    condemned: Execution | None = None
    unwanted: tuple[int, float] | None = None

    def death(self, return_code: int, reason: KillReason | None) -> Death:
        """Return what the end of the process says.

        Args:
            return_code: as in `subprocess`.
            reason: why the supervisor killed it, None if it did not.
        """
        execution, overrun, cancelled = self.process.look().execution, None, False
        outside = is_outside_kill(return_code, reason)
        if reason is KillReason.DEADLINE:
            condemned = self.condemned
            assert condemned is not None
            overrun = condemned.deadline - condemned.started
            outside = execution is None or not execution.is_same(condemned)  # the request finished just in time
        elif reason is KillReason.CANCELLED:
            cancelled = execution is not None and self.condemned is not None and execution.is_same(self.condemned)
            execution = execution if cancelled else None  # a later request is not to blame
        return Death(
            describe_death(return_code, reason),
            execution,
            outside,
            None if outside else overrun,
            cancelled,
            self.process.stderr,
            stalled=reason is KillReason.STALLED,
            explained=is_explained(reason, outside=outside, executing=execution is not None),
            unstarted=reason is KillReason.START,
        )


class Supervisor:
    """Keeps a number of workers of one kind alive.

    Attributes:
        workers: one handle per slot.

    Args:
        kind: the kind of worker.
        count: number of slots.
        launcher: starts the workers.
        client: our name and version, for the hello.
        policy: the parameters of decisions.
        quarantine: the questions that killed workers; a new one if None.
        wanted: returns how many slots there should be now, given the number of requests without a reply; always `count`
            if None.
        make_slot: makes the handle of a slot.
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
        wanted: Callable[[int], int] | None = None,
        make_slot: Callable[[str, Mapping[str, Any], Quarantine], WorkerSlot] = WorkerSlot,
    ) -> None:
        self.kind = kind
        self._client = client
        self._launcher = launcher
        self._policy = policy or Policy()
        self._quarantine = quarantine if quarantine is not None else Quarantine(self._policy.quarantine_deaths)
        self._wanted_for = wanted if wanted is not None else lambda requests: count
        self._make_slot = make_slot
        self.workers: list[WorkerSlot] = []
        self._slots: list[SlotLifecycle] = []
        self._lives: list[_Life | None] = []
        self._runners: list[asyncio.Task[None]] = []
        self._successors: dict[int, WorkerProcess] = {}  # of workers that are to be replaced, by slot
        self._replacing: dict[int, asyncio.Task[None]] = {}  # by slot
        self._logged = 0.0  # when overdue requests were last looked for
        self._closing = asyncio.Event()
        self._clock = asyncio.get_running_loop().time
        for _ in range(count):
            self._append()
        self._monitor = asyncio.create_task(self._watch())

    # ------------------------------------------------------------------------------------------- slots

    def _append(self) -> None:
        index = len(self.workers)
        self.workers.append(self._make_slot(self._client, {"kind": self.kind, "slot": index}, self._quarantine))
        self._slots.append(SlotLifecycle(self._policy, proven=any(slot.proven for slot in self._slots)))
        self._lives.append(None)
        self._runners.append(asyncio.create_task(self._run(index)))

    def _grow(self, now: float) -> None:
        """Try slots again that have no room or were given up, and add others, until there are as many as wanted."""
        missing = self._wanted() - self._usable()
        if missing <= 0:
            return
        for index, worker in enumerate(self.workers):
            over = self._runners[index].done() and index not in self._replacing
            if missing > 0 and over and (isinstance(worker.failure, NoRoom) or self._slots[index].may_return(now)):
                worker.reopen()
                self._runners[index] = asyncio.create_task(self._run(index))
                missing -= 1
        failed = sum(not (worker.usable or isinstance(worker.failure, NoRoom)) for worker in self.workers)
        for _ in range(missing - failed):
            self._append()

    def _wanted(self) -> int:
        return self._wanted_for(sum(worker.pending for worker in self.workers))

    def _usable(self) -> int:
        return sum(worker.usable for worker in self.workers)

    def _is_surplus(self) -> bool:
        return self._usable() > self._wanted()

    def processes(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return [life.process.pid for life in self._lives if life is not None]

    def looks(self) -> list[tuple[SlotLifecycle, WorkerSlot, Look | None]]:
        """Return each slot's lifecycle, its handle, and a look at its process, None if none is up."""
        looks = [life.process.look() if life is not None else None for life in self._lives]
        return list(zip(self._slots, self.workers, looks, strict=True))

    async def _run(self, index: int) -> None:
        """Keep one slot filled; after an unexpected error, give it up, so that nobody waits for ever."""
        try:
            await self._fill(index)
        except Exception as error:
            logger.exception("slot lost", extra=dict(self.workers[index].name))
            self._slots[index].give_up(self._clock())
            self._give_up(index, WorkerStartError(f"the {self.kind} worker cannot be kept running: {error!r}"))
        await self._dispose(index)

    async def _dispose(self, index: int) -> None:
        """End an unused successor, if there is one."""
        successor = self._successors.pop(index, None)
        if successor is not None:
            successor.kill()
            await successor.wait()
            successor.close()

    def _give_up(self, index: int, error: AiocgError) -> None:
        """Leave a slot empty; its sessions move to the least busy other slot, one with a worker if there is any."""
        self.workers[index].give_up(error, self._heir(index) or self._heir(index, flowing=False))

    def _heir(self, index: int, *, flowing: bool = True) -> WorkerSlot | None:
        """Return the least busy other slot in use; if `flowing`, of those with a worker that takes requests."""
        loads = [
            worker.load_now() if worker.flowing or not flowing else WorkerLoad(usable=False, sessions=0, pending=0)
            for worker in self.workers
        ]
        loads[index] = WorkerLoad(usable=False, sessions=0, pending=0)
        heir = choose_worker(loads)
        return None if heir is None else self.workers[heir]

    async def _fill(self, index: int) -> None:
        """Run one process after the other in a slot, until the runtime closes or the slot is given up."""
        slot = self._slots[index]
        while not self._closing.is_set():
            try:
                process = self._successors.pop(index, None) or await self._launcher.spawn()
            except OSError as error:
                slot.started(self._clock())
                outcome = _Outcome(stderr=str(error))
            except AiocgError as error:
                self._give_up(index, error)
                return
            else:
                outcome = await self._occupy(index, _Life(process))
            if self._closing.is_set():
                return
            delay = slot.died(self._clock(), explained=outcome.explained)
            if self._is_surplus():
                logger.info("slot closed", extra=dict(self.workers[index].name))
                self._give_up(index, NoRoom("the cluster has become smaller"))
                return
            if outcome.refusal is not None and not slot.proven:  # a proven slot lacks something that may come back
                self._give_up(index, EnvironmentNotSupported(outcome.refusal.message))
                return
            if delay is None:
                self._give_up(index, self._exhaustion(index, outcome))
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), delay)

    async def _occupy(self, index: int, life: _Life) -> _Outcome:
        """Run one process to its end, and settle who is to blame."""
        worker = self.workers[index]
        worker.tally.starts += 1
        death = await self._live(index, life)
        found = worker.died(death)
        self._relieve(index)
        if found and not death.explained:
            self._slots[index].forgive()
        explained = (death.explained or found) and life.refusal is None
        return _Outcome(death.cause, death.stderr, life.refusal, explained)

    def _relieve(self, index: int, *, missing: bool = False) -> None:
        """Move sessions that have waited for long at a slot whose worker died, or is missing, to another slot."""
        heir = self._heir(index)
        if heir is not None and (moved := self.workers[index].relieve(heir, everybody=missing)):
            logger.warning("sessions moved", extra={**self.workers[index].name, "count": moved})

    def _log_overdue(self, now: float) -> None:
        """Log the requests that have waited for long, with what they wait for."""
        for slot, worker, life in zip(self._slots, self.workers, self._lives, strict=True):
            execution = life.process.look().execution if life is not None else None
            found = worker.queue.overdue(execution.request if execution is not None else 0, now)
            if found:
                reason = f"the worker is {slot.state.value}"
                if execution is not None:
                    seconds = now - execution.started
                    reason = f"the worker has been executing request {execution.request} for {seconds:.1f} s"
                fields = {"count": len(found), "doing": brief(found[0].doing), "cause": reason}
                logger.warning("requests wait", extra={**worker.name, **fields})

    def _exhaustion(self, index: int, last: _Outcome) -> BudgetExhausted:
        spent = self._slots[index].exhausted
        assert spent is not None
        whose = f"worker {index} of {len(self.workers)} for {self.kind}"
        return BudgetExhausted(whose, spent.limit, spent.allowed, spent.deaths, spent.seconds, last.cause, last.stderr)

    async def _live(self, index: int, life: _Life) -> Death:
        """Run one process in a slot, from its start to its end."""
        slot, worker, process = self._slots[index], self.workers[index], life.process
        self._lives[index] = life
        slot.started(started := self._clock())
        name = {**worker.name, "pid": process.pid}
        logger.debug("worker started", extra=name)

        def greeted(answer: Welcome | Refused) -> None:
            if isinstance(answer, Refused):
                life.refusal = answer
                process.kill()
            else:
                slot.ready(self._clock())
                for other in self._slots:
                    other.proven = True  # all slots run the same kind of worker
                logger.info("worker ready", extra={**name, "seconds": round(self._clock() - started, 3)})

        def broken(error: Exception) -> None:
            logger.warning("worker sent garbage", extra={**name, "cause": brief(error)})
            slot.condemn(KillReason.GARBAGE, self._clock())
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
        slot, worker, look = self._slots[index], self.workers[index], life.process.look()
        if look.lost:
            slot.condemn(KillReason.LOST, self._clock())
        if look.counts is not None:
            worker.tally.compiler_seconds += look.counts.compiler_seconds
        death = life.death(return_code, slot.kill_reason)
        if not self._closing.is_set():  # deaths at closing are expected
            worker.tally.deaths[death.cause] += 1
            expected = (KillReason.MEMORY, KillReason.CANCELLED, KillReason.MOVED)
            level = logging.INFO if slot.kill_reason in expected else logging.WARNING
            fields = {"pid": life.process.pid, "cause": death.cause}
            if death.execution is not None:
                fields |= {"session": death.execution.session or None, "request": death.execution.request}
            logger.log(level, "worker ended", extra={**worker.name, **fields})
        return death

    # ------------------------------------------------------------------------------------------- watch

    async def _watch(self) -> None:
        """Look at every worker once a tick and at known deadlines; kill the workers that `supervision` says."""
        pause = TICK
        while True:
            await asyncio.sleep(pause)
            pause = self._look()

    def _look(self) -> float:
        """Look at every worker; return in how many seconds to look again."""
        soonest = (now := self._clock()) + TICK
        if now - self._logged >= 1.0:
            self._logged = now
            self._log_overdue(now)
        self._grow(now)
        longest_start = max(slot.longest_start for slot in self._slots)
        for index, (slot, worker, life) in enumerate(zip(self._slots, self.workers, self._lives, strict=True)):
            if slot.is_missing(longest_start, now):
                self._relieve(index, missing=True)
            if life is None or slot.state not in (SlotState.STARTING, SlotState.READY, SlotState.DRAINING):
                continue
            look = life.process.look()
            now = self._clock()
            seen = self._observe(worker, life, look, now)
            if slot.observed(seen, now) is not None:
                life.condemned = look.execution
                life.process.kill()
                continue
            if index not in self._successors and index not in self._replacing:
                if look.leaving and slot.state is SlotState.READY:
                    self._start_to_replace(index, KillReason.MOVED)
                elif slot.outgrown(seen, now):
                    self._start_to_replace(index, KillReason.MEMORY)
            soonest = min(soonest, slot.next_look(seen, now))
        return max(soonest - self._clock(), SHORTEST_WAIT)

    def _start_to_replace(self, index: int, reason: KillReason) -> None:
        if reason is KillReason.MOVED and self._is_surplus():
            if self._slots[index].drain(reason):
                self.workers[index].drain()  # its sessions move to other slots when it has ended
            return
        self._replacing[index] = task = asyncio.create_task(self._replace(index, reason))
        task.add_done_callback(lambda _: self._replacing.pop(index, None))

    def _observe(self, worker: WorkerSlot, life: _Life, look: Look, now: float) -> Observation:
        execution, waiting, until = look.execution, worker.waiting > 0, None
        if execution is not None and worker.queue.is_unwanted(execution.request):
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

    async def _replace(self, index: int, reason: KillReason) -> None:
        """Start a successor for a worker; when it is up, let the old one finish its requests.

        New requests then wait for the successor, where each session is rebuilt when it is needed.
        """
        slot, worker, life = self._slots[index], self.workers[index], self._lives[index]
        what = "worker has grown" if reason is KillReason.MEMORY else "worker moves"
        logger.info(what, extra=dict(worker.name))
        try:
            successor = await self._launcher.spawn()
        except (OSError, AiocgError) as error:
            logger.warning("no successor for a worker", extra={**worker.name, "cause": brief(error)})
            if slot.drain(reason):
                worker.drain()  # there may be room for a successor when this one is gone
            return
        self._successors[index] = successor
        watch = Stopwatch(self._clock())
        while self._successors.get(index) is successor:  # until the old worker dies and the successor takes over
            late = watch.passed(self._clock()) > self._policy.start_timeout
            if self._runners[index].done() or self._lives[index] not in (life, None) or late:
                await self._dispose(index)
            elif successor.look().sequence > 0:
                if slot.drain(reason):
                    worker.drain()
                return  # the successor takes over when the old worker ends, for whatever reason
            else:
                await asyncio.sleep(TICK)

    def interrupt(self, error: Exception) -> None:
        """Fail all requests, and replace the busy workers, since an execution cannot be stopped."""
        for slot, worker, life in zip(self._slots, self.workers, self._lives, strict=True):
            if worker.interrupt(error) and life is not None and slot.state is not SlotState.DYING:
                life.condemned = life.process.look().execution
                slot.condemn(KillReason.CANCELLED, self._clock())
                life.process.kill()

    async def close(self) -> None:
        """End every worker and wait until they are gone; pending requests fail with `RuntimeClosed`."""
        self._closing.set()
        self._monitor.cancel()
        for worker in self.workers:
            worker.close()
        for life in self._lives:
            if life is not None:
                life.process.kill()
        await asyncio.gather(self._monitor, *self._runners, *self._replacing.values(), return_exceptions=True)
