"""Commands that serve an application over HTTP: where they listen, by which names, and until when."""

import sys
from typing import TYPE_CHECKING

from aiocg.cli.output import errors, fail, print_line

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI


LOCAL = ("127.0.0.1", "::1", "localhost")
ANYWHERE = ("0.0.0.0", "::")


def hosts_of(host: str, names: list[str]) -> tuple[str, ...]:
    """Return the names by which others may call this machine where it listens at an address."""
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


def shown(host: str) -> str:
    """Return an address as a URL has it."""
    import socket

    return socket.getfqdn() if host in ANYWHERE else f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> "socket.socket":
    """Return a socket at an address and a port, 0 for a free one."""
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


async def serve(app: "FastAPI", listening: "socket.socket", said: str, *, browser: str = "") -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit status.

    Args:
        app: the application.
        listening: where.
        said: a line that is printed once it serves.
        browser: the address that a browser then opens; "" for none.
    """
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
                print_line(said)
                sys.stdout.flush()
                if browser and not await asyncio.to_thread(webbrowser.open, browser):
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
