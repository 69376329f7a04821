"""As examples/example_compiler_gym_service/demo_without_bazel.py, with a service of ours."""

import logging
import sys
from collections.abc import Iterable
from pathlib import Path

import gym
from compiler_gym.datasets import Benchmark, Dataset
from compiler_gym.datasets.uri import BenchmarkUri
from compiler_gym.spaces import Reward
from compiler_gym.util.registration import register
from compiler_gym.util.runfiles_path import site_data_path

SERVICE = Path(sys.argv[1])


class RuntimeReward(Reward):
    def __init__(self) -> None:
        super().__init__(
            name="runtime",
            observation_spaces=["runtime"],
            default_value=0,
            default_negates_returns=True,
            deterministic=False,
            platform_dependent=True,
        )
        self.previous = None

    def reset(self, benchmark: str, observation_view) -> None:
        self.previous = None

    def update(self, action, observations, observation_view) -> float:
        before, self.previous = self.previous, observations[0]
        return 0.0 if before is None else float(before - observations[0])


class ExampleDataset(Dataset):
    def __init__(self) -> None:
        super().__init__(
            name="benchmark://example-v0",
            license="MIT",
            description="Two programs",
            site_data_base=site_data_path("example_dataset"),
        )
        uris = [f"benchmark://example-v0/{name}" for name in ("foo", "bar")]
        self.programs = {uri: Benchmark.from_file_contents(uri, b"Ir data") for uri in uris}

    def benchmark_uris(self) -> Iterable[str]:
        yield from self.programs

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if str(uri) not in self.programs:
            raise LookupError("Unknown program name")
        return self.programs[str(uri)]


register(
    id="example-v0",
    entry_point="compiler_gym.service.client_service_compiler_env:ClientServiceCompilerEnv",
    kwargs={"service": SERVICE, "rewards": [RuntimeReward()], "datasets": [ExampleDataset()]},
)

if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    with gym.make("example-v0", reward_space="runtime") as env:
        env.reset()
        for _ in range(20):
            observation, reward, done, info = env.step(int(env.action_space.sample()) % 3)
            if done:
                env.reset()
        print(len(env.actions), reward)
