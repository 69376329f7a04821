"""The client's handle of one worker slot: requests in order, through however many processes the slot goes."""

import asyncio
import logging
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import Interrupted, NoRoom, Quarantined, RuntimeClosed, failure
from aiocg.fleet._suspicion import Deed, Trial
from aiocg.fleet._withdrawal import is_abandoned, movable, overdue, sort_out_abandoned
from aiocg.fleet.blame import CANCELLED, Judge, Judgement, Records, Tally, brief
from aiocg.fleet.placement import WorkerLoad
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.requests import (
    PROCESS_LOCAL,
    Pending,
    PendingClose,
    PendingExpand,
    PendingFork,
    PendingForkAhead,
    PendingLoad,
    PendingOpen,
    PendingProbe,
    PendingRebuild,
    PendingReopen,
    PendingStep,
    PendingUnload,
    StandIn,
    resendable,
)
from aiocg.fleet.restart_policy import Death
from aiocg.transport.channels import Connect, RequestChannel
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError, VersionError
from aiocg.transport.messages import PROTOCOL_VERSION as PROTOCOL
from aiocg.transport.messages import Failure, FailureCode, Fork, Hello, Refused, Reply, Step, Welcome, check_welcome
from aiocg.transport.status import NO_CANDIDATE

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable


class _RequestQueue:
    """Requests without a reply, in order; each is in one of two collections, which stay the same objects.

    Attributes:
        sent: requests sent to the present process, by number.
        backlog: requests that have not been sent to it.
    """

    def __init__(self) -> None:
        self.sent: dict[int, Pending] = {}
        self.backlog: deque[Pending] = deque()

    def has_work(self) -> bool:
        """Return whether the process has requests other than those that free memory."""
        return not all(isinstance(one, (PendingClose, PendingUnload)) for one in self.sent.values())

    def is_unwanted(self, number: int) -> bool:
        """Return whether nobody waits any more for what a request that was sent is executed for."""
        pending = self.sent.get(number)
        return pending is not None and is_abandoned(pending, self.sent.values())

    def overdue(self, executed: int, now: float) -> list[Pending]:
        """Return the requests that have just become overdue, except the one being executed."""
        return overdue([*(one for number, one in self.sent.items() if number != executed), *self.backlog], now)

    def take_sent(self) -> dict[int, Pending]:
        """Remove and return what was sent, by number."""
        sent = dict(self.sent)
        self.sent.clear()
        return sent

    def take_all(self) -> list[Pending]:
        """Remove and return everything, in order."""
        taken = [*self.sent.values(), *self.backlog]
        self.sent.clear()
        self.backlog.clear()
        return taken

    def take_sent_of(self, session: "Rebuildable") -> list[Pending]:
        """Remove and return what was sent for a session, except its rebuilding."""
        numbers = [
            number
            for number, pending in self.sent.items()
            if pending.session is session and not isinstance(pending, PendingRebuild)
        ]
        return [self.sent.pop(number) for number in numbers]

    def take_unsent_of(self, session: "Rebuildable") -> list[Pending]:
        """Remove and return the requests of a session that were not sent."""
        taken = [one for one in self.backlog if one.session is session]
        self.refill([one for one in self.backlog if one.session is not session])
        return taken

    def take_unsent_about(self, sessions: "Collection[Rebuildable]") -> list[Pending]:
        """Remove and return the requests, not sent, that concern any of some sessions, be it as a child."""
        chosen = set(sessions)
        taken = [one for one in self.backlog if not chosen.isdisjoint(one.binds())]
        self.refill([one for one in self.backlog if chosen.isdisjoint(one.binds())])
        return taken

    def refill(self, backlog: Iterable[Pending]) -> None:
        """Replace the backlog."""
        backlog = list(backlog)
        self.backlog.clear()
        self.backlog.extend(backlog)


REBUILD_TIMEOUT = 300.0  # seconds for each action of a replay, and for loading its benchmark
MAX_LOADED = 256  # benchmarks that a worker keeps loaded for resets; running sessions do not need theirs


