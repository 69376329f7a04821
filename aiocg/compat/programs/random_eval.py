"""Summarise the logs of random searches.

python -m aiocg.compat -m compiler_gym.bin.random_eval --output_dir=<folder with one folder per search>
"""

import json
from pathlib import Path

import numpy as np
from absl.app import UsageError
from absl.flags import FLAGS

from aiocg.compat.programs._flags import define_shared, no_arguments, run
from aiocg.compat.programs._search import METADATA, PROGRESS, RandomSearchProgressLogEntry
from aiocg.compat.tools._text import geometric_mean, tabulate

define_shared("output_dir")


def eval_logs(outdir: Path) -> None:
    """Print a table of the best reward that each search below a folder has found, with means."""
    rows, entries = [], []
    for path in sorted(Path(outdir).rglob(PROGRESS)):
        lines = path.read_text().splitlines()[1:]
        if not lines or not (path.parent / METADATA).is_file():
            continue
        best = RandomSearchProgressLogEntry.from_csv(lines[-1])
        name = json.loads((path.parent / METADATA).read_text())["benchmark"]
        found = f"{best.total_episode_count:,} attempts in {best.runtime_seconds:.1f} s"
        rows.append((name, f"{best.reward:.4f}", found, f"{best.num_passes:,}"))
        entries.append(best)
    if not rows:
        raise UsageError(f"There are no logs of random searches below {outdir}")
    rewards = [one.reward for one in entries]
    rows.append(("Geomean", f"{geometric_mean(rewards):.4f}", "", ""))
    rows.append(("Average", f"{np.mean(rewards):.4f}", "", f"{np.mean([one.num_passes for one in entries]):,.1f}"))
    print(tabulate(rows, headers=("Benchmark", "Max Reward", "Found after", "#. actions")))


def main(argv: list[str]) -> None:
    """Run the program."""
    no_arguments(FLAGS(argv))
    if not FLAGS.output_dir:
        raise UsageError("--output_dir must be set")
    eval_logs(Path(FLAGS.output_dir).expanduser())


if __name__ == "__main__":
    run(main)
