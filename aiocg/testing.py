"""Test helpers: an environment whose compiler is scripted.

`scripted-v0` has a number as its program and arithmetic as its actions, beside actions that crash, hang, or refuse. It
needs no compiler and costs nothing, so it also measures everything but a compiler. Importing this module registers it::

    import aiocg.testing

    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(7))
"""

import itertools
from collections.abc import Iterator

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.uri import BenchmarkUri
from aiocg.registry import EnvironmentSpec, register
from aiocg.spaces.rewards import CostReward, Reward

__all__ = ["SCRIPTED", "ScriptedDataset", "scripted_benchmark"]


def scripted_benchmark(content: int | str) -> Benchmark:
    """Return a benchmark for `scripted-v0`: a number, or text that is none to see how that fails."""
    return Benchmark.from_file_contents(f"benchmark://scripted-v0/{content}", str(content).encode())


class ScriptedDataset(Dataset):
    """The numbers from 0, as benchmarks: `runtime.datasets["scripted-v0"] = ScriptedDataset()`."""

    def __init__(self) -> None:
        super().__init__("scripted-v0", "a number to start from", license="MIT")

    @property
    def size(self) -> int:
        """There is no last number."""
        return 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Count."""
        return (self.uri_at(number) for number in itertools.count())

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the name of a number."""
        return BenchmarkUri("benchmark", self.name, str(index))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a number, or text that is none, as a benchmark."""
        return scripted_benchmark(uri.path)


def _rewards() -> list[Reward]:
    return [CostReward("value", "value", description="decrease of the number")]


SCRIPTED = EnvironmentSpec(
    id="scripted-v0",
    worker="scripted",
    description="a number and arithmetic, for tests and measurements",
    benchmark=scripted_benchmark(1),
    observation_space="value",
    rewards=_rewards,
    forked=True,
)

register(SCRIPTED)
