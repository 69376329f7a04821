"""Nodes that join with a token: so many as were invited, and nobody without it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.cluster.hosts import Host, read_hosts, write_hosts
from aiocg.cluster.joining import Invitation, join
from aiocg.errors import NodeUnreachable
from aiocg.transport.errors import SecurityError
from aiocg.transport.joining import Token
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import KeyPair

CLIENT = KeyPair.generate().public
NODE = KeyPair.generate().public


def token_of(invitation: Invitation, folder: Path, count: int = 1) -> Token:
    invitation.token(invitation.address, count).write(folder / "token")
    return Token.read(folder / "token")


async def test_node_with_the_token_joins_and_learns_whom_to_let_in(tmp_path: Path) -> None:
    joined: list[Host] = []
    async with Invitation("tcp://127.0.0.1:0", CLIENT, joined.append) as invitation:
        token = token_of(invitation, tmp_path, 2)
        clients = await asyncio.gather(*(join(token, f"tcp://node{number}:5757", NODE) for number in range(2)))
        await invitation.complete()
    assert clients == [CLIENT, CLIENT]
    assert sorted(host.address for host in joined) == ["tcp://node0:5757", "tcp://node1:5757"]
    assert {host.key for host in joined} == {NODE}


async def test_token_is_good_for_no_more_nodes_than_were_invited(tmp_path: Path) -> None:
    joined: list[Host] = []
    async with Invitation("tcp://127.0.0.1:0", CLIENT, joined.append) as invitation:
        token = token_of(invitation, tmp_path)
        await join(token, "tcp://first:5757", NODE)
        with pytest.raises(NodeUnreachable):
            await join(token, "tcp://second:5757", NODE, timeout=1.0)
    assert [host.address for host in joined] == ["tcp://first:5757"]


async def test_each_token_has_a_name_by_which_it_is_missed_until_it_is_used_up_or_withdrawn() -> None:
    joined: list[Host] = []
    async with Invitation("tcp://127.0.0.1:0", CLIENT, joined.append) as invitation:
        one, two, three = [invitation.token(invitation.address, name=name) for name in ("one", "two", "three")]
        await join(two, "tcp://node:5757", NODE)
        assert invitation.missing == ["one", "three"]
        assert invitation.withdraw(one) and not invitation.withdraw(two)
        with pytest.raises(NodeUnreachable):
            await join(one, "tcp://late:5757", NODE, timeout=5.0)
        complete = asyncio.ensure_future(invitation.complete())
        invitation.withdraw(three)
        await complete
    assert [host.address for host in joined] == ["tcp://node:5757"]


async def test_nobody_joins_with_another_key(tmp_path: Path) -> None:
    joined: list[Host] = []
    async with Invitation("tcp://127.0.0.1:0", CLIENT, joined.append) as invitation:
        token = token_of(invitation, tmp_path)
        forged = Token(token.address, token.server, KeyPair.generate().secret)
        with pytest.raises(NodeUnreachable):
            await join(forged, "tcp://stranger:5757", NODE, timeout=10.0)
        other = Token(token.address, KeyPair.generate().public, token.secret)  # another listens at that address
        with pytest.raises(NodeUnreachable):
            await join(other, "tcp://node:5757", NODE, timeout=1.0)
        assert not joined
        await join(token, "tcp://node:5757", NODE)


async def test_what_no_cluster_could_use_does_not_join(tmp_path: Path) -> None:
    joined: list[Host] = []
    async with Invitation("tcp://127.0.0.1:0", CLIENT, joined.append) as invitation:
        token = token_of(invitation, tmp_path)
        for address, key in (("no address", NODE), ("tcp://node:5757", "no key")):
            with pytest.raises(NodeUnreachable):
                await join(token, address, key, timeout=0.5)
        assert not joined
        await join(token, "tcp://node:5757", NODE)


def test_token_is_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    pair = KeyPair.generate()
    token = Token("tcp://host:1", pair.public, pair.secret)
    path = tmp_path / "token"
    token.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Token.read(path) == token and pair.secret not in repr(token)
    with pytest.raises(SecurityError, match="File exists"):
        token.write(path)
    path.chmod(0o640)
    with pytest.raises(SecurityError, match=r"others can read the token .*0640"):
        Token.read(path)
    path.chmod(0o600)
    for wrong in (b"", b"{}", json.dumps({"address": "a", "server": "b", "secret": "c"}).encode()):
        path.write_bytes(wrong)
        with pytest.raises(SecurityError, match="token"):
            Token.read(path)
    with pytest.raises(SecurityError, match="No such file"):
        Token.read(tmp_path / "missing")


def test_file_of_nodes_is_read_as_it_was_written(tmp_path: Path) -> None:
    hosts = [Host("tcp://one:1", NODE, 3), Host("tcp://two:2")]
    write_hosts(tmp_path / "hosts.toml", hosts)
    assert read_hosts(tmp_path / "hosts.toml") == hosts
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.toml"]


@pytest.fixture
def started(place: Any) -> Iterator[Any]:
    """Start `aiocg` with arguments."""
    place.environment["AIOCG_KEYS"] = str(place.folder / "keys")
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        processes.append(place.start(sys.executable, "-P", "-m", "aiocg.cli", *arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.slow
async def test_commands_make_a_cluster_of_two_nodes(place: Any, started: Any) -> None:
    inviting = started("cluster", "invite", "hosts.toml", "--nodes", "2")
    assert inviting.stdout.readline().startswith("listening")
    token = Path(place.folder, "join.token")
    Path(place.folder, "keys").rename(place.folder / "mine")  # nodes need no keys of their own
    for _ in range(2):
        started("serve", "--bind", "tcp://127.0.0.1:0", "--join", str(token))
    text, _ = await asyncio.to_thread(inviting.communicate, timeout=120)
    assert inviting.returncode == 0 and text.count("joined ") == 2
    assert not token.exists() and not os.path.exists(place.folder / "keys")
    hosts = read_hosts(place.folder / "hosts.toml")
    from aiocg.transport.security import ClientSecurity

    own = KeyFolder(place.folder / "mine").pair()
    async with aiocg.Runtime(cluster=hosts, keys=ClientSecurity(own, own.public), workers=2) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        found = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=50))
        assert found.reward > 0
        assert [node.state for node in runtime.cluster.nodes()] == ["up", "up"]  # type: ignore[union-attr]


@pytest.mark.slow
def test_serve_says_why_it_cannot_join(place: Any, started: Any) -> None:
    process = started("serve", "--join", "missing.token")
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the token missing.token cannot be read" in text
