"""The session table: requests in, replies out. No sockets: everything that a worker does to its sessions."""

import json
import time
import traceback
from collections.abc import Callable
from typing import Any

from aiocg.transport.messages import (
    Action,
    Candidate,
    Check,
    Close,
    Done,
    Expand,
    Expanded,
    Failure,
    FailureCode,
    Fork,
    Load,
    Observed,
    Open,
    Parameter,
    Reply,
    Request,
    Statistics,
    Step,
    Told,
    Unload,
)
from aiocg.transport.status import NO_CANDIDATE, SEVERAL
from aiocg.workers.compilation import CompilationError, CompilationSession

Begin = Callable[[int, int, int, float, int], None]  # client, session, request, timeout, candidate

FORK_TIMEOUT = 60.0  # seconds; a fork is to be cheap
CHECK_TIMEOUT = 60.0  # seconds for all actions of a check


class SessionTable:
    """The benchmarks and sessions of one worker; `handle` turns one request into one reply.

    Sessions and benchmarks belong to the client that named them: two clients may use the same numbers. There may be
    `max_sessions` open sessions, any number if that is 0.
    """

    def __init__(self, compiler: type[CompilationSession], begin: Begin, max_sessions: int = 0) -> None:
        self._compiler = compiler
        self._announce = begin
        self._max_sessions = max_sessions
        self._benchmarks: dict[tuple[int, str], Any] = {}
        self._sessions: dict[tuple[int, int], CompilationSession] = {}
        self._ended: set[tuple[int, int]] = set()
        self._counts: dict[type, int] = {}
        self._failures = 0
        self._compiler_time = 0.0
        self._handlers: dict[type, Callable[[int, Any], Reply]] = {
            Load: self._load,
            Unload: self._unload,
            Open: self._open,
            Check: self._check,
            Step: self._step,
            Fork: self._fork,
            Expand: self._expand,
            Parameter: self._parameter,
            Close: self._close,
            Statistics: self._statistics,
        }

    def handle(self, client: int, request: Request) -> Reply:
        """Carry out one request; every failure becomes a `Failure` reply."""
        number: int = request.request  # type: ignore[union-attr]  # Hello and Shutdown never come here
        kind = type(request)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        try:
            return self._handlers[kind](client, request)
        except Exception as caught:
            self._failures += 1
            error = _as_compilation_error(caught)
            return Failure(number, error.code, error.message, error.fields)

    def counts(self) -> tuple[int, int, int, int, float]:
        """Return numbers of sessions, benchmarks, requests and failures, and seconds in the compiler."""
        requests = sum(self._counts.values())
        return len(self._sessions), len(self._benchmarks), requests, self._failures, self._compiler_time

    # ------------------------------------------------------------------------------------------ benchmarks

    def _load(self, client: int, request: Load) -> Reply:
        self._begin(client, 0, request.request, request.timeout, NO_CANDIDATE)
        self._benchmarks[client, request.benchmark] = self._compiler.load_benchmark(
            bytes(request.content), request.program
        )
        return Done(request.request)

    def _unload(self, client: int, request: Unload) -> Reply:
        self._benchmarks.pop((client, request.benchmark), None)
        return Done(request.request)

    # -------------------------------------------------------------------------------------------- sessions

    def _open(self, client: int, request: Open) -> Reply:
        self._begin(client, request.session, request.request, request.timeout, NO_CANDIDATE)
        self._check_room(client, request.session)
        try:
            benchmark = self._benchmarks[client, request.benchmark]
        except KeyError:
            raise CompilationError(
                FailureCode.BENCHMARK_UNKNOWN, f"benchmark {request.benchmark} is not loaded"
            ) from None
        started = time.perf_counter()
        session = self._compiler(benchmark)
        for key, value in request.parameters:
            session.set_parameter(key, value)
        observations = _observe(session, request.observe)
        self._bind(client, request.session, session)
        return self._observed(request.request, session, observations, (), started)

    def _step(self, client: int, request: Step) -> Reply:
        session = self._find(client, request.session)
        if request.actions and (client, request.session) in self._ended:
            raise CompilationError(
                FailureCode.SESSION_ENDED, "an earlier action of this session failed; reset it or restore a snapshot"
            )
        self._begin(client, request.session, request.request, request.timeout, NO_CANDIDATE)
        _check_actions(self._compiler, request.actions)
        several = len(request.actions) > 1
        before = session.fork() if several and _may_turn_out_unknown(request.actions) else None
        started = time.perf_counter()
        effects: list[bool] = []
        try:
            for action in request.actions:
                effects.append(session.apply_action(action))
            observations = _observe(session, request.observe)
        except Exception as caught:
            error = _as_compilation_error(caught)
            if error.code == FailureCode.ACTION_UNKNOWN:  # such as one for a function that is gone: nothing is done
                if before is not None:
                    self._bind(client, request.session, before)
                raise error from None
            if request.actions:
                self._ended.add((client, request.session))
                error.fields |= {"applied": len(effects), "state": session.state_hash()}
            raise error from None
        finally:
            if before is not None and self._sessions.get((client, request.session)) is not before:
                before.close()
        return self._observed(request.request, session, observations, tuple(effects), started)

    def _fork(self, client: int, request: Fork) -> Reply:
        session = self._find(client, request.session)
        self._begin(client, request.session, request.request, FORK_TIMEOUT, NO_CANDIDATE)
        self._check_room(client, request.child)
        self._bind(client, request.child, session.fork())
        return Done(request.request)

    def _expand(self, client: int, request: Expand) -> Reply:
        session = self._find(client, request.session)
        started = time.perf_counter()
        failed = frozenset(request.failed)
        left = [index for index in range(len(request.candidates)) if index not in failed]
        ahead = 1 if request.alone else self._compiler.lookahead
        results: dict[int, Candidate] = {}
        for first in range(0, len(left), ahead):
            results |= self._candidates(client, request, session, left[first : first + ahead])
        elapsed = time.perf_counter() - started
        self._compiler_time += elapsed
        return Expanded(request.request, tuple(map(results.get, range(len(request.candidates)))), elapsed)

    def _candidates(
        self, client: int, request: Expand, session: CompilationSession, indices: list[int]
    ) -> dict[int, Candidate]:
        """Bring some candidates to their states, prepare them together if they are several, and observe each."""

        def begin(candidate: int, count: int = 1) -> None:
            self._begin(client, request.session, request.request, request.timeout * count, candidate)

        trials: dict[int, _Trial] = {}
        try:
            for index in indices:
                begin(index)
                trials[index] = trial = _Trial(session.fork())
                trial.act(request.candidates[index])
            if len(trials) == 1:
                return {index: trial.observe(request.observe) for index, trial in trials.items()}
            begin(SEVERAL, len(trials))
            going = [trial.session for trial in trials.values() if trial.failure is None]
            self._compiler.anticipate(going, request.observe)
            results = {}
            for index, trial in trials.items():
                begin(index)
                results[index] = trial.observe(request.observe)
            return results
        finally:
            for trial in trials.values():
                trial.session.close()

    def _parameter(self, client: int, request: Parameter) -> Reply:
        self._begin(client, request.session, request.request, request.timeout, NO_CANDIDATE)
        session = self._find(client, request.session)
        return Told(request.request, session.set_parameter(request.key, request.value))

    def _close(self, client: int, request: Close) -> Reply:
        for number in request.sessions:
            self._unbind(client, number)
        return Done(request.request)

    def _check(self, client: int, request: Check) -> Reply:
        self._begin(client, 0, request.request, CHECK_TIMEOUT, NO_CANDIDATE)
        _check_actions(self._compiler, request.actions)
        return Done(request.request)

    # --------------------------------------------------------------------------------------------- helpers

    def _begin(self, client: int, session: int, request: int, timeout: float, candidate: int) -> None:
        """Let the supervisor know what is executed now, and the compiler until when."""
        self._announce(client, session, request, timeout, candidate)
        self._compiler.deadline = time.monotonic() + timeout

    def _find(self, client: int, number: int) -> CompilationSession:
        try:
            return self._sessions[client, number]
        except KeyError:
            raise CompilationError(FailureCode.SESSION_UNKNOWN, f"session {number} is not open") from None

    def _check_room(self, client: int, number: int) -> None:
        if 0 < self._max_sessions <= len(self._sessions) and (client, number) not in self._sessions:
            raise CompilationError(
                FailureCode.LIMIT,
                f"{self._max_sessions} sessions are open in this worker, the most that this client may have: "
                "close environments, forks and snapshots that are not needed, or use more workers",
                limit="sessions",
                allowed=self._max_sessions,
            )

    def _bind(self, client: int, number: int, session: CompilationSession) -> None:
        self._unbind(client, number)
        self._sessions[client, number] = session

    def _unbind(self, client: int, number: int) -> None:
        old = self._sessions.pop((client, number), None)
        self._ended.discard((client, number))
        if old is not None:
            old.close()

    def _observed(
        self,
        request: int,
        session: CompilationSession,
        observations: tuple[Any, ...],
        effects: tuple[bool, ...],
        started: float,
    ) -> Observed:
        elapsed = time.perf_counter() - started
        self._compiler_time += elapsed
        return Observed(request, observations, session.state_hash(), effects, elapsed)

    def _statistics(self, client: int, request: Statistics) -> Reply:
        counters = {
            "benchmarks": len(self._benchmarks),
            "sessions": len(self._sessions),
            "requests": {kind.__name__: count for kind, count in self._counts.items()},
            "compiler_time": self._compiler_time,
            **self._compiler.statistics(),
        }
        return Told(request.request, json.dumps(counters))


