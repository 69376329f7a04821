"""Processes that share a nursery have workers of their own, forked from it, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

import aiocg.gym
from aiocg.errors import UnknownName
from aiocg.gym import SyncRuntime
from aiocg.host.nursery import VARIABLE
from aiocg.testing import scripted_benchmark


def begun(runtime: SyncRuntime) -> tuple[Any, int, int]:
    """Return an environment in an episode, the process id of its only worker, and that of the worker's parent."""
    env = runtime.make("scripted-v0", benchmark=scripted_benchmark(1))
    env.reset()
    (pid,) = runtime.worker_pids()
    return env, pid, psutil.Process(pid).ppid()


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for a generous time."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def runtimes() -> Iterator[list[SyncRuntime]]:
    """As two processes have them."""
    found = [SyncRuntime(), SyncRuntime()]
    yield found
    for one in found:
        one.close()


def test_each_has_one_worker_and_all_have_one_parent(runtimes: list[SyncRuntime]) -> None:
    with aiocg.gym.shared_nursery("scripted-v0"):
        (one, first, parent), (other, second, same) = map(begun, runtimes)
        assert first != second and parent == same and psutil.Process(parent).ppid() == os.getpid()
        os.kill(first, signal.SIGKILL)
        assert one.step("increment")[0] == 2  # by a worker in its place
        (again,) = runtimes[0].worker_pids()
        assert again != first and psutil.Process(again).ppid() == parent
        runtimes[0].close()
        eventually(lambda: gone(again))
        assert other.step("increment")[0] == 2 and runtimes[1].worker_pids() == [second]
    assert VARIABLE not in os.environ


def test_when_the_nursery_has_ended_a_process_has_its_own(runtimes: list[SyncRuntime]) -> None:
    with aiocg.gym.shared_nursery("scripted-v0"):
        env, _, shared = begun(runtimes[0])
    assert gone(shared)
    assert env.step("increment")[0] == 2
    (pid,) = runtimes[0].worker_pids()
    assert psutil.Process(pid).ppid() not in (shared, os.getpid())


@pytest.mark.slow
def test_a_nursery_within_another_one_and_workers_with_other_options_are_by_themselves(
    runtimes: list[SyncRuntime],
) -> None:
    with aiocg.gym.shared_nursery("scripted-v0"):
        outer = begun(runtimes[0])[2]
        with aiocg.gym.shared_nursery("scripted-v0"):
            assert begun(runtimes[1])[2] != outer
        with SyncRuntime(options={"other": 1}) as different:
            assert begun(different)[2] != outer


def test_an_environment_that_there_is_not_is_named() -> None:
    with pytest.raises(UnknownName, match="skripted"), aiocg.gym.shared_nursery("skripted-v0"):
        pass
    assert VARIABLE not in os.environ


GUEST = """
import json, sys
import aiocg.gym
from aiocg.testing import scripted_benchmark
runtime = aiocg.gym.default_runtime()
env = runtime.make("scripted-v0", benchmark=scripted_benchmark(1))
env.reset()
print(json.dumps(runtime.worker_pids()), flush=True)
sys.stdin.read()
"""
OWNER = """
import subprocess, sys
import aiocg.gym, aiocg.testing
with aiocg.gym.shared_nursery("scripted-v0"):
    guest = subprocess.Popen([sys.executable, "-P", "-c", sys.argv[1]], stdin=subprocess.PIPE)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_and_the_others_go_on(place: Any, runtimes: list[SyncRuntime]) -> None:
    with aiocg.gym.shared_nursery("scripted-v0"):
        env, _, parent = begun(runtimes[0])
        place.environment[VARIABLE] = os.environ[VARIABLE]
        with place.start(sys.executable, "-P", "-c", GUEST, stdin=subprocess.PIPE) as guest:
            (pid,) = json.loads(guest.stdout.readline())
            assert psutil.Process(pid).ppid() == parent
            guest.kill()
        eventually(lambda: gone(pid))
        assert place.remains() == []
        assert env.step("increment")[0] == 2


@pytest.mark.slow
def test_when_its_owner_is_killed_nothing_is_left(place: Any) -> None:
    with place.start(sys.executable, "-P", "-c", OWNER, GUEST, stdin=subprocess.PIPE) as owner:
        (pid,) = json.loads(owner.stdout.readline())
        parent = psutil.Process(pid).ppid()
        owner.kill()
    eventually(lambda: gone(pid) and gone(parent))
    assert place.remains() == []
