"""As examples/llvm_rl: its wrappers, models of environments, training sets and results; nothing is trained."""

from itertools import islice

import compiler_gym
import gym
import numpy as np
from compiler_gym import CompilerEnv
from compiler_gym.datasets import Benchmark, BenchmarkUri
from compiler_gym.envs import LlvmEnv
from compiler_gym.util.gym_type_hints import ActionType
from compiler_gym.util.shell_format import indent, plural
from compiler_gym.util.statistics import geometric_mean
from compiler_gym.util.timer import Timer
from compiler_gym.wrappers import (
    ConstrainedCommandline,
    CycleOverBenchmarksIterator,
    IterateOverBenchmarks,
    ObservationWrapper,
    RewardWrapper,
    TimeLimit,
    ValidateBenchmarkAfterEveryStep,
)
from pydantic import BaseModel


class ClampedReward(RewardWrapper):
    def __init__(self, env: CompilerEnv, low: float = -1, high: float = 1, leak: float = 0.001) -> None:
        super().__init__(env)
        self.low, self.high, self.leak = low, high, leak

    def convert_reward(self, reward: float) -> float:
        within = min(max(reward, self.low), self.high)
        return within + (reward - within) * self.leak


class AutophaseNormalizedFeatures(ObservationWrapper):
    TOTAL = 51

    def __init__(self, env: CompilerEnv) -> None:
        super().__init__(env=env)
        self.env.observation_space = self.env.unwrapped.observation.spaces["Autophase"]
        size = self.env.observation_space_spec.space.shape[0]
        low, high = np.zeros(size, np.float32), np.ones(size, np.float32)
        self.env.observation_space_spec.space = gym.spaces.Box(low=low, high=high, dtype=np.float32)

    def convert_observation(self, observation):
        total = observation[self.TOTAL]
        return np.clip(observation.astype(np.float32) / max(total, 1), 0, 1) * (total > 0)


class ConcatActionsHistogram(ObservationWrapper):
    def __init__(self, env: CompilerEnv, episode: int) -> None:
        super().__init__(env=env)
        assert isinstance(self.observation_space, gym.spaces.Box) and isinstance(self.action_space, gym.spaces.Discrete)
        self.increment = 1 / episode
        space, more = self.env.observation_space, np.zeros(self.action_space.n, self.env.observation_space.dtype)
        self.env.observation_space_spec.space = gym.spaces.Box(
            low=np.concatenate((space.low, more)), high=np.concatenate((space.high, more + 1)), dtype=space.dtype
        )

    def reset(self, *args, **kwargs):
        self.histogram = np.zeros((self.action_space.n,), dtype=self.env.observation_space.dtype)
        return super().reset(*args, **kwargs)

    def multistep(self, actions: list[ActionType], observation_spaces=None, observations=None, **kwargs):
        for action in actions:
            self.histogram[action] += self.increment
        return super().multistep(actions, **kwargs)

    def convert_observation(self, observation):
        return np.concatenate((observation, self.histogram)).astype(self.env.observation_space.dtype)


class AutophaseActionSpace(ConstrainedCommandline):
    def __init__(self, env: LlvmEnv) -> None:
        flags = "-adce -break-crit-edges -correlated-propagation -functionattrs -functionattrs -gvn -loop-unswitch"
        super().__init__(env=env, flags=[*flags.split(), "-mem2reg", "-prune-eh", "-simplifycfg", "-sroa", "-strip"])


class Result(BaseModel):
    benchmark: str
    seconds: float
    commandline: str
    reduction: float
    runtimes: list[float]


def make_env() -> CompilerEnv:
    assert "llvm-v0" in compiler_gym.COMPILER_GYM_ENVS
    env = compiler_gym.make("llvm-v0")
    env.observation_space, env.reward_space = "Autophase", "IrInstructionCountOz"
    env = ClampedReward(AutophaseActionSpace(env))
    env = ConcatActionsHistogram(AutophaseNormalizedFeatures(env), episode=4)
    return TimeLimit(env, max_episode_steps=4)


def infer(env: CompilerEnv, benchmark: str) -> Result:
    env.reset(benchmark=benchmark)
    env.reward_space = None
    observation, done = env.reset(), False
    with Timer() as timer:
        while not done:
            assert observation.shape == (56 + env.action_space.n,) and observation.dtype == np.float32
            observation, _, done, _ = env.step(int(env.action_space.sample()))
    commandline = env.action_space.to_string(env.actions)
    view = env.unwrapped.observation
    final, oz = view["IrInstructionCount"], view["IrInstructionCountOz"]
    assert view["ObjectTextSizeO0"] and view["ObjectTextSizeBytes"] and view["ObjectTextSizeOz"]
    runtimes: list[float] = []
    if view["IsRunnable"]:
        env.send_param("llvm.set_runtimes_per_observation_count", "2")
        runtimes = view["Runtime"].tolist()
        env.reset()
        env.send_param("llvm.apply_baseline_optimizations", "-O3")
        assert view["Runtime"].tolist()
    return Result(
        benchmark=str(env.benchmark.uri),
        seconds=timer.time,
        commandline=commandline,
        reduction=oz / max(final, 1),
        runtimes=runtimes,
    )


uris = ["benchmark://programs-v0/gcd", "benchmark://programs-v0/qsort"]
assert all(BenchmarkUri.from_string(uri).dataset == "programs-v0" for uri in uris)
with CycleOverBenchmarksIterator(make_env(), lambda: iter(uris)) as training:
    rewards = []
    for _ in range(3):
        training.reset()
        assert -1.1 < training.step(0)[1] < 1.1
        rewards.append(training.episode_reward)
    print(geometric_mean([1 + abs(reward) for reward in rewards]))
with IterateOverBenchmarks(make_env(), uris) as validation:
    validation.reset()
    validation.reset()
    try:
        validation.reset()
        raise AssertionError("the list has an end")
    except StopIteration:
        pass
with ValidateBenchmarkAfterEveryStep(compiler_gym.make("llvm-ic-v0", benchmark=uris[0])) as validated:
    validated.reset()
    assert not validated.step(validated.action_space["-mem2reg"])[2]
with make_env() as env:
    chosen: list[Benchmark] = list(islice(env.datasets["programs-v0"].benchmarks(), 1))
    results = [infer(env, benchmark) for benchmark in (*uris, *chosen)]
print(indent("\n".join(result.model_dump_json() for result in results), 4), plural(len(results), "result", "results"))
