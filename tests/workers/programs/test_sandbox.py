"""What programs can do to the machine: they are tried with real programs, in a box and without."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.programs import execution, scratch
from aiocg.workers.programs.execution import Runner
from aiocg.workers.programs.recipe import Run
from aiocg.workers.programs.sandbox import Sandbox, choose

CACHING = {"PATH": "/usr/bin:/bin", "HOME": "."}
Execute = Callable[..., dict[str, Any]]


def shell(script: str, *, timeout: float = 30.0, environment: dict[str, str] | None = None, **more: Any) -> Run:
    """Make a run of the shell, which is a program as good as any."""
    run = Run("it", ("-c", script), b"", {}, environment or {}, 0, None, {}, timeout)
    return Run(**{name: more.get(name, getattr(run, name)) for name in run.__struct_fields__})


def boxed(*, narrow: bool = False) -> Sandbox:
    """Return the sandbox that is a box, or skip the test where there can be none."""
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bwrap (apt install bubblewrap)")
    return Sandbox("bwrap", narrow)


@pytest.fixture(params=["rlimits", "box", "narrow box"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    limited = request.param == "rlimits"
    runner = Runner(Sandbox("rlimits") if limited else boxed(narrow=request.param == "narrow box"))
    yield runner
    runner.close()


@pytest.fixture(params=[False, True], ids=["wide", "narrow"])
def box(request: pytest.FixtureRequest) -> Iterator[Runner]:
    runner = Runner(boxed(narrow=request.param))
    yield runner
    runner.close()


def do(runner: Runner, run: Run, executable: str = "/bin/sh") -> dict[str, Any]:
    with runner.run(Path(executable), run, time.monotonic() + 60) as ended:
        return {**ended.describe(), "text": ended.stdout.decode(), "seconds": ended.seconds}


def say(runner: Runner, script: str, **more: Any) -> str:
    """Run a script and return what it says."""
    result = do(runner, shell(script, **more))
    assert isinstance(result["text"], str)
    return result["text"].strip()


# ------------------------------------------------------------------------------------------- with and without a box


def test_a_program_inherits_nothing(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    with open("/etc/hostname") as file:
        os.set_inheritable(file.fileno(), True)
        assert say(runner, "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/self/fd/$n ] && echo $n; done") == "0\n1\n2"
    environment = say(runner, "tr '\\0' '\\n' < /proc/self/environ")
    assert environment == ""
    assert say(runner, "tr '\\0' '\\n' < /proc/self/environ", environment={"A": "1"}) == "A=1"


def test_a_program_has_a_session_of_its_own_and_gains_no_privileges(runner: Runner) -> None:
    number, group, session = say(runner, "read -r p _ _ _ g s _ < /proc/self/stat; echo $p $g $s").split()
    assert number == group == session
    assert "NoNewPrivs:\t1" in say(runner, 'while read -r line; do echo "$line"; done < /proc/self/status')


def test_a_program_has_limits(runner: Runner) -> None:
    rows = {line[:25].strip(): line[25:].split() for line in say(runner, "cat /proc/self/limits").splitlines()[1:]}
    for name, value in (
        ("Max address space", execution.MEMORY_LIMIT),
        ("Max file size", execution.FILE_LIMIT),
        ("Max core file size", 0),
        ("Max open files", execution.OPEN_FILES),
        ("Max msgqueue size", 0),
    ):
        assert rows[name][:2] == [str(value)] * 2, name
    assert rows["Max cpu time"][0].isdigit()
    assert int(rows["Max processes"][1]) >= execution.PROCESSES


def test_what_a_program_starts_ends_with_it(runner: Runner) -> None:
    mark = uuid.uuid4().hex
    script = "i=0; while [ $i -lt 20 ]; do setsid sleep 600 & i=$((i+1)); done; echo $!"
    assert say(runner, script, environment={"MARK": mark, "PATH": "/usr/bin:/bin"}).isdigit()
    assert marked(mark) == []


def test_a_box_that_is_not_ready_yet_ends_with_all_that_has_its_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, mark = Sandbox("rlimits"), uuid.uuid4().hex
    made, command = sandbox.make, ["env", f"MARK={mark}", "sh", "-c", "sleep 600 & wait"]
    monkeypatch.setattr(Sandbox, "make", lambda _, root: made(root)._replace(command=command))
    monkeypatch.setattr(execution, "PATIENCE", 0.2)
    with pytest.raises(CompilationError, match="gives no answer"):
        do(Runner(sandbox), shell("true", timeout=0.1))
    until(lambda: not marked(mark))


@pytest.mark.few(1)
def test_programs_end_with_the_worker_however_it_ends(runner: Runner, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from aiocg.workers.programs.execution import Runner\n"
        "from aiocg.workers.programs.recipe import Run\n"
        "from aiocg.workers.programs.sandbox import Sandbox\n"
        "mode, narrow, mark = sys.argv[1:]\n"
        "run = Run('it', ('-c', 'setsid sleep 600 & sleep 600'), b'', {}, {'MARK': mark}, 0, None, {}, 600.0)\n"
        "with Runner(Sandbox(mode, narrow == 'True')).run(Path('/bin/sh'), run, time.monotonic() + 600): pass"
    )
    mode, narrow = runner.sandbox
    command = [sys.executable, "-P", "-c", script, mode, str(narrow), mark]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}) as worker:  # which leaves its folder
        until(lambda: len(marked(mark)) >= 2)
        worker.kill()
    until(lambda: not marked(mark))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def marked(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark(process) == mark]


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("MARK")
    except psutil.Error:
        return None


@pytest.mark.slow
def test_a_program_has_no_more_memory_with_others_than_alone(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no limit on its address space, as for sanitizers."""
    monkeypatch.setattr(execution, "RESIDENT_LIMIT", 256 << 20)
    script = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ${#x}; while :; do (sleep 600) & sleep 0.01; done"
    run = shell(script, environment={"PATH": "/usr/bin:/bin"})
    with runner.run(Path("/bin/sh"), run, time.monotonic() + 60, memory=None) as ended:
        assert (ended.stopped, ended.stdout) == ("memory", b"20000000\n")
        assert ended.problem() == "ran out of memory and was stopped" and ended.describe()["timed_out"] is False


@pytest.mark.few(2)
@pytest.mark.parametrize("what", ["folder/file", "folder", "../folder/file"])
def test_a_link_does_not_lead_to_files_outside(runner: Runner, tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("secret")
    script = f"rm -rf folder; ln -s {tmp_path} folder; ln -s {tmp_path}/file link"
    result = do(runner, shell(script, outputs={"folder/file": None, "link": None}, environment={"PATH": "/bin"}))
    assert result["files"] == {"folder/file": None, "link": None}
    assert (tmp_path / "file").read_text() == "secret"


def test_a_pipe_in_the_place_of_an_output_keeps_nobody_waiting(runner: Runner) -> None:
    result = do(runner, shell("mkfifo out", outputs={"out": None}, environment={"PATH": "/usr/bin:/bin"}))
    assert result["files"] == {"out": None}


def test_nothing_is_left_for_the_next_program(runner: Runner) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    assert say(runner, "mkdir a; touch a/b .c; chmod 0 a; ls -A; ln -s / e", environment=environment) == ".c\na"
    assert say(runner, "ls -A", environment=environment) == ""


def test_a_program_cannot_change_its_own_file_for_the_next_run(runner: Runner, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho first\necho 'echo second' >> $0\n")
    program.chmod(0o755)
    run = shell("", arguments=())
    before = program.read_bytes()
    first, second = (do(runner, run, str(program))["text"] for _ in range(2))
    assert first.startswith("first\n") and first == second
    assert program.read_bytes() == before and stat.S_IMODE(program.stat().st_mode) == 0o755


def test_a_program_is_timed_from_its_start_to_its_end(runner: Runner) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    for script in ("sleep 0.2", "(sleep 0.2; echo late) & wait"):
        assert do(runner, shell(script, environment=environment))["seconds"] >= 0.2


def test_work_that_a_program_leaves_to_others_is_not_done(runner: Runner) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    result = do(runner, shell("(sleep 0.2; echo done) &", environment=environment, stdout=b"done\n"))
    assert result["problem"] == "wrote something else than expected on standard output"


def test_a_program_finds_no_results_of_earlier_runs(runner: Runner) -> None:
    run = shell('cat cached 2>/dev/null || echo computed | tee cached "$HOME/cached" 2>/dev/null', environment=CACHING)
    assert [do(runner, run)["text"] for _ in range(3)] == ["computed\n"] * 3


# ---------------------------------------------------------------------------------------------------- only in a box


def test_in_a_box_there_is_no_network(box: Runner) -> None:
    assert say(box, "grep -c : /proc/net/dev", environment={"PATH": "/bin"}) == "1"  # the loopback


def test_in_a_box_nothing_else_can_be_written(box: Runner, tmp_path: Path) -> None:
    places = ("/", "/usr", "/dev", "/run", "/run/program", "/etc", "/sys", "/proc", os.path.expanduser("~"), tmp_path)
    script = "; ".join(f"(echo x > {place}/aiocg-was-here) 2>&- && echo {place}" for place in places)
    assert say(box, f"{script}; echo x > here && echo done") == "done"
    assert not any(Path(place, "aiocg-was-here").exists() for place in places)


def test_in_a_box_not_even_root_changes_the_kernels_settings(box: Runner) -> None:
    """A box of root's has root's right to write these files, though no capability: opening one is enough to see it."""
    places = ("sys/kernel/core_pattern", "sysrq-trigger", "sys/vm/drop_caches", "self/oom_score_adj")
    script = "; ".join(f"(: >> /proc/{place}) 2>&- && echo {place}" for place in places)
    script += "; find /proc/sys /sys -xdev -type f -writable 2>&-; :"
    assert say(box, script, environment={"PATH": "/usr/bin:/bin"}) == ""


def test_in_a_box_other_processes_cannot_be_seen(box: Runner) -> None:
    assert say(box, "echo /proc/[0-9]*").count("/") <= 3 * 2  # the runner and the shell
    assert say(box, "cat /proc/1/environ /proc/1/maps 2>&- | wc -c", environment={"PATH": "/usr/bin:/bin"}) == "0"
    assert say(box, "kill -9 1; echo alive") == "alive"


def test_in_a_box_nothing_is_shared_with_the_next_program(box: Runner) -> None:
    script = "cat /tmp/left /dev/shm/left 2>&-; echo x > /tmp/left && echo x > /dev/shm/left && echo made"
    assert [say(box, script, environment={"PATH": "/bin"}) for _ in range(2)] == ["made", "made"]


@pytest.mark.needs("ipcmk")
def test_a_box_in_which_shared_memory_was_left_is_replaced(box: Runner) -> None:
    count = "grep -c . /proc/sysvipc/shm"
    environment = {"PATH": "/usr/bin:/bin"}
    assert say(box, f"ipcmk -M 1000 >&-; {count}", environment=environment) == "2"
    assert say(box, count, environment=environment) == "1"


def test_in_a_box_namespaces_cannot_be_made(box: Runner) -> None:
    """Else a program could mount file systems of memory, which no limit counts."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare to try it with")
    assert say(box, "unshare -U true 2>&- || echo refused", environment={"PATH": "/usr/bin:/bin"}) == "refused"


def test_in_a_narrow_box_only_the_systems_programs_and_libraries_are_seen(tmp_path: Path) -> None:
    runner = Runner(boxed(narrow=True))
    (tmp_path / "key").write_text("secret")
    hidden = ("/etc/passwd", "/etc/hostname", "/var/lib", "/boot", str(Path(__file__)), str(tmp_path / "key"))
    try:
        assert say(runner, "; ".join(f"[ -e {path} ] && echo {path}" for path in ("/usr/lib", *hidden))) == "/usr/lib"
    finally:
        runner.close()


def test_time_that_making_a_box_takes_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("bwrap")
    runner = Runner(boxed())
    slow = tmp_path / "bwrap"
    slow.write_text(f'#!/bin/sh\n/bin/sleep 0.3\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    started = time.monotonic()
    try:
        seconds = do(runner, shell("exit 0"))["seconds"]
    finally:
        runner.close()
    assert 0 < seconds < time.monotonic() - started - 0.6  # it was tried first, and then made


# ------------------------------------------------------------------------------------------------------- which it is


@pytest.fixture
def no_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def broken_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho namespaces are not for you >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("machine", "message"), [("no_bwrap", "there is no bwrap on PATH"), ("broken_bwrap", "namespaces are not for you")]
)
def test_where_there_can_be_no_box_it_is_an_error_or_limits_must_do(
    machine: str, message: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(machine)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(CompilationError, match=message) as caught:
        do(Runner(Sandbox("bwrap")), shell("exit 0"))
    assert os.listdir(temporary) == []
    assert caught.value.code == FailureCode.OBSERVATION and "AIOCG_SANDBOX=rlimits" in caught.value.message
    runner = Runner(Sandbox("auto"))
    try:
        assert do(runner, shell("exit 0"))["problem"] == ""
    finally:
        runner.close()


def test_the_option_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOCG_SANDBOX", raising=False)
    assert choose({}) == Sandbox("auto", narrow=False)
    monkeypatch.setenv("AIOCG_SANDBOX", "rlimits")
    assert choose({}).mode == "rlimits"
    assert choose({"sandbox": "auto"}).mode == "auto"


@pytest.mark.parametrize("variable", ["auto", "bwrap", "rlimits"])
def test_programs_of_others_run_without_a_box_only_where_that_is_allowed(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_SANDBOX", variable)
    assert choose({"untrusted": True}) == Sandbox("bwrap", narrow=True)
    assert choose({"untrusted": True, "unboxed_programs": True}) == Sandbox(variable, narrow=True)


def test_another_word_is_an_error_that_says_where_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_SANDBOX", "chroot")
    with pytest.raises(CompilationError, match="AIOCG_SANDBOX is 'chroot': expected one of auto, bwrap, rlimits"):
        choose({})
    with pytest.raises(CompilationError, match="the option sandbox is 'none'"):
        choose({"sandbox": "none"})


# ---------------------------------------------------------------------------------------------------------- scratch


def test_what_is_to_be_kept_is_kept_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    keep = scratch.folders_in(tmp_path)
    (tmp_path / "a" / "c" / "d").mkdir(parents=True)
    (tmp_path / "a" / "b" / "e").symlink_to("/")
    (tmp_path / "f").touch()
    scratch.empty(tmp_path, keep)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["a", "a/b"]


def test_what_is_nested_deeper_than_python_can_follow_is_removed(tmp_path: Path) -> None:
    """In a process of its own: finalizers may run at any depth, and what belongs to other tests would fail there."""
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    script = (
        "import sys\nfrom pathlib import Path\nfrom aiocg.workers.programs import scratch\n"
        "sys.setrecursionlimit(100)\nscratch.empty(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-P", "-c", script, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == []


def test_only_files_below_the_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    assert scratch.read(tmp_path, "a/file") == b"x"
    assert [scratch.read(tmp_path, name) for name in ("a", "link/file", "none", "a/file/b")] == [None] * 4
