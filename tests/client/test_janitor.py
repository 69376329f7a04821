"""The janitor, as the process that it is."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.host.folder import RuntimeFolder

SCRIPT = Path(aiocg.__file__).parent / "host" / "janitor.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "runtime"
    path.mkdir()
    (path / "socket").touch()
    return path


@pytest.fixture
def janitor(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process group of a shell and its child."""
    command = ["sh", "-c", "sleep 600 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def ignored_signals(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigIgn")).split()[1], 16)


def tell(janitor: subprocess.Popen[bytes], text: str) -> None:
    assert janitor.stdin is not None
    janitor.stdin.write(text.encode())
    janitor.stdin.close()
    assert janitor.wait(60) == 0


def test_what_is_alive_at_the_end_is_killed_with_its_children(janitor, sleeper, folder, is_alive) -> None:  # type: ignore[no-untyped-def]
    child = int(sleeper.stdout.readline())
    tell(janitor, f"+{sleeper.pid}\n")
    assert sleeper.wait(60) == -signal.SIGKILL
    for _ in range(6000):
        if not is_alive(child):
            break
        signal.sigtimedwait([], 0.01)
    assert not is_alive(child)
    assert not folder.exists()


def test_what_was_released_is_left_alone(janitor, sleeper, folder) -> None:  # type: ignore[no-untyped-def]
    tell(janitor, f"+{sleeper.pid}\n-{sleeper.pid}\n")
    assert sleeper.poll() is None
    assert not folder.exists()


def test_groups_that_are_gone_do_not_keep_the_others_alive(janitor, sleeper, folder) -> None:  # type: ignore[no-untyped-def]
    gone = subprocess.Popen(["true"], start_new_session=True)
    gone.wait()
    tell(janitor, f"+{gone.pid}\n+{sleeper.pid}\n")
    assert sleeper.wait(60) == -signal.SIGKILL
    assert not folder.exists()


def test_signals_meant_for_the_client_do_not_end_it(janitor, folder) -> None:  # type: ignore[no-untyped-def]
    janitor.stdin.write(b"-1\n")
    janitor.stdin.flush()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    while not all(ignored_signals(janitor.pid) >> (number - 1) & 1 for number in numbers):
        signal.sigtimedwait([], 0.01)
    for number in numbers:
        janitor.send_signal(number)
    tell(janitor, "")
    assert not folder.exists()


@pytest.mark.parametrize("rest", ["-{half}", "nonsense\n", "\n", "+\n"])
def test_a_line_that_is_cut_short_or_damaged_kills_nobody_and_stops_nothing(  # type: ignore[no-untyped-def]
    janitor, sleeper, folder, rest
) -> None:
    tell(janitor, f"+{sleeper.pid}\n" + rest.format(half=sleeper.pid))
    assert sleeper.wait(60) == -signal.SIGKILL
    assert not folder.exists()


def test_a_folder_that_is_gone_already_is_no_error(janitor, folder) -> None:  # type: ignore[no-untyped-def]
    (folder / "socket").unlink()
    folder.rmdir()
    tell(janitor, "")


def test_a_client_that_forked_need_not_wait_for_its_child(janitor, folder) -> None:  # type: ignore[no-untyped-def]
    held = os.dup(janitor.stdin.fileno())  # as a forked child has it
    try:
        tell(janitor, "end\n")
        assert janitor.wait(60) == 0 and not folder.exists()
    finally:
        os.close(held)


def test_scratch_folders_of_a_client_that_was_killed_go_and_those_of_others_stay(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, subprocess, sys, time
        from aiocg.datasets import scratch
        janitor, folder = sys.argv[1:]
        command = [sys.executable, "-I", "-S", janitor, folder, scratch.__file__, str(os.getpid())]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        with scratch.scratch_folder() as path:
            print(path, process.pid, flush=True)
            time.sleep(600)
    """)
    command = [sys.executable, "-P", "-c", script, str(SCRIPT), str(tmp_path / "runtime")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as client,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as other,
    ):
        path, others = (Path(process.stdout.readline().split()[0]) for process in (client, other))
        client.kill()
        client.wait()
        for _ in range(6000):
            if not path.exists():
                break
            signal.sigtimedwait([], 0.01)
        assert not path.exists() and others.exists()
        other.kill()


async def test_there_is_a_janitor_before_there_is_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    temporary = Path(tempfile.mkdtemp(prefix="t-"))  # short, as socket addresses must be
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    start, found = asyncio.create_subprocess_exec, []

    async def started(*command: str, **options: Any) -> Any:
        found.append(os.listdir(temporary))
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    folder = await RuntimeFolder.create()
    assert found == [[]] and os.listdir(temporary) == [folder.path.name]
    await folder.close()
    assert os.listdir(temporary) == []
    temporary.rmdir()
