"""As examples/llvm_autotuning: tuners that share a target, a wrapper that never raises, and experiments as models."""

import json
import random
import subprocess
import warnings
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import compiler_gym
import gym
import numpy as np
from compiler_gym import CompilerEnvStateReader, CompilerEnvStateWriter
from compiler_gym.datasets import Benchmark
from compiler_gym.datasets.uri import BenchmarkUri
from compiler_gym.envs import CompilerEnv, LlvmEnv
from compiler_gym.envs.llvm import compute_observation
from compiler_gym.random_search import random_search
from compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from compiler_gym.service.connection import ServiceError
from compiler_gym.third_party.llvm import opt_path
from compiler_gym.util.executor import Executor
from compiler_gym.util.gym_type_hints import ActionType
from compiler_gym.util.runfiles_path import transient_cache_path
from compiler_gym.wrappers import CompilerEnvWrapper, RuntimePointEstimateReward
from pydantic import BaseModel

SECONDS, SEED = 1, 1


class JustKeepGoingEnv(CompilerEnvWrapper):
    def step(self, *args, **kwargs):
        try:
            return self.env.step(*args, **kwargs)
        except Exception as error:
            spec = self.env.observation_space_spec
            observation = spec.default_value if spec else None
            reward = self.env.reward_space_spec.reward_on_error(self.env.episode_reward)
            self.close()
            return observation, float(reward), True, {"error_details": str(error)}


class Target(StrEnum):
    CODESIZE = "codesize"
    BINSIZE = "binsize"
    RUNTIME = "runtime"

    def make_env(self, benchmark: str | Benchmark) -> LlvmEnv:
        env = compiler_gym.make("llvm-v0")
        if str(benchmark).startswith("file:///"):
            benchmark = env.make_benchmark(Path(str(benchmark)[len("file:///") :]))
        env.benchmark = benchmark
        if self is Target.RUNTIME:
            env = RuntimePointEstimateReward(env, warmup_count=0, runtime_count=2)
        else:
            env.reward_space = "IrInstructionCountOz" if self is Target.CODESIZE else "ObjectTextSizeOz"
        return JustKeepGoingEnv(env)

    def final_reward(self, env: LlvmEnv) -> float:
        actions = list(env.actions)
        env.reset()
        assert not env.multistep(actions)[2]
        view = env.observation
        if self is Target.CODESIZE:
            return view.IrInstructionCountOz() / max(view.IrInstructionCount(), 1)
        if self is Target.BINSIZE:
            return view.ObjectTextSizeOz() / max(view.ObjectTextSizeBytes(), 1)
        with compiler_gym.make("llvm-v0", benchmark=env.benchmark) as fresh:
            fresh.reset()
            fresh.runtime_observation_count = 2
            fresh.runtime_warmup_runs_count = 0
            fresh.apply(env.state)
            final = fresh.observation.Runtime()
            fresh.reset()
            fresh.send_param("llvm.apply_baseline_optimizations", "-O3")
            return float(np.median(fresh.observation.Runtime()) / np.median(final))


def greedy(env: CompilerEnv, target: Target) -> None:
    def earned(action: int) -> tuple[float, int]:
        with env.fork() as fork:
            return fork.step(action)[1], action

    for _ in range(2):
        reward, action = max(earned(action) for action in range(0, env.action_space.n, 20))
        if reward <= 0 or env.step(action)[2]:
            return


def at_random(env: CompilerEnv, target: Target) -> None:
    with TemporaryDirectory(dir=transient_cache_path("."), prefix="autotune-") as folder:
        final = random_search(
            make_env=lambda: target.make_env(env.benchmark), outdir=folder, total_runtime=SECONDS, patience=10, nproc=1
        )
    env.apply(final.state)
    final.close()


