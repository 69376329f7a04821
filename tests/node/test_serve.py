"""`aiocg serve`, as a process: what it says, how it ends, and what is left then."""

import asyncio
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aiocg
import aiocg.testing
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity

from ..command_line import runner
from ..waiting import eventually, is_alive
from .conftest import QUICK, free_ports
from .serving import Serving

CLIENT = Path(__file__).with_name("stepping_client.py")


Start = Callable[..., Serving]


@pytest.fixture
def keys(place: Any) -> KeyFolder:
    """The keys of a node and of a client who is authorised there."""
    folder = KeyFolder(place.folder / "keys")
    place.environment["AIOCG_KEYS"] = str(folder.path)
    folder.authorize("me", folder.create().public)
    return folder


@pytest.fixture
def start(place: Any, keys: KeyFolder) -> Iterator[Start]:
    """Start nodes; afterwards nothing of them runs, and nothing is left on disk."""
    with contextlib.ExitStack() as stack:

        def begin(*options: str) -> Serving:
            serving = Serving(place, *(options or ("--bind", "tcp://127.0.0.1:0")))
            stack.callback(serving.end)
            return serving

        yield begin
    assert place.remains() == []


@contextlib.asynccontextmanager
async def client(keys: KeyFolder, serving: Serving, **settings: Any) -> AsyncIterator[aiocg.Env]:
    """An environment on the node, after two steps from 5."""
    security = ClientSecurity(keys.pair(), keys.pair().public)
    async with aiocg.Runtime(workers=1, node=serving.address, keys=security, policy=QUICK, **settings) as runtime:
        env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
        await env.reset()
        await env.step(["increment", "double"])
        yield env


async def test_it_says_where_it_listens_and_whom_it_lets_in(start: Start, keys: KeyFolder) -> None:
    serving = start("--bind", "tcp://127.0.0.1:0", "--client-workers", "3", "--workers", "5", "--client-sessions", "9")
    assert serving.said["public"] == keys.pair().public
    assert (serving.said["clients"], serving.said["workers"]) == (["me"], 5)
    assert (serving.said["limits"]["workers"], serving.said["limits"]["sessions"]) == (3, 9)
    assert serving.address.startswith("tcp://127.0.0.1:") and not serving.address.endswith(":0")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_with_all_its_workers(
    start: Start, keys: KeyFolder, number: signal.Signals, status: int
) -> None:
    serving = start()
    async with client(keys, serving):
        workers = serving.children()
        serving.process.send_signal(number)
        assert await asyncio.to_thread(serving.process.wait, 60) == status
        assert len(workers) == 1 and not any(map(is_alive, workers))


@pytest.mark.slow
async def test_a_second_signal_ends_it_at_once(start: Start, keys: KeyFolder) -> None:
    serving = start()
    async with client(keys, serving):
        (worker,) = serving.children()
        os.kill(serving.process.pid, signal.SIGSTOP)  # so that both are there when it goes on
        serving.process.send_signal(signal.SIGTERM)
        serving.process.send_signal(signal.SIGINT)
        os.kill(serving.process.pid, signal.SIGCONT)
        assert await asyncio.to_thread(serving.process.wait, 60) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        await eventually(lambda: not is_alive(worker))


@pytest.mark.slow
async def test_after_a_kill_nothing_is_left_and_a_client_goes_on_with_the_next_node(
    start: Start, keys: KeyFolder
) -> None:
    bind = f"tcp://127.0.0.1:{free_ports()[0]}"
    serving = start("--bind", bind)
    async with client(keys, serving) as env:
        (worker,) = serving.children()
        child = await env.fork()
        serving.process.kill()
        await eventually(lambda: not is_alive(worker))
        step = env.submit("increment")
        serving.process.wait()
        serving = start("--bind", bind)
        assert int((await step)[0]) == 13
        assert int((await child.step("double"))[0]) == 24


@pytest.mark.slow
async def test_a_node_that_is_stopped_for_longer_than_the_lease_goes_on_with_the_same_workers(
    start: Start, keys: KeyFolder
) -> None:
    serving = start("--bind", "tcp://127.0.0.1:0", "--lease", "2")
    async with client(keys, serving) as env:
        workers = serving.children()
        serving.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(4.0)
        serving.process.send_signal(signal.SIGCONT)
        for value in range(13, 33):
            assert int((await env.step("increment"))[0]) == value
            await asyncio.sleep(0.05)
        assert serving.children() == workers


