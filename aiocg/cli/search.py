"""`aiocg search`: find good passes, options or schedules for a program."""

import contextlib
import dataclasses
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from aiocg import search
from aiocg.cli.loop import run
from aiocg.cli.output import Json, check_writable, console, fail, print_json, print_line, write_file
from aiocg.cli.search_report import Finding, progress_line
from aiocg.datasets import default_datasets
from aiocg.env import Env
from aiocg.minimize import minimize_line
from aiocg.registry import environments
from aiocg.runtime import Runtime
from aiocg.search.command_lines import option_space
from aiocg.search.lanes import go_to
from aiocg.search.result import Progress, SearchResult
from aiocg.spaces.actions import join_texts

app = typer.Typer(
    help="Search for better passes or, with --env, options of GCC or schedules of loops.", no_args_is_help=True
)

Target = Annotated[
    str, typer.Argument(help="A benchmark such as programs-v0/qsort, or your own .c .cc .cpp .ll or .bc file.")
]
Environment = Annotated[
    str, typer.Option("--env", help="Id of the environment, such as gcc-v0?gcc_bin=gcc-12 or loops-v0.")
]
RewardSpace = Annotated[
    str | None,
    typer.Option(
        "--reward", help="Reward space to maximise.", show_default="the environment's, or size against -Oz or -Os"
    ),
]
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
Evaluations = Annotated[
    int | None,
    typer.Option(
        help="Stop after this many evaluations; reproducible with --seed where no --budget is.",
        min=1,
        show_default="1000 without --budget",
    ),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the optimised program: bitcode, or GCC's object file.")
]
State = Annotated[Path | None, typer.Option("--state", help="Write the best state as JSON, for `aiocg replay`.")]
Minimize = Annotated[
    bool, typer.Option("--minimize", help="At the end, drop the choices that do nothing for the reward.")
]

SearchFunction = Callable[[Env, search.Budget, Callable[[Progress], None]], Awaitable[SearchResult]]

DEFAULT_EVALUATIONS = 1000
REWARDS = ("IrInstructionCountOz", "obj_text_size_Os")  # for environments without one of their own
OF_LINES = ("hill-climb", "genetic", "screening")  # searches over whole command lines
PRODUCTS = ("Bitcode", "obj")  # observations that are the optimised program


@dataclass(slots=True)
class Job:
    """What all searches have in common.

    Attributes:
        minimize: the command line found is to be made as short as it can be.
        whole_lines: a compiler with options is searched by whole command lines, unless an action space is named.
    """

    algorithm: str
    target: str
    environment: str
    reward: str | None
    seconds: float | None
    workers: int | None
    output: Path | None
    state: Path | None
    json: bool
    action_space: str | None = None
    evaluations: int | None = None
    minimize: bool = False
    whole_lines: bool = False
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
            if env.reward_space is None:
                env.reward_space = _default_reward(env)
            self._check(env)
            if self.whole_lines and self.action_space is None and env.action_spaces.language.line is not None:
                env.action_space = option_space(env)
            product = next((name for name in PRODUCTS if name in env.observation_spaces), None)
            if self.output is None:
                product = None
            elif product is None:
                fail(f"{self.environment} has no observation that is a program: there is nothing for --output to write")
            with self._display(env) as progress:
                try:
                    result = await function(env, search.Budget(self.seconds, self.evaluations), progress)
                except ImportError as error:  # of a library that is installed on request
                    fail(str(error))
                if self.minimize and result.actions:
                    result = await _minimized(env, result)
                await go_to(env, result.actions)
            finding = await Finding.observe(self.algorithm, env, result)
            program = await env.observe(product) if product is not None else b""
            try:  # files first: whoever reads our output may leave early, as `head` does
                if self.output is not None:
                    write_file(self.output, program)
                if self.state is not None:
                    write_file(self.state, env.state.to_json().encode() + b"\n")
            finally:
                if self.json:
                    print_json(finding.as_json(self.output))
                else:
                    finding.print()

    def _check(self, env: Env) -> None:
        """End with a message where the search could only fail, perhaps late."""
        dataset = env.benchmark.uri.dataset
        kind = default_datasets()[dataset].kind if dataset in default_datasets() else env.spec.kind
        if kind != env.spec.kind:
            takers = [spec.id for spec in environments().values() if spec.kind == kind]
            fail(f"{env.benchmark.uri} is a {kind}, which {env.spec.id} does not take: try --env {' or '.join(takers)}")
        if self.algorithm in OF_LINES:
            try:
                option_space(env)
            except ValueError as error:
                fail(str(error))
        if self.minimize and env.reward_space is not None and not env.reward_spaces[env.reward_space].deterministic:
            fail(f"{env.reward_space} is measured and never twice the same: --minimize cannot tell what does nothing")

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
                live.update(progress_line(self.algorithm, env, progress))

            yield show


