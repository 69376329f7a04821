"""Validating a state: can it be reached again, does it earn what it says, and does the program do what it should?"""

import functools
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.env import Env
from aiocg.errors import AiocgError, ServiceError, UnknownName
from aiocg.search.lanes import spread
from aiocg.state import CompilerEnvState
from aiocg.validation.differential import (
    Failed,
    Place,
    Sanitizer,
    Skipped,
    execution_test,
    not_executed,
    retried,
    sanitizer_test,
    with_runs,
)
from aiocg.validation.errors import ErrorKind, ValidationError
from aiocg.validation.result import ValidationResult

if TYPE_CHECKING:
    from aiocg.runtime import Runtime

__all__ = ["Options", "validate", "validate_env", "validate_states"]

RELATIVE, ABSOLUTE = 1e-5, 1e-10  # by which rewards may differ, as in CompilerGym


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is validated, and how thoroughly.

    Attributes:
        semantics: whether what the program does is looked at.
        runs: names of the runs of the program that are done, all if None.
        sanitizers: those that watch the program; the result says of which that was not possible.
        sanitized_runs: how many of those runs, the first ones, are watched. Sanitizers make programs 2 to 15 times
            slower, and benchmarks name their shortest run first.
        flakiness: how often a test is tried before it counts as failed.
        timeout: seconds for building the program and doing all runs of one test.
    """

    semantics: bool = True
    runs: tuple[str, ...] | None = None
    sanitizers: tuple[Sanitizer, ...] = tuple(Sanitizer)
    sanitized_runs: int = 1
    flakiness: int = 5
    timeout: float = 300.0

    @classmethod
    def of(cls, **options: Any) -> "Options":
        """Return options given by name; sanitizers may be given by theirs.

        Raises:
            TypeError: when there is no such option, or its value is of the wrong type.
        """
        try:
            return msgspec.convert(msgspec.structs.asdict(cls(**options)), cls)
        except msgspec.ValidationError as error:
            raise TypeError(f"these are not options for a validation: {error}") from error


async def validate(runtime: "Runtime", state: CompilerEnvState, **options: Any) -> ValidationResult:
    """Validate a state, for example one that somebody else has found.

    Args:
        runtime: whose workers do it.
        state: what to validate.
        options: the fields of `Options`.

    Raises:
        AiocgError: when the environment or the reward space does not exist here, or workers cannot be had.
        DatasetError: when the benchmark does not exist here.
    """
    env = await runtime.make(state.environment, benchmark=state.benchmark, reward_space=state.reward_space)
    async with env:
        return await _validate(runtime, env, state, None, Options.of(**options))


async def validate_states(
    runtime: "Runtime",
    states: Iterable[CompilerEnvState],
    *,
    progress: Callable[[int, ValidationResult], None] | None = None,
    **options: Any,
) -> list[ValidationResult]:
    """Validate many states, as many at a time as there are workers, and return the results in their order.

    Args:
        runtime: whose workers do it.
        states: what to validate.
        progress: called with the index of a state and its result, as the results come.
        options: the fields of `Options`.

    Raises:
        AiocgError, DatasetError: as `validate`.
    """
    waiting = iter(enumerate(states))
    results: dict[int, ValidationResult] = {}

    async def work() -> None:
        for index, state in waiting:
            results[index] = await validate(runtime, state, **options)
            if progress is not None:
                progress(index, results[index])

    await spread([work] * runtime.worker_count)
    return [results[index] for index in sorted(results)]


async def validate_env(
    runtime: "Runtime", env: Env, state: CompilerEnvState | None = None, **options: Any
) -> ValidationResult:
    """Validate a state with the spaces, rewards and benchmark of an environment, which is not touched.

    Args:
        runtime: of the environment.
        env: an environment.
        state: what to validate; if None, the environment's own.
        options: the fields of `Options`.

    Raises:
        ResetNeeded: when there is no state.
        AiocgError, DatasetError: as `validate`.
    """
    chosen = Options.of(**options)
    if state is None:
        return await _validate(runtime, env, env.state, env.state_hash, chosen)
    if (state.environment, state.benchmark) != (env.spec.id, str(env.benchmark.uri)):
        return await validate(runtime, state, **options)
    return await _validate(runtime, env, state, None, chosen)


async def _validate(
    runtime: "Runtime", env: Env, state: CompilerEnvState, state_hash: int | None, options: Options
) -> ValidationResult:
    started = time.monotonic()
    result = await _replay(env, state, state_hash)
    if not result.actions_replay_failed and options.semantics and env.benchmark.is_validatable():
        result = ValidationResult.join([result, await _semantics(runtime, env, state, options)])
    return msgspec.structs.replace(result, walltime=time.monotonic() - started)


async def _replay(env: Env, state: CompilerEnvState, state_hash: int | None) -> ValidationResult:
    """Apply the actions in a fresh session and compare the program and the reward that they lead to."""
    async with await env.sibling() as fresh:
        fresh.reward_space, fresh.observation_space = state.reward_space, None
        try:
            await fresh.check_actions(state.actions)
            await fresh.reset()
            if state.actions:
                _, _, terminated, _, info = await fresh.step_texts(state.actions)
                if terminated:
                    raise info["error"]
        except (AiocgError, DatasetError) as error:
            data = {"error_type": type(error).__name__, "error_details": str(error)}
            return _replay_failed(state, ValidationError(kind=ErrorKind.REPLAY_FAILED, data=data))
        if state_hash is not None and fresh.state_hash != state_hash:
            data = {"expected": f"{state_hash:016x}", "actual": f"{fresh.state_hash:016x}"}
            return _replay_failed(state, ValidationError(kind=ErrorKind.ANOTHER_STATE, data=data))
        reward = fresh.episode_reward
        if state.reward is None or reward is None or state.reward_space is None:
            return ValidationResult(state=state)
        space = fresh.reward_spaces[state.reward_space]
        if not space.deterministic:
            return ValidationResult(state=state)
        if math.isclose(state.reward, reward, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            return ValidationResult(state=state, reward_validated=True)
        wrong = ValidationError(kind=ErrorKind.WRONG_REWARD, data={"expected": state.reward, "actual": reward})
        return ValidationResult(state=state, reward_validated=True, reward_validation_failed=True, errors=(wrong,))


def _replay_failed(state: CompilerEnvState, error: ValidationError) -> ValidationResult:
    return ValidationResult(state=state, actions_replay_failed=True, errors=(error,))


async def _semantics(runtime: "Runtime", env: Env, state: CompilerEnvState, options: Options) -> ValidationResult:
    """Do all tests of what the program does, spread over the workers."""
    jobs = [functools.partial(_test, state, test, options.flakiness) for test in _tests(runtime, env, state, options)]
    return ValidationResult.join(await spread(jobs))


def _tests(
    runtime: "Runtime", env: Env, state: CompilerEnvState, options: Options
) -> list[Callable[[], Awaitable[list[ValidationError]]]]:
    def place(benchmark: Benchmark) -> Place:
        return Place(runtime, env, benchmark, state.actions, options.timeout)

    benchmark = env.benchmark
    tests: list[Callable[[], Awaitable[list[ValidationError]]]] = [
        functools.partial(_callback_test, place(benchmark), callback) for callback in benchmark.validation_callbacks
    ]
    if benchmark.program is not None and benchmark.program.runs:
        names = _names(benchmark, options.runs)
        tests.append(functools.partial(execution_test, place(with_runs(benchmark, names))))
        watched = place(with_runs(benchmark, names[: options.sanitized_runs]))
        tests += [functools.partial(sanitizer_test, watched, sanitizer) for sanitizer in options.sanitizers]
    return tests


def _names(benchmark: Benchmark, chosen: Sequence[str] | None) -> list[str]:
    """Return the names of the runs to do.

    Raises:
        UnknownName: when there is no such run.
    """
    assert benchmark.program is not None
    known = list(benchmark.program.runs)
    for name in chosen or ():
        if name not in known:
            raise UnknownName("run", name, known)
    return known if chosen is None else list(chosen)


async def _callback_test(place: Place, callback: Callable[[Any], Awaitable[Iterable[Any]]]) -> list[ValidationError]:
    try:
        async with place.reached(place.benchmark, place.actions) as env:
            return list(await callback(env))
    except Failed as failure:
        return [failure.error]
    except (ServiceError, TimeoutError) as error:  # of a request that it made, or of its own
        return [not_executed(error)]


async def _test(
    state: CompilerEnvState, test: Callable[[], Awaitable[list[ValidationError]]], tries: int
) -> ValidationResult:
    try:
        errors = await retried(test, tries)
    except Skipped as reason:
        return ValidationResult(state=state, skipped=(str(reason),))
    return ValidationResult(
        state=state,
        benchmark_semantics_validated=True,
        benchmark_semantics_validation_failed=bool(errors),
        errors=tuple(errors),
    )
