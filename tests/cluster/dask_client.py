"""A program on two workers of Dask here, with a file of nodes or without (""). A script.

dask_client.py HOSTS.TOML
"""

import os
import sys

import psutil
from distributed import Client, LocalCluster

from aiocg.errors import AiocgError
from aiocg.gym.dask import RuntimePlugin, runtime

ACTIONS = ("sroa", "instcombine", "simplifycfg")


def episode(uri: str) -> tuple[float, int, list[int]]:
    """Return the reward of an episode, the process of Dask's worker, and those of the compilers."""
    env = runtime().make("llvm-ic-v0", benchmark=uri)
    env.reset()
    for action in ACTIONS:
        env.step(action)
    reward = float(env.episode_reward)
    env.close()
    return reward, os.getpid(), runtime().runtime.worker_pids()


def where() -> list[str]:
    """Return the nodes of the runtime of Dask's worker."""
    made = runtime()
    made.make("llvm-ic-v0", benchmark="programs-v0/gcd").reset()
    assert made.runtime.cluster is not None
    return sorted(node.address for node in made.runtime.cluster.nodes())


def alone(client: Client) -> list[int]:
    """Have episodes run beside Dask's workers; return the processes of the compilers."""
    try:
        client.submit(where).result()
    except AiocgError as error:
        print("ok: without the plugin there is a message:", "register_plugin" in str(error), flush=True)
    client.register_plugin(RuntimePlugin(workers=1, node=""))
    uris = ["programs-v0/gcd", "programs-v0/qsort"] * 4
    found = client.gather([client.submit(episode, uri, pure=False) for uri in uris])
    rewards = [reward for reward, _, _ in found]
    assert rewards == rewards[:2] * 4 and rewards[0] != rewards[1] and min(rewards) > 0, rewards
    compilers = {worker: pids for _, worker, pids in found}
    assert len(compilers) == 2 and all(len(pids) == 1 for pids in compilers.values()), compilers
    print("ok: the tasks of a worker share its runtime", flush=True)
    return [pid for pids in compilers.values() for pid in pids]


def main() -> None:
    """Do as the argument says."""
    hosts, left = sys.argv[1], []
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        if hosts:
            client.register_plugin(RuntimePlugin(workers=1, cluster=f"file:{hosts}"))
            found = client.gather([client.submit(where, pure=False) for _ in range(4)])
            assert all(one == found[0] for one in found) and len(found[0]) == 2, found
            print("ok: they use the nodes", flush=True)
        else:
            left = [psutil.Process(pid) for pid in alone(client)]
    assert not psutil.wait_procs(left, timeout=60)[1]
    print("ok: nothing is left", flush=True)


if __name__ == "__main__":
    main()
