"""Wrappers, ours and Gymnasium's: an agent with a few actions, two programs in turn, and a way back from mistakes.

Run it: python examples/wrapped_environment.py --episodes 6
"""

import argparse

import gymnasium
from gymnasium.wrappers import TransformReward

import aiocg.gym
from aiocg.gym.wrappers import (
    AutophaseNormalizedFeatures,
    ConcatActionsHistogram,
    ConstrainedCommandline,
    CycleOverBenchmarks,
    ForkOnStep,
    JustKeepGoing,
    TimeLimit,
)

PASSES = ["mem2reg", "sroa", "early-cse", "instcombine", "gvn", "licm", "loop-rotate", "simplifycfg", "inline", "dce"]
STEPS = 12


def play(env: ForkOnStep, seed: int) -> None:
    """Play an episode at random, but take back every action that made the program larger."""
    env.reset(seed=seed)
    undone, done = 0, False
    while not done and undone < STEPS:
        _, percent, terminated, truncated, _ = env.step(env.action_space.sample())
        done = terminated or truncated
        if percent < 0:
            env.undo()  # and the limit counts that step no more
            undone, done = undone + 1, False
    print(f"{env.benchmark.uri.path:>6}: {env.episode_reward:.3f} of what -Oz achieves, {undone} undone,", end=" ")
    print(f"{len(env.actions)} kept: {','.join(env.action_texts)}")


def main(episodes: int) -> None:
    """Wrap an environment and play."""
    bare = gymnasium.make("llvm-autophase-ic-v0")
    few = ConstrainedCommandline(JustKeepGoing(bare), PASSES)
    normalised = ConcatActionsHistogram(AutophaseNormalizedFeatures(few), norm_to_episode_len=STEPS)
    limited = TimeLimit(CycleOverBenchmarks(normalised, ["programs-v0/gcd", "programs-v0/crc32"]), STEPS)
    percent = TransformReward(limited, lambda reward: 100 * float(reward))  # Gymnasium's
    with ForkOnStep(percent) as env:
        print("observations:", env.observation_space.shape, "actions:", env.action_space.n)
        for episode in range(episodes):
            play(env, seed=episode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=6)
    main(parser.parse_args().episodes)
    aiocg.gym.shutdown()
