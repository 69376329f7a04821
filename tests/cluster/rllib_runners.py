"""Environment runners of RLlib on a Ray cluster, which use the nodes that stand there. A script."""

import asyncio
import contextlib
import math
import os
from typing import Any

import gymnasium
import numpy as np
import psutil
import ray
from ray import tune
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.ppo import PPOConfig

from aiocg.cluster import ray_actors
from aiocg.cluster.ray import RayNodes
from aiocg.cluster.survey import Watch
from aiocg.gym import SyncRuntime
from aiocg.transport.security import ClientSecurity, KeyPair

STORE = 80 << 20  # bytes; Ray's least
RUNNERS, STEPS = 2, 60


def make(settings: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment in a process of an environment runner, as docs/cluster.md has it."""
    runtime = SyncRuntime(cluster="ray", workers=2)
    env: gymnasium.Env[Any, Any] = runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd")
    env = gymnasium.wrappers.DtypeObservation(env, np.float32)
    return gymnasium.wrappers.TimeLimit(env, 15)


async def requests() -> list[int]:
    """Return how many requests each node that stands has answered."""
    pair = KeyPair.generate()
    nodes = RayNodes("ray", pair.public, only_standing=True)
    hosts = await nodes.start()
    async with Watch(hosts, ClientSecurity(pair, pair.public)) as watch:
        reports = await watch.look()
    await nodes.close()
    return [report.said.requests for report in reports if report.said is not None]


def kill_a_node() -> None:
    """Kill the process of an actor that holds a node, and with it the workers there."""
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "RayNode" in " ".join(one.cmdline()) and one.environ().get("RAY_TMPDIR") == os.environ["RAY_TMPDIR"]:
                one.kill()
                return
    raise AssertionError("no actor holds a node")


def main() -> None:
    machines = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 3, "object_store_memory": STORE, "include_dashboard": False}
    )
    machines.add_node(num_cpus=1, object_store_memory=STORE)
    try:
        ray.init(machines.address, log_to_driver=False)
        assert ray_actors.up("ray", processors=1) == 2
        tune.register_env("compiler", make)
        algorithm = (
            PPOConfig()
            .environment("compiler")
            .env_runners(num_env_runners=RUNNERS)
            .training(train_batch_size_per_learner=STEPS, minibatch_size=30, num_epochs=1)
            .build_algo()
        )
        told = algorithm.train()["env_runners"]
        assert told["num_env_steps_sampled"] >= STEPS and math.isfinite(told["episode_return_mean"])
        served = asyncio.run(requests())
        assert len(served) == 2 and sum(served) >= STEPS, served
        print("ok: environment runners of RLlib use the nodes that stand", flush=True)
        kill_a_node()
        told = algorithm.train()["env_runners"]
        assert told["num_env_steps_sampled"] >= STEPS and math.isfinite(told["episode_return_mean"])
        assert algorithm.env_runner_group.num_healthy_remote_workers() == RUNNERS
        assert algorithm.env_runner_group.num_remote_worker_restarts() == 0
        print("ok: none of them notices that a node is lost", flush=True)
        algorithm.stop()
        assert ray_actors.down("ray") == 2
    finally:
        ray.shutdown()
        machines.shutdown()


if __name__ == "__main__":
    main()
