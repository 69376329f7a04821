"""All but what is told works where there is nothing that only Linux has, such as on macOS; see without_linux."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.host import nursery as child
from aiocg.node import server
from aiocg.transport import system
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import native_code
from aiocg.workers.programs import execution
from aiocg.workers.programs.execution import Runner, measuring_core
from aiocg.workers.programs.recipe import Run
from aiocg.workers.programs.sandbox import Sandbox

TAKEN = Path(__file__).parent / "without_linux/sitecustomize.py"
CLI = (sys.executable, "-P", "-m", "aiocg.cli")
PROBE = """
import os, pathlib, socket
taken = [name for name in ("pidfd_open", "memfd_create", "sched_getaffinity", "waitid") if hasattr(os, name)]
assert not taken and not os.path.exists("/proc/self") and not pathlib.Path("/proc/cpuinfo").exists(), taken
for name in "\\0name", "/tmp/" + 200 * "x":
    try:
        socket.socket(socket.AF_UNIX).bind(name)
    except OSError:
        continue
    raise AssertionError(name)
"""
DEATH = """
import asyncio, os, signal

import aiocg, aiocg.gym

try:
    with aiocg.gym.shared_nursery("llvm-v0"):
        pass
except aiocg.errors.WorkerStartError as error:
    print(error)

async def main():
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        await env.step("mem2reg")
        (pid,) = runtime.worker_pids()
        os.kill(pid, signal.SIGKILL)
        print(await env.observe("IrInstructionCount"), runtime.worker_pids() != [pid])

asyncio.run(main())
"""


@pytest.fixture
def elsewhere(place: Any) -> Iterator[Any]:
    place.environment.update({"PYTHONPATH": str(TAKEN.parent), "AIOCG_SANDBOX": "rlimits"})
    done = place.run(sys.executable, "-c", PROBE)
    assert done.returncode == 0, done.stderr
    yield place
    for path in Path("/tmp").glob("aiocg-measuring-*"):
        path.unlink(missing_ok=True)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    script = tmp_path / "runner.py"
    script.write_text(TAKEN.read_text() + execution.RUNNER.read_text())
    monkeypatch.setattr(execution, "RUNNER", script)
    runner = Runner(Sandbox("rlimits"))
    yield runner
    runner.close()


def found(done: Any) -> Any:
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def do(runner: Runner, script: str, timeout: float) -> Any:
    run = Run("it", ("-c", script), b"7", {}, {"PATH": os.defpath}, 0, None, {}, timeout)
    with runner.run(Path("/bin/sh"), run, time.monotonic() + 60) as ended:
        return ended.exit_code, ended.stopped, ended.stdout


def test_programs_are_run_and_stopped(runner: Runner) -> None:
    assert do(runner, "read x; echo $x; exit 3", 60.0) == (3, "", b"7\n")
    assert do(runner, "kill -ABRT $$", 60.0)[0] == -6
    assert do(runner, "exec sleep 600", 0.2)[1] == "time"
    assert do(runner, "echo again", 60.0) == (0, "", b"again\n")


def test_a_core_is_measured_on_by_one_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Nameless(execution.socket.socket):
        def bind(self, address: Any) -> None:
            raise FileNotFoundError(address)

    monkeypatch.setattr(execution.socket, "socket", Nameless)
    monkeypatch.setattr(execution, "_CORE", f"{tmp_path.name}-core-")
    monkeypatch.setattr(execution, "_GATE", f"{tmp_path.name}-gate")
    with measuring_core(time.monotonic() + 60, alone=True) as core:
        assert core in system.processors()
        with pytest.raises(CompilationError, match="not enough time"), measuring_core(0.0):
            pass
    with measuring_core(time.monotonic() + 60):
        pass
    for path in Path("/tmp").glob(f"{tmp_path.name}-*"):
        path.unlink()


@pytest.mark.parametrize("command", [("sh", "-c", "exit 3"), ("sh", "-c", "kill -KILL $$")])
async def test_the_end_of_a_process_is_noticed(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "HAS_PIDFD", False)
    started = await child.Started.start(command, os.environ, ())
    assert await started.wait() == (3 if "exit 3" in command else -9)
    started.close()


def test_a_file_without_a_name_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    descriptor = system.unnamed_file("it")
    os.write(descriptor, b"content")
    assert os.pread(descriptor, 9, 0) == b"content" and os.fstat(descriptor).st_nlink == 0
    os.close(descriptor)


def test_a_node_takes_the_most_memory_there_was_for_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = server.MemoryWatch.resident()
    monkeypatch.setattr(server, "_STATM", Path("/none"))
    assert server.MemoryWatch.resident() >= now // 2


@pytest.mark.needs("ps")
def test_the_owner_of_a_container_is_known_by_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    from aiocg.workers.gcc import _container

    monkeypatch.setattr(os.path, "isdir", lambda path: False)
    ours = _container._owner()
    assert not _container._is_gone(ours)
    *scope, pid, _ = ours.split()
    assert _container._is_gone(" ".join((*scope, pid, "another")))


def test_a_library_that_cannot_be_kept_is_a_file_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    path = native_code._in_memory(b"library", "it")
    assert path.read_bytes() == b"library"
    path.unlink()


@pytest.mark.slow
def test_searches_find_and_check_programs(elsewhere: Any) -> None:
    answer = found(elsewhere.run(*CLI, "search", "random", "programs-v0/gcd", "--evaluations", "5", "--json"))
    assert answer["validated"] == "same" and answer["instructions"]["found"] < answer["instructions"]["before"]
    answer = found(elsewhere.run(*CLI, "search", "programs-v0/gcd", "--budget", "3", "--json"))
    assert answer["validated"] == "same" and answer["bytes"]["found"] <= answer["bytes"]["OzMinsize"]
    assert elsewhere.leftovers() == [] and elsewhere.processes() == []


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_gcc_is_searched(elsewhere: Any) -> None:
    words = ["search", "hill-climb", "programs-v0/gcd", "--env", "gcc-v0", "--evaluations", "3", "--json"]
    assert found(elsewhere.run(*CLI, *words))["validated"] == "same"


@pytest.mark.slow
def test_loop_nests_are_compiled_and_timed(elsewhere: Any) -> None:
    pytest.importorskip("llvmlite")
    words = ["search", "C[i:16, j:16] = sum(k:16) A[i, k] * B[k, j]", "--evaluations", "3", "--json"]
    assert found(elsewhere.run(*CLI, *words))["reward"] > 0


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_none_is_forked(elsewhere: Any) -> None:
    done = elsewhere.run(sys.executable, "-P", "-c", DEATH)
    assert done.returncode == 0, done.stderr
    said, answer = done.stdout.splitlines()
    assert said.startswith("only on Linux") and answer.split()[1] == "True"
    assert elsewhere.leftovers() == [] and elsewhere.processes() == []
