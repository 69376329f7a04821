"""Wrappers that choose another program for each episode."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.util.parallelization import thread_safe_tee
from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = [
    "BenchmarkLike",
    "CycleOverBenchmarks",
    "CycleOverBenchmarksIterator",
    "IterateOverBenchmarks",
    "RandomOrderBenchmarks",
]


BenchmarkLike = str | Benchmark
"""What a program can be given as."""


class _ChoosesBenchmarks(CompilerEnvWrapper):
    """A wrapper whose resets choose the program."""

    def reset(self, benchmark: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Start an episode on the next program; takes what the environment's `reset` does, but for `benchmark`.

        Raises:
            TypeError: when a benchmark is given.
            StopIteration: when there are no more.
        """
        if benchmark is not None:
            raise TypeError(f"Benchmark passed to {type(self).__name__}.reset()")
        return self.env.reset(self.next_benchmark(), *args, **kwargs)

    def next_benchmark(self) -> Any:
        """Return the program of the next episode."""
        raise NotImplementedError


class IterateOverBenchmarks(_ChoosesBenchmarks):
    """A wrapper that takes one program after the other. When there are no more, `reset` raises StopIteration.

    Args:
        env: the environment.
        benchmarks: the programs, perhaps without an end.
        fork_shares_iterator: a reset of a fork takes a program from this one, too; otherwise forks go on by themselves
            from where this one is.
    """

    def __init__(self, env: Any, benchmarks: Iterable[Any], fork_shares_iterator: bool = False) -> None:
        super().__init__(env)
        self.benchmarks: Iterator[Any] = iter(benchmarks)
        self.fork_shares_iterator = fork_shares_iterator

    def next_benchmark(self) -> Any:
        """Return the program of the next episode."""
        return next(self.benchmarks)

    def fork(self) -> "IterateOverBenchmarks":
        """Return a wrapper of this kind around a fork."""
        others = self.benchmarks
        if not self.fork_shares_iterator:
            self.benchmarks, others = thread_safe_tee(self.benchmarks)
        return IterateOverBenchmarks(
            env=self.env.fork(), benchmarks=others, fork_shares_iterator=self.fork_shares_iterator
        )


class CycleOverBenchmarks(IterateOverBenchmarks):
    """A wrapper that takes one program after the other, and begins again after the last.

    Args:
        env: the environment.
        benchmarks: the programs, which are remembered.
        fork_shares_iterator: as for `IterateOverBenchmarks`.
    """

    def __init__(self, env: Any, benchmarks: Iterable[Any], fork_shares_iterator: bool = False) -> None:
        super().__init__(env, itertools.cycle(benchmarks), fork_shares_iterator)


class CycleOverBenchmarksIterator(_ChoosesBenchmarks):
    """A wrapper that takes one program after the other, and asks for them again after the last.

    Args:
        env: the environment.
        make_benchmark_iterator: returns the programs; forks call it as well.
    """

    def __init__(self, env: Any, make_benchmark_iterator: Callable[[], Iterable[Any]]) -> None:
        super().__init__(env)
        self.make_benchmark_iterator = make_benchmark_iterator
        self.benchmarks: Iterator[Any] = iter(make_benchmark_iterator())

    def next_benchmark(self) -> Any:
        """Return the program of the next episode."""
        for benchmark in self.benchmarks:
            return benchmark
        self.benchmarks = iter(self.make_benchmark_iterator())
        return next(self.benchmarks)

    def fork(self) -> "CycleOverBenchmarksIterator":
        """Return a wrapper of this kind around a fork; it begins with the first program."""
        return type(self)(env=self.env.fork(), make_benchmark_iterator=self.make_benchmark_iterator)


class RandomOrderBenchmarks(IterateOverBenchmarks):
    """A wrapper that draws a program for each episode.

    Args:
        env: the environment.
        benchmarks: the programs, all of which are enumerated at once.
        rng: generator of random numbers, a fresh one if None.
    """

    def __init__(self, env: Any, benchmarks: Iterable[Any], rng: "np.random.Generator | None" = None) -> None:
        self._all_benchmarks = list(benchmarks)
        self._rng = rng if rng is not None else np.random.default_rng()
        super().__init__(env, iter(self._draw, object()), fork_shares_iterator=True)

    def _draw(self) -> Any:
        return self._all_benchmarks[int(self._rng.integers(len(self._all_benchmarks)))]

    def fork(self) -> "RandomOrderBenchmarks":
        """Return a wrapper of this kind around a fork, with random numbers of its own."""
        rng = np.random.default_rng(self._rng.integers(2**63))
        return type(self)(env=self.env.fork(), benchmarks=self._all_benchmarks, rng=rng)
