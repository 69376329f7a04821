"""Validating many states concurrently and independently."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import anyio

from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, RuntimeClosed, UnknownName
from aiocg.states.result import ErrorKind, Translation, ValidationError, ValidationResult
from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.validation.legacy_states import DEFAULT_ENVIRONMENT, modern_state
from aiocg.validation.state import Options, validate_translated

if TYPE_CHECKING:
    from aiocg.env.base import Owner


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
    runtime: "Owner",
    waiting: Iterator[CompilerEnvState | LegacyState],
    environment: str | None,
    options: Options,
    ordered: bool,
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
    runtime: "Owner",
    state: CompilerEnvState | LegacyState,
    environment: str | None,
    options: Options,
    missing: "_Missing",
) -> ValidationResult:
    """Validate a state; errors become its result, unless the runtime is closed."""
    modern, translation = _untranslated(state, environment)
    try:
        if isinstance(state, LegacyState):
            modern, translation = await modern_state(runtime, state, environment)
        if (wrong := missing.find(modern.benchmark)) is None:
            result = await validate_translated(runtime, modern, translation, options)
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


def _untranslated(
    state: CompilerEnvState | LegacyState, environment: str | None
) -> tuple[CompilerEnvState, Translation | None]:
    """Return a placeholder for a state whose command line cannot be read."""
    if isinstance(state, CompilerEnvState):
        return state, None
    modern = CompilerEnvState(
        environment=environment or DEFAULT_ENVIRONMENT,
        benchmark=state.benchmark,
        reward=state.reward,
        walltime=state.walltime,
    )
    return modern, Translation(commandline=state.commandline)
