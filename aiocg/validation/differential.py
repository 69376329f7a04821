"""Differential tests: does the optimised program do what the unoptimised one does, also while sanitizers watch?"""

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
from aiocg.env import Env
from aiocg.errors import ServiceError, WorkerFailure
from aiocg.validation.errors import ErrorKind, ValidationError
from aiocg.validation.executions import Run, differences, faults, findings

if TYPE_CHECKING:
    from aiocg.runtime import Runtime

__all__ = [
    "Failed",
    "Place",
    "Sanitizer",
    "Skipped",
    "execution_test",
    "not_executed",
    "retried",
    "sanitizer_test",
    "with_runs",
]

PLAIN = ("Execution", "execution")  # how the environments call it
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
    """A test cannot be done here; the message says why."""


class Failed(Exception):
    """A program could not be brought to the state, built or run.

    Attributes:
        error: what that means for the state.
    """

    def __init__(self, error: ValidationError) -> None:
        self.error = error
        super().__init__(error.type)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where and what is tested.

    Attributes:
        runtime: that the environment belongs to.
        env: an environment on the benchmark; it is not touched, its siblings are used.
        benchmark: the program, with the runs that are to be done.
        actions: the texts of the actions that lead to the state.
        timeout: seconds for building the program and doing all its runs.
    """

    runtime: "Runtime"
    env: Env
    benchmark: Benchmark
    actions: tuple[str, ...]
    timeout: float

    @contextlib.asynccontextmanager
    async def reached(self, benchmark: Benchmark, actions: Sequence[str]) -> AsyncIterator[Env]:
        """Have a fresh session in which the actions were applied.

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
                _, _, terminated, _, info = await env.step_texts(actions)
                if terminated:
                    cause = info["error"]
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
        """Return an execution of the unoptimised program; one that went well is remembered.

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
        """Forget an execution of the unoptimised program that may have been a matter of chance."""
        _remembered.get(self.runtime, {}).pop(self._key(benchmark, name), None)

    def _key(self, benchmark: Benchmark, name: str) -> tuple[str, str, str]:
        """Return what the unoptimised program is remembered by: each compiler makes another one of it."""
        return self.env.spec.id.partition("?")[2], self.env.spec.form(benchmark).key, name


_remembered: "weakref.WeakKeyDictionary[Runtime, dict[tuple[str, str, str], Any]]" = weakref.WeakKeyDictionary()


async def execution_test(place: Place) -> list[ValidationError]:
    """Compare what the program does with what the unoptimised one does.

    Raises:
        Skipped: when the benchmark cannot be run here.
    """
    name = _plain(place)
    _check(place, name)
    try:
        expected = await _gold_standard(place)
        errors = _compare(place.benchmark, expected, await place.observe(place.benchmark, place.actions, name))
    except Failed as failure:
        return [failure.error]
    if errors:
        place.forget(place.benchmark, name)  # another try is to see both anew
    return errors


async def _gold_standard(place: Place) -> Sequence[Run]:
    """Return an execution of the unoptimised program that is what the benchmark says.

    Raises:
        Failed: when it is not.
        Skipped: when the benchmark cannot be run here.
    """
    name = _plain(place)
    expected: Sequence[Run] = await place.unoptimised(place.benchmark, name)
    if not expected:
        raise Skipped("the program cannot be built here: its tools are missing")
    assert place.benchmark.program is not None
    wrong = faults(place.benchmark.program.runs, expected)
    if wrong:
        place.forget(place.benchmark, name)
        raise Failed(_gold(wrong[0]))
    return expected


def _compare(benchmark: Benchmark, expected: Sequence[Run], actual: Sequence[Run]) -> list[ValidationError]:
    """Return in what an execution differs from the unoptimised program's, as far as that is always the same."""
    assert benchmark.program is not None
    runs = benchmark.program.runs
    return [
        error
        for error in differences(expected, actual)
        if not (error.kind == ErrorKind.WRONG_OUTPUT and runs[error.data["run"]].output_varies)
    ]


