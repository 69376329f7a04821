"""How much smaller than -Oz searches make programs that none of them was tuned on, in a given time.

    python -m bench.search --results search.jsonl --seconds 1 10 60      # all of programs-v0, hours
    python -m bench.search --results search.jsonl --report               # the tables of what is stored
    python -m bench.search --results search.jsonl --plot search.svg      # what was found over time
    python -m bench.search --results few.jsonl --programs json regex --seconds 1 --searches functionwise random
    python -m bench.search --results cbench.jsonl --bitcode ~/cbench     # files of your own
    python -m bench.search --results time.jsonl --goals runtime --programs fft nbody qsort sha256 huffman --seconds 30
    python -m bench.search --results paper.jsonl --protocol compilergym --seconds 10 --seeds 2

Each search runs for so many seconds of wall time on all of its own workers, without what it takes to start them and to
load the program, and is
compared with `default<Oz>` of the program as it is (usual) and of the program marked minsize, as `clang -Oz` marks it
(stronger). With `--goals runtime` `racing` searches for running time, and is compared with -O3 by its last measurement;
that wants a quiet machine. Programs that can be run are validated by running what was found on all inputs. What the
results file has is not searched again, but for what failed.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

import aiocg
from aiocg.datasets import default_datasets
from bench.machine import describe_machine
from bench.search.means import compares, ratio
from bench.search.protocol import SEARCHES as PROTOCOL_SEARCHES
from bench.search.protocol import SECONDS as PROTOCOL_SECONDS
from bench.search.protocol import SEEDS as PROTOCOL_SEEDS
from bench.search.protocol import table_iv
from bench.search.report import report
from bench.search.runs import GOALS, RACING, RUNTIME, Program, measure
from bench.search.stored import Job, append, read

SEARCHES = (
    *("functionwise", "portfolio", "evolve", "mcts", "beam", "greedy", "random"),
    *("nevergrad", "opentuner"),
)
SUFFIXES = (".bc", ".ll")


def programs(names: list[str] | None, folders: list[Path]) -> dict[str, Program]:
    """Return the programs to search, by suite and name: those named, and all bitcode of the folders.

    Raises:
        ValueError: when a folder has none, or two have the same name.
    """
    if names is None:
        names = [] if folders else [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()]
    uris = [name if "://" in name else f"benchmark://programs-v0/{name}" for name in names]
    found: dict[str, Program] = {uri.partition("://")[2]: uri for uri in uris}
    for folder in map(Path.resolve, folders):
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES) if folder.is_dir() else []
        if not files:
            raise ValueError(f"there are no .bc or .ll files in {folder}")
        if any(name.startswith(f"{folder.name}/") for name in found):
            raise ValueError(f"two suites are named {folder.name}: give one folder another name")
        found |= {f"{folder.name}/{path.name}": path for path in files}
    return found


def jobs(options: argparse.Namespace, names: list[str]) -> list[Job]:
    """Return what is to be done, the shortest first."""
    found = [
        Job(program, goal, search, seconds, seed)
        for seconds in sorted(options.seconds)
        for goal in options.goals
        for search in ([RACING] if goal == RUNTIME else options.searches)
        for seed in range(options.seeds)
        for program in names
    ]
    return list(dict.fromkeys(found))


async def fill(options: argparse.Namespace, sources: dict[str, Program]) -> None:
    """Add the rows that are missing to the results file."""
    known = {job for job, row in read(options.results).items() if "error" not in row}
    wanted = jobs(options, list(sources))
    count = options.workers or len(os.sched_getaffinity(0))
    facts = {name: value for name, value in (await describe_machine()).items() if name != "load"}
    machine = ", ".join([*(f"{name} {value}" for name, value in facts.items()), f"workers {count}"])
    for number, job in enumerate(wanted, 1):
        if job in known:
            continue
        async with aiocg.Runtime(workers=count) as runtime:  # new ones, which remember nothing of earlier searches
            row = await measure(runtime, job, sources[job.program]) | {"machine": machine}
        append(options.results, row)
        said = f"{ratio(row):.4f}" if compares(row) else ""
        note = f"FAILED {row['error']}" if "error" in row else "INVALID" if row["valid"] is False else ""
        print(f"{number}/{len(wanted)} {job.program} {job.goal} {job.search} {job.seconds:g} s {said} {note}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options, with what the protocol says where they say nothing."""
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, required=True, help="file of JSON lines, added to")
    parser.add_argument("--programs", nargs="+", help="of programs-v0, or URIs; all of programs-v0 by default")
    parser.add_argument("--bitcode", nargs="+", type=Path, default=[], help="folders of .bc and .ll files, as suites")
    parser.add_argument("--seconds", nargs="+", type=float, help="budgets; 10 by default")
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, help="functionwise by default")
    parser.add_argument("--goals", nargs="+", choices=[*GOALS, RUNTIME], help="instructions and bytes by default")
    parser.add_argument("--seeds", type=int, help="how many: 0, 1, 2 ...; 1 by default")
    parser.add_argument("--workers", type=int)
    parser.add_argument(
        "--protocol", choices=["compilergym"], help="Table IV of CompilerGym's paper; other options prevail"
    )
    parser.add_argument("--report", action="store_true", help="print the tables of what is stored, and do nothing else")
    parser.add_argument("--programs-table", action="store_true", help="in the report, each program too")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw what is stored, and do nothing else")
    options = parser.parse_args(arguments)
    paper = options.protocol is not None
    options.seconds = options.seconds or [PROTOCOL_SECONDS if paper else 10.0]
    options.searches = options.searches or (list(PROTOCOL_SEARCHES) if paper else ["functionwise"])
    options.goals = options.goals or [*GOALS, *([RUNTIME] if paper else [])]
    options.seeds = options.seeds or (PROTOCOL_SEEDS if paper else 1)
    return options


def main() -> None:
    """Run what is missing, or show what is stored."""
    options = parse()
    if options.report or options.plot:
        rows = list(read(options.results).values())
        if not rows:
            sys.exit(f"{options.results} has no results")
        if options.plot:
            try:
                from bench.search.plot import draw

                draw(rows, options.plot)
            except ImportError as error:
                sys.exit(f"plots are drawn by matplotlib: pip install -e '.[bench]' ({error})")
            except ValueError as error:
                sys.exit(f"nothing was drawn: {error}")
        if options.report:
            if options.protocol:
                print(table_iv(rows))
            print(report(rows, programs=options.programs_table))
        return
    try:
        sources = programs(options.programs, options.bitcode)
    except ValueError as error:
        sys.exit(str(error))
    asyncio.run(fill(options, sources))


if __name__ == "__main__":
    main()
