"""As the clients of examples/example_unrolling_service and loop_optimizations_service, with a service of ours."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import compiler_gym
from compiler_gym.datasets import Benchmark, Dataset
from compiler_gym.datasets.uri import BenchmarkUri
from compiler_gym.envs.llvm.llvm_benchmark import get_system_library_flags
from compiler_gym.spaces import Reward
from compiler_gym.third_party import llvm
from compiler_gym.third_party.autophase import AUTOPHASE_FEATURE_NAMES
from compiler_gym.third_party.inst2vec import Inst2vecEncoder
from compiler_gym.util.registration import register

SOURCE = "int a[64], b[64];\nvoid f(void) { for (int i = 0; i < 64; i++) a[i] += N * b[i]; }\n"


class LinesReward(Reward):
    def __init__(self) -> None:
        super().__init__(
            name="lines", observation_spaces=["lines"], default_value=0, deterministic=True, platform_dependent=True
        )
        self.baseline = 0.0

    def reset(self, benchmark: str, observation_view) -> None:
        self.baseline = observation_view["lines"]

    def update(self, action, observations, observation_view) -> float:
        return float(self.baseline - observations[0]) / self.baseline


class UnrollingDataset(Dataset):
    def __init__(self) -> None:
        super().__init__(name="benchmark://unrolling-v0", license="MIT", description="Loops to unroll")
        uri = "benchmark://unrolling-v0/saxpy"
        self.programs = {uri: Benchmark.from_file_contents(uri, self.preprocess(SOURCE))}

    @staticmethod
    def preprocess(source: str) -> bytes:
        command = [str(llvm.clang_path()), "-E", "-DN=3", "-xc", "-", "-o", "-", *get_system_library_flags()]
        return subprocess.run(command, input=source.encode(), stdout=subprocess.PIPE, timeout=300, check=True).stdout

    def benchmark_uris(self) -> Iterable[str]:
        yield from self.programs

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return self.programs[str(uri)]


register(
    id="unrolling-py-v0",
    entry_point="compiler_gym.service.client_service_compiler_env:ClientServiceCompilerEnv",
    kwargs={"service": Path(sys.argv[1]), "rewards": [LinesReward()], "datasets": [UnrollingDataset()]},
)

with compiler_gym.make(
    "unrolling-py-v0", benchmark="unrolling-v0/saxpy", observation_space="ir", reward_space="lines"
) as env:
    compiler_gym.set_debug_level(1)
    before = Inst2vecEncoder().preprocess(env.reset())
    observation, reward, done, info = env.step(2)
    after = Inst2vecEncoder().preprocess(observation)
    print(len(before), len(after), reward, done, info, len(AUTOPHASE_FEATURE_NAMES))
    assert before != after and reward < 0
