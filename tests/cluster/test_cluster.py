"""Several nodes behind one runtime: what they find is what is found at home, whichever of them are lost."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import aiocg
import aiocg.testing
from aiocg.cluster import machine as cluster_machine
from aiocg.errors import NodeUnreachable, NoRoom, WorkerStartError
from aiocg.fleet.restart_policy import Policy
from aiocg.gym import SyncRuntime
from bench.chaos.line import Line

from ..node.conftest import Serve, Site
from ..node.line import HERE, carrying
from ..waiting import eventually
from .conftest import host_of, keys_for, runtime_on, scripted


def states(runtime: aiocg.Runtime) -> dict[str, str]:
    """Return the state of each node."""
    assert runtime.cluster is not None
    return {node.address.rpartition(":")[2]: node.state for node in runtime.cluster.nodes()}


def loads(runtime: aiocg.Runtime) -> list[int]:
    """Return how many workers run on each node."""
    assert runtime.cluster is not None
    return [node.workers for node in runtime.cluster.nodes()]


def line_to(*sites: Site) -> AbstractAsyncContextManager[Line]:
    """Return a line to all ports of some nodes."""
    ports = [int(site.node.address.rpartition(":")[2]) for site in sites]
    return carrying([*ports, *(port for site in sites for port in site.ports)])


async def walk(runtime: aiocg.Runtime) -> tuple[Any, ...]:
    """Search with LLVM; return what is found."""
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
    found = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=100))
    return found.reward, found.actions


@pytest.mark.slow
async def test_a_search_leads_where_it_leads_at_home_and_all_nodes_take_part(serve: Serve) -> None:
    async with aiocg.Runtime(workers=2, node="") as here:
        expected = await walk(here)
    async with serve() as one, serve() as two, runtime_on(one, two) as runtime:
        assert await walk(runtime) == expected
        assert runtime.worker_count == 4
        assert loads(runtime) == [2, 2]
        assert {*one.pids(), *two.pids()} == set(runtime.worker_pids())


async def test_blocking_code_and_variables_know_clusters(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as one, serve() as two:
        keys = keys_for(one, two)

        def use() -> int:
            with SyncRuntime(workers=2, cluster=[host_of(one), host_of(two)], keys=keys) as runtime:
                env = runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
                env.reset()
                return int(env.step("double")[0])

        assert await asyncio.to_thread(use) == 10


@pytest.mark.slow
async def test_a_runtime_needs_one_node_that_answers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.node.connection.CONNECT_TIMEOUT", 1.0)
    monkeypatch.setattr(cluster_machine, "CONNECT_TIMEOUT", 1.0)
    async with serve() as one:
        nobody = aiocg.cluster.hosts.Host("tcp://127.0.0.1:9", one.keys.public)
        async with aiocg.Runtime(cluster=[host_of(one), nobody], keys=keys_for(one)) as runtime:
            env = await scripted(runtime)
            assert int((await env.step("increment"))[0]) == 6
            assert sorted(states(runtime).values()) == ["down", "up"]
            await eventually(lambda: runtime.cluster is not None and runtime.cluster.nodes()[1].problem)
        async with aiocg.Runtime(cluster=[nobody], keys=keys_for(one)) as runtime:
            with pytest.raises(NodeUnreachable, match=r"tcp://127.0.0.1:9.*no node has answered"):
                await scripted(runtime)


async def test_a_cluster_refuses_what_a_node_refuses(serve: Serve) -> None:
    async with serve() as one, runtime_on(one, options={"shared_folder": "/"}) as runtime:
        with pytest.raises(WorkerStartError, match="only numbers can be sent to a node"):
            await scripted(runtime)


# ----------------------------------------------------------------------------------------------- lost nodes


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let silent nodes be lost sooner."""
    monkeypatch.setattr(cluster_machine, "PATIENCE", 1.0)


