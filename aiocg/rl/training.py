"""Training: episodes of a policy, an update, and again."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.rl.ppo import Learner, write_checkpoint
from aiocg.rl.programs import Program
from aiocg.rl.vector import PhaseOrdering, Plan, Trajectory, collect

__all__ = ["draw_curve", "plans_of", "train"]

_SMOOTHED = 9  # updates before each that its point in the picture is a mean of, too


def plans_of(programs: Sequence[Program], starts: Sequence[str], count: int, seed: int, update: int) -> list[Plan]:
    """Return the episodes of an update, which its number and the seed decide; large programs come first.

    Args:
        programs: to draw from, each at most once more often than any other.
        starts: names of the starts to draw from.
        count: how many episodes.
        seed: of the training.
        update: its number.
    """
    rng = np.random.default_rng((seed, update, 1))
    rounds = -(-count // len(programs))
    places = np.concatenate([rng.permutation(len(programs)) for _ in range(rounds)])[:count].tolist()
    begun = rng.integers(len(starts), size=count).tolist()
    plans = [
        Plan(programs[place], starts[start], (seed, update, number))
        for number, (place, start) in enumerate(zip(places, begun, strict=True))
    ]
    return sorted(plans, key=lambda plan: -plan.program.unoptimised)


def train(
    envs: PhaseOrdering,
    learner: Learner,
    programs: Sequence[Program],
    *,
    checkpoint: Path | None = None,
    more: dict[str, Any] | None = None,
    every: int = 5,
    progress: Callable[[dict[str, float]], None] = lambda told: None,
) -> None:
    """Train until all episodes are done; a learner that was trained before goes on.

    Args:
        envs: where episodes are run.
        learner: what learns.
        programs: prepared for the starts of the learner's facts.
        checkpoint: a file to write now and then, and at the end, also when that comes early.
        more: what the checkpoint is to have beside the learner.
        every: updates between two checkpoints.
        progress: told of each update.
    """
    settings, facts = learner.settings, learner.facts
    consistent = learner.checkpoint(more)  # an interruption may come in the middle of an update
    try:
        while not learner.finished:
            began = time.perf_counter()
            plans = plans_of(programs, facts.starts, settings.batch, settings.seed, learner.update)
            trajectories = collect(envs, learner.policy(), plans, min_ready=16)
            collected = time.perf_counter()
            told = learner.learn(trajectories) | _summary(trajectories)
            told |= {
                "update": learner.update,
                "episodes": min(learner.update * settings.batch, settings.episodes),
                "seconds": time.perf_counter() - began,
                "learning": time.perf_counter() - collected,
            }
            learner.curve.append(told)
            consistent = learner.checkpoint(more)
            if checkpoint is not None and learner.update % every == 0:
                write_checkpoint(checkpoint, consistent)
            progress(told)
    finally:
        if checkpoint is not None:
            write_checkpoint(checkpoint, consistent)


def _summary(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the steps of some episodes, and how many times smaller than -Oz their best programs are, by start."""
    told = {"steps": float(sum(len(one.actions) for one in trajectories))}
    for start in sorted({one.plan.start for one in trajectories}):
        logs = [
            np.log(one.plan.program.oz_minsize / max(one.best, 1)) for one in trajectories if one.plan.start == start
        ]
        told[f"ratio_{start}"] = float(np.exp(np.mean(logs)))
    return told


def draw_curve(curve: Sequence[dict[str, float]], path: Path) -> None:
    """Draw a learning curve: how many times smaller than -Oz programs become, over episodes, by running means of ten.

    Args:
        curve: `Learner.curve`.
        path: the picture: .png or .svg.

    Raises:
        ImportError: when Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need Matplotlib: pip install 'aiocg[rl]'") from error
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name in sorted({key for told in curve for key in told if key.startswith("ratio_")}):
        episodes = [told["episodes"] for told in curve if name in told]
        ratios = np.array([told[name] for told in curve if name in told])
        means = [ratios[max(0, place - _SMOOTHED) : place + 1].mean() for place in range(len(ratios))]
        (line,) = axes.plot(episodes, means, label=f"from {name.removeprefix('ratio_')}")
        axes.plot(episodes, ratios, linewidth=0.5, alpha=0.4, color=line.get_color())
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xlabel="episodes", ylabel="times smaller than -Oz (minsize)")
    axes.legend()
    figure.savefig(path)
