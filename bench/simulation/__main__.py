"""Plays schedules: `python -m bench.simulation --first 0 --count 5000`, or one of them, shrunk, with `--seed N`."""

import argparse
import gc
import itertools
import logging
import sys
import time
from collections import defaultdict

from bench.simulation.schedule import LONGEST, draw, play, shrink

SHRUNK = 3  # failures of one kind that are shown


def main() -> int:
    """Play the schedules that the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first schedule")
    parser.add_argument("--count", type=int, default=1000, help="how many schedules")
    parser.add_argument("--seed", type=int, help="play one schedule, and shrink it if it fails")
    parser.add_argument("--longest", type=int, default=LONGEST, help="moves of a schedule at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.seed is not None:
        return _show(arguments.seed, arguments.longest)
    began, virtual, played = time.monotonic(), 0.0, 0
    failures: dict[str, list[int]] = defaultdict(list)
    for seed in range(arguments.first, arguments.first + arguments.count):
        if time.monotonic() - began > arguments.seconds:
            break
        outcome = play(seed, draw(seed, arguments.longest))
        played, virtual = played + 1, virtual + outcome.seconds
        if outcome.problem:
            failures[outcome.problem.splitlines()[0][:160]].append(seed)
        if played == 20:
            gc.collect()
            gc.freeze()
        if not played % 50:
            gc.collect()
        if not played % 1000:
            print(f"{played} schedules, {sum(map(len, failures.values()))} failed", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    print(f"{played} schedules, {virtual:.0f} virtual s in {seconds:.1f} s, {played / seconds:.0f}/s")
    for problem, seeds in sorted(failures.items(), key=lambda one: -len(one[1])):
        print(f"{len(seeds):6} {problem}  seeds {', '.join(map(str, itertools.islice(seeds, 6)))}")
    return bool(failures)


def _show(seed: int, longest: int) -> int:
    moves = draw(seed, longest)
    outcome = play(seed, moves)
    if not outcome.problem:
        print(f"schedule {seed} holds")
        return 0
    fewer = shrink(seed, moves)
    print(f"{len(moves)} moves, of which {len(fewer)} fail:")
    for move in fewer:
        print(f"    {move},")
    print(play(seed, fewer).details)
    return 1


if __name__ == "__main__":
    sys.exit(main())
