"""Let an agent of Stable-Baselines3 learn to order passes, and see how it does on programs that it has not seen.

Needs: pip install 'aiocg[sb3]'
Run it: python examples/rl_sb3.py --algorithm MaskablePPO --steps 20000
"""

import argparse
import math

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecMonitor

from aiocg.rl import PhaseOrdering, Program, SyncRuntime, find_programs, prepare_programs
from aiocg.rl.sb3 import PhaseOrderingVecEnv

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "dse"]
ACTIONS = [*PASSES, "sccp", "reassociate", "jump-threading", "loop-rotate", "licm", "inline", "default<Oz>"]
ALGORITHMS = {"PPO": PPO, "A2C": A2C, "MaskablePPO": MaskablePPO}


def prepared(runtime: SyncRuntime, first: int, count: int) -> list[Program]:
    """Return programs of a generator, from a seed on, with what they are measured by."""
    found = list(find_programs(runtime.runtime, ["csmith-v0"], count, first))
    return runtime.run(lambda: prepare_programs(runtime.runtime, found, largest=3000))


def evaluate(model: BaseAlgorithm, envs: PhaseOrderingVecEnv, episodes: int) -> float:
    """Return how many times smaller than after -Oz programs become: the geometric mean over some episodes."""
    observations, ratios = envs.reset(), []
    while len(ratios) < episodes:
        masks = {"action_masks": np.stack(envs.env_method("action_masks"))} if isinstance(model, MaskablePPO) else {}
        actions, _ = model.predict(observations, deterministic=False, **masks)
        observations, _, dones, infos = envs.step(actions)
        ratios += [info["ratio"] for info, done in zip(infos, dones, strict=True) if done]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main(algorithm: str, steps: int, programs: int, envs: int, seed: int) -> None:
    """Train on programs from seed 100 on, and judge by those from seed 0 on, before and after."""
    with SyncRuntime() as runtime:
        train, test = prepared(runtime, 100, programs), prepared(runtime, 0, max(programs // 4, 2))
        with (
            PhaseOrdering(runtime, ACTIONS, num_envs=envs) as ordering,
            PhaseOrdering(runtime, ACTIONS, num_envs=min(envs, len(test))) as others,
        ):
            learning, judging = PhaseOrderingVecEnv(ordering, train), PhaseOrderingVecEnv(others, test)
            more = {"n_steps": 64, "batch_size": 256} if algorithm != "A2C" else {}
            model = ALGORITHMS[algorithm]("MlpPolicy", VecMonitor(learning), seed=seed, device="cpu", **more)
            print(f"before: {evaluate(model, judging, 2 * len(test)):.3f} times smaller than -Oz")
            model.learn(steps)
            print(f"after {steps} steps: {evaluate(model, judging, 2 * len(test)):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=sorted(ALGORITHMS), default="PPO")
    parser.add_argument("--steps", type=int, default=4096)
    parser.add_argument("--programs", type=int, default=32, help="to learn from")
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
