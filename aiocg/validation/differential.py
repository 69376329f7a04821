"""Differential tests: comparing the optimised program's behaviour with the unoptimised one's, also under sanitizers."""

import contextlib
import dataclasses
import enum
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.errors import InvalidAction, ServiceError, WorkerFailure
from aiocg.states.errors import ErrorKind, ValidationError
from aiocg.states.executions import PLAIN, Run, differences, faults, findings

if TYPE_CHECKING:
    from aiocg.env.base import Owner

REMEMBERED = 256  # executions of unoptimised programs, for each runtime

_TIMEOUTS = (ErrorKind.COMPILATION_TIMEOUT, ErrorKind.EXECUTION_TIMEOUT)
UBSAN_FLAGS = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined")


class Sanitizer(enum.StrEnum):
    """LLVM's sanitizers."""

    ADDRESS = "asan"
    UNDEFINED = "ubsan"
    THREAD = "tsan"
    MEMORY = "msan"

    @property
    def observation_space(self) -> str:
        """The observation that runs a program under the sanitizer."""
        return f"Execution{self.capitalize()}"


class Skipped(Exception):
    """A test cannot be run here; the message says why."""


class Failed(Exception):
    """A program could not be brought to the state, built or run.

    Attributes:
        error: of the state.
    """

    def __init__(self, error: ValidationError) -> None:
        self.error = error
        super().__init__(error.type)


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The program and state under test.

    Attributes:
        runtime: that the environment belongs to.
        env: an environment on the benchmark; only siblings of it are used.
        benchmark: the program, with the runs to do.
        actions: the texts of the actions that lead to the state.
        timeout: seconds for building the program and doing all its runs.
    """

    runtime: "Owner"
    env: Env
    benchmark: Benchmark
    actions: tuple[str, ...]
    timeout: float

    @contextlib.asynccontextmanager
    async def reached(self, benchmark: Benchmark, actions: Sequence[str]) -> AsyncIterator[Env]:
        """Replay the actions in a fresh session.

        Raises:
            Failed: when that is not possible.
        """
        env = await self.env.sibling()
        try:
            env.observation_space = env.reward_space = None
            try:
                await env.reset(benchmark=benchmark)
            except (DatasetError, ServiceError) as error:
                raise Failed(ValidationError.of_exception(ErrorKind.COMPILATION_FAILED, error)) from error
            if actions:
                try:
                    _, _, terminated, _, info = await env.step_texts(actions)
                    cause = info["error"] if terminated else None
                except InvalidAction as error:  # one names a function that this form of the program lacks
                    cause = error
                if cause is not None:
                    raise Failed(ValidationError.of_exception(ErrorKind.REPLAY_FAILED, cause)) from cause
            yield env
        finally:
            with anyio.CancelScope(shield=True):
                await env.close()

    async def observe(self, benchmark: Benchmark, actions: Sequence[str], name: str) -> Any:
        """Return an execution of a program after some actions.

        Raises:
            Failed: when there is none.
        """
        async with self.reached(benchmark, actions) as env:
            try:
                return await env.observe(name, timeout=self.timeout)
            except ServiceError as error:
                raise Failed(not_executed(error)) from error

    async def unoptimised(self, benchmark: Benchmark, name: str) -> Any:
        """Return an execution of the unoptimised program; successful ones are cached.

        Raises:
            Failed: as gold standard, when there is none.
        """
        memory = _remembered.setdefault(self.runtime, {})
        key = self._key(benchmark, name)
        if key not in memory:
            try:
                execution = await self.observe(benchmark, (), name)
            except Failed as failure:
                raise Failed(_gold(failure.error)) from failure
            while len(memory) >= REMEMBERED:
                memory.pop(next(iter(memory)))
            memory[key] = execution
        return memory[key]

    def forget(self, benchmark: Benchmark, name: str) -> None:
        """Drop a cached execution of the unoptimised program that may have been a fluke."""
        _remembered.get(self.runtime, {}).pop(self._key(benchmark, name), None)

    def _key(self, benchmark: Benchmark, name: str) -> tuple[str, str, str]:
        """Return the cache key of the unoptimised program, which depends on the compiler."""
        return self.env.spec.id.partition("?")[2], self.env.spec.form(benchmark).key, name


_remembered: "weakref.WeakKeyDictionary[Owner, dict[tuple[str, str, str], Any]]" = weakref.WeakKeyDictionary()


async def execution_test(subject: Subject) -> list[ValidationError]:
    """Compare what the program does with what the unoptimised one does.

    Raises:
        Skipped: when the benchmark cannot be run here.
    """
    name = _plain(subject)
    _check(subject, name)
    assert subject.benchmark.program is not None
    try:
        expected = await _gold_standard(subject)
        actual = await subject.observe(subject.benchmark, subject.actions, name)
        errors = differences(expected, actual, subject.benchmark.program.runs)
    except Failed as failure:
        return [failure.error]
    if errors:
        subject.forget(subject.benchmark, name)  # another try is to see both anew
    return errors


async def _gold_standard(subject: Subject) -> Sequence[Run]:
    """Return an execution of the unoptimised program that matches the benchmark's expectations.

    Raises:
        Failed: when it is not.
        Skipped: when the benchmark cannot be run here.
    """
    name = _plain(subject)
    expected: Sequence[Run] = await subject.unoptimised(subject.benchmark, name)
    if not expected:
        raise Skipped("the program cannot be built here: its tools are missing")
    assert subject.benchmark.program is not None
    wrong = faults(subject.benchmark.program.runs, expected)
    if wrong:
        subject.forget(subject.benchmark, name)
        raise Failed(_gold(wrong[0]))
    return expected


async def sanitizer_test(subject: Subject, sanitizer: Sanitizer) -> list[ValidationError]:
    """Run the program under a sanitizer; findings that the unoptimised program has as well are marked.

    Raises:
        Skipped: when the sanitizer cannot be used here.
    """
    name = sanitizer.observation_space
    _check(subject, name)
    assert subject.benchmark.program is not None
    if subject.benchmark.program.sanitizers is not None and sanitizer not in subject.benchmark.program.sanitizers:
        raise Skipped(f"{subject.benchmark.uri} has faults of its own under {sanitizer}, or takes too long")
    benchmark = subject.benchmark if sanitizer is not Sanitizer.UNDEFINED else _checked_by_front_end(subject.benchmark)
    try:
        result = await subject.observe(benchmark, subject.actions, name)
        if result["skipped"]:
            raise Skipped(result["skipped"])
        errors = findings(result["runs"], sanitizer)
        if errors:
            before = findings((await subject.unoptimised(benchmark, name))["runs"], sanitizer)
            known = {(error.kind, error.data["run"]) for error in before}
            return [_gold(error) if (error.kind, error.data["run"]) in known else error for error in errors]
        errors = differences(await _gold_standard(subject), result["runs"], subject.benchmark.program.runs)
        return [_with(error, sanitizer=str(sanitizer)) for error in errors]
    except Failed as failure:
        if sanitizer is Sanitizer.UNDEFINED and failure.error.kind == ErrorKind.REPLAY_FAILED:
            raise Skipped("the actions cannot be applied to the program with the checks of the front end") from failure
        return [_with(failure.error, sanitizer=str(sanitizer))]


async def retried(test: Callable[[], Awaitable[list[ValidationError]]], tries: int) -> list[ValidationError]:
    """Repeat a test until it finds nothing, at most a given number of times; return the errors of the last try.

    Compiler errors, which are deterministic, are not retried; nor is a second timeout, which seldom helps and takes
    long.
    """
    errors: list[ValidationError] = []
    timeouts = 0
    for attempt in range(1, max(tries, 1) + 1):
        errors = [_with(error, attempts=attempt) for error in await test()]
        timeouts += any(error.kind in _TIMEOUTS for error in errors)
        if timeouts == 2 or not any(error.can_be_chance for error in errors):
            break
    return errors


def _checked_by_front_end(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark compiled with UndefinedBehaviorSanitizer.

    Raises:
        Skipped: when it was not compiled from sources.
    """
    variant = benchmark.recompiled(UBSAN_FLAGS)
    if variant is None:
        raise Skipped("the checks for undefined behaviour are made by the front end, and the sources are not at hand")
    return variant