class _Loads:
    """The benchmarks of one worker slot; the quarantine learns which ones workers of this kind have loaded."""

    def __init__(self, kind: str, quarantine: Quarantine) -> None:
        self._kind = kind
        self._quarantine = quarantine
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._errors: dict[str, Exception] = {}

    def forget(self) -> None:
        """Start anew with a process that has loaded nothing."""
        self._loaded.clear()

    def need(self, benchmark: Benchmark, timeout: float, needed_by: Pending) -> Iterator[Pending]:
        """Generate the requests after which a benchmark is loaded."""
        key = benchmark.key
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return
        self._errors.pop(key, None)
        self._loaded[key] = None
        if len(self._loaded) > MAX_LOADED:
            yield PendingUnload(None, self._loaded.popitem(last=False)[0])
        yield PendingLoad(None, benchmark, timeout, needed_by, self._succeeded, self._failed)

    def error(self, benchmark: Benchmark) -> Exception | None:
        """Return why a benchmark could not be loaded, None if it was not tried or succeeded."""
        return self._errors.get(benchmark.key)

    def _succeeded(self, benchmark: Benchmark) -> None:
        self._quarantine.loaded(self._kind, benchmark.key)

    def _failed(self, benchmark: Benchmark, error: Exception) -> None:
        self._loaded.pop(benchmark.key, None)
        self._errors[benchmark.key] = error
        while len(self._errors) > MAX_LOADED:  # the resets that needed the oldest errors have long failed
            del self._errors[next(iter(self._errors))]


class _Residents:
    """The sessions of one slot.

    Attributes:
        sessions: the sessions by number; a session that was dropped disappears by itself.
        bound: numbers of the sessions that the present process knows; always the same object.

    Args:
        kind: of the worker.
        quarantine: learns which benchmarks workers of this kind have loaded.
        records: of the slot.
        flush: called soon after a session was released; it should call `take_released`.
    """

    def __init__(self, kind: str, quarantine: Quarantine, records: Records, flush: Callable[[], None]) -> None:
        self.sessions: weakref.WeakValueDictionary[int, Rebuildable] = weakref.WeakValueDictionary()
        self.bound: set[int] = set()
        self._released: list[int] = []
        self.loads = _Loads(kind, quarantine)
        self._records = records
        self._flush = flush

    def adopt(self, session: "Rebuildable") -> None:
        """Add a session."""
        self.sessions[session.number] = session

    def leave(self, session: "Rebuildable") -> None:
        """Remove a session that moves to another slot."""
        self.sessions.pop(session.number, None)

    def release(self, session: "Rebuildable") -> None:
        """Remove a session and free it on the process."""
        self.sessions.pop(session.number, None)
        self.release_number(session.number)

    def release_number(self, number: int) -> None:
        """Free a session by number; numbers released in one turn of the event loop travel together."""
        if not self._released:
            asyncio.get_running_loop().call_soon(self._flush)
        self._released.append(number)

    def take_released(self) -> tuple[int, ...]:
        """Return the numbers of the sessions to free, and consider them freed."""
        numbers, self._released = tuple(self._released), []
        self.bound.difference_update(numbers)
        return numbers

    def release_closed(self) -> None:
        """Release the sessions that were closed after requests had bound them again."""
        self._released += self.bound.difference(self.sessions.keys())

    def unbind_closed(self, requests: Iterable[Pending]) -> set[int]:
        """Return the numbers of closed sessions that some requests have just bound again, and unbind them."""
        closed = {session.number for pending in requests for session in pending.binds() if session.closed}
        self.bound -= closed
        return closed

    def forget_process(self) -> None:
        """Start anew with a process that knows nothing."""
        self.loads.forget()
        self.bound.clear()

    def prepare(self, pending: Pending, session: "Rebuildable") -> Iterator[Pending]:
        """Generate the requests to send before one, so that the process has its session's benchmark and state.

        A session that lived on an earlier process is rebuilt only when it is first needed, so idle sessions cost a
        restart nothing.
        """
        if isinstance(pending, PendingOpen):
            yield from self.loads.need(pending.benchmark, pending.loading or pending.timeout, pending)
            pending.replaces = session.number in self.bound
            self.bound.add(session.number)
            session.ended = False
        elif session.number not in self.bound and session.trajectory is not None:
            trajectory = session.trajectory
            timeout = REBUILD_TIMEOUT * (trajectory.length + 1)
            self._records.rebuilt(session)
            yield from self.loads.need(trajectory.benchmark, REBUILD_TIMEOUT, pending)
            yield PendingReopen(session, trajectory, timeout)
            yield PendingRebuild(session, trajectory, timeout)
            self.bound.add(session.number)
        if isinstance(pending, PendingFork):
            self.bound.add(pending.child.number)
            pending.child.ended = False


