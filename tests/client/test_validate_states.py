"""Validating many states at a time: results as they come, whatever happens to one of them."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DownloadError
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import RuntimeClosed
from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState
from aiocg.validation import ErrorKind, ValidationResult, validate_states
from aiocg.validation import state as validation


def state(number: object, *actions: str, **changes: object) -> CompilerEnvState:
    """A state of the scripted environment."""
    uri = f"benchmark://scripted-v0/{number}"
    fields = {"environment": "scripted-v0", "benchmark": uri, "actions": actions, **changes}
    return CompilerEnvState(**fields)  # type: ignore[arg-type]


class Faulty(aiocg.testing.ScriptedDataset):  # type: ignore[misc, name-defined]
    """A dataset of the user's, with a mistake in it."""

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return {"5": aiocg.testing.scripted_benchmark(5)}[uri.path]


async def collected(runtime: aiocg.Runtime, states: list[CompilerEnvState]) -> list[ValidationResult]:
    """Validate states in order."""
    return [result async for result in validate_states(runtime, states, ordered=True)]


async def test_a_state_that_fails_in_whatever_way_stops_no_other(runtime: aiocg.Runtime) -> None:
    runtime.datasets["scripted-v0"] = Faulty()
    states = [
        state(5, "increment", reward_space="value", reward=-1.0),
        state(5, "crash"),
        state(6),  # a KeyError in the dataset
        state(5, benchmark="benchmark://no-such-v0/1"),
        state(5, benchmark="???"),
        state(5, environment="no-such-v0"),
        state(5, reward_space="no-such-reward"),
        state(5, "no-such-action"),
        state(5, reward_space="value", reward=3.0),
        state(5, "double", reward_space="value", reward=-5.0),
    ]
    results = await collected(runtime, states)
    assert [result.state for result in results] == states
    assert [not result.wrong for result in results] == [True, *[False] * 8, True]
    assert [result.errors[0].kind for result in results[1:-1]] == [
        ErrorKind.REPLAY_FAILED,
        ErrorKind.REPLAY_FAILED,
        ErrorKind.BENCHMARK_UNAVAILABLE,
        ErrorKind.BENCHMARK_UNAVAILABLE,
        ErrorKind.REPLAY_FAILED,
        ErrorKind.REPLAY_FAILED,
        ErrorKind.REPLAY_FAILED,
        ErrorKind.WRONG_REWARD,
    ]
    assert [number for number, result in enumerate(results) if result.unavailable] == [3, 4]
    assert results[2].errors[0].data["error_type"] == "KeyError"
    assert "benchmark_from_parsed_uri" in results[2].errors[0].data["traceback"], "it is somebody's code"
    assert "did you mean" in results[5].errors[0].data["error_details"]
    assert (results[0].reward, results[8].reward, results[1].reward) == (-1.0, 0.0, None)
    assert [ValidationResult.from_json(result.to_json()) for result in results] == results


async def test_a_benchmark_that_cannot_be_loaded_is_unavailable_too(runtime: aiocg.Runtime) -> None:
    class Missing(aiocg.testing.ScriptedDataset):  # type: ignore[misc, name-defined]
        def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
            return Benchmark(uri, missing)

    def missing() -> bytes:
        raise DownloadError("archive.tar", "nobody has it")

    runtime.datasets["scripted-v0"] = Missing()
    (result,) = await collected(runtime, [state(5)])
    assert (not result.wrong, result.unavailable, result.error_details) == (False, True, "Benchmark unavailable")
    assert "nobody has it" in result.errors[0].data["error_details"]


async def test_what_cannot_be_fetched_is_not_asked_for_again_and_again(runtime: aiocg.Runtime) -> None:
    asked: list[str] = []

    class Missing(aiocg.testing.ScriptedDataset):  # type: ignore[misc, name-defined]
        def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
            if uri.path == "5":
                return aiocg.testing.scripted_benchmark(5)
            asked.append(uri.path)
            raise DownloadError("each" + uri.path if int(uri.path) < 100 else "archive.tar", "nobody has it")

    runtime.datasets["scripted-v0"] = Missing()
    results = await collected(runtime, [state(number) for number in (1, 2, 3, 1, 2, 3, 5, 1, 2, 3, 5)])
    assert sorted(set(asked)) == ["1", "2", "3"] and len(asked) <= 3 + runtime.worker_count
    assert [not result.wrong for result in results] == [*[False] * 6, True, *[False] * 3, True]
    asked.clear()
    results = await collected(runtime, [state(number) for number in range(100, 120)])
    assert len(asked) <= 2 + runtime.worker_count
    assert all(result.unavailable and result.state == state(100 + n) for n, result in enumerate(results))


