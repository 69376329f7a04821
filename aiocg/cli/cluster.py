"""`aiocg cluster` and `aiocg top`: the state of a cluster's nodes.

Args:
    nodes ([CLUSTER]): Addresses, separated by commas, file:PATH, or ray; by default what AIOCG_CLUSTER or AIOCG_NODE
        has.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from aiocg.cli import cluster_up
from aiocg.cli.cluster_up import is_ray
from aiocg.cli.options import command, count_option, time_option
from aiocg.cli.output import console, fail, print_json, print_line, run, table

if TYPE_CHECKING:
    from rich.table import Table

    from aiocg.cluster.survey import Report, Watch

app = typer.Typer(help="Start, look at and end the nodes of a cluster.", no_args_is_help=True)
command(app, "up")(cluster_up.up)
command(app, "down")(cluster_up.down)
command(app, "authorize")(cluster_up.authorize)


MIB = 1 << 20
LONG = 1.0  # seconds of one request from which on it is shown who waits for it
MOST_WAITS = 10


@command(app, "status")
def status(nodes: Annotated[str | None, typer.Argument()] = None, json: bool = False) -> None:
    """Ask each node how busy it is; exit with 1 when one cannot be used.

    Example: aiocg cluster status file:hosts.toml
    """
    reports = run(_look(_chosen(nodes)))
    from rich.console import Group

    if json:
        print_json({"nodes": [_as_json(report) for report in reports]})
    else:
        console.print(Group(_table(reports), *_problems(reports)))
    sys.exit(any(report.problem for report in reports))


@command(app, "invite")
def invite(
    hosts: Path,
    bind: str = "tcp://127.0.0.1:0",
    nodes: int = 1,
    token: Path = Path("join.token"),
) -> None:
    """Let nodes join that are started with a token, and end when all have. It is good for so many nodes and no more.

    The nodes let in your own key, and HOSTS.TOML has theirs, for `--cluster file:HOSTS.TOML`. Whoever has the token can
    join, so give it away as a file that nobody else can read.

    Example: aiocg cluster invite hosts.toml --bind tcp://0.0.0.0:5758 --nodes 4

    Args:
        hosts (HOSTS.TOML): File that the nodes are added to.
        bind: Where nodes reach us: tcp://HOST:PORT.
        nodes (1..): How many may join.
        token: File for the token; it is removed at the end.
    """
    from aiocg.cli.keys import told

    with told():
        run(_invite(hosts, bind, nodes, token, cluster_up.own_key()))


async def _invite(path: Path, bind: str, nodes: int, token: Path, client: str) -> None:
    from aiocg.cli.serve import for_clients
    from aiocg.cluster.joining import Invitation

    async with Invitation(bind, client, cluster_up.added_to(path)) as invitation:
        invitation.token(for_clients(invitation.address), nodes).write(token)
        try:
            print_line(f"listening   {invitation.address}")
            print_line(f"each node   aiocg serve --bind tcp://0.0.0.0:0 --join {token}")
            sys.stdout.flush()
            await invitation.complete()
        finally:
            token.unlink(missing_ok=True)


def top(
    nodes: Annotated[str | None, typer.Argument()] = None,
    interval: Annotated[float, time_option(least=0.1, counted="--count")] = 1.0,
    count: Annotated[int | None, count_option("--interval")] = None,
) -> None:
    """Watch what the nodes of a cluster do, until Ctrl-C.

    Example: aiocg top tcp://one.example:5757,tcp://two.example:5757

    Args:
        interval: Time between two looks.
        count: Looks after which to end.
    """
    run(_watch(_chosen(nodes), interval, count))


def _chosen(cluster: str | None) -> str:
    chosen = cluster or os.environ.get("AIOCG_CLUSTER") or os.environ.get("AIOCG_NODE")
    if not chosen:
        fail("which nodes? Name them, or set AIOCG_CLUSTER")
    return chosen


@asynccontextmanager
async def _watching(cluster: str) -> "AsyncIterator[Watch]":
    from aiocg.cluster.hosts import hosts_of
    from aiocg.cluster.survey import Watch

    if not is_ray(cluster):
        hosts = hosts_of(cluster)
        if not hosts:
            fail(f"{cluster} has no nodes: `aiocg cluster up` adds some; one that runs already takes a [[node]] table")
        async with Watch(hosts) as watch:
            yield watch
        return
    from aiocg.cluster.ray import RayNodes
    from aiocg.transport.security import ClientSecurity, KeyPair

    pair = KeyPair.generate()
    nodes = RayNodes(cluster, pair.public, only_standing=True)
    try:
        async with Watch(await nodes.start(), ClientSecurity(pair, pair.public)) as watch:
            yield watch
    finally:
        await nodes.close()


async def _look(cluster: str) -> "list[Report]":
    async with _watching(cluster) as watch:
        return await watch.look()


async def _watch(cluster: str, interval: float, count: int | None) -> None:
    import asyncio
    import itertools

    from rich.console import Group
    from rich.live import Live

    async with _watching(cluster) as watch:
        with Live(console=console, auto_refresh=False) as live:
            for number in itertools.count(1):
                reports = await watch.look()
                live.update(Group(_table(reports, rates=True), *_waits(reports), *_problems(reports)), refresh=True)
                if number == count:
                    return
                await asyncio.sleep(interval)


def _table(reports: "Sequence[Report]", *, rates: bool = False) -> "Table | Text":
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
    return _fitting(columns, rows)


def _waits(reports: "Sequence[Report]") -> "Iterator[Table | Text]":
    """Yield a table of the requests that have been executed for long, if there are any: who waits for what."""
    found = [(one.elapsed, report.address, one) for report in reports if report.said for one in report.said.longest]
    rows = [
        [
            address,
            "yours" if one.own else "another client's",
            str(one.pid),
            str(one.session or "") if one.own else "",
            str(one.request) if one.own else "",
            f"{elapsed:.0f} s",
            f"{max(0.0, one.left):.0f} s",
        ]
        for elapsed, address, one in sorted(found, key=lambda row: -row[0])[:MOST_WAITS]
        if elapsed >= LONG
    ]
    if rows:
        columns = ["node", "worker", "process", "session", "request", "executed for", "at most another"]
        yield _fitting(columns, rows)


def _fitting(columns: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> "Table | Text":
    """Return a table or, where the terminal is too narrow for one, a paragraph for each row."""
    from rich.measure import Measurement

    whole = table("", columns, rows, right=range(2, len(columns)), whole=range(len(columns)))
    if Measurement.get(console, console.options.update(width=10_000), whole).maximum <= console.width:
        return whole
    lines = []
    for first, second, *cells in rows:
        told = [f"{name} {cell}" for name, cell in zip(columns[2:], cells, strict=True) if cell]
        lines.append(f"{first} {second}" + (f"\n  {', '.join(told)}" if told else ""))
    return Text("\n".join(lines))


def _problems(reports: "Sequence[Report]") -> list[Text]:
    """Return a paragraph for each node that is down."""
    return [Text(f"{report.address} is down: {report.problem}") for report in reports if report.said is None]


def _row(report: "Report", *, rates: bool) -> list[str]:
    said = report.said
    if said is None:
        return [report.address, "down", *([""] * (8 if rates else 7))]
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