PROBE_TIMEOUT = 60.0  # seconds for an observation that is repeated

logger = logging.getLogger("aiocg.fleet.slot")


class WorkerSlot:
    """One slot: a connection while a process is up, a backlog while none is.

    Each request takes effect once, whatever happens to the process: when it is replaced, sessions are rebuilt from the
    acknowledged actions, and the requests without a reply are sent again.

    Attributes:
        quarantine: the questions that killed workers.
        name: the slot's log fields.
        tally: the slot's counters.
        welcome: done when the first process is ready.
        failure: why the slot was given up, None while it is in use.
        queue: the requests without a reply.
        residents: the sessions of the slot.
    """

    def __init__(
        self, client: str, name: Mapping[str, Any] = MappingProxyType({}), quarantine: Quarantine | None = None
    ) -> None:
        self.quarantine = quarantine if quarantine is not None else Quarantine(0)
        self.name = name
        self.tally = Tally()
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self.failure: Exception | None = None
        self._client = client
        self._channel: RequestChannel | None = None
        self._greeted, self._number = False, 0
        self._flowing = False  # requests are passed on to the process
        self._lone: Rebuildable | None = None  # whose reply was the last, if that came alone
        self._relieved = False  # the request that killed the last process was removed
        self.queue = _RequestQueue()
        self._kind, self._records = name.get("kind", ""), Records(name, self.tally, self.quarantine)
        self.residents = _Residents(self._kind, self.quarantine, self._records, self._flush_released)
        # Looked up for every step:
        self._waiting, self._backlog, self._bound = self.queue.sent, self.queue.backlog, self.residents.bound
        self._judge = Judge(self._kind, self._records, self.quarantine)
        self._suspicion = self._judge.suspicion
        self._greeting: Callable[[Welcome | Refused], None] | None = None
        self._broken: Callable[[Exception], None] | None = None

    # ------------------------------------------------------------------------------------------ load

    @property
    def usable(self) -> bool:
        """False once the slot has been given up."""
        return self.failure is None

    @property
    def flowing(self) -> bool:
        """Does a process take requests as they come?"""
        return self._flowing

    @property
    def waiting(self) -> int:
        """Number of requests sent to the process and not answered, even if the reply is held back."""
        trial = self._suspicion.trial
        return len(self._waiting) - (trial is not None and trial.is_answered(self._waiting))

    @property
    def pending(self) -> int:
        """Number of requests without a reply, sent or not."""
        return len(self._waiting) + len(self._backlog)

    @property
    def sent(self) -> int:
        """Number of requests sent to any process so far, recovery and repeats included."""
        return self._number

    @property
    def channel(self) -> RequestChannel | None:
        """The connection to the process, None while there is none."""
        return self._channel

    def load_now(self) -> WorkerLoad:
        """Return how busy the slot is, for placement."""
        return WorkerLoad(self.usable, len(self.residents.sessions), self.pending)

    # ------------------------------------------------------------------------------------ connection

    def connect(
        self, connect: Connect, greeted: Callable[[Welcome | Refused], None], broken: Callable[[Exception], None]
    ) -> None:
        """Talk to a new process; requests flow once it has sent its welcome.

        Args:
            connect: opens a channel to the process.
            greeted: called with the process's answer to the hello.
            broken: called when the process sends garbage; the caller must then kill it.
        """
        self._greeting, self._broken, self._greeted = greeted, broken, False
        self._channel = connect(self._receive, self._channel_error)
        self._channel.send(Hello(PROTOCOL, self._client))

    def _receive(self, replies: list[Reply]) -> None:
        for reply in replies:
            if isinstance(reply, (Welcome, Refused)):
                self._greet(reply)
                if self._channel is None:
                    return
                continue
            pending = self._waiting.get(reply.request)
            if pending is None:
                continue
            if not pending.accepts(reply):
                self._distrust(RemoteProtocolError(f"{pending.doing} was answered by {type(reply).__name__}"))
                return
            trial = self._suspicion.trial
            if trial is not None and trial.request is pending:
                trial.reply, trial.number = reply, reply.request
                continue
            self._lone = pending.session if len(replies) == 1 else None
            if not self._settle(reply.request, pending, reply):
                return
        if self._suspicion.trying and not self.waiting:
            self._send_next()

    def _settle(self, number: int, pending: Pending, reply: Reply) -> bool:
        """Deliver a reply; return whether the process can be believed."""
        del self._waiting[number]
        if self._suspicion.trying and not isinstance(pending, PROCESS_LOCAL):
            self._suspicion.answered(pending, reply)
        pending.settle(reply)
        if isinstance(reply, Failure):
            self.tally.failed(reply.code)
            if reply.code == FailureCode.PROTOCOL:  # the worker dropped the whole batch
                self._distrust(RemoteProtocolError(reply.message))
                return False
        return True

    def _distrust(self, error: Exception) -> None:
        """Accept nothing more from a process that lost a request or a reply: later replies would be out of context."""
        self._disconnect()
        if self._broken is not None:
            self._broken(error)

    def _greet(self, answer: Welcome | Refused) -> None:
        assert self._greeting is not None and self._broken is not None
        if self._greeted:  # the process could not read a request, and does not say which
            self._distrust(RemoteProtocolError(f"the worker answered {answer}"))
            return
        try:
            check_welcome(answer)
        except VersionError as error:
            answer = Refused(FailureCode.PROTOCOL, str(error))
        if isinstance(answer, Welcome):
            self._greeted = self._flowing = True
            if not self.welcome.done():
                self.welcome.set_result(answer)
            self._resume()
        self._greeting(answer)

    def _channel_error(self, error: Exception) -> None:
        number = getattr(error, "request", None)
        if number is not None and number in self._waiting:
            self._waiting.pop(number).reject(error)
            self._receive([])  # the next request may have been held back until this one's reply
        else:
            self._distrust(error)

    def _resume(self) -> None:
        """Send the requests without a reply to a new process, in order, except those that nobody waits for."""
        self.residents.forget_process()
        wanted, unwanted = sort_out_abandoned(self._backlog)
        for pending in unwanted:
            pending.take_back()
        self.queue.refill(wanted)
        self._flowing = False
        self._suspicion.begin(wanted)
        self._send_next()
        for pending in unwanted:  # last, because a caller that learns of it may make its next request at once
            self.tally.failed(CANCELLED)
            pending.reject(Interrupted("this was cancelled"))

    def _send_next(self) -> None:
        """Send the next request where they go one at a time; once those are answered, send all others at once."""
        suspicion = self._suspicion
        while not self.waiting:
            if suspicion.trial is not None:
                if not self._go_on(suspicion.trial):
                    return
            elif not self._backlog or not (suspicion.left or suspicion.doubts(self._backlog[0])):
                break
            elif suspicion.tries(self._backlog[0]) is None:
                self._send_first()
        if self.waiting:
            return
        suspicion.end()
        self._flowing = True
        while self._backlog and self._flowing:
            if suspicion.doubts(self._backlog[0]):
                self._hold()
                return
            self.send(self._backlog.popleft())
        self.residents.release_closed()
        self._flush_released()

    def _send_first(self) -> None:
        self._flowing = True
        self.send(self._backlog.popleft())
        self._flowing = False

    def _hold(self) -> None:
        """Send requests one at a time from now on, because one of them must be put on trial."""
        self._flowing = False
        self._suspicion.interrupt()
        if not self._waiting:
            self._send_next()

    def _go_on(self, trial: Trial) -> bool:
        """Do what comes next in a trial while nothing is in flight; return False if that is to wait for a while."""
        if not trial.sent:
            if not self._backlog or self._backlog[0] is not trial.request:  # it was withdrawn
                self._suspicion.trial = None
            elif trial.before:
                self._probe(trial.before.popleft())
            else:
                trial.sent = True
                self._send_first()
        elif not trial.is_answered(self._waiting):  # it was refused, or has failed in the meantime
            self._suspicion.trial = None
        elif trial.lingering:
            return False
        elif trial.after is None:
            self._suspicion.heard(trial, asyncio.get_running_loop().time())
        elif trial.after:
            what = trial.after.popleft()
            if isinstance(what, float):
                trial.lingering = True
                asyncio.get_running_loop().call_later(what, self._has_lingered, trial)
                return False
            self._probe(what)
            if asyncio.get_running_loop().time() > trial.until:
                trial.after = deque([trial.after[-1]])  # what is repeated takes long
        elif not self._suspicion.goes_on(trial, asyncio.get_running_loop().time()):
            self._end_trial()
        return self._channel is not None

    def _has_lingered(self, trial: Trial) -> None:
        trial.lingering = False
        if self._suspicion.trial is trial and not self.waiting:
            self._send_next()

    def _end_trial(self) -> None:
        """Deliver the reply that was held back, if there is one."""
        trial, self._suspicion.trial = self._suspicion.trial, None
        if trial is not None and trial.reply is not None and trial.number in self._waiting:
            self._settle(trial.number, trial.request, trial.reply)

    def _probe(self, what: Deed | Pending) -> None:
        """Repeat something on the process, to see whether it survives that."""
        if isinstance(what, Pending):
            self._post(PendingProbe(None, what.message))
            return
        session, child = (StandIn(self, what.trajectory) for _ in range(2))
        probe = PendingProbe(None, lambda number: Step(number, session.number, (), PROBE_TIMEOUT, what.observe))
        for needed in self.residents.prepare(probe, session):
            self._post(needed)
        self._post(probe)
        self._post(PendingProbe(None, lambda number: Fork(number, session.number, child.number)))
        self.residents.bound.discard(session.number)
        self._post(PendingClose(None, (session.number, child.number)))

    def _flush_released(self) -> None:
        if not self._suspicion.trying:
            self._free(self.residents.take_released())

    def _free(self, numbers: Iterable[int]) -> None:
        """Free sessions on the process; one that is not up yet never hears of them."""
        numbers = tuple(numbers)
        if numbers and self._flowing:
            self._post(PendingClose(None, numbers))

    # -------------------------------------------------------------------------------------- requests

    def send(self, pending: Pending) -> None:
        """Send a request, after those that it depends on; without a process, add it to the backlog."""
        if not self._flowing:
            if self.failure is not None:
                pending.reject(self.failure)
            else:
                self._backlog.append(pending)
            return
        session = pending.session
        if session is not None:
            if session.error is not None:
                pending.reject(session.error)
                return
            if session.number in self._suspicion.doubted and not self._suspicion.trying:
                self._backlog.append(pending)
                self._hold()
                return
            if session.ended and isinstance(pending, PendingStep) and pending.actions:
                # A new process does not know that an action of this session failed on the old one.
                pending.reject(failure(FailureCode.SESSION_ENDED, "an earlier action of this session failed"))
                return
            if self.quarantine.suspects and self._refuses(pending, session):
                return
            if pending.binds_anew or session.number not in self._bound:
                for needed in self.residents.prepare(pending, session):
                    self._post(needed)
        alone = session is not None and session is self._lone and not self._waiting and pending.future is not None
        self._post(pending, at_once=alone)

    def _refuses(self, pending: Pending, session: "Rebuildable") -> bool:
        """Reject a quarantined request, or mark the quarantined candidates of one; return whether it was rejected."""
        if isinstance(pending, PendingExpand):
            for candidate in range(len(pending.candidates)):
                if (error := self._refusal(pending, session, candidate)) is not None:
                    pending.crashes.setdefault(candidate, error)
        elif (error := self._refusal(pending, session)) is not None:
            session.ended = session.ended or (isinstance(pending, PendingStep) and bool(pending.actions))
            pending.reject(error)
            return True
        return False

    def _refusal(self, pending: Pending, session: "Rebuildable", candidate: int = NO_CANDIDATE) -> Quarantined | None:
        error = self.quarantine.refusal(self._kind, pending, candidate)
        if error is None:
            return None
        at_rest = not any(session in one.changes() for one in self._waiting.values())  # so its state is known
        if at_rest or isinstance(pending, PendingOpen):
            self._records.refused(pending, session, error)
            return error
        return None

    def fork_ahead(self, pending: PendingForkAhead) -> None:
        """Send a fork that nobody waits for; without a process, the child is rebuilt when it is first used."""
        self._bound.discard(pending.child.number)
        if self._flowing and not self._suspicion.doubts(pending):
            self.send(pending)

    def _post(self, pending: Pending, *, at_once: bool = False) -> None:
        assert self._channel is not None
        self._number = number = self._number + 1
        try:
            self._channel.send(pending.message(number), at_once=at_once)
        except LocalProtocolError as error:
            pending.reject(error)
        else:
            self._waiting[number] = pending

    def unbind(self, session: "Rebuildable") -> None:
        """Have a session, which the process has lost, rebuilt before its next request, and resend those in flight."""
        self._bound.discard(session.number)
        for number, pending in list(self._waiting.items()):
            if pending.binds_anew and session in pending.changes():
                return
            if pending.session is session and not isinstance(pending, PROCESS_LOCAL):
                del self._waiting[number]  # so its answer is ignored
                self.send(pending)

    def abandon(self, session: "Rebuildable") -> None:
        """Fail all requests of a session that cannot be rebuilt; the replies to those in flight are ignored."""
        assert session.error is not None
        self._records.lost(session, session.error)
        for pending in self.queue.take_sent_of(session):
            pending.reject(session.error)
            if isinstance(pending, PendingFork):
                pending.lose_child(session.error)
        for pending in self.queue.take_unsent_of(session):
            pending.reject(session.error)

    def interrupt(self, error: Exception) -> bool:
        """Fail every request; return whether the process is busy with any, and must be replaced.

        Sessions that were being rebuilt are not lost: the next process rebuilds them when they are needed.
        """
        was_busy = self.queue.has_work()
        self._suspicion.end()
        self._flowing = self._flowing and not was_busy
        for pending in self.queue.take_all():
            if not isinstance(pending, PendingRebuild):
                pending.reject(error)
        return was_busy

    def drain(self) -> None:
        """Send nothing more to the process; new requests wait for its successor."""
        self._end_trial()
        self._flowing = self._suspicion.trying = False

    # ------------------------------------------------------------------------------------------ death

    def died(self, death: Death) -> bool:
        """Handle the end of the process: keep its unanswered requests, and blame one of them if need be.

        Returns:
            Whether the request behind a series of unexplained deaths was found.
        """
        if self._channel is not None:
            self._channel.receive_pending()  # replies sent before the end count
        self._disconnect()
        resent = resendable((sent := self.queue.take_sent()).values())
        judgement = self._judge.judge(death, sent, [*resent, *self._backlog], self.residents.bound)
        self._carry_out(judgement)
        self._relieved = bool(judgement.failed)
        self.tally.resent += len(set(self._backlog).intersection(resent))
        return judgement.convicted

    def _carry_out(self, judgement: Judgement) -> None:
        self.queue.refill(judgement.backlog)
        for _ in range(judgement.cancelled):
            self.tally.failed(CANCELLED)
        for pending, error in judgement.failed:
            pending.reject(error)
        for session, error in judgement.lost:
            session.lose(error)

    def give_up(self, error: Exception, heir: "WorkerSlot | None" = None) -> None:
        """Give the slot up: an heir takes over its sessions and requests; without an heir, they fail.

        The sessions stay together, since forks between them need one process.
        """
        if not isinstance(error, RuntimeClosed | NoRoom):
            logger.error("slot given up", extra={**self.name, "cause": brief(str(error).partition("\n")[0])})
        self._disconnect()
        self.failure = error
        if heir is not None:
            self._bequeath(error, heir)
            return
        for pending in self.queue.take_all():
            pending.reject(error)
        for session in list(self.residents.sessions.values()):
            session.error = session.error or error
        if not self.welcome.done():
            self.welcome.set_exception(error)
            self.welcome.exception()  # marks it as retrieved: nobody may be waiting now

    def reopen(self) -> None:
        """Use the slot again, after an heir has taken everything over."""
        self.failure = None
        if self.welcome.done():  # otherwise somebody may wait for it
            self.welcome = asyncio.get_running_loop().create_future()

    def _bequeath(self, error: Exception, heir: "WorkerSlot") -> None:
        self._carry_out(self._judge.disinherit([*resendable(self.queue.take_sent().values()), *self._backlog], error))
        bound = [session for pending in self._backlog for session in pending.binds()]
        self._move(list(dict.fromkeys([*bound, *self.residents.sessions.values()])), heir)
        for pending in self.queue.take_all():  # requests of no session
            heir.send(pending)
        if not self.welcome.done():
            heir.welcome.add_done_callback(self._welcome_of_heir)

    def relieve(self, heir: "WorkerSlot", *, everybody: bool) -> int:
        """Move sessions that wait to an heir with a process; return how many moved.

        That is half of those that have waited for long, unless the cause was removed with the process that has just
        died; if `everybody`, all that wait, as there is no process for them.
        """
        sessions = movable(self._backlog, everybody=everybody) if everybody or not self._relieved else []
        self._move(sessions, heir)
        if everybody and not self.welcome.done():
            self._welcome_of_heir(heir.welcome)  # somebody may wait for what any worker of the kind says
        return len(sessions)

    def _move(self, sessions: "Collection[Rebuildable]", heir: "WorkerSlot") -> None:
        moved = self.queue.take_unsent_about(sessions)
        for session in sessions:
            self.residents.leave(session)
            session.worker = heir
            if not session.closed:
                heir.residents.adopt(session)
        for pending in moved:
            heir.send(pending)
        if heir._flowing:
            heir._free(heir.residents.unbind_closed(moved))

    def _welcome_of_heir(self, welcome: "asyncio.Future[Welcome]") -> None:
        """Pass the heir's welcome on to those who wait for ours, unless the runtime was closed."""
        if not self.welcome.done() and not welcome.cancelled():
            if (error := welcome.exception()) is not None:
                self.welcome.set_exception(error)
                self.welcome.exception()
            else:
                self.welcome.set_result(welcome.result())

    def close(self) -> None:
        """Fail everything, because the runtime closes."""
        self.give_up(RuntimeClosed("the runtime was closed"))

    def _disconnect(self) -> None:
        self._greeted = self._flowing = False
        if self._channel is not None:
            self.tally.bytes_sent += self._channel.bytes_sent
            self.tally.bytes_received += self._channel.bytes_received
            self._channel.close()
            self._channel = None
