"""What becomes of environments when their compiler crashes, hangs, or is killed."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError
from aiocg.errors import RuntimeClosed, WorkerCrashed, WorkerStartError
from aiocg.fleet.restart_policy import Policy
from aiocg.registry import EnvironmentSpec, register
from aiocg.testing import scripted_benchmark

CRASH_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


async def several(runtime: aiocg.Runtime, count: int) -> list[aiocg.Env]:
    envs = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(i + 2)) for i in range(count)]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


@pytest.mark.parametrize(("action", "cause"), [("abort", "SIGABRT"), ("crash", "SIGSEGV"), ("exit", "exit status 3")])
async def test_a_crash_ends_only_the_session_that_crashed(runtime: aiocg.Runtime, action: str, cause: str) -> None:
    envs = await several(runtime, 6)
    for env in envs:
        await env.step(["square", "increment"])
    before = [env.state_hash for env in envs]
    queued = [env.submit("double") for env in envs[1:]]
    _, _, terminated, _, info = await envs[0].step(action)
    assert terminated and info["error_type"] == "WorkerCrashed" and cause in info["error_details"]
    assert info["error"].cause.endswith(cause)
    assert [(await future)[0] for future in queued] == [2 * value for value in before[1:]]
    assert (await envs[0].reset())[0] == 2
    assert (await envs[0].step("double"))[0] == 4


async def test_the_last_words_of_the_compiler_are_in_the_error(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    info = (await env.step("abort"))[4]
    assert "aborting, as asked" in info["error_details"]


async def test_an_overrun_deadline_ends_the_session_and_no_other(runtime: aiocg.Runtime) -> None:
    envs = await several(runtime, 4)
    hanging = envs[0].submit("hang", timeout=0.3)
    others = [env.submit("increment") for env in envs[1:]]
    _, _, terminated, _, info = await hanging
    assert terminated and info["error_type"] == "DeadlineExceeded" and info["error"].timeout == pytest.approx(0.3)
    assert isinstance(info["error"], TimeoutError)
    assert [(await future)[0] for future in others] == [4, 5, 6]


async def test_time_in_the_queue_does_not_count(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    naps = [env.submit("nap") for _ in range(60)]
    assert (await env.step("double", timeout=0.4))[0] == 124 and all(nap.done() for nap in naps)


async def test_a_kill_from_outside_is_not_noticed(runtime: aiocg.Runtime) -> None:
    envs = await several(runtime, 6)
    futures = [env.submit("nap") for env in envs for _ in range(10)]
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    results = [await future for future in futures]
    assert not any(terminated for _, _, terminated, _, _ in results)
    assert [await env.observe("value") for env in envs] == [12 + i for i in range(6)]


@pytest.mark.usefixtures("how_they_start")
async def test_crash_signals_from_outside_do_nothing() -> None:
    async with aiocg.Runtime(workers=2) as runtime:
        envs = await several(runtime, 6)
        pids = runtime.worker_pids()
        parents = {psutil.Process(pid).ppid() for pid in pids} - {os.getpid()}
        futures = [env.submit("nap") for env in envs for _ in range(10)]
        while not all(future.done() for future in futures):
            for pid, number in itertools.product([*pids, *parents], CRASH_SIGNALS):
                os.kill(pid, number)
            await asyncio.sleep(0.01)
        assert not any([(await future)[2] for future in futures])
        assert runtime.worker_pids() == pids
        *_, terminated, _, info = await envs[0].step("crash")
        assert terminated and "SIGSEGV" in info["error_details"]


async def test_a_worker_that_is_killed_every_time_is_blamed_in_the_end(runtime: aiocg.Runtime, kill_until_done) -> None:  # type: ignore[no-untyped-def]
    (env,) = await several(runtime, 1)
    hanging = env.submit("hang")
    assert await kill_until_done(runtime, hanging) > 1
    _, _, terminated, _, info = await hanging
    assert terminated and "SIGKILL" in info["error_details"]


async def test_a_stopped_worker_is_replaced() -> None:
    async with aiocg.Runtime(workers=2, policy=Policy(stall_timeout=0.5, first_delay=0.01)) as runtime:
        envs = await several(runtime, 4)
        for pid in runtime.worker_pids():
            os.kill(pid, signal.SIGSTOP)
        results = await asyncio.gather(*(env.step("double", timeout=0.2) for env in envs))
        assert [observation for observation, *_ in results] == [4, 6, 8, 10]


async def test_snapshots_and_forks_survive(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    await env.step("square")
    snapshot = await env.snapshot()
    child = await env.fork()
    await child.step("square")
    await env.step("increment")
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert (await env.observe("value"), await child.observe("value")) == (5, 16)
    await env.restore(snapshot)
    assert (await env.step("double"))[0] == 8


async def test_forks_in_flight_survive(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    nap = env.submit("nap")
    fork = asyncio.create_task(env.fork())
    await asyncio.sleep(0)
    after = env.submit("double")
    await asyncio.sleep(0.002)
    os.kill(runtime.worker_pids()[0], signal.SIGKILL)
    child = await fork
    assert ((await nap)[0], await child.observe("value"), (await after)[0]) == (3, 3, 6)


async def test_candidates_that_kill_the_worker_are_errors_and_the_others_come_back(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    await env.step("square")
    results = await env.expand(["double", "abort", "increment", ["double", "crash"], "hang", "square"], timeout=0.3)
    assert [r.observation for r in results] == [8, None, 5, None, None, 16]
    errors = [type(r.error).__name__ for r in results if r.error is not None]
    assert errors == ["WorkerCrashed", "WorkerCrashed", "DeadlineExceeded"]
    assert (await env.observe("value"), env.in_episode) == (4, True)


async def test_an_expand_that_is_killed_from_outside_gives_the_same_results(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    expansion = asyncio.create_task(env.expand([["nap"] * n for n in range(12)]))
    for _ in range(4):
        await asyncio.sleep(0.15)
        for pid in runtime.worker_pids():
            with contextlib.suppress(ProcessLookupError):  # it may be gone since the last time
                os.kill(pid, signal.SIGKILL)
    results = await expansion
    assert [r.observation for r in results] == [2 + n for n in range(12)]
    assert all(r.error is None for r in results)


async def test_a_benchmark_that_kills_the_worker_fails_its_reset_only(runtime: aiocg.Runtime) -> None:
    one, other = await several(runtime, 2)
    for _ in range(2):
        with pytest.raises(WorkerCrashed, match="SIGSEGV"):
            await one.reset(benchmark=scripted_benchmark("kill"))
        assert (await other.step("increment"))[2] is False
    assert (await one.reset(benchmark=scripted_benchmark(7)))[0] == 7


async def test_a_state_that_cannot_be_replayed_is_reported(runtime: aiocg.Runtime) -> None:
    one, other = [await runtime.make("scripted-v0") for _ in range(2)]
    await one.reset()
    await other.reset()
    await one.step("forget")
    await other.step("double")
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    _, _, terminated, _, info = await one.step("double")
    assert terminated and info["error_type"] == "SessionLost" and info["error"].expected != info["error"].found
    assert (await other.step("double"))[0] == 4
    assert (await one.reset())[0] == 1


async def test_running_out_of_memory_is_an_error_of_the_action() -> None:
    async with aiocg.Runtime(workers=1, memory_limit=1 << 29) as runtime:
        one, other = await several(runtime, 2)
        _, _, terminated, _, info = await one.step("grow")
        assert terminated and "MemoryError" in info["error_details"]
        assert (await other.step("double"))[0] == 6


@pytest.mark.slow
async def test_a_worker_that_has_grown_is_replaced_and_nobody_notices(eventually) -> None:
    async with aiocg.Runtime(workers=1, policy=Policy(memory_threshold=300 << 20)) as runtime:
        one, other = await several(runtime, 2)
        before = await one.observe("pid")
        await one.step(["hoard"] * 5)
        await other.step("double")
        await eventually(lambda: runtime.worker_pids() not in ([], [before]))
        assert (await one.observe("value"), await other.observe("value")) == (7, 6)


async def test_random_kills_do_not_change_any_result(runtime: aiocg.Runtime) -> None:
    async def walk(env: aiocg.Env, seed: int) -> list[int]:
        rng = random.Random(seed)
        seen = []
        snapshots = []
        for _ in range(30):
            choice = rng.random()
            if choice < 0.1:
                snapshots.append(await env.snapshot())
            elif choice < 0.2 and snapshots:
                await env.restore(rng.choice(snapshots))
            elif choice < 0.3:
                seen += [c.observation for c in await env.expand([["nap", "double"], ["square"], ["nothing"]])]
            else:
                seen.append((await env.step(rng.choice(["nap", "double", "square", "increment"])))[0])
        return seen

    async def all_walks() -> list[list[int]]:
        envs = await several(runtime, 20)
        walks = await asyncio.gather(*(walk(env, i) for i, env in enumerate(envs)))
        await asyncio.gather(*(env.close() for env in envs))
        return list(walks)

    async def kill() -> None:
        rng = random.Random(1)
        while True:
            await asyncio.sleep(rng.uniform(0.05, 0.3))
            if pids := runtime.worker_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(pids), signal.SIGKILL)

    undisturbed = await all_walks()
    killer = asyncio.create_task(kill())
    try:
        assert await all_walks() == undisturbed
    finally:
        killer.cancel()


async def test_a_worker_that_cannot_start_says_why() -> None:
    register(EnvironmentSpec("absent-v0", "absent", "no such worker", "benchmark://scripted-v0/1"))
    async with aiocg.Runtime(workers=1, policy=Policy(first_delay=0.01, max_delay=0.02)) as runtime:
        with pytest.raises(WorkerStartError, match="no worker of kind 'absent' is installed"):
            await runtime.make("absent-v0", benchmark=scripted_benchmark(1))


async def test_a_worker_that_never_starts_in_time_is_given_up(stop_workers) -> None:
    stop_workers()
    async with aiocg.Runtime(workers=1, policy=Policy(start_timeout=0.01, first_delay=0.01)) as runtime:
        with pytest.raises(WorkerStartError, match="giving up"):
            await asyncio.wait_for(runtime.make("scripted-v0"), 30)


async def test_a_request_that_the_worker_cannot_read_fails_alone(runtime: aiocg.Runtime) -> None:
    one, other = await several(runtime, 2)
    third = await other.fork()
    other._timeout = "long"  # type: ignore[assignment]  # past what checks it
    unread, behind = other.submit("double"), third.submit("double")
    _, _, terminated, _, info = await unread
    assert terminated and "Expected `float`" in info["error_details"]
    assert ((await behind)[0], (await one.step("double"))[0]) == (6, 4)


async def test_closing_the_runtime_fails_what_is_in_flight() -> None:
    runtime = aiocg.Runtime(workers=2)
    envs = await several(runtime, 4)
    futures = [env.submit("hang") for env in envs]
    await runtime.close()
    for future in futures:
        with pytest.raises(RuntimeClosed):
            await future
    with pytest.raises(RuntimeClosed):
        await envs[0].reset()
    with pytest.raises(RuntimeClosed):
        await runtime.make("scripted-v0")


CLIENT = textwrap.dedent("""
    import asyncio, sys
    import aiocg
    from aiocg.testing import scripted_benchmark

    async def main():
        async with aiocg.Runtime(workers=2) as runtime:
            envs = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(i)) for i in range(4)]
            await asyncio.gather(*(env.reset() for env in envs))
            futures = [env.submit("hang") for env in envs]
            print(runtime.folder, *runtime.worker_pids(), flush=True)
            await asyncio.gather(*futures)

    asyncio.run(main())