async def sanitizer_test(place: Place, sanitizer: Sanitizer) -> list[ValidationError]:
    """Let a sanitizer watch the program; what it finds in the unoptimised one too is marked so.

    Raises:
        Skipped: when the sanitizer cannot be used here.
    """
    name = sanitizer.observation_space
    _check(place, name)
    assert place.benchmark.program is not None
    if place.benchmark.program.sanitizers is not None and sanitizer not in place.benchmark.program.sanitizers:
        raise Skipped(f"{place.benchmark.uri} has faults of its own under {sanitizer}, or takes too long")
    benchmark = place.benchmark if sanitizer is not Sanitizer.UNDEFINED else _checked_by_front_end(place.benchmark)
    try:
        result = await place.observe(benchmark, place.actions, name)
        if result["skipped"]:
            raise Skipped(result["skipped"])
        errors = findings(result["runs"], sanitizer)
        if errors:
            before = findings((await place.unoptimised(benchmark, name))["runs"], sanitizer)
            known = {(error.kind, error.data["run"]) for error in before}
            return [_gold(error) if (error.kind, error.data["run"]) in known else error for error in errors]
        errors = _compare(place.benchmark, await _gold_standard(place), result["runs"])
        return [_with(error, sanitizer=str(sanitizer)) for error in errors]
    except Failed as failure:
        if sanitizer is Sanitizer.UNDEFINED and failure.error.kind == ErrorKind.REPLAY_FAILED:
            raise Skipped("the actions cannot be applied to the program with the checks of the front end") from failure
        return [_with(failure.error, sanitizer=str(sanitizer))]


async def retried(test: Callable[[], Awaitable[list[ValidationError]]], tries: int) -> list[ValidationError]:
    """Do a test until it finds nothing, at most so many times; the errors are those of the last try.

    What a compiler refuses is not tried again: that is not a matter of chance. What has run out of time twice is not
    either: it seldom is, and takes long.
    """
    errors: list[ValidationError] = []
    timeouts = 0
    for attempt in range(1, max(tries, 1) + 1):
        errors = [_with(error, attempts=attempt) for error in await test()]
        timeouts += any(error.kind in _TIMEOUTS for error in errors)
        if timeouts == 2 or not any(error.can_be_chance for error in errors):
            break
    return errors


def with_runs(benchmark: Benchmark, names: Sequence[str]) -> Benchmark:
    """Return a benchmark whose program has only some of its runs, and carries them."""
    program = benchmark.program
    assert program is not None
    if list(names) == list(program.runs) and program.carried is None:
        return benchmark
    runs = {name: program.runs[name] for name in names}
    measured = program.measured if program.measured in runs else ""
    return benchmark.replace(program=dataclasses.replace(program, runs=runs, measured=measured, carried=None))


def _checked_by_front_end(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark with the checks of UndefinedBehaviorSanitizer in it.

    Raises:
        Skipped: when it was not compiled from sources.
    """
    variant = benchmark.recompiled(UBSAN_FLAGS)
    if variant is None:
        raise Skipped("the checks for undefined behaviour are made by the front end, and the sources are not at hand")
    return variant


def _plain(place: Place) -> str:
    """Return the name of the observation that runs a program."""
    return next((name for name in PLAIN if name in place.env.observation_spaces), PLAIN[0])


def _check(place: Place, name: str) -> None:
    if place.benchmark.program is None or not place.benchmark.program.runs:
        raise Skipped("the benchmark does not say how it is run")
    if name not in place.env.observation_spaces:
        raise Skipped(f"the environment {place.env.spec.id} has no observation space {name}")



def not_executed(error: Exception) -> ValidationError:
    """Say what it means that a program was not built and run."""
    if isinstance(error, TimeoutError):
        return ValidationError.of_exception(ErrorKind.EXECUTION_TIMEOUT, error)
    timed_out = error.fields.get("timed_out") if isinstance(error, WorkerFailure) else None
    kinds = {"linking": ErrorKind.COMPILATION_TIMEOUT, "running": ErrorKind.EXECUTION_TIMEOUT}
    return ValidationError.of_exception(kinds.get(str(timed_out), ErrorKind.COMPILATION_FAILED), error)


def _gold(error: ValidationError) -> ValidationError:
    return msgspec.structs.replace(error, gold_standard=True)


def _with(error: ValidationError, **data: Any) -> ValidationError:
    return msgspec.structs.replace(error, data={**error.data, **data})
