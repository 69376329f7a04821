"""`aiocg cluster` and `aiocg top`: what the nodes of a cluster do."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import Json, console, fail, print_json, run, table

if TYPE_CHECKING:
    from rich.table import Table

    from aiocg.cluster.hosts import Host
    from aiocg.cluster.survey import Report

app = typer.Typer(help="Look at the nodes of a cluster.", no_args_is_help=True)

Nodes = Annotated[
    str | None,
    typer.Argument(
        metavar="[CLUSTER]",
        help="Addresses, separated by commas, or file:PATH; by default what AIOCG_CLUSTER or AIOCG_NODE has.",
        show_default=False,
    ),
]
MIB = 1 << 20


@app.command("status")
def status(nodes: Nodes = None, json: Json = False) -> None:
    """Ask each node how busy it is; exit with 1 when one cannot be used.

    Example: aiocg cluster status file:hosts.toml
    """
    reports = run(_look(_hosts(nodes)))
    if json:
        print_json({"nodes": [_as_json(report) for report in reports]})
    else:
        console.print(_table(reports))
    sys.exit(any(report.problem for report in reports))


def top(
    nodes: Nodes = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    count: Annotated[int | None, typer.Option(help="Looks after which to end.", min=1, show_default=False)] = None,
) -> None:
    """Watch what the nodes of a cluster do, until Ctrl-C.

    Example: aiocg top tcp://one.example:5757,tcp://two.example:5757
    """
    run(_watch(_hosts(nodes), interval, count))


def _hosts(cluster: str | None) -> "list[Host]":
    from aiocg.cluster.hosts import hosts_of

    chosen = cluster or os.environ.get("AIOCG_CLUSTER") or os.environ.get("AIOCG_NODE")
    if not chosen:
        fail("which nodes? Name them, or set AIOCG_CLUSTER")
    return hosts_of(chosen)


async def _look(hosts: "list[Host]") -> "list[Report]":
    from aiocg.cluster.survey import Watch

    async with Watch(hosts) as watch:
        return await watch.look()


async def _watch(hosts: "list[Host]", interval: float, count: int | None) -> None:
    import asyncio
    import itertools

    from rich.live import Live

    from aiocg.cluster.survey import Watch

    async with Watch(hosts) as watch:
        with Live(console=console, auto_refresh=False) as live:
            for number in itertools.count(1):
                live.update(_table(await watch.look(), rates=True), refresh=True)
                if number == count:
                    return
                await asyncio.sleep(interval)


def _table(reports: "Sequence[Report]", *, rates: bool = False) -> "Table":
    columns = ["node", "state", "clients", "workers", "busy", "sessions", "memory", "requests"]
    columns += ["per s", "failed"] if rates else ["failed"]
    rows = [_row(report, rates=rates) for report in reports]
    answers = [report.said for report in reports if report.said is not None]
    if len(reports) > 1:
        cells = [
            str(sum(one.clients for one in answers)),
            f"{sum(one.workers for one in answers)} of {sum(one.most for one in answers)}",
            str(sum(one.busy for one in answers)),
            str(sum(one.sessions for one in answers)),
            f"{sum(one.memory for one in answers) // MIB} MiB",
            str(sum(one.requests for one in answers)),
            *([f"{sum(report.rate for report in reports):.0f}"] if rates else []),
            str(sum(one.failures for one in answers)),
        ]
        rows.append(["all", f"{len(answers)} of {len(reports)} up", *cells])
    return table("", columns, rows, right=range(2, len(columns)), whole=(0,))


def _row(report: "Report", *, rates: bool) -> list[str]:
    said = report.said
    if said is None:
        return [report.address, f"down: {report.problem}", *([""] * (8 if rates else 7))]
    return [
        report.address,
        f"up, {1000 * report.delay:.0f} ms",
        str(said.clients),
        f"{said.workers} of {said.most}",
        str(said.busy),
        str(said.sessions),
        f"{said.memory // MIB} MiB",
        str(said.requests),
        *([f"{report.rate:.0f}"] if rates else []),
        str(said.failures),
    ]


def _as_json(report: "Report") -> dict[str, object]:
    from msgspec.structs import asdict as fields_of

    value = asdict(report)
    value["said"] = fields_of(report.said) if report.said is not None else None
    return value
