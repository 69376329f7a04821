"""`aiocg cluster up`, `down` and `authorize`: nodes that we start, and that obey us.

Args:
    cluster (CLUSTER): ray, ray://HOST:PORT, or a file of nodes.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.keys import key_folder, told
from aiocg.cli.output import check_writable, counted, fail, print_line, run

if TYPE_CHECKING:
    from aiocg.cluster.hosts import Host
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
    if is_ray(cluster):
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
        run(_start(_path(cluster), machines, bind, aiocg, options, own_key()))


def down(cluster: str) -> None:
    """End the nodes that `aiocg cluster up` or a token of `aiocg cluster invite` has started.

    Example: aiocg cluster down hosts.toml
    """
    if is_ray(cluster):
        from aiocg.cluster.ray_actors import down as down_on_ray

        print_line(f"ended       {counted(down_on_ray(cluster), 'node')}")
        return
    from aiocg.cluster.hosts import write_hosts
    from aiocg.transport.control import Retire

    path = _path(cluster)
    hosts, problems = _ordered(path, Retire())
    write_hosts(path, [host for host in hosts if problems[host.address]])
    _tell(problems, "ended")


def authorize(cluster: str) -> None:
    """Have the nodes that you have started let in whom `aiocg keys authorize` has named here, and nobody else but you.

    Example: aiocg cluster authorize hosts.toml
    """
    if is_ray(cluster):
        fail("nodes on Ray let in every program of the Ray cluster, and nobody else")
    from aiocg.transport.control import Authorize

    with told():
        order = Authorize(key_folder().authorized())
    _tell(_ordered(_path(cluster), order)[1], "told")


def is_ray(cluster: str) -> bool:
    """Return whether the nodes of a cluster are on Ray."""
    return cluster.partition("://")[0] == "ray"


def own_key() -> str:
    """Return our public key, making a pair if there is none."""
    folder = key_folder()
    return (folder.pair() if folder.pair_path().exists() else folder.create()).public


def added_to(path: Path) -> "Callable[[Host], None]":
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

    from aiocg.cli.serve import for_clients
    from aiocg.cluster.joining import HERE, Invitation, start
    from aiocg.errors import AiocgError

    if set(machines) == {HERE}:
        bind = bind.replace("0.0.0.0", "127.0.0.1")
    problems: list[str] = []
    async with Invitation(bind, client, added_to(path)) as invitation:
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
