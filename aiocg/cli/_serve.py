"""`aiocg serve` and `aiocg keys`: workers for clients on other machines, and the keys of both sides.

Args:
    name (NAME): Name of the pair.
    public (PUBLIC_KEY): What `aiocg keys show` prints on the other side.
"""

import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli._options import command, time_option
from aiocg.cli.output import answer, counted, ended_by, errors, fail, print_json, print_line, run, service_status
from aiocg.transport.system import processors

if TYPE_CHECKING:
    from aiocg.node.server import Admitted, Settings
    from aiocg.transport.joining import Token
    from aiocg.transport.keys import KeyFolder
    from aiocg.transport.security import KeyPair


OWN = "own"  # the pair that `aiocg.transport.keys` uses where none is named

keys = typer.Typer(name="keys", help="Keys for nodes and their clients.", no_args_is_help=True)


@command(keys, "new")
def _new(name: Annotated[str, typer.Argument()] = OWN, force: bool = False, json: bool = False) -> None:
    """Make a key pair: one for the node, one for each user of it.

    The secret key stays in a file of this user; the public key is what others are told.

    Example: aiocg keys new

    Args:
        force: Replace the pair that there is.
    """
    with told():
        folder = key_folder()
        pair = folder.create(name, replace=force)
    answer(
        json,
        {"name": name, "public": pair.public, "path": str(folder.pair_path(name))},
        f"public key  {pair.public}",
        f"in          {folder.pair_path(name)}, which nobody else may read",
        f"for a node  its operator runs: aiocg keys authorize YOUR_NAME {pair.public}",
    )


@command(keys, "show")
def _show(name: Annotated[str, typer.Argument()] = OWN, json: bool = False) -> None:
    """Print the public key of your pair, to be sent to a node's operator, or to those who are to use your node.

    Example: aiocg keys show
    """
    with told():
        public = key_folder().pair(name).public
    answer(json, {"name": name, "public": public}, public)


@command(keys, "authorize")
def _authorize(name: str, public: str, force: bool = False, json: bool = False) -> None:
    """On a node: let a client in. A node that runs takes note within seconds.

    Example: aiocg keys authorize alice PUBLIC_KEY

    Args:
        name (NAME): Name for the client, of your choice.
        force: Replace the key that this client had.
    """
    with told():
        folder = key_folder()
        folder.authorize(name, public, replace=force)
    told_so = f"{name} is let in with the key {public}, by a node that runs within two seconds"
    answer(json, {"name": name, "public": public}, told_so)


@command(keys, "revoke")
def _revoke(name: str, json: bool = False) -> None:
    """On a node: let a client in no more. On a node that runs, what it has there ends within seconds.

    Example: aiocg keys revoke alice

    Args:
        name (NAME): The client, as `aiocg keys list` has it.
    """
    with told():
        public = key_folder().revoke(name)
    answer(json, {"name": name, "public": public}, f"{name} is not admitted any more")


@command(keys, "trust")
def _trust(address: str, public: str, force: bool = False, json: bool = False) -> None:
    """On a client: remember a node's public key. Whatever else answers at that address is not talked to.

    Example: aiocg keys trust tcp://node.example:5757 PUBLIC_KEY

    Args:
        address (ADDRESS): The node, as tcp://HOST:PORT.
        force: Replace the key that is known for it.
    """
    with told():
        key_folder().trust(address, public, replace=force)
    answer(json, {"address": address, "public": public}, f"{address} is trusted with the key {public}")


@command(keys, "list")
def _list_keys(json: bool = False) -> None:
    """List your own pairs, the clients that are let in here, and the nodes that are known.

    Example: aiocg keys list
    """
    with told():
        folder = key_folder()
        own, authorized, nodes = folder.pairs(), folder.authorized(), folder.nodes()
    value = {
        "folder": str(folder.path),
        "own": [{"name": name, "public": public} for name, public in own.items()],
        "authorized": [{"name": name, "public": public} for name, public in authorized.items()],
        "nodes": [{"address": address, "public": public} for address, public in nodes.items()],
    }
    width = max((len(name) for name in (*own, *authorized, *nodes)), default=0)
    lines = [
        f"{what:13}  {name:{width}}  {public}"  # a table would cut the keys
        for what, keys in (("own pair", own), ("client let in", authorized), ("node known", nodes))
        for name, public in keys.items()
    ]
    answer(json, value, *(lines or [f"there are no keys in {folder.path}; make a pair with: aiocg keys new"]))


def key_folder() -> "KeyFolder":
    """Return this user's folder of keys."""
    from aiocg.transport.keys import KeyFolder

    return KeyFolder()


@contextmanager
def told() -> Iterator[None]:
    """Exit with a message where the keys cannot be read or kept."""
    try:
        yield
    except OSError as error:
        fail(
            f"the keys in {key_folder().path} cannot be read or kept: {error.strerror or error}; mend that, or let "
            "AIOCG_KEYS name another folder"
        )


ADDRESS = "tcp://127.0.0.1:5757"
ANYWHERE = ("*", "0.0.0.0", "[::]")
SANDBOX = "AIOCG_SANDBOX"
MIB = 1 << 20
PROCESSORS = len(processors())


