"""Compilers in containers, with a real engine."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.errors import EnvironmentNotSupported
from aiocg.gcc.compiler_spec import prepare, pull_image
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc import _attached_shell as attached_shell
from aiocg.workers.gcc._container import FOLDER, OWNER, ContainerRunner, Limits
from aiocg.workers.gcc._discovery import discover
from aiocg.workers.gcc._runner import ENVIRONMENT, Completed

from .engine import IMAGES, own_docker
from .images import SUITES, debian_rootfs, host_rootfs, import_image
from .registry import registry

PROGRAM = '#include <stdio.h>\n#include <math.h>\nint main(void) { printf("%.3f\\n", sqrt(2.0)); return 3; }\n'
SLEEP = ("sh", "-c", "sleep 60")


@pytest.fixture
def runner(gcc_image: str) -> Iterator[ContainerRunner]:
    runner = ContainerRunner(gcc_image, Limits(memory=512 << 20))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def busybox_image(client: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("busybox") is None:
        pytest.skip("needs busybox (apt install busybox-static)")
    return make_image(client, tmp_path_factory.mktemp("rootfs"), "gcc:busybox", busybox=True)


def make_image(client: Any, folder: Path, name: str, **contents: Any) -> str:
    host_rootfs(folder / "image.tar", **contents)
    import_image(client, folder / "image.tar", f"{IMAGES}/{name}", ["ENV PATH=/usr/local/bin:/usr/bin:/bin"])
    (folder / "image.tar").unlink()
    return f"{IMAGES}/{name}"


def run(runner: ContainerRunner, *command: str, timeout: float = 60.0, **more: Any) -> Completed:
    return runner.run(command, folder=runner.root, timeout=timeout, **more)


def shell(runner: ContainerRunner, script: str) -> str:
    done = run(runner, "sh", "-c", script)
    assert done.status == 0, done
    return done.output.decode()


def containers(client: Any) -> list[str]:
    return [str(found["Id"]) for found in client.containers(all=True, filters={"label": OWNER})]


def wait_until(true: Callable[[], bool], timeout: float = 60.0) -> None:
    patience = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < patience
        time.sleep(0.02)


@contextlib.contextmanager
def running(runner: ContainerRunner, *command: str, timeout: float = 60.0) -> Iterator[list[Any]]:
    """Have a command run in another thread, and in the end its result, or its error, in a list."""
    result: list[Any] = []

    def work() -> None:
        try:
            result.append(run(runner, "sh", "-c", ': >begun && exec "$@"', "sh", *command, timeout=timeout))
        except CompilationError as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(Path(runner.root, "begun").exists)
    yield result
    thread.join(60)
    os.unlink(os.path.join(runner.root, "begun"))


# ------------------------------------------------------------------------------------------------- it works


@pytest.mark.slow
def test_program_compiles_links_and_runs_in_a_container_as_it_does_outside(runner: ContainerRunner) -> None:
    folder = Path(runner.root, "program")
    folder.mkdir(mode=0o700)
    (folder / "t.c").write_text(PROGRAM)
    compile_it = ("-O2", "-c", "t.c", "-o", "t.o")
    assert runner.run([runner.compiler, *compile_it], folder=str(folder), timeout=60).status == 0
    inside = (folder / "t.o").read_bytes()
    environment = {**os.environ, **ENVIRONMENT}
    subprocess.run([str(shutil.which("gcc")), *compile_it], cwd=folder, env=environment, check=True)
    assert (folder / "t.o").read_bytes() == inside
    assert runner.run([runner.compiler, "t.o", "-o", "t", "-lm"], folder=str(folder), timeout=60).status == 0
    assert runner.run(["./t"], folder=str(folder), timeout=60)[:3] == (3, b"1.414\n", b"")


@pytest.mark.slow
def test_container_goes_with_a_worker_that_is_killed_in_the_middle_of_a_command(gcc_image: str, client: Any) -> None:
    script = (
        "import sys; from aiocg.workers.gcc._container import ContainerRunner; runner = ContainerRunner(sys.argv[1])\n"
        "print(runner.root, flush=True); runner.run(['sleep', '600'], folder=runner.root, timeout=600)"
    )
    before = containers(client)
    command = [sys.executable, "-P", "-c", script, gcc_image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        root = worker.stdout.readline().strip()
        worker.kill()
    shutil.rmtree(root)
    wait_until(lambda: set(containers(client)) <= set(before))


# ------------------------------------------------------------------------------------------ what it may do


@pytest.mark.slow
def test_container_has_no_rights_no_network_and_no_place_but_its_folder(runner: ContainerRunner) -> None:
    status = dict(line.split(":\t", 1) for line in shell(runner, "cat /proc/self/status").splitlines())
    assert status["Uid"].split()[0] != "0"
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert [line.split(":")[0].strip() for line in shell(runner, "cat /proc/net/dev").splitlines()[2:]] == ["lo"]
    for path in ("/x", "/usr/x", "/etc/x", "/root/x"):
        assert run(runner, "sh", "-c", f"echo >{path}").status != 0
    shell(runner, f"echo >/tmp/x && echo >{runner.root}/x")
    assert run(runner, "sh", "-c", "cat /dev/zero >/tmp/x").status != 0  # it is full before there is 1 GiB
    assert not Path("/tmp/x").exists()
    assert "HOME=/tmp" in shell(runner, "cat /proc/self/environ").split("\0")
    assert not any(name.startswith(("DOCKER_", "AIOCG_TEST")) for name in shell(runner, "export").split())


@pytest.mark.slow
def test_folders_and_files_that_only_their_owner_may_read_are_given_to_the_compiler(runner: ContainerRunner) -> None:
    folder = Path(runner.root, "a", "src")
    folder.mkdir(parents=True, mode=0o700)
    (folder / "t.c").touch(mode=0o600)
    out = Path(runner.root, "a", "out")
    out.mkdir(mode=0o700)
    done = runner.run([runner.compiler, "-c", "t.c", "-o", str(out / "t.o")], folder=str(folder), timeout=60)
    assert done.status == 0, done
    assert (out / "t.o").stat().st_size > 0


@pytest.mark.slow
def test_link_that_a_program_makes_gives_it_nothing_that_is_outside(runner: ContainerRunner, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    owner = (tmp_path / "secret").stat().st_uid
    Path(runner.root, "x").mkdir()
    os.symlink(tmp_path, Path(runner.root, "x", "folder"))
    os.symlink(tmp_path / "secret", Path(runner.root, "x", "file"))
    runner.run(["sh", "-c", "cat file folder/secret"], folder=f"{runner.root}/x", timeout=10)
    assert (tmp_path / "secret").stat().st_uid == tmp_path.stat().st_uid == owner


@pytest.mark.slow
def test_command_that_wants_too_much_memory_is_ended_and_says_so(runner: ContainerRunner) -> None:
    Path(runner.root, "t.c").write_text(
        "#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(void) { for (int i = 0; i < 2; i++)\n"
        "if (!fork()) { char *p = malloc(300 << 20); memset(p, 1, 300 << 20); pause(); }\n"  # which each of them may
        "wait(0); raise(SIGKILL); }\n"
    )
    assert run(runner, runner.compiler, "-O0", "t.c", "-o", "t").status == 0
    done = run(runner, "./t", timeout=30)
    assert (done.status, done.stopped) == (-signal.SIGKILL, "memory")
    done = run(runner, runner.compiler, "-c", "t.c", memory=16 << 20)
    assert done.status != 0
    assert run(runner, runner.compiler, "-c", "t.c").status == 0


@pytest.mark.slow
def test_output_without_end_is_cut_and_said_to_be_too_much(runner: ContainerRunner) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attached_shell, "FILE_LIMIT", 32 << 20)
        done = run(runner, "cat", "/dev/zero")
    assert (done.stopped, len(done.output)) == ("output", attached_shell.OUTPUT_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gcc", "busybox"])
def test_nothing_of_a_command_outlives_it(kind: str, request: pytest.FixtureRequest) -> None:
    """Not even what has become a daemon: with GNU's tools and with busybox's."""
    runner = ContainerRunner(request.getfixturevalue(f"{kind}_image"))
    try:
        count = "set -- /proc/[0-9]*; echo $#"
        before = int(shell(runner, count))
        done = run(runner, "sh", "-c", "sleep 61 & (sleep 62 &) ; sleep 63", timeout=0.5)
        assert (done.status, done.stopped) == (-signal.SIGKILL, "timeout")
        assert done.seconds < 60  # before the first sleep ends
        for _ in range(100):  # some are in the middle of `execve` when the command ends
            shell(runner, "sleep 640 >/dev/null 2>&1 & (sleep 650 &) ; echo")
            if kind == "busybox":
                shell(runner, "setsid sleep 660 & exit 0")
        wait_until(lambda: int(shell(runner, count)) <= before)  # what was killed may still be there as a zombie
    finally:
        runner.close()


@pytest.mark.slow
def test_many_threads_run_commands_at_once_and_each_has_its_own_answer(runner: ContainerRunner) -> None:
    def work(number: int) -> bytes:
        return run(runner, "sh", "-c", f"cat; echo {number}; exit {number}", stdin=b"in %d " % number).output

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == [b"in %d %d\n" % (number, number) for number in range(64)]


# ------------------------------------------------------------------------------------------ when it is lost


@pytest.mark.slow
def test_command_of_a_killed_container_fails_and_the_next_gets_a_new_one(runner: ContainerRunner, client: Any) -> None:
    (mine,) = client.containers(filters={"label": f"{FOLDER}={runner.root}"})
    with running(runner, *SLEEP) as result:
        client.kill(mine["Id"])
    (error,) = result
    assert isinstance(error, CompilationError)
    assert (error.code, error.fields) == (FailureCode.COMPILER, {"reason": "container"})
    assert re.search(r"\((somebody has killed it|it has ended)\). The next command gets a new", error.message)
    assert run(runner, runner.compiler, "--version").status == 0


@pytest.mark.slow
def test_container_that_was_killed_while_it_did_nothing_costs_no_command(runner: ContainerRunner, client: Any) -> None:
    (mine,) = client.containers(filters={"label": f"{FOLDER}={runner.root}"})
    client.kill(mine["Id"])
    wait_until(lambda: mine["Id"] not in containers(client))
    assert run(runner, runner.compiler, "--version").status == 0


@pytest.mark.slow
def test_program_that_kills_all_it_can_costs_its_own_command_only(runner: ContainerRunner) -> None:
    with pytest.raises(CompilationError, match="The next command gets a new container"):
        run(runner, "sh", "-c", "kill -KILL -1")
    assert run(runner, runner.compiler, "--version").status == 0


@pytest.mark.slow
def test_container_whose_maker_was_killed_before_it_was_started_is_removed(gcc_image: str, client: Any) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    gone = f"{boot} {os.stat('/proc/self/ns/pid').st_ino} {2**22 + 1} 1"
    left, alive = (
        client.create_container(gcc_image, "sh", labels={OWNER: owner, FOLDER: f"/tmp/{owner}"})["Id"]
        for owner in (gone, f"another {gone}")
    )
    try:
        ContainerRunner(gcc_image).close()
        assert [left in containers(client), alive in containers(client)] == [False, True]
    finally:
        client.remove_container(alive)


@pytest.mark.slow
def test_engine_that_restarts_or_hangs_costs_the_commands_that_run_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import docker

    with own_docker() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        image = make_image(docker.APIClient(engine.address), tmp_path, "gcc:host")
        runner = ContainerRunner(image)
        with running(runner, *SLEEP) as result:
            engine.stop()
        assert "the container was lost while it ran" in result[0].message
        with pytest.raises(CompilationError) as caught:
            run(runner, runner.compiler, "--version")
        assert caught.value.fields == {"reason": "engine"}
        assert engine.start() == ""
        assert run(runner, runner.compiler, "--version").status == 0

        monkeypatch.setattr(attached_shell, "GRACE", 0.5)
        monkeypatch.setattr(runner._client, "timeout", 1)
        engine.suspend()
        began = time.monotonic()
        with pytest.raises(CompilationError, match="no answer came within 1 s"):
            run(runner, "sleep", "0", timeout=0.5)
        assert time.monotonic() - began < 10
        engine.daemon().resume()
        assert run(runner, runner.compiler, "--version").status == 0
        runner.close()
        assert containers(docker.APIClient(engine.address)) == []


# ------------------------------------------------------------------------------------- what users are told


@pytest.mark.slow
def test_image_that_is_not_here_is_an_error_that_says_how_to_get_it(engine: str) -> None:
    with pytest.raises(CompilationError, match="aiocg gcc pull aiocg-test/none:1") as caught:
        ContainerRunner("aiocg-test/none:1")
    assert caught.value.fields == {"reason": "image"}


@pytest.mark.slow
def test_image_without_gcc_is_an_error_that_says_so(client: Any, tmp_path: Path) -> None:
    image = make_image(client, tmp_path, "shell:1", compiler="")
    before = containers(client)
    with pytest.raises(CompilationError, match="there is no gcc in the image 'aiocg-test/shell:1'"):
        ContainerRunner(image)
    assert containers(client) == before


@pytest.mark.slow
@pytest.mark.parametrize(("without", "said"), [("sh", '"sh"'), ("cat", "(there is no cat|cat: not found)")])
def test_image_without_the_needed_commands_is_an_error_that_names_them(
    without: str, said: str, client: Any, tmp_path: Path
) -> None:
    image = make_image(client, tmp_path, f"without:{without}", compiler="", without=without)
    with pytest.raises(CompilationError, match="which are sh, cat and gcc") as caught:
        ContainerRunner(image)
    assert re.search(said, caught.value.message)


@pytest.mark.slow
def test_image_for_another_machine_is_an_error_that_says_so(client: Any, tmp_path: Path) -> None:
    image = make_image(client, tmp_path, "foreign:1", compiler="", machine=0xF3)  # RISC-V
    with pytest.raises(CompilationError, match=r"its programs are for .*, this machine is"):
        ContainerRunner(image)


@pytest.mark.slow
def test_folder_that_the_engine_does_not_see_is_an_error_that_says_so(
    gcc_image: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only this process has: a file system that is mounted in a namespace of its own."""
    script = (
        "import sys; from aiocg.workers.gcc._container import ContainerRunner\n"
        "try: ContainerRunner(sys.argv[1])\n"
        "except Exception as error: print(error)"
    )
    if os.geteuid() != 0:
        pytest.skip("root can mount file systems")
    mount = 'mount -t tmpfs tmpfs /mnt && TMPDIR=/mnt exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-P", "-c", script, gcc_image]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "the engine does not see this machine's folder /mnt/gcc-" in done.stdout, done
    assert "Set TMPDIR to a folder that it sees" in done.stdout


