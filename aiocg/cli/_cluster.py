"""`aiocg cluster` and `aiocg top`: the state of a cluster's nodes.

Args:
    cluster (CLUSTER): ray, ray://HOST:PORT, or a file of nodes.
    nodes ([CLUSTER]): Addresses, separated by commas, file:PATH, or ray; by default what AIOCG_CLUSTER or AIOCG_NODE
        has.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from aiocg.cli._options import command, count_option, time_option
from aiocg.cli._serve import key_folder, told
from aiocg.cli.output import answer, check_writable, console, counted, fail, print_line, run, table

if TYPE_CHECKING:
    from rich.table import Table

    from aiocg.cluster.hosts import Host
    from aiocg.cluster.survey import Report, Watch
    from aiocg.transport.control import Order

JOIN_TIMEOUT = 120.0  # seconds that nodes may take to join


def up(
    cluster: str,
    machines: Annotated[list[str] | None, typer.Argument()] = None,
    processors: int | None = None,
    bind: str = "tcp://0.0.0.0:0",
    aiocg: str = "aiocg",
    trust_clients: bool = False,
) -> None:
    """Start a node on each machine, which goes on until `aiocg cluster down`.

    On machines that ssh reaches, the nodes let in your key, and the file has their addresses and keys. Machines that
    fail are named, with status 1, and the nodes of the others stay. On Ray, every program of the Ray cluster may use
    them, as --cluster=ray.

    Example: aiocg cluster up hosts.toml one.example two.example

    Args:
        machines ([MACHINE]...): Where to start nodes: as ssh knows them, or localhost.
        processors (1..): Workers of each node; by default as many as processors.
        bind: Where nodes reach us while they join.
        aiocg: Path of aiocg on the machines.
        trust_clients: Let programs do there what yours may, of all who are let in later, too.
    """
    if _is_ray(cluster):
        if machines:
            fail("Ray knows its machines: leave them out")
        from aiocg.cluster.ray_actors import up as up_on_ray

        print_line(f"started     {counted(up_on_ray(cluster, processors), 'node')}")
        return
    if not machines:
        fail("on which machines? Name them as ssh knows them, or localhost")
    options = [
        *(["--client-workers", str(processors)] if processors else []),
        *(["--trust-clients"] if trust_clients else []),
    ]
    check_writable(_path(cluster))
    with told():
        run(_start(_path(cluster), machines, bind, aiocg, options, _own_key()))


def down(cluster: str) -> None:
    """End the nodes that `aiocg cluster up` or a token of `aiocg cluster invite` has started.

    Example: aiocg cluster down hosts.toml
    """
    if _is_ray(cluster):
        from aiocg.cluster.ray_actors import down as down_on_ray

        print_line(f"ended       {counted(down_on_ray(cluster), 'node')}")
        return
    from aiocg.cluster.hosts import write_hosts
    from aiocg.transport.control import Retire

    path = _path(cluster)
    hosts, problems = _ordered(path, Retire())
    write_hosts(path, [host for host in hosts if problems[host.address]])
    _tell(problems, "ended")


def _authorize(cluster: str) -> None:
    """Have the nodes that you have started let in whom `aiocg keys authorize` has named here, and nobody else but you.

    Example: aiocg cluster authorize hosts.toml
    """
    if _is_ray(cluster):
        fail("nodes on Ray let in every program of the Ray cluster, and nobody else")
    from aiocg.transport.control import Authorize

    with told():
        order = Authorize(key_folder().authorized())
    _tell(_ordered(_path(cluster), order)[1], "told")


def _is_ray(cluster: str) -> bool:
    """Return whether the nodes of a cluster are on Ray."""
    return cluster.partition("://")[0] == "ray"


def _own_key() -> str:
    """Return our public key, making a pair if there is none."""
    folder = key_folder()
    return (folder.pair() if folder.pair_path().exists() else folder.create()).public


def _added_to(path: Path) -> "Callable[[Host], None]":
    """Return what adds a node that has joined to a file, and prints it."""
    from aiocg.cluster.hosts import Host, read_hosts, write_hosts

    known = {host.address: host for host in (read_hosts(path) if path.exists() else [])}

    def joined(host: Host) -> None:
        known[host.address] = host
        write_hosts(path, known.values())
        print_line(f"joined      {host.address}")
        sys.stdout.flush()

    return joined


async def _start(
    path: Path, machines: Sequence[str], bind: str, aiocg: str, options: Sequence[str], client: str
) -> None:
    import asyncio
    import contextlib

    from aiocg.cli._serve import for_clients
    from aiocg.cluster.joining import HERE, Invitation, start
    from aiocg.errors import AiocgError

    if set(machines) == {HERE}:
        bind = bind.replace("0.0.0.0", "127.0.0.1")
    problems: list[str] = []
    async with Invitation(bind, client, _added_to(path)) as invitation:
        address = for_clients(invitation.address)

        async def begin(machine: str) -> None:
            token = invitation.token(address, name=machine)
            try:
                await start(machine, token.encoded(), aiocg, options)
            except AiocgError as error:
                if invitation.withdraw(token):
                    problems.append(str(error))

        await asyncio.gather(*map(begin, machines))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOIN_TIMEOUT):
                await invitation.complete()
        problems += [
            f"{machine}: its node has not joined within {JOIN_TIMEOUT:g} s: see ~/.local/state/aiocg/node.log there, "
            f"and whether it reaches {address} (--bind)"
            for machine in invitation.missing
        ]
    if problems:
        others = f"\nThe other nodes stay, in {path}: name only these machines the next time."
        fail("\n".join(problems) + others * (len(problems) < len(machines)))


def _path(cluster: str) -> Path:
    return Path(cluster.removeprefix("file:")).expanduser()


def _ordered(path: Path, order: "Order") -> "tuple[list[Host], dict[str, str]]":
    """Give an order to the nodes of a file; return them, and what has kept each from obeying, by address."""
    from aiocg.cluster.hosts import read_hosts
    from aiocg.cluster.joining import give_order

    hosts = read_hosts(path)
    return hosts, run(give_order(hosts, order))


def _tell(problems: dict[str, str], done: str) -> None:
    """Print what became of an order; exit with 1 if a node has not obeyed."""
    for address, problem in problems.items():
        print_line(f"{done:<11} {address}" if not problem else f"not {done:<7} {address}: {problem}")
    sys.exit(any(problems.values()))


app = typer.Typer(help="Start, look at and end the nodes of a cluster.", no_args_is_help=True)


MIB = 1 << 20
LONG = 1.0  # seconds of one request from which on it is shown who waits for it
MOST_WAITS = 10


def _status(nodes: Annotated[str | None, typer.Argument()] = None, json: bool = False) -> None:
    """Ask each node how busy it is; exit with 1 when one cannot be used.

    Example: aiocg cluster status file:hosts.toml
    """
    reports = run(_look(_chosen(nodes)))
    answer(json, {"nodes": [_as_json(report) for report in reports]}, _table(reports), *_problems(reports))
    sys.exit(any(report.problem for report in reports))


def invite(hosts: Path, bind: str = "tcp://127.0.0.1:0", nodes: int = 1, token: Path = Path("join.token")) -> None:
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
    with told():
        run(_invite(hosts, bind, nodes, token, _own_key()))


async def _invite(path: Path, bind: str, nodes: int, token: Path, client: str) -> None:
    from aiocg.cli._serve import for_clients
    from aiocg.cluster.joining import Invitation

    async with Invitation(bind, client, _added_to(path)) as invitation:
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

    if not _is_ray(cluster):
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
    rows = [
        [report.address, f"up, {1000 * report.delay:.0f} ms", *_cells([report], rates=rates)]
        if report.said is not None
        else [report.address, "down", *[""] * (len(columns) - 2)]
        for report in reports
    ]
    if len(reports) > 1:
        count = sum(report.said is not None for report in reports)
        rows.append(["all", f"{count} of {len(reports)} up", *_cells(reports, rates=rates)])
    return _fitting(columns, rows)


def _cells(reports: "Sequence[Report]", *, rates: bool) -> list[str]:
    """Return what nodes say, all together."""

    def total(name: str) -> int:
        return sum(getattr(report.said, name) for report in reports if report.said is not None)

    return [
        str(total("clients")),
        f"{total('workers')} of {total('most')}",
        str(total("busy")),
        str(total("sessions")),
        f"{total('memory') // MIB} MiB",
        str(total("requests")),
        *([f"{sum(report.rate for report in reports):.0f}"] if rates else []),
        str(total("failures")),
    ]


def _waits(reports: "Sequence[Report]") -> "Iterator[Table | Text]":
    """Yield a table of the requests that have been executed for long, if there are any: who waits for what."""
    found = [(one.elapsed, report.address, one) for report in reports if report.said for one in report.said.longest]
    rows = []
    for elapsed, address, one in sorted(found, key=lambda row: -row[0])[:MOST_WAITS]:
        if elapsed >= LONG:
            whose, numbers = ("yours", (one.session or "", one.request)) if one.own else ("another client's", ("", ""))
            times = f"{elapsed:.0f} s", f"{max(0.0, one.left):.0f} s"
            rows.append([address, whose, str(one.pid), *map(str, numbers), *times])
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


def _as_json(report: "Report") -> dict[str, object]:
    from msgspec.structs import asdict as fields_of

    said = report.said and {**fields_of(report.said), "longest": [*map(fields_of, report.said.longest)]}
    return {**asdict(report), "said": said}


command(app, "up")(up)
command(app, "down")(down)
command(app, "authorize")(_authorize)
command(app, "status")(_status)
command(app, "invite")(invite)