def serve(
    bind: str = ADDRESS,
    worker_ports: str | None = None,
    key: str = OWN,
    join: Path | None = None,
    workers: int = 4 * PROCESSORS,
    client_workers: int = PROCESSORS,
    client_memory: int = 16384,
    client_sessions: int = 4096,
    client_request: int = 64,
    client_requests: int = 0,
    client_contents: int = 256,
    neighbours: bool = True,
    client_spawns: int = 120,
    limits: Path | None = None,
    lease: Annotated[float, time_option(least=0.5)] = 30.0,
    kind: list[str] | None = None,
    setting: list[str] | None = None,
    trust_clients: bool = False,
    unboxed_programs: bool = False,
    metrics: str | None = None,
    log_format: str | None = None,
    log_level: str | None = None,
    json: bool = False,
) -> None:
    """Run workers for clients on this machine and others, until SIGTERM or Ctrl-C.

    Every connection is encrypted, and only clients whose keys were authorised are let in (`aiocg keys authorize`).
    AIOCG_LOG says what to log where no option does.

    Example: aiocg serve --bind tcp://0.0.0.0:5757 --worker-ports 5800-5899

    Args:
        bind: Where to listen: tcp://HOST:PORT, 0.0.0.0 for all interfaces, port 0 for a free one.
        worker_ports (A-B): Ports for workers; any that are free by default.
        key: Name of the node's key pair; it is made if there is none.
        join (TOKEN): Join the cluster of whoever made this token with `aiocg cluster invite`; - for standard input.
        workers (1..): Most worker processes, of all clients.
        client_workers (1..): Most workers of one client.
        client_memory (64..): Address space of a worker in MiB.
        client_sessions (1..): Most sessions open in one worker.
        client_request (4..): Size of a program in MiB.
        client_requests (0..): Requests per second that a worker takes, 0 for no limit.
        client_contents (0..): Programs kept for further workers and other nodes, in MiB.
        neighbours (--neighbours/--no-neighbours): Get clients' programs from their other nodes, too.
        client_spawns (1..): Workers that a client may start per minute.
        limits: TOML file with limits for single clients.
        lease: Time that the workers of a client live without being heard of.
        kind: Kinds of workers that clients may have; all by default.
        setting (NAME=VALUE): Setting of the compilers, such as gcc_bin=docker:gcc:13.
        trust_clients: Let clients' programs be linked by any command, as yours are.
        unboxed_programs: Run clients' programs with the rights of this user where bubblewrap makes no box for them.
        metrics ([HOST:]PORT): Serve metrics for Prometheus there.
        log_format (default text): Form of the log on standard error: text or json.
        log_level (default info): What to log: debug, info, warning or error, and above.
    """
    from aiocg.node.leases import Policy
    from aiocg.node.limits import Limits, LimitsTable, read_limits
    from aiocg.node.server import Settings
    from aiocg.registry import environments

    _log(log_format, log_level)
    default = Limits(
        workers=client_workers,
        spawns_per_minute=client_spawns,
        sessions=client_sessions,
        memory=client_memory * MIB,
        request_bytes=client_request * MIB,
        requests_per_second=client_requests,
        content_bytes=client_contents * MIB,
    )
    chosen, kinds, ports = _settings(setting), _kinds(kind), _ports(worker_ports)
    table = LimitsTable(default) if limits is None else read_limits(limits, default)
    for spec in environments().values():
        if spec.prepare is not None and spec.worker in kinds:
            spec.prepare({**spec.settings, **chosen})  # what takes too long for a worker's start
    pair, authorised, token, admitted = _parties(key, join)
    settings = Settings(
        address=bind,
        neighbours=neighbours,
        keys=pair,
        authorised=authorised,
        policy=Policy(lease, min(0.5, lease / 6), workers, kinds, PROCESSORS),
        limits=table,
        ports=ports,
        options={**chosen, "untrusted": not trust_clients, "unboxed_programs": unboxed_programs},
        admitted=admitted,
    )
    run(_serve(settings, metrics, token, as_json=json))
    sys.exit(service_status())


def _log(format: str | None, level: str | None) -> None:
    from aiocg.telemetry.logs import VARIABLE, configure, configure_from_environment

    if format is None and level is None and os.environ.get(VARIABLE):
        configure_from_environment()
    else:
        configure(format or "text", level or "info")


def _parties(
    key: str, join: Path | None
) -> "tuple[KeyPair, Callable[[], dict[str, str]], Token | None, Admitted | None]":
    """Return the node's keys, what says who is let in, and, for a node that joins a cluster, by what and for whom."""
    from aiocg.node.server import Admitted
    from aiocg.transport.joining import Token
    from aiocg.transport.keys import SHORT_REFRESH_SECONDS, AuthorizedKeys
    from aiocg.transport.security import KeyPair

    with told():
        if join is not None:
            admitted = Admitted()
            return KeyPair.generate(), admitted.names, Token.read(join), admitted
        folder = key_folder()
        names = functools.partial(AuthorizedKeys(folder).names, SHORT_REFRESH_SECONDS)
        return _pair(folder, key), names, None, None


