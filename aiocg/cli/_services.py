"""`aiocg explore`, `aiocg mcp` and `aiocg openenv`, and where such commands listen, by which names, and until when."""

import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from aiocg.cli._options import Flags, time_option
from aiocg.cli._search_job import is_expression
from aiocg.cli.output import ended_by, errors, fail, interrupted_status, print_line, reading, run, service_status

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI

    from aiocg.agents import Limits
    from aiocg.datasets import Benchmark
    from aiocg.runtime import Runtime


LOCAL = ("127.0.0.1", "::1", "localhost")
ANYWHERE = ("0.0.0.0", "::")


class _Listening(NamedTuple):
    """Where a command serves.

    Attributes:
        socket: bound, and not listening yet.
        address: the URL.
        hosts: the names by which others may call this machine.
        token: what they must bring; "" for nothing.
    """

    socket: "socket.socket"
    address: str
    hosts: tuple[str, ...]
    token: str


def listen(host: str, port: int, names: list[str] | None, token: str | None) -> _Listening:
    """Return a socket at an address and a port, 0 for a free one; beyond this machine a token is made if none is given.

    Args:
        names: other names by which this machine may be called.
    """
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        fail(f"cannot listen at {host}:{port}: {error.strerror or error}; --port 0 takes a free port")
    token = token or ("" if host in LOCAL else secrets.token_urlsafe(24))
    hosts = (*(LOCAL if host in (*LOCAL, *ANYWHERE) else (host,)), *(names or ()))
    if not token and not set(hosts) <= set(LOCAL):
        fail("--name is for calls from other machines: use --token")
    shown = f"[{host}]" if ":" in host else host
    if host in ANYWHERE:
        shown = socket.getfqdn()
        hosts += (socket.gethostname(), shown, *_addresses())
    return _Listening(listening, f"http://{shown}:{listening.getsockname()[1]}", hosts, token)


def _addresses() -> list[str]:
    import socket

    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)})
    except OSError:
        return []