""")


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
async def test_nothing_is_left_of_a_client_that_is_killed(number: signal.Signals, eventually, is_alive) -> None:
    client = subprocess.Popen([sys.executable, "-P", "-c", CLIENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert client.stdout is not None
    folder, *pids = client.stdout.readline().split()
    pids.append(str(psutil.Process(int(pids[0])).ppid()).encode())  # what it was forked from
    os.kill(int(pids[0]), signal.SIGSTOP)  # not even a stopped worker may stay
    client.send_signal(number)
    client.wait()
    client.stdout.close()
    await eventually(lambda: not any(is_alive(int(pid)) for pid in pids))
    await eventually(lambda: not Path(os.fsdecode(folder)).exists())


async def sessions_on_workers(runtime: aiocg.Runtime) -> int:
    return sum(counters["sessions"] for counters in await runtime.statistics())


async def test_a_session_closed_with_requests_in_flight_is_not_left_on_the_next_worker() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env, closed = await several(runtime, 2)
        naps = [one.submit("nap") for one in (env, closed) for _ in range(20)]
        forking = asyncio.create_task(closed.fork())
        await asyncio.sleep(0.02)
        resetting = asyncio.create_task(env.reset())  # leaves what is in flight to another session
        await closed.close()
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        await asyncio.gather(resetting, *naps)
        await (await forking).close()
        await asyncio.sleep(0)
        assert await sessions_on_workers(runtime) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"kill", "the loading of benchmark://scripted-v0/5"), (b"nonsense", "expected a decimal number")],
)
async def test_a_benchmark_that_fails_at_a_rebuild_ends_the_session_with_its_error(
    runtime: aiocg.Runtime, content: bytes, says: str
) -> None:
    program = scripted_benchmark(5)
    env = await runtime.make("scripted-v0", benchmark=program)
    await env.reset()
    program._content = content  # what it takes to load the same program at another time is another matter
    os.kill(await env.observe("pid"), signal.SIGKILL)
    _, _, terminated, _, info = await env.step("double")
    assert terminated and says in info["error_details"]
    assert (await env.reset(benchmark=scripted_benchmark(7)))[0] == 7


async def test_errors_of_many_benchmarks_are_not_kept_for_ever(runtime: aiocg.Runtime, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("aiocg.fleet.slot.MAX_LOADED", 4)
    (env,) = await several(runtime, 1)
    for number in range(20):
        with pytest.raises(BenchmarkInitError, match=f"nonsense-{number}"):
            await env.reset(benchmark=scripted_benchmark(f"nonsense-{number}"))
    assert len(env._session.worker.residents.loads._errors) <= 4


async def test_a_session_whose_rebuild_is_killed_every_time_ends(  # type: ignore[no-untyped-def]
    runtime: aiocg.Runtime, monkeypatch, kill_until_done, is_alive, eventually
) -> None:
    monkeypatch.setattr("aiocg.fleet.blame.MAX_KILLS", 2)
    (env,) = await several(runtime, 1)
    await env.step(["nap"] * 60)
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda pid=pid: not is_alive(pid))
    stepping = env.submit("double")
    await kill_until_done(runtime, stepping)
    _, _, terminated, _, info = await stepping
    assert terminated and any(
        f"while executing the {work}" in info["error_details"] for work in ("replay of a session", "loading of")
    )


async def test_a_failed_reset_leaves_the_episode_after_a_restart_too(runtime: aiocg.Runtime) -> None:
    (env,) = await several(runtime, 1)
    await env.step("double")
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(BenchmarkInitError):
        await env.reset(benchmark=scripted_benchmark("nonsense"))
    assert (await env.step("double"))[0] == 8


async def test_a_runtime_that_was_closed_says_so_each_time() -> None:
    runtime = aiocg.Runtime(workers=1)
    (env,) = await several(runtime, 1)
    await runtime.close()
    for _ in range(3):
        with pytest.raises(RuntimeClosed):
            await env.reset()
