"""`aiocg cluster status` and `aiocg top`, and what nodes say of themselves."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import aiocg
from aiocg.cli import _cluster as cluster_up
from aiocg.cli._cluster import _as_json, _table, _waits
from aiocg.cluster.hosts import read_hosts, write_hosts
from aiocg.cluster.joining import give_order
from aiocg.cluster.survey import Report, Watch
from aiocg.errors import NodeUnreachable
from aiocg.transport.control import Busy, Retire, Surveyed
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity, KeyPair

from ..command_line import Run, runner
from ..node.conftest import Serve
from ..waiting import eventually
from .conftest import Nodes, host_of, keys_for, runtime_on, scripted

NOBODY = "tcp://127.0.0.1:9"


async def test_nodes_say_how_busy_they_are(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two, workers=3) as runtime:
        envs = [await scripted(runtime, value) for value in range(6)]
        async with Watch([host_of(one), host_of(two)], keys_for(one, two)) as watch:
            first = await watch.look()
            assert all(report.rate == 0 for report in first)
            rates, done = [0.0, 0.0], 0
            while done < 100 or not all(rates):  # what a worker does is known to its node a little later
                await asyncio.gather(*(env.step("increment") for env in envs))
                reports = await watch.look()
                said = [report.said for report in reports if report.said is not None]
                rates = [max(rate, report.rate) for rate, report in zip(rates, reports, strict=True)]
                done = sum(one.requests for one in said)
            assert sorted(one.workers for one in said) == [1, 2]
            assert [(one.clients, one.most, one.processors) for one in said] == [(2, 8, 2)] * 2


@pytest.mark.slow
async def test_top_shows_who_waits_for_what(serve: Serve) -> None:
    async with serve() as one, runtime_on(one, workers=1) as runtime:
        env = await scripted(runtime)
        (pid,) = runtime.worker_pids()
        step = asyncio.ensure_future(env.step("hang"))
        async with Watch([host_of(one)], keys_for(one)) as watch:
            waits: list[Any] = []
            while not waits:
                waits = list(_waits(await watch.look()))
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        screen = Console(width=160, record=True, file=io.StringIO())
        screen.print(waits[0])
        text = screen.export_text()
        assert "yours" in text and str(pid) in text and one.node.address in text


def test_what_a_busy_node_says_can_be_told_as_json() -> None:
    busy = Busy(pid=1, own=True, session=2, request=3, elapsed=4.0, left=5.0)
    said = Surveyed(**{**dict.fromkeys(Surveyed.__struct_fields__, 6), "longest": (busy,)})
    told = json.loads(json.dumps(_as_json(Report("tcp://one.example:5757", said))))
    assert told["said"]["workers"] == 6 and told["said"]["longest"][0]["elapsed"] == 4.0
    assert _as_json(Report("tcp://one.example:5757", problem="it does not answer"))["said"] is None


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_word_is_broken_however_narrow_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    said = Surveyed(**{**dict.fromkeys(Surveyed.__struct_fields__, 12345), "longest": []})
    reports = [Report(f"tcp://machine-{number}.example:5757", said, 0.012, 321.0) for number in range(2)]
    reports.append(Report("tcp://away.example:5757", problem="it does not answer"))
    narrow = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr("aiocg.cli._cluster.console", narrow)
    for rates in (False, True):
        narrow.print(_table(reports, rates=rates))
    shown = narrow.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width
    for word in ("tcp://machine-1.example:5757", "up, 12 ms", "sessions", "requests", "failed", "per s", "2 of 3 up"):
        assert word in " ".join(shown.split()), word
    assert ("┃" in shown) == (width == 160)


async def test_metrics_have_workers_by_node(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two) as runtime:
        envs = [await scripted(runtime, value) for value in range(8)]
        await eventually(lambda: len(runtime.worker_pids()) == 4)
        text = runtime.metrics()
        for site in (one, two):
            address = site.node.address
            assert f'aiocg_cluster_workers{{kind="scripted",node="{address}"}} 2.0' in text
            assert f'aiocg_cluster_sessions{{kind="scripted",node="{address}"}} 4.0' in text
        assert len(envs) == 8


@pytest.fixture
def inside(place: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `aiocg` in this process."""
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("AIOCG_KEYS", str(place.folder / "keys"))
    monkeypatch.setenv("AIOCG_CLUSTER", "")  # which commands set
    monkeypatch.delenv("AIOCG_CLUSTER")
    return runner(monkeypatch, capfd)


