"""Compares searches with priors and without, for the same processor time, in turns.

Run it in examples/: python -m cost_model.compare runs.csv model.npz means.npz --seconds 10
"""

import argparse
import asyncio
import csv
from collections.abc import Sequence
from pathlib import Path

import anyio
import psutil

import aiocg
from aiocg.search import Alphabet, Outcome, Proposal, Tuner
from aiocg.search._levelwise import PACE, Beam
from aiocg.search._mcts import TreeSearcher
from aiocg.search.priors import GainModel

PROGRAMS = [f"programs-v0/{name}" for name in ("crc32", "chacha20", "rbtree", "hashmap", "huffman")]
PARTS = (0.1, 0.3, 1.0)  # of the time, after which the best is noted
FIELDS = ("search", "start", "program", "seed", "prior", "tenth", "third", "reward", "evaluations")


class Watched:
    """A tuner whose own finds are noted, without the compiler's levels, until the processor time is used up."""

    def __init__(self, tuner: Tuner, seconds: float, scope: anyio.CancelScope) -> None:
        self._tuner, self._seconds, self._scope = tuner, seconds, scope
        self._processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        self._begun, self.told, self.best = self._spent(), 0, dict.fromkeys(PARTS, float("-inf"))

    def ask(self, count: int) -> Sequence[Proposal]:
        """Ask the tuner."""
        return self._tuner.ask(count)

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Note what was found, and tell the tuner."""
        used = (self._spent() - self._begun) / self._seconds
        self.told += used <= 1
        for part in PARTS:
            self.best[part] = max(self.best[part], outcome.reward if used <= part else self.best[part])
        if used > 1:
            self._scope.cancel()
        self._tuner.tell(proposal, outcome)

    def _spent(self) -> float:
        """Return the seconds that this process and its workers have used."""
        return sum(sum(one.cpu_times()[:2]) for one in self._processes)


async def run(search: str, program: str, path: Path | None, seed: int, start: str, seconds: float) -> list[float]:
    """Search until the processor time is used up; return the best reward after each part, and how much was tried."""
    prior = GainModel.read(path) if path else None
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark=program)
        await env.reset()
        seen: list[Watched] = []
        with anyio.CancelScope() as scope:

            def watched(alphabet: Alphabet) -> Tuner:
                tuner = TreeSearcher(alphabet, seed, prior) if search == "mcts" else Beam(alphabet, 8, 30, prior)
                seen.append(Watched(tuner, seconds, scope))
                return seen[0]

            pace = PACE if search == "beam" else None
            await aiocg.search.tune(env, watched, pace=pace, start=start, features=prior.observations if prior else ())
    return [*seen[0].best.values(), seen[0].told]


def main(output: Path, priors: list[Path], seconds: float, seeds: int, programs: list[str], starts: list[str]) -> None:
    """Run everything that is not in the file yet, and append a row for each run."""
    kinds = [("mcts", 0), ("beam", 0), *(("mcts", seed) for seed in range(1, seeds))]  # beam makes no random choices
    jobs = [
        (kind, start, program, one)
        for kind in kinds
        for program in programs
        for start in starts
        for one in (None, *priors)
    ]
    with output.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        done = {tuple(row[name] for name in FIELDS[:5]) for row in csv.DictReader(file)}
        writer = csv.writer(file)
        if not done:
            writer.writerow(FIELDS)
        for (search, seed), start, program, path in jobs:
            key = (search, start, program, str(seed), path.stem if path else "none")
            if key not in done:
                found = asyncio.run(run(search, program, path, seed, start, seconds))
                writer.writerow([*key, *(f"{value:.5g}" for value in found)])
                file.flush()
                print(*key, *(f"{value:.4f}" for value in found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("priors", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS)
    parser.add_argument("--starts", nargs="+", default=["O0", "Oz"])
    main(**vars(parser.parse_args()))