@pytest.mark.slow
async def test_what_a_killed_client_had_is_free_after_the_lease(start: Start, keys: KeyFolder, place: Any) -> None:
    serving = start("--bind", "tcp://127.0.0.1:0", "--lease", "1")
    keys.trust(serving.address, keys.pair().public)
    command = [sys.executable, "-P", str(CLIENT), serving.address, "step", "2", "1000", "0.05"]
    process = await asyncio.to_thread(
        subprocess.Popen, command, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        assert process.stdout is not None
        said = json.loads(await asyncio.to_thread(process.stdout.readline))
        await eventually(lambda: sorted(said["workers"]) == sorted(serving.children()))  # one may be just forking
        process.kill()
    # one that is ending has no command line any more before it is a zombie: children() leaves it out too early
    await eventually(lambda: not serving.children() and not any(map(is_alive, said["workers"])))


@pytest.mark.slow
async def test_who_is_authorised_and_revoked_while_it_runs_counts(start: Start, keys: KeyFolder) -> None:
    serving = start()
    keys.revoke("me")
    async with aiocg.Runtime(node=serving.address, keys=ClientSecurity(keys.pair(), keys.pair().public)) as runtime:
        until = time.monotonic() + 60
        with pytest.raises(aiocg.errors.NodeUnreachable, match="does not know this key"):
            while time.monotonic() < until:  # the node looks once a second
                env = await runtime.make("scripted-v0")
                await env.reset()
                await asyncio.sleep(0.1)
    keys.authorize("me", keys.pair().public)
    while time.monotonic() < until:
        with contextlib.suppress(aiocg.errors.NodeUnreachable):
            async with client(keys, serving) as env:
                assert int(await env.observe("value")) == 12
                return
    pytest.fail("who was authorised again is not let in")


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True], ids=["refused", "allowed"])
async def test_where_there_is_no_box_programs_of_clients_run_only_if_the_node_was_told_so(
    start: Start, keys: KeyFolder, place: Any, allowed: bool
) -> None:
    (place.folder / "empty").mkdir()
    place.environment["PATH"] = str(place.folder / "empty")  # where there is no bwrap
    serving = start("--bind", "tcp://127.0.0.1:0", *(["--unboxed-programs"] if allowed else []))
    security = ClientSecurity(keys.pair(), keys.pair().public)
    async with aiocg.Runtime(workers=1, node=serving.address, keys=security) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        if allowed:
            assert {run["problem"] for run in await env.observe("Execution")} == {""}
        else:
            for name in ("Execution", "Runtime"):
                with pytest.raises(aiocg.errors.WorkerFailure) as refusal:
                    await env.observe(name)
                for part in ("there is no bwrap on PATH", "install bubblewrap", "--unboxed-programs"):
                    assert part in str(refusal.value)
        before = int(await env.observe("IrInstructionCount"))
        await env.step("sroa")
        assert int(await env.observe("IrInstructionCount")) < before


@pytest.mark.slow
async def test_any_command_runs_on_a_node(start: Start, keys: KeyFolder, place: Any) -> None:
    serving = start()
    keys.trust(serving.address, keys.pair().public)
    command = ["search", "random", "programs-v0/gcd", "--evaluations", "20", "--json", "--workers", "1"]
    here = place.run("aiocg", *command)
    there = place.run("aiocg", "--node", serving.address, *command)
    place.environment["AIOCG_NODE"] = serving.address
    also = place.run("aiocg", *command)
    found = [json.loads(done.stdout.splitlines()[-1]) for done in (here, there, also)]
    assert found[0]["actions"] == found[1]["actions"] == found[2]["actions"]
    log = (place.folder / "serve.log").read_text()
    assert log.count("client attached") == 2 and "client=me" in log


@pytest.mark.slow
def test_the_first_start_makes_keys_and_says_what_is_to_be_done(place: Any) -> None:
    place.environment["AIOCG_KEYS"] = str(place.folder / "keys")
    lines: queue.Queue[str] = queue.Queue()
    command = [sys.executable, "-P", "-m", "aiocg.cli", "serve", "--bind", "tcp://127.0.0.1:0"]
    command += ["--worker-ports", "5800-5899"]
    with subprocess.Popen(
        command, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        threading.Thread(target=lambda: [lines.put(line) for line in process.stdout or ()], daemon=True).start()
        text = ""
        while "AIOCG_NODE" not in text:
            text += lines.get(timeout=60)
        process.terminate()
        assert process.wait(20) == 0
    public = KeyFolder(place.folder / "keys").pair().public
    assert f"public key  {public}" in text
    assert "ports 5800-5899" in text
    assert "none yet; let one in with: aiocg keys authorize NAME PUBLIC_KEY" in text
    assert f"'{public}'" in next(line for line in text.splitlines() if "aiocg keys trust tcp://127.0.0.1:" in line)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bind", "127.0.0.1:5757"], "is not an address"),
        (["--bind", "tcp://192.0.2.1:5757"], "cannot listen on tcp://192.0.2.1:5757"),
        (["--worker-ports", "99-1"], "must be two port numbers such as 5800-5899"),
        (["--kind", "fortran"], "no workers of kind 'fortran'; there are:"),
        (["--limits", "missing.toml"], "missing.toml cannot be read"),
    ],
)
def test_what_it_cannot_do_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], says: str
) -> None:
    monkeypatch.setenv("AIOCG_KEYS", str(tmp_path / "keys"))
    done = runner(monkeypatch, capfd, "serve")(*options)
    assert done.status == 1
    assert says in " ".join(done.err.split())


def test_metrics_that_cannot_be_served_are_said_with_their_address(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("AIOCG_KEYS", str(tmp_path / "keys"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = runner(monkeypatch, capfd, "serve")("--bind", "tcp://127.0.0.1:0", "--metrics", address)
    assert done.status == 1
    assert f"metrics cannot be served at {address}: Address already in use" in " ".join(done.err.split())
    assert done.out == "" and "Traceback" not in done.err
