"""What compilers in containers take apart from an engine: shells that carry out commands, and errors that help."""

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc import _engine as engine
from aiocg.workers.gcc._attached_shell import FILES, KEEPER, KILL, LOOP, OUTPUT, command_file, mark, read_answer

SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
docker = pytest.importorskip("docker", reason="needs docker-py: pip install 'aiocg[docker]'")


# ---------------------------------------------------------------------------------------------- the shells


class Shell:
    """A shell of this machine that runs the loop as one in a container does."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.folder = folder
        for name in FILES:
            (folder / name).touch()
        environment = dict(os.environ)
        if command[0] == "busybox":  # has its own `timeout`, too
            tools = folder / "tools"
            tools.mkdir()
            for tool in ("setsid", "cat", "sh", "sleep"):
                (tools / tool).symlink_to(str(shutil.which("busybox")))
            environment = os.environ | {"PATH": str(tools)}
            command = [str(shutil.which("busybox")), *command[1:]]
        self.command, self.environment = command, environment
        self.process = subprocess.Popen(
            [*command, "-c", LOOP, "sh", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, turn: int, *command: str, timeout: float = 30.0, stdin: bool = False, **more: int) -> int:
        limits = {"memory": 1 << 30, "file_size": 1 << 20} | more
        text = command_file(command, str(self.folder), stdin=stdin, **limits)
        (self.folder / "command").write_text(text)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"%d\n" % turn)
        self.process.stdin.flush()
        while not select.select([self.process.stdout], [], [], max(timeout, 0.0))[0]:
            kill = [*self.command, "-c", KILL, "sh", mark(str(self.folder), turn)]
            subprocess.run(kill, env=self.environment, check=False)
            timeout = 1.0
        answer = read_answer(self.process.stdout.readline())
        assert answer.turn == turn
        return answer.status

    def output(self) -> str:
        return (self.folder / OUTPUT).read_text()


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    command = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    shell = Shell(command, tmp_path)
    yield shell
    with shell.process:
        assert shell.process.stdin is not None
        shell.process.stdin.close()
    assert shell.process.returncode == 0


def test_shell_gives_a_command_its_words_and_its_input_and_tells_how_it_ended(shell: Shell) -> None:
    words = ["two  words", "a'quote", 'and"another', "$HOME", "*", "", "new\nline", "\\", "é"]
    assert shell.ask(1, "sh", "-c", 'for word; do echo "<$word>"; done; exit 7', "sh", *words) == 7
    assert shell.output() == "".join(f"<{word}>\n" for word in words)
    (shell.folder / "input").write_text("hello")
    assert shell.ask(2, "cat", stdin=True) == 0
    assert shell.output() == "hello"
    assert shell.ask(3, "cat") == 0
    assert shell.output() == ""
    assert shell.ask(4, "sh", "-c", "kill -SEGV $$") == -11
    assert shell.ask(5, "there-is-no-such-command") == 127


@pytest.mark.slow
def test_shell_ends_what_takes_too_long_with_all_that_it_has_started(shell: Shell) -> None:
    sleep = f"sleep {5000 + os.getpid()}"
    assert shell.ask(1, "sh", "-c", f"{sleep} & setsid {sleep} & {sleep}", timeout=0.3) == -9
    patience = time.monotonic() + 60
    while any(" ".join(words) == sleep for words in commands()):
        assert time.monotonic() < patience
        time.sleep(0.02)
    assert shell.ask(2, "sleep", "60", timeout=-1.0) == -9
    assert shell.ask(3, "cat") == 0


def commands() -> Iterator[list[str]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield process.cmdline()


def test_shell_limits_the_files_and_the_memory_of_a_command_and_not_of_the_next(shell: Shell) -> None:
    assert shell.ask(1, "sh", "-c", "exec cat /dev/zero") == -25  # SIGXFSZ
    assert (shell.folder / OUTPUT).stat().st_size == 1 << 20
    assert shell.ask(2, "cat", memory=4096) != 0
    assert shell.ask(3, "cat") == 0


def test_first_process_of_a_container_ends_with_its_input() -> None:
    with subprocess.Popen(["sh", "-c", KEEPER], stdin=subprocess.PIPE) as keeper:
        assert keeper.poll() is None
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert keeper.wait(10) == 0


# ---------------------------------------------------------------------------------------------- the engine


def failed(monkeypatch: pytest.MonkeyPatch, address: str) -> CompilationError:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(CompilationError) as caught:
        engine.connect()
    assert caught.value.code == FailureCode.COMPILER
    return caught.value


def test_engine_that_is_not_there_is_an_error_that_says_where_it_was_sought(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = failed(monkeypatch, f"unix://{tmp_path}/none")
    assert error.fields == {"reason": "engine"}
    assert f"DOCKER_HOST says unix://{tmp_path}/none: No such file or directory" in error.message
    assert "Start one" in error.message
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert {f"unix://{tmp_path}/docker.sock", "unix:///var/run/docker.sock"} <= set(engine.addresses())


def test_engine_that_nobody_runs_any_more_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{tmp_path}/s")
    assert "Connection refused" in failed(monkeypatch, f"unix://{tmp_path}/s").message


def test_engine_that_does_not_answer_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "ANSWER_TIMEOUT", 0.3)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/s")
        silent.listen()
        assert "timed out" in failed(monkeypatch, f"unix://{tmp_path}/s").message.lower()


def test_engine_that_one_may_not_use_is_an_error_that_says_how_one_may(tmp_path: Path) -> None:
    path = f"/tmp/aiocg-test-{os.getpid()}.sock"  # the folder of a test is for its owner only
    script = (
        "import os, sys; from aiocg.workers.gcc._engine import connect\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: connect()\n"
        "except Exception as error: print(error)"
    )
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(path)
        try:
            os.chmod(path, 0)
            closed.listen()
            environment = os.environ | {"DOCKER_HOST": f"unix://{path}", "HOME": str(tmp_path)}
            command = [sys.executable, "-P", "-c", f"import docker, docker.utils, requests\n{script}"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
        finally:
            os.unlink(path)
    assert f"you may not use the container engine at unix://{path}" in done.stdout, done.stderr
    assert "sudo usermod -aG docker $USER" in done.stdout


def test_docker_py_that_is_missing_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(CompilationError, match=r"pip install 'aiocg\[docker\]'") as caught:
        engine.connect()
    assert caught.value.fields == {"reason": "docker-py"}


def test_progress_counts_the_bytes_of_all_layers_once() -> None:
    progress = engine.Progress()
    for event in (
        {"status": "Pulling from library/gcc", "id": "13"},
        {"status": "Already exists", "progressDetail": {}, "id": "a"},
        {"status": "Downloading", "progressDetail": {"current": 1_000_000, "total": 4_000_000}, "id": "b"},
        {"status": "Downloading", "progressDetail": {"current": 3_000_000, "total": 4_000_000}, "id": "b"},
        {"status": "Downloading", "progressDetail": {"current": 500_000, "total": 2_000_000}, "id": "c"},
    ):
        text = progress.after(event)
    assert text.startswith("3.5 of 6.0 MB, 0 layers unpacked")
    progress.after({"status": "Download complete", "progressDetail": {}, "id": "b"})
    assert progress.after({"status": "Pull complete", "id": "b"}).startswith("4.5 of 6.0 MB, 1 layers unpacked")
