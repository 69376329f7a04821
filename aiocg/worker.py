"""The client's handle of one worker slot: requests in order, through however many processes the slot goes."""

import asyncio
import logging
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.death import Death
from aiocg.errors import Interrupted, InvalidAction, Quarantined, RuntimeClosed, failure
from aiocg.placement import WorkerLoad
from aiocg.quarantine import Quarantine
from aiocg.records import Records
from aiocg.repairs import (
    OF_ONE_PROCESS,
    PendingClose,
    PendingLoad,
    PendingRebuild,
    PendingReopen,
    PendingUnload,
    made_before,
    postponed,
)
from aiocg.requests import (
    Pending,
    PendingCheck,
    PendingExpand,
    PendingFork,
    PendingForkAhead,
    PendingOpen,
    PendingStatistics,
    PendingStep,
)
from aiocg.telemetry.logs import brief
from aiocg.telemetry.tally import CANCELLED, QUARANTINED, Tally
from aiocg.transport.channels import Connect, RequestChannel
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError, VersionError
from aiocg.transport.handshake import check_welcome
from aiocg.transport.messages import PROTOCOL_VERSION as PROTOCOL
from aiocg.transport.messages import Action, Failure, FailureCode, Hello, Refused, Reply, Welcome
from aiocg.transport.status import NO_CANDIDATE
from aiocg.withdrawal import is_abandoned, served_by, sort_out_abandoned, sort_out_lost

if TYPE_CHECKING:
    from aiocg.session import Session

REBUILD_TIMEOUT = 300.0  # seconds for each action of a replay, and for loading its benchmark
MAX_ATTEMPTS = 5  # a request that was executing at this many deaths is held responsible, whatever killed the worker
MAX_REPAIRS = 20  # the same for loads and rebuilds, which a killer at random hits more often than anything else
MAX_LOADED = 256  # benchmarks a worker keeps at hand for resets; sessions do not need theirs to stay loaded

logger = logging.getLogger("aiocg.worker")


