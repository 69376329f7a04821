"""Commands that serve an application over HTTP: where they listen, by which names, and until when."""

import secrets
import sys
from typing import TYPE_CHECKING, NamedTuple

from aiocg.cli.output import ended_by, errors, fail, print_line

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI


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
