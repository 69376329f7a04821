"""Running a compiler on this machine: bounded, whole, and without a trace."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc import _local as local
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._runner import Completed


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """Something that can be executed; to these tests it is all the same whether it compiles."""
    path = tmp_path / "bin" / "cc"
    path.parent.mkdir()
    shutil.copy("/bin/sh", path)
    return path


@pytest.fixture
def here(compiler: Path) -> Iterator[LocalRunner]:
    runner = LocalRunner(str(compiler))
    yield runner
    runner.close()


@pytest.fixture
def sh(here: LocalRunner) -> Callable[..., Completed]:
    def run(script: str, timeout: float = 60.0, stdin: bytes = b"", memory: int = 0) -> Completed:
        return here.run(["sh", "-c", script], folder=here.root, timeout=timeout, stdin=stdin, memory=memory)

    return run


LONG = f"sleep 4711.{os.getpid()}"  # no other run of these tests looks for that


def running(command: str) -> list[int]:
    """Return the processes with a command line."""
    mark = command.replace(" ", "\0")
    found = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and mark.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def test_a_command_has_input_output_errors_and_a_status(sh, here: LocalRunner) -> None:  # type: ignore[no-untyped-def]
    done = sh("cat; echo wrong >&2; pwd; exit 3", stdin=b"given\n")
    assert (done.status, done.errors, done.stopped) == (3, b"wrong\n", "")
    assert done.output.startswith(b"given\n")
    assert sh("kill -SEGV $$").status == -11


def test_it_sees_no_more_of_our_environment_than_it_needs(sh, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("CPATH", "/somewhere")  # in which GCC would look for headers
    seen = dict(line.split("=", 1) for line in sh("env").output.decode().splitlines())
    assert set(seen) - {"PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "_", "PWD", "SHLVL", "OLDPWD"} == {
        "RUN_OF_AIOCG",
        "LC_ALL",
        "SOURCE_DATE_EPOCH",
    }


@pytest.mark.parametrize("script", ["LONG & LONG", "setsid LONG & wait", "LONG"])
def test_what_is_over_time_ends_with_all_that_it_has_started(sh, script: str) -> None:  # type: ignore[no-untyped-def]
    started = time.monotonic()
    done = sh(script.replace("LONG", LONG), timeout=0.3)
    assert done.stopped == "timeout" and done.status == -9
    assert 0.3 <= done.seconds <= time.monotonic() - started < 100
    assert running(LONG) == []


@pytest.mark.parametrize("script", ["LONG & true", "setsid LONG & true", "(LONG &) & true"])
def test_what_a_command_leaves_behind_is_ended(sh, script: str) -> None:  # type: ignore[no-untyped-def]
    done = sh(script.replace("LONG", LONG), timeout=100.0)
    assert done.status == 0 and not done.stopped and done.seconds < 100
    assert running(LONG) == []


def test_what_ends_while_it_is_looked_at_hides_nothing_that_it_leaves(sh, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    look = local._has_mark

    def slowly(pid: int, mark: str) -> bool:
        time.sleep(0.3)  # in which the one that is looked at ends, and its child becomes ours
        return look(pid, mark)

    monkeypatch.setattr(local, "_has_mark", slowly)
    assert sh(f"(sleep 0.1; {LONG} & true) & true").status == 0
    assert running(LONG) == []


def test_memory_and_files_are_limited_for_the_command_and_not_for_us(sh) -> None:  # type: ignore[no-untyped-def]
    before = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_FSIZE)
    memory, blocks = sh("ulimit -v; ulimit -f", memory=300 << 20).output.split()
    assert int(memory) == 300 << 10
    assert int(blocks) * 512 == 256 << 20
    assert (resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_FSIZE)) == before


def test_what_writes_without_end_is_stopped(sh, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("aiocg.workers.gcc._local.FILE_LIMIT", 1 << 20)
    done = sh("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", timeout=60)
    assert done.status != 0 and not done.stopped
    assert len(done.output) == 1 << 20


def test_several_threads_may_run_commands(sh) -> None:  # type: ignore[no-untyped-def]
    outputs: dict[int, bytes] = {}

    def work(number: int) -> None:
        outputs[number] = sh(f"{LONG} & sleep 0.{number}; echo {number}").output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: f"{number}\n".encode() for number in range(1, 5)}
    assert running("4713.5") == []


def test_a_compiler_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(CompilationError, match=r"no compiler 'gcc-nowhere': it is not on PATH\. Install GCC") as e:
        LocalRunner("gcc-nowhere")
    assert e.value.code == FailureCode.COMPILER
    with pytest.raises(CompilationError, match="there is no such file"):
        LocalRunner("/nowhere/gcc")


def test_a_compiler_that_is_replaced_or_removed_is_not_used_on(here: LocalRunner, compiler: Path, sh) -> None:  # type: ignore[no-untyped-def]
    assert sh("true").status == 0
    os.utime(compiler, (1, 1))
    with pytest.raises(CompilationError, match="was replaced") as e:
        sh("true")
    assert e.value.fields == {"reason": "replaced"}
    assert LocalRunner(str(compiler)).identity != here.identity
    compiler.unlink()
    with pytest.raises(CompilationError, match="is gone") as e:
        sh("true")
    assert (e.value.code, e.value.fields) == (FailureCode.COMPILER, {"reason": "gone"})


def test_a_command_or_a_folder_that_is_not_there_is_an_error(here: LocalRunner) -> None:
    for command, folder in ((["/nowhere/cc1"], here.root), (["true"], "/nowhere")):
        with pytest.raises(CompilationError, match="cannot be run in"):
            here.run(command, folder=folder, timeout=1)


def test_closing_removes_the_folder_and_may_be_repeated(compiler: Path) -> None:
    runner = LocalRunner(str(compiler))
    assert os.path.isdir(runner.root)
    runner.close()
    runner.close()
    assert not os.path.exists(runner.root)


STOPPED = """
from aiocg.workers.gcc._local import LocalRunner
runner = LocalRunner("gcc")
print(flush=True)
print(runner.run(["sleep", "0.5"], folder=runner.root, timeout=1.5).stopped or "ended", flush=True)
"""


@pytest.mark.slow
def test_time_in_which_all_was_stopped_does_not_count() -> None:
    """As by Ctrl-Z: what is remembered of a compile must not depend on that."""
    command = [sys.executable, "-P", "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "ended\n"