async def test_results_come_as_they_are_ready_or_in_order(
    runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [state(number) for number in range(5)]
    done = {number: asyncio.Event() for number in range(5)}

    async def slow(runtime: object, one: CompilerEnvState, *_: object) -> ValidationResult:
        number = states.index(one)
        if number == 0:
            await done[4].wait()
        done[number].set()
        return ValidationResult(state=one)

    monkeypatch.setattr(validation, "_validate_translated", slow)
    come = [result.state async for result in validate_states(runtime, states)]
    assert come == [*states[1:], states[0]]
    done[4].clear()
    assert [result.state for result in await collected(runtime, states)] == states


async def test_states_are_taken_as_workers_become_free(runtime: aiocg.Runtime) -> None:
    taken: list[int] = []

    def endless() -> Iterator[CompilerEnvState]:
        number = 0
        while True:
            taken.append(number)
            yield state(number)
            number += 1

    seen = 0
    async with contextlib.aclosing(validate_states(runtime, endless())) as results:
        async for result in results:
            assert not result.wrong
            seen += 1
            if seen == 20:
                break
    assert len(taken) <= 20 + 3 * runtime.worker_count


def tasks() -> Counter[str]:
    """Count the tasks that there are, by what they do; not those of processes, of which cancelling may cost one."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return Counter(name for name in names if not name.startswith("LocalProcess"))


async def test_leaving_early_and_cancelling_leave_nothing(runtime: aiocg.Runtime) -> None:
    states = [state(n, *["nap"] * 20) for n in range(12)]
    await collected(runtime, states[:1])
    before = tasks()

    async def all_of_them() -> None:
        async for _ in validate_states(runtime, states):
            pass

    task = asyncio.create_task(all_of_them())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tasks() == before

    async with contextlib.aclosing(validate_states(runtime, states)) as results:
        async for _ in results:
            break
    assert tasks() == before

    async for _ in validate_states(runtime, states, ordered=True):
        break  # nobody closes it: the event loop does, when it is collected
    for _ in range(6000):
        if tasks() == before:
            break
        await asyncio.sleep(0.01)
    assert tasks() == before
    assert [worker["sessions"] for worker in await runtime.statistics()] == [0, 0]


async def test_killed_workers_change_no_result(runtime: aiocg.Runtime) -> None:
    states = [state(n, *["nap"] * 10, reward_space="value", reward=-10.0) for n in range(1, 13)]
    killed, okay = 0, []
    async for result in validate_states(runtime, states):
        okay.append(not result.wrong)
        if killed < 4:
            for pid in runtime.worker_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    assert killed >= 4
    assert okay == [True] * 12


async def test_what_the_states_come_from_may_fail(runtime: aiocg.Runtime) -> None:
    def broken() -> Iterator[CompilerEnvState]:
        yield state(5)
        raise InvalidState("expected 4 columns, found 2", "results.csv", 3)

    with pytest.raises(InvalidState, match=r"results\.csv, line 3"):
        async for _ in validate_states(runtime, broken()):
            pass


async def test_options_that_are_none_are_refused_at_once(runtime: aiocg.Runtime) -> None:
    with pytest.raises(TypeError):
        validate_states(runtime, [], semantic=False)
    assert await collected(runtime, []) == []


async def test_closing_the_runtime_ends_it_with_an_error() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        results = validate_states(runtime, [state(n, "nap") for n in range(20)])
        await anext(results)
    with pytest.raises(RuntimeClosed):
        async for _ in results:
            pass


async def test_a_state_of_compilergym_takes_its_environment_from_the_caller(runtime: aiocg.Runtime) -> None:
    old = LegacyState(benchmark="benchmark://scripted-v0/5", commandline="increment,double", reward=3.0, walltime=2.0)
    results = [result async for result in validate_states(runtime, [old, old], environment="scripted-v0")]
    assert [not result.wrong for result in results] == [True, True]
    assert (results[0].state.actions, results[0].state.walltime) == (("increment", "double"), 2.0)
    assert not results[0].another_compiler, "a list of today's actions"
    (bad,) = [
        result
        async for result in validate_states(
            runtime, [LegacyState(benchmark="benchmark://scripted-v0/5", commandline="-gvn")], environment="scripted-v0"
        )
    ]
    assert (bad.error_details, bad.translation is not None) == ("Replay failed", True)


async def test_a_test_of_a_benchmark_that_raises_is_an_error_of_its_own(runtime: aiocg.Runtime) -> None:
    benchmark, calls = aiocg.testing.scripted_benchmark(5), []

    async def mistaken(env: aiocg.Env) -> list[object]:
        calls.append(env)
        raise ZeroDivisionError("a mistake in the test")

    benchmark.add_validation_callback(mistaken)
    env = await runtime.make("scripted-v0", benchmark=benchmark)
    await env.reset()
    result = await env.validate()
    assert (not result.wrong, result.error_details, len(calls)) == (False, "Validation callback failed", 1)
    assert "mistaken" in result.errors[0].data["traceback"]
