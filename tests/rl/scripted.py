"""A compiler that is a few lines: what agents are tried on without LLVM."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aiocg.policies import Episode, Policy, PolicyFacts
from aiocg.policies.features import COUNTS, Features
from aiocg.rl import Plan, Trajectory
from aiocg.rl.programs import Program
from aiocg.rl.vector import choose

ACTIONS = ("north", "east", "south", "west")
STEPS = 8
STEP_COST = 0.002
START, BEST = 1000, 1000 - 6 * 100
FACTS = PolicyFacts(compiler="scripted 1", actions=ACTIONS, steps=STEPS)
SIZE = Features(len(ACTIONS)).size


def counts_at(phase: int, cost: int) -> Any:
    """Return what is observed: the cost, and which action is the right one."""
    counts = np.zeros(COUNTS, np.int64)
    counts[0], counts[10 + phase] = cost, cost
    return counts


def play(policy: Policy, seeds: Sequence[tuple[int, ...] | None]) -> list[Trajectory]:
    """Play an episode for each seed: the right action saves 100, six times; the others do nothing."""
    return [_play(policy, seed) for seed in seeds]


def _play(policy: Policy, seed: tuple[int, ...] | None) -> Trajectory:
    rng = None if seed is None else np.random.default_rng(seed)
    phase, cost, state = 1, START, 0
    episode = Episode(len(ACTIONS), STEPS, START, START // 2, counts_at(phase, cost), state)
    features, masks, actions, rewards = [], [], [], []
    while not episode.over:
        features.append(policy.features([episode])[0])
        masks.append(episode.mask.copy())
        action = choose(policy.logits(features[-1][None])[0], episode.mask, rng)
        actions.append(action)
        rewards.append(0.0)
        if action == len(ACTIONS):
            break
        right = action == phase and cost > BEST
        if right:
            phase, cost, state = (phase + 1 + state % 2) % len(ACTIONS), cost - 100, state + 1
        rewards[-1] = episode.advance(action, counts_at(phase, cost), state, no_effect=not right) - STEP_COST
    program = Program("scripted", {}, START, START // 2, START // 2)
    return Trajectory(
        Plan(program, "O0", seed), np.stack(features), np.stack(masks), np.array(actions),
        np.array(rewards, np.float32), episode.best, episode.cost, tuple(episode.taken[: episode.best_length]),
    )  # fmt: skip