@pytest.mark.usefixtures("quickly")
async def test_environments_of_a_lost_node_go_on_elsewhere_and_return_with_it(serve: Serve) -> None:
    async with serve() as one, serve() as two, line_to(one) as line:
        cluster = [host_of(one, HERE), host_of(two)]
        policy = Policy(max_deaths=1, max_explained_rate=1, max_death_rate=1, max_failed_starts=1)
        async with aiocg.Runtime(cluster=cluster, keys=keys_for(one, two), policy=policy) as runtime:
            envs = [await scripted(runtime, value) for value in range(8)]
            assert loads(runtime) == [2, 2]
            old = set(one.pids())
            for turn in range(2):
                line.hold()
                values = await asyncio.gather(*(env.step("increment") for env in envs))
                assert [int(value[0]) for value in values] == list(range(2 * turn + 1, 2 * turn + 9))
                await eventually(lambda: loads(runtime) == [0, 4])
                line.release()
                await eventually(lambda: loads(runtime) == [2, 2])
                values = await asyncio.gather(*(env.step("increment") for env in envs))
                assert [int(value[0]) for value in values] == list(range(2 * turn + 2, 2 * turn + 10))
            await eventually(lambda: len(one.pids()) == 2 and old.isdisjoint(one.pids()))
            assert len(two.pids()) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
async def test_where_the_others_have_no_room_the_sessions_of_a_lost_node_move_to_their_workers(serve: Serve) -> None:
    async with serve(workers=2) as one, serve(workers=2) as two, line_to(one) as line:
        cluster = [host_of(one, HERE), host_of(two)]
        async with aiocg.Runtime(cluster=cluster, keys=keys_for(one, two)) as runtime:
            envs = [await scripted(runtime, value) for value in range(8)]
            children = [await env.fork() for env in envs]
            line.hold()
            values = await asyncio.gather(*(env.step("increment") for env in [*envs, *children]))
            assert [int(value[0]) for value in values] == [*range(1, 9), *range(1, 9)]
            assert loads(runtime) == [0, 2]
            line.release()
            await eventually(lambda: loads(runtime) == [2, 2] and len(runtime.worker_pids()) == 4)  # no longer refused
            more = [await scripted(runtime, 7) for _ in range(8)]
            (supervisor,) = runtime.supervisors()
            assert min(worker.load_now().sessions for worker in supervisor.workers) == 4
            await asyncio.gather(*(env.step("increment") for env in more))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
async def test_when_all_nodes_are_silent_requests_wait_and_nobody_is_lost(serve: Serve) -> None:
    async with serve() as one, serve() as two, line_to(one, two) as line, runtime_on(one, two, through=HERE) as runtime:
        envs = [await scripted(runtime, value) for value in range(4)]
        pids = set(runtime.worker_pids())
        line.hold()
        steps = asyncio.gather(*(env.step("increment") for env in envs))
        await asyncio.sleep(2.5)
        assert not steps.done()
        line.release()
        assert [int(value[0]) for value in await steps] == [1, 2, 3, 4]
        assert set(runtime.worker_pids()) == pids


@pytest.mark.slow
async def test_when_all_nodes_are_silent_for_too_long_everything_fails(serve: Serve) -> None:
    async with (
        serve() as one,
        serve() as two,
        line_to(one, two) as line,
        runtime_on(one, two, through=HERE, node_timeout=2.0) as runtime,
    ):
        env = await scripted(runtime)
        line.hold()
        with pytest.raises(NodeUnreachable, match="all were silent for 2 s"):
            await env.step("increment")
        with pytest.raises(NodeUnreachable, match="all were silent for 2 s"):
            await scripted(runtime)


async def test_a_worker_that_crashes_is_still_blamed_on_its_request(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one, two) as runtime:
        envs = [await scripted(runtime, value) for value in range(4)]
        _, _, terminated, _, info = await envs[0].step("crash")
        assert terminated and info["error_type"] == "WorkerCrashed"
        values = await asyncio.gather(*(env.step("increment") for env in envs[1:]))
        assert [int(value[0]) for value in values] == [2, 3, 4]
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        values = await asyncio.gather(*(env.step("increment") for env in envs[1:]))
        assert [int(value[0]) for value in values] == [3, 4, 5]


