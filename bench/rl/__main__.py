"""Train agents by the protocol of CompilerGym's paper, or without one of our levers each, and judge them.

    python -m bench.rl --results paper.jsonl                                  # Table VI: days
    python -m bench.rl --results paper.jsonl --table VII                      # what generalises; also 9, and levers
    python -m bench.rl --results short.jsonl --episodes 2000 --programs 100 --largest 3000 --seeds 2 --validations 0
    python -m bench.rl --results paper.jsonl --tests csmith-v0 ~/cbench ~/chstone    # folders of bitcode, too
    python -m bench.rl --results paper.jsonl --report                         # the tables of what is stored
    python -m bench.rl --results paper.jsonl --table 9 --plot features.svg    # how the agents of Figure 9 have learned

The protocol: 45 steps of 42 actions, of which one is twice in the paper's list, and once here; Autophase by
instruction and a histogram of actions; rewards by what -Oz saves, clamped to 1; PPO and A2C with two layers of 256 and
ReLU; 100,000 episodes, ten replicas; of each dataset, programs 0 to 49 are for tests, 50 to 99 for validation, those
from 100 on to learn from. IMPALA is RLlib's of today, and is trained where `--variants impala` asks for it (it needs
ray[rllib]); so is DQN with prioritised replay, in place of APEX, which RLlib does not have any more.

An agent that was interrupted goes on from its checkpoint, and what the results file has is not trained again. Processes
with the same results file share the agents between them, so on a machine with many cores, of which an agent of the
paper keeps one or two busy:

    for i in $(seq 30); do python -m bench.rl --results paper.jsonl --workers 1 & done; wait

Needs PyTorch: pip install -e '.[bench,rl]'
"""

import argparse
import asyncio
import contextlib
import fcntl
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from aiocg.rl import SyncRuntime
from aiocg.rl.ppo import pytorch
from bench.machine import describe_machine
from bench.rl.report import EPISODES, PROGRAMS, SEEDS, report
from bench.rl.runs import Bench, Job, checkpoint_of, kind_of
from bench.rl.variants import FIGURE_9, LEVERS, VARIANTS
from bench.search.stored import append, read

TABLES = {"VI": ("ppo", "a2c"), "VII": ("ppo",), "9": FIGURE_9, "levers": LEVERS}
GENERALISATION = ("csmith-v0", "sdist-v0", "aiocg-v0")  # to learn from; the paper has Csmith, GitHub and TensorFlow
MIXED = ("csmith-v0+aiocg-v0", "csmith-v0", "aiocg-v0")  # to learn from: that of all levers, and without the mixture
TESTS = ("csmith-v0", "sdist-v0", "aiocg-v0", "programs-v0")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m bench.rl", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, required=True, help="file of JSON lines, added to")
    parser.add_argument("--table", choices=TABLES, default="VI", help="of the paper: VI, VII, figure 9; or levers")
    parser.add_argument("--variants", nargs="+", help="some of the table's agents")
    parser.add_argument("--training", nargs="+", help="datasets, with + between those of a mixture")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help="datasets, and folders of .bc and .ll files")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many: 0, 1, 2 ...")
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="to learn from, at most")
    parser.add_argument("--largest", type=int, help="instructions of a program to learn from; any by default")
    parser.add_argument("--validations", type=int, default=10, help="times that the policy so far is judged")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--report", action="store_true", help="print the tables of what is stored, and do nothing else")
    parser.add_argument(
        "--plot", type=Path, help="draw how the table's agents have learned: .svg or .png; and do nothing else"
    )
    options = parser.parse_args(arguments)
    training = {"VII": GENERALISATION, "levers": MIXED}.get(options.table, ("csmith-v0",))
    options.training = options.training or list(training)
    options.variants = options.variants or list(TABLES[options.table])
    return options


def jobs(options: argparse.Namespace) -> list[Job]:
    """Return what is to be done: a seed of all agents, then the next. Levers are taken from the first mixture only."""
    return [
        Job(variant, training, options.episodes, seed)
        for seed in range(options.seeds)
        for training in options.training
        for variant in options.variants
        if options.table != "levers" or variant == "ours" or training == options.training[0]
    ]


@contextlib.contextmanager
def claimed(checkpoint: Path) -> Iterator[bool]:
    """Give whether no other process trains an agent; none does until this ends."""
    with checkpoint.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def draw_curves(stored: Iterable[Job], table: str, work: Path, path: Path) -> None:
    """Draw how small a table's agents make the programs that they learn from, by means of a hundredth of episodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for job in stored:
        if job.variant in TABLES[table] and job.training == "csmith-v0":
            learner, _ = kind_of(job).load(checkpoint_of(job, work))
            told = [(one["episodes"], math.log(one["ratio_O0"])) for one in learner.curve if "ratio_O0" in one]
            parts = np.array_split(told, min(len(told), 100))
            named = ", ".join(learner.facts.parts) if table == "9" else VARIANTS[job.variant].what
            means = [math.exp(part[:, 1].mean()) for part in parts]
            axes.plot([part[-1, 0] for part in parts], means, label=f"{named}; seed {job.seed}")
    axes.set(xlabel="episodes", ylabel="times smaller than -Oz, best on the way")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Train and judge what is missing, or show what is stored."""
    options = parse()
    if options.report:
        print(report(read(options.results, Job).values()))
        return
    try:
        pytorch()
    except ImportError as error:
        sys.exit(str(error))
    work = options.results.with_suffix(".work")
    if options.plot:
        draw_curves(read(options.results, Job), options.table, work, options.plot)
        return
    machine = asyncio.run(describe_machine())
    work.mkdir(exist_ok=True)
    with SyncRuntime(workers=options.workers) as runtime:
        bench = Bench(
            runtime, options.tests, options.programs, options.largest, options.validations, work, machine["compiler"]
        )
        wanted = jobs(options)
        for number, job in enumerate(wanted, 1):
            with claimed(checkpoint_of(job, work)) as mine:
                if not mine or job in read(options.results, Job):
                    continue
                row = bench.run(job)
                append(options.results, row | {"machine": machine})
            told = f"{row['steps']:,} steps, {row['processor']:.0f} + {row['testing']:.0f} s of processor time"
            print(f"{number}/{len(wanted)} {job.variant} {job.training} seed {job.seed}: {told}", flush=True)


if __name__ == "__main__":
    main()
