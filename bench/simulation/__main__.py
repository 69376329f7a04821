"""Plays schedules: `python -m bench.simulation --first 0 --count 5000`, or one of them, shrunk, with `--seed N`."""

import argparse
import gc
import logging
import sys
import time
from collections import defaultdict

from bench.simulation.mutants import plant


def main() -> int:
    """Play the schedules that the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first schedule")
    parser.add_argument("--new", action="store_true", help="begin with a seed of the present time instead")
    parser.add_argument("--count", type=int, default=1000, help="how many schedules")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, help="play one schedule, and shrink it if it fails")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first schedule that fails")
    parser.add_argument("--plant", metavar="FAULT", help="plant one of the faults of `mutants` first")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.plant:
        plant(arguments.plant)
    if arguments.seed is not None:
        return _show(arguments.seed)
    first = int(time.time()) * 1000 if arguments.new else arguments.first
    return _play(first, arguments.count, arguments.seconds, until_failure=arguments.until_failure)


def _play(first: int, count: int, most_seconds: float, *, until_failure: bool) -> int:
    from bench.simulation.schedule import draw, play  # after a fault was planted

    began = said = time.monotonic()
    virtual, played = 0.0, 0
    failures: dict[str, list[int]] = defaultdict(list)
    for seed in range(first, first + count):
        outcome = play(seed, draw(seed))
        played, virtual = played + 1, virtual + outcome.seconds
        if outcome.problem:
            failures[outcome.problem.splitlines()[0][:160]].append(seed)
        if played == 20:
            gc.collect()
            gc.freeze()  # what was imported
        if not played % 50:
            gc.collect()
        now = time.monotonic()
        if now - began > most_seconds or (until_failure and failures):
            break
        if now - said > 2:
            said = now
            print(
                f"\r{played} schedules, {sum(map(len, failures.values()))} failed", end="", file=sys.stderr, flush=True
            )
    seconds = time.monotonic() - began
    print(
        f"{played} schedules from seed {first}, {virtual:.0f} virtual seconds in {seconds:.1f}, "
        f"{played / seconds:.0f} schedules/s, {sum(map(len, failures.values()))} failed"
    )
    for problem, seeds in sorted(failures.items(), key=lambda one: -len(one[1])):
        print(f"{len(seeds):6} {problem}; seeds {', '.join(map(str, seeds[:6]))}")
    if failures:
        print(f"python -m bench.simulation --seed {next(iter(failures.values()))[0]} shrinks one of them")
    return bool(failures)


def _show(seed: int) -> int:
    from bench.simulation.schedule import draw, play, shrink  # after a fault was planted

    moves = draw(seed)
    if not play(seed, moves).problem:
        print(f"schedule {seed} holds")
        return 0
    fewer = shrink(seed, moves)
    print(f"of the {len(moves)} moves of schedule {seed}, these {len(fewer)} moves fail:")
    for move in fewer:
        print(f"    {move},")
    print(play(seed, fewer).details)
    return 1


if __name__ == "__main__":
    sys.exit(main())
