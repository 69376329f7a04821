"""Proximal policy optimisation by Tianshou: its vector of our environments, its collectors and its trainer.

Needs: pip install torch tianshou
Run it: python examples/rl_tianshou.py --epochs 5
"""

import argparse

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

import aiocg.gym  # noqa: F401, which registers the environments

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "licm"]
EPISODE = {"benchmark": "programs-v0/qsort", "action_space": PASSES, "max_episode_steps": 10}
INSTRUCTIONS, FEATURES, STEPS = 51, 56, 160  # where Autophase has the number of all; its length; steps of an update


def make() -> gymnasium.Env:
    """Make one environment, with Autophase by instruction; all of this process share its workers."""
    env, shares = gymnasium.make("llvm-autophase-ic-v0", **EPISODE), gymnasium.spaces.Box(0, 1, (FEATURES,))
    scale = gymnasium.wrappers.TransformObservation
    return scale(env, lambda n: np.float32(np.minimum(n / max(n[INSTRUCTIONS], 1), 1)), shares)


def main(epochs: int, envs: int, seed: int) -> None:
    """Learn what order of passes makes a program smaller."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    training, testing = DummyVectorEnv([make] * envs), DummyVectorEnv([make])
    net = Net(state_shape=(FEATURES,), hidden_sizes=[64])
    actor = DiscreteActor(preprocess_net=net, action_shape=len(PASSES), softmax_output=False)
    policy = DiscreteActorPolicy(
        actor=actor,
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=gymnasium.spaces.Discrete(len(PASSES)),
    )
    critic = DiscreteCritic(preprocess_net=net)
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3), ent_coef=0.01)
    result = algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=Collector[CollectStats](algorithm, training, VectorReplayBuffer(STEPS, envs)),
            test_collector=Collector[CollectStats](algorithm, testing),
            max_epochs=epochs,
            epoch_num_steps=2 * STEPS,
            collection_step_num_env_steps=STEPS,
            update_step_num_repetitions=4,
            batch_size=64,
            test_step_num_episodes=1,
        )
    )
    print(f"the best epoch earned {result.best_reward:.3f} of what -Oz does")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