@pytest.mark.slow
async def test_a_full_node_is_passed_over(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(workers=2) as one, serve() as two, one_more(one) as other:
        await scripted(other)
        async with runtime_on(one, two, workers=4) as runtime:
            envs = [await scripted(runtime, value) for value in range(4)]
            values = await asyncio.gather(*(env.step("increment") for env in envs))
            assert [int(value[0]) for value in values] == [1, 2, 3, 4]
            await eventually(lambda: loads(runtime) == [1, 3])


def one_more(site: Any) -> aiocg.Runtime:
    """Return a runtime with one worker of the same key."""
    return runtime_on(site, workers=1)


async def test_a_runtime_for_which_no_node_has_room_says_why(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_machine, "FULL_TIMEOUT", 0.0)
    async with serve(workers=1) as one, one_more(one) as other:
        await scripted(other)
        async with runtime_on(one) as runtime:
            with pytest.raises(NoRoom, match="this key already has its maximum of 1 workers on the node"):
                await scripted(runtime)


# --------------------------------------------------------------------------------------------- coming and going


async def test_nodes_join_and_leave_in_the_middle(serve: Serve) -> None:
    async with serve() as one, serve() as two, runtime_on(one) as runtime:
        keys_for(one, two)
        envs = [await scripted(runtime, value) for value in range(6)]
        (supervisor,) = runtime.supervisors()
        assert runtime.worker_count == 2 and runtime.cluster is not None
        runtime.cluster.add(host_of(two))
        await eventually(lambda: loads(runtime) == [2, 2])
        assert runtime.worker_count == 4
        more = [await scripted(runtime, value) for value in range(6, 12)]
        counts = Counter(worker.load_now().sessions for worker in supervisor.workers)
        assert counts == {3: 4}
        runtime.cluster.remove(host_of(one).address)
        steps = [asyncio.create_task(env.step("increment")) for env in [*envs, *more]]
        assert [int((await step)[0]) for step in steps] == list(range(1, 13))
        await eventually(lambda: loads(runtime) == [2])
        await eventually(lambda: one.node.leases.leases == {})
        assert runtime.worker_count == 2
        values = await asyncio.gather(*(env.step("increment") for env in [*envs, *more]))
        assert [int(value[0]) for value in values] == list(range(2, 14))
        with pytest.raises(NodeUnreachable, match="the cluster has only"):
            runtime.cluster.remove(host_of(one).address)
        runtime.cluster.add(host_of(one))
        await eventually(lambda: loads(runtime) == [2, 2])


@pytest.mark.slow
async def test_a_file_of_nodes_is_followed(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"

    def write(*sites: Any) -> None:
        path.with_suffix(".new").write_text(
            "".join(f"[[node]]\naddress = {site.node.address!r}\nkey = {site.keys.public!r}\n" for site in sites)
        )
        path.with_suffix(".new").rename(path)

    async with serve() as one, serve() as two:
        write(one)
        async with aiocg.Runtime(cluster=f"file:{path}", keys=keys_for(one, two)) as runtime:
            env = await scripted(runtime)
            assert loads(runtime) == [2]
            write(one, two)
            await eventually(lambda: loads(runtime) == [2, 2])
            write(two)
            await eventually(lambda: loads(runtime) == [2])
            assert int((await env.step("increment"))[0]) == 6


async def test_a_node_with_fewer_workers_in_the_file_runs_fewer(serve: Serve) -> None:
    async with serve() as one, runtime_on(one) as runtime:
        await scripted(runtime)
        assert runtime.cluster is not None
        runtime.cluster.add(host_of(one, workers=1))
        await eventually(lambda: loads(runtime) == [1])
        runtime.cluster.add(host_of(one, workers=3))
        await eventually(lambda: loads(runtime) == [3])
