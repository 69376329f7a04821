"""`aiocg search pareto`: find programs that trade one cost for another."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import aiocg
from aiocg.cli.options import count_option, time_option
from aiocg.cli.output import (
    check_writable,
    console,
    fail,
    interrupted_status,
    print_json,
    print_line,
    run,
    table,
    working,
)
from aiocg.cli.program import Flags
from aiocg.states.behaviour import Behaviour

if TYPE_CHECKING:
    from aiocg import Env
    from aiocg.search import ParetoResult

EVALUATIONS = 1000


def pareto(
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
            with working("pareto", "evaluating the compiler's own levels", json=json) as show:
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

    run(search(), ending=lambda: ended.append(True))
    if ended:
        sys.exit(interrupted_status())


async def _tell(env: "Env", found: "ParetoResult", plot: Path | None, json: bool, *, validate: bool) -> None:
    """Print the front, and draw it."""
    from aiocg.search.lanes import go_to
    from aiocg.spaces.actions import join_texts

    validated = []
    for point in found.points:
        await go_to(env, point.actions)
        validated.append(
            (await env.validate(sanitizers=(), minimize=False)).behaviour if validate else Behaviour.NOT_RUN
        )
    problem = {}
    if plot is not None:
        try:
            _draw(str(env.benchmark.uri), found, plot)
        except OSError as error:
            problem = {"error": f"cannot write {plot}: {error.strerror}"}
    if json:
        print_json(
            {
                "algorithm": "pareto",
                "environment": env.spec.id,
                "benchmark": str(env.benchmark.uri),
                "costs": found.costs,
                "points": [
                    {"costs": one.costs, "baseline": one.baseline, "validated": right, "actions": one.actions}
                    for one, right in zip(found.points, validated, strict=True)
                ],
                "baselines": dict(found.baselines),
                "evaluations": found.search.evaluations,
                "walltime": found.search.elapsed,
                "complete": found.search.complete,
            }
            | problem
        )
        if problem:
            sys.exit(1)
        return
    rows = [
        (number, *map(_number, one.costs), one.baseline or f"{len(one.actions)} actions", right)
        for number, (one, right) in enumerate(zip(found.points, validated, strict=True), 1)
    ]
    levels = [("", *map(_number, cost), name, "") for name, cost in found.baselines.items()]
    columns, last = ("", *found.costs, "made by", "validated"), len(found.costs)
    title = f"front of {env.benchmark.uri}, and the compiler's own levels"
    console.print(table(title, columns, [*rows, *levels], right=range(last + 1)))
    for number, one in enumerate(found.points, 1):
        if not one.baseline:
            print_line(f"{number}: {join_texts(one.actions)}")
    ending = "" if found.search.complete else ", ended by its budget"
    print_line(f"wall time   {found.search.elapsed:.1f} s, {found.search.evaluations} evaluations{ending}")
    if problem:
        fail(problem["error"])


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
