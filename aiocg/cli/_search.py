"""`aiocg search`: find good passes, options or schedules for a program.

Args:
    length (1..): Passes of a list, at most.
    prior: Which actions are promising: the file of a model or a policy, or the name of a policy that comes along. The
        search is among a policy's own actions, unless --action-space names others.
"""

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

import aiocg
from aiocg.cli._options import Flags, as_command, command, count_option, described, time_option
from aiocg.cli._search_job import DECIDE, DEFAULT, LOOPS, OF_LINES, RACING, RUNTIME, SCHEDULE, Job, is_expression
from aiocg.cli.output import answer, check_writable, ended_by, fail, fields, interrupted_status, run, table, working
from aiocg.states.behaviour import Behaviour

if TYPE_CHECKING:
    from aiocg import Env
    from aiocg.search import ParetoResult

EVALUATIONS = 1000


def _pareto(
    target: str,
    costs: str,
    env: str = "llvm-v0",
    action_space: str | None = None,
    budget: Annotated[float | None, time_option(counted="--evaluations")] = None,
    evaluations: Annotated[int | None, count_option("--budget")] = None,
    start: str = "O0",
    workers: int | None = None,
    seed: int = 0,
    plot: Path | None = None,
    json: bool = False,
    flags: Flags = None,
) -> None:
    """Find programs of which none is better than another in every respect, such as small ones and fast ones.

    It stops after 1,000 evaluations if neither --budget nor --evaluations says otherwise.

    Needs pymoo: pip install 'aiocg\\[search]'.

    Example: aiocg search pareto programs-v0/qsort --costs IrInstructionCount,ObjectImageSizeBytes --start Oz

    Args:
        costs (--costs): Two or more observations or reward spaces, such as ObjectImageSizeBytes,Runtime.
        plot: Draw the front by its first two costs: .svg, .png or .pdf.
    """
    check_writable(plot)
    if plot is not None and plot.suffix[1:] not in _formats():
        fail(f"cannot draw {plot}: the formats are {', '.join(sorted(_formats()))}")
    if budget is None and evaluations is None:
        evaluations = EVALUATIONS
    options: aiocg.search.Options = {"budget": aiocg.search.Budget(budget, evaluations), "start": start}

    ended: list[bool] = []

    async def search() -> None:
        async with aiocg.Runtime(workers=workers) as runtime:
            benchmark = await runtime.find_benchmark(target, flags or ())
            made = await runtime.make(env, benchmark=benchmark, action_space=action_space)
            with (
                working("pareto", "evaluating the compiler's own levels", json=json) as show,
                ended_by(lambda: ended.append(True)),
            ):
                options["progress"] = lambda now: show(f"{now.evaluations} evaluations")
                options["watch"] = lambda _: not ended
                try:
                    names = [name.strip() for name in costs.split(",")]
                    found = await aiocg.search.pareto(made, names, seed=seed, **options)
                except (ImportError, ValueError) as error:  # of a library that is installed on request, or a choice
                    fail(str(error))
            if not found.points:
                fail(f"none of {', '.join(found.costs)} can be had of {made.benchmark.uri}")
            await _tell(made, found, plot, json, validate=not ended)

    run(search())
    if ended:
        sys.exit(interrupted_status())


async def _tell(env: "Env", found: "ParetoResult", plot: Path | None, json: bool, *, validate: bool) -> None:
    """Print the front, and draw it."""
    from aiocg.search.lanes import go_to
    from aiocg.spaces.actions import join_texts

    points = []
    for point in found.points:
        await go_to(env, point.actions)
        right = (await env.validate(sanitizers=(), minimize=False)).behaviour if validate else Behaviour.NOT_RUN
        points.append((point, right))
    value = {
        "algorithm": "pareto",
        "environment": env.spec.id,
        "benchmark": str(env.benchmark.uri),
        "costs": found.costs,
        "points": [{**fields(one, "costs", "baseline", "actions"), "validated": right} for one, right in points],
        "baselines": dict(found.baselines),
        "evaluations": found.search.evaluations,
        "walltime": found.search.elapsed,
        "complete": found.search.complete,
    }
    problem = ""
    if plot is not None:
        try:
            _draw(str(env.benchmark.uri), found, plot)
        except OSError as error:
            problem = f"cannot write {plot}: {error.strerror}"
    rows: list[tuple[object, ...]] = []
    actions: list[str] = []
    for number, (one, right) in enumerate(points, 1):
        rows.append((number, *map(_number, one.costs), one.baseline or f"{len(one.actions)} actions", right))
        actions += [] if one.baseline else [f"{number}: {join_texts(one.actions)}"]
    levels = [("", *map(_number, cost), name, "") for name, cost in found.baselines.items()]
    columns, last = ("", *found.costs, "made by", "validated"), len(found.costs)
    title = f"front of {env.benchmark.uri}, and the compiler's own levels"
    ending = "" if found.search.complete else ", ended by its budget"
    front = table(title, columns, [*rows, *levels], right=range(last + 1))
    spent = f"wall time   {found.search.elapsed:.1f} s, {found.search.evaluations} evaluations{ending}"
    answer(json, value | ({"error": problem} if problem else {}), front, *actions, spent)
    if problem:
        sys.exit(1) if json else fail(problem)


