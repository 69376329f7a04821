"""The session table: executes requests and returns replies, without sockets."""

import itertools
import json
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from aiocg.transport.contents import ContentFolder
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
    LoadStored,
    Observed,
    Open,
    Parameter,
    Reply,
    Request,
    Statistics,
    Step,
    Store,
    Stored,
    TextReply,
    Unload,
)
from aiocg.transport.status import NO_CANDIDATE, SEVERAL
from aiocg.workers.compilation import DEADLINE, CompilationError, CompilationSession


def _sendable(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates become escape sequences."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _as_compilation_error(error: Exception) -> CompilationError:
    """Return a compiler's own failure as it is, and any other exception as a bug with its traceback."""
    if not isinstance(error, CompilationError):
        error = CompilationError(FailureCode.INTERNAL, "".join(traceback.format_exception(error)))
    error.code, error.message = str(error.code), _sendable(str(error.message))
    return error


def _apply_actions(session: CompilationSession, actions: tuple[Action, ...], effects: list[bool]) -> None:
    """Apply actions, and append for each whether it changed the state."""
    for action in actions:
        effect = session.apply_action(action)
        if effect is not True and effect is not False:
            raise _wrong_answer("apply_action", effect, "True or False")
        effects.append(effect)


def _hash_of(session: CompilationSession) -> int:
    """Return the hash of the session's state."""
    value = session.state_hash()
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise _wrong_answer("state_hash", value, "an unsigned integer of 64 bits")
    return value


def _forked(session: CompilationSession) -> CompilationSession:
    """Return a fork of the session."""
    child = session.fork()
    if not isinstance(child, CompilationSession) or child is session:
        raise _wrong_answer("fork", child, "another session")
    return child


def _wrong_answer(method: str, value: Any, expected: str) -> CompilationError:
    """Return the error for a method of a session that returned a wrong value."""
    text = repr(value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return CompilationError(FailureCode.INTERNAL, f"{method} of the session returned {text}; expected {expected}")


Actions = tuple[Action, ...]


class _Trial:
    """The evaluation of one candidate.

    Attributes:
        session: where the candidate's actions are applied.
        effects: whether each of them had an effect.
        failure: the result, if one of the actions failed.
    """

    def __init__(self, session: CompilationSession, effects: list[bool]) -> None:
        self.session = session
        self.effects = effects
        self.failure: Candidate | None = None

    def observe(self, names: tuple[str, ...]) -> Candidate:
        """Return the result."""
        if self.failure is not None:
            return self.failure
        try:
            observations = tuple([self.session.get_observation(name) for name in names])
            return Candidate(observations, _hash_of(self.session), tuple(self.effects))
        except Exception as caught:
            return _failed(caught)


class _Stem(NamedTuple):
    """A session after the actions that several candidates begin with."""

    actions: Actions
    session: CompilationSession
    effects: list[bool]


class _Stems:
    """Sessions that the next candidates start from, each of which goes on where the one before it ends.

    Args:
        session: where all candidates start; it is left as it is.
    """

    def __init__(self, session: CompilationSession) -> None:
        self._stems = [_Stem((), session, [])]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while len(self._stems) > 1:
            self._stems.pop().session.close()

    def grow(self, actions: Actions, following: Actions) -> _Trial:
        """Apply a candidate's actions.

        Args:
            actions: those of the candidate.
            following: those of the next candidate.
        """
        while actions[: len(self._stems[-1].actions)] != self._stems[-1].actions:
            self._stems.pop().session.close()
        done = len(self._stems[-1].actions)
        trial = _Trial(_forked(self._stems[-1].session), list(self._stems[-1].effects))
        try:
            for action in actions[done:]:
                trial.session.check_action(action)
            shared = _common_length(actions, following)
            if shared > done:
                _apply_actions(trial.session, actions[done:shared], trial.effects)
                self._stems.append(_Stem(actions[:shared], _forked(trial.session), list(trial.effects)))
                done = shared
            _apply_actions(trial.session, actions[done:], trial.effects)
        except Exception as caught:
            trial.failure = _failed(caught)
        return trial


def _common_length(one: Actions, other: Actions) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def _failed(caught: Exception) -> Candidate:
    error = _as_compilation_error(caught)
    return Candidate(code=error.code, message=error.message)


Begin = Callable[[int, int, int, float, int], None]  # client, session, request, timeout, candidate

FORK_TIMEOUT = 60.0  # seconds; forks should be cheap, and so should it be to free something
CHECK_TIMEOUT = 60.0  # seconds for all actions of a check


class _Sessions(dict[tuple[int, int], CompilationSession]):
    """Sessions by the numbers of client and session."""

    def __missing__(self, key: tuple[int, int]) -> CompilationSession:
        raise CompilationError(FailureCode.SESSION_UNKNOWN, f"session {key[1]} is not open")


class SessionTable:
    """The benchmarks and sessions of one worker; `handle` turns one request into one reply.

    Sessions and benchmarks belong to the client that named them, so two clients may use the same numbers. At most
    `max_sessions` sessions may be open; 0 means no limit.
    """

    def __init__(
        self,
        compiler: type[CompilationSession],
        begin: Begin,
        max_sessions: int = 0,
        contents: ContentFolder | None = None,
    ) -> None:
        self._compiler = compiler
        self._contents = contents
        self._announce = begin
        self._max_sessions = max_sessions
        self._benchmarks: dict[tuple[int, str], Any] = {}
        self._sessions = _Sessions()
        self._ended: set[tuple[int, int]] = set()
        self._counts: dict[type, int] = {}
        self._requests = self._failures = 0
        self._compiler_time = 0.0
        self._handlers: dict[type, Callable[[int, Any], Reply]] = {
            Load: self._load,
            Store: self._store,
            LoadStored: self._load,
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
        """Execute one request; every failure becomes a `Failure` reply."""
        number: int = request.request  # type: ignore[union-attr]  # Hello and Shutdown never come here
        kind = type(request)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._requests += 1
        try:
            return self._handlers[kind](client, request)
        except Exception as caught:
            self._failures += 1
            error = _as_compilation_error(caught)
            return Failure(number, error.code, error.message, error.fields)

    def counts(self) -> tuple[int, int, int, int, float]:
        """Return numbers of sessions, benchmarks, requests and failures, and seconds in the compiler."""
        return len(self._sessions), len(self._benchmarks), self._requests, self._failures, self._compiler_time

    # ------------------------------------------------------------------------------------------ benchmarks

    def _load(self, client: int, request: Load | LoadStored) -> Reply:
        self._begin(client, 0, request.request, request.timeout, NO_CANDIDATE)
        content = bytes(request.content) if isinstance(request, Load) else self._kept(request.digest)
        if content is None:
            raise CompilationError(FailureCode.CONTENT_UNKNOWN, f"the content of {request.benchmark} is not kept here")
        self._benchmarks[client, request.benchmark] = self._compiler.load_benchmark(content, request.program)
        return Done(request.request)

    def _kept(self, digest: bytes) -> bytes | None:
        return self._contents.read(digest) if self._contents is not None else None

    def _store(self, client: int, request: Store) -> Reply:
        self._load(client, request)
        kept = self._contents is not None and self._contents.keep(bytes(request.content))
        return Stored(request.request, kept)

    def _unload(self, client: int, request: Unload) -> Reply:
        self._begin(client, 0, request.request, FORK_TIMEOUT, NO_CANDIDATE)
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
        observations = tuple([session.get_observation(name) for name in request.observe])
        self._bind(client, request.session, session)
        return self._observed(request.request, session, observations, (), started)

    def _step(self, client: int, request: Step) -> Reply:
        key, actions = (client, request.session), request.actions
        session = self._sessions[key]
        if actions and key in self._ended:
            raise CompilationError(
                FailureCode.SESSION_ENDED, "an earlier action of this session failed; reset it or restore a snapshot"
            )
        self._begin(client, request.session, request.request, request.timeout, NO_CANDIDATE)
        for action in actions:
            self._compiler.check_action(action)
        before = _forked(session) if len(actions) > 1 and _may_turn_out_unknown(actions) else None
        started = time.perf_counter()
        effects: list[bool] = []
        try:
            _apply_actions(session, actions, effects)
            observations = tuple([session.get_observation(name) for name in request.observe])
        except Exception as caught:
            error = _as_compilation_error(caught)
            if error.code == FailureCode.ACTION_UNKNOWN:  # for example, its target does not exist any more
                if before is not None:
                    self._bind(client, request.session, before)
                raise error from None
            if actions:
                self._ended.add(key)
                error.fields |= {"applied": len(effects), "state": _hash_of(session)}
            raise error from None
        finally:
            if before is not None and self._sessions.get(key) is not before:
                before.close()
        return self._observed(request.request, session, observations, tuple(effects), started)

    def _fork(self, client: int, request: Fork) -> Reply:
        session = self._sessions[client, request.session]
        self._begin(client, request.session, request.request, FORK_TIMEOUT, NO_CANDIDATE)
        self._check_room(client, request.child)
        self._bind(client, request.child, _forked(session))
        return Done(request.request)

    def _expand(self, client: int, request: Expand) -> Reply:
        session = self._sessions[client, request.session]
        started = time.perf_counter()
        failed = frozenset(request.failed)
        left = [index for index in range(len(request.candidates)) if index not in failed]
        session.foresee([request.candidates[index] for index in left])
        ahead = 1 if request.alone else self._compiler.lookahead
        following = {index: request.candidates[after] for index, after in itertools.pairwise(left)}
        results: dict[int, Candidate] = {}
        with _Stems(session) as stems:
            for first in range(0, len(left), ahead):
                results |= self._candidates(client, request, stems, left[first : first + ahead], following)
        elapsed = time.perf_counter() - started
        self._compiler_time += elapsed
        return Expanded(request.request, tuple(map(results.get, range(len(request.candidates)))), elapsed)

    def _candidates(
        self,
        client: int,
        request: Expand,
        stems: _Stems,
        indices: list[int],
        following: Mapping[int, tuple[Action, ...]],
    ) -> dict[int, Candidate]:
        """Apply the actions of some candidates, prepare several together, and observe each."""

        def begin(candidate: int, count: int = 1) -> None:
            self._begin(client, request.session, request.request, request.timeout * count, candidate)

        trials: dict[int, _Trial] = {}
        try:
            for index in indices:
                begin(index)
                trials[index] = stems.grow(request.candidates[index], following.get(index, ()))
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
        session = self._sessions[client, request.session]
        answer = session.set_parameter(request.key, request.value)
        if not isinstance(answer, str):
            raise _wrong_answer("set_parameter", answer, "text")
        return TextReply(request.request, _sendable(answer))

    def _close(self, client: int, request: Close) -> Reply:
        self._begin(client, 0, request.request, FORK_TIMEOUT, NO_CANDIDATE)
        for number in request.sessions:
            self._unbind(client, number)
        return Done(request.request)

    def _check(self, client: int, request: Check) -> Reply:
        self._begin(client, 0, request.request, CHECK_TIMEOUT, NO_CANDIDATE)
        for action in request.actions:
            self._compiler.check_action(action)
        return Done(request.request)

    # --------------------------------------------------------------------------------------------- helpers

    def _begin(self, client: int, session: int, request: int, timeout: float, candidate: int) -> None:
        """Record the execution for the supervisor, and set the compiler's deadline."""
        self._announce(client, session, request, timeout, candidate)
        DEADLINE.times[self._compiler] = time.monotonic() + timeout

    def _check_room(self, client: int, number: int) -> None:
        if 0 < self._max_sessions <= len(self._sessions) and (client, number) not in self._sessions:
            raise CompilationError(
                FailureCode.LIMIT,
                f"{self._max_sessions} sessions are open in this worker, this client's maximum: "
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
        return Observed(request, observations, _hash_of(session), effects, elapsed)

    def _statistics(self, client: int, request: Statistics) -> Reply:
        counters = {
            "benchmarks": len(self._benchmarks),
            "sessions": len(self._sessions),
            "requests": {kind.__name__: count for kind, count in self._counts.items()},
            "compiler_time": self._compiler_time,
            **self._compiler.statistics(),
        }
        return TextReply(request.request, json.dumps(counters))


def _may_turn_out_unknown(actions: tuple[Action, ...]) -> bool:
    """Could a text among the actions turn out not to be an action, in the state that the actions before it lead to?"""
    return any(isinstance(action, str) for action in actions[1:])
