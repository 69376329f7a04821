"""Wrappers that choose programs and actions, and that count, limit, validate and undo steps."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from aiocg.compat.classic import _core as classic
from aiocg.compat.datasets._benchmark import Benchmark
from aiocg.compat.envs._rewards import RuntimeReward
from aiocg.compat.spaces._actions import Commandline, CommandlineFlag
from aiocg.compat.tools._processes import thread_safe_tee
from aiocg.compat.wrappers._core import ActionWrapper, CompilerEnvWrapper
from aiocg.gym.wrappers import ForkableIterator

BenchmarkLike = str | Benchmark
"""The types that can name a benchmark."""


class IterateOverBenchmarks(CompilerEnvWrapper):
    """A wrapper that iterates over benchmarks. After the last, `reset` raises StopIteration.

    With `fork_shares_iterator`, forks take benchmarks from the same iterator; otherwise each fork continues on its own
    from the current position.
    """

    def __init__(self, env: Any, benchmarks: Iterable[Any], fork_shares_iterator: bool = False) -> None:
        super().__init__(env)
        self.benchmarks: Iterator[Any] = iter(benchmarks)
        self.fork_shares_iterator = fork_shares_iterator

    def reset(self, benchmark: Any = None, *args: Any, **kwargs: Any) -> Any:
        if benchmark is not None:
            raise TypeError(f"Benchmark passed to {type(self).__name__}.reset()")
        return self.env.reset(next(self.benchmarks), *args, **kwargs)

    def fork(self) -> Any:
        others = self.benchmarks
        if not self.fork_shares_iterator:
            self.benchmarks, others = thread_safe_tee(self.benchmarks)
        return IterateOverBenchmarks(self.env.fork(), others, self.fork_shares_iterator)


class CycleOverBenchmarks(IterateOverBenchmarks):
    """A wrapper that iterates over benchmarks, and starts over after the last."""

    def __init__(self, env: Any, benchmarks: Iterable[Any], fork_shares_iterator: bool = False) -> None:
        super().__init__(env, itertools.cycle(benchmarks), fork_shares_iterator)


class CycleOverBenchmarksIterator(IterateOverBenchmarks):
    """A wrapper that iterates over benchmarks, and makes a new iterator after the last."""

    def __init__(self, env: Any, make_benchmark_iterator: Callable[[], Iterable[Any]]) -> None:
        self.make_benchmark_iterator = make_benchmark_iterator
        super().__init__(env, ForkableIterator(make_benchmark_iterator, repeat=True))

    def fork(self) -> Any:
        return type(self)(self.env.fork(), self.make_benchmark_iterator)


class RandomOrderBenchmarks(IterateOverBenchmarks):
    """A wrapper that draws a random benchmark for each episode."""

    def __init__(self, env: Any, benchmarks: Iterable[Any], rng: "np.random.Generator | None" = None) -> None:
        self._all_benchmarks = list(benchmarks)
        self._rng = rng if rng is not None else np.random.default_rng()
        super().__init__(env, iter(self._draw, object()), fork_shares_iterator=True)

    def _draw(self) -> Any:
        return self._all_benchmarks[int(self._rng.integers(len(self._all_benchmarks)))]

    def fork(self) -> "RandomOrderBenchmarks":
        rng = np.random.default_rng(self._rng.integers(2**63))
        return type(self)(env=self.env.fork(), benchmarks=self._all_benchmarks, rng=rng)


_END = CommandlineFlag(name="end-of-episode", flag="# end-of-episode", description="End the episode")


def _flags(env: Any) -> list[CommandlineFlag]:
    """Return the flags of an environment."""
    space = env.action_space
    if not isinstance(getattr(space, "wrapped", space), Commandline):
        raise TypeError(f"Can only wrap Commandline action space. Received: {type(space).__name__}")
    return [CommandlineFlag(*one) for one in zip(space.names, space.flags, space.descriptions, strict=True)]


class CommandlineWithTerminalAction(CompilerEnvWrapper):
    """A wrapper that adds an action, the last, which ends the episode."""

    action_space: Any = None

    def __init__(self, env: Any, terminal: CommandlineFlag = _END) -> None:
        super().__init__(env)
        self._terminal = terminal
        name = f"{type(self).__name__}<{env.action_space.name}>"
        self.action_space = Commandline([*_flags(env), terminal], name=name)

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        chosen = list(actions)
        end = len(self.action_space.flags) - 1
        ends = end in chosen
        if ends:
            chosen = chosen[: chosen.index(end)]
        observation, reward, done, info = super().multistep(chosen, *args, **kwargs)
        if ends and not done:
            done = True
            info["terminal_action"] = True
        return observation, reward, done, info

    def fork(self) -> Any:
        return type(self)(env=self.env.fork(), terminal=self._terminal)


class ConstrainedCommandline(ActionWrapper):
    """A wrapper with a subset of the flags, renumbered from 0."""

    action_space: Any = None

    def __init__(self, env: Any, flags: Iterable[str], name: str | None = None) -> None:
        super().__init__(env)
        self._flags, self._name = list(flags), name
        if not self._flags:
            raise TypeError("No flags provided")
        known = _flags(env)
        numbers = {one.flag: number for number, one in enumerate(known)}
        unknown = [flag for flag in self._flags if flag not in numbers]
        if unknown:
            raise LookupError(f"Unknown flags: {', '.join(unknown)}")
        self._forward_translation = [numbers[flag] for flag in self._flags]
        self._reverse_translation = {number: place for place, number in enumerate(self._forward_translation)}
        self.action_space = Commandline(
            [known[number] for number in self._forward_translation],
            name=f"{type(self).__name__}<{name or env.action_space.name}, {len(self._flags)}>",
        )

    def action(self, action: Any) -> Any:
        forward = self._forward_translation
        return [forward[one] for one in action] if isinstance(action, Iterable) else forward[action]

    def reverse_action(self, action: Any) -> Any:
        back = self._reverse_translation
        return [back[one] for one in action] if isinstance(action, Iterable) else back[action]

    @property
    def actions(self) -> Any:
        """The actions of the episode, as indices of the wrapper's space."""
        return self.reverse_action(self.env.actions)

    def fork(self) -> "ConstrainedCommandline":
        return type(self)(env=self.env.fork(), flags=self._flags, name=self._name)


