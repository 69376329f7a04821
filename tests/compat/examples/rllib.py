"""As examples/rllib.ipynb, and example_rllib.py; a random agent stands for the one that Ray's RLlib trains."""

from itertools import islice

import compiler_gym
from compiler_gym.util.timer import Timer
from compiler_gym.wrappers import ConstrainedCommandline, CycleOverBenchmarks, RandomOrderBenchmarks, TimeLimit


def make_env() -> compiler_gym.envs.CompilerEnv:
    env = compiler_gym.make("llvm-v0", observation_space="Autophase", reward_space="IrInstructionCountOz")
    env = ConstrainedCommandline(
        env, flags=["-break-crit-edges", "-gvn", "-instcombine", "-mem2reg", "-simplifycfg", "-sroa"]
    )
    return TimeLimit(env, max_episode_steps=5)


with make_env() as env:
    print("Action space:", env.action_space)
    print("Observation space:", env.observation_space)
    print("Reward space:", env.reward_space)
    train = list(islice(env.datasets["programs-v0"].benchmarks(), 3))
    train, val = train[:2], train[2:]
    test = list(islice(env.datasets["programs-v0"].benchmark_uris(), 2))
    print("Training:", *train, "validation:", *val, "test:", *test)


def make_training_env(*_):
    return RandomOrderBenchmarks(make_env(), train)


def run_agent_on_benchmarks(benchmarks) -> list[float]:
    with make_env() as env:
        rewards = []
        for number, benchmark in enumerate(benchmarks, start=1):
            env.reset(benchmark=benchmark)
            done = False
            while not done:
                _, _, done, _ = env.step(env.action_space.sample())
            rewards.append(env.episode_reward)
            print(f"[{number}/{len(benchmarks)}] {env.state.benchmark}: {env.state.commandline}")
    return rewards


with Timer() as timer, make_training_env() as env:
    assert env.reset().shape == env.observation_space.shape == (56,)
    print(env.step(0)[1])
with CycleOverBenchmarks(make_env(), [*val, *test]) as env:
    seen = set()
    for _ in range(3):
        env.reset()
        seen.add(str(env.benchmark))
    assert len(seen) > 1
print(run_agent_on_benchmarks(val), run_agent_on_benchmarks(test), timer)
