"""Choose parameters of our own PPO by Optuna: a few short trainings, judged on programs that none of them has seen.

Needs: pip install 'aiocg[rl]' optuna
Run it: python examples/rl_optuna.py --trials 10 --episodes 500
"""

import argparse
import math

import optuna

from aiocg.policies import Features, PolicyFacts
from aiocg.rl import PhaseOrdering, Program, SyncRuntime, evaluate, find_programs, prepare_programs
from aiocg.rl.ppo import Learner, Settings, train

PASSES = ["mem2reg", "sroa", "instcombine<no-verify-fixpoint>", "simplifycfg", "gvn", "early-cse", "adce", "dse"]
ACTIONS = (*PASSES, "sccp", "reassociate", "jump-threading", "loop-rotate", "licm", "inline", "default<Oz>")


def prepared(runtime: SyncRuntime, first: int, count: int) -> list[Program]:
    """Return programs of a generator, from a seed on, with what they are measured by."""
    found = list(find_programs(runtime.runtime, ["csmith-v0"], count, first))
    return runtime.run(lambda: prepare_programs(runtime.runtime, found, largest=2000))


def judge(trial: optuna.Trial, envs: PhaseOrdering, training: list[Program], others: list[Program], n: int) -> float:
    """Train by the parameters of a trial, and return how many times smaller than after -Oz other programs become."""
    facts = PolicyFacts(compiler="", actions=ACTIONS)
    settings = Settings(
        episodes=n,
        batch=trial.suggest_categorical("batch", [16, 32, 64]),
        rate=trial.suggest_float("rate", 1e-4, 3e-3, log=True),
        entropy=trial.suggest_float("entropy", 1e-4, 1e-2, log=True),
        clip=trial.suggest_float("clip", 0.1, 0.3),
    )
    learner = Learner(facts, settings, Features(len(ACTIONS)).size)
    train(envs, learner, training)
    results = evaluate(envs, learner.policy(), others, ["O0"])
    return math.exp(sum(math.log(one.oz_minsize / max(one.best["O0"], 1)) for one in results) / len(results))


def main(trials: int, episodes: int, programs: int, envs: int, seed: int) -> None:
    """Search, and print what was best."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    with SyncRuntime() as runtime:
        training, others = prepared(runtime, 100, programs), prepared(runtime, 50, max(programs // 2, 2))
        with PhaseOrdering(runtime, ACTIONS, num_envs=envs) as ordering:
            for _ in range(trials):
                trial = study.ask()
                ratio = judge(trial, ordering, training, others, episodes)
                study.tell(trial, ratio)
                print(f"{ratio:.3f} times smaller than -Oz with {trial.params}")
    print(f"best: {study.best_value:.3f} with {study.best_params}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--programs", type=int, default=16, help="to learn from")
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