class Counter(CompilerEnvWrapper):
    """A wrapper that counts calls; resets keep the counts, and forks start with zeros."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.counters = {"close": 0, "reset": 0, "step": 0, "fork": 0}

    def close(self) -> None:
        self.counters["close"] += 1
        super().close()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        self.counters["reset"] += 1
        return super().reset(*args, **kwargs)

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        actions = list(actions)
        self.counters["step"] += len(actions)
        return super().multistep(actions, *args, **kwargs)

    def fork(self) -> Any:
        self.counters["fork"] += 1
        return super().fork()


class TimeLimit(classic.TimeLimit, CompilerEnvWrapper):
    """A wrapper that limits the number of actions in an episode, and reports it as `info["TimeLimit.truncated"]`."""

    step = CompilerEnvWrapper.step

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        actions = list(actions)
        assert self._elapsed_steps is not None, "Cannot call env.step() before calling reset()"
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        self._elapsed_steps += len(actions)
        if self._max_episode_steps is not None and self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not done
            done = True
        return observation, reward, done, info

    fork = CompilerEnvWrapper._fork_as_copy


class ValidateBenchmarkAfterEveryStep(CompilerEnvWrapper):
    """A wrapper that validates the program after each step, and ends the episode if there is an error."""

    def __init__(self, env: Any, reward_penalty: float = -1e3) -> None:
        super().__init__(env)
        self.reward_penalty = reward_penalty

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        if not done:
            for error in self.env.benchmark.ivalidate(self.env):
                info["error_details"] = error
                penalty = self.reward_penalty
                return observation, [penalty] * len(reward) if isinstance(reward, list) else penalty, True, info
        return observation, reward, done, info

    fork = CompilerEnvWrapper._fork_as_copy


class ForkOnStep(CompilerEnvWrapper):
    """A wrapper that forks before each step, so that `undo` can revert it."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.stack: list[Any] = []

    def undo(self) -> Any:
        """Revert the last step and return the environment, or None if there is no step to revert."""
        if not self.stack:
            return None
        self.env.close()
        self.env = self.stack.pop()
        return self.env

    def close(self) -> None:
        self._close_forks()
        super().close()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observation = super().reset(*args, **kwargs)
        self._close_forks()
        return observation

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        self.stack.append(self.env.fork())
        return super().multistep(actions, *args, **kwargs)

    def fork(self) -> Any:
        other = super().fork()
        other.stack = [env.fork() for env in self.stack]
        return other

    def _close_forks(self) -> None:
        while self.stack:
            self.stack.pop().close()


class RuntimePointEstimateReward(CompilerEnvWrapper):
    """A wrapper that rewards the decrease of the running time."""

    def __init__(
        self,
        env: Any,
        runtime_count: int = 30,
        warmup_count: int = 0,
        estimator: Callable[[Iterable[float]], float] = np.median,  # type: ignore[assignment]
    ) -> None:
        super().__init__(env)
        base = self.env.unwrapped
        base.reward.add_space(
            RuntimeReward(runtime_count=runtime_count, warmup_count=warmup_count, estimator=estimator)
        )
        base.reward_space = "runtime"
        self._refused: ValueError | None = None
        try:
            base.runtime_observation_count = runtime_count
            base.runtime_warmup_runs_count = warmup_count
        except ValueError as error:
            self._refused = error

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        if self._refused is not None:
            raise self._refused
        return super().reset(*args, **kwargs)

    fork = CompilerEnvWrapper._fork_as_copy
