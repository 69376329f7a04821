"""Logging to files of transitions, by real environments; and what happens to the file when things go wrong."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

import aiocg
import aiocg.gym
import aiocg.testing
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import UnknownName
from aiocg.testing import scripted_benchmark
from aiocg.transitions import Conflict, TransitionLog, Transitions, TransitionsError
from aiocg.transitions._writer import AT_ONCE, WAITING, Observation, Start, Step, Writer

WALK = ("increment", "double", "nothing", "square")


@contextlib.asynccontextmanager
async def logging(path: Path, *observations: str, start: int = 5) -> AsyncIterator[aiocg.Env]:
    """A scripted environment that was reset, and whose transitions are in the file after the block."""
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.log_to(path, observations)
        env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(start))
        await env.reset()
        yield env


async def test_each_step_is_a_transition_between_the_states_that_were_told(tmp_path: Path) -> None:
    states = []
    async with logging(tmp_path / "t.db", "value") as env:
        states.append(env.state_hash)
        for action in WALK:
            states.append((await env.step(action))[4]["state"])
    with Transitions(tmp_path / "t.db") as file:
        assert [(one.state, one.actions, one.next) for one in file] == [
            (before, (action,), after) for before, action, after in zip(states, WALK, states[1:], strict=False)
        ]
        assert file.benchmarks() == [("benchmark://scripted-v0/5", states[0])]
        assert [file.observation(state, "value") for state in states] == [5, 6, 12, 12, 144]
        assert file.integrity() == [] and file.conflicts() == []
    assert os.listdir(tmp_path) == ["t.db"]


async def test_batches_candidates_forks_and_failures_are_logged(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db") as env:
        start = env.state_hash
        child = await env.fork()
        await env.step(["increment", "double"])
        await child.step("square")
        candidates = await env.expand(["increment", ["double", "double"], "refuse", "abort"])
        refused = env.state_hash
        await env.step("refuse")
    with Transitions(tmp_path / "t.db") as file:
        rows = {(one.state, one.actions): one.next for one in file}
    assert rows.pop((start, ("square",))) is not None
    assert rows.pop((start, ("increment", "double"))) == refused
    assert rows.pop((refused, ("refuse",))) is None
    assert rows == {(refused, one.actions): one.state for one in _named(candidates[:2])}  # a crash may not come again


def _named(candidates: list[aiocg.Candidate]) -> list[aiocg.Candidate]:
    assert all(one.error is None for one in candidates)
    texts = (("increment",), ("double", "double"))
    return [aiocg.Candidate(text, state=one.state) for text, one in zip(texts, candidates, strict=True)]


async def test_a_state_is_observed_once_and_only_if_the_environment_is_still_there(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db", "pid") as env:
        for _ in range(3):
            await env.reset()
            await env.step("increment")
        passed = [env.submit("double") for _ in range(5)]
        states = [(await one)[4]["state"] for one in passed]
        await env.settled()  # the observation of the last state is answered
    with Transitions(tmp_path / "t.db") as file:
        assert len(file) == 6
        assert states[-1] in file.observed_states("pid") and states[0] not in file.observed_states("pid")


async def test_the_same_walk_again_adds_nothing(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        async with logging(tmp_path / "t.db", "value") as env:
            for action in WALK:
                await env.step(action)
        with Transitions(tmp_path / "t.db") as file:
            found.append((list(file), file.counts()))
    assert found[0] == found[1]


async def test_a_step_that_was_cancelled_does_not_shift_the_next_one(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db") as env:
        env.submit("increment").cancel()
        await env.settled()
        before = env.state_hash
        after = (await env.step("double"))[4]["state"]
    with Transitions(tmp_path / "t.db") as file:
        assert (before, ("double",), after) in [(one.state, one.actions, one.next) for one in file]


async def test_llvm_logs_costs_rewards_and_what_it_is_told(tmp_path: Path) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        log = runtime.log_to(tmp_path / "t.db", ["Autophase", "Ir"])
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        _, reward, _, _, info = await env.step("mem2reg")
        autophase, text = await env.observe("Autophase", "Ir")
        await log.flush()
        with Transitions(tmp_path / "t.db") as file:
            assert file.compiler == env.compiler_version
            assert file[0].rewards == {"IrInstructionCountOz": reward}
            assert file.observation(info["state"], "Autophase").tolist() == autophase.tolist()
            assert file.observation(info["state"], "Ir") == text
            assert isinstance(file.observation(info["state"], "IrInstructionCount"), int)


async def test_an_action_whose_state_cannot_be_observed_was_not_refused(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db") as env:
        _, _, terminated, _, info = await env.step("increment", observation_spaces=["impossible"])
        assert terminated and info["error_type"] == "ObservationFailed"
    with Transitions(tmp_path / "t.db") as file:
        assert list(file) == []


def test_vectors_of_gymnasium_are_logged(tmp_path: Path) -> None:
    with aiocg.gym.SyncRuntime(workers=1) as runtime:
        log = runtime.log_to(tmp_path / "t.db")
        envs = runtime.make_vec("llvm-ic-v0", 3, benchmark="programs-v0/gcd")
        envs.reset()
        envs.step([0, 1, 1])
        runtime.run(log.flush)
        with Transitions(tmp_path / "t.db") as file:
            assert len(file) == 2 and all(one.next is not None for one in file)
        envs.close()
    assert os.listdir(tmp_path) == ["t.db"]


async def test_a_file_of_another_compiler_is_refused(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db"):
        pass
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.log_to(tmp_path / "t.db")
        with pytest.raises(
            TransitionsError, match=r"has transitions of 1; log those of LLVM .* to a file of their own"
        ):
            await runtime.make("llvm-v0", benchmark="programs-v0/gcd")


async def test_a_log_begins_before_the_first_environment_and_with_known_names(tmp_path: Path) -> None:
    async with logging(tmp_path / "t.db") as env:
        with pytest.raises(RuntimeError, match="once, before the first environment"):
            env._runtime.log_to(tmp_path / "u.db")  # type: ignore[attr-defined]
    async with aiocg.Runtime(workers=1) as runtime:
        with pytest.raises(TypeError, match="a list of names"):
            runtime.log_to(tmp_path / "t.db", "value")
        runtime.log_to(tmp_path / "t.db", ["valu"])
        with pytest.raises(UnknownName, match="value"):
            await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))


def test_what_is_known_of_a_state_is_not_computed_again(tmp_path: Path) -> None:
    log, computed = TransitionLog(tmp_path / "t.db"), []
    spaces = [("cost", lambda observed: computed.append(observed[0]) or observed[0])]
    for state in (1, 2, 1, 2, 3):
        log.read(state, spaces, [10 * state])
    log.close()
    assert computed == [10, 20, 30]
    with Transitions(tmp_path / "t.db") as file:
        assert [file.observation(state, "cost") for state in (1, 2, 3)] == [10, 20, 30]


def test_a_program_is_one_whether_it_is_named_by_a_text_or_by_its_uri(tmp_path: Path) -> None:
    text = "benchmark://made-up-v0/a%20b"
    log = TransitionLog(tmp_path / "t.db")
    log.start(BenchmarkUri.from_string(text), 1, {})
    log.step(text, 1, ("a",), 2, {})
    log.step(BenchmarkUri.from_string(text), 2, ("a",), 3, {})
    log.close()
    with Transitions(tmp_path / "t.db") as file:
        assert file.benchmarks() == [(text, 1)] and {one.benchmark for one in file} == {text}


# ----------------------------------------------------------------------------------------------- the file


def write(path: Path, *rows: Start | Step | Observation) -> None:
    writer = Writer(path)
    for row in rows:
        writer.put(row)
    writer.close()


def test_another_result_of_the_same_actions_is_a_conflict(tmp_path: Path) -> None:
    step = Step("benchmark://a-v0/1", 1, ("licm",), 2, {"R": 1.0})
    write(tmp_path / "t.db", step, step._replace(next=1 << 63), step._replace(rewards={"S": 2.0}))
    with Transitions(tmp_path / "t.db") as file:
        assert [(one.next, one.rewards) for one in file] == [(2, {"R": 1.0, "S": 2.0})]
        assert file.conflicts() == [Conflict("benchmark://a-v0/1", 1, ("licm",), 2, 1 << 63)]


def test_thousands_of_rows_and_those_that_come_twice_are_what_one_at_a_time_would_be(tmp_path: Path) -> None:
    count = 10 * AT_ONCE + 3
    with contextlib.closing(TransitionLog(tmp_path / "t.db")) as log:
        for state in range(1, count + 1):
            log.step("a-v0/1", state, ("licm",), state + 1, {"size": 1.0}, {"cost": state, "vector": np.arange(3)})
            log.step("a-v0/1", state, ("licm",), state + 1, {"time": 2.0})
            if state % 100 == 0:
                log.step("a-v0/1", state, ("licm",), 0, {"size": 3.0})
    with Transitions(tmp_path / "t.db") as file:
        assert len(file) == count
        assert all(one.next == one.state + 1 and one.rewards == {"size": 1.0, "time": 2.0} for one in file)
        assert [one.state for one in file.conflicts()] == list(range(100, count, 100))
        assert [file.observation(state, "cost") for state in (2, count)] == [1, count - 1]
        assert file.observation(count + 1, "vector").tolist() == [0, 1, 2]


def test_only_one_log_writes_to_a_file(tmp_path: Path) -> None:
    first = Writer(tmp_path / "t.db")
    with pytest.raises(TransitionsError, match=r"being written by another log.*merge"):
        Writer(tmp_path / "t.db")
    first.close()
    Writer(tmp_path / "t.db").close()


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + bytes(4096)])
def test_what_is_no_such_file_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.db").write_bytes(content)
    for use in (Writer, Transitions):
        with pytest.raises(TransitionsError, match=r"t\.db"):
            use(tmp_path / "t.db")
    assert (tmp_path / "t.db").read_bytes() == content


def test_another_database_and_a_newer_schema_are_told(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE mine (x)")
    write(tmp_path / "newer.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "newer.db")) as database:
        database.execute("PRAGMA user_version = 99")
    for use in (Writer, Transitions):
        with pytest.raises(TransitionsError, match="not one of transitions"):
            use(tmp_path / "other.db")
        with pytest.raises(TransitionsError, match=r"schema 99.*upgrade"):
            use(tmp_path / "newer.db")
    with pytest.raises(TransitionsError, match="no file"):
        Transitions(tmp_path / "missing.db")
    with pytest.raises(TransitionsError, match="cannot write"):
        Writer(tmp_path / "no" / "folder.db")


def test_a_damaged_page_is_found(tmp_path: Path) -> None:
    write(tmp_path / "t.db", *(Step("b", n, (f"a{n}",), n + 1, {}) for n in range(2000)))
    content = bytearray((tmp_path / "t.db").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = os.urandom(4096)
    (tmp_path / "t.db").write_bytes(content)
    with Transitions(tmp_path / "t.db") as file:
        assert file.integrity()


async def test_a_full_disk_ends_the_log_and_not_the_episode(tmp_path: Path) -> None:
    with pytest.raises(TransitionsError, match=r"nothing more is logged.*full"):
        async with logging(tmp_path / "t.db") as env:
            log = env.log
            assert log is not None
            log._writer._database.execute("PRAGMA max_page_count = 20")  # type: ignore[attr-defined]
            with pytest.raises(TransitionsError, match="full"):
                while True:
                    for number in range(50):
                        await env.step_texts([f"add<{number}>"])
                    await log.flush()  # type: ignore[attr-defined]
            assert (await env.step("double"))[2] is False
            assert log.dropped > 0  # type: ignore[attr-defined]
    with Transitions(tmp_path / "t.db") as file:
        assert file.integrity() == []


def test_what_cannot_be_stored_ends_the_log_and_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.transitions._writer.BATCH", 8)
    monkeypatch.setattr("aiocg.transitions._writer.WAITING", 32)
    writer = Writer(tmp_path / "t.db")
    writer.put(Observation(1, "huge", 1 << 100))
    for number in range(1000):
        writer.put(Step("b", number, ("a",), number, {}))
    with pytest.raises(TransitionsError, match="nothing more is logged"):
        writer.flush()
    with pytest.raises(TransitionsError, match="nothing more is logged"):
        writer.close()
    assert writer.dropped == 1001


def test_a_fork_of_the_process_leaves_the_file_alone(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "t.db")
    writer.put(Step("b", 1, ("a",), 2, {}))
    writer.flush()
    child = os.fork()
    if not child:
        writer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    writer.put(Step("b", 2, ("a",), 3, {}))
    writer.close()
    with Transitions(tmp_path / "t.db") as file:
        assert len(file) == 2 and file.integrity() == []


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_a_sound_file(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from aiocg.transitions._writer import *\n"
        "writer = Writer(Path(sys.argv[1])); number = 0\n"
        "while True:\n"
        "    writer.put(Step('b', number, ('a',), number + 1, {})); number += 1\n"
        "    if number % 5000 == 0: writer.flush(); print(number, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "t.db"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(3):
        written = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    writer = Writer(tmp_path / "t.db")  # the lock went with the process
    writer.close()
    with Transitions(tmp_path / "t.db") as file:
        assert file.integrity() == []
        assert len(file) >= written and [one.state for one in file] == list(range(len(file)))


@pytest.mark.parametrize("block", [True, False])
def test_a_full_queue_waits_or_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: bool) -> None:
    monkeypatch.setattr("aiocg.transitions._writer.BATCH", 8)
    monkeypatch.setattr("aiocg.transitions._writer.WAITING", 32)
    writer = Writer(tmp_path / "t.db", block=block)
    allowed, write = threading.Event(), writer._write_some
    monkeypatch.setattr(writer, "_write_some", lambda: allowed.wait() and write())
    done = threading.Event()

    def put() -> None:
        for number in range(1000):
            writer.put(Step("b", number, ("a",), number, {}))
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    if not block:
        thread.join()
    else:
        time.sleep(0.05)
        assert not done.is_set()
    allowed.set()
    thread.join()
    writer.close()
    with Transitions(tmp_path / "t.db") as file:
        assert len(file) == 1000 - writer.dropped and (writer.dropped > 0) is not block


def test_a_burst_into_a_writer_that_has_nothing_to_do_loses_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "t.db", block=False)
    for number in range(WAITING):
        writer.put(Step("b", number, ("a",), number, {}))
    writer.close()
    assert writer.dropped == 0


def test_a_state_belongs_to_the_program_that_came_to_it_first(tmp_path: Path) -> None:
    log = TransitionLog(tmp_path / "t.db")
    log.start("benchmark://made-up/early", 1, {})
    log.start("benchmark://made-up/late", 2, {})
    log.step("benchmark://made-up/late", 2, ("b",), 9, {}, {})
    log.step("benchmark://made-up/early", 1, ("a",), 9, {}, {})
    log.close()
    with sqlite3.connect(tmp_path / "t.db") as database:
        query = "SELECT uri FROM States JOIN Benchmarks ON Benchmarks.id = benchmark WHERE States.state = 9"
        assert database.execute(query).fetchone() == ("benchmark://made-up/late",)