class Worker:
    """One slot: a connection while a process is up, a backlog while none is.

    Whatever happens to the process, requests are answered in order and each one takes effect once: when a process is
    replaced, the sessions are rebuilt from what was acknowledged and the requests without a reply are sent again.
    """

    def __init__(
        self, client: str, name: Mapping[str, Any] = MappingProxyType({}), quarantine: Quarantine | None = None
    ) -> None:
        self.quarantine = quarantine if quarantine is not None else Quarantine(0)
        self.name = name  # the slot's, as the fields that the logs have
        self.tally = Tally()
        self._records = Records(name, self.tally, self.quarantine)
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self.failure: Exception | None = None
        self._client = client
        self._channel: RequestChannel | None = None
        self._greeted = False
        self._flowing = False  # requests go to the process as they come
        self._number = 0
        self._waiting: dict[int, Pending] = {}
        self._backlog: deque[Pending] = deque()
        self._sessions: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._load_errors: dict[str, Exception] = {}
        self._released: list[int] = []
        self._bound: set[int] = set()  # numbers of the sessions that the present process knows
        self._greeting: Callable[[Welcome | Refused], None] | None = None
        self._broken: Callable[[Exception], None] | None = None

    # ------------------------------------------------------------------------------------------ load

    @property
    def usable(self) -> bool:
        """False once the slot was given up."""
        return self.failure is None

    @property
    def waiting(self) -> int:
        """Number of requests that the process has and has not answered."""
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """Number of requests that were made and are not answered."""
        return len(self._waiting) + len(self._backlog)

    @property
    def sent(self) -> int:
        """Number of requests that were sent to any process, repairs and repetitions included."""
        return self._number

    @property
    def channel(self) -> RequestChannel | None:
        """The connection to the process, None while there is none."""
        return self._channel

    def load_now(self) -> WorkerLoad:
        """Say how busy the worker is, for placement."""
        return WorkerLoad(self.usable, len(self._sessions), self.pending)

    # ------------------------------------------------------------------------------------ connection

    def connect(
        self, connect: Connect, greeted: Callable[[Welcome | Refused], None], broken: Callable[[Exception], None]
    ) -> None:
        """Talk to a new process; requests flow once it has said welcome.

        Args:
            connect: opens a channel to it.
            greeted: called with its answer to the hello.
            broken: called when it sends garbage; the process is to be killed then.
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
            if pending is not None:
                if not pending.accepts(reply):
                    self._distrust(RemoteProtocolError(f"{pending.doing} was answered by {type(reply).__name__}"))
                    return
                del self._waiting[reply.request]
                pending.settle(reply)
                if type(reply) is Failure:
                    self.tally.failed(reply.code)
                    if reply.code == FailureCode.PROTOCOL:  # what was sent with it has not been read either
                        self._distrust(RemoteProtocolError(reply.message))
                        return

    def _distrust(self, error: Exception) -> None:
        """Take nothing more from a process when a reply or a request was lost: it would count without that one."""
        self._disconnect()
        if self._broken is not None:
            self._broken(error)

    def _greet(self, answer: Welcome | Refused) -> None:
        assert self._greeting is not None and self._broken is not None
        if self._greeted:  # it could not read what we sent, and does not say which request that was
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
        else:
            self._distrust(error)

    def _resume(self) -> None:
        """Send what has no reply yet to the new process, in the old order, but nothing that nobody waits for."""
        self._loaded.clear()
        self._bound.clear()
        backlog, unwanted = sort_out_abandoned(self._backlog)
        self._backlog = deque()
        for pending in unwanted:
            pending.take_back()
        for pending in backlog:
            self._transmit(pending)
        for pending in unwanted:  # after the others: whoever is told may make the next request at once
            self.tally.failed(CANCELLED)
            pending.reject(Interrupted("this was cancelled"))
        self._release_closed(backlog)

    def _release_closed(self, resent: Iterable[Pending]) -> None:
        """Free sessions that were closed meanwhile, and have just been bound again by what they still waited for."""
        closed = {session.number for pending in resent for session in pending.binds() if session.closed}
        if closed and self._flowing:
            self._bound -= closed
            self._post(PendingClose(tuple(closed)))

    # -------------------------------------------------------------------------------------- requests

    def send(self, pending: Pending) -> None:
        """Send a request now, or when there is a process to send it to."""
        if self.failure is not None:
            pending.reject(self.failure)
        elif self._flowing:
            self._transmit(pending)
        else:
            self._backlog.append(pending)

    def fork_ahead(self, pending: PendingForkAhead) -> None:
        """Send a fork that nobody waits for; where there is no process to send it to, the child is rebuilt one day."""
        self._bound.discard(pending.child.number)
        if self._flowing:
            self._transmit(pending)

    def _transmit(self, pending: Pending) -> None:
        """Send a request to the process, and before it what the process needs to know to carry it out."""
        session = pending.session
        if session is not None:
            if session.error is not None:
                pending.reject(session.error)
                return
            if session.ended and isinstance(pending, PendingStep) and pending.actions:
                # Its process would have refused this, had it lived to do so; the next one does not know.
                pending.reject(failure(FailureCode.SESSION_ENDED, "an earlier action of this session failed"))
                return
            if self.quarantine.has_suspects and self._refuse(pending, session):
                return
            self._prepare(pending, session)
        self._post(pending)

    def _refuse(self, pending: Pending, session: "Session") -> bool:
        """Refuse what has killed its worker before, or those candidates that have; say whether nothing is left to do.

        What state a request starts from can only be told while no other that changes it is in flight.
        """
        if isinstance(pending, PendingExpand):
            for candidate in range(len(pending.candidates)):
                if (error := self._refusal(pending, session, candidate)) is not None:
                    pending.crashes.setdefault(candidate, error)
        elif (error := self._refusal(pending, session)) is not None:
            session.ended = session.ended or (isinstance(pending, PendingStep) and bool(pending.actions))
            pending.reject(error)
            return True
        return False

    def _refusal(self, pending: Pending, session: "Session", candidate: int = NO_CANDIDATE) -> Quarantined | None:
        error = self.quarantine.refusal(self.name.get("kind", ""), pending, candidate)
        known = isinstance(pending, PendingOpen) or not any(session in one.changes() for one in self._waiting.values())
        if error is None or not known:
            return None
        self.tally.failed(QUARANTINED)
        fields = {"session": session.number, "doing": brief(pending.doing), "cause": error.causes[-1]}
        logger.info("request refused by quarantine", extra={**self.name, **fields})
        return error

    def _post(self, pending: Pending) -> None:
        assert self._channel is not None
        self._number = number = self._number + 1
        try:
            self._channel.send(pending.message(number))
        except LocalProtocolError as error:
            pending.reject(error)
        else:
            self._waiting[number] = pending

    def _prepare(self, pending: Pending, session: "Session") -> None:
        """See to it that the process has the session's benchmark and state.

        A session that the process does not know, because it lived on an earlier one, is rebuilt when it is first
        needed: idle ones cost a restart nothing.
        """
        if isinstance(pending, PendingOpen):
            self._load(pending.benchmark, pending.timeout)
            pending.replaces = session.number in self._bound
            self._bound.add(session.number)
            session.ended = False
        elif session.number not in self._bound and session.trajectory is not None:
            trajectory = session.trajectory
            timeout = REBUILD_TIMEOUT * (trajectory.length + 1)
            self.tally.rebuilt += 1
            logger.debug("session rebuilt", extra={**self.name, "session": session.number})
            self._load(trajectory.benchmark, REBUILD_TIMEOUT)
            self._post(PendingReopen(session, trajectory, timeout))
            self._post(PendingRebuild(session, trajectory, timeout))
            self._bound.add(session.number)
        if isinstance(pending, PendingFork):
            self._bound.add(pending.child.number)
            pending.child.ended = False

    def _load(self, benchmark: Benchmark, timeout: float) -> None:
        key = benchmark.key
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return
        self._load_errors.pop(key, None)
        self._loaded[key] = None
        if len(self._loaded) > MAX_LOADED:
            oldest, _ = self._loaded.popitem(last=False)
            self._post(PendingUnload(oldest))
        self._post(PendingLoad(benchmark, timeout, self._load_failed))

    def load_error(self, benchmark: Benchmark) -> Exception | None:
        """Return why a benchmark could not be loaded, if it could not."""
        return self._load_errors.get(benchmark.key)

    def _load_failed(self, benchmark: Benchmark, error: Exception) -> None:
        self._loaded.pop(benchmark.key, None)
        self._load_errors[benchmark.key] = error
        while len(self._load_errors) > MAX_LOADED:  # the resets behind the oldest have long failed
            del self._load_errors[next(iter(self._load_errors))]

    def unbind(self, session: "Session") -> None:
        """Have a session rebuilt before its next request: what the process knows of it is uncertain."""
        self._bound.discard(session.number)

    async def check(self, actions: Sequence[Action]) -> list[Exception | None]:
        """Ask whether each of some texts is an action; return None for each that is, and for others what is wrong."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in actions]
        for action, future in zip(actions, futures, strict=True):
            self.send(PendingCheck((action,), future))
        answers = await asyncio.gather(*futures, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, InvalidAction):
                raise answer
        return [answer if isinstance(answer, InvalidAction) else None for answer in answers]

    async def statistics(self) -> dict[str, Any]:
        """Return the worker's counters."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.send(PendingStatistics(future))
        return await future

    # -------------------------------------------------------------------------------------- sessions

    def adopt(self, session: "Session") -> None:
        """Take responsibility for a session."""
        self._sessions[session.number] = session

    def release(self, session: "Session") -> None:
        """Forget a session and free it on the process."""
        self._sessions.pop(session.number, None)
        self.release_number(session.number)

    def release_number(self, number: int) -> None:
        """Free a session by its number; the numbers released in one turn of the loop travel together."""
        if not self._released:
            asyncio.get_running_loop().call_soon(self._flush_released)
        self._released.append(number)

    def _flush_released(self) -> None:
        numbers, self._released = tuple(self._released), []
        self._bound.difference_update(numbers)
        if self._flowing:  # a process that comes later never hears of them
            self._post(PendingClose(numbers))

    def abandon(self, session: "Session") -> None:
        """Fail what a session that is beyond rebuilding still waits for; what is sent is executed for nothing."""
        assert session.error is not None
        self.tally.lost += 1
        cause = getattr(session.error, "cause", type(session.error).__name__)
        logger.warning("session lost", extra={**self.name, "session": session.number, "cause": cause})
        for number, pending in list(self._waiting.items()):
            if pending.session is session and not isinstance(pending, PendingRebuild):
                del self._waiting[number]
                pending.reject(session.error)
                if isinstance(pending, PendingFork):
                    pending.lose_child(session.error)
        for pending in [p for p in self._backlog if p.session is session]:
            self._backlog.remove(pending)
            pending.reject(session.error)

    def interrupt(self, error: Exception) -> bool:
        """Give up every request in flight; return whether the process had any, which it would go on with.

        Rebuilding is not given up: a session that is needed again is rebuilt again, by the next process.
        """
        was_busy = not all(isinstance(pending, (PendingClose, PendingUnload)) for pending in self._waiting.values())
        self._flowing = self._flowing and not was_busy  # what it still does counts for nothing that comes behind
        pendings = [*self._waiting.values(), *self._backlog]
        self._waiting, self._backlog = {}, deque()
        for pending in pendings:
            if not isinstance(pending, PendingRebuild):
                pending.reject(error)
        return was_busy

    def drain(self) -> None:
        """Send nothing more to the process: what comes is for its successor."""
        self._flowing = False

    def is_unwanted(self, number: int) -> bool:
        """Say whether nobody waits any more for a request that the process executes."""
        pending = self._waiting.get(number)
        return pending is not None and is_abandoned(pending, self._waiting.values())

    # ------------------------------------------------------------------------------------------ death

    def died(self, death: Death) -> None:
        """The process is gone: settle who is to blame, and keep the rest for the next process."""
        if self._channel is not None:
            self._channel.receive_pending()  # replies that came before the end count
        self._disconnect()
        waiting, self._waiting = self._waiting, {}
        guilty = waiting.get(death.execution.request) if death.execution is not None else None
        sent = [p for p in waiting.values() if not isinstance(p, OF_ONE_PROCESS)]
        self._backlog = deque([*sent, *self._backlog])
        if guilty is not None and death.cancelled:
            # What was made since then for the same repair is wanted.
            self._withdraw([one for one in served_by(guilty, self._backlog) if one.abandoned])
        elif guilty is not None:
            self._blame(guilty, death)
        kept = set(self._backlog)
        self.tally.resent += sum(pending in kept for pending in sent)

    def _withdraw(self, given_up: Sequence[Pending]) -> None:
        """Fail requests that were being executed and will not be again, and what was to start from where they lead."""
        possible, impossible = sort_out_lost(self._backlog, given_up)
        self._backlog = deque(possible)
        for pending in impossible:
            self.tally.failed(CANCELLED)
            pending.reject(
                Interrupted("a request that was made before this one was cancelled, so there is no state to start from")
            )

    def _blame(self, guilty: Pending, death: Death) -> None:
        assert death.execution is not None
        error = death.error(guilty.doing)
        candidate = death.execution.candidate
        if isinstance(guilty, PendingExpand) and candidate != NO_CANDIDATE:
            if guilty.died(candidate, death, MAX_ATTEMPTS):
                self._records.hold(guilty, death, None if made_before(guilty, self._backlog) else candidate)
            return
        repair = isinstance(guilty, OF_ONE_PROCESS)
        for pending in served_by(guilty, self._backlog):
            pending.attempts += 1
            if death.outside and pending.attempts < (MAX_REPAIRS if repair else MAX_ATTEMPTS):
                continue
            if pending is guilty and made_before(guilty, self._backlog):
                self._backlog = deque(postponed(guilty, self._backlog, error, partial(self._records.hold, death=death)))
                continue
            if pending in self._backlog:  # it may have gone with its session
                self._backlog.remove(pending)
                suspect = pending is guilty or (isinstance(guilty, PendingLoad) and isinstance(pending, PendingOpen))
                self._records.hold(pending, death, NO_CANDIDATE if suspect else None)
                pending.reject(error)
            if pending.session is not None and not (repair and isinstance(pending, PendingOpen)):
                pending.session.lose(error)

    def give_up(self, error: Exception, heir: "Worker | None" = None) -> None:
        """No process will come any more: another worker takes over the sessions and their requests, or all fails.

        The sessions stay together, since those that were forked from each other may be again.
        """
        if not isinstance(error, RuntimeClosed):
            logger.error("slot given up", extra={**self.name, "cause": brief(str(error).partition("\n")[0])})
        if heir is not None:
            self._bequeath(error, heir)
            return
        self._disconnect()
        self.failure = error
        pendings = [*self._waiting.values(), *self._backlog]
        self._waiting, self._backlog = {}, deque()
        for pending in pendings:
            pending.reject(error)
        for session in list(self._sessions.values()):
            session.error = session.error or error
        if not self.welcome.done():
            self.welcome.set_exception(error)
            self.welcome.exception()  # whoever makes an environment asks; nobody may be there to ask now

    def _bequeath(self, error: Exception, heir: "Worker") -> None:
        self._disconnect()
        self.failure = error
        backlog = [*(one for one in self._waiting.values() if not isinstance(one, OF_ONE_PROCESS)), *self._backlog]
        self._waiting, self._backlog = {}, deque()
        for session in {*self._sessions.values(), *(one for pending in backlog for one in pending.binds())}:
            session.worker = heir
            if not session.closed:
                heir.adopt(session)
        self._sessions.clear()
        for pending in backlog:
            heir.send(pending)
        heir._release_closed(backlog)
        if not self.welcome.done():
            heir.welcome.add_done_callback(self._welcome_of_heir)

    def _welcome_of_heir(self, welcome: "asyncio.Future[Welcome]") -> None:
        """Tell those who wait for our first process about that of the heir."""
        if self.welcome.done() or welcome.cancelled():
            return  # the runtime was closed meanwhile
        if (error := welcome.exception()) is not None:
            self.welcome.set_exception(error)
            self.welcome.exception()
        else:
            self.welcome.set_result(welcome.result())

    def close(self) -> None:
        """Fail everything because the runtime closes."""
        self.give_up(RuntimeClosed("the runtime was closed"))

    def _disconnect(self) -> None:
        self._greeted = self._flowing = False
        if self._channel is not None:
            self.tally.bytes_sent += self._channel.bytes_sent
            self.tally.bytes_received += self._channel.bytes_received
            self._channel.close()
            self._channel = None
