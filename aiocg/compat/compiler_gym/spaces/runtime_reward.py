"""The decrease of the running time."""

from collections.abc import Callable, Iterable
from typing import Any

from aiocg.compat.compiler_gym.errors import BenchmarkInitError, ServiceError
from aiocg.compat.compiler_gym.spaces.reward import Reward

__all__ = ["RuntimeReward"]


class RuntimeReward(Reward):
    """The decrease of the program's running time, in seconds, as one number made of several runs.

    Args:
        runtime_count: how often the program is run for an observation.
        warmup_count: how often it is run before.
        estimator: makes one number of the times.
        default_value: what a step is worth that fails.
    """

    def __init__(
        self,
        runtime_count: int,
        warmup_count: int,
        estimator: Callable[[Iterable[float]], float],
        default_value: float = 0,
    ) -> None:
        super().__init__(
            name="runtime", observation_spaces=["Runtime"], default_value=default_value, default_negates_returns=True
        )
        self.runtime_count = runtime_count
        self.warmup_count = warmup_count
        self.estimator = estimator
        self.starting_runtime: float | None = None
        self.previous_runtime: float | None = None
        self.current_benchmark: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode: a program that was not measured before is.

        Raises:
            BenchmarkInitError: when it cannot be run.
        """
        if self.current_benchmark != benchmark:
            if not observation_view["IsRunnable"]:
                raise BenchmarkInitError(f"Benchmark is not runnable: {benchmark}")
            self.current_benchmark = benchmark
            self.starting_runtime = None
        if self.starting_runtime is None:
            self.starting_runtime = self.estimator(observation_view["Runtime"])
        self.previous_runtime = self.starting_runtime

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the decrease, in seconds.

        Raises:
            ServiceError: when the program was run another number of times.
        """
        times = observations[0]
        if len(times) != self.runtime_count:
            raise ServiceError(f"Expected {self.runtime_count} runtimes but received {len(times)}")
        before, self.previous_runtime = self.previous_runtime, self.estimator(times)
        assert before is not None, "reset() comes first"
        return before - self.previous_runtime
