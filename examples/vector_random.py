"""Random agents on many programs at once, through Gymnasium: all step together, or each as soon as it is ready.

Run it: python examples/vector_random.py --envs 64 --steps 2000 --as-ready
"""

import argparse
import time

import gymnasium
import numpy as np

import aiocg.gym


def play_together(envs: aiocg.gym.vector.CompilerVectorEnv, steps: int) -> list[float]:
    """Step all environments until there were so many steps, and return what the finished episodes earned."""
    envs.reset(seed=0)
    returns, earned = [], np.zeros(envs.num_envs)
    for _ in range(steps // envs.num_envs):
        _, rewards, terminations, truncations, _ = envs.step(envs.action_space.sample())
        earned += rewards
        ended = terminations | truncations
        returns += earned[ended].tolist()
        earned[ended] = 0.0
    return returns


def play_as_ready(envs: aiocg.gym.vector.CompilerVectorEnv, steps: int) -> list[float]:
    """Do the same, and do not let the environments with small programs wait for those with large ones."""
    envs.async_reset(seed=0)
    returns, earned = [], np.zeros(envs.num_envs)
    while steps > 0:
        _, rewards, terminations, truncations, infos = envs.recv(min_ready=envs.num_envs // 4)
        ids, ended = infos["env_id"], terminations | truncations
        earned[ids] += rewards
        returns += earned[ids[ended]].tolist()
        earned[ids[ended]] = 0.0
        envs.send(envs.action_space.sample()[ids], ids)
        steps -= len(ids)
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--as-ready", action="store_true")
    arguments = parser.parse_args()
    programs = "programs-v0"  # a dataset: each episode has the next program
    envs = gymnasium.make_vec("llvm-ic-v0", num_envs=arguments.envs, benchmarks=programs, max_episode_steps=10)
    envs.action_space.seed(0)
    started = time.perf_counter()
    found = (play_as_ready if arguments.as_ready else play_together)(envs, arguments.steps)
    rate = arguments.steps / (time.perf_counter() - started)
    envs.close()
    best = f"the best earned {max(found):.3f} of what -Oz does" if found else "none was finished"
    print(f"{rate:.0f} steps/s, {len(found)} episodes; {best}")
