"""A memory of transitions from outside: the same results with and without it, whatever is wrong with it."""

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import aiocg
from aiocg.cli._search_job import of_memory
from aiocg.errors import AiocgError
from aiocg.host.local import choose_memory

from ..command_line import runner

PATIENT = {"memory_patience": 30.0}  # so that no answer is late on a busy machine
BUDGET = aiocg.search.Budget(evaluations=130)
PROGRAM = Path(__file__).parents[1] / "workers/llvm/data/sorting.c"  # which nothing says how to run


async def search(memory: str, *, options: dict[str, float] = PATIENT) -> tuple[object, list[dict[str, object]]]:
    """Search; return all outcomes, and the workers' counters."""
    async with aiocg.Runtime(workers=2, memory=memory, options=options) as runtime:
        env = await runtime.make("llvm-v0", benchmark=str(PROGRAM), reward_space="IrInstructionCountOz")
        result = await aiocg.search.greedy(env, budget=BUDGET)
        for _ in range(3000):
            counters = await runtime.statistics()
            if not options or not total(counters, "memory_waiting"):
                break
            await asyncio.sleep(0.02)
        return (result.reward, result.actions, result.state.outcomes), counters


def total(counters: list[dict[str, object]], name: str) -> int:
    return sum(int(str(one.get(name, 0))) for one in counters)


@pytest_asyncio.fixture(scope="module")
async def alone() -> object:
    """What is found without a memory."""
    found, counters = await search("")
    assert "memory_hits" not in counters[0]
    return found


@pytest.mark.slow
async def test_second_search_finds_the_same_and_runs_hardly_anything(tmp_path: Path, alone: object) -> None:
    first, before = await search(str(tmp_path / "memory"))
    second, after = await search(str(tmp_path / "memory"))
    assert alone == first == second
    assert total(before, "pipelines_run") > 3 * total(after, "pipelines_run")
    assert total(after, "memory_hits") > 100


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", ["no folder", "another file", "nobody listens", "never answers"])
async def test_memory_that_fails_changes_nothing(tmp_path: Path, fault: str, alone: object) -> None:
    memory = str(tmp_path)
    if fault == "no folder":
        memory = "/proc/no/folder"
    elif fault == "another file":
        (tmp_path / "transitions-1.sqlite").write_bytes(os.urandom(10_000))
    else:
        pytest.importorskip("redis")
        memory = f"unix://{tmp_path}/s"
    with socket.socket(socket.AF_UNIX) as listener:
        if fault == "never answers":
            listener.bind(f"{tmp_path}/s")
            listener.listen(100)
        found, _ = await search(memory, options={})
    assert found == alone


@pytest.fixture
def garbage(tmp_path: Path) -> Iterator[str]:
    """The address of a server that answers questions with noise in due form."""
    pytest.importorskip("redis")

    def answer(line: socket.socket) -> None:
        with line:
            while asked := line.recv(1 << 20):
                count = asked.count(b"aiocg:") or 1
                noise = b"".join(b"$40\r\n%b\r\n" % os.urandom(20).hex().encode() for _ in range(count))
                line.sendall(b"*%d\r\n%b" % (count, noise) if b"MGET" in asked else b"+OK\r\n")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(line,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{tmp_path}/s"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
async def test_memory_that_answers_with_noise_changes_nothing(garbage: str, alone: object) -> None:
    found, counters = await search(garbage)
    assert found == alone
    assert total(counters, "memory_hits") == 0 and total(counters, "memory_misses") > 0


def test_places_are_checked_before_a_worker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_MEMORY", "~/there")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choose_memory(None) == f"{tmp_path}/there"
    assert choose_memory("") == ""
    monkeypatch.chdir(tmp_path)
    assert (
        choose_memory(["here", tmp_path / "there"])
        == choose_memory("here, there")
        == f"{tmp_path}/here,{tmp_path}/there"
    )
    (tmp_path / "file").write_text("mine")
    for wrong in ("file", "http://server"):
        with pytest.raises(AiocgError, match=r"expected a folder, or redis://"):
            aiocg.Runtime(memory=wrong)


def test_client_of_a_server_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AiocgError, match=r"pip install 'aiocg\[redis\]'"):
        aiocg.Runtime(memory="redis://server")


def test_memory_of_nodes_is_their_operators(tmp_path: Path) -> None:
    for where in ({"node": "tcp://host:5757"}, {"cluster": ["tcp://host:5757"]}):
        with pytest.raises(ValueError, match="set AIOCG_MEMORY for `aiocg serve`"):
            aiocg.Runtime(memory=str(tmp_path), **where)  # type: ignore[arg-type]


async def test_password_of_a_server_is_in_no_command_line(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    async with aiocg.Runtime(workers=1, memory=f"unix://:secret@{tmp_path}/s") as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        lines = [path.read_bytes() for pid in runtime.worker_pids() for path in [Path(f"/proc/{pid}/cmdline")]]
    assert lines and not any(b"secret" in line for line in lines)


@pytest.mark.slow
def test_command_says_how_much_the_memory_knew(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = runner(monkeypatch, capfd, "search", "greedy", str(PROGRAM), "--memory", str(tmp_path), "--evaluations", "30")
    done = run()
    assert done.status == 0
    assert re.search(r"^memory +\d+ of \d+ steps known", done.out, re.MULTILINE)
    assert run("--memory", PROGRAM).err.strip().startswith("error:")


def test_command_warns_of_what_the_memory_had_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    counts = {"memory_hits": 2, "memory_misses": 1, "memory_late": 1, "memory_mistrusted": ["gvn"]}
    counts["memory_problems"] = ["redis://away:1: refused"]
    assert of_memory([{}, counts, counts]) == "memory      4 of 6 steps known, 2 answers too late"
    told = capfd.readouterr().err
    assert told.count("wrong about gvn") == 1
    assert " ".join(told.split()).count("went on without it: redis://away:1: refused") == 1
    assert of_memory([{}]) == ""
