"""Proximal policy optimisation in one short file, in CleanRL's manner, over `gymnasium.make_vec`.

Needs: pip install torch
Run it: python examples/rl_cleanrl.py --updates 40
"""

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import aiocg.gym  # noqa: F401, which registers the environments

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "licm"]
ENVS, HORIZON, INSTRUCTIONS = 16, 16, 51  # environments; steps of an update; where Autophase has the number of all
EPISODES = {"benchmarks": "programs-v0", "max_episode_steps": 10, "autoreset_mode": "SameStep"}
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.99, 0.95, 0.2, 0.01, 1e-3


def features(counts: np.ndarray) -> torch.Tensor:
    """Return Autophase by instruction, so that programs of all sizes look alike."""
    return torch.tensor(np.minimum(counts / np.maximum(counts[:, INSTRUCTIONS, None], 1), 1), dtype=torch.float32)


def main(updates: int, seed: int) -> None:
    """Learn what order of passes makes programs smaller."""
    torch.manual_seed(seed)
    envs = gymnasium.make_vec("llvm-autophase-ic-v0", num_envs=ENVS, action_space=PASSES, **EPISODES)
    size = envs.single_observation_space.shape[0]
    actor, critic = (nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, n)) for n in (len(PASSES), 1))
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=RATE)
    seen, _ = envs.reset(seed=seed)
    earned, finished = np.zeros(ENVS), [0.0]
    for update in range(1, updates + 1):
        rows = []
        for _ in range(HORIZON):
            state = features(seen)
            choice = Categorical(logits=actor(state).detach())
            actions, value = choice.sample(), critic(state)[:, 0].detach()
            seen, rewards, terminations, truncations, _ = envs.step(actions.numpy())
            ended, earned = terminations | truncations, earned + rewards
            finished, earned = finished + earned[ended].tolist(), np.where(ended, 0, earned)
            rows.append((state, actions, choice.log_prob(actions), value, torch.tensor(rewards), torch.tensor(~ended)))
        states, taken, before, values, gains, goes_on = (torch.stack(column) for column in zip(*rows, strict=True))
        following, trace, advantages = critic(features(seen))[:, 0].detach(), 0, torch.zeros_like(values)
        for step in reversed(range(HORIZON)):
            error = gains[step].float() + GAMMA * following * goes_on[step] - values[step]
            trace = advantages[step] = error + GAMMA * LAMBDA * trace * goes_on[step]
            following = values[step]
        targets, normal = advantages + values, (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(4):
            now = Categorical(logits=actor(states))
            ratio = (now.log_prob(taken) - before).exp()
            gain = torch.min(ratio * normal, ratio.clamp(1 - CLIP, 1 + CLIP) * normal).mean()
            loss = (critic(states)[..., 0] - targets).square().mean() - gain - ENTROPY * now.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(f"update {update}: the last episodes earned {np.mean(finished[-64:]):.3f} of what -Oz does")
    envs.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
