"""A node and its clients: all goes as on one machine, nobody disturbs another, and what breaks comes back."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import aiocg
import aiocg.testing
from aiocg.cluster import machine as cluster_machine
from aiocg.cluster.hosts import HostsError
from aiocg.errors import AiocgError, NodeUnreachable, ObservationFailed, WorkerFailure, WorkerStartError
from aiocg.gym import SyncRuntime
from aiocg.host.nursery import ALLOCATOR
from aiocg.node import client as node_client
from aiocg.node import connection as node_connection
from aiocg.node import server as node_server
from aiocg.transport.messages import FailureCode
from aiocg.transport.security import ClientSecurity, KeyPair
from bench.chaos.line import Line

from ..waiting import eventually, is_alive
from .conftest import Serve, Site
from .line import HERE, carrying

BARRED = r"the port \d+ of a worker does not .* --worker-ports"


def number(value: int) -> Any:
    return aiocg.testing.scripted_benchmark(value)


async def scripted(runtime: aiocg.Runtime, value: int = 5) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=number(value))
    await env.reset()
    return env


async def walk(runtime: aiocg.Runtime) -> tuple[Any, ...]:
    """Search and walk with LLVM; return where that leads."""
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", observation_space="Autophase")
    found = await aiocg.search.random(env, budget=aiocg.search.Budget(evaluations=40), seed=3)
    await env.reset()
    observation, *_ = await env.step(["mem2reg", "gvn", "simplifycfg"])
    child = await env.fork()
    await child.step("instcombine")
    candidates = await env.expand([["gvn"], ["licm"]])
    rewards = [candidate.reward for candidate in candidates]
    return found.reward, found.actions, env.state_hash, child.state_hash, observation.tolist(), rewards


async def test_searches_and_steps_lead_where_they_lead_here(serve: Serve) -> None:
    async with aiocg.Runtime(workers=1, node="") as here:
        expected = await walk(here)
    async with serve() as site, site.runtime() as runtime:
        assert await walk(runtime) == expected
        assert set(runtime.worker_pids()) == set(site.pids())


async def test_blocking_code_uses_a_node_as_well(serve: Serve) -> None:
    async with serve() as site:

        def use() -> list[int]:
            with SyncRuntime(workers=1, node=site.node.address, keys=site.security()) as runtime:
                env = runtime.make("scripted-v0", benchmark=number(5))
                env.reset()
                return [int(env.step("double")[0]) for _ in range(3)]

        assert await asyncio.to_thread(use) == [10, 20, 40]


async def test_a_runtime_asks_for_as_many_workers_as_the_node_gives(serve: Serve) -> None:
    async with serve(workers=1) as site, site.runtime(workers=None) as runtime:
        await scripted(runtime)
        assert runtime.worker_count == 1


async def test_when_the_runtime_is_closed_nothing_of_it_is_left_on_the_node(serve: Serve) -> None:
    async with serve() as site:
        async with site.runtime() as runtime:
            await scripted(runtime)
        assert site.node.leases.leases == {}
        await eventually(lambda: not site.node.leases.holders)


# ----------------------------------------------------------------------------------------------- other clients


@pytest.mark.slow
async def test_what_one_client_does_to_its_workers_does_not_reach_another(serve: Serve) -> None:
    async with serve() as site, site.runtime("alice") as mine, site.runtime("bob", workers=2) as theirs:
        env, bad = await scripted(mine, 5), await scripted(theirs)
        pids = mine.worker_pids()

        async def misbehave() -> None:
            for action in ("crash", "abort", "exit"):
                _, _, terminated, _, info = await bad.step(action)
                assert terminated and info["error_type"] == "WorkerCrashed"
                await bad.reset()

        async def flood() -> None:
            others = [await scripted(theirs, value) for value in range(20)]
            await asyncio.gather(*(other.step(["nothing"] * 20) for other in others for _ in range(20)))

        task = asyncio.gather(misbehave(), flood())
        values = [int((await env.step("increment"))[0]) for _ in range(100)]
        await task
        assert values == list(range(6, 106))
        assert mine.worker_pids() == pids


async def test_more_workers_than_a_key_may_have_are_refused_and_the_others_work(serve: Serve) -> None:
    async with serve(workers=1) as site, site.runtime(workers=3) as runtime:
        envs = [await scripted(runtime, value) for value in range(4)]
        results = await asyncio.gather(*(env.step("increment") for env in envs))
        assert [int(result[0]) for result in results] == [1, 2, 3, 4]
        assert len(site.pids()) == 1


@pytest.mark.slow
async def test_a_program_whose_key_has_all_its_workers_waits_for_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(workers=1, lease=1.0) as site, site.runtime() as waiting:
        async with site.runtime() as first:
            await scripted(first)
            async with site.runtime() as second:
                monkeypatch.setattr(cluster_machine, "FULL_TIMEOUT", 0.0)
                with pytest.raises(WorkerStartError, match="this key already has its maximum of 1 workers on the node"):
                    await scripted(second)
            monkeypatch.undo()
            task = asyncio.create_task(scripted(waiting))
            await eventually(lambda: site.node.leases.tally.refused.total() > 3)
        assert int((await (await task).step("increment"))[0]) == 6
        told = [str(vars(record)["cause"]) for record in caplog.records if record.message == "no worker"]
        assert len(told) == 2 and "this key already has its maximum of 1 workers on the node" in told[0]


async def test_sessions_beyond_the_limit_are_refused_and_the_others_go_on(serve: Serve) -> None:
    async with serve(sessions=3) as site, site.runtime() as runtime:
        env = await scripted(runtime)
        child, other = await env.fork(), await env.fork()
        with pytest.raises(WorkerFailure, match="3 sessions are open in this worker") as caught:
            await scripted(runtime)
        assert (caught.value.code, caught.value.fields) == (FailureCode.LIMIT, {"limit": "sessions", "allowed": 3})
        _, _, terminated, _, info = await (await env.fork()).step("increment")
        assert terminated and "3 sessions are open in this worker" in info["error_details"]
        assert [int((await one.step("increment"))[0]) for one in (env, child, other)] == [6, 6, 6]
        await other.close()
        await env.observe("value")  # the end of one travels with what comes next
        assert int((await (await env.fork()).step("increment"))[0]) == 7


async def test_a_program_larger_than_a_request_may_be_is_refused_here(serve: Serve) -> None:
    async with serve(request_bytes=4 << 20) as site, site.runtime() as runtime:
        env = await scripted(runtime)
        large = aiocg.Benchmark.from_file_contents("benchmark://scripted-v0/large", b"1" * ((4 << 20) + 1))
        with pytest.raises(AiocgError, match=r"the program has 4194305 bytes, and the node accepts at most 4194304"):
            await env.reset(benchmark=large)
        await env.reset(benchmark=number(7))
        assert int((await env.step("increment"))[0]) == 8


@pytest.mark.slow
async def test_requests_above_the_rate_wait_and_none_is_refused(serve: Serve) -> None:
    async with serve(requests_per_second=200) as site, site.runtime() as runtime:
        env = await scripted(runtime)
        started = time.monotonic()
        for _ in range(300):
            await env.step("increment")
        assert int(await env.observe("value")) == 305
        assert time.monotonic() - started > 0.3  # there is a burst at first


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"clang": "/bin/sh"}, "only numbers can be sent to a node"),
        ({"cache_dir": 1}, "does not accept the option 'cache_dir'"),
    ],
)
async def test_options_other_than_a_few_numbers_are_refused(serve: Serve, options: dict[str, Any], says: str) -> None:
    async with serve() as site, site.runtime(options=options) as runtime:
        with pytest.raises(WorkerStartError, match=says):
            await scripted(runtime)


@pytest.mark.few(1)
@pytest.mark.parametrize("trust", [False, True])
async def test_a_file_on_the_node_is_no_observation(serve: Serve, trust: bool) -> None:
    async with serve(trust=trust) as site, site.runtime() as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        with pytest.raises(ObservationFailed, match="BitcodeFile is a file on the worker's machine"):
            await env.observe("BitcodeFile")
        assert (await env.observe("Bitcode"))[:2] == b"BC"


# ------------------------------------------------------------------------------------------- what breaks


def through(site: Site, *, workers: bool = True) -> AbstractAsyncContextManager[Line]:
    """Make a line to a node, and to its workers."""
    return carrying([int(site.node.address.rpartition(":")[2]), *(site.ports if workers else ())])


async def test_after_an_interruption_within_the_lease_all_goes_on_where_it_was(serve: Serve) -> None:
    async with serve() as site, through(site) as line, site.runtime(through=HERE) as runtime:
        env = await scripted(runtime)
        pids = runtime.worker_pids()
        for round in range(6):
            steps = asyncio.gather(*(env.submit("increment") for _ in range(20)))
            await asyncio.sleep(0.01 * round)
            if round % 2:
                line.hold()
                await asyncio.sleep(0.3)  # longer than it takes for the node to be silent
                line.release()
            line.cut()
            await steps
        assert int(await env.observe("value")) == 125
        assert runtime.worker_pids() == pids


@pytest.mark.slow
async def test_after_the_lease_the_workers_are_gone_and_a_client_that_comes_back_loses_nothing(serve: Serve) -> None:
    async with serve(lease=1.0) as site, through(site) as line, site.runtime(through=HERE) as runtime:
        env = await scripted(runtime)
        await env.step(["increment", "double"])
        child = await env.fork()
        before = runtime.worker_pids()
        line.hold()
        step = env.submit("increment")
        await eventually(lambda: not site.node.leases.holders and not any(map(is_alive, before)))
        assert site.node.leases.leases == {}
        line.release()
        assert int((await step)[0]) == 13
        assert int((await child.step("double"))[0]) == 24
        assert not set(runtime.worker_pids()) & set(before)


@pytest.mark.slow
async def test_a_long_action_is_not_blamed_for_an_interruption(serve: Serve) -> None:
    async with serve() as site, through(site) as line, site.runtime(through=HERE) as runtime:
        env = await scripted(runtime)
        step = env.submit(["nap"] * 15, timeout=2.0)  # a sixth of a second of work
        await asyncio.sleep(0.1)
        line.hold()
        await asyncio.sleep(2.3)
        line.release()
        value, _, terminated, _, _ = await step
        assert (int(value), terminated) == (20, False)


async def test_an_overrun_deadline_is_enforced_on_a_node(serve: Serve) -> None:
    async with serve() as site, site.runtime() as runtime:
        env = await scripted(runtime)
        started = time.monotonic()
        _, _, terminated, _, info = await env.step("hang", timeout=0.3)
        assert terminated and info["error_type"] == "DeadlineExceeded"
        assert "deadline of 0.3 s exceeded" in info["error_details"]
        assert time.monotonic() - started < 60.0


async def test_when_the_node_is_away_for_too_long_everything_fails_and_says_so(serve: Serve) -> None:
    async with serve() as site, through(site) as line, site.runtime(through=HERE, node_timeout=0.8) as runtime:
        env = await scripted(runtime)
        line.hold()
        with pytest.raises(NodeUnreachable, match=r"silent for 0.8 s; check that they run"):
            await env.step("increment")
        with pytest.raises(NodeUnreachable):
            await env.reset()
        with pytest.raises(NodeUnreachable):
            await runtime.make("scripted-v0")
        line.release()


@pytest.mark.slow
async def test_closing_does_not_wait_for_a_node_that_is_away(serve: Serve) -> None:
    async with serve(lease=2.0) as site, through(site) as line:
        async with site.runtime(through=HERE) as runtime:
            await scripted(runtime)
            line.hold()
            started = time.monotonic()
        assert time.monotonic() - started < 30.0
        await eventually(lambda: not site.node.leases.holders)  # its lease runs out
        line.release()


@pytest.mark.slow
async def test_a_revoked_client_loses_its_workers_and_is_told_why(serve: Serve) -> None:
    async with serve() as site, site.runtime("alice") as runtime, site.runtime("bob") as other:
        env, theirs = await scripted(runtime), await scripted(other)
        pids = runtime.worker_pids()
        del site.names[site.clients["alice"].public]
        await eventually(lambda: not any(map(is_alive, pids)))
        with pytest.raises(NodeUnreachable, match="does not know this key"):
            await env.step("increment")
        assert int((await theirs.step("increment"))[0]) == 6


# ------------------------------------------------------------------------------------------- no connection


async def test_who_is_not_authorised_is_told_the_command_to_run(serve: Serve) -> None:
    async with serve() as site:
        stranger = KeyPair.generate()
        runtime = aiocg.Runtime(node=site.node.address, keys=ClientSecurity(stranger, site.keys.public))
        async with runtime:
            with pytest.raises(NodeUnreachable) as caught:
                await scripted(runtime)
            site.names[stranger.public] = "carol"
            await eventually(lambda: site.node.name_of(stranger.public) == "carol")
            assert int((await (await scripted(runtime)).step("increment"))[0]) == 6
        assert f"aiocg keys authorize NAME '{stranger.public}'" in str(caught.value)
        assert site.node.refused > 0


async def test_a_node_with_another_key_is_not_talked_to(serve: Serve) -> None:
    async with serve() as site:
        keys = ClientSecurity(site.clients["alice"], KeyPair.generate().public)
        async with aiocg.Runtime(node=site.node.address, keys=keys) as runtime:
            with pytest.raises(NodeUnreachable):
                await scripted(runtime)


async def test_where_nobody_listens_the_error_says_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_connection, "CONNECT_TIMEOUT", 0.3)
    keys = ClientSecurity(KeyPair.generate(), KeyPair.generate().public)
    async with aiocg.Runtime(node="tcp://127.0.0.1:9", keys=keys) as runtime:
        with pytest.raises(NodeUnreachable, match=r"that `aiocg serve` runs there") as caught:
            await scripted(runtime)
        assert caught.value.address == "tcp://127.0.0.1:9"


async def test_a_node_that_was_reached_may_answer_late(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as site:
        with monkeypatch.context() as held:
            held.setattr(node_connection.Connection, "_tick", lambda *_: None)
            connection = node_connection.Connection(site.node.address, site.security())
            await eventually(lambda: connection._channel is not None and connection._channel.connected)
            held.setattr(node_connection, "CONNECT_TIMEOUT", 0.0)
            attached = asyncio.create_task(connection.attached())
            await asyncio.sleep(0)
            assert not attached.done()
        await attached
        await connection.close()


async def test_ports_of_workers_that_a_firewall_bars_are_named(serve: Serve) -> None:
    async with serve() as site, through(site, workers=False), site.runtime(through=HERE) as runtime:
        with pytest.raises(NodeUnreachable, match=BARRED):
            await scripted(runtime)


async def test_of_two_workers_that_a_firewall_bars_at_different_times_neither_is_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, pauses = node_client._check_port, iter([0.0, 0.3])

    async def check_later(connection: Any, up: Any) -> None:
        await asyncio.sleep(next(pauses, 0.0))
        await check(connection, up)

    monkeypatch.setattr(node_client, "_check_port", check_later)
    async with serve() as site, through(site, workers=False), site.runtime(workers=2, through=HERE) as runtime:
        async with asyncio.timeout(cluster_machine.REFUSED / 2):
            with pytest.raises(NodeUnreachable, match=BARRED):
                await scripted(runtime)


@pytest.mark.slow
async def test_a_worker_that_never_listens_is_ended_and_another_is_started(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stuck = tmp_path / "stuck"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        f"if 'aiocg.workers' in sys.orig_argv and not os.path.exists({str(stuck)!r}):\n"
        f"    open({str(stuck)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(3600)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(node_server, "START_PATIENCE", 4.0)
    async with serve() as site, site.runtime() as runtime:
        env = await scripted(runtime)
        assert (await env.step("double"))[0] == 10
        (pid,) = site.pids()
        assert pid != int(stuck.read_text()) and not is_alive(int(stuck.read_text()))


@pytest.mark.parametrize("address", ["tcp://nowhere", "localhost:5757", "ipc:///tmp/x", "tcp://h:99999"])
async def test_what_is_no_address_of_a_node_is_said_to_be_none(address: str) -> None:
    keys = ClientSecurity(KeyPair.generate(), KeyPair.generate().public)
    with pytest.raises(HostsError, match="address"):
        aiocg.Runtime(node=address, keys=keys)


async def test_malloc_is_tuned_for_compilers_on_a_node_as_at_home(serve: Serve) -> None:
    async with serve() as site, site.runtime() as away, aiocg.Runtime(workers=1, node="") as home:
        tuned = []
        for runtime in (away, home):
            env = await runtime.make("llvm-v0", benchmark="programs-v0/crc32")
            await env.reset()
            (pid,) = runtime.worker_pids()
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            tuned.append([one for one in variables if one.startswith(b"GLIBC_TUNABLES=")])
        assert tuned[0] == tuned[1] != []


def test_what_a_worker_starts_does_not_have_its_malloc() -> None:
    script = (
        "import os, sys; from aiocg.workers import __main__ as worker\n"
        "worker.listen = lambda *_: sys.exit('GLIBC_TUNABLES' in os.environ)\n"
        "worker.main()"
    )
    command = [sys.executable, "-P", "-c", script, "scripted", "--parent", str(os.getpid())]
    for option, kept in (["--unset=GLIBC_TUNABLES"], False), ([], True):
        ended = subprocess.run([*command, *option], env={**os.environ, **ALLOCATOR}, check=False)
        assert bool(ended.returncode) is kept
