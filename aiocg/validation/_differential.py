"""Differential tests: comparing the optimised program's behaviour with the unoptimised one's, also under sanitizers."""

import contextlib
import dataclasses
import enum
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.errors import InvalidAction, ServiceError, WorkerFailure
from aiocg.search.baselines import baselines
from aiocg.search.lanes import bare_sibling, close_all
from aiocg.search.reference import UBSAN_FLAGS, first_run, observation_of_runs, reference_of, run_again
from aiocg.states.behaviour import Behaviour
from aiocg.states.executions import differences, faults, findings, in_words
from aiocg.states.result import ErrorKind, ValidationError

if TYPE_CHECKING:
    from aiocg.env.base import Owner

REMEMBERED = 256  # executions of unoptimised programs, for each runtime

_TIMEOUTS = (ErrorKind.COMPILATION_TIMEOUT, ErrorKind.EXECUTION_TIMEOUT)


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


class Finding(NamedTuple):
    """What a test has found.

    Attributes:
        behaviour: the outcome.
        reason: what was seen, or why nothing was.
        errors: in detail.
    """

    behaviour: Behaviour
    reason: str
    errors: tuple[ValidationError, ...] = ()


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
        env = await bare_sibling(self.env)
        try:
            try:
                await env.reset(benchmark=benchmark)
            except (DatasetError, ServiceError) as error:
                raise Failed(ValidationError.of_exception(ErrorKind.COMPILATION_FAILED, error)) from error
            if actions:
                try:
                    cause = (await env.step_texts(actions))[4].get("error")
                except InvalidAction as error:  # one names a function that this form of the program lacks
                    cause = error
                if cause is not None:
                    raise Failed(ValidationError.of_exception(ErrorKind.REPLAY_FAILED, cause)) from cause
            yield env
        finally:
            await close_all([env])

    async def observe(self, benchmark: Benchmark, actions: Sequence[str], name: str) -> Any:
        """Return an execution of a program after some actions.

        Raises:
            Failed: when there is none.
            Skipped: when the machine is the reason, such as a full disk.
        """
        async with self.reached(benchmark, actions) as env:
            try:
                return await env.observe(name, timeout=self.timeout)
            except ServiceError as error:
                if isinstance(error, WorkerFailure) and error.is_of_machine:
                    raise Skipped(f"it can no longer be run: {error}") from error
                raise Failed(not_executed(error)) from error

    async def unoptimised(self, benchmark: Benchmark, name: str) -> Any:
        """Return an execution of the unoptimised program; successful ones are cached.

        Raises:
            Failed: with an error of the program by itself, when there is none.
            Skipped: when the machine is the reason.
        """
        memory = _remembered.setdefault(self.runtime, {})
        key = self._key(benchmark, name)
        if key not in memory:
            try:
                execution = await self.observe(benchmark, (), name)
            except Failed as failure:
                raise Failed(_by_itself(failure.error)) from failure
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


async def execution_test(subject: Subject) -> Finding:
    """Compare what the program does with what it does as it came and at the compiler's levels.

    Raises:
        Skipped: when the program cannot be run here.
    """
    levels, name, target = baselines(subject.env), observation_of_runs(subject.env), subject.benchmark
    reference = await reference_of(subject.env, first_run(target), levels)
    if not reference.right:
        if reference.behaviour is Behaviour.NOT_RUN:
            raise Skipped(reference.reason)
        return Finding(reference.behaviour, reference.reason)
    assert target.program is not None and reference.benchmark is not None
    one = len(target.program.runs) == 1
    try:
        actual = await subject.observe(reference.benchmark if one else target, subject.actions, name)
        if not one:
            expected = await subject.unoptimised(target, name)
            runs = target.program.runs
            if not differences(expected, actual, runs) and not faults(runs, expected):
                return Finding(reference.behaviour, reference.reason, reference.errors)
            reference = await reference_of(subject.env, target, levels)
    except Failed as failure:
        return await _not_run(subject, failure)
    errors = reference.differences(actual)
    if errors:
        reference = await run_again(subject.env, reference)
        errors = reference.differences(actual)
    if not errors:
        return Finding(reference.behaviour, reference.reason, reference.errors)
    if reference.behaviour is Behaviour.SAME:
        subject.forget(target, name)  # another try is to see both anew
        return Finding(Behaviour.DIFFERS, in_words(errors), tuple(errors))
    return Finding(reference.behaviour, f"{reference.reason}; now it does something else again", reference.errors)


