"""Shows comparisons as a table, with what a reader must know."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.report import number
from bench.versus import published
from bench.versus.comparison import Comparison, Rounds, summary


def show(console: Console, comparisons: Sequence[Comparison], notes: Sequence[str], *, with_original: bool) -> None:
    """Print one table, with a section for each program."""
    table = Table(title="aiocg beside CompilerGym 0.2.5", title_justify="left", title_style="bold")
    table.add_column("what")
    columns = ["original", "its p99"] if with_original else [published.LABEL]
    for column in (*columns, "ours", "our p99", "our compiler", "LLVM alone"):
        table.add_column(column, justify="right")
    table.add_column("unit", no_wrap=True)
    if with_original:
        for column in ("ratio", "quartiles", "at most", "target"):
            table.add_column(column, justify="right", no_wrap=True)
    program = None
    for one in comparisons:
        if one.program != program:
            table.add_section()
            table.add_row(f"[bold]{one.program}[/]")
            program = one.program
        table.add_row(*_row(one, with_original))
    console.print(table)
    failed = [one for one in comparisons if any(one.failures)]
    for one in failed:
        its, ours = one.failures
        notes = [*notes, f"{one.program}: {one.what}: actions that failed: {its} of the original's, {ours} of ours."]
    for note in notes:
        console.print(f"  {note}", style="dim", markup=False)


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


def show_summary(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print which targets were missed."""
    judged = [one for one in comparisons if one.met is not None]
    missed = [one for one in judged if not one.met]
    console.print(f"{len(judged) - len(missed)} of {len(judged)} targets met", style="bold")
    for one in missed:
        assert one.ratio is not None and one.target is not None
        console.print(f"  {one.program}: {one.what}: {number(one.ratio.median)} times, target {number(one.target)}")


def _row(one: Comparison, with_original: bool) -> list[str]:
    figures = _pair(one.original) if with_original else [_published(one.what)]
    compiler = number(sorted(one.compiler)[len(one.compiler) // 2]) if one.compiler else ""
    row = [f"  {one.what}", *figures, *_pair(one.ours), compiler, _pair(one.alone)[0], one.unit]
    ratio = one.ratio
    if with_original and ratio is not None:
        bound = number(one.bound.median) if one.bound is not None else ""
        row += [number(ratio.median), f"{number(ratio.low)} to {number(ratio.high)}", bound, _verdict(one)]
    return row


def _pair(rounds: Rounds) -> list[str]:
    """Return median and p99; the latter only where there are enough samples for it to be another than the largest."""
    found = summary(rounds)
    if found is None:
        return ["", ""]
    return [number(found["median"]), number(found["p99"]) if found["samples"] >= 100 else ""]


def _published(what: str) -> str:
    return next((text for name, text in published.FIGURES.items() if what.startswith(name)), "")


def _verdict(one: Comparison) -> str:
    if one.target is None:
        return ""
    return f"≥ {number(one.target)} " + ("[green]met[/]" if one.met else "[red]missed[/]")


def as_json(
    comparisons: Sequence[Comparison], notes: Sequence[str], versions: dict[str, Any], why_not: str | None
) -> dict[str, Any]:
    """Return everything, ready for JSON.

    Args:
        comparisons, notes, versions: what was found.
        why_not: why the original did not run, None if it did.
    """
    found: dict[str, Any] = {
        "versions": versions,
        "comparisons": [one.as_json() for one in comparisons],
        "notes": list(notes),
        "original_could_not_run": why_not,
    }
    if why_not is not None:
        found["published"] = {"of": published.LABEL, "figures": published.FIGURES}
    return found