def command(place: Any, *arguments: str, columns: int = 160) -> "subprocess.CompletedProcess[str]":
    """Run `aiocg`."""
    environment = {**place.environment, "COLUMNS": str(columns)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "aiocg.cli", *arguments],
        env=environment, cwd=place.folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_the_commands_show_all_nodes_and_say_which_are_down(
    nodes: Callable[..., Nodes], place: Any, inside: Run
) -> None:
    two = nodes(2)
    addresses = [host.address for host in two.hosts]
    Path(place.folder, "hosts.toml").write_text(
        "".join(f"[[node]]\naddress = {host.address!r}\nkey = {host.key!r}\n" for host in two.hosts)
    )
    shown = command(place, "cluster", "status", "file:hosts.toml")
    assert shown.returncode == 0, shown.stderr
    assert all(address in shown.stdout for address in addresses) and "2 of 2 up" in shown.stdout
    shown = command(place, "top", "file:hosts.toml", "--count", "2", "--interval", "0.1")
    assert shown.returncode == 0, shown.stderr
    assert "per s" in shown.stdout
    two.kill(1)
    done = inside("cluster", "status", "file:hosts.toml", "--json")
    assert done.status == 1
    first, second = done.json["nodes"]
    assert first["said"]["workers"] == 0 and not first["problem"]
    assert second["said"] is None and "it has not answered" in second["problem"]
    for words in (("cluster", "status"), ("top", "--count", "1")):
        shown = command(place, *words, "file:hosts.toml", columns=80)
        assert "is down: the node at" in shown.stdout and len(shown.stdout.splitlines()) < 20, shown.stdout
    two.kill(0)
    shown = command(place, "cluster", "status", "file:hosts.toml")
    assert sum(line.startswith(tuple(addresses)) for line in shown.stdout.splitlines()) == 2, shown.stdout
    two.restart(0)
    done = inside("--cluster", "file:hosts.toml", "search", "random", "programs-v0/gcd", "--evaluations", "20")
    assert done.status == 0, done.err


def test_the_commands_say_what_they_need(inside: Run) -> None:
    for name in ("AIOCG_CLUSTER", "AIOCG_NODE"):
        assert name not in os.environ
    done = inside("cluster", "status")
    assert done.status == 1 and "which nodes?" in done.err
    done = inside("top", "somewhere")
    assert done.status == 1 and "it must be tcp://HOST:PORT" in done.err


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("file:nowhere.toml", "nowhere.toml: No such file"),
        (NOBODY + "," + NOBODY, "occurs twice"),
        ("ray:auto", "'ray:auto' is no cluster; it must be tcp://HOST:PORT (several with commas), file:PATH, ray or"),
    ],
)
def test_a_wrong_cluster_is_a_message(inside: Run, wrong: str, says: str) -> None:
    done = inside("--cluster", wrong, "search", "random", "programs-v0/gcd")
    assert done.status == 1 and says in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize("words", [("cluster", "status"), ("top", "--count", "1")])
def test_a_file_without_nodes_is_a_message(inside: Run, words: tuple[str, ...]) -> None:
    Path("hosts.toml").touch()
    done = inside(*words, "file:hosts.toml")
    assert done.status == 1 and "file:hosts.toml has no nodes" in done.err and "`aiocg cluster up`" in done.err


