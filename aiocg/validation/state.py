"""Validation of states, one or many at once: replay, reward and behaviour."""

import asyncio
import functools
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.errors import AiocgError, RuntimeClosed, ServiceError, UnknownName
from aiocg.search.lanes import bare_sibling, spread
from aiocg.search.reference import COMPARING, first_run, runnable, undefined
from aiocg.states.behaviour import Behaviour
from aiocg.states.executions import in_words
from aiocg.states.result import ErrorKind, Translation, ValidationError, ValidationResult
from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.validation._differential import (
    Failed,
    Finding,
    Sanitizer,
    Skipped,
    Subject,
    execution_test,
    not_executed,
    retried,
    sanitizer_test,
)
from aiocg.validation.legacy_states import DEFAULT_ENVIRONMENT, modern_state
from aiocg.validation.minimize import reproducer_of

if TYPE_CHECKING:
    from aiocg.env.base import Owner


_State = CompilerEnvState | LegacyState

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
        minimize: whether the actions of a miscompiled program are reduced to a reproducer; it takes `timeout` at most.
    """

    semantics: bool = True
    runs: tuple[str, ...] | None = None
    sanitizers: tuple[Sanitizer, ...] = tuple(Sanitizer)
    sanitized_runs: int = 1
    flakiness: int = 5
    timeout: float = 300.0
    minimize: bool = True

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


async def validate(
    runtime: "Owner", state: CompilerEnvState | LegacyState, *, environment: str | None = None, **options: Any
) -> ValidationResult:
    """Validate a state, for example one that somebody else has found.

    A state of CompilerGym's is translated first (`aiocg.validation.legacy_states`). If its actions are those of another
    compiler, another reward is no error; the result has what it earns here.

    Args:
        runtime: whose workers do it.
        state: what to validate.
        environment: id of the environment for a state that does not name one; `"llvm-ic-v0"` if None.
        options: the fields of `Options`.

    Raises:
        AiocgError: when the environment or the reward space does not exist here, or workers cannot be had.
        DatasetError: when the benchmark does not exist here.
        TypeError: when there is no such option.
    """
    chosen = Options.of(**options)
    translation: Translation | None = None
    if isinstance(state, LegacyState):
        state, translation = await modern_state(runtime, state, environment)
    return await _validate_translated(runtime, state, translation, chosen)


async def _validate_translated(
    runtime: "Owner", state: CompilerEnvState, translation: Translation | None, options: Options
) -> ValidationResult:
    """Validate a state of ours, or what became of one of CompilerGym's.

    Raises:
        AiocgError, DatasetError: as `validate`.
    """
    env = await runtime.make(state.environment, benchmark=state.benchmark, reward_space=state.reward_space)
    async with env:
        return await _validate(runtime, env, state, None, options, translation)


async def validate_env(
    runtime: "Owner", env: Env, state: CompilerEnvState | LegacyState | None = None, **options: Any
) -> ValidationResult:
    """Validate a state with the spaces, rewards and benchmark of an environment, which is not touched.

    Args:
        runtime: of the environment.
        env: an environment.
        state: what to validate; if None, the environment's own. One of CompilerGym's is taken to be of this
            environment and its reward space.
        options: the fields of `Options`.

    Raises:
        EnvClosed: when the environment was closed.
        ResetNeeded: when there is no state.
        AiocgError, DatasetError: as `validate`.
    """
    chosen = Options.of(**options)
    env.check_open()
    if state is None:
        return await _validate(runtime, env, env.state, env.state_hash, chosen)
    translation: Translation | None = None
    if isinstance(state, LegacyState):
        state, translation = await modern_state(runtime, state, env.spec.id)
        reward = state.reward if env.reward_space is not None else None
        state = replace(state, reward_space=env.reward_space, reward=reward)
    if (state.environment, state.benchmark) != (env.spec.id, str(env.benchmark.uri)):
        async with await runtime.make(state.environment, benchmark=state.benchmark) as other:
            if other.spec.id == env.spec.id:  # with rewards and observations of the user's own, too
                other.observation_spaces = env.observation_spaces
                other.reward_spaces |= env.reward_spaces
            return await _validate(runtime, other, state, None, chosen, translation)
    return await _validate(runtime, env, state, None, chosen, translation)


async def _validate(
    runtime: "Owner",
    env: Env,
    state: CompilerEnvState,
    state_hash: int | None,
    options: Options,
    translation: Translation | None = None,
) -> ValidationResult:
    started = time.monotonic()
    result = await _replay(env, state, state_hash, translation)
    if result.actions_replay_failed:
        result = replace(result, reason="its actions cannot be applied again")
    elif not options.semantics:
        result = replace(result, reason="it was not to be run")
    else:
        result = ValidationResult.join([result, await _semantics(runtime, env, state, options)])
        if result.behaviour is Behaviour.DIFFERS:
            result = await _explained(runtime, env, result, options)
        if result.behaviour is Behaviour.DIFFERS and options.minimize:
            result = replace(result, reproducer=await _reproducer(env, result, options))
    return replace(result, walltime=time.monotonic() - started)


async def _replay(
    env: Env, state: CompilerEnvState, state_hash: int | None, translation: Translation | None
) -> ValidationResult:
    """Apply the actions in a fresh session and compare the program and the reward that they lead to."""
    none = ValidationResult(state=state, translation=translation)
    async with await env.sibling() as fresh:
        fresh.observation_space = None
        try:
            fresh.reward_space = state.reward_space
            await fresh.check_actions(state.actions)
            await fresh.reset()
            if state.actions:
                await fresh.apply(state.actions)
        except DatasetError as error:
            return _replay_failed(none, ValidationError.of_exception(ErrorKind.BENCHMARK_UNAVAILABLE, error))
        except AiocgError as error:
            return _replay_failed(none, ValidationError.of_exception(ErrorKind.REPLAY_FAILED, error))
        if state_hash is not None and fresh.state_hash != state_hash:
            data = {"expected": f"{state_hash:016x}", "actual": f"{fresh.state_hash:016x}"}
            return _replay_failed(none, ValidationError(kind=ErrorKind.ANOTHER_STATE, data=data))
        reward = fresh.episode_reward
        result = replace(none, reward=reward)
        if state.reward is None or reward is None or state.reward_space is None or result.another_compiler:
            return result
        if not fresh.reward_spaces[state.reward_space].deterministic:
            return result
        if rewards_agree(state.reward, reward):
            return replace(result, reward_validated=True)
        wrong = ValidationError(kind=ErrorKind.WRONG_REWARD, data={"expected": state.reward, "actual": reward})
        return replace(result, reward_validated=True, reward_validation_failed=True, errors=(wrong,))


def rewards_agree(said: float, found: float) -> bool:
    """Is a reward what was said, but for rounding?"""
    return math.isclose(said, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _replay_failed(result: ValidationResult, error: ValidationError) -> ValidationResult:
    return replace(result, actions_replay_failed=True, errors=(error,))


async def _semantics(runtime: "Owner", env: Env, state: CompilerEnvState, options: Options) -> ValidationResult:
    """Do all tests of what the program does, spread over the workers."""
    if env.spec.worker in COMPARING:
        reason = "what a kernel computes is compared with NumPy whenever it is measured"
        return ValidationResult(state=state, behaviour=Behaviour.SAME, reason=reason)
    jobs = [functools.partial(_test, state, test, options.flakiness) for test in _tests(runtime, env, state, options)]
    return ValidationResult.join(await spread(jobs))


async def _explained(runtime: "Owner", env: Env, result: ValidationResult, options: Options) -> ValidationResult:
    """Return the result of a program that does something else, which is not the compiler's fault if it may.

    It may if an option of its command line allows it, and makes it so, or if the program's behaviour is undefined.
    """
    if reason := await _allowed(runtime, env, result.state, options):
        return _varies(result, reason)
    async with await bare_sibling(env) as own:
        signs = await undefined(own, first_run(runnable(env.benchmark)))
    return _varies(result, str(signs)) if signs.found else replace(result, reason=f"{result.reason}{signs}")


def _varies(result: ValidationResult, reason: str) -> ValidationResult:
    errors = tuple(replace(error, by_itself=True) for error in result.errors)
    known: dict[str, Any] = {"behaviour": Behaviour.VARIES, "benchmark_semantics_validation_failed": False}
    return replace(result, reason=f"{result.reason}{reason}", errors=errors, **known)


async def _allowed(runtime: "Owner", env: Env, state: CompilerEnvState, options: Options) -> str:
    """Return which words of a command line let a program do something else, "" if it does so without them as well."""
    notation = env.action_spaces.language.notation
    words = notation.effects(state.actions) if notation is not None else {}
    if notation is None or not words:
        return ""
    plain = replace(state, actions=tuple(notation.without_effects(state.actions)))
    if (await _semantics(runtime, env, plain, options)).behaviour is not Behaviour.SAME:
        return ""
    return "".join(f"; {word} allows that: {effect}" for word, effect in words.items())


async def _reproducer(env: Env, result: ValidationResult, options: Options) -> tuple[str, ...]:
    """Return the actions that miscompile a program, by the tests that failed."""
    found = {error.data.get("sanitizer") for error in result.errors if not error.by_itself}
    sanitizers = () if None in found else tuple(one for one in options.sanitizers if one in found)
    chosen: dict[str, Any] = {"runs": options.runs, "sanitizers": sanitizers, "timeout": options.timeout}
    chosen["sanitized_runs"] = options.sanitized_runs
    return await reproducer_of(env, result.state.actions, options.timeout, **chosen)


def _tests(
    runtime: "Owner", env: Env, state: CompilerEnvState, options: Options
) -> list[Callable[[], Awaitable[Finding]]]:
    def subject(benchmark: Benchmark) -> Subject:
        return Subject(runtime, env, benchmark, state.actions, options.timeout)

    benchmark = env.benchmark
    tests: list[Callable[[], Awaitable[Finding]]] = [
        functools.partial(_callback_test, subject(benchmark), callback) for callback in benchmark.validation_callbacks
    ]
    if benchmark.program is not None and benchmark.program.runs:
        names = _names(benchmark, options.runs)
        tests.append(functools.partial(execution_test, subject(benchmark.with_runs(names))))
        watched = subject(benchmark.with_runs(names[: options.sanitized_runs]))
        if any(sanitizer.observation_space in env.observation_spaces for sanitizer in Sanitizer):
            tests += [functools.partial(_watched_test, watched, sanitizer) for sanitizer in options.sanitizers]
        elif options.sanitizers:
            tests.append(functools.partial(_no_sanitizers, env.spec.id.partition("?")[0]))
    elif not tests:
        tests.append(functools.partial(execution_test, subject(runnable(benchmark))))
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


async def _watched_test(subject: Subject, sanitizer: Sanitizer) -> Finding:
    errors = await sanitizer_test(subject, sanitizer)
    new = [error for error in errors if not error.by_itself]
    return Finding(Behaviour.DIFFERS if new else Behaviour.NOT_RUN, in_words(new), tuple(errors))


async def _no_sanitizers(environment: str) -> Finding:
    raise Skipped(f"{environment} has no sanitizers")


async def _callback_test(subject: Subject, callback: Callable[[Any], Awaitable[Iterable[Any]]]) -> Finding:
    try:
        async with subject.reached(subject.benchmark, subject.actions) as env:
            errors = list(await callback(env))
    except Failed as failure:
        errors = [failure.error]
    except (ServiceError, TimeoutError) as error:  # of a request that it made, or of its own
        errors = [not_executed(error)]
    except Exception as error:  # the callback is somebody's code, and is to stop nothing but itself
        errors = [ValidationError.of_exception(ErrorKind.CALLBACK_FAILED, error, trace=True)]
    if not errors:
        return Finding(Behaviour.SAME, "the benchmark's own tests find nothing wrong")
    return Finding(Behaviour.DIFFERS, in_words(errors), tuple(errors))


async def _test(state: CompilerEnvState, test: Callable[[], Awaitable[Finding]], tries: int) -> ValidationResult:
    try:
        found = await retried(test, tries)
    except Skipped as skipped:
        return ValidationResult(state=state, reason=str(skipped), skipped=(str(skipped),))
    return ValidationResult(
        state=state,
        behaviour=found.behaviour,
        reason=found.reason,
        errors=found.errors,
        benchmark_semantics_validated=found.behaviour is not Behaviour.NOT_RUN,
        benchmark_semantics_validation_failed=found.behaviour is Behaviour.DIFFERS,
    )


def validate_states(
    runtime: "Owner",
    states: Iterable[CompilerEnvState | LegacyState],
    *,
    ordered: bool = False,
    environment: str | None = None,
    **options: Any,
) -> AsyncGenerator[ValidationResult, None]:
    """Validate many states, as many at a time as there are workers, and yield the results as they come.

    ::

        async for result in validate_states(runtime, CompilerEnvStateReader.read_paths(["results.csv"])):
            print(result)

    A state that fails in any way, including a missing benchmark, yields a result and does not stop others. Leaving the
    loop early cancels pending work; `contextlib.aclosing` around it also waits for that.

    Args:
        runtime: whose workers do it.
        states: what to validate; taken one at a time, as workers become free.
        ordered: yield the results in the order of the states.
        environment: id of the environment for states that do not name one; `"llvm-ic-v0"` if None.
        options: the fields of `Options`.

    Raises:
        TypeError: at once, when there is no such option.
        RuntimeClosed: when the runtime is closed meanwhile.
    """
    return _results(runtime, iter(states), environment, Options.of(**options), ordered)


async def _results(
    runtime: "Owner", waiting: Iterator[_State], environment: str | None, options: Options, ordered: bool
) -> AsyncGenerator[ValidationResult, None]:
    missing = _Missing()
    # Plain tasks: a task group must be exited in the task that entered it, which generators do not guarantee.
    tasks: deque[asyncio.Task[ValidationResult]] = deque()
    finished: asyncio.Queue[asyncio.Task[ValidationResult]] = asyncio.Queue()

    def begin(count: int) -> None:
        for state in itertools.islice(waiting, count):
            tasks.append(asyncio.create_task(_validated(runtime, state, environment, options, missing)))
            tasks[-1].add_done_callback(finished.put_nowait)

    try:
        begin(runtime.worker_count)
        while tasks:
            one = await finished.get()
            begin(1)
            if not ordered:
                tasks.remove(one)
                yield one.result()
            while ordered and tasks and tasks[0].done():
                yield tasks.popleft().result()
    finally:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _validated(
    runtime: "Owner", state: _State, environment: str | None, options: Options, missing: "_Missing"
) -> ValidationResult:
    """Validate a state; errors become its result, unless the runtime is closed."""
    modern, translation = _untranslated(state, environment)
    try:
        if isinstance(state, LegacyState):
            modern, translation = await modern_state(runtime, state, environment)
        if (wrong := missing.find(modern.benchmark)) is None:
            result = await _validate_translated(runtime, modern, translation, options)
            missing.learn(result)
            return result
    except RuntimeClosed:
        raise
    except DatasetError as error:
        wrong = ValidationError.of_exception(ErrorKind.BENCHMARK_UNAVAILABLE, error)
    except AiocgError as error:
        run = isinstance(error, UnknownName) and error.kind == "run"  # this program has none of that name; others may
        wrong = ValidationError.of_exception(ErrorKind.UNKNOWN_RUN if run else ErrorKind.REPLAY_FAILED, error)
    except Exception as error:  # a dataset or a reward of the user's may raise anything
        wrong = ValidationError.of_exception(ErrorKind.REPLAY_FAILED, error, trace=True)
    replayed = wrong.kind == ErrorKind.UNKNOWN_RUN
    result = ValidationResult(
        state=modern,
        actions_replay_failed=not replayed,
        benchmark_semantics_validation_failed=replayed,
        errors=(wrong,),
        translation=translation,
    )
    missing.learn(result)
    return result


class _Missing:
    """Remembers unavailable benchmarks: finding out takes a second, and a file has hundreds of such states.

    An error of a benchmark applies to all its states. The same error of two benchmarks of a dataset applies to the
    whole dataset.
    """

    def __init__(self) -> None:
        self._errors: dict[str, ValidationError] = {}  # by benchmark or dataset
        self._once: dict[tuple[str, ValidationError], str] = {}

    def find(self, benchmark: str) -> ValidationError | None:
        """Return the known error of a benchmark, if any."""
        return self._errors.get(benchmark) or self._errors.get(_dataset(benchmark))

    def learn(self, result: ValidationResult) -> None:
        """Record a result."""
        for error in result.errors:
            if error.kind == ErrorKind.BENCHMARK_UNAVAILABLE and error.data["error_type"] == "DownloadError":
                benchmark = result.state.benchmark
                self._errors[benchmark] = error
                if self._once.setdefault((_dataset(benchmark), error), benchmark) != benchmark:
                    self._errors[_dataset(benchmark)] = error


def _dataset(benchmark: str) -> str:
    """Return the part of a URI that names the dataset."""
    return benchmark.rpartition("://")[2].partition("/")[0]


def _untranslated(state: _State, environment: str | None) -> tuple[CompilerEnvState, Translation | None]:
    """Return a placeholder for a state whose command line cannot be read."""
    if isinstance(state, CompilerEnvState):
        return state, None
    known: dict[str, Any] = {"benchmark": state.benchmark, "reward": state.reward, "walltime": state.walltime}
    modern = CompilerEnvState(environment=environment or DEFAULT_ENVIRONMENT, **known)
    return modern, Translation(commandline=state.commandline)
