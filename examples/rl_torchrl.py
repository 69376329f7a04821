"""Proximal policy optimisation by TorchRL: its `GymWrapper` over our environments, its collector, loss and advantages.

Needs: pip install torch torchrl
Run it: python examples/rl_torchrl.py --batches 20
"""

import argparse

import gymnasium
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import OneHotCategorical
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, SerialEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import aiocg.gym  # noqa: F401, which registers the environments

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "licm"]
EPISODE = {"benchmark": "programs-v0/qsort", "action_space": PASSES, "max_episode_steps": 10}
INSTRUCTIONS, FEATURES, STEPS = 51, 56, 160  # where Autophase has the number of all; its length; steps of a batch


class ByInstruction(gymnasium.wrappers.TransformObservation):
    """Autophase by instruction; TorchRL looks for a space in `reward_space`, which with us is a name."""

    reward_space = None


def make() -> GymWrapper:
    """Make one environment."""
    env, shares = gymnasium.make("llvm-autophase-ic-v0", **EPISODE), gymnasium.spaces.Box(0, 1, (FEATURES,))
    return GymWrapper(ByInstruction(env, lambda n: np.float32(np.minimum(n / max(n[INSTRUCTIONS], 1), 1)), shares))


def main(batches: int, envs: int, seed: int) -> None:
    """Learn what order of passes makes a program smaller."""
    torch.manual_seed(seed)
    nets = [nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, outputs)) for outputs in (len(PASSES), 1)]
    logits = TensorDictModule(nets[0], ["observation"], ["logits"])
    actor = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True)
    critic = ValueOperator(nets[1], in_keys=["observation"])
    advantage, loss = GAE(gamma=0.99, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    sizes = {"frames_per_batch": STEPS, "total_frames": batches * STEPS}
    collector = Collector(SerialEnv(envs, make), actor, auto_register_policy_transforms=True, **sizes)
    for number, batch in enumerate(collector, 1):
        for _ in range(4):
            advantage(batch)
            told = loss(batch)
            optimiser.zero_grad()
            sum(value for name, value in told.items() if name.startswith("loss_")).backward()
            optimiser.step()
        earned = batch["next", "reward"].sum() / batch["next", "done"].sum()
        print(f"batch {number}: an episode earned {earned:.3f} of what -Oz does")
    collector.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
