"""A real worker process, spoken to over a real socket."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.transport.framing import Outgoing
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Done,
    Failure,
    FailureCode,
    Hello,
    Load,
    Observed,
    Open,
    Refused,
    Request,
    Shutdown,
    Step,
    Welcome,
)
from aiocg.transport.status import StatusPage
from aiocg.transport.streams import ClientStream

DOUBLE, NAP, INCREMENT, HANG = 2, 11, 1, 5


class Worker:
    """A worker process and its status page."""

    def __init__(self, folder: Path, kind: str = "scripted", *extra: str) -> None:
        self.address = f"ipc://{folder}/w"
        self.status = StatusPage.create()
        command = [sys.executable, "-P", "-m", "aiocg.workers", kind, "--address", self.address]
        command += ["--parent", str(os.getpid()), "--status", str(self.status.descriptor), *extra]
        self.process = subprocess.Popen(command, pass_fds=(self.status.descriptor,), stderr=subprocess.PIPE)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.status.close()


class Client:
    """One connection, with a queue of what comes back."""

    def __init__(self, address: str) -> None:
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self.batches = 0
        self.channel = ClientStream(address, on_replies=self._take, on_error=self._replies.put_nowait)

    def _take(self, replies: list[Any]) -> None:
        self.batches += 1
        for reply in replies:
            self._replies.put_nowait(reply)

    def send(self, *requests: Request) -> None:
        for request in requests:
            self.channel.send(request)

    async def receive(self, count: int = 1) -> list[Any]:
        return [await asyncio.wait_for(self._replies.get(), 60) for _ in range(count)]

    async def ask(self, *requests: Request) -> list[Any]:
        self.send(*requests)
        return await self.receive(len(requests))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.close()


@pytest.fixture
async def client(worker: Worker) -> AsyncIterator[Client]:
    client = Client(worker.address)
    yield client
    client.channel.close()


def opened(content: bytes = b"5", session: int = 1) -> tuple[Request, Request]:
    return Load(1, "b", content, 1.0), Open(2, session, "b", 1.0, ("value",))


async def test_hello_is_answered_by_what_the_worker_can_do(client: Client, worker: Worker) -> None:
    (welcome,) = await client.ask(Hello(PROTOCOL_VERSION, "test 1"))
    assert isinstance(welcome, Welcome)
    assert (welcome.protocol, welcome.compiler, welcome.pid) == (PROTOCOL_VERSION, "scripted", worker.process.pid)
    assert welcome.action_spaces[0].actions[DOUBLE].name == "double"
    assert "value" in [space.name for space in welcome.observation_spaces]


async def test_another_protocol_version_is_refused_and_the_next_client_served(client: Client, worker: Worker) -> None:
    (refused,) = await client.ask(Hello(PROTOCOL_VERSION + 1, "newer"))
    assert isinstance(refused, Refused) and refused.code == FailureCode.PROTOCOL
    assert "newer" in refused.message and str(PROTOCOL_VERSION) in refused.message
    other = Client(worker.address)
    assert isinstance((await other.ask(Hello(PROTOCOL_VERSION, "test")))[0], Welcome)
    other.channel.close()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"garbage"],
        [b"\xc1" * 100],
        [b"\x90"],
        [b"\x91\x93\xa4Step\x01\x02"],
        [b"\xdd\xff\xff\xff\xff"],
        [b"", b"", b""],
    ],
)
async def test_garbage_is_refused_and_the_worker_goes_on(client: Client, worker: Worker, frames: list[bytes]) -> None:
    await client.ask(Hello(PROTOCOL_VERSION, "test"))
    outgoing = Outgoing()
    outgoing.greet("DEALER")
    outgoing.put(frames)
    reader, writer = await asyncio.open_unix_connection(worker.address.removeprefix("ipc://"))
    outgoing.hand_over(lambda parts: writer.writelines(parts) or outgoing.size)
    if frames != [b"\x90"]:  # a batch of nothing is no error and has no answer
        assert b"protocol" in await asyncio.wait_for(reader.readuntil(b"protocol"), 30)
    writer.close()
    replies = await client.ask(Hello(PROTOCOL_VERSION, "test"), *opened())
    assert [type(reply) for reply in replies] == [Welcome, Done, Observed]
    assert worker.process.poll() is None


async def test_two_clients_may_use_the_same_numbers(client: Client, worker: Worker) -> None:
    other = Client(worker.address)
    await client.ask(*opened(b"5"))
    await other.ask(*opened(b"70"))
    mine, theirs = await asyncio.gather(
        client.ask(*(Step(3 + i, 1, (INCREMENT,), 1.0, ("value",)) for i in range(20))),
        other.ask(*(Step(3 + i, 1, (DOUBLE,), 1.0, ("value",)) for i in range(20))),
    )
    assert [reply.observations[0] for reply in mine] == [6 + i for i in range(20)]
    assert [reply.observations[0] for reply in theirs] == [140 * 2**i for i in range(20)]
    other.channel.close()


async def test_replies_come_in_the_order_of_the_requests(client: Client) -> None:
    await client.ask(*opened())
    steps = [Step(3 + i, 1, (NAP if i % 3 == 0 else INCREMENT,), 1.0, ("value",)) for i in range(30)]
    replies = await client.ask(*steps)
    assert [(reply.request, reply.observations[0]) for reply in replies] == [(3 + i, 6 + i) for i in range(30)]


async def test_requests_that_waited_are_answered_together_though_they_came_one_by_one(
    client: Client, worker: Worker
) -> None:
    await client.ask(*opened())
    os.kill(worker.process.pid, signal.SIGSTOP)
    for number in range(3, 53):
        client.send(Step(number, 1, (INCREMENT,), 1.0, ("value",)))
        await asyncio.sleep(0.001)
    assert not client.channel.bytes_queued
    before = client.batches
    os.kill(worker.process.pid, signal.SIGCONT)
    assert [reply.request for reply in await client.receive(50)] == list(range(3, 53))
    assert client.batches - before <= 25  # usually 1, but no reply waits for long for others


async def test_finished_replies_do_not_wait_for_slow_requests(client: Client) -> None:
    await client.ask(*opened())
    client.send(Step(3, 1, (NAP,), 1.0, ("value",)), Step(4, 1, (HANG,), 60.0))
    (first,) = await client.receive()
    assert (first.request, first.observations) == (3, (6,))


async def test_a_fast_reply_is_not_held_back_by_the_slow_request_behind_it(client: Client) -> None:
    client.send(*opened(), Step(3, 1, (DOUBLE,), 60.0, ("value",)), Step(4, 1, (HANG,), 60.0))
    replies = await client.receive(3)
    assert [reply.request for reply in replies] == [1, 2, 3]
    assert replies[2].observations == (10,)


async def test_the_status_page_says_what_is_executing(client: Client, worker: Worker) -> None:
    await client.ask(*opened())
    client.send(Step(77, 1, (HANG,), 60.0))
    execution = None
    while execution is None or execution.request != 77:
        await asyncio.sleep(0.01)
        _, execution = worker.status.read()
    assert (execution.session, execution.deadline - execution.started) == (1, pytest.approx(60.0))


async def test_an_idle_worker_says_that_it_executes_nothing(client: Client, worker: Worker) -> None:
    await client.ask(*opened())
    for _ in range(6000):
        if worker.status.read()[1] is None:
            break
        await asyncio.sleep(0.01)  # it tells so right after sending the last reply
    assert worker.status.read()[1] is None


async def test_shutdown_answers_what_came_before_it_and_leaves_nothing(client: Client, worker: Worker) -> None:
    client.send(*opened(), Step(3, 1, (NAP,), 1.0, ("value",)), Shutdown())
    replies = await client.receive(3)
    assert replies[2].observations == (6,)
    assert await asyncio.to_thread(worker.process.wait, 30) == 0
    assert not Path(worker.address.removeprefix("ipc://")).exists()


async def test_a_client_that_vanishes_does_not_hold_the_worker_up(client: Client, worker: Worker) -> None:
    other = Client(worker.address)
    await other.ask(*opened())
    other.send(*(Step(3 + i, 1, (NAP,), 1.0, ("block",)) for i in range(20)))
    await asyncio.sleep(0.05)
    other.channel.close()
    assert (await client.ask(*opened()))[1].observations == (5,)


async def test_requests_before_hello_and_twice_hello_are_served(client: Client) -> None:
    replies = await client.ask(*opened(), Hello(PROTOCOL_VERSION, "t"), Hello(PROTOCOL_VERSION, "t"))
    assert [type(reply) for reply in replies] == [Done, Observed, Welcome, Welcome]


async def test_a_failure_names_its_request(client: Client) -> None:
    (failure,) = await client.ask(Open(9, 1, "none", 1.0))
    assert isinstance(failure, Failure) and (failure.request, failure.code) == (9, FailureCode.BENCHMARK_UNKNOWN)


async def test_interrupts_of_the_terminal_do_not_end_a_worker(client: Client, worker: Worker) -> None:
    await client.ask(Hello(PROTOCOL_VERSION, "test"))
    worker.process.send_signal(signal.SIGINT)
    assert isinstance((await client.ask(Hello(PROTOCOL_VERSION, "test")))[0], Welcome)


def test_an_unknown_kind_ends_with_what_there_is(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "nonsense")
    _, stderr = worker.process.communicate(timeout=30)
    worker.close()
    assert worker.process.returncode == 1
    assert b"'nonsense'" in stderr and b"scripted" in stderr


def test_a_worker_whose_parent_is_gone_leaves_at_once(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "scripted", "--parent", "1")
    worker.process.wait(30)
    assert worker.process.returncode == 1
    worker.close()


@pytest.mark.parametrize("address", ["ipc:///nonexistent/folder/w", "tcp://127.0.0.1:1", "nonsense"])
def test_an_address_that_cannot_be_bound_ends_with_a_message(tmp_path: Path, address: str) -> None:
    worker = Worker(tmp_path, "scripted", "--address", address)
    _, stderr = worker.process.communicate(timeout=30)
    worker.close()
    assert worker.process.returncode != 0
    assert b"AddressError" in stderr and address.removeprefix("ipc://").encode() in stderr
