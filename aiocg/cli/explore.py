"""`aiocg explore`: a page on which one sees what compilers do."""

import secrets
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli.output import Workers, errors, fail, print_line, run
from aiocg.cli.search_job import is_expression

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI

LOCAL = ("127.0.0.1", "::1", "localhost")
ANYWHERE = ("0.0.0.0", "::")


def explore(
    program: Annotated[
        str,
        typer.Argument(
            help="Program to begin with: of a dataset, a .c, .cc, .cpp, .ll or .bc file, or a tensor expression.",
            show_default="programs-v0/qsort, or the environment's own",
        ),
    ] = "",
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:LINE]",
            help="Begin at a saved state, with the states of a file of transitions, or at a state of a leaderboard's "
            "entry, whose folder this is. PROGRAM says which, if there are several.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[str, typer.Option("--env", help="Id of the environment; `aiocg envs` lists them.")] = "llvm-ic-v0",
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for all interfaces, which takes a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port, 0 for a free one.", min=0, max=65535)] = 8765,
    name: Annotated[
        list[str] | None, typer.Option(help="Another name by which browsers may call this machine.", show_default=False)
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="AIOCG_EXPLORE_TOKEN",
            help="What visitors must have. Beyond this machine one is made if none is given.",
            show_default=False,
        ),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Most sessions at once.", min=1)] = 64,
    timeout: Annotated[float, typer.Option(help="Seconds that an action may take.", min=0.001)] = 30.0,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let programs do what yours may; GCC without a container needs it.")
    ] = False,
    workers: Workers = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Show on a page what passes do to a program: gains of all actions, a tree of states, differences, -Oz explained.

    The same address has an API, described at /openapi.json. Ctrl-C ends it.

    Example: aiocg explore --state best.json
    """
    from aiocg.web.limits import Limits

    local = host in LOCAL
    if trust and not local:
        fail(f"--trust would give the rights of your user to whoever can reach {host}: leave out --host, or --trust")
    limits = Limits(sessions=sessions, seconds=timeout, boxed_sources=not local)
    token = token or ("" if local else secrets.token_urlsafe(24))
    hosts = _hosts(host, name or [])
    try:
        app = _application(program, state, env, limits=limits, hosts=hosts, token=token, workers=workers, trust=trust)
    except ValueError as error:
        fail(f"{error}: use --token")
    listening = _listen(host, port)
    address = f"http://{_shown(host)}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    if status := run(_serve(app, listening, address, browser=browser)):
        sys.exit(status)


def _application(program: str, state: str | None, environment: str, *, trust: bool, **options: Any) -> "FastAPI":
    from aiocg.datasets import default_datasets, resolve
    from aiocg.registry import environment as find
    from aiocg.web.explorer import create_explorer
    from aiocg.web.saved import Opening, find_opening

    spec = find(environment)  # errors come before anything is started
    try:
        opening = Opening(environment, program or spec.benchmark) if state is None else find_opening(state, program)
    except OSError as error:
        fail(f"cannot read {error.filename or state}: {error.strerror or error}")
    find(opening.environment)
    if isinstance(opening.benchmark, str) and is_expression(opening.benchmark):
        from aiocg.loops import make_benchmark

        benchmark = make_benchmark(opening.benchmark)
    else:
        benchmark = resolve(opening.benchmark, default_datasets())
    return create_explorer(replace(opening, benchmark=benchmark), options={"untrusted": not trust}, **options)


def _hosts(host: str, names: list[str]) -> tuple[str, ...]:
    """Return the names by which browsers may call us."""
    import socket

    if host in LOCAL:
        return (*LOCAL, *names)
    if host in ANYWHERE:
        return (*LOCAL, socket.gethostname(), socket.getfqdn(), *_addresses(), *names)
    return (host, *names)


def _addresses() -> list[str]:
    import socket

    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)})
    except OSError:
        return []


def _shown(host: str) -> str:
    import socket

    return socket.getfqdn() if host in ANYWHERE else f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> "socket.socket":
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        fail(f"cannot listen at {host}:{port}: {error.strerror or error}; --port 0 takes a free port")
    return listening


async def _serve(app: "FastAPI", listening: "socket.socket", address: str, *, browser: bool) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit status."""
    import asyncio
    import contextlib
    import signal
    import webbrowser

    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> "Iterator[None]":
            yield  # they are ours

        async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
            await super().startup(sockets)
            if self.started:
                print_line(f"explorer at {address}")
                sys.stdout.flush()
                if browser and not await asyncio.to_thread(webbrowser.open, address):
                    errors.print("no browser was found: open this address in one", markup=False)

    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    signals: list[int] = []

    def signalled(number: int) -> None:
        signals.append(number)
        server.should_exit = True
        server.force_exit = len(signals) > 1

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled, number)
    await server.serve([listening])
    return 130 if signals[:1] == [signal.SIGINT] else 0