def _pair(folder: "KeyFolder", name: str) -> "KeyPair":
    """Return the node's key pair, creating it if missing."""
    if folder.pair_path(name).exists():
        return folder.pair(name)
    pair = folder.create(name)
    errors.print(f"made a key pair in {folder.pair_path(name)}", markup=False)
    return pair


def _kinds(chosen: list[str] | None) -> frozenset[str]:
    from aiocg.node.server import installed_kinds

    known = installed_kinds()
    for one in chosen or ():
        if one not in known:
            fail(f"there are no workers of kind {one!r}; there are: {', '.join(sorted(known))}")
    return frozenset(chosen) if chosen else known


def _settings(chosen: list[str] | None) -> dict[str, str]:
    from aiocg.registry import environments

    known = {name for spec in environments().values() for name in spec.settings}
    found = {}
    for one in chosen or ():
        name, equals, value = one.partition("=")
        if not equals or name not in known:
            fail(f"a setting is NAME=VALUE with a NAME of {', '.join(sorted(known)) or 'none'}, not {one!r}")
        found[name] = value
    return found


async def _serve(settings: "Settings", metrics: str | None, token: "Token | None", *, as_json: bool) -> None:
    """Serve until a signal. With a token, join first, and let in who has invited."""
    from aiocg.node.server import Node

    node, server = await Node.open(settings), None
    with ended_by(node.stop):
        try:
            if token is not None:
                from aiocg.cluster.joining import join

                assert settings.admitted is not None
                settings.admitted.joined(await join(token, for_clients(node.address), settings.keys.public))
            if metrics is not None:
                from aiocg.telemetry.metrics import MetricsServer, of_node

                try:
                    server = MetricsServer(metrics, of_node(node.leases, node.name_of, lambda: node.refused))
                except OSError as error:
                    reason = error.strerror or error
                    fail(f"metrics cannot be served at {metrics}: {reason}; give --metrics another port")
            _tell(settings, node.address, server.address if server is not None else None, as_json=as_json)
        except BaseException:
            node.stop()
            await node.run()
            raise
        await node.run()
    if server is not None:
        await server.close()


def _tell(settings: "Settings", address: str, metrics: str | None, *, as_json: bool) -> None:
    """Print the address, authorised clients, limits, and instructions for clients."""
    names = sorted(settings.authorised().values())
    public = settings.keys.public
    if as_json:
        bounds = {"limits": settings.limits.default.as_numbers(), "workers": settings.policy.workers}
        print_json({"address": address, "public": public, "clients": names, **bounds, "metrics": metrics})
        return
    default, theirs = settings.limits.default, for_clients(address)
    rate = f"{default.requests_per_second} a second" if default.requests_per_second else "as fast as they are done"
    ports = f", workers at ports {settings.ports[0]}-{settings.ports[-1]}" if settings.ports else ""
    print_line(f"listening   {address}{ports}")
    print_line(f"public key  {public}")
    print_line(f"clients     {', '.join(names) or 'none yet; let one in with: aiocg keys authorize NAME PUBLIC_KEY'}")
    print_line(f"limits      {settings.policy.workers} workers for all; for each client {default.workers}, with")
    print_line(
        f"            {counted(default.sessions, 'session')} and {default.memory // MIB} MiB each, requests of up to "
        f"{default.request_bytes // MIB} MiB, {rate}"
    )
    if metrics is not None:
        print_line(f"metrics     http://{metrics}/metrics")
    print_line(f"programs    of clients {_handling(settings)}")
    print_line("each client runs once:")
    print_line(f"  aiocg keys new && aiocg keys trust {theirs} '{public}'")
    print_line(f"and then any command, as in: AIOCG_NODE={theirs} aiocg search greedy programs-v0/qsort")
    sys.stdout.flush()


def _handling(settings: "Settings") -> str:
    """Describe how programs of clients are run."""
    if not settings.options["untrusted"]:
        return "may do what yours may"
    found = shutil.which("bwrap")
    if not settings.options["unboxed_programs"] or os.environ.get(SANDBOX) == "bwrap":
        refused = "are not run: there is no bwrap on PATH; install bubblewrap, or serve with --unboxed-programs"
        return "run in a box (bubblewrap), or not at all" if found else refused
    if os.environ.get(SANDBOX) == "rlimits" or not found:
        return "run with the rights of this user"
    return "run in a box (bubblewrap) where the system allows one, else with the rights of this user"


def for_clients(address: str) -> str:
    """Return the address for clients, with a host name in place of "all interfaces"."""
    import socket

    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return f"tcp://{socket.getfqdn() if host in ANYWHERE else host}:{port}"


def _ports(text: str | None) -> range:
    """Parse a range of ports."""
    if text is None:
        return range(0)
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    if match is None or not 0 < int(match[1]) <= int(match[2]) <= 65535:
        fail(f"--worker-ports must be two port numbers such as 5800-5899, not {text!r}")
    return range(int(match[1]), int(match[2]) + 1)