def _plain(subject: Subject) -> str:
    """Return the name of the observation that runs a program."""
    return next((name for name in PLAIN if name in subject.env.observation_spaces), PLAIN[0])


def _check(subject: Subject, name: str) -> None:
    if subject.benchmark.program is None or not subject.benchmark.program.runs:
        raise Skipped("the benchmark does not say how it is run")
    if name not in subject.env.observation_spaces:
        raise Skipped(f"the environment {subject.env.spec.id} has no observation space {name}")


def not_executed(error: Exception) -> ValidationError:
    """Return the error for a program that was not built and run."""
    if isinstance(error, TimeoutError):
        return ValidationError.of_exception(ErrorKind.EXECUTION_TIMEOUT, error)
    timed_out = error.fields.get("timed_out") if isinstance(error, WorkerFailure) else None
    kinds = {"linking": ErrorKind.COMPILATION_TIMEOUT, "running": ErrorKind.EXECUTION_TIMEOUT}
    return ValidationError.of_exception(kinds.get(str(timed_out), ErrorKind.COMPILATION_FAILED), error)


def _gold(error: ValidationError) -> ValidationError:
    return msgspec.structs.replace(error, gold_standard=True)


def _with(error: ValidationError, **data: Any) -> ValidationError:
    return msgspec.structs.replace(error, data={**error.data, **data})
