"""`python -m bench`: run the measurements, print a table of each, and write JSON."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import report
from bench.catalog import CATALOG
from bench.machine import describe_machine, load
from bench.measure import Effort, Measurement, Results
from bench.processes import MachineUse

WIDTH = 140  # columns where there is no terminal
DISTURBED = 0.05  # share of the machine used by others, above which a reader is warned


def _chosen(names: list[str]) -> list[Measurement]:
    known = {measurement.name: measurement for measurement in CATALOG}
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not a measurement: there are {', '.join(known)}")
    return [measurement for measurement in CATALOG if not names or measurement.name in names]


async def _run(console: Console, chosen: list[Measurement], effort: Effort) -> dict[str, Any]:
    started = time.time()
    machine = await describe_machine()
    report.show_machine(console, machine)
    found: dict[str, Results] = {}
    entries = []
    for measurement in chosen:
        before = MachineUse.read()
        results = found[measurement.name] = await measurement.run(effort)
        after = MachineUse.read()
        others = after.others_since(before)
        if others > DISTURBED:
            results.note(f"Disturbed: other processes used {100 * others:.0f}% of the machine meanwhile.")
        report.show(console, measurement, results)
        figures = {"seconds": round(after.when - before.when, 1), "others": round(others, 3)}
        entries.append({**report.as_json(measurement, results), **figures})
    report.show_summary(console, found)
    return {
        "machine": {**machine, "load_after": load()},
        "quick": effort.quick,
        "started": started,
        "seconds": round(time.time() - started, 1),
        "measurements": entries,
    }


def _run_loop(console: Console, chosen: list[Measurement], effort: Effort) -> dict[str, Any]:
    """Run on uvloop where there is one, as the `aiocg` command does."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_run(console, chosen, effort))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(console, chosen, effort))


def main(
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Take few samples: less than 40 s, and more noise.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Run this measurement; repeatable.")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="List the measurements.")] = False,
) -> None:
    """Measure aiocg, and say which of its budgets are met.

    Example: python -m bench --only step --only size --json results.json
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if list_names:
        for measurement in CATALOG:
            console.print(f"{measurement.name:10} {measurement.title}")
        return
    results = _run_loop(console, _chosen(only or []), Effort(quick))
    if json_path is not None:
        json_path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
