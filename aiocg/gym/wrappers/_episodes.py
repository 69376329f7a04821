"""Other ways to go through episodes: counted, limited, past errors, taken back, forked at each step."""

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np
from gymnasium.utils import RecordConstructorArgs

from aiocg.datasets.locking import ForkedLock
from aiocg.env.plan import StepSettings
from aiocg.env.step import StepResult
from aiocg.errors import ResetNeeded, ServiceError
from aiocg.gym.wrappers._wrapper import AnyEnv, Begun, CompilerEnvWrapper, WrapperSnapshot

if TYPE_CHECKING:
    from aiocg.env.preparation import BenchmarkLike


class Counting:
    """A mixin that counts calls of the methods named by a subclass."""

    counters: dict[str, int]
    _none: dict[str, int]

    def __init_subclass__(cls, methods: tuple[str, ...] = (), **settings: Any) -> None:
        for name in methods:
            setattr(cls, name, _counted(getattr(cls, name)))
        cls._none = dict.fromkeys((*methods, "fork"), 0) if methods else cls._none
        super().__init_subclass__(**settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        self.counters["fork"] += 1
        child: Self = super().__deepcopy__(memo)  # type: ignore[misc]  # the wrapper's
        child.counters = dict(self._none)
        return child


def _counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def counted(self: Counting, *arguments: Any, **settings: Any) -> Any:
        self.counters[method.__name__] += 1
        return method(self, *arguments, **settings)

    return counted


class Counter(Counting, CompilerEnvWrapper, RecordConstructorArgs, methods=("close", "reset", "step", "multistep")):
    """Counts calls, over all episodes.

    Forks are counted, also as part of a larger chain of wrappers; a fork's own counters start at zero.

    Args:
        env: what to wrap.

    Attributes:
        counters: how often each was called: "close", "reset", "step", "multistep" and "fork".
    """

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        CompilerEnvWrapper.__init__(self, env)
        self.counters = dict(self._none)

    def step(self, action: Any, **settings: Unpack[StepSettings]) -> StepResult:
        return CompilerEnvWrapper.multistep(self, self._listed(action), **settings)  # which is not counted


class TimeLimit(CompilerEnvWrapper, RecordConstructorArgs):
    """Truncates episodes after some actions.

    Gymnasium's own `TimeLimit` works as well, but counts steps, and `multistep` bypasses it. This one counts actions:
    those beyond the limit are not taken. Forks, snapshots and `apply` keep the count. `info["TimeLimit.truncated"]` is
    there once the limit is reached; it says that nothing else has ended the episode.

    Args:
        env: what to wrap.
        max_episode_steps: how many actions an episode may have; what `env.spec` says if None.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "_elapsed_steps")

    def __init__(self, env: AnyEnv, max_episode_steps: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps)
        CompilerEnvWrapper.__init__(self, env)
        if max_episode_steps is None and env.spec is not None:
            max_episode_steps = env.spec.max_episode_steps
        if not isinstance(max_episode_steps, int) or max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is a number of actions, at least 1, not {max_episode_steps!r}")
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps = 0
        self._begin()

    def begin(self) -> None:
        """Count the actions that the episode begins with."""
        self._elapsed_steps = len(self.action_texts)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, as far as the limit allows; see `CompilerEnv.multistep`."""
        chosen = list(actions)[: max(self._max_episode_steps - self._elapsed_steps, 0)]
        observation, reward, terminated, truncated, info = super().multistep(chosen, **settings)
        self._elapsed_steps += len(chosen)
        if self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not terminated
            truncated = True
            self.end()
        return observation, reward, terminated, truncated, info


class JustKeepGoing(CompilerEnvWrapper, RecordConstructorArgs):
    """Undoes failing actions and continues the episode.

    After an error of the compiler or the program, a timeout, or a failed validation, the state is that before the call,
    the reward is 0, and the step has `info["error_type"]` and `info["error_details"]` but not `terminated`. Beyond
    `max_errors` the episode ends as usual. Mistakes of the caller raise as usual.

    Args:
        env: what to wrap.
        max_errors: how many errors an episode may have.

    Attributes:
        errors: how many this episode has had.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "errors")

    def __init__(self, env: AnyEnv, max_errors: int = 10) -> None:
        RecordConstructorArgs.__init__(self, max_errors=max_errors)
        CompilerEnvWrapper.__init__(self, env)
        self.max_errors = max_errors
        self.errors = 0

    def begin(self) -> None:
        """Forget the errors of the last episode."""
        self.errors = 0

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, or none of them after an error; see `CompilerEnv.multistep`."""
        before = super().snapshot()
        result = super().multistep(actions, **settings)
        failed = result[4]
        if not result[2] or "error_type" not in failed or self.errors >= self.max_errors:
            return result
        errors = self.errors + 1
        try:
            super().restore(before)
            observation, reward, terminated, truncated, info = super().multistep([], **settings)
        except (ServiceError, ResetNeeded):  # the state cannot be had any more, so it is the end after all
            self.end()
            return result
        self.errors = errors
        info |= {name: value for name, value in failed.items() if "error" in name}
        return observation, [0.0] * len(reward) if isinstance(reward, list) else 0.0, terminated, truncated, info


class ForkOnStep(CompilerEnvWrapper, RecordConstructorArgs):
    """Remembers the state before every step, so that `undo` can go back to it::

        env = ForkOnStep(gymnasium.make("llvm-v0"))
        env.reset()
        env.step("mem2reg")
        env.undo()
        env.actions  # []

    States are kept as snapshots, in constant time; several actions in one call are undone together. A fork can go back
    as far as the original; an unpickled one cannot go back beyond its own start.

    Args:
        env: what to wrap.

    Attributes:
        stack: the states before the steps of the episode, first to last.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "stack")

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        CompilerEnvWrapper.__init__(self, env)
        self.stack: list[WrapperSnapshot] = []

    def begin(self) -> None:
        """Drop the states of the last episode, which frees them unless a fork or a snapshot shares them."""
        self.stack = []

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        before = super().snapshot()
        result = super().multistep(actions, **settings)
        self.stack.append(before)
        return result

    def undo(self) -> Self:
        """Go back to the state before the last step, also after one that has ended the episode; return `self`.

        At the start of the episode there is nothing to undo, and nothing happens.
        """
        if self.stack:
            *stack, before = self.stack
            super().restore(before)
            self.stack = stack
        return self

    def close(self) -> None:
        """Close the environment and forget all states."""
        self.stack = []
        super().close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        child = super().__deepcopy__(memo)
        child.stack = list(self.stack)  # in common: restoring a snapshot changes nothing about it
        return child

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "stack": []}


# --------------------------------------------------------------------- Wrappers that choose the program of each episode

T = TypeVar("T")


# -------------------- Other ways to go through episodes: counted, limited, past errors, taken back, forked at each step


def _repeated(elements: Iterable[T], make: Callable[[], Iterable[T]]) -> Iterator[T]:
    found = [True]
    while found:  # until it is empty
        found = []
        for one in elements:
            found = [True]
            yield one
        elements = make()


class ForkableIterator(Iterator[T]):
    """An iterator that `copy.copy` and `copy.deepcopy` split in two, which may be used from different threads.

    Elements consumed by only one of them are kept for the others. Unpickling restarts the source and skips to the same
    place, which requires a picklable, deterministic source.

    Args:
        make: returns what to iterate over.
        repeat: restart with `make` at the end, unless that is empty.
    """

    def __init__(self, make: Callable[[], Iterable[T]], *, repeat: bool = False) -> None:
        self._arguments = make, repeat
        elements = make()
        (self._elements,) = itertools.tee(_repeated(elements, make) if repeat else elements, 1)
        self._lock = ForkedLock()  # of all copies
        self._position = 0

    def __next__(self) -> T:
        with self._lock:
            element = next(self._elements)
        self._position += 1
        return element

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        with self._lock:
            other.__dict__.update(self.__dict__, _elements=copy.copy(self._elements))
        return other

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _forwarded, (*self._arguments, self._position)


def _forwarded(make: Callable[[], Iterable[T]], repeat: bool, position: int) -> ForkableIterator[T]:
    iterator = ForkableIterator(make, repeat=repeat)
    for _ in range(position):
        next(iterator)
    return iterator


def _same(benchmarks: Iterable[T]) -> Iterable[T]:
    if isinstance(benchmarks, (str, bytes)):
        raise TypeError(f"benchmarks are given as a list or a dataset, not as {benchmarks!r}")
    return benchmarks


def _once(benchmarks: "Iterable[T]") -> "ForkableIterator[T]":
    """Return an iterator over something, which can be copied; it can be pickled if that is no iterator itself."""
    return ForkableIterator(functools.partial(_same, benchmarks))


class _Chosen(CompilerEnvWrapper, RecordConstructorArgs):
    """A wrapper that says which benchmark is next."""

    benchmarks: "Iterator[BenchmarkLike]"

    def next_benchmark(self) -> "BenchmarkLike":
        """Return the benchmark of the next episode; raise StopIteration when there is none."""
        return next(self.benchmarks)

    def reset(self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any) -> Begun:
        """Start an episode with the next benchmark; see `CompilerEnv.reset`.

        Raises:
            StopIteration: when there is none.
            TypeError: when a benchmark was given.
        """
        chosen = {**(options or {}), **settings}
        if chosen.get("benchmark") is not None:
            raise TypeError(f"a benchmark was passed to reset(), but {type(self).__name__} chooses it")
        return super().reset(seed=seed, options={**chosen, "benchmark": self.next_benchmark()})


class IterateOverBenchmarks(_Chosen):
    """Takes the next of some benchmarks at every reset, which raises StopIteration when there is none.

    Args:
        env: what to wrap.
        benchmarks: URIs or benchmarks; anything that can be iterated over, such as a dataset.
        fork_shares_iterator: True: what a fork takes, the original does not get. False: a fork goes on from the same
            place on its own; what only one of them has passed is kept for the other.

    Attributes:
        benchmarks: an iterator over those that are left.
    """

    def __init__(self, env: AnyEnv, benchmarks: "Iterable[BenchmarkLike]", fork_shares_iterator: bool = False) -> None:
        RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, benchmarks=benchmarks, fork_shares_iterator=fork_shares_iterator
        )
        CompilerEnvWrapper.__init__(self, env)
        self.benchmarks = self._iterator(benchmarks)
        self.fork_shares_iterator = fork_shares_iterator

    def _iterator(self, benchmarks: "Iterable[BenchmarkLike]") -> "Iterator[BenchmarkLike]":
        return _once(benchmarks)

    def __deepcopy__(self, memo: dict[int, Any]) -> "IterateOverBenchmarks":
        if self.fork_shares_iterator:
            memo[id(self.benchmarks)] = self.benchmarks
        return super().__deepcopy__(memo)


class CycleOverBenchmarks(IterateOverBenchmarks):
    """Takes the next of some benchmarks at every reset, and begins again at the end; see `IterateOverBenchmarks`."""

    def _iterator(self, benchmarks: "Iterable[BenchmarkLike]") -> "Iterator[BenchmarkLike]":
        if isinstance(benchmarks, Iterator):
            return _once(itertools.cycle(benchmarks))  # only an iterator's benchmarks are remembered
        return ForkableIterator(functools.partial(_same, benchmarks), repeat=True)


class CycleOverBenchmarksIterator(_Chosen):
    """Takes the next benchmark of an iterator at every reset, and makes a new iterator at the end.

    A fork goes on from the same place on its own.

    Args:
        env: what to wrap.
        make_benchmark_iterator: returns something to iterate over.
    """

    def __init__(self, env: AnyEnv, make_benchmark_iterator: "Callable[[], Iterable[BenchmarkLike]]") -> None:
        RecordConstructorArgs.__init__(self, make_benchmark_iterator=make_benchmark_iterator)
        CompilerEnvWrapper.__init__(self, env)
        self.make_benchmark_iterator = make_benchmark_iterator
        self.benchmarks = ForkableIterator(make_benchmark_iterator, repeat=True)


class RandomOrderBenchmarks(_Chosen):
    """Draws one of some benchmarks at every reset, each as likely as another.

    A fork has a copy of the generator: it draws what the original would. `reset(seed=...)` seeds it.

    Args:
        env: what to wrap.
        benchmarks: URIs or benchmarks; all of them are listed. For very many, `IterateOverBenchmarks` over a shuffled
            view of a dataset costs nothing.
        rng: a generator to draw with, a new one if None.
    """

    fork_shares = (*_Chosen.fork_shares, "_benchmarks")

    def __init__(
        self,
        env: AnyEnv,
        benchmarks: "Iterable[BenchmarkLike]",
        rng: np.random.Generator | None = None,
    ) -> None:
        listed = list(_same(benchmarks))
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, benchmarks=listed, rng=rng)
        CompilerEnvWrapper.__init__(self, env)
        if not listed:
            raise ValueError("there are no benchmarks to draw from")
        self._benchmarks = listed
        self.rng = rng if rng is not None else np.random.default_rng()

    def next_benchmark(self) -> "BenchmarkLike":
        return self._benchmarks[int(self.rng.integers(len(self._benchmarks)))]

    def reset(self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any) -> Begun:
        """Start an episode with a benchmark drawn; see `CompilerEnv.reset`."""
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options, **settings)
