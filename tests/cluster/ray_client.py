"""A client on a Ray cluster, which kills the node of that. A script."""

import asyncio
import contextlib

import psutil
import ray

import aiocg


async def greedy(runtime: aiocg.Runtime) -> tuple[object, ...]:
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
    found = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=200))
    return found.reward, found.actions


def actors() -> list[psutil.Process]:
    """Return the processes that hold a node."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it is gone
            if "RayNode" in " ".join(one.cmdline()):
                found.append(one)
    return found


async def main() -> None:
    async with aiocg.Runtime(workers=1, node="") as here:
        expected = await greedy(here)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    async with aiocg.Runtime(cluster="ray") as runtime:
        assert await greedy(runtime) == expected
        print("ok: a search finds what it finds at home", flush=True)
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        await env.step(["sroa", "instcombine"])
        state = env.state_hash
        (actor,) = actors()
        secret = runtime.cluster._keys.own.secret
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                assert secret not in str(process.environ())
        print("ok: no key is in the environment of Ray's processes", flush=True)
        left = [actor, *(psutil.Process(pid) for pid in runtime.worker_pids())]
        actor.kill()
        assert not psutil.wait_procs(left, timeout=60)[1]  # the workers end with their node
        await env.step("simplifycfg")
        child = await env.fork()
        assert child.state_hash == env.state_hash != state
        assert actors() and actors()[0].pid != actor.pid
        print("ok: the environment goes on with the next node", flush=True)
    assert not psutil.wait_procs(actors(), timeout=60)[1]
    print("ok: nothing of the node is left", flush=True)
    ray.shutdown()


asyncio.run(main())