def _number(cost: float) -> str:
    return f"{cost:.6g}" if cost < 1e6 else f"{cost:.0f}"


def _formats() -> Collection[str]:
    """Return the suffixes of pictures that can be drawn, without dots."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        fail("--plot needs matplotlib: pip install matplotlib")
    return FigureCanvasBase.get_supported_filetypes()


def _draw(title: str, found: "ParetoResult", path: Path) -> None:
    """Draw a front and the levels by their first two costs."""
    from matplotlib.figure import Figure  # which needs no window

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=found.costs[0], ylabel=found.costs[1])
    front = sorted(point.costs[:2] for point in found.points)
    axes.step(*zip(*front, strict=True), where="post", marker="o", label="front")
    for name, cost in found.baselines.items():
        axes.plot(cost[0], cost[1], "x", color="gray")
        axes.annotate(name, (cost[0], cost[1]), textcoords="offset points", xytext=(4, 4))
    axes.legend()
    figure.savefig(path)


def _existing(prior: str | None) -> str | None:
    if prior is None or Path(prior).is_file():
        return prior
    from aiocg.policies import Policy, shipped_policies
    from aiocg.policies.features import FUNCTION

    known = [name for name in shipped_policies() if Policy.load(name).facts.parts != FUNCTION]
    if prior in known:
        return prior
    raise typer.BadParameter(f"there is no file {prior!r}, nor a policy of that name: {', '.join(known)}.")


def _actions_of(prior: str) -> tuple[str, ...]:
    from aiocg.search.priors import actions_of

    try:
        return actions_of(prior)
    except ValueError as error:
        fail(str(error))


Prior = Annotated[
    str | None,
    typer.Option(callback=_existing, show_default=False),
]
NOT_OF_DEFAULT = ("--env", "--action-space", "--start")


class _Searches(TyperGroup):
    """The searches, of which one is meant where the first word is the name of none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default search before a program, and before its options."""
        if args and args[0].startswith("-") and os.path.splitext(args[0])[1] and os.path.isfile(args[0]):
            args = [f"./{args[0]}", *args[1:]]
        if args and args[0].startswith("-") and args[0] not in (*ctx.help_option_names, "--"):
            ours = args[: args.index("--")] if "--" in args else args
            if (named := next((word for word in ours if word in self.commands), None)) is not None:
                ctx.fail(f"The name of a search comes before its options: aiocg search {named} PROGRAM {args[0]} ...")
            args = [_meant(args), *args]
        elif args and args[0] not in self.commands and not self._is_misspelt(ctx, args):
            meant = _meant(args[args[0] == "--" :] or [""])
            if meant != SCHEDULE and any(word.partition("=")[0] in NOT_OF_DEFAULT for word in args):
                fail(
                    f"without a name `aiocg search` runs {meant}, which takes no {' or '.join(NOT_OF_DEFAULT)}: name "
                    f"a search, as in `aiocg search screening {args[0]} --env gcc-v0`"
                )
            args = [meant, *args]
        return super().parse_args(ctx, args)

    def _is_misspelt(self, ctx: Any, args: list[str]) -> bool:
        """Return whether the first word is the name of a search, spelt wrongly, rather than a program's."""
        if not re.fullmatch(r"[A-Za-z][\w-]*", args[0]) or Path(args[0]).exists():
            return False
        if get_close_matches(args[0], self.commands):
            return True  # which click says
        if len(args) > 1 and not args[1].startswith("-"):
            ctx.fail(f"No search is named {args[0]!r}; there are {', '.join(self.commands)}.")
        return False


