"""Learn which passes help between which others: the model by which the search `functionwise` draws passes.

It searches training programs, notes what became of every pass that was put into a sequence of passes, and fits the
logits of a pass to those of its neighbours: logistic regression with a Gaussian prior. The programs are from the
training part of sdist-v0 and from the generator aiocg-v0; none that results are reported on is among them.

    python -m bench.pass_model --output model.npz
"""

import argparse
import asyncio
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aiocg
import aiocg.telemetry
from aiocg.errors import AiocgError
from aiocg.search import Budget, functionwise
from aiocg.search.functionwise.population import PASSES, Function, Passes, Population, inlined_by
from bench.core_set import LARGEST, SMALLEST, training_programs

MOST = 3  # changes of a sequence from which what became of it is not put down to any of them
SHRINK_NEIGHBOURS, SHRINK_ALONE = 5.0, 5.0  # how much the prior weighs
ROUNDS, RATE = 300, 0.05


class Tried(NamedTuple):
    """A pass that was put between two others; None where there is none.

    Attributes:
        first, text, last: the passes.
        helped: whether the function became smaller than it had been with what it inlines.
    """

    first: str | None
    text: str
    last: str | None
    helped: bool


class Recording(Population):
    """A population that notes what it tries, in `tried`."""

    tried: list[Tried] = []  # of all of them

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._model = None  # so that what is learned is not what was learned before
        self._changes: list[tuple[str | None, str, str | None] | None] = []
        self._notes: dict[tuple[str, Passes], list[tuple[str | None, str, str | None] | None]] = {}

    def propose(self) -> dict[str, Passes]:
        """Propose, and note how each sequence came to be."""
        self._names = {id(function): name for name, function in self.functions.items()}
        return super().propose()

    def learn(self, proposal: Mapping[str, Passes], costs: Mapping[str, float]) -> None:
        """Learn, and note what helped."""
        for name, passes in proposal.items():
            changes = self._notes.pop((name, passes), [])
            known = self.functions[name].variants.get(inlined_by(passes))
            if known and len(changes) <= MOST:
                helped = costs[name] < known[0][0]
                self.tried += [Tried(*change, helped) for change in changes if change is not None]
        super().learn(proposal, costs)

    def _child(self, function: Function) -> Passes:
        self._changes, left = [], len(function.first)
        child = super()._child(function)
        if len(function.first) == left:
            self._notes[self._names[id(function)], child] = self._changes
        return child

    def _mutate(self, function: Function) -> Passes:
        self._changes = []
        return super()._mutate(function)

    def _mutate_passes(self, passes: list[str]) -> Passes:
        before, after = list(passes), super()._mutate_passes(passes)
        self._changes.append(_put_in(before, after))
        return after


def _put_in(before: list[str], after: Passes) -> tuple[str | None, str, str | None] | None:
    """Return the pass that is new in a sequence, with its neighbours; None if there is none."""
    if len(after) < len(before) or sorted(before) == sorted(after):
        return None
    place = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(after) - 1)
    return (
        after[place - 1] if place else None,
        after[place],
        after[place + 1] if place + 1 < len(after) else None,
    )


async def mine(options: argparse.Namespace) -> list[Tried]:
    """Search the training programs; return what was tried."""
    search: Any = importlib.import_module("aiocg.search.functionwise.search")
    search.Population = Recording
    done = 0
    async with aiocg.Runtime(workers=options.workers) as runtime:
        for uri in training_programs(options.seed):
            try:
                async with await runtime.make(
                    "llvm-v0", benchmark=uri, reward_space="IrInstructionCountOzMinsize"
                ) as env:
                    await env.reset()
                    if not SMALLEST <= await env.observe("IrInstructionCount") <= LARGEST:
                        continue
                    found = await functionwise(env, budget=Budget(evaluations=options.evaluations), seed=done)
            except AiocgError as error:
                print(f"{uri}: {error}", file=sys.stderr)
                continue
            done += 1
            print(f"{done} {uri} {found.reward:.4f}, {len(Recording.tried):,} passes tried", file=sys.stderr)
            if done == options.programs:
                break
    return Recording.tried


def fit(tried: list[Tried]) -> dict[str, Any]:
    """Return the arrays of the model."""
    count = len(PASSES)
    places: dict[str | None, int] = {text: place for place, text in enumerate(PASSES)} | {None: count}
    first, text, last = (
        np.array([places[one[column]] for one in tried])
        for column in range(3)  # type: ignore[index]
    )
    helped = np.array([one.helped for one in tried], np.float64)
    usual = np.log(helped.mean() / (1 - helped.mean()))
    shapes = ((count,), (count + 1, count), (count + 1, count))
    values = [np.zeros(shape) for shape in shapes]
    means, squares = [np.zeros(shape) for shape in shapes], [np.zeros(shape) for shape in shapes]
    for step in range(1, ROUNDS + 1):  # Adam
        alone, behind, before = values
        wrong = 1 / (1 + np.exp(-(usual + alone[text] + behind[first, text] + before[last, text]))) - helped
        size = (count + 1) * count
        gradients = (
            np.bincount(text, wrong, count) + SHRINK_ALONE * alone,
            np.bincount(first * count + text, wrong, size).reshape(shapes[1]) + SHRINK_NEIGHBOURS * behind,
            np.bincount(last * count + text, wrong, size).reshape(shapes[2]) + SHRINK_NEIGHBOURS * before,
        )
        for value, gradient, mean, square in zip(values, gradients, means, squares, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.01 * (gradient**2 - square)
            value -= RATE * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    names = ("alone", "behind", "before")
    return {"passes": np.array(PASSES)} | {
        name: value.astype(np.float16) for name, value in zip(names, values, strict=True)
    }


def main() -> None:
    """Make the file."""
    aiocg.telemetry.configure(level="warning")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=60, help="number of training programs")
    parser.add_argument("--evaluations", type=int, default=600, help="of each program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    tried = asyncio.run(mine(options))
    print(f"{len(tried):,} passes tried, of which {sum(one.helped for one in tried):,} helped", file=sys.stderr)
    np.savez_compressed(options.output, **fit(tried))


if __name__ == "__main__":
    main()
