"""Shows comparisons as tables, with what a reader must know."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import Spread
from bench.report import number
from bench.versus import published
from bench.versus.comparison import Comparison, Overview, Range, Samples, summary


def show(console: Console, comparisons: Sequence[Comparison], *, with_original: bool) -> None:
    """Print one table, with a section for each program."""
    table = Table(title="aiocg beside CompilerGym 0.2.5", title_justify="left", title_style="bold")
    table.add_column("what")
    columns = ["original", "processor"] if with_original else [published.LABEL]
    for column in (*columns, "ours", "processor"):
        table.add_column(column, justify="right")
    table.add_column("unit", no_wrap=True)
    if with_original:
        for column in ("ratio", "quartiles", "by wall", "remem-\nbering", "Unix\nsockets", "at most", "target"):
            table.add_column(column, justify="right", no_wrap=True)
    program = None
    for one in comparisons:
        if one.program != program:
            program = one.program
            size = next((each.instructions for each in comparisons if each.program == program and each.instructions), 0)
            table.add_section()
            table.add_row(f"[bold]{program}{f', {size:,} instructions' if size else ''}[/]")
        table.add_row(*_row(one, with_original))
    console.print(table)


def show_overviews(console: Console, found: Sequence[Overview]) -> None:
    """Print what was found over the programs that are not large."""
    table = Table(title="times better, over programs: median, least .. most", title_justify="left", title_style="bold")
    table.add_column("what")
    for column in ("programs", "by processor time", "by wall", "remembering", "at most", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in found:
        ranges = (_range(each) for each in (one.ratio, one.by_wall, one.remembering, one.bound))
        table.add_row(one.what, str(one.programs), *ranges, _verdict(one))
    console.print(table)


def show_notes(console: Console, notes: Sequence[str]) -> None:
    """Print what a reader must know."""
    for note in notes:
        console.print(f"  {note}", style="dim", markup=False)


def failures(comparisons: Sequence[Comparison]) -> list[str]:
    """Return what to say of actions that failed."""
    return [
        f"{one.program}: {one.what}: actions that failed: {one.original.failures} of the original's, "
        f"{one.ours.failures} of ours."
        for one in comparisons
        if one.original.failures or one.ours.failures
    ]


def show_versions(console: Console, found: Sequence[dict[str, Any]]) -> None:
    """Print what a pass costs in a bare loop over each version of LLVM."""
    compilers = list(dict.fromkeys(one["compiler"] for one in found))
    table = Table(title="LLVM alone, in place, µs", title_justify="left", title_style="bold")
    table.add_column("program")
    for compiler in compilers:
        table.add_column(compiler, justify="right")
    for program in dict.fromkeys(one["program"] for one in found):
        medians = {one["compiler"]: number(one["median"]) for one in found if one["program"] == program}
        table.add_row(program, *(medians.get(compiler, "") for compiler in compilers))
    console.print(table)


def show_summary(console: Console, comparisons: Sequence[Comparison], found: Sequence[Overview]) -> None:
    """Print which targets were missed."""
    judged: list[tuple[str, Comparison | Overview]] = [(f"{one.program}: ", one) for one in comparisons]
    judged = [(where, one) for where, one in [*judged, *(("", one) for one in found)] if one.met is not None]
    missed = [(where, one) for where, one in judged if not one.met]
    console.print(f"{len(judged) - len(missed)} of {len(judged)} targets met", style="bold")
    for where, one in missed:
        assert one.ratio is not None and one.target is not None
        console.print(f"  {where}{one.what}: {number(one.ratio.median)} times, target {number(one.target)}")


def _row(one: Comparison, with_original: bool) -> list[str]:
    figures = _pair(one.original) if with_original else [published.FIGURES.get(one.what, "")]
    row = [f"  {one.what}", *figures, *_pair(one.ours), one.unit]
    ratio = one.ratio
    if with_original and ratio is not None:
        others = (_median(each) for each in (one.ratio_by_wall, one.ratio_remembering, one.bound))
        row += [number(ratio.median), f"{number(ratio.low)} .. {number(ratio.high)}", *others, _verdict(one)]
    return row


def _pair(side: Samples) -> list[str]:
    """Return the median of the samples, and that of processor time."""
    found = summary(side)
    if found is None:
        return ["", ""]
    return ["" if found[name] is None else number(found[name] or 0.0) for name in ("median", "processor")]


def _median(found: Spread | None) -> str:
    return "" if found is None else number(found.median)


def _range(found: Range | None) -> str:
    return "" if found is None else f"{number(found.median)} [{number(found.least)} .. {number(found.most)}]"


def _verdict(one: Comparison | Overview) -> str:
    if one.target is None:
        return ""
    return f"≥ {number(one.target)} " + ("[green]met[/]" if one.met else "[red]missed[/]")


def as_json(
    comparisons: Sequence[Comparison],
    found: Sequence[Overview],
    notes: Sequence[str],
    versions: dict[str, Any],
    why_not: str | None,
) -> dict[str, Any]:
    """Return everything, ready for JSON.

    Args:
        comparisons, found, notes, versions: what was found, on each program and over programs.
        why_not: why the original did not run, None if it did.
    """
    result: dict[str, Any] = {
        "versions": versions,
        "comparisons": [one.as_json() for one in comparisons],
        "overviews": [one.as_json() for one in found],
        "notes": list(notes),
        "original_could_not_run": why_not,
    }
    if why_not is not None:
        result["published"] = {"of": published.LABEL, "figures": published.FIGURES}
    return result