def nevergrad(env: CompilerEnv, target: Target) -> None:
    import nevergrad as ng

    @lru_cache(maxsize=int(1e4))
    def cost(actions: tuple[ActionType, ...]) -> float:
        env.reset()
        env.multistep(actions)
        return -env.episode_reward

    choice = ng.p.Choice(choices=range(env.action_space.n), repetitions=10, deterministic=True)
    choice.random_state.seed(SEED)
    optimizer = ng.optimizers.DiscreteLenglerOnePlusOne(parametrization=choice, budget=1, num_workers=1)
    end = time() + SECONDS
    while time() < end:
        candidate = optimizer.ask()
        optimizer.tell(candidate, cost(candidate.value))
    env.reset()
    env.multistep(optimizer.provide_recommendation().value)


def through_opt(env: ClientServiceCompilerEnv, target: Target) -> None:
    """Do what the example's interface to OpenTuner does with each configuration: run `opt`, and observe the file."""
    folder = env.service.connection.working_dir
    before, after = folder / "unoptimized.bc", folder / "optimized.bc"
    env.write_bitcode(str(before))
    space = env.observation.spaces["IrInstructionCount"]
    actions = [env.action_space.flags.index(flag) for flag in ("-mem2reg", "-instcombine")]
    command = [str(opt_path()), str(before), "-o", str(after), *(env.action_space.flags[action] for action in actions)]
    subprocess.check_call(command, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cost = float(compute_observation(space, str(after)))
    assert cost < env.observation["IrInstructionCountO0"] and issubclass(ServiceError, Exception)
    env.reset()
    env.multistep(actions)
    assert env.observation["IrInstructionCount"] == cost


TUNERS = {tuner.__name__: tuner for tuner in (greedy, at_random, nevergrad, through_opt)}


class Experiment(BaseModel):
    executor: Executor
    tuner: str
    target: Target
    uris: list[str]
    working_directory: Path

    def benchmarks(self, env: LlvmEnv) -> Iterable[str]:
        for uri in self.uris:
            parsed = BenchmarkUri.from_string(uri)
            assert parsed.scheme and parsed.dataset
            yield str(env.datasets.benchmark(uri))

    def run(self) -> None:
        self.working_directory.mkdir(parents=True)
        (self.working_directory / "config.json").write_text(json.dumps(json.loads(self.model_dump_json()), indent=2))
        logs = self.working_directory / "logs"
        with self.executor.get_executor(logs_dir=logs) as executor, gym.make("llvm-v0") as env:
            for number, benchmark in enumerate(self.benchmarks(env)):
                path = self.working_directory / f"results-{number}.csv"
                executor.submit(tune, tuner=self.tuner, target=self.target, benchmark=benchmark, path=path)


def tune(tuner: str, target: Target, benchmark: str, path: Path) -> None:
    random.seed(SEED)
    with target.make_env(benchmark) as env:
        env.seed(SEED)
        env.action_space.seed(SEED)
        env.reset()
        began = time()
        TUNERS[tuner](env, target)
        env.reward_space = None
        state = env.state.copy()
        state.walltime = time() - began
        state.reward = target.final_reward(env)
    with CompilerEnvStateWriter(open(path, "w")) as writer:
        writer.write_state(state, flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    with gym.make("llvm-v0") as env:
        dataset = env.datasets["programs-v0"]
        dataset.install()
        assert list(islice(dataset.benchmark_uris(), 1, 2)) and dataset.size
    for tuner, target in [*((name, Target.CODESIZE) for name in TUNERS), ("greedy", Target.BINSIZE)]:
        folder = Path(f"{tuner}-{target.value}")
        executor = Executor(type="local" if tuner == "greedy" else "debug", cpus=2)
        Experiment(
            executor=executor,
            tuner=tuner,
            target=target,
            uris=["benchmark://programs-v0/gcd", "benchmark://programs-v0/qsort"],
            working_directory=folder,
        ).run()
        for path in sorted(folder.glob("results-*.csv")):
            with open(path) as file:
                states = list(CompilerEnvStateReader(file))
            for state in states:
                print(tuner, target.value, state.benchmark, f"{state.reward:.3f}", state.commandline[:60])
