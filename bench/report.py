"""Shows results as tables, and turns them into JSON."""

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import Measurement, Results, Row

SIGNIFICANT = 3  # digits; more would be noise


def show_machine(console: Console, machine: dict[str, Any]) -> None:
    """Print what the numbers depend on."""
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), style="dim")


def show(console: Console, measurement: Measurement, results: Results) -> None:
    """Print one measurement."""
    table = Table(title=f"{measurement.name}: {measurement.title}", title_justify="left", title_style="bold")
    table.add_column("what")
    for column in ("median", "quartiles", "budget"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in results.rows:
        value = row.value
        quartiles = f"{number(value.low)} to {number(value.high)}" if value.samples > 1 else ""
        table.add_row(row.what, number(value.median), quartiles, _budget(row), row.unit, _verdict(row))
    console.print()
    console.print(table)
    for note in results.notes:
        console.print(f"  {note}", style="dim")


def show_summary(console: Console, found: dict[str, Results]) -> None:
    """Print which budgets were missed."""
    rows = [(name, row) for name, results in found.items() for row in results.rows if row.budget is not None]
    missed = [(name, row) for name, row in rows if not _met(row)]
    console.print()
    console.print(f"{len(rows) - len(missed)} of {len(rows)} budgets met", style="bold")
    for name, row in missed:
        text = f"{number(row.value.median)} {row.unit}, budget {_budget(row)}: {_verdict(row)}"
        console.print(f"  {name}: {row.what}: {text}")


def as_json(measurement: Measurement, results: Results) -> dict[str, Any]:
    """Return one measurement as JSON."""
    return {
        "name": measurement.name,
        "title": measurement.title,
        "rows": [_row_as_json(row) for row in results.rows],
        "notes": results.notes,
    }


def number(value: float) -> str:
    """Write a number with three significant digits, large ones with a separator."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    decimals = max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def _row_as_json(row: Row) -> dict[str, Any]:
    value, budget = row.value, row.budget
    return {
        "what": row.what,
        "unit": row.unit,
        "median": value.median,
        "low": value.low,
        "high": value.high,
        "samples": value.samples,
        "budget": None if budget is None else {"at_least" if budget.at_least else "at_most": budget.limit},
        "met": None if budget is None else _met(row),
        "missed_by": None if budget is None else budget.missed_by(value.median),
    }


def _met(row: Row) -> bool:
    return row.budget is None or row.budget.met(row.value.median)


def _budget(row: Row) -> str:
    if row.budget is None:
        return ""
    return f"{'≥' if row.budget.at_least else '≤'} {number(row.budget.limit)}"


def _verdict(row: Row) -> str:
    if row.budget is None:
        return ""
    if _met(row):
        return "[green]met[/]"
    return f"[red]missed by {100 * row.budget.missed_by(row.value.median):.0f}%[/]"