async def serve(app: "FastAPI", listening: _Listening, said: str, *, browser: str = "") -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        app: the application.
        listening: where.
        said: a line that is printed once it serves.
        browser: the address that a browser then opens; "" for none.
    """
    import asyncio
    import contextlib
    import webbrowser

    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> "Iterator[None]":
            yield  # they are ours

        async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
            await super().startup(sockets)
            if self.started:
                print_line(said)
                sys.stdout.flush()
                if browser and not await asyncio.to_thread(webbrowser.open, browser):
                    errors.print("no browser was found: open this address in one", markup=False)

    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    with ended_by(lambda: setattr(server, "should_exit", True)):
        await server.serve([listening.socket])


def explore(
    program: Annotated[str, typer.Argument()] = "",
    state: str | None = None,
    env: str = "llvm-ic-v0",
    host: str = "127.0.0.1",
    port: int = 8765,
    name: list[str] | None = None,
    token: str | None = None,
    sessions: int = 64,
    timeout: Annotated[float, time_option(least=0.001)] = 30.0,
    trust: bool = False,
    workers: int | None = None,
    browser: bool = True,
    flags: Flags = None,
) -> None:
    """Show on a page what passes do to a program: gains of all actions, a tree of states, differences, -Oz explained.

    The same address has an API, described at /openapi.json. Ctrl-C ends it.

    Example: aiocg explore --state best.json

    Args:
        program (default programs-v0/qsort, or the environment's own): Program to begin with: of a dataset, a .c, .cc,
            .cpp, .ll or .bc file, or a tensor expression.
        state (FILE[:LINE]): Begin at a saved state, with the states of a file of transitions, or at a state of a
            leaderboard's entry, whose folder this is. PROGRAM says which, if there are several.
        name: Another name by which browsers may call this machine.
        token ($AIOCG_EXPLORE_TOKEN): What visitors must have. Beyond this machine one is made if none is given.
        sessions (1..): Most sessions at once.
        timeout: Time that an action may take.
        trust: Let programs do what yours may; GCC without a container needs it.
        browser (--browser/--no-browser): Open the page in a browser.
    """
    from aiocg.web.limits import Limits

    local = host in LOCAL
    if trust and not local:
        fail(f"--trust would give the rights of your user to whoever can reach {host}: leave out --host, or --trust")
    listening = listen(host, port, name, token)
    app = _application(
        program,
        state,
        env,
        flags or [],
        limits=Limits(sessions=sessions, seconds=timeout, boxed_sources=not local),
        hosts=listening.hosts,
        token=listening.token,
        workers=workers,
        options={"untrusted": not trust},
    )
    address = f"{listening.address}/" + (f"?token={listening.token}" if listening.token else "")
    run(serve(app, listening, f"explorer at {address}", browser=address if browser else ""))
    sys.exit(service_status())


def _application(program: str, state: str | None, environment: str, flags: list[str], **options: Any) -> "FastAPI":
    from aiocg.datasets import default_datasets, resolve
    from aiocg.registry import environment as find
    from aiocg.web.explorer import create_explorer
    from aiocg.web.saved import Opening, find_opening

    spec = find(environment)  # errors come before anything is started
    with reading(state):
        opening = Opening(environment, program or spec.benchmark) if state is None else find_opening(state, program)
    find(opening.environment)
    if isinstance(opening.benchmark, str) and is_expression(opening.benchmark):
        from aiocg.loops import make_benchmark

        benchmark = make_benchmark(opening.benchmark)
    else:
        benchmark = resolve(opening.benchmark, default_datasets(), flags)
    return create_explorer(replace(opening, benchmark=benchmark), **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """What agents may have.

    Args:
        reward (default that of the environment): What actions are rewarded by.
        program: A file that agents may optimise, called by its name; may be given several times.
        actions (1..): Most actions of a step.
        candidates (1..): Most candidates of an expand.
        characters (1..): Most characters of an observation.
        seconds: Time that the actions of a step may take.
    """

    env: str = "llvm-ic-v0"
    reward: str | None = None
    program: list[Path] | None = None
    actions: int = 100
    candidates: int = 256
    characters: int = 20_000
    seconds: Annotated[float, time_option(least=0.1)] = 30.0
    workers: int | None = None
    flags: Flags = None

    def check(self) -> None:
        """Fail before anything is started."""
        from aiocg.registry import environment as find

        find(self.env)
        names = [path.name for path in self.program or []]
        if twice := {name for name in names if names.count(name) > 1}:
            called = ", ".join(sorted(twice))
            fail(f"two files are called {called}: agents call them by their names alone, so rename one")

    def limits(self, sessions: int) -> "Limits":
        """Return the limits, with so many sessions."""
        from aiocg.agents import Limits

        return Limits(
            sessions=sessions,
            actions=self.actions,
            candidates=self.candidates,
            shown_characters=self.characters,
            seconds=self.seconds,
        )

    def runtime(self) -> "Runtime":
        """Return a runtime whose workers do not trust agents."""
        from aiocg.runtime import Runtime

        return Runtime(workers=self.workers, options={"untrusted": True})

    async def programs(self, runtime: "Runtime") -> "dict[str, Benchmark]":
        """Return the files that are offered, by their names."""
        return {path.name: await runtime.find_benchmark(path, self.flags or ()) for path in self.program or ()}


def mcp(offer: _Offer, sessions: int = 8) -> None:
    """Serve compilers as tools for language models, over standard input and output (Model Context Protocol).

    Clients start it themselves: docs/agents.md has their configuration. Agents have no access to files.
    Needs the package mcp: pip install 'aiocg\\[mcp]'.

    Example: aiocg mcp --env llvm-ic-v0 --program my.c

    Args:
        sessions (1..): Most sessions at once.
    """
    offer.check()
    run(_serve_mcp(offer, sessions))


def openenv(
    offer: _Offer,
    steps: int = 45,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: list[str] | None = None,
    token: str | None = None,
    clients: int = 64,
) -> None:
    """Serve compilers as an environment of OpenEnv, over HTTP and WebSockets, for its clients and trainers.

    Clients have no access to files. Ctrl-C ends it. Needs an extra: pip install 'aiocg\\[openenv]'.

    Example: aiocg openenv --env llvm-ic-v0 --program my.c

    Args:
        steps (1..): Steps of an episode.
        name: Another name by which clients may call this machine.
        token ($AIOCG_OPENENV_TOKEN): What clients must send as Authorization: Bearer. Beyond this machine one is made
            if none is given.
        clients (1..): Most clients at once.
    """
    offer.check()
    listening = listen(host, port, name, token)

    async def serving() -> None:
        from aiocg.agents.openenv import openenv_app

        async with offer.runtime() as runtime:
            app = openenv_app(
                runtime,
                offer.env,
                reward_space=offer.reward,
                programs=await offer.programs(runtime),
                limits=offer.limits(clients),
                steps=steps,
                hosts=listening.hosts,
                token=listening.token,
            )
            needed = f", with the token {listening.token}" if listening.token else ""
            await serve(app, listening, f"OpenEnv at {listening.address}{needed}")

    run(serving())
    sys.exit(service_status())


async def _serve_mcp(offer: _Offer, most: int) -> None:
    """Serve until the client closes the streams, or a signal comes."""
    import asyncio

    from aiocg.agents import AgentSessions, mcp_server

    stopped = asyncio.Event()
    async with offer.runtime() as runtime:
        programs, limits = await offer.programs(runtime), offer.limits(most)
        sessions = AgentSessions(runtime, offer.env, reward_space=offer.reward, programs=programs, limits=limits)
        serving = asyncio.create_task(mcp_server(sessions).run_stdio_async())
        stopping = asyncio.create_task(stopped.wait())
        with ended_by(stopped.set):
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not stopped.is_set():
            await serving
    if stopped.is_set():
        sys.stderr.flush()
        os._exit(interrupted_status())  # to leave otherwise would be to wait for the client
