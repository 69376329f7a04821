"""How much smaller than -Os and -Oz a search makes programs by GCC's options, by the protocol of CompilerGym's paper.

    python -m bench.gcc_autotuning --quick                        # one small program, some seconds
    python -m bench.gcc_autotuning --results gcc.json             # 12 programs, 4 searches, 3 seeds: hours
    python -m bench.gcc_autotuning --results gcc.json --report    # the table of what is stored

As there (Cummins et al., CGO 2022, section VII.D): each search may compile a program 1,000 times, is repeated with
other seeds, and is worth the baseline's size over the size found, as a geometric mean over programs and seeds. A
compile is a command line that was not tried before in that search; one that GCC refuses counts. Baselines do not.

Unlike there, the size is what the object brings into an image: code, constants, variables with a value, unwind tables.
The baseline is the smaller of -Os and -Oz with those options of the line found that are no optimisations, such as
-fno-asynchronous-unwind-tables. A command line only counts when its program prints what is expected of it on all its
inputs; if it does not, the best one before it that does is taken. Programs without inputs are not run, which the report
says. Runs that the results file has are not searched again, so that an interrupted bench continues.
"""

import argparse
import asyncio
import dataclasses
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import aiocg
from aiocg.gcc.rival import same_meaning
from aiocg.search import Budget, Progress, SearchResult
from aiocg.search.metrics import geometric_mean, mean_of_ratios
from bench.machine import describe_machine

PROGRAMS = (
    *("adpcm", "aes", "chacha20", "crc32", "dct", "fft"),
    *("fir", "huffman", "matmul", "qsort", "sha256", "stackvm"),
)
REWARD = "obj_image_size"
LEVELS = ("O0", "Os", "Oz", "O2", "O3")

Search = Callable[..., Awaitable[SearchResult]]
SEARCHES: dict[str, Search] = {
    "random": aiocg.search.random,
    "hill-climb": aiocg.search.hill_climb,
    "genetic": aiocg.search.genetic,
    "screening": aiocg.search.screening,
}


@dataclasses.dataclass
class Run:
    """One search of one program.

    Attributes:
        program, algorithm, seed, evaluations: what was run.
        environment, compiler: what it was run on.
        sizes: bytes at each of `LEVELS` that the compiler has.
        improvements: each new best, as [compiles until then, bytes, command line].
        failed: how many compiles failed.
        seconds: that the search took.
        right: index in `improvements` of the best whose program prints what it should, -1 if none does; None when the
            outputs have not been checked.
        rival, words: bytes and words of the baseline of that one; None where that was not measured.
    """

    program: str
    algorithm: str
    seed: int
    evaluations: int
    environment: str
    compiler: str
    sizes: dict[str, int]
    improvements: list[tuple[int, int, str]]
    failed: int
    seconds: float
    right: int | None = None
    rival: int | None = None
    words: str = ""

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        """What no other run has in common with it."""
        return self.program, self.algorithm, self.seed, self.evaluations, self.environment

    @property
    def found(self) -> int:
        """Bytes of the smallest program found; where outputs were checked, of those that are right."""
        index = len(self.improvements) - 1 if self.right is None else self.right
        return self.improvements[index][1] if index >= 0 else self.sizes["O0"]

    @property
    def level(self) -> int:
        """Bytes at the smaller of -Os and -Oz."""
        return min(self.sizes[name] for name in ("Os", "Oz") if name in self.sizes)

    @property
    def ratio(self) -> float:
        """How many times smaller than the baseline."""
        return (self.rival or self.level) / self.found

    @property
    def gross(self) -> float:
        """How many times smaller than the smaller of -Os and -Oz alone."""
        return self.level / self.found


