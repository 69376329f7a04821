"""What has succeeded before is tried again: sessions outlive crashes that happen while they are only being rebuilt."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import Quarantined, WorkerCrashed
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark
from aiocg.workers.scripted import UNLISTED


@pytest.fixture
async def alone() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with one worker, so that all sessions share what happens to it."""
    async with aiocg.Runtime(workers=1, policy=Policy(first_delay=0.01, max_delay=0.1)) as runtime, asyncio.timeout(60):
        yield runtime


class Stones:
    """A folder with stones, over each of which a worker stumbles once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lay(self, count: int) -> None:
        for number in range(count):
            (self.folder / str(number)).touch()

    @property
    def left(self) -> int:
        return len(list(self.folder.iterdir()))


@pytest.fixture
def stones(tmp_path: Path) -> Stones:
    return Stones(tmp_path)


def program(number: int, stones: Stones) -> Benchmark:
    """A program whose loading stumbles."""
    content = f"{number} stones {stones.folder}"
    return Benchmark.from_file_contents(f"benchmark://scripted-v0/{number}-stones", content.encode())


async def made(runtime: aiocg.Runtime, *programs: Benchmark) -> list[aiocg.Env]:
    envs = [await runtime.make("scripted-v0", benchmark=one, extra_actions=tuple(UNLISTED)) for one in programs]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


def kill(runtime: aiocg.Runtime) -> None:
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)


async def test_a_replay_that_crashes_is_tried_four_times_more(alone: aiocg.Runtime, stones: Stones) -> None:
    one, other = await made(alone, scripted_benchmark(5), scripted_benchmark(7))
    await one.send_parameter("stones", str(stones.folder))
    await one.step(["stumble", "double"])
    stones.lay(4)
    kill(alone)
    results = await asyncio.gather(one.step("double"), other.step("double"))
    assert [(value, ended) for value, _, ended, _, _ in results] == [(24, False), (14, False)]
    assert stones.left == 0


async def test_a_replay_that_crashes_every_time_ends_its_session_and_no_other(
    alone: aiocg.Runtime, stones: Stones
) -> None:
    one, other = await made(alone, scripted_benchmark(5), scripted_benchmark(5))
    await one.send_parameter("stones", str(stones.folder))
    await one.step("stumble")
    stones.lay(10)
    kill(alone)
    (_, _, ended, _, info), (value, _, unharmed, _, _) = await asyncio.gather(one.step("double"), other.step("double"))
    assert ended and "the replay of a session" in info["error_details"] and stones.left == 5
    assert (value, unharmed) == (10, False)


async def test_tries_count_anew_once_a_session_was_rebuilt(alone: aiocg.Runtime, stones: Stones) -> None:
    (env,) = await made(alone, scripted_benchmark(5))
    await env.send_parameter("stones", str(stones.folder))
    await env.step("stumble")
    for turn in range(3):
        stones.lay(4)
        kill(alone)
        assert (await env.step("increment"))[0] == 7 + turn


async def test_a_program_that_was_loaded_before_is_loaded_again_after_four_crashes(
    alone: aiocg.Runtime, stones: Stones
) -> None:
    envs = await made(alone, *[program(5, stones)] * 3)
    stones.lay(4)
    kill(alone)
    results = await asyncio.gather(*(env.step("double") for env in envs))
    assert [(value, ended) for value, _, ended, _, _ in results] == [(10, False)] * 3
    stones.lay(4)
    kill(alone)
    assert [value for value, _ in await asyncio.gather(*(env.reset() for env in envs))] == [5] * 3


async def test_crashes_of_a_program_that_was_loaded_before_end_one_session_at_a_time(
    alone: aiocg.Runtime, stones: Stones
) -> None:
    envs = await made(alone, *[program(5, stones)] * 4)
    stones.lay(17)  # they take turns, so that each of the others has been tried four times by then
    kill(alone)
    results = await asyncio.gather(*(env.step("double") for env in envs))
    assert sorted(ended for _, _, ended, _, _ in results) == [False] * 3 + [True]


@pytest.mark.parametrize("crashes", [1, 2])
async def test_a_program_that_crashes_when_it_is_first_loaded_is_tried_twice_for_all(
    alone: aiocg.Runtime, stones: Stones, crashes: int
) -> None:
    envs = [
        await alone.make("scripted-v0", benchmark=program(5, stones), extra_actions=tuple(UNLISTED)) for _ in range(4)
    ]
    stones.lay(crashes)
    results = await asyncio.gather(*(env.reset() for env in envs), return_exceptions=True)
    ended = [result for result in results if isinstance(result, (WorkerCrashed, Quarantined))]
    assert len(ended) == (0 if crashes == 1 else 4) and not stones.left
    if not ended:
        assert [result[0] for result in results if not isinstance(result, BaseException)] == [5] * 4


async def test_what_is_sent_behind_a_reset_that_fails_finds_the_old_state_on_a_new_process(
    alone: aiocg.Runtime,
) -> None:
    env = await alone.make("scripted-v0", benchmark=scripted_benchmark(5), action_space="Texts")
    await env.reset()
    await env.step("add<1>")
    kill(alone)
    other = await alone.make("scripted-v0", benchmark=scripted_benchmark(5))
    await other.reset()  # the new process is there, and does not know the first environment yet
    reset = env.begin(scripted_benchmark("no number"))
    steps = [env.submit("add<10>"), env.submit("add<100>")]
    with pytest.raises(BenchmarkInitError):
        await reset
    later = env.submit("add<1000>")
    results = await asyncio.gather(*steps, later)
    assert [info.get("error") for *_, info in results] == [None] * 3
    assert await env.observe("value") == 1116
    assert env.action_texts == ("add<1>", "add<10>", "add<100>", "add<1000>")
