"""The protocol of Table IV of Cummins et al., "CompilerGym" (CGO 2022): searches, time, replicas and three rewards."""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterable, Sequence

import aiocg.search
from aiocg.search.metrics import mean_of_ratios
from bench.plots.page import table
from bench.search.means import STRONGER, USUAL, by_program, compares
from bench.search.report import spread, suite
from bench.search.runs import RACING, RUNTIME
from bench.search.stored import Row

SEARCHES = ("greedy", "nevergrad", "opentuner", "random", "functionwise", "portfolio")
SECONDS, SEEDS = 3_600.0, 10
PAPER = "Table IV of Cummins et al. (CGO 2022), without LaMCTS"

_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def table_iv(rows: Iterable[Row]) -> str:
    """Return the protocol's table, one for each budget, with a heading that says how it was shortened."""
    usable = [row for row in rows if compares(row) and row["search"] in (*SEARCHES, RACING)]
    lines = []
    for seconds in sorted({row["seconds"] for row in usable}):
        lines += _section([row for row in usable if row["seconds"] == seconds], seconds)
    return "\n".join(lines)


def lines_of_code(search: str) -> int:
    """Count the lines of the module that a search is in, without blanks, comments, docstrings."""
    return len(_code_lines(inspect.getsource(inspect.getmodule(getattr(aiocg.search, search)) or aiocg.search)))


def _section(rows: Sequence[Row], seconds: float) -> list[str]:
    goals = {"instructions": (USUAL, STRONGER), "bytes": (USUAL, STRONGER), RUNTIME: (STRONGER,)}
    body = []
    for search in (*SEARCHES, RACING):
        mine = [row for row in rows if row["search"] == search]
        cells = []
        for goal, compared in goals.items():
            group = [row for row in mine if row["goal"] == goal]
            cells += [
                spread(mean_of_ratios([*by_program(group, names).values()])) if group else "" for names in compared
            ]
        if mine:
            body.append([search, str(lines_of_code(search)), *cells])
    head = ["search", "lines", "instructions, usual -Oz", "stronger", "bytes, usual -Oz", "stronger", "running time"]
    suites = ", ".join(sorted({suite(row) for row in rows}))
    return [
        f"## {_heading(rows, seconds)}", "",
        f"{len({row['program'] for row in rows})} programs of {suites}; baseline/found, geometric means with 95 % "
        f"intervals. Lines are those of the search's own module or package, without blank lines, comments and "
        f"docstrings. The paper compares with the usual -Oz; running time is compared with -O3, or a level that is "
        f"certainly faster.",
        "", table(head, body), "",
    ]  # fmt: skip


def _heading(rows: Sequence[Row], seconds: float) -> str:
    """Say what was done, and what was not."""
    seeds = min(_replicas(rows))
    shortened = [f"{seconds:g} s instead of {SECONDS:,.0f} s"] if seconds < SECONDS else []
    shortened += [f"{seeds} of {SEEDS} replicas"] if seeds < SEEDS else []
    pairs = {(row["goal"], row["search"]) for row in rows}
    wanted = {(goal, search) for goal in ("instructions", "bytes") for search in SEARCHES} | {(RUNTIME, RACING)}
    shortened += [f"{len(wanted & pairs)} of {len(wanted)} searches and goals"] if wanted - pairs else []
    return f"Shortened {PAPER}: {', '.join(shortened)}" if shortened else f"The protocol of {PAPER}"


def _replicas(rows: Iterable[Row]) -> list[int]:
    """Return how many seeds there are of each search on each program."""
    seeds: dict[tuple[str, ...], set[int]] = {}
    for row in rows:
        seeds.setdefault((row["program"], row["goal"], row["search"]), set()).add(row["seed"])
    return [len(found) for found in seeds.values()]


def _code_lines(source: str) -> set[int]:
    """Return the numbers of the lines with code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines
