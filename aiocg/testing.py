"""For testing code that uses aiocg, and aiocg itself: an environment whose compiler does what it is told.

`scripted-v0` has a number as its program and arithmetic as its actions, beside actions that crash, hang, or refuse. It
needs no compiler and costs nothing, so it also measures everything but a compiler. Importing this module registers it::

    import aiocg.testing

    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(7))
"""

from aiocg.datasets.benchmark import Benchmark
from aiocg.registry import EnvironmentSpec, register
from aiocg.rewards import CostReward, Reward

__all__ = ["SCRIPTED", "scripted_benchmark"]


def scripted_benchmark(content: int | str) -> Benchmark:
    """Return a benchmark for `scripted-v0`: a number, or text that is none to see how that fails."""
    return Benchmark.from_file_contents(f"benchmark://scripted-v0/{content}", str(content).encode())


def _rewards() -> list[Reward]:
    return [CostReward("value", "value", description="decrease of the number")]


SCRIPTED = EnvironmentSpec(
    id="scripted-v0",
    worker="scripted",
    description="a number and arithmetic, for tests and measurements",
    benchmark="benchmark://scripted-v0/1",
    observation_space="value",
    rewards=_rewards,
)

register(SCRIPTED)