def _meant(args: list[str]) -> str:
    """Return the search for a program and options without a name of one."""

    def given(option: str) -> str:
        joined = (word.partition("=")[2] for word in args if word.startswith(f"{option}="))
        return next(joined, next((value for word, value in pairwise(args) if word == option), ""))

    of_loops = is_expression(args[0]) or args[0].startswith(f"generator://{LOOPS}/")
    if given("--env").partition("?")[0] == LOOPS or (of_loops and not given("--env")):
        return SCHEDULE
    return RACING if given("--reward") == RUNTIME else DEFAULT


app = typer.Typer(cls=_Searches, no_args_is_help=True)


@app.callback()
def _searches() -> None:
    """Search for better passes or, with --env, options of GCC or schedules of loops.

    `aiocg search PROGRAM` alone makes machine code smaller by `functionwise`, in 10 seconds, and with
    `--reward runtime` makes it run faster by `racing`, in 30. For a tensor expression, or one of loops-v0, it
    finds a fast schedule by `schedule`, in 60.

    All searches take a PROGRAM, behind -- flags for clang if it is a file of your own, and these options: --budget and
    --evaluations say when to stop, --start what each list of passes begins with (O0, Oz, O3), --reward what is
    maximised. -o writes the program, --state the result for `aiocg replay`. --no-minimize keeps passes that do nothing
    for the result. --env, --action-space, --workers and --seed say where and in what to search. No result is worse than
    the compiler's own levels.

    Example: aiocg search programs-v0/qsort -o best.o
    """


def _search(
    algorithm: str, *, without: tuple[str, ...] = (), default: tuple[str, float] | None = None
) -> Callable[[Callable[..., None]], None]:
    """Make a command of the search of the same name in `aiocg.search`.

    The function below has the options of the search's own as arguments, `seed` if it takes one, and its help.

    Args:
        algorithm: the name of the command; the docstring is its help.
        without: options of `Job` that it does not have.
        default: what ends the search where neither --budget nor --evaluations is given.
    """

    def add(function: Callable[..., None]) -> None:
        options = {one.name: one for one in described(Job) if one.name not in without}
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in described(function) if one.name != "seed"]

        def run(**given: Any) -> None:
            chosen = {one.name: given.pop(one.name) for one in own}
            if "seed" in inspect.signature(function).parameters:
                chosen["seed"] = given["seed"]
            if default is not None and given["budget"] is None and given["evaluations"] is None:
                given[default[0]] = default[1]
            job = Job(**given)
            job.algorithm = algorithm
            if chosen.get("prior") is not None and job.action_space is None:
                job.texts = _actions_of(chosen["prior"])
            job.run(functools.partial(getattr(aiocg.search, algorithm.replace("-", "_")), **chosen))

        if default is not None:
            _, option = get_args(options[default[0]].annotation)
            other = "--budget" if default[0] == "evaluations" else "--evaluations"
            option.show_default = f"{default[1]:g} without {other}"
        if algorithm in (*OF_LINES, SCHEDULE):
            options["env"] = options["env"].replace(default=LOOPS if algorithm == SCHEDULE else "gcc-v0")
        run.__doc__ = function.__doc__
        app.command(algorithm)(as_command(run, [*options.values(), *own]))

    return add


@_search(DEFAULT, without=("start", "minimize", "env", "action_space"), default=("budget", 10.0))
def _functionwise(seed: int) -> None:
    """Optimise each function by itself, all at once: the best there is for LLVM, and what is meant without a name.

    It makes machine code smaller, or with --reward IrInstructionCountOzMinsize the number of instructions.

    Example: aiocg search functionwise programs-v0/sha256 -o best.o --state best.json
    """


@_search(DECIDE, without=("start", "minimize", "env", "action_space"), default=("budget", 10.0))
def _decide(seed: int, passes: bool = False) -> None:
    """Decide which calls clang -Oz inlines and which it keeps, and say so by lines of the source.

    Example: aiocg search decide my_program.c -- -g

    Args:
        passes: Search for passes by functionwise after that, too.
    """


@_search("greedy")
def _greedy() -> None:
    """Take the best single action until none helps. It makes no random choices: --seed has no effect.

    Example: aiocg search greedy programs-v0/qsort -o best.bc
    """


@_search("random", default=("budget", 10.0))
def _random(seed: int, patience: int | None = None) -> None:
    """Walk at random and remember the best state seen; of GCC and loops, draw whole command lines and schedules.

    Example: aiocg search random programs-v0/crc32 --budget 30 --seed 1

    Args:
        patience (1..): Steps without improvement before a walk is given up.
    """


