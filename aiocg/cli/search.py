"""`aiocg search`: find good action sequences for a program."""

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aiocg import search
from aiocg.cli.loop import run
from aiocg.cli.output import Json, check_writable, console, fail, print_json, print_line, write_file
from aiocg.env import Env
from aiocg.errors import NotExpressible
from aiocg.metrics import Comparison, percent_over, ratio
from aiocg.runtime import Runtime
from aiocg.search.lanes import go_to
from aiocg.search.result import Progress, SearchResult
from aiocg.spaces.actions import join_texts

app = typer.Typer(help="Search for a better pass order.", no_args_is_help=True)

Target = Annotated[
    str, typer.Argument(help="A benchmark such as programs-v0/qsort, or your own .c .cc .cpp .ll or .bc file.")
]
Environment = Annotated[str, typer.Option("--env", help="Id of the environment.")]
RewardSpace = Annotated[str, typer.Option("--reward", help="Reward space to maximise.")]
ActionSpaceName = Annotated[
    str | None,
    typer.Option(
        "--action-space", help="Actions to choose from; `aiocg describe` lists the spaces.", show_default=False
    ),
]
Seconds = Annotated[float | None, typer.Option("--budget", help="Stop after this many seconds.", min=0.0)]
Workers = Annotated[
    int | None, typer.Option(help="Worker processes; one per processor by default.", min=1, show_default=False)
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the optimised program as bitcode.")]
State = Annotated[Path | None, typer.Option("--state", help="Write the best state as JSON, for `aiocg replay`.")]

SearchFunction = Callable[[Env, search.Budget, Callable[[Progress], None]], Awaitable[SearchResult]]

COUNTS = ("IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz", "IrInstructionCount")

NOTHING_TO_DO = (
    "hint        not even -Oz changes this program. If it was compiled by clang -O0, its functions are marked optnone, "
    "which keeps passes away: compile it with -O1 -Xclang -disable-llvm-passes"
)


@dataclass(slots=True)
class Job:
    """What all searches have in common."""

    algorithm: str
    target: str
    environment: str
    reward: str
    seconds: float | None
    workers: int | None
    output: Path | None
    state: Path | None
    json: bool
    action_space: str | None = None
    evaluations: int | None = None
    latest: Progress | None = field(default=None)

    def run(self, function: SearchFunction) -> None:
        """Run the search on an event loop; Ctrl-C tells what was found so far."""
        check_writable(self.output)
        check_writable(self.state)
        try:
            run(self._search(function))
        except KeyboardInterrupt:
            if self.latest is not None:
                print_line(f"interrupted; best so far: {self.latest.reward:.4f} with")
                print_line(join_texts(self.latest.actions) or "no actions")
            sys.exit(130)

    async def _search(self, function: SearchFunction) -> None:
        async with Runtime(workers=self.workers) as runtime:
            env = await runtime.make(
                self.environment, benchmark=self.target, reward_space=self.reward, action_space=self.action_space
            )
            if self.output is not None and "Bitcode" not in env.observation_spaces:
                fail(f"{self.environment} has no observation space Bitcode: there is nothing for --output to write")
            with self._display(env) as progress:
                result = await function(env, search.Budget(self.seconds, self.evaluations), progress)
                await go_to(env, result.actions)
            counts = await env.observe(*COUNTS) if COUNTS[-1] in env.observation_spaces else None
            comparison = await search.compare(env)
            program = await env.observe("Bitcode") if self.output is not None else b""
            try:  # files first: whoever reads our output may leave early, as `head` does
                if self.output is not None:
                    write_file(self.output, program)
                if self.state is not None:
                    write_file(self.state, env.state.to_json().encode() + b"\n")
            finally:
                self._print(env, result, counts, comparison)

    @contextlib.contextmanager
    def _display(self, env: Env) -> Iterator[Callable[[Progress], None]]:
        """Show the search while it runs, where there is a terminal."""

        def remember(progress: Progress) -> None:
            self.latest = progress

        if self.json or not console.is_terminal:
            yield remember
            return
        with Live(console=console, refresh_per_second=8, transient=True) as live:

            def show(progress: Progress) -> None:
                self.latest = progress
                live.update(_progress_line(self.algorithm, str(env.benchmark.uri), progress))

            yield show

    def _print(self, env: Env, result: SearchResult, counts: list[int] | None, comparison: Comparison | None) -> None:
        if self.json:
            print_json(self._as_json(env, result, counts, comparison))
            return
        title = Text(f"{self.algorithm} search, {env.benchmark.uri}")
        if counts is None:
            console.print(title)
        else:
            table = Table("", "before", "-O3", "-Oz", "found", title=title)
            for column in table.columns:
                column.justify = "right"
            table.add_row("instructions", *map(str, counts))
            table.add_row("relative to -Oz", *(f"{count / max(counts[2], 1):.3f}" for count in counts))
            console.print(table)
        print_line(f"reward      {result.reward:.4f} ({env.reward_space})")
        if comparison is not None and "Oz" in comparison.baselines:
            print_line(_against_oz(comparison))
        print_line(f"passes      {len(result.actions)}")
        print_line(join_texts(result.actions) or "none is better than the program as it is")
        if counts is not None and len(set(counts)) == 1:
            print_line(NOTHING_TO_DO)
        ending = "" if result.complete else ", ended by its budget"
        print_line(f"wall time   {result.elapsed:.1f} s, {result.evaluations} programs evaluated{ending}")

    def _as_json(
        self, env: Env, result: SearchResult, counts: list[int] | None, comparison: Comparison | None
    ) -> dict[str, Any]:
        values = dict(zip(("before", "O3", "Oz", "found"), counts, strict=True)) if counts is not None else None
        return {
            "algorithm": self.algorithm,
            "environment": env.spec.id,
            "benchmark": str(env.benchmark.uri),
            "compiler_version": env.compiler_version,
            "action_space": env.action_space.name,
            "reward_space": env.reward_space,
            "reward": result.reward,
            "instructions": values,
            "metrics": comparison.to_dict() if comparison is not None else None,
            "actions": list(result.actions),
            "commandline": _commandline(env),
            "evaluations": result.evaluations,
            "walltime": result.elapsed,
            "complete": result.complete,
            "output": str(self.output) if self.output is not None else None,
        }


def _against_oz(comparison: Comparison) -> str:
    oz, found = comparison.baselines["Oz"], comparison.found
    return (
        f"against -Oz {comparison.cost} {found}, where -Oz has {oz}: ratio {ratio(oz, found):.4f}, "
        f"{percent_over(oz, found):.2f} % over it"
    )


def _commandline(env: Env) -> str | None:
    """Return the line for the compiler's own tool, None when it cannot do one of the actions."""
    try:
        return env.commandline()
    except NotExpressible:
        return None


def _progress_line(algorithm: str, benchmark: str, progress: Progress) -> Text:
    rate = progress.evaluations / max(progress.elapsed, 1e-9)
    text = Text(f"{algorithm} {benchmark}  ", no_wrap=True, overflow="ellipsis")
    text.append(f"reward {progress.reward:.4f}", style="bold green")
    text.append(f"  {len(progress.actions)} passes  round {progress.round}  {progress.evaluations} programs")
    text.append(f"  {rate:.0f}/s  {progress.elapsed:.1f} s")
    return text


@app.command("greedy")
def greedy(
    target: Target,
    env: Environment = "llvm-v0",
    reward: RewardSpace = "IrInstructionCountOz",
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Take the best single action until none helps. It makes no random choices: --seed has no effect.

    Example: aiocg search greedy programs-v0/qsort -o best.bc
    """
    job = Job("greedy", target, env, reward, budget, workers, output, state, json, action_space)
    job.run(lambda env, budget, progress: search.greedy(env, budget=budget, progress=progress))


@app.command("random")
def random(
    target: Target,
    env: Environment = "llvm-v0",
    reward: RewardSpace = "IrInstructionCountOz",
    action_space: ActionSpaceName = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds.", min=0.0, show_default="10 without --evaluations"),
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(help="Stop after this many programs; reproducible with --seed where no --budget is.", min=1),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Steps without improvement before a walk is given up.", min=1)
    ] = None,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Walk at random and remember the best program seen.

    Example: aiocg search random programs-v0/crc32 --budget 30 --seed 1
    """
    if budget is None and evaluations is None:
        budget = 10.0
    job = Job("random", target, env, reward, budget, workers, output, state, json, action_space, evaluations)
    job.run(
        lambda env, budget, progress: search.random(env, budget=budget, progress=progress, seed=seed, patience=patience)
    )


@app.command("beam")
def beam(
    target: Target,
    env: Environment = "llvm-v0",
    reward: RewardSpace = "IrInstructionCountOz",
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    width: Annotated[int, typer.Option(help="States kept per level.", min=1)] = 4,
    depth: Annotated[int, typer.Option(help="Levels: the longest pass list.", min=1)] = 20,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Extend the best few programs by every action, level by level. It makes no random choices.

    Example: aiocg search beam my_program.c --width 8 --depth 15 --budget 60
    """
    job = Job("beam", target, env, reward, budget, workers, output, state, json, action_space)
    job.run(lambda env, budget, progress: search.beam(env, width=width, depth=depth, budget=budget, progress=progress))
