"""As the scripts of examples/sensitivity_analysis: rewards of actions after random ones, and of random episodes."""

import random
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import compiler_gym.util.flags.nproc
import compiler_gym.util.flags.output_dir  # noqa: F401, it defines a flag
import numpy as np
from absl import app, flags
from compiler_gym.envs import CompilerEnv
from compiler_gym.service.proto import Benchmark
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.util.runfiles_path import create_user_logs_dir
from compiler_gym.util.tabulate import tabulate
from compiler_gym.util.timer import Timer, humanize_duration

flags.DEFINE_integer("num_trials", 3, "Of each action and program.")
flags.DEFINE_list("action", ["-mem2reg", "-gvn"], "The actions.")
FLAGS = flags.FLAGS


class Result(NamedTuple):
    name: str
    runtimes: np.ndarray
    rewards: np.ndarray


def after_warmup(env: CompilerEnv, action: int) -> float | None:
    for _ in range(random.randint(0, 5)):
        if env.step(env.action_space.sample())[2]:
            return None
    before = env.reward[FLAGS.reward]
    assert before is not None
    return None if env.step(action)[2] else env.reward[FLAGS.reward]


def whole_episode(env: CompilerEnv, _: int) -> float | None:
    actions = [env.action_space.sample() for _ in range(random.randint(3, 10))]
    env.reward_space = FLAGS.reward
    return None if env.multistep(actions)[2] else env.episode_reward


def trials(name: str, trial, argument: int, benchmark: Benchmark | str) -> Result:
    runtimes, rewards = [], []
    while len(rewards) < FLAGS.num_trials:
        with env_from_flags(benchmark=benchmark) as env:
            env.observation_space = env.reward_space = None
            env.reset(benchmark=benchmark)
            with Timer() as timer:
                reward = trial(env, argument)
            if reward is not None:
                rewards.append(reward)
                runtimes.append(timer.time)
    return Result(name, np.array(runtimes), np.array(rewards))


def main(argv: list[str]) -> None:
    FLAGS.reward = FLAGS.reward or "IrInstructionCountO3"
    benchmark = benchmark_from_flags()
    with env_from_flags() as env:
        names = env.action_space.names
    folder = Path(FLAGS.output_dir or create_user_logs_dir("sensitivity"))
    folder.mkdir(parents=True, exist_ok=True)
    work = [(name, after_warmup, names.index(name), benchmark) for name in FLAGS.action]
    with ThreadPoolExecutor(max_workers=FLAGS.nproc) as pool:
        futures = [pool.submit(trials, *one) for one in [*work, (str(benchmark), whole_episode, 0, benchmark)]]
        rows = [
            (one.name, humanize_duration(one.runtimes.mean()), f"{one.rewards.mean():.5%}", f"{one.rewards.std():.5%}")
            for one in (future.result() for future in as_completed(futures))
        ]
    print(tabulate(sorted(rows), headers=("Name", "Time (avg)", "avg", "std.")))


if __name__ == "__main__":
    app.run(main)
