"""A worker that listens on tcp://: its keys come and its port goes by descriptors, and nothing shows a secret."""

import asyncio
import contextlib
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Done,
    Hello,
    Load,
    Observed,
    Open,
    Reply,
    Request,
    Shutdown,
    Statistics,
    Welcome,
)
from aiocg.transport.security import ClientSecurity, KeyPair, ServerSecurity, WorkerKeys
from aiocg.transport.sockets import ClientChannel
from aiocg.transport.status import StatusPage
from aiocg.workers.limits import CRASH_SIGNALS
from aiocg.workers.network import PacedChannel

WORKER, CLIENT = KeyPair.generate(), KeyPair.generate()


@dataclass
class Started:
    """A worker process, and what it said of itself."""

    process: "subprocess.Popen[bytes]"
    announced: str


@contextlib.contextmanager
def start(keys: bytes, most_files: int = 1024) -> Iterator[Started]:
    status = StatusPage.create()
    handed, hand = os.pipe()
    os.write(hand, keys)
    os.close(hand)
    told, tell = os.pipe()
    process = subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "aiocg.workers", "scripted", "--address", "tcp://127.0.0.1:0"),
            *("--parent", str(os.getpid()), "--status", str(status.descriptor)),
            *("--security", str(handed), "--announce", str(tell)),
        ],
        pass_fds=(status.descriptor, handed, tell),
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files)),
    )
    os.close(handed)
    os.close(tell)
    try:
        with open(told, encoding="ascii") as announcement:
            yield Started(process, announcement.read().strip())
    finally:
        process.kill()
        process.communicate()
        status.close()


async def exchange(address: str, requests: list[Request], count: int, own: KeyPair = CLIENT) -> list[Reply]:
    replies: list[Reply] = []
    errors: list[Exception] = []
    security = ClientSecurity(own, WORKER.public)
    channel = ClientChannel(address, on_replies=replies.extend, on_error=errors.append, security=security)
    for request in requests:
        channel.send(request)
    await until(lambda: len(replies) >= count or errors)
    channel.close()
    assert not errors, errors
    return replies


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_a_worker_says_where_it_listens_and_serves_its_client_there() -> None:
    with start(WorkerKeys(WORKER.secret, CLIENT.public).encode()) as worker:
        assert worker.announced.startswith("tcp://127.0.0.1:") and not worker.announced.endswith(":0")
        requests = [Hello(PROTOCOL_VERSION, "test"), Load(1, "b", b"5", 10.0), Open(2, 1, "b", 10.0)]
        welcome, loaded, opened = await exchange(worker.announced, requests, 3)
        assert isinstance(welcome, Welcome) and welcome.pid == worker.process.pid
        assert loaded == Done(1) and isinstance(opened, Observed)
        with pytest.raises(AssertionError, match="NotAdmittedError"):
            await exchange(worker.announced, requests, 3, own=KeyPair.generate())
        await exchange(worker.announced, [Statistics(1), Shutdown()], 1)
        assert worker.process.wait(60) == 0


async def test_crash_signals_do_nothing_in_any_of_its_threads() -> None:
    with start(WorkerKeys(WORKER.secret, CLIENT.public).encode()) as worker:
        assert len(os.listdir(f"/proc/{worker.process.pid}/task")) > 1  # those of libzmq
        for number in CRASH_SIGNALS:
            os.kill(worker.process.pid, number)
        await exchange(worker.announced, [Hello(PROTOCOL_VERSION, "test"), Statistics(1), Shutdown()], 2)
        assert worker.process.wait(60) == 0


async def test_nothing_secret_is_in_arguments_environment_or_descriptors() -> None:
    with start(WorkerKeys(WORKER.secret, CLIENT.public).encode()) as worker:
        place = Path(f"/proc/{worker.process.pid}")
        shown = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
        assert b"aiocg.workers" in shown
        assert WORKER.secret.encode() not in shown
        await until(lambda: pipes(place / "fd") == 1)  # of standard error; the other two are closed


def pipes(folder: Path) -> int:
    """Count the pipes among the descriptors of a process, which may just be closing some."""
    count = 0
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(entry).startswith("pipe:")
    return count


async def test_a_flood_that_takes_all_descriptors_leaves_the_client_served_and_passes() -> None:
    with start(WorkerKeys(WORKER.secret, CLIENT.public).encode(), most_files=120) as worker:
        replies: list[Reply] = []
        security = ClientSecurity(CLIENT, WORKER.public)
        channel = ClientChannel(worker.announced, on_replies=replies.extend, on_error=print, security=security)
        host, _, port = worker.announced.removeprefix("tcp://").rpartition(":")
        channel.send(Statistics(0))
        await until(lambda: len(replies) == 1)
        flood = [socket.create_connection((host, int(port))) for _ in range(300)]
        await until(lambda: len(os.listdir(f"/proc/{worker.process.pid}/fd")) >= 120)
        for number in range(1, 50):
            channel.send(Statistics(number))
            await until(lambda number=number: len(replies) == number + 1)  # type: ignore[misc]
        for one in flood:
            one.close()
        await exchange(worker.announced, [Statistics(1)], 1)
        channel.close()


@pytest.mark.slow
async def test_strangers_without_end_leave_the_worker_as_it_was() -> None:
    def footprint(pid: int) -> tuple[int, int]:
        resident = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * resource.getpagesize()
        return resident, len(os.listdir(f"/proc/{pid}/fd"))

    async def strangers(count: int) -> None:
        for _ in range(count):
            errors: list[Exception] = []
            security = ClientSecurity(KeyPair.generate(), WORKER.public)
            channel = ClientChannel(worker.announced, on_replies=print, on_error=errors.append, security=security)
            channel.send(Statistics(0))
            await until(lambda errors=errors: errors)  # type: ignore[misc]
            channel.close()

    with start(WorkerKeys(WORKER.secret, CLIENT.public).encode()) as worker:
        await strangers(300)
        memory, files = footprint(worker.process.pid)
        await strangers(2000)
        assert footprint(worker.process.pid)[0] - memory < 4_000_000
        await until(lambda: footprint(worker.process.pid)[1] <= files)
        await exchange(worker.announced, [Statistics(1)], 1)


@pytest.mark.parametrize("keys", [b"", b'{"secret": "tell nobody", "client": "short"}'])
def test_a_worker_without_proper_keys_ends_and_shows_nothing_of_them(keys: bytes) -> None:
    with start(keys) as worker:
        assert worker.announced == ""
        _, said = worker.process.communicate(timeout=60)
        assert worker.process.returncode == 1
        assert b"SecurityError" in said and b"tell nobody" not in said


def test_a_worker_reads_no_faster_than_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.workers.network.BURST", 0.0)
    security = ServerSecurity.for_clients(WORKER, [CLIENT.public])
    channel = PacedChannel("tcp://127.0.0.1:0", security, requests_per_second=200.0)
    times: list[float] = []

    def serve() -> None:
        while len(times) < 101:
            for client, requests in channel.receive(10.0):
                assert isinstance(requests, list)
                times.extend([time.monotonic()] * len(requests))
                channel.send(client, [Done(1)] * len(requests))

    async def ask() -> None:
        await exchange(channel.address, [Statistics(number) for number in range(101)], 101)

    thread = threading.Thread(target=serve)
    thread.start()
    asyncio.run(ask())  # in one batch: what has come is served
    thread.join()
    first = times[0]
    del times[:]
    thread = threading.Thread(target=serve)
    thread.start()
    asyncio.run(ask())
    thread.join()
    assert times[0] - first >= 0.4  # after 101 requests, which take half a second
    channel.close()