async def _minimized(env: Env, result: SearchResult) -> SearchResult:
    """Return a result without the options that do nothing for it; what it takes to find them is not counted."""
    actions = (await minimize_line(env, result.actions[0])).actions
    await go_to(env, actions)
    return dataclasses.replace(result, actions=actions, reward=env.episode_reward or 0.0)


def _default_reward(env: Env) -> str:
    for name in REWARDS:
        if name in env.reward_spaces:
            return name
    fail(f"say with --reward what {env.spec.id} is searched for: {', '.join(env.reward_spaces) or 'it has no rewards'}")


@app.command("greedy")
def greedy(
    target: Target,
    env: Environment = "llvm-v0",
    reward: RewardSpace = None,
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
    reward: RewardSpace = None,
    action_space: ActionSpaceName = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds.", min=0.0, show_default="10 without --evaluations"),
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(help="Stop after this many evaluations; reproducible with --seed where no --budget is.", min=1),
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
    """Walk at random and remember the best state seen; of GCC and loops, draw whole command lines and schedules.

    Example: aiocg search random programs-v0/crc32 --budget 30 --seed 1
    """
    if budget is None and evaluations is None:
        budget = 10.0
    job = Job("random", target, env, reward, budget, workers, output, state, json, action_space, evaluations)
    job.whole_lines = True
    job.run(
        lambda env, budget, progress: search.random(env, budget=budget, progress=progress, seed=seed, patience=patience)
    )


@app.command("beam")
def beam(
    target: Target,
    env: Environment = "llvm-v0",
    reward: RewardSpace = None,
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    width: Annotated[int, typer.Option(help="States kept per level.", min=1)] = 4,
    depth: Annotated[int, typer.Option(help="Levels: the longest list of actions.", min=1)] = 20,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Extend the best few states by every action, level by level. It makes no random choices.

    Example: aiocg search beam my_program.c --width 8 --depth 15 --budget 60
    """
    job = Job("beam", target, env, reward, budget, workers, output, state, json, action_space)
    job.run(lambda env, budget, progress: search.beam(env, width=width, depth=depth, budget=budget, progress=progress))


@app.command("hill-climb")
def hill_climb(
    target: Target,
    env: Environment = "gcc-v0",
    reward: RewardSpace = None,
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    evaluations: Evaluations = None,
    minimize: Minimize = False,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Change the best command line, or schedule of loops, a little, again and again, and keep what is not worse.

    Example: aiocg search hill-climb programs-v0/qsort --evaluations 300 --seed 1
    """
    if budget is None and evaluations is None:
        evaluations = DEFAULT_EVALUATIONS
    job = Job(
        "hill-climb", target, env, reward, budget, workers, output, state, json, action_space, evaluations, minimize
    )
    job.run(lambda env, budget, progress: search.hill_climb(env, budget=budget, progress=progress, seed=seed))


@app.command("genetic")
def genetic(
    target: Target,
    env: Environment = "gcc-v0",
    reward: RewardSpace = None,
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    evaluations: Evaluations = None,
    population: Annotated[int, typer.Option(help="Command lines that are kept.", min=17)] = 50,
    minimize: Minimize = False,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Breed command lines, or schedules of loops: cross two good ones, change a few choices, and let the worst go.

    Needs pymoo: pip install 'aiocg[search]'.

    Example: aiocg search genetic programs-v0/qsort --evaluations 1000 -o best.o
    """
    if budget is None and evaluations is None:
        evaluations = DEFAULT_EVALUATIONS
    job = Job("genetic", target, env, reward, budget, workers, output, state, json, action_space, evaluations, minimize)
    job.run(
        lambda env, budget, progress: search.genetic(
            env, budget=budget, progress=progress, seed=seed, population=population
        )
    )


@app.command("screening")
def screening(
    target: Target,
    env: Environment = "gcc-v0",
    reward: RewardSpace = None,
    action_space: ActionSpaceName = None,
    budget: Seconds = None,
    evaluations: Evaluations = None,
    minimize: Minimize = False,
    workers: Workers = None,
    output: Output = None,
    state: State = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Change many choices of the best command line, or schedule of loops, at once, and learn which ones do harm.

    Example: aiocg search screening programs-v0/qsort --evaluations 300 --minimize
    """
    if budget is None and evaluations is None:
        evaluations = DEFAULT_EVALUATIONS
    job = Job(
        "screening", target, env, reward, budget, workers, output, state, json, action_space, evaluations, minimize
    )
    job.run(lambda env, budget, progress: search.screening(env, budget=budget, progress=progress, seed=seed))
