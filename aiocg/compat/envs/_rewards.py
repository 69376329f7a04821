"""The rewards of each compiler."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from aiocg.compat._errors import BenchmarkInitError, ServiceError
from aiocg.compat.service._views import ObservationSpaceSpec
from aiocg.compat.spaces._actions import DefaultRewardFromObservation, Reward
from aiocg.compat.spaces._values import Scalar


class RuntimeReward(Reward):
    """The decrease of the program's running time in seconds, estimated from several runs."""

    def __init__(
        self,
        runtime_count: int,
        warmup_count: int,
        estimator: Callable[[Iterable[float]], float],
        default_value: float = 0,
    ) -> None:
        super().__init__("runtime", ["Runtime"], default_value=default_value, default_negates_returns=True)
        self.runtime_count, self.warmup_count, self.estimator = runtime_count, warmup_count, estimator
        self.starting_runtime: float | None = None
        self.previous_runtime: float | None = None
        self.current_benchmark: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        if self.current_benchmark != benchmark:
            if not observation_view["IsRunnable"]:
                raise BenchmarkInitError(f"Benchmark is not runnable: {benchmark}")
            self.current_benchmark = benchmark
            self.starting_runtime = None
        if self.starting_runtime is None:
            self.starting_runtime = self.estimator(observation_view["Runtime"])
        self.previous_runtime = self.starting_runtime

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        times = observations[0]
        if len(times) != self.runtime_count:
            raise ServiceError(f"Expected {self.runtime_count} runtimes but received {len(times)}")
        before, self.previous_runtime = self.previous_runtime, self.estimator(times)
        assert before is not None, "reset() comes first"
        return before - self.previous_runtime


class CostFunctionReward(Reward):
    """The decrease of a cost, which is an observation."""

    def __init__(self, cost_function: str, init_cost_function: str, **kwargs: Any) -> None:
        super().__init__(observation_spaces=[cost_function], **kwargs)
        self.cost_function = cost_function
        self.init_cost_function = init_cost_function
        self.previous_cost: float | None = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        self.previous_cost = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        before = observation_view[self.init_cost_function] if self.previous_cost is None else self.previous_cost
        self.previous_cost = observations[0]
        return float(before - observations[0])


class NormalizedReward(CostFunctionReward):
    """The decrease as a fraction of the initial cost."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cost_norm: float | None = None
        self.benchmark: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        super().reset(benchmark, observation_view)
        if self.benchmark is not benchmark and (self.benchmark is None or self.benchmark != benchmark):
            self.benchmark = benchmark
            self.cost_norm = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        if self.cost_norm is None:
            self.cost_norm = self.get_cost_norm(observation_view)
        return super().update(actions, observations, observation_view) / self.cost_norm

    def get_cost_norm(self, observation_view: Any) -> float:
        """Return the divisor of the decrease."""
        return float(max(observation_view[self.init_cost_function], 1))


class BaselineImprovementNormalizedReward(NormalizedReward):
    """The decrease as a fraction of an optimisation level's, which counts as 1 if it is smaller."""

    def __init__(self, baseline_cost_function: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.baseline_cost_function = baseline_cost_function

    def get_cost_norm(self, observation_view: Any) -> float:
        saved = observation_view[self.init_cost_function] - observation_view[self.baseline_cost_function]
        return float(max(saved, 1))


def llvm_rewards() -> list[Reward]:
    """Make the rewards of an LLVM environment; they hold the state of its episode."""
    rewards: list[Reward] = []
    for cost, prefix in (
        ("IrInstructionCount", "IrInstructionCount"),
        ("ObjectTextSizeBytes", "ObjectTextSize"),
        ("TextSizeBytes", "TextSize"),
    ):
        common: dict[str, Any] = {"cost_function": cost, "init_cost_function": f"{prefix}O0"}
        common.update(default_negates_returns=True, deterministic=True, platform_dependent=cost != prefix)
        rewards += [CostFunctionReward(name=cost, **common), NormalizedReward(name=f"{prefix}Norm", max=1, **common)]
        for name in (f"{prefix}O3", f"{prefix}Oz"):
            common.update(name=name, baseline_cost_function=name, success_threshold=1)
            rewards.append(BaselineImprovementNormalizedReward(**common))
    return rewards


class _SizeReward(CostFunctionReward):
    """The decrease of a size since the last step or reset."""

    size = ""
    at_reset = 0  # the index of the observation that is the size without any option

    def __init__(self) -> None:
        super().__init__(self.size, f"{self.size}_O0", name=self.size, default_negates_returns=True)

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        if self.previous_cost is None:
            space = Scalar(self.size, min=0, dtype=np.int64)
            spec = ObservationSpaceSpec(self.init_cost_function, self.at_reset, space, int, platform_dependent=True)
            self.previous_cost = observation_view.compute(spec)
        return super().update(actions, observations, observation_view)


class AsmSizeReward(_SizeReward):
    """The decrease of the assembly size in bytes."""

    size, at_reset = "asm_size", 11


class ObjSizeReward(_SizeReward):
    """The decrease of the object file size in bytes."""

    size, at_reset = "obj_size", 12


class FLOPSReward(DefaultRewardFromObservation):
    """The increase of the speed since the last step or reset, in 10**9 operations per second."""

    def __init__(self) -> None:
        super().__init__("flops", default_negates_returns=True)

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        self.previous_value = observation_view["flops"]
