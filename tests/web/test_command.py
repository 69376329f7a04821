"""`aiocg explore` as a command: what it says, what it refuses, and what it leaves behind."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("nicegui")

import httpx

from ..waiting import is_alive

AIOCG = str(Path(sys.executable).parent / "aiocg")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files whose name is short, as addresses of sockets must be."""
    folder = Path("/tmp", f"t-{os.getpid()}-{tmp_path.name[-8:]}")
    folder.mkdir()
    yield folder
    folder.rmdir()  # nothing was left


@pytest.mark.slow
def test_it_serves_those_who_have_the_token_and_ctrl_c_leaves_nothing_behind(
    serving: Callable[..., Any], folder: Path
) -> None:
    server = serving(folder, "programs-v0/gcd", "--token", "secret")
    try:
        assert server.address.endswith("/?token=secret")
        base = server.address.partition("?")[0]
        assert httpx.get(f"{base}envs").status_code == 401
        headers = {"authorization": "Bearer secret"}
        told = httpx.post(f"{base}sessions", json={"benchmark": "programs-v0/gcd"}, headers=headers, timeout=60)
        assert told.status_code == 201
        page = httpx.get(server.address, timeout=60)
        assert page.status_code == 200 and "aiocg explorer" in page.text and "HttpOnly" in page.headers["set-cookie"]
        processes = [one.pid for one in psutil.Process(server.process.pid).children(recursive=True)]
        assert len(server.workers()) == 2
    finally:
        status = server.stop()
    assert status == 128 + signal.SIGINT
    deadline = time.monotonic() + 30
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, processes))
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_it_begins_at_a_saved_state(serving: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.csv"
    state.write_text("environment,benchmark,actions\nllvm-ic-v0,benchmark://programs-v0/gcd,mem2reg gvn\n")
    server = serving(folder, "--state", str(state))
    try:
        assert "node 2: gvn" in httpx.get(server.address, timeout=60).text
    finally:
        server.stop()


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["programs-v0/qsrt"], "qsort"),
        (["--env", "llvm-v00"], "did you mean llvm-v0"),
        (["/nowhere/file.c"], "no file"),
        (["--state", "missing.json"], "missing.json"),
        (["--name", "here.example"], "--token"),
        (["--trust", "--host", "0.0.0.0"], "leave out --host"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is_started(place: Any, options: list[str], said: str) -> None:
    done = place.run(AIOCG, "explore", "--no-browser", "--port", "0", *options)
    assert done.returncode == 1 and said in done.stderr
    assert place.leftovers() == []


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(place: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = place.run(AIOCG, "explore", "--no-browser", "--port", port)
    assert done.returncode == 1 and f"127.0.0.1:{port}" in done.stderr and "--port 0" in done.stderr