@pytest.mark.slow
async def test_nodes_are_started_told_whom_to_let_in_and_ended_by_commands(place: Any) -> None:
    place.environment.update(AIOCG_KEYS=str(place.folder / "keys"), XDG_STATE_HOME=str(place.folder / "state"))
    start = Path(place.folder, "start")  # as on a machine where aiocg is not on the path
    start.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m aiocg.cli "$@"\n')
    start.chmod(0o755)
    hosts = Path(place.folder, "hosts.toml")
    done = command(
        place, "cluster", "up", "hosts.toml", "localhost", "localhost", "--processors", "1", "--aiocg", str(start)
    )
    assert done.returncode == 0 and done.stdout.count("joined ") == 2, done.stderr + done.stdout
    try:
        done = command(
            place, "--cluster", "file:hosts.toml", "search", "random", "programs-v0/gcd", "--evaluations", "9"
        )
        assert done.returncode == 0, done.stderr
        own, friend = KeyFolder(place.folder / "keys"), KeyPair.generate()
        with pytest.raises(NodeUnreachable, match="no node has answered"):
            await use(hosts, friend)
        own.authorize("friend", friend.public)
        done = command(place, "cluster", "authorize", "hosts.toml")
        assert done.returncode == 0 and done.stdout.count("told ") == 2, done.stderr
        await use(hosts, friend)
        said = await give_order(read_hosts(hosts), Retire(), ClientSecurity(friend, friend.public))
        assert set(said.values()) == {"it takes orders only from whoever invited it with a token"}
    finally:
        done = command(place, "cluster", "down", "hosts.toml")
    assert done.returncode == 0 and done.stdout.count("ended ") == 2, done.stderr
    assert read_hosts(hosts) == []
    left = place.folder / "state" / "aiocg" / "node.log"
    assert "client attached" in left.read_text()


async def use(hosts: Path, pair: KeyPair) -> None:
    """Use the nodes of a file with a key."""
    async with aiocg.Runtime(cluster=f"file:{hosts}", keys=ClientSecurity(pair, pair.public)) as runtime:
        env = await scripted(runtime)
        assert int((await env.step("increment"))[0]) == 6


@pytest.mark.slow
def test_a_node_takes_orders_from_nobody_unless_it_was_invited(
    nodes: Callable[..., Nodes], place: Any, inside: Run
) -> None:
    one = nodes(1)
    write_hosts(place.folder / "hosts.toml", one.hosts)
    done = inside("cluster", "down", "hosts.toml")
    assert done.status == 1 and "not ended" in done.out and "only from whoever invited" in done.out
    assert read_hosts(place.folder / "hosts.toml") == one.hosts
    done = inside("cluster", "status", "file:hosts.toml")
    assert done.status == 0, done.err


@pytest.mark.slow
def test_when_some_machines_fail_they_are_named_and_the_nodes_of_the_others_stay(place: Any) -> None:
    place.environment.update(AIOCG_KEYS=str(place.folder / "keys"), XDG_STATE_HOME=str(place.folder / "state"))
    start = Path(place.folder, "start")
    start.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m aiocg.cli "$@"\n')
    start.chmod(0o755)
    bad = "nobody@machine.invalid"  # a name that stands for no machine, on any network
    arguments = ("--aiocg", str(start), "--bind", "tcp://127.0.0.1:0")
    done = command(place, "cluster", "up", "hosts.toml", bad, "localhost", *arguments)
    try:
        assert done.returncode == 1 and f"{bad}: no node can be started there" in done.stderr
        assert "The other nodes stay, in hosts.toml" in done.stderr and done.stdout.count("joined ") == 1
        assert len(read_hosts(place.folder / "hosts.toml")) == 1
        assert command(place, "cluster", "status", "file:hosts.toml").returncode == 0
    finally:
        assert command(place, "cluster", "down", "hosts.toml").returncode == 0


async def test_a_machine_whose_node_does_not_join_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(cluster_up, "JOIN_TIMEOUT", 0.2)
    client = KeyPair.generate().public
    with pytest.raises(SystemExit):
        await cluster_up._start(tmp_path / "hosts.toml", ["localhost"], "tcp://127.0.0.1:0", "true", [], client)
    said = " ".join(capsys.readouterr().err.split())
    assert "localhost: its node has not joined within 0.2 s" in said and "other nodes" not in said


def test_a_machine_that_cannot_start_a_node_is_a_message(inside: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    done = inside("cluster", "up", "hosts.toml", "localhost")
    assert done.status == 1 and "localhost: no node can be started there" in done.err
    assert "Traceback" not in done.err
