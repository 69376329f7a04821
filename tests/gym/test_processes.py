"""Environments and processes: forks, spawned children, running loops; and that no end of any kind leaves a trace."""

import sys
from typing import Any

import pytest

START = """
import os, sys, threading
import gymnasium
import aiocg.gym
env = gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd")
env.reset(seed=1)
env.step("mem2reg")
"""

FORK = """
state = env.state_hash
child = os.fork()
if child == 0:
    assert env.state_hash == state and env.actions
    env.step("gvn")  # works, on workers of this process
    fresh = gymnasium.make("llvm-ic-v0", benchmark="programs-v0/gcd")
    fresh.reset()
    fresh.step("mem2reg")
    sys.exit(len(env.action_texts))
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 2, status
pids = env.runtime.worker_pids()
child = os.fork()
if child == 0:
    import gc
    del env
    gc.collect()
    sys.exit(0)  # without having used anything
os.waitpid(child, 0)
env.step("gvn")
assert env.runtime.worker_pids() == pids, "the child's end reached our workers"
with aiocg.gym.SyncRuntime(workers=1) as runtime:
    runtime.make("llvm-v0", benchmark="programs-v0/gcd").reset()
    child = os.fork()
    if child == 0:
        try:
            runtime.make("llvm-v0")
        except aiocg.gym.ForkedProcess as error:
            assert error.owner == os.getppid()
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("done")
"""

BUSY = """
import signal

stop = False

def spin():
    while not stop:
        env.step("gvn")
        env.fork().close()
        gymnasium.make("llvm-v0", benchmark="programs-v0/gcd").close()

threads = [threading.Thread(target=spin) for _ in range(3)]
[thread.start() for thread in threads]
for number in range(2):
    child = os.fork()  # whatever the other threads are doing, they do not do it there
    if child == 0:
        signal.alarm(30)
        fresh = gymnasium.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        fresh.reset()
        assert fresh.step("mem2reg")[1] > 0
        env.reset()
        assert env.step("mem2reg")[1] > 0
        (sys.exit if number % 2 else os._exit)(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
stop = True
[thread.join() for thread in threads]
print("done")
"""

LOADING = """
import signal
from aiocg.datasets.benchmark import Benchmark

began, go_on = threading.Event(), threading.Event()

def load():
    began.set()
    go_on.wait()
    return content

content = env.benchmark.content
slow = Benchmark("benchmark://user-v0/slow", load)
runtime = aiocg.gym.SyncRuntime(workers=1)
thread = threading.Thread(target=lambda: env.reset(benchmark=slow))
thread.start()
began.wait()
runtime._lock.__enter__()  # as if another thread were about to start it
child = os.fork()
if child == 0:
    signal.alarm(30)
    go_on.set()
    fresh = runtime.make("llvm-ic-v0", benchmark=slow)  # which is being loaded in the other process
    fresh.reset()
    assert fresh.step("mem2reg")[1] > 0
    runtime.close()
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
runtime._lock.__exit__()
go_on.set()
thread.join()
print("done")
"""

SPAWN = """
import multiprocessing

def work(env):
    env.step("gvn")
    return env.state_hash, env.episode_reward

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(work, (env,))
        pool.close()
        pool.join()
    env.step("gvn")
    assert found == (env.state_hash, env.episode_reward), found
    print("done")
"""

LOOP = """
import asyncio

async def cell():  # as in a notebook, where a loop runs already
    env.step("gvn")
    async with aiocg.Runtime(workers=1) as runtime:
        other = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await other.reset()
        await other.step(["mem2reg", "gvn"])
        assert other.state_hash == env.state_hash

asyncio.run(cell())
threads = [threading.Thread(target=lambda: env.fork().step("dce")) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
made = []
maker = threading.Thread(target=lambda: made.append(gymnasium.make("llvm-v0", benchmark="programs-v0/gcd")))
maker.start()
maker.join()  # the thread that made it is gone
made[0].reset()
made[0].step("mem2reg")
print("done")
"""

VECTORS = """
make = lambda: gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd")
if __name__ == "__main__":
    for cls in (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv):
        envs = cls([make, make])
        observations, _ = envs.reset(seed=1)
        assert observations.shape == (2, 56)
        _, rewards, *_, infos = envs.step([env.action_space.names.index("mem2reg")] * 2)
        assert rewards[0] == rewards[1] > 0 and infos["state"].dtype == "uint64"
        envs.close()
    print("done")
"""


SCRIPTS = {"fork": FORK, "busy": BUSY, "loading": LOADING, "spawn": SPAWN, "loop": LOOP, "vectors": VECTORS}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_environment_works_there_and_leaves_nothing(script: str, place: Any) -> None:
    path = place.folder / "script.py"
    guard = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in START.splitlines())
    path.write_text((guard.replace("    import", "    import") if script == SPAWN else START) + script)
    done = place.run(sys.executable, "-P", str(path), timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert place.remains() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('mine')", 1, "ValueError: mine"),
        ("os.kill(os.getpid(), 15)", -15, ""),
        ("os.kill(os.getpid(), 9)", -9, ""),
        ("os._exit(4)", 4, ""),
        ("env.runtime.close(); env.step(0)", 1, "RuntimeClosed"),
        ("del env", 0, ""),
    ],
)
def test_nothing_is_left_however_it_ends(ending: str, status: int, said: str, place: Any) -> None:
    done = place.run(sys.executable, "-P", "-c", f"{START}\n{ending}", timeout=60)
    assert done.returncode == status, done.stderr
    assert said in done.stderr if said else done.stderr == ""
    assert place.remains() == []


@pytest.mark.slow
def test_interrupt_that_does_not_wake_the_waiting_thread_ends_it_as_well(place: Any) -> None:
    # As when the signal comes between the last look for signals and the wait; here another thread receives it.
    script = f"{START}\nimport signal\nimport aiocg.testing\naiocg.gym.register_all()\n" + (
        "env = gymnasium.make('scripted-v0')\nenv.reset()\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nenv.step('hang')"
    )
    done = place.run(sys.executable, "-P", "-c", script, timeout=60)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert place.remains() == []
