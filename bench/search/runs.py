"""One search of one program: what it found and when, and whether the result does what it should."""

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import aiocg
from aiocg import llvm
from aiocg.datasets import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.search import Budget, Progress
from aiocg.search.baselines import baselines
from aiocg.states.result import ValidationResult
from bench.search.stored import Job, Row


class Goal(NamedTuple):
    """What a search makes smaller, and the baselines: names of observations.

    Attributes:
        reward: the reward that the search maximises, and the stronger baseline, of functions marked minsize.
        cost: what is compared with the stronger baseline.
        usual, usual_cost: the baseline of functions as they came, and what is compared with it.
    """

    reward: str
    cost: str
    usual: str
    usual_cost: str


GOALS = {
    "instructions": Goal(
        "IrInstructionCountOzMinsize", "IrInstructionCount", "IrInstructionCountOz", "IrInstructionCount"
    ),
    "bytes": Goal(
        "ObjectImageSizeOzMinsize", "ObjectImageSizeMinsizeBytes", "ObjectImageSizeOz", "ObjectImageSizeBytes"
    ),
}  # fmt: skip

RUNTIME, RACING = "runtime", "racing"
"""The goal that is measured, and its search."""

OZ, MARK = "default<Oz>", "mark<minsize>"

Program = str | Path
"""The URI of a benchmark, or a file of bitcode or IR."""

_IN_TURNS = re.compile(r"([\d.]+) ms, -O\d ([\d.]+) ms")  # of the fastest so far, and of -O3 at the same time


class Curve:
    """The best cost over time, where it improved.

    Args:
        cost: returns the cost of the best so far, None where it is not known.

    Attributes:
        points: [seconds, evaluations, cost] of each new best.
    """

    def __init__(self, cost: Callable[[Progress], float | None]) -> None:
        self._cost = cost
        self.points: list[tuple[float, int, float]] = []

    def add(self, progress: Progress) -> None:
        """Take note of a search's progress."""
        cost = self._cost(progress)
        if cost is not None and (not self.points or cost < self.points[-1][2]):
            self.points.append((round(progress.elapsed, 4), progress.evaluations, cost))


async def measure(runtime: aiocg.Runtime, job: Job, program: Program) -> Row:
    """Run one search and return what it found, or with which "error" it failed and what was known by then."""
    row: Row = job._asdict()
    try:
        await (_race if job.goal == RUNTIME else _shrink)(runtime, job, program, row)
    except (AiocgError, DatasetError) as error:
        row["error"] = str(error)
    row["load"] = round(os.getloadavg()[0], 2)
    return row


async def _shrink(runtime: aiocg.Runtime, job: Job, program: Program, row: Row) -> None:
    goal, search = GOALS[job.goal], getattr(aiocg.search, job.search)
    async with await runtime.make("llvm-v0", benchmark=_benchmark(program), reward_space=goal.reward) as env:
        await env.reset()
        start, instructions, stronger, usual = await env.observe(
            goal.cost, "IrInstructionCount", goal.reward, goal.usual
        )
        row |= {"instructions": int(instructions), "start": int(start), "Oz": int(usual), "OzMinsize": int(stronger)}
        curve = Curve(lambda progress: round(start - progress.reward * max(start - stronger, 1)))
        options = {"seed": job.seed} if "seed" in inspect.signature(search).parameters else {}
        found = await search(env, budget=Budget(job.seconds), progress=curve.add, **options)
        await env.reset()
        await env.apply(found.actions)
        cost, usual_cost = await env.observe(goal.cost, goal.usual_cost)
        validation = await env.validate()
        beside = await _beside(env, found.actions, goal.cost) if job.goal == "bytes" else {}
    row |= {
        "found": int(cost), "found_usual": int(usual_cost), **beside, "evaluations": found.evaluations,
        "elapsed": round(found.elapsed, 3), "curve": curve.points, "actions": list(found.actions),
        **_verdict(validation),
    }  # fmt: skip


async def _race(runtime: aiocg.Runtime, job: Job, program: Program, row: Row) -> None:
    """Search for running time; "ratio" is that of the answer, 1 where that is a level."""
    benchmark = _benchmark(f"{program}?flag=-O3" if isinstance(program, str) else program)
    async with await runtime.make("llvm-v0", benchmark=benchmark, reward_space=RUNTIME) as env:
        curve = Curve(_share_of_time)
        found = await aiocg.search.racing(env, seed=job.seed, budget=Budget(job.seconds), progress=curve.add)
        validation = await env.validate(sanitizers=())
    timing = found.timing
    assert timing is not None
    row |= {
        "ratio": timing.speedup[0] if timing.faster and timing.speedup else 1.0, "timing": timing.to_dict(),
        "evaluations": found.evaluations, "elapsed": round(found.elapsed, 3), "curve": curve.points,
        "actions": list(found.actions), **_verdict(validation),
    }  # fmt: skip


async def _beside(env: aiocg.Env, actions: tuple[str, ...], cost: str) -> Row:
    """Return the cost of each level of clang and the least of these, and the bytes of code alone of two programs."""
    known = baselines(env)
    await env.reset()
    tried = await env.expand_texts(list(known.values()), observation_spaces=[cost])
    levels = {name: int(one.observation[0]) for name, one in zip(known, tried, strict=True) if one.error is None}
    sizes: Row = {"levels": levels, "level": min(levels.values())}
    for name, texts in {"code": (*actions, MARK), "code_OzMinsize": (MARK, OZ)}.items():
        await env.reset()
        await env.apply(texts)
        sizes[name] = llvm.code_size(await env.observe("ObjectFile"))
    return sizes


def _share_of_time(progress: Progress) -> float | None:
    """Return how long the fastest so far runs, as a multiple of -O3 in the same race; after few runs, a lucky one."""
    times = _IN_TURNS.match(progress.note)
    return float(times[1]) / float(times[2]) if times and float(times[2]) else None


def _verdict(validation: ValidationResult) -> Row:
    """Say whether the program does what it should; "valid" is None where nobody can tell, since it cannot be run."""
    unknown = not (validation.okay() or validation.wrong)
    return {
        "valid": None if unknown else validation.okay(),
        "errors": [str(error) for error in validation.errors],
    }


def _benchmark(program: Program) -> str | Benchmark:
    return program if isinstance(program, str) else _from_file(program)


@functools.cache
def _from_file(path: Path) -> Benchmark:
    return llvm.make_benchmark(path, strip_optnone=True)
