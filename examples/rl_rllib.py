"""Proximal policy optimisation by RLlib, whose env runners are processes of their own, and come back when they die.

Needs: pip install 'ray[rllib]' torch
Run it: python examples/rl_rllib.py --iterations 5 --kill
"""

import argparse
import os
import signal
import time

import gymnasium
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "licm"]
EPISODE = {"benchmark": "programs-v0/qsort", "action_space": PASSES, "max_episode_steps": 10}
INSTRUCTIONS, FEATURES, STEPS = 51, 56, 200  # where Autophase has the number of all; its length; steps of an iteration


class ByInstruction(gymnasium.ObservationWrapper):
    """An environment whose Autophase is by instruction; its id says what to import in the process of an env runner."""

    def __init__(self, config: dict) -> None:
        super().__init__(gymnasium.make("aiocg.gym:llvm-autophase-ic-v0", **config))
        self.observation_space = gymnasium.spaces.Box(0, 1, (FEATURES,), np.float32)

    def observation(self, counts: np.ndarray) -> np.ndarray:
        """Return the share of each feature."""
        return np.minimum(counts / max(counts[INSTRUCTIONS], 1), 1).astype(np.float32)


def main(iterations: int, runners: int, envs: int, seed: int, kill: bool) -> None:
    """Learn what order of passes makes a program smaller."""
    config = (
        PPOConfig()
        .environment(ByInstruction, env_config=EPISODE)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=envs)
        .fault_tolerance(restart_failed_env_runners=True, restart_failed_sub_environments=True)
        .training(train_batch_size_per_learner=STEPS, minibatch_size=50, num_epochs=4, lr=1e-3, entropy_coeff=0.01)
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    for number in range(1, iterations + 1):
        told = algorithm.train()
        earned = told["env_runners"]["episode_return_mean"]
        print(f"iteration {number}: an episode earned {earned:.3f} of what -Oz does")
        if kill and number == 1:
            (pid, *_) = algorithm.env_runner_group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)
            os.kill(pid, signal.SIGKILL)
        while (alive := algorithm.env_runner_group.num_healthy_remote_workers()) < runners:
            print(f"{alive} of {runners} env runners are at work")
            time.sleep(2)
            algorithm.env_runner_group.probe_unhealthy_env_runners()
    print(f"{alive} of {runners} env runners are at work")
    algorithm.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", action="store_true", help="kill an env runner after the first iteration")
    main(**vars(parser.parse_args()))
