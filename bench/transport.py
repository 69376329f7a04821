"""A request that does nothing: one at a time, and 1,000 per turn of the event loop.

Three sides take turns: aiocg's channel to a worker that only answers, the same to a worker of the scripted compiler
(the whole host loop: sessions, deadlines, state hashes), and what one would write without aiocg, `zmq.asyncio` with a
message and a future for each request, to a worker that only answers. A blocking client of that last worker shows what
libzmq and the system's scheduler take by themselves.
"""

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from aiocg.host.local import SocketFile
from aiocg.transport.messages import Load, Open, Reply, Step
from aiocg.transport.status import StatusPage
from bench.measure import MICRO, Budget, Effort, Results, alternate, ratios
from bench.scripting import SCRIPTS
from bench.scripts.zmq_asyncio_worker import Done as BaselineDone
from bench.scripts.zmq_asyncio_worker import Step as BaselineStep

TURN = 1000  # requests per turn of the loop
FOREVER = 60.0  # deadline of a request, in seconds
NOTHING = (0,)  # the scripted compiler's action that does nothing

ROUND_TRIP = Budget(120.0)
THROUGHPUT = Budget(120_000.0, at_least=True)


class Client(ABC):
    """Sends requests that do nothing."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.number = 0
        self.waiting: dict[int, asyncio.Future[Any]] = {}

    @abstractmethod
    def submit(self) -> "asyncio.Future[Any]":
        """Send a request; the future is done when it is answered."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket."""

    def register(self) -> "asyncio.Future[Any]":
        """Number a request and return its future."""
        self.number += 1
        future = self.waiting[self.number] = self.loop.create_future()
        return future


class ChannelClient(Client):
    """aiocg's channel, with the least that can be done with replies."""

    def __init__(self, endpoint: SocketFile) -> None:
        super().__init__()
        self._channel = endpoint.connect(self._receive, self._fail)

    def submit(self) -> "asyncio.Future[Any]":
        future = self.register()
        self._channel.send(Step(self.number, 1, NOTHING, FOREVER))
        return future

    async def open_session(self) -> None:
        """Give a scripted worker the session that the requests are for."""
        futures = []
        for message in (Load, "1", b"1", FOREVER), (Open, 1, "1", FOREVER):
            futures.append(self.register())
            self._channel.send(message[0](self.number, *message[1:]))
        await asyncio.gather(*futures)

    def close(self) -> None:
        self._channel.close()

    def _receive(self, replies: list[Reply]) -> None:
        for reply in replies:
            self.waiting.pop(reply.request).set_result(reply)  # type: ignore[union-attr]  # none is a greeting

    def _fail(self, error: Exception) -> None:
        for future in self.waiting.values():
            future.set_exception(error)


class BaselineClient(Client):
    """`zmq.asyncio`: a message and a future for each request."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.connect(address)
        self._encode = msgspec.msgpack.Encoder().encode
        self._receiver = asyncio.create_task(self._receive())

    def submit(self) -> "asyncio.Future[Any]":
        future = self.register()
        self._socket.send(self._encode(BaselineStep(self.number, 1, NOTHING, FOREVER)))
        return future

    def close(self) -> None:
        self._receiver.cancel()
        self._socket.close()
        self._context.term()

    async def _receive(self) -> None:
        decode = msgspec.msgpack.Decoder(BaselineDone).decode
        while True:
            reply = decode(await self._socket.recv())
            self.waiting.pop(reply.request).set_result(reply)


class BlockingClient:
    """No event loop: sends, and blocks until the answer is there."""

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)
        self._frame = msgspec.msgpack.encode(BaselineStep(1, 1, NOTHING, FOREVER))

    async def round_trip(self, count: int) -> float:
        """Return the time of a round trip in microseconds."""
        started = time.perf_counter()
        for _ in range(count):
            self._socket.send(self._frame)
            self._socket.recv()
        return (time.perf_counter() - started) / count * MICRO

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._context.term()


async def measure(effort: Effort) -> Results:
    """Let the sides take turns."""
    rounds = effort.choose(15, 5)
    singles, turns = effort.choose(2000, 300), effort.choose(40, 8)
    async with _clients() as (clients, blocking):
        await asyncio.gather(*(_throughput(client, 1) for client in clients))
        sides = [functools.partial(_round_trip, client, singles) for client in clients]
        one = await alternate([*sides, functools.partial(blocking.round_trip, singles)], rounds)
        many = await alternate([functools.partial(_throughput, client, turns) for client in clients], rounds)
    return _results(one, many)


def _results(one: list[list[float]], many: list[list[float]]) -> Results:
    results = Results()
    results.add("round trip, no-op worker", one[0], "µs", ROUND_TRIP)
    results.add("round trip, scripted worker", one[1], "µs", ROUND_TRIP)
    results.add("round trip, zmq.asyncio", one[2], "µs")
    results.add("round trip, blocking sockets without a loop", one[3], "µs")
    results.add("aiocg's no-op round trip, times the blocking one", ratios(one[0], one[3]), "x")
    results.add("aiocg's no-op round trip, times that of zmq.asyncio", ratios(one[0], one[2]), "x")
    results.add(f"{TURN:,} per turn, no-op worker", many[0], "requests/s", THROUGHPUT)
    results.add(f"{TURN:,} per turn, scripted worker", many[1], "requests/s", THROUGHPUT)
    results.add(f"{TURN:,} per turn, zmq.asyncio", many[2], "requests/s")
    results.add("aiocg's no-op throughput, times that of zmq.asyncio", ratios(many[0], many[2]), "x")
    results.note("The scripted worker's figures include its host loop, session table and state hash.")
    return results


async def _round_trip(client: Client, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        await client.submit()
    return (time.perf_counter() - started) / count * MICRO


async def _throughput(client: Client, turns: int) -> float:
    started = time.perf_counter()
    for _ in range(turns):
        await asyncio.gather(*[client.submit() for _ in range(TURN)])
    return turns * TURN / (time.perf_counter() - started)


@contextlib.asynccontextmanager
async def _clients() -> AsyncIterator[tuple[list[Client], BlockingClient]]:
    """Start the three workers and connect to them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        baseline = f"ipc://{folder}/baseline"
        echo, scripted = SocketFile(Path(folder, "echo")), SocketFile(Path(folder, "scripted"))
        stack.enter_context(_process([str(SCRIPTS / "echo_worker.py"), echo.address]))
        stack.enter_context(_scripted_worker(scripted.address))
        stack.enter_context(_process([str(SCRIPTS / "zmq_asyncio_worker.py"), baseline]))
        session = ChannelClient(scripted)
        clients: list[Client] = [ChannelClient(echo), session, BaselineClient(baseline)]
        blocking = BlockingClient(baseline)
        stack.callback(blocking.close)
        for client in clients:
            stack.callback(client.close)
        await session.open_session()
        yield clients, blocking


@contextlib.contextmanager
def _scripted_worker(address: str) -> Iterator[None]:
    status = StatusPage.create()
    arguments = ["-m", "aiocg.workers", "scripted", "--address", address]
    arguments += ["--parent", str(os.getpid()), "--status", str(status.descriptor)]
    try:
        with _process(arguments, inherit=(status.descriptor,)):
            yield
    finally:
        status.close()


@contextlib.contextmanager
def _process(arguments: list[str], inherit: tuple[int, ...] = ()) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-P", *arguments], pass_fds=inherit)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
