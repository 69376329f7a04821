"""A Ray cluster whose machines come and go, and nodes on it that stand for several programs. A script."""

import asyncio
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import ray
from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
from ray.cluster_utils import Cluster
from ray.experimental.internal_kv import _internal_kv_get

import aiocg
import aiocg.testing
from aiocg.cluster import _membership as membership
from aiocg.cluster import machine as cluster_machine
from aiocg.cluster import ray_actors

STORE = 80 << 20  # bytes; Ray's least


async def eventually(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def asked_for() -> int:
    """Return for how many machines Ray's autoscaler was asked."""
    return len(json.loads(_internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL) or b"[]"))


async def counting(runtime: aiocg.Runtime, count: int) -> list[aiocg.Env]:
    envs = [
        await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(value)) for value in range(count)
    ]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


async def growing(machines: Cluster) -> None:
    """A deep queue asks for a machine, which is used when it comes, and is given back when there is nothing to do."""
    membership.GROW_AFTER, membership.SHRINK_AFTER, cluster_machine.RAY_INTERVAL = 1.0, 4.0, 0.5
    async with aiocg.Runtime(cluster="ray") as runtime:
        envs = await counting(runtime, 40)
        assert runtime.cluster is not None
        over = asyncio.Event()

        async def work() -> None:
            while not over.is_set():
                await asyncio.gather(*(env.step("nap") for env in envs))

        task = asyncio.create_task(work())
        assert asked_for() == 0  # nobody needs more machines yet
        await eventually(lambda: asked_for() == 2)
        print("ok: a deep queue asks Ray's autoscaler for a machine", flush=True)
        added = machines.add_node(num_cpus=1, object_store_memory=STORE)
        await eventually(lambda: [node.workers for node in runtime.cluster.nodes()] == [2, 1])
        print("ok: a machine that comes is used in the middle of the work", flush=True)
        over.set()
        await task
        await eventually(lambda: len(runtime.cluster.nodes()) == 1 and asked_for() == 1)
        values = await asyncio.gather(*(env.observe("value") for env in envs))
        assert len({int(value) - start for start, value in enumerate(values)}) == 1
        print("ok: it is given back when there is nothing to do, and nothing is lost", flush=True)
        machines.remove_node(added)


@ray.remote(num_cpus=0)
class Program:
    """Another program on the Ray cluster, such as an environment runner."""

    def step(self) -> tuple[int, list[str]]:
        from aiocg.gym import SyncRuntime

        os.environ["AIOCG_KEYS"] = "/nowhere"  # a program needs no keys of its own
        with SyncRuntime(cluster="ray", workers=1) as runtime:
            env = runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
            env.reset()
            value = int(env.step("double")[0])
            return value, [node.address for node in runtime.runtime.cluster.nodes()]


def standing(address: str) -> None:
    """Nodes stand for several programs at once, which need no key, and do not take them down."""
    assert ray_actors.up(address, processors=1) == 1
    assert ray_actors.up(address) == 0  # it stands already
    programs = [Program.remote() for _ in range(2)]
    said = ray.get([program.step.remote() for program in programs], timeout=120)
    assert [value for value, _ in said] == [10, 10]
    assert said[0][1] == said[1][1] and len(said[0][1]) == 1
    assert ray.get(programs[0].step.remote(), timeout=120) == said[0]
    print("ok: nodes stand for several programs at once", flush=True)
    if find_spec("pandas"):
        trials()
    assert ray_actors.down(address) == 1 and ray_actors.down(address) == 0
    assert not ray_actors.standing()
    print("ok: nothing stands any more", flush=True)


def search(settings: dict[str, int]) -> dict[str, float]:
    """A trial of Ray Tune."""
    from aiocg.gym import SyncRuntime

    with SyncRuntime(cluster="ray", workers=1) as runtime:
        env = runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        env.reset()
        for _ in range(settings["passes"]):
            env.step("mem2reg")
        return {"reward": env.episode_reward, "nodes": len(runtime.runtime.cluster.nodes())}


def trials() -> None:
    """Trials of Ray Tune use the nodes that stand."""
    from ray import tune

    tuner = tune.Tuner(
        tune.with_resources(search, {"cpu": 0.5}),
        param_space={"passes": tune.grid_search([0, 1])},
        tune_config=tune.TuneConfig(max_concurrent_trials=2),
        run_config=tune.RunConfig(verbose=0, storage_path=os.environ["RAY_TMPDIR"]),
    )
    found = sorted(tuner.fit(), key=lambda result: result.config["passes"])
    assert all(result.metrics["nodes"] == 1 for result in found), [result.error for result in found]
    assert found[0].metrics["reward"] == 0 < found[1].metrics["reward"]
    print("ok: trials of Ray Tune use them", flush=True)


def main() -> None:
    machines = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False}
    )
    try:
        ray.init(machines.address, log_to_driver=False)
        asyncio.run(growing(machines))
        standing("ray")
    finally:
        ray.shutdown()
        machines.shutdown()


if __name__ == "__main__":
    main()