@_search("beam")
def _beam(width: int = 4, depth: int = 20, prior: Prior = None) -> None:
    """Extend the best few states by every action, level by level. It makes no random choices.

    Example: aiocg search beam my_program.c --width 8 --depth 15 --budget 60

    Args:
        width (1..): States kept per level.
        depth (1..): Levels: the longest list of actions.
    """


@_search("evolve", default=("budget", 10.0))
def _evolve(seed: int) -> None:
    """Insert, delete, replace or move passes in good lists, or cross two of them, and keep what is better.

    Example: aiocg search evolve programs-v0/sha256 --budget 30 -o best.bc
    """


@_search("mcts", default=("budget", 10.0))
def _mcts(seed: int, prior: Prior = None) -> None:
    """Grow a tree of states: follow what has led to good ones, and what was followed seldom (PUCT).

    Example: aiocg search mcts programs-v0/crc32 --evaluations 2000
    """


@_search("policy", without=("start", "env", "action_space"), default=("budget", 10.0))
def policy(seed: int, policy: str = "instructions") -> None:
    """Let a learned policy choose the passes: first those it prefers, then by their probability.

    Example: aiocg search policy programs-v0/sha256 --budget 1

    Args:
        policy: A file that `aiocg rl export` wrote, or the name of a policy that comes along.
    """


@_search("coreset", without=("start", "env", "action_space"), default=("budget", 10.0))
def _coreset() -> None:
    """Try the 16 sequences of the core set on each function, and put the best together. It makes no random choices.

    Example: aiocg search coreset programs-v0/sha256 --budget 5
    """


@_search("portfolio", default=("budget", 10.0))
def _portfolio(seed: int) -> None:
    """Evolve from several starts at once, and give most of the budget to the one that finds most.

    Example: aiocg search portfolio programs-v0/json --budget 60
    """


@_search(RACING, without=("start", "minimize", "env", "no_run"), default=("budget", 30.0))
def _racing(seed: int) -> None:
    """Make the program run faster: race what evolves from -O3, and measure the winner and -O3 in turns at the end.

    It needs a program with runs: one of programs-v0, or a C or C++ file of your own with --run. What is found differs
    from one time to the next, since times do.

    Example: aiocg search racing programs-v0/fft --budget 60 -o fast.o
    """


@_search(SCHEDULE, without=("start", "minimize", "action_space", "run_line", "no_run"), default=("budget", 60.0))
def _schedule(seed: int) -> None:
    """Find a fast schedule of loops: from templates of the computation, by a model of running time that it learns.

    The best few are measured in turns at the end, and it is this that counts.

    Example: aiocg search schedule 'C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]' --env 'loops-v0?threads=1'
    """


@_search("nevergrad", default=("budget", 10.0))
def _nevergrad(seed: int, optimizer: str = "DiscreteLenglerOnePlusOne", length: int = 40) -> None:
    """Let an optimizer of Nevergrad's choose the passes, or the options of a command line.

    Needs nevergrad: pip install 'aiocg\\[nevergrad]'.

    Example: aiocg search nevergrad programs-v0/qsort --evaluations 2000

    Args:
        optimizer: One of Nevergrad's optimizers.
    """


@_search("opentuner", default=("evaluations", 300))
def _opentuner(seed: int, length: int = 40) -> None:
    """Let OpenTuner's bandit over techniques choose the passes, or the options of a command line.

    Needs an extra: pip install 'aiocg\\[opentuner]'.

    Example: aiocg search opentuner programs-v0/qsort --evaluations 300
    """


@_search("hill-climb", without=("start",), default=("evaluations", 1000))
def _hill_climb(seed: int) -> None:
    """Change the best command line, or schedule of loops, a little, again and again, and keep what is not worse.

    Example: aiocg search hill-climb programs-v0/qsort --evaluations 300 --seed 1
    """


@_search("genetic", without=("start",), default=("evaluations", 1000))
def _genetic(seed: int, population: int = 50) -> None:
    """Breed command lines, or schedules of loops: cross two good ones, change a few choices, and let the worst go.

    Needs pymoo: pip install 'aiocg\\[search]'.

    Example: aiocg search genetic programs-v0/qsort --evaluations 1000 -o best.o

    Args:
        population (17..): Command lines that are kept.
    """


@_search("screening", without=("start",), default=("evaluations", 1000))
def _screening(seed: int) -> None:
    """Change many choices of the best command line, or schedule of loops, at once, and learn which ones do harm.

    Example: aiocg search screening programs-v0/qsort --evaluations 300 --minimize
    """


command(app, "pareto", like=Job)(_pareto)