async def _not_run(subject: Subject, failure: Failed) -> Finding:
    """Say whether the state is to blame for a program that was not built or run.

    Raises:
        Skipped: when the program cannot be built or run as it came, either.
    """
    if failure.error.kind == ErrorKind.REPLAY_FAILED:
        return Finding(Behaviour.NOT_RUN, "its actions cannot be applied again", (failure.error,))
    try:
        await subject.observe(first_run(subject.benchmark), (), observation_of_runs(subject.env))
    except Failed as obstacle:
        raise Skipped(f"it can no longer be run: {obstacle.error.data['error_details']}") from None
    return Finding(Behaviour.DIFFERS, in_words([failure.error]), (failure.error,))


async def sanitizer_test(subject: Subject, sanitizer: Sanitizer) -> list[ValidationError]:
    """Run the program under a sanitizer; findings that the unoptimised program has as well are marked.

    Raises:
        Skipped: when the sanitizer cannot be used here.
    """
    name = sanitizer.observation_space
    if name not in subject.env.observation_spaces:
        raise Skipped(f"the environment {subject.env.spec.id} has no observation space {name}")
    assert subject.benchmark.program is not None
    if subject.benchmark.program.sanitizers is not None and sanitizer not in subject.benchmark.program.sanitizers:
        raise Skipped(f"{subject.benchmark.uri} has faults of its own under {sanitizer}, or takes too long")
    reference = await reference_of(subject.env, first_run(subject.benchmark), baselines(subject.env))
    if not reference.right:
        raise Skipped(reference.reason)
    benchmark = subject.benchmark if sanitizer is not Sanitizer.UNDEFINED else _checked_by_front_end(subject.benchmark)
    try:
        result = await subject.observe(benchmark, subject.actions, name)
        if result["skipped"]:
            raise Skipped(result["skipped"])
        errors = findings(result["runs"], sanitizer)
        if errors:
            before = findings((await subject.unoptimised(benchmark, name))["runs"], sanitizer)
            known = {(error.kind, error.data["run"]) for error in before}
            return [_by_itself(error) if (error.kind, error.data["run"]) in known else error for error in errors]
        if reference.behaviour is not Behaviour.SAME:
            return []
        expected = await subject.unoptimised(subject.benchmark, observation_of_runs(subject.env))
        errors = differences(expected, result["runs"], subject.benchmark.program.runs)
        return [_with(error, sanitizer=str(sanitizer)) for error in errors]
    except Failed as failure:
        if sanitizer is Sanitizer.UNDEFINED and failure.error.kind == ErrorKind.REPLAY_FAILED:
            raise Skipped("the actions cannot be applied to the program with the checks of the front end") from failure
        return [_with(failure.error, sanitizer=str(sanitizer))]


async def retried(test: Callable[[], Awaitable[Finding]], tries: int) -> Finding:
    """Repeat a test until it finds nothing wrong, at most a given number of times; return what the last try found.

    Compiler errors, which are deterministic, are not retried; nor is a second timeout, which seldom helps and takes
    long.
    """
    timeouts, attempt = 0, 0
    while True:
        attempt += 1
        found = await test()
        timeouts += any(error.kind in _TIMEOUTS for error in found.errors)
        chance = any(error.can_be_chance for error in found.errors)
        if found.behaviour is not Behaviour.DIFFERS or not chance or timeouts == 2 or attempt >= tries:
            return found._replace(errors=tuple(_with(error, attempts=attempt) for error in found.errors))


def _checked_by_front_end(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark compiled with UndefinedBehaviorSanitizer.

    Raises:
        Skipped: when it was not compiled from sources.
    """
    variant = benchmark.recompiled(UBSAN_FLAGS)
    if variant is None:
        raise Skipped("the checks for undefined behaviour are made by the front end, and the sources are not at hand")
    return variant


def not_executed(error: Exception) -> ValidationError:
    """Return the error for a program that was not built and run."""
    if isinstance(error, TimeoutError):
        return ValidationError.of_exception(ErrorKind.EXECUTION_TIMEOUT, error)
    timed_out = error.fields.get("timed_out") if isinstance(error, WorkerFailure) else None
    kinds = {"linking": ErrorKind.COMPILATION_TIMEOUT, "running": ErrorKind.EXECUTION_TIMEOUT}
    return ValidationError.of_exception(kinds.get(str(timed_out), ErrorKind.COMPILATION_FAILED), error)


def _by_itself(error: ValidationError) -> ValidationError:
    return replace(error, by_itself=True)


def _with(error: ValidationError, **data: Any) -> ValidationError:
    return replace(error, data={**error.data, **data})
