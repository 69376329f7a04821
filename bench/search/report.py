"""The results as tables in Markdown."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from aiocg.search.metrics import Mean, mean_of_ratios
from bench.plots.page import table
from bench.search.means import (
    CODE,
    LEVEL,
    STRONGER,
    USUAL,
    by_program,
    compares,
    counts,
    ratio,
    shares_best,
)
from bench.search.runs import RUNTIME
from bench.search.stored import Row

ALL = "all"  # suites together
TITLES = {"instructions": "By instructions", "bytes": "By bytes", RUNTIME: "By running time"}
EXPLANATION = (
    "Means are geometric over programs, of each of which the seeds are averaged first; in brackets 95 % intervals of "
    "2,000 bootstrap samples of programs. *best* is the share of programs on which no other search of the table is "
    "better in the same time. A search that failed, or whose result is invalid, counts as the baseline: 1. *not run* "
    "counts results that could not be validated by running them."
)


def report(rows: Iterable[Row], *, programs: bool = False) -> str:
    """Return the tables of all goals.

    Args:
        rows: the results.
        programs: add a table of each program for each goal.
    """
    rows = list(rows)
    usable = [row for row in rows if compares(row)]
    lines = [*_conditions(rows), "", EXPLANATION, ""]
    for goal, title in TITLES.items():
        if found := [row for row in usable if row["goal"] == goal]:
            lines += [f"### {title}", "", _summary(found), "", *_notes(found)]
            if programs:
                lines += [_runtimes(found) if goal == RUNTIME else _programs(found), ""]
    return "\n".join([*lines, *_missing(row for row in rows if not compares(row))])


def spread(found: Mean) -> str:
    """Write a mean and its interval, where it has one."""
    return f"**{found.mean:.3f}**" + ("" if math.isnan(found.low) else f" [{found.low:.3f}, {found.high:.3f}]")


def suite(row: Row) -> str:
    """Return the suite of a row's program."""
    return str(row["program"]).partition("/")[0]


def _conditions(rows: Sequence[Row]) -> list[str]:
    """Say on what was measured, and warn where that was not the same for all."""
    loads: dict[str, float] = defaultdict(float)
    for row in rows:
        loads[row["machine"]] = max(loads[row["machine"]], row["load"])
    lines = [f"{machine}; load at most {load:g}." for machine, load in loads.items()]
    return (
        lines
        if len(lines) == 1
        else ["**Results of different machines or versions are mixed here:**", "", *(f"- {line}" for line in lines)]
    )


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, float, dict[str, list[Row]]]]:
    """Yield suite and seconds, and the rows of each search: what can be compared."""
    suites = sorted({suite(row) for row in rows})
    for name in [*suites, ALL] if len(suites) > 1 else suites:
        for seconds in sorted({row["seconds"] for row in rows}):
            searches: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                if row["seconds"] == seconds and name in (ALL, suite(row)):
                    searches[row["search"]].append(row)
            if searches:
                yield name, seconds, dict(sorted(searches.items()))


def _summary(rows: Sequence[Row]) -> str:
    goal = rows[0]["goal"]
    ratios = {
        "instructions": {"-Oz/found, stronger": STRONGER, "usual -Oz": USUAL},
        "bytes": {
            "-Oz/found, stronger": STRONGER, "usual -Oz": USUAL, "smallest level": LEVEL, "code": CODE
        },
        RUNTIME: {"level/found": STRONGER},
    }[goal]  # fmt: skip
    head = [
        "suite", "search", "s", "s used", "programs", "seeds", "runs", *ratios, "mean %", "least", "best", "invalid",
        "not run", "failed",
    ]  # fmt: skip
    lines = []
    for name, seconds, searches in _groups(rows):
        best = shares_best({search: by_program(group) for search, group in searches.items()})
        for search, group in searches.items():
            logs = by_program(group)
            percent = 100 * (1 - np.exp(-np.array([*logs.values()])))
            used = [row["elapsed"] for row in group if "elapsed" in row]
            lines.append([
                name, search, f"{seconds:g}", f"{np.mean(used):.1f}" if used else "", str(len(logs)),
                str(len({row["seed"] for row in group})), str(len(group)),
                *(spread(mean_of_ratios([*by_program(group, names).values()])) for names in ratios.values()),
                f"{percent.mean():.1f}", f"{min(map(ratio, group)):.3f}",
                f"{100 * best[search]:.0f} %" if len(searches) > 1 else "", *map(str, _verdicts(group)),
            ])  # fmt: skip
    return table(head, lines)


def _verdicts(group: Sequence[Row]) -> tuple[int, int, int]:
    """Count what is invalid, was not run, and failed."""
    verdicts = ["failed" if "error" in row else row["valid"] for row in group]
    return verdicts.count(False), verdicts.count(None), verdicts.count("failed")


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Warn of what cannot be compared, and name what does not count."""
    for name, seconds, searches in _groups(rows):
        runs = {frozenset((row["program"], row["seed"]) for row in group) for group in searches.values()}
        if len(runs) > 1:
            yield f"The searches of {name} in {seconds:g} s have not all run on the same programs and seeds yet."
            yield ""
    for row in rows:
        if not counts(row):
            why = row["error"] if "error" in row else "invalid: " + "; ".join(row["errors"])
            yield f"- {row['program']}, {row['search']}, {row['seconds']:g} s, seed {row['seed']}: {_first_line(why)}"
    if not all(map(counts, rows)):
        yield ""


def _missing(rows: Iterable[Row]) -> list[str]:
    """Name the programs that are in no table, each once."""
    reasons = {(row["program"], row["goal"]): _first_line(row["error"]) for row in rows}
    if not reasons:
        return []
    lines = [f"- {program}, {goal}: {why}" for (program, goal), why in sorted(reasons.items())]
    return ["Could not be loaded, or run, and in no table:", "", *lines, ""]


def _programs(rows: Sequence[Row]) -> str:
    """Tabulate the stronger ratio of each program, a column for each search and budget."""
    columns = sorted({(row["search"], row["seconds"]) for row in rows})
    found = {
        one: by_program(row for row in rows if (row["search"], row["seconds"]) == one) for one in columns
    }  # fmt: skip
    facts = {row["program"]: row for row in rows}
    head = ["program", "instructions", "start", "-Oz", "-Oz minsize", *(f"{name}, {s:g} s" for name, s in columns)]
    lines = [
        [
            program, *(f"{row[name]:,}" for name in ("instructions", "start", "Oz", "OzMinsize")),
            *(f"{np.exp(found[one][program]):.3f}" if program in found[one] else "" for one in columns),
        ]
        for program, row in sorted(facts.items())
    ]  # fmt: skip
    return table(head, lines)


def _runtimes(rows: Sequence[Row]) -> str:
    """Tabulate the last measurement of each search for running time."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["program"], row["seconds"], row["seed"])):
        timing = row["timing"]
        middle, low, high = timing["speedup"] or (1.0, 1.0, 1.0)
        lines.append([
            row["program"], f"{row['seconds']:g}", str(row["seed"]), f"-{timing['baseline']}", str(timing["runs"]),
            f"{middle:.3f}", f"[{low:.3f}, {high:.3f}]", "yes" if timing["faster"] else "no", str(row["evaluations"]),
        ])  # fmt: skip
    head = ["program", "s", "seed", "level", "runs", "level/found", "interval", "faster", "evaluated"]
    return table(head, lines)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
