"""How `aiocg search` tells what it finds: a line while it runs, a table and lines at its end, or one JSON object."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from aiocg import search
from aiocg.cli.output import console, print_line
from aiocg.env import Env
from aiocg.errors import NotExpressible
from aiocg.metrics import Comparison, percent_over, ratio
from aiocg.search.result import Progress, SearchResult
from aiocg.spaces.actions import join_texts

__all__ = ["Finding", "progress_line", "shown"]

COUNTS = ("IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz", "IrInstructionCount")
COMMAND_LINE = "command_line"  # the observation of a compiler whose actions make a command line
BASELINES = ("Oz", "Os")  # what is compared with, the first that there is
COLUMNS = ("O2", "Os")  # of the table, where a compiler has options

NOTHING_TO_DO = (
    "hint        not even -Oz changes this program. If it was compiled by clang -O0, its functions are marked optnone, "
    "which keeps passes away: compile it with -O1 -Xclang -disable-llvm-passes"
)


class Finding:
    """What a search has found, with what is compared with it. The environment is at the state found."""

    def __init__(
        self, algorithm: str, env: Env, result: SearchResult, counts: list[int] | None, comparison: Comparison | None
    ) -> None:
        self._algorithm = algorithm
        self._env = env
        self._result = result
        self._counts = counts  # of instructions, in the order of `COUNTS`
        self._comparison = comparison
        self._line: str | None = None  # the compiler's command line, for those that have such

    @classmethod
    async def observe(cls, algorithm: str, env: Env, result: SearchResult) -> "Finding":
        """Observe what is to be told."""
        counts = await env.observe(*COUNTS) if COUNTS[-1] in env.observation_spaces else None
        found = cls(algorithm, env, result, counts, await search.compare(env))
        if COMMAND_LINE in env.observation_spaces:
            found._line = await env.observe(COMMAND_LINE)
        return found

    def print(self) -> None:
        """Print it for people."""
        result, title = self._result, Text(f"{self._algorithm} search, {self._env.benchmark.uri}")
        table = self._table(title)
        console.print(title if table is None else table)
        print_line(f"reward      {result.reward:.4f} ({self._env.reward_space})")
        if (line := self._against_baseline()) is not None:
            print_line(line)
        nothing = "none is better than the program as it is"
        if self._line is None:
            print_line(f"actions     {len(result.actions)}")
            print_line(join_texts(result.actions) or nothing)
        else:
            print_line(f"options     {_options(self._line)}")
            print_line(self._line if result.actions else nothing)
        if self._counts is not None and len(set(self._counts)) == 1:
            print_line(NOTHING_TO_DO)
        ending = "" if result.complete else ", ended by its budget"
        failed = sum(outcome is None for outcome in result.state.outcomes)
        failures = f", {failed} of them failed" if failed else ""
        print_line(f"wall time   {result.elapsed:.1f} s, {result.evaluations} evaluations{failures}{ending}")

    def as_json(self, output: Path | None) -> dict[str, Any]:
        """Return it for programs; `output` is the file that was written."""
        env, result, counts = self._env, self._result, self._counts
        values = dict(zip(("before", "O3", "Oz", "found"), counts, strict=True)) if counts is not None else None
        return {
            "algorithm": self._algorithm,
            "environment": env.spec.id,
            "benchmark": str(env.benchmark.uri),
            "compiler_version": env.compiler_version,
            "action_space": result.state.action_space,
            "reward_space": env.reward_space,
            "reward": result.reward,
            "instructions": values,
            "metrics": self._comparison.to_dict() if self._comparison is not None else None,
            "actions": list(result.actions),
            "commandline": _commandline(env),
            "evaluations": result.evaluations,
            "walltime": result.elapsed,
            "complete": result.complete,
            "output": str(output) if output is not None else None,
        }

    def _table(self, title: Text) -> Table | None:
        """Return costs before, at optimisation levels and as found, and how they relate to those of a level."""
        if self._counts is not None:
            return _table(title, "instructions", ("O3", "Oz"), "Oz", self._counts)
        comparison = self._comparison
        if comparison is None or not comparison.baselines.keys() >= set(COLUMNS):
            return None
        baselines = [comparison.baselines[level] for level in COLUMNS]
        costs = [comparison.unoptimised, *baselines, comparison.found]
        return _table(title, comparison.cost, COLUMNS, COLUMNS[-1], costs)

    def _against_baseline(self) -> str | None:
        comparison = self._comparison
        level = next((level for level in BASELINES if comparison is not None and level in comparison.baselines), None)
        if comparison is None or level is None:
            return None
        baseline, found = comparison.baselines[level], comparison.found
        return (
            f"against -{level} {comparison.cost} {found}, where -{level} has {baseline}: "
            f"ratio {ratio(baseline, found):.4f}, {percent_over(baseline, found):.2f} % over it"
        )


def _table(title: Text, what: str, levels: Sequence[str], baseline: str, costs: Sequence[float]) -> Table:
    table = Table("", "before", *(f"-{level}" for level in levels), "found", title=title)
    for column in table.columns:
        column.justify = "right"
    scale = max(costs[1 + list(levels).index(baseline)], 1)
    table.add_row(what, *map(str, costs))
    table.add_row(f"relative to -{baseline}", *(f"{cost / scale:.3f}" for cost in costs))
    return table


def _commandline(env: Env) -> str | None:
    """Return the line for the compiler's own tool, None when it cannot do one of the actions."""
    try:
        return env.commandline()
    except NotExpressible:
        return None


def _options(line: str) -> int:
    """Return how many options a command line has."""
    return len(line.split()) - 1


def shown(env: Env, actions: Sequence[str]) -> str:
    """Return how many actions there are or, of an action that is a whole command line or recipe, how many choices."""
    line = env.action_spaces.language.line
    if line is not None and len(actions) == 1 and line.begins(actions[0]):
        return f"{_options(actions[0])} choices"
    return f"{len(actions)} actions"


def progress_line(algorithm: str, env: Env, progress: Progress) -> Text:
    """Return a line that tells where a search is."""
    rate = progress.evaluations / max(progress.elapsed, 1e-9)
    text = Text(f"{algorithm} {env.benchmark.uri}  ", no_wrap=True, overflow="ellipsis")
    text.append(f"reward {progress.reward:.4f}", style="bold green")
    text.append(f"  {shown(env, progress.actions)}  round {progress.round}  {progress.evaluations} evaluations")
    text.append(f"  {rate:.0f}/s  {progress.elapsed:.1f} s")
    return text
