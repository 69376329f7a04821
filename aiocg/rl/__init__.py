"""Reinforcement learning for phase ordering: from nothing to a policy in one command.

`PhaseOrdering` is the vector environment, `collect` runs episodes in it, `aiocg.rl.ppo` learns from them (it needs
PyTorch: `pip install 'aiocg[rl]'`), `evaluate` judges a policy, and `aiocg.rl.cloning` reads demonstrations. Policies
themselves are `aiocg.policies`, which need NumPy only.
"""

from aiocg.gym import SyncRuntime
from aiocg.policies import Episode, Features, Policy, PolicyError, PolicyFacts
from aiocg.rl.evaluation import Outlier, Result, Scores, evaluate, outliers, score, validated
from aiocg.rl.programs import STARTS, Program, find_programs, prepare_programs
from aiocg.rl.vector import PhaseOrdering, Plan, Ready, Trajectory, collect, usable_actions

__all__ = [
    "STARTS",
    "Episode",
    "Features",
    "Outlier",
    "PhaseOrdering",
    "Plan",
    "Policy",
    "PolicyError",
    "PolicyFacts",
    "Program",
    "Ready",
    "Result",
    "Scores",
    "SyncRuntime",
    "Trajectory",
    "collect",
    "evaluate",
    "find_programs",
    "outliers",
    "prepare_programs",
    "score",
    "usable_actions",
    "validated",
]