class _Trial:
    """A candidate under way.

    Attributes:
        session: what it is done to.
        failure: what has become of it, if one of its actions has failed.
    """

    def __init__(self, session: CompilationSession) -> None:
        self.session = session
        self.failure: Candidate | None = None
        self._effects: tuple[bool, ...] = ()

    def act(self, actions: tuple[Action, ...]) -> None:
        """Apply the actions."""
        try:
            _check_actions(type(self.session), actions)
            self._effects = tuple([self.session.apply_action(action) for action in actions])
        except Exception as caught:
            self.failure = _failed(caught)

    def observe(self, names: tuple[str, ...]) -> Candidate:
        """Return what has become of it."""
        if self.failure is not None:
            return self.failure
        try:
            return Candidate(_observe(self.session, names), self.session.state_hash(), self._effects)
        except Exception as caught:
            return _failed(caught)


def _failed(caught: Exception) -> Candidate:
    error = _as_compilation_error(caught)
    return Candidate(code=error.code, message=error.message)


def _check_actions(compiler: type[CompilationSession], actions: tuple[Action, ...]) -> None:
    """Raise before anything is done when one of several actions is none."""
    for action in actions:
        compiler.check_action(action)


def _observe(session: CompilationSession, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple([session.get_observation(name) for name in names])


def _may_turn_out_unknown(actions: tuple[Action, ...]) -> bool:
    """Could one be found to be no action in the state that those before it lead to? Indices never are, texts may be."""
    return any(isinstance(action, str) for action in actions[1:])


def _as_compilation_error(error: Exception) -> CompilationError:
    """Return what to tell the client: a compiler's own failure as it is, anything else as a bug, with its traceback."""
    if isinstance(error, CompilationError):
        return error
    return CompilationError(FailureCode.INTERNAL, "".join(traceback.format_exception(error)))
