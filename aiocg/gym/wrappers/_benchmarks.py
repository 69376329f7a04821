"""Wrappers that choose the program of each episode."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers._episodes import ForkableIterator
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper

if TYPE_CHECKING:
    from aiocg.env.preparation import BenchmarkLike

T = TypeVar("T")


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

    def reset(
        self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
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

    def __init__(
        self, env: "gymnasium.Env[Any, Any]", benchmarks: "Iterable[BenchmarkLike]", fork_shares_iterator: bool = False
    ) -> None:
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

    def __init__(
        self, env: "gymnasium.Env[Any, Any]", make_benchmark_iterator: "Callable[[], Iterable[BenchmarkLike]]"
    ) -> None:
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
        env: "gymnasium.Env[Any, Any]",
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

    def reset(
        self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode with a benchmark drawn; see `CompilerEnv.reset`."""
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options, **settings)