class Results:
    """The runs in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.machine: dict[str, Any] = {}
        self.runs: list[Run] = []
        if path is not None and path.exists():
            stored = json.loads(path.read_text())
            self.machine = stored["machine"]
            self.runs = [Run(**run) for run in stored["runs"]]

    def has(self, key: tuple[str, str, int, int, str]) -> bool:
        """Is there this run?"""
        return any(run.key == key for run in self.runs)

    def save(self) -> None:
        """Write the file, as a whole or not at all."""
        if self._path is not None:
            value = {"machine": self.machine, "runs": [dataclasses.asdict(run) for run in self.runs]}
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(value, indent=1) + "\n")
            new.replace(self._path)


async def search(env: aiocg.Env, program: str, algorithm: str, seed: int, evaluations: int) -> Run:
    """Search one program, and measure the baselines."""
    await env.reset(benchmark=_benchmark(program))
    names = [name for name in LEVELS if f"{REWARD}_{name}" in env.observation_spaces]
    sizes = dict(zip(names, await env.observe(*(f"{REWARD}_{name}" for name in names)), strict=True))
    improvements: list[tuple[int, int, str]] = []

    def note(progress: Progress) -> None:
        size = sizes["O0"] - round(progress.reward)
        if progress.actions and (not improvements or size < improvements[-1][1]):
            improvements.append((progress.evaluations, size, progress.actions[0]))

    started = time.monotonic()
    result = await SEARCHES[algorithm](env, budget=Budget(evaluations=evaluations), seed=seed, progress=note)
    return Run(
        program=program,
        algorithm=algorithm,
        seed=seed,
        evaluations=evaluations,
        environment=env.spec.id,
        compiler=env.compiler_version,
        sizes=sizes,
        improvements=improvements,
        failed=sum(outcome is None for outcome in result.state.outcomes),
        seconds=round(time.monotonic() - started, 1),
    )


async def check(env: aiocg.Env, run: Run) -> None:
    """Find the best improvement of a run whose program prints what it should, on all inputs, and its baseline."""
    await env.reset(benchmark=_benchmark(run.program))
    for index in reversed(range(len(run.improvements))):
        await env.reset()
        await env.step(run.improvements[index][2])
        result = await env.validate(sanitizers=())
        if result.okay() or not result.benchmark_semantics_validated:
            if rival := await same_meaning(env, REWARD):
                run.rival, run.words = round(rival.cost), " ".join(rival.words)
            run.right = index if result.benchmark_semantics_validated else None
            return
    run.right = -1


def _benchmark(program: str) -> str:
    return program if "/" in program else f"programs-v0/{program}"


async def measure(options: argparse.Namespace, results: Results) -> None:
    """Make the runs that are missing, and check the outputs that have not been."""
    results.machine = results.machine or await describe_machine()
    async with aiocg.Runtime(workers=options.workers) as runtime:
        env = await runtime.make(options.env, reward_space=REWARD, action_space="choices")
        for seed in range(options.seeds):
            for algorithm in options.algorithms:
                for program in options.programs:
                    if not results.has((program, algorithm, seed, options.evaluations, env.spec.id)):
                        run = await search(env, program, algorithm, seed, options.evaluations)
                        results.runs.append(run)
                        results.save()  # what has been found is kept, whatever comes of checking it
                        await check(env, run)
                        results.save()
                        print(f"{program} {algorithm} {seed}: {run.ratio:.3f} in {run.seconds} s", flush=True)
        for run in results.runs:  # those that were interrupted in between
            if run.right is run.rival is None and run.environment == env.spec.id:
                await check(env, run)
                results.save()


def report(runs: Sequence[Run]) -> str:
    """Return a table in Markdown: bytes at -Os and -Oz, and how many times smaller each search made the program.

    The first number is against the smaller level with the same options that are no optimisations, and the one behind
    the slash against that level alone.
    """
    algorithms = [name for name in SEARCHES if any(run.algorithm == name for run in runs)]
    lines = [f"| program | -Os | -Oz | {' | '.join(algorithms)} | best | its baseline |"]
    lines.append("|---|" + "---:|" * (4 + len(algorithms)))
    programs = sorted({run.program for run in runs})
    for program in programs:
        mine = [run for run in runs if run.program == program]
        cells = [_mean([run for run in mine if run.algorithm == name]) for name in algorithms]
        best = min(mine, key=lambda run: run.found)
        levels = [f"{best.sizes[name]:,}" if name in best.sizes else "" for name in ("Os", "Oz")]
        baseline = f"{best.rival or best.level:,}"
        lines.append(f"| {' | '.join((program, *levels, *cells))} | {best.found:,} | {baseline} |")
    cells = []
    for name in algorithms:
        of_programs = [[run for run in runs if (run.algorithm, run.program) == (name, one)] for one in programs]
        complete = all(of_programs)  # or else it is the mean of something else
        cells.append(_mean_of_programs(of_programs) if complete else "")
    lines.append(f"| geometric mean | | | {' | '.join(cells)} | | |")
    return "\n".join(lines)


def notes(runs: Sequence[Run]) -> str:
    """Say what the table depends on."""
    checked = [run for run in runs if run.right is not None]
    wrong = [run for run in checked if run.right != len(run.improvements) - 1]
    share = sum(run.failed for run in runs) / max(sum(run.evaluations for run in runs), 1)
    compiles, seeds = _several(run.evaluations for run in runs), _several(run.seed for run in runs)
    return "\n".join(
        (
            f"{', '.join(sorted({run.compiler for run in runs}))}; {compiles} compiles a search, seeds {seeds}",
            f"outputs checked in {len(checked)} of {len(runs)} runs; in {len(wrong)} the smallest program printed "
            "something else, and the smallest that is right is taken",
            f"{share:.0%} of the compiles failed; {sum(run.seconds for run in runs):,.0f} s in all",
        )
    )


def _mean(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    return " / ".join(
        f"{geometric_mean(ratios):.3f}" for ratios in ([run.ratio for run in runs], [run.gross for run in runs])
    )


def _mean_of_programs(runs: Sequence[Sequence[Run]]) -> str:
    """Return means over programs, of each of which the seeds are averaged first, with 95 % bootstrap intervals."""
    columns = [[[run.ratio for run in mine] for mine in runs], [[run.gross for run in mine] for mine in runs]]
    return " / ".join(_with_interval([geometric_mean(seeds) for seeds in column]) for column in columns)


def _with_interval(ratios: Sequence[float]) -> str:
    mean, low, high = mean_of_ratios([math.log(ratio) for ratio in ratios])
    return f"{mean:.3f}" if math.isnan(low) else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _several(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def main() -> None:
    """Read the command line, search, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.gcc_autotuning", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), help="names in programs-v0, or of benchmarks")
    parser.add_argument("--algorithms", nargs="+", choices=list(SEARCHES), default=list(SEARCHES))
    parser.add_argument("--evaluations", type=int, default=1000, help="compiles a search")
    parser.add_argument("--seeds", type=int, default=3, help="how often each search is repeated")
    parser.add_argument("--env", default="gcc-v0", help="another compiler: gcc-v0?gcc_bin=gcc-12")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--results", type=Path, default=None, help="a file of JSON to go on from, and to write")
    parser.add_argument("--report", action="store_true", help="only print the table of what is stored")
    parser.add_argument("--quick", action="store_true", help="one small program, 60 compiles, one seed")
    options = parser.parse_args()
    if options.quick:
        options.programs, options.evaluations, options.seeds = ["gcd"], 60, 1
    results = Results(options.results)
    if not options.report:
        asyncio.run(measure(options, results))
    if not results.runs:
        parser.error("there is nothing to report")
    print(report(results.runs))
    print()
    print(notes(results.runs))
    print(", ".join(f"{name} {value}" for name, value in results.machine.items()))


if __name__ == "__main__":
    main()
