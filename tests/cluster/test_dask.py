"""A plugin for the workers of Dask: on two of them here, alone and with nodes. Needs `pip install distributed`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from aiocg.cluster.hosts import write_hosts
from aiocg.errors import AiocgError
from aiocg.gym.dask import RuntimePlugin, runtime

from .conftest import Nodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def episode(uri: str, actions: list[str]) -> tuple[float, int, list[int]]:
    """Return the reward of an episode, and the processes that took part."""
    import os

    env = runtime().make("llvm-ic-v0", benchmark=uri)
    env.reset()
    env.step([env.action_space.names.index(action) for action in actions])
    reward = float(env.episode_reward)
    env.close()
    return reward, os.getpid(), runtime().runtime.worker_pids()


def where() -> list[str]:
    """Return the nodes of the worker's runtime."""
    made = runtime()
    made.make("llvm-ic-v0", benchmark="programs-v0/gcd").reset()
    assert made.runtime.cluster is not None
    return [node.address for node in made.runtime.cluster.nodes()]


async def run_in_dask(use: Callable[[Client], Any]) -> Any:
    def run() -> Any:
        with (
            LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            return use(client)

    return await asyncio.to_thread(run)


async def test_tasks_share_the_runtime_of_their_worker_and_nothing_is_left() -> None:
    actions = ["sroa", "instcombine", "simplifycfg"]

    def use(client: Client) -> list[tuple[float, int, list[int]]]:
        with pytest.raises(AiocgError, match="register_plugin"):
            client.submit(where).result()
        client.register_plugin(RuntimePlugin(workers=1, node=""))
        uris = ["programs-v0/gcd", "programs-v0/qsort"] * 4
        found: list[tuple[float, int, list[int]]] = client.gather(
            [client.submit(episode, uri, actions, pure=False) for uri in uris]
        )
        return found

    found = await run_in_dask(use)
    assert len({reward for reward, _, _ in found}) == 2 and all(reward > 0 for reward, _, _ in found)
    assert [reward for reward, _, _ in found] == [found[0][0], found[1][0]] * 4
    workers = {dask: pids for _, dask, pids in found}
    assert len(workers) == 2 and all(len(pids) == 1 for pids in workers.values())
    assert not any(psutil.pid_exists(pid) for pids in workers.values() for pid in pids)


async def test_tasks_use_the_nodes_of_a_cluster(
    nodes: Callable[..., Nodes], place: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    two = nodes(2)
    write_hosts(tmp_path / "hosts.toml", two.hosts)
    monkeypatch.setenv("AIOCG_KEYS", place.environment["AIOCG_KEYS"])

    def use(client: Client) -> Any:
        client.register_plugin(RuntimePlugin(workers=1, cluster=f"file:{tmp_path}/hosts.toml"))
        return client.run(lambda: None) and client.gather([client.submit(where, pure=False) for _ in range(2)])

    assert [sorted(found) for found in await run_in_dask(use)] == [sorted(host.address for host in two.hosts)] * 2


def test_keys_do_not_travel() -> None:
    with pytest.raises(ValueError, match="keys do not travel"):
        RuntimePlugin(keys=object())
