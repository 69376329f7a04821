"""`python -m bench.chaos`: 200 environments, and faults at random; what was promised of them is checked."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.chaos import report
from bench.chaos.faults import NAMES
from bench.chaos.run import run
from bench.chaos.world import Settings

WIDTH = 140  # columns where there is no terminal
QUICK = {"seconds": 6.0, "environments": 40, "workers": 2, "pause": 0.25, "gap": 0.6}


def main(
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to walk among faults.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides the walks and the faults.")] = 1,
    environments: Annotated[int, typer.Option(min=1, help="How many walk.")] = 200,
    workers: Annotated[int, typer.Option(min=1, help="Processes for each of the two compilers.")] = 3,
    pause: Annotated[float, typer.Option(min=0.01, help="Mean seconds between the turns of an environment.")] = 1.0,
    gap: Annotated[float, typer.Option(min=0.01, help="Mean seconds between two faults from outside.")] = 0.7,
    grace: Annotated[float, typer.Option(help="Seconds after its deadline in which an error must be there.")] = 1.0,
    fault: Annotated[list[str] | None, typer.Option(help="Only this fault; repeatable. --list has them.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="All faults but this; repeatable.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="40 environments, and a few seconds.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="List the faults.")] = False,
) -> None:
    """Do to aiocg what happens to software, and check that nothing comes of it but what was promised.

    Ends with status 1 when something else did, and says how to see it again.

    Example: python -m bench.chaos --seconds 600 --seed 7 --json chaos.json
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if list_names:
        report.show_names(console)
        return
    for name in (*(fault or ()), *(without or ())):
        if name not in NAMES:
            raise typer.BadParameter(f"{name!r} is no fault: there are {', '.join(NAMES)}")
    chosen = tuple(name for name in fault or NAMES if name not in (without or ()))
    settings = Settings(seed, environments, workers, seconds, pause, gap, chosen, grace=grace)
    if quick:
        settings = Settings(seed=seed, faults=chosen, grace=grace, **QUICK)  # type: ignore[arg-type]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # to clean up
    outcome = run(settings, lambda line: console.print(line, style="dim"))
    verdict = report.judge(outcome)
    report.show(console, outcome, verdict)
    if json_path is not None:
        json_path.write_text(json.dumps(report.as_json(outcome, verdict), indent=1) + "\n")
    raise typer.Exit(1 if verdict.violations else 0)


if __name__ == "__main__":
    typer.run(main)
