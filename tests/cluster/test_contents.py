"""The content of a program goes to a node once, from another node if one has it; whatever fails, nothing is lost."""

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import aiocg
import aiocg.testing
from aiocg.node import _contents as contents
from aiocg.node import channel, server
from aiocg.node.leases import MESSAGES_AT_ONCE
from aiocg.node.server import NetworkEndpoint
from aiocg.transport.contents import ContentFolder
from aiocg.transport.control import Fetch, FromNode, FromPeer, Piece, Read, Refused, Spawn, from_node_codec
from aiocg.transport.linked_router import key_of
from aiocg.transport.messages import Load, Store
from aiocg.transport.security import ClientSecurity, KeyPair, WorkerKeys
from aiocg.transport.sockets import Channel

from ..node.conftest import Serve, Site
from ..waiting import eventually
from .conftest import Nodes, runtime_on

LARGE = 100_000  # bytes of a program


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing sent twice only because this machine is busy."""
    monkeypatch.setattr(channel, "PATIENCE", 60.0)
    monkeypatch.setattr(contents, "PATIENCE", 60.0)


def program(value: int, size: int = LARGE) -> aiocg.Benchmark:
    """Return a number as a large program."""
    return aiocg.testing.scripted_benchmark(str(value).ljust(size))


async def opened(runtime: aiocg.Runtime, benchmark: aiocg.Benchmark) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=benchmark)
    await env.reset()
    return env


def sent(runtime: aiocg.Runtime) -> int:
    """Return how many bytes have gone to the workers from here."""
    (supervisor,) = runtime.supervisors()
    channels = [slot.channel for slot in supervisor.workers if slot.channel is not None]
    return sum(one.bytes_sent for one in channels) + sum(slot.tally.bytes_sent for slot in supervisor.workers)


def kept(site: Site) -> list[str]:
    """Return the names of what a node keeps."""
    return sorted(path.name for path in (site.node.folder / "contents").glob("*/*"))


def name_of(benchmark: aiocg.Benchmark) -> str:
    return hashlib.sha256(benchmark.content).hexdigest()


async def both(runtime: aiocg.Runtime, count: int) -> None:
    await eventually(lambda: len(runtime.worker_pids()) == count)


async def test_several_workers_of_a_node_get_a_program_once(serve: Serve) -> None:
    async with serve() as site, site.runtime(workers=3) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 3)
        envs = await asyncio.gather(*(opened(runtime, program(7)) for _ in range(6)))
        assert [int((await env.step("double"))[0]) for env in envs] == [14] * 6
        assert LARGE < sent(runtime) < LARGE + 20_000
        assert kept(site) == [name_of(program(7))]
    await eventually(lambda: not site.node.folder.exists())


async def test_a_node_gets_a_program_from_another_one(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        large = program(7, 700_000)  # three pieces
        envs = [await opened(runtime, large) for _ in range(3)]
        assert [int((await env.step("increment"))[0]) for env in envs] == [8] * 3
        assert 700_000 < sent(runtime) < 720_000
        assert kept(one) == kept(two) == [name_of(large)]


@pytest.mark.slow
async def test_many_programs_come_from_other_nodes_at_once(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        envs = [await opened(runtime, program(value)) for value in range(16)]
        envs += await asyncio.gather(*(opened(runtime, program(value)) for value in range(16)))
        assert [int((await env.step("increment"))[0]) for env in envs] == [*range(1, 17)] * 2
        assert 16 * LARGE < sent(runtime) < 17 * LARGE


async def test_a_node_without_neighbours_gets_programs_from_the_client(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        for site in (one, two):
            site.node._contents._neighbours = False
        envs = [await opened(runtime, program(7)) for _ in range(3)]
        assert [int((await env.step("increment"))[0]) for env in envs] == [8] * 3
        assert kept(one) == kept(two) == [name_of(program(7))]
        assert 2 * LARGE < sent(runtime) < 2 * LARGE + 20_000


async def test_small_programs_go_with_their_requests(serve: Serve) -> None:
    async with serve() as site, site.runtime(workers=2) as runtime:
        await asyncio.gather(*(opened(runtime, program(7, 16 << 10)) for _ in range(4)))
        assert kept(site) == []


def lies(read: Read) -> Piece:
    return Piece(read.digest, read.offset, b"9".ljust(LARGE))


def has_nothing(read: Read) -> Piece:
    return Piece(read.digest, read.offset, b"")


def sends_too_much(read: Read) -> Piece:
    return Piece(read.digest, read.offset, bytes(2 * LARGE))


@pytest.mark.few(1)
@pytest.mark.parametrize("answer", [lies, has_nothing, sends_too_much])
async def test_a_node_that_gives_something_else_is_not_believed_nor_asked_again(
    serve: Serve, answer: Callable[[Read], Piece]
) -> None:
    asked: list[Read] = []

    def read(client: str, message: Read) -> Piece:
        asked.append(message)
        return answer(message)

    async with serve() as one, serve() as two, runtime_on(one, two, workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        for site in (one, two):
            site.node._contents.read = read  # type: ignore[method-assign]
        for value in (7, 8):
            envs = [await opened(runtime, program(value)) for _ in range(3)]
            assert [int((await env.step("increment"))[0]) for env in envs] == [value + 1] * 3
        assert len(asked) == 1 or {message.digest for message in asked} > {asked[0].digest}  # each asked the other once
        assert len(asked) <= 2
        assert kept(one) == kept(two) == sorted(map(name_of, (program(7), program(8))))
        assert 4 * LARGE < sent(runtime) < 4 * LARGE + 20_000


@pytest.mark.slow
async def test_a_node_that_was_killed_is_not_waited_for(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "PATIENCE", 0.2)
    three = nodes(2)
    async with three.runtime(workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        first = await opened(runtime, program(7))
        holder = next(i for i in range(2) if runtime_pid(runtime, first) in three.children(i))
        three.kill(holder)
        second = await opened(runtime, program(7))
        values = [int((await env.step("increment"))[0]) for env in (second, first)]  # the first one moves
        assert values == [8, 8]


def runtime_pid(runtime: aiocg.Runtime, env: aiocg.Env) -> Any:
    """Return the process in which an environment is."""
    return env._session.worker.welcome.result().pid


async def test_what_is_long_under_way_is_sent_and_not_waited_for_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "PATIENCE", 0.05)
    async with serve() as site, site.runtime(workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        (supervisor,) = runtime.supervisors()
        never = hashlib.sha256(program(7).content).digest()
        supervisor.workers[0].channel._holding._coming[never] = []
        envs = [await opened(runtime, program(value)) for value in (7, 8, 7, 8)]
        assert [int((await env.step("increment"))[0]) for env in envs] == [8, 9, 8, 9]
        assert 2 * LARGE < sent(runtime) < 2 * LARGE + 20_000
        assert kept(site) == sorted(map(name_of, (program(7), program(8))))


async def test_of_several_that_waited_in_vain_one_sends_the_content_to_be_kept(serve: Serve) -> None:
    async with serve() as site, site.runtime() as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        (supervisor,) = runtime.supervisors()
        holding, content = supervisor.workers[0].channel._holding, program(7).content
        load, digest = Load(1, "b", content, 60.0), hashlib.sha256(content).digest()
        holding._coming[digest] = []
        assert [type(holding.form(load, digest, None)) for _ in range(3)] == [Store, Load, Load]
        holding.arrived(digest, kept=False)
        assert type(holding.form(load, digest, lambda: None)) is Store


async def test_nothing_is_waited_for_longer_because_something_else_failed(serve: Serve) -> None:
    async with serve() as site, site.runtime() as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        (supervisor,) = runtime.supervisors()
        one = supervisor.workers[0].channel
        coming, digest = one._holding._coming, hashlib.sha256(program(7).content).digest()
        coming[digest] = []
        task = asyncio.create_task(opened(runtime, program(7)))
        await eventually(lambda: coming[digest])
        until = one._timer.when()
        (waits,), coming[digest] = coming[digest], []
        waits()  # one that had sent it has failed, and another one sends it
        assert len(coming[digest]) == 1 and one._timer.when() == until
        one._holding.arrived(digest, kept=False)
        assert int((await (await task).step("increment"))[0]) == 8


async def test_a_node_that_does_not_answer_says_nothing_against_others(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        (supervisor,) = runtime.supervisors()
        holdings = [slot.channel._holding for slot in supervisor.workers]
        lost: list[asyncio.Task[bool | None]] = []
        for holding in holdings:
            connection, fetch = holding.connection, holding.connection.fetch

            def lose(message: Fetch, connection: Any = connection, fetch: Any = fetch) -> Any:
                connection._send = lambda message: None
                lost.append(asyncio.create_task(fetch(message)))
                asyncio.get_running_loop().call_later(0.01, give_up, connection)
                return lost[-1]

            connection.fetch = lose
        envs = [await opened(runtime, program(7)) for _ in range(2)]
        assert [int((await env.step("increment"))[0]) for env in envs] == [8] * 2
        assert [task.result() for task in lost] == [None]
        assert not any(holding._useless for holding in holdings)
        assert kept(one) == kept(two) == [name_of(program(7))]


def give_up(connection: Any) -> None:
    del connection._send
    connection._received([Refused("unattached", "this node does not know this client")])


async def test_a_program_that_a_node_has_lost_is_sent_again(serve: Serve) -> None:
    async with serve() as site, site.runtime(workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        first = await opened(runtime, program(7))
        for path in (site.node.folder / "contents").glob("*/*"):
            path.write_bytes(b"9".ljust(LARGE))
        second, third = await opened(runtime, program(7)), await opened(runtime, program(7))
        assert [int((await env.step("increment"))[0]) for env in (first, second, third)] == [8] * 3


async def test_what_has_no_room_is_sent_to_each_worker(serve: Serve) -> None:
    async with serve(content_bytes=LARGE + 10) as site, site.runtime(workers=2) as runtime:
        await opened(runtime, aiocg.testing.scripted_benchmark(1))
        await both(runtime, 2)
        for value in (7, 8, 9):
            envs = await asyncio.gather(*(opened(runtime, program(value)) for _ in range(2)))
            assert [int((await env.step("increment"))[0]) for env in envs] == [value + 1] * 2
        assert kept(site) == [name_of(program(7))]


@pytest.mark.slow
async def test_programs_go_when_their_client_does(serve: Serve) -> None:
    async with serve() as site:
        async with site.runtime("alice") as alice, site.runtime("bob") as bob:
            await opened(alice, program(7))
            await opened(bob, program(8))
            assert len(kept(site)) == 2
            alice_reader = reader_of(site, "alice")
        await eventually(lambda: not kept(site))
        async with site.runtime("alice") as alice:
            await opened(alice, program(7))
            assert reader_of(site, "alice") != alice_reader


def reader_of(site: Site, name: str) -> str:
    return site.node._contents.reader(site.clients[name].public)


async def test_another_node_reads_what_the_client_has_there_and_does_nothing_else(serve: Serve) -> None:
    async with serve() as site, site.runtime("alice") as alice, site.runtime("bob") as bob:
        await opened(alice, program(7))
        await opened(bob, program(8))
        with reading(site, "alice") as (other, answers):
            other.send(Spawn(1, "scripted"))
            own, bobs = (hashlib.sha256(program(value).content).digest() for value in (7, 8))
            for digest, offset in ((bobs, 0), (own, 0), (own, LARGE), (own, 1 << 62)):
                other.send(Read(digest, offset))
            pieces: list[Any] = [await answers.get() for _ in range(4)]
            assert all(isinstance(piece, Piece) for piece in pieces)
            assert [len(piece.content) for piece in pieces] == [0, LARGE, 0, 0]
            assert pieces[1].content == program(7).content
            assert len(site.pids()) == 2


async def test_what_another_node_reads_does_not_count_as_said_by_the_client(serve: Serve) -> None:
    async with serve() as site:
        async with site.runtime() as runtime:
            await opened(runtime, program(7))
            with reading(site, "alice") as (other, answers):
                for _ in range(MESSAGES_AT_ONCE + 1):
                    other.send(Read(bytes(32), 0))
                for _ in range(MESSAGES_AT_ONCE):
                    await answers.get()
            reader, alice = KeyPair.from_secret(reader_of(site, "alice")).public, site.clients["alice"].public
            talk = site.node.leases._talk
            assert talk[reader].left < talk[alice].left and talk[alice].left > MESSAGES_AT_ONCE / 2
        await eventually(lambda: reader not in talk)


async def test_a_node_keeps_little_for_others_that_do_not_read(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_UNREAD", 3 * LARGE)
    async with serve() as site, site.runtime() as runtime:
        await opened(runtime, program(7))
        digest = hashlib.sha256(program(7).content).digest()
        key = KeyPair.from_secret(reader_of(site, "alice")).public
        with contextlib.ExitStack() as stack:
            for index in range(5):  # three get a piece, and do not say that they have it
                other, answers = stack.enter_context(reading(site, "alice"))
                other.send(Read(digest, 0))
                await eventually(lambda: sum(key_of(peer) == key for peer in site.node._heard) == index + 1)  # noqa: B023
                if index < 3:
                    await answers.get()
        assert 3 * LARGE <= site.node._channel.kept_bytes(key) < 4 * LARGE


async def test_fetches_are_few_and_end_with_their_client(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        async with serve() as site:
            key, pair, kept = site.clients["alice"].public, KeyPair.generate(), site.node._contents
            fetch = Fetch(bytes(32), LARGE, f"tcp://127.0.0.1:{mute.getsockname()[1]}", pair.public, pair.secret)
            async with site.runtime() as runtime:
                await opened(runtime, program(7))
                damaged = msgspec.structs.replace(fetch, key="#" * 40)
                assert not await kept.fetch(key, damaged)
                fetches = [asyncio.create_task(kept.fetch(key, fetch)) for _ in range(contents.WAITING)]
                await asyncio.sleep(0)
                assert not await kept.fetch(key, fetch)
            await asyncio.wait(fetches, timeout=30)
            assert all(task.cancelled() for task in fetches)
            assert not await kept.fetch(key, fetch)


@contextlib.contextmanager
def reading(site: Site, name: str) -> Iterator[tuple[Channel[FromPeer, FromNode], "asyncio.Queue[FromNode]"]]:
    """Connect to a node as another one that reads what a client has there."""
    answers: asyncio.Queue[FromNode] = asyncio.Queue()

    def received(messages: list[FromNode]) -> None:
        for message in messages:
            answers.put_nowait(message)

    other: Channel[FromPeer, FromNode] = Channel(
        site.node.address,
        from_node_codec(),
        on_messages=received,
        on_error=lambda error: None,
        security=ClientSecurity(KeyPair.from_secret(reader_of(site, name)), site.keys.public),
    )
    try:
        yield other, answers
    finally:
        other.close()


def test_a_folder_keeps_what_has_room_and_believes_no_file(tmp_path: Path) -> None:
    folder = ContentFolder(tmp_path, 100)
    content = b"x" * 60
    digest = hashlib.sha256(content).digest()
    assert folder.read(digest) is None and folder.piece(digest, 0, 9) == b""
    with pytest.raises(ValueError), folder.passing(digest) as file:
        file.write(content)
        raise ValueError
    assert not list(tmp_path.iterdir())
    assert folder.keep(content) and folder.keep(content)
    assert folder.read(digest) == content and folder.piece(digest, 55, 9) == b"xxxxx"
    assert folder.has_room(40) and not folder.has_room(41)
    assert not folder.keep(b"y" * 41) and folder.keep(b"y" * 40)
    (tmp_path / digest.hex()).write_bytes(b"z" * 60)
    assert folder.read(digest) is None
    assert not ContentFolder(tmp_path / "missing", 100).keep(content)
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "renamed").symlink_to("meanwhile")  # like a file that is gone when one looks at it
    assert folder.has_room(0)


def test_the_path_of_a_folder_need_not_be_text() -> None:
    path = os.fsdecode(b"/\xff")
    endpoint = NetworkEndpoint("127.0.0.1", 0, KeyPair.generate().public, {}, path)
    try:
        assert os.fsdecode(WorkerKeys.decode(os.read(endpoint.descriptors[0], 4096)).contents) == path
    finally:
        endpoint.close()
