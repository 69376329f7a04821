"""`python -m bench.loops`: measure generated loops, what searches find, and the sweep; draw the sweep."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.cpu.target import CpuTarget
from bench import report
from bench.loops import sweep
from bench.loops.cuda import measure_cuda
from bench.loops.measurements import measure
from bench.loops.searches import measure_searches
from bench.measure import Effort, Measurement
from bench.processes import MachineUse

DOCS = Path(__file__).resolve().parents[2] / "docs" / "performance" / "loops"
LOOPS = Measurement("loops", "generated loops beside copies and NumPy", measure)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few sizes and samples: does it still work?")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
    sweeping: Annotated[bool, typer.Option("--sweep", help="Measure the sweep anew, store it and draw it.")] = False,
    drawing: Annotated[bool, typer.Option("--draw", help="Only draw the sweep that is stored.")] = False,
    searching: Annotated[
        float | None, typer.Option("--search", help="Measure what searches of so many seconds find instead.", min=0.1)
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="With --search: of these computations only.")] = None,
    cuda: Annotated[bool, typer.Option("--cuda", help="With --search: of schedules for the GPU.")] = False,
    threads: Annotated[int, typer.Option(help="With --search: of schedules and of NumPy.", min=1)] = 1,
    folder: Annotated[Path, typer.Option(help="Where the sweep is stored and drawn.")] = DOCS,
) -> None:
    """Measure loops beside what the machine can do.

    Examples: python -m bench.loops --quick; python -m bench.loops --search 60 --only 'matmul 512';
    python -m bench.loops --search 20 --cuda
    """
    console = Console(highlight=False, width=140)
    effort = Effort(quick)
    if sweeping:
        folder.mkdir(parents=True, exist_ok=True)
        found = sweep.measure_sweep(CpuTarget(), effort)
        (folder / sweep.STORED).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if sweeping or drawing:
        console.print(f"drawn: {sweep.draw(folder)}")
        return
    before = MachineUse.read()
    if searching is not None and cuda:
        try:
            results = measure_cuda(effort, searching, only or ())
        except (ImportError, CompilationError) as error:
            console.print(f"schedules for GPUs are not measured here: {error}")
            raise typer.Exit(1) from None
    elif searching is not None:
        results = measure_searches(effort, searching, only or (), threads)
    else:
        results = asyncio.run(measure(effort))
    others = MachineUse.read().others_since(before)
    results.note(f"Other processes used {100 * others:.0f}% of the machine meanwhile.")
    report.show(console, LOOPS, results)
    report.show_summary(console, {LOOPS.name: results})
    if json_path is not None:
        stored = {**report.as_json(LOOPS, results), "others": round(others, 3)}
        json_path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