# ------------------------------------------------------------------------------------------------- pulling


def pull(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "aiocg.workers.gcc._pull", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_image_is_pulled_with_progress_and_only_if_it_is_missing(client: Any, tmp_path: Path) -> None:
    host_rootfs(tmp_path / "image.tar", compiler="")
    with registry(tmp_path / "image.tar") as serving:
        name = f"{serving.host}/gcc:13"
        try:
            done = pull("--if-missing", name)
            assert done.returncode == 0, done.stderr
            last = done.stderr.splitlines()[-1]
            assert re.fullmatch(rf"pulling {name}: (\d+\.\d) of \1 MB, 1 layers unpacked, \d+ s", last)
            assert done.stdout.strip() == client.inspect_image(name)["Id"]
            serving.asked.clear()
            assert pull("--if-missing", name).stdout == done.stdout
            prepare({"gcc_bin": f"docker:{name}"})
            assert serving.asked == []
            assert pull_image(name) == done.stdout.strip()
            assert serving.asked != []
        finally:
            client.remove_image(name, force=True)
        failed = pull(f"{serving.host}/gcc:14")
    assert failed.returncode == 1
    assert failed.stdout.startswith(f"the image '{serving.host}/gcc:14' cannot be pulled")
    assert "Traceback" not in failed.stderr
    with pytest.raises(EnvironmentNotSupported, match=r"the image '.*' cannot be pulled"):
        prepare({"gcc_bin": f"docker:{serving.host}/gcc:14"})
    prepare({"gcc_bin": "gcc-12"})


# ---------------------------------------------------------------------------------------------- all versions


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", SUITES)
def test_every_version_says_its_options_and_compiles_in_a_container(version: int, client: Any, tmp_path: Path) -> None:
    """Each takes a minute or two."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("needs root and mmdebstrap (apt install mmdebstrap)")
    try:
        debian_rootfs(tmp_path / "image.tar", version)
    except OSError as error:
        pytest.skip(f"Debian's packages are not to be had: {error}")
    name = f"{IMAGES}/gcc:{version}"
    import_image(client, tmp_path / "image.tar", name, ["ENV PATH=/usr/local/bin:/usr/bin:/bin"])
    (tmp_path / "image.tar").unlink()
    runner = ContainerRunner(name)
    try:
        found = discover(runner)
        assert f" {version}." in found.version
        assert len(found.options) > 400
        Path(runner.root, "t.c").write_text(PROGRAM)
        assert run(runner, runner.compiler, "-O3", "t.c", "-o", "t", "-lm").status == 0
        assert run(runner, "./t").output == b"1.414\n"
    finally:
        runner.close()
        client.remove_image(name, force=True)


# ------------------------------------------------------------------------------------------- environments


@pytest.mark.slow
async def test_environment_goes_on_after_its_container_was_killed(gcc_image: str, client: Any) -> None:
    before = containers(client)
    async with aiocg.Runtime(workers=1) as runtime:
        made = {"gcc_bin": f"docker:{gcc_image}", "benchmark": "programs-v0/gcd", "action_space": "command_line"}
        async with (
            await runtime.make("gcc-v0", **made) as env,
            await runtime.make("gcc-v0", benchmark="programs-v0/gcd", action_space="command_line") as outside,
        ):
            for one in (env, outside):
                await one.reset()
                await one.step("gcc -O2")
            assert await env.observe("obj_hash") == await outside.observe("obj_hash")
            for identity in set(containers(client)) - set(before):
                client.kill(identity)
            await env.step("gcc -O3 -fno-gcse")
            await outside.step("gcc -O3 -fno-gcse")
            assert await env.observe("obj_hash") == await outside.observe("obj_hash")
    wait_until(lambda: set(containers(client)) <= set(before))
