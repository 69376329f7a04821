"""Workers are forked from one process, and are as well guarded as if each had been started for itself."""

import asyncio
import os
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import aiocg
from aiocg.errors import AiocgError, RuntimeClosed
from aiocg.host import nursery
from aiocg.host.folder import RuntimeFolder
from aiocg.host.nursery import Forked, Nursery, NurseryGone
from aiocg.testing import scripted_benchmark
from aiocg.transport.status import StatusPage

pytestmark = pytest.mark.usefixtures("own_nurseries")


async def made(runtime: aiocg.Runtime) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(1))
    await env.reset()
    return env


@pytest.fixture
def pids(eventually) -> Callable[..., Any]:
    async def found(runtime: aiocg.Runtime, count: int, *without: int) -> list[int]:
        await eventually(lambda: len(set(runtime.worker_pids()) - set(without)) == count)
        return runtime.worker_pids()

    return found


async def test_workers_and_those_in_their_place_have_one_parent(pids) -> None:
    async with aiocg.Runtime(workers=3) as runtime:
        env = await made(runtime)
        first = await pids(runtime, 3)
        (parent,) = {psutil.Process(pid).ppid() for pid in first}
        assert psutil.Process(parent).ppid() == os.getpid()
        assert [os.getpgid(pid) for pid in first] == first
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        assert (await env.step("increment"))[0] == 2
        again = await pids(runtime, 3, *first)
        assert {psutil.Process(pid).ppid() for pid in again} == {parent}
        children = psutil.Process(parent).children()
        assert sorted(child.pid for child in children) == sorted(again)  # the dead were reaped
    assert not psutil.pid_exists(parent)
    assert not any(map(psutil.pid_exists, again))


async def test_when_the_nursery_is_killed_its_workers_go_and_another_one_replaces_them(
    pids, eventually, is_alive
) -> None:
    async with aiocg.Runtime(workers=2) as runtime:
        env = await made(runtime)
        await env.step("increment")
        first = await pids(runtime, 2)
        parent = psutil.Process(first[0]).ppid()
        os.kill(parent, signal.SIGKILL)
        await eventually(lambda: not any(map(is_alive, first)))
        assert (await env.step("increment"))[0] == 3
        again = await pids(runtime, 2, *first)
        (other,) = {psutil.Process(pid).ppid() for pid in again}
        assert other not in (parent, os.getpid())


async def test_exit_status_and_last_words_are_those_of_the_worker() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await made(runtime)
        for action, cause in (("exit", "status 3"), ("abort", "SIGABRT"), ("crash", "SIGSEGV")):
            _, _, terminated, _, info = await env.step(action)
            assert terminated and cause in info["error_details"]
            await env.reset()


async def test_closing_does_not_wait_for_a_nursery_that_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Nursery._begin

    async def begin_stopped(self: Nursery, environ: dict[str, str]) -> None:
        await begin(self, environ)
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    monkeypatch.setattr(Nursery, "_begin", begin_stopped)
    runtime = aiocg.Runtime(workers=2)
    making = asyncio.create_task(runtime.make("scripted-v0"))
    await asyncio.sleep(0.3)
    async with asyncio.timeout(30):
        await runtime.close()
    with pytest.raises(AiocgError):
        await making


async def test_workers_start_without_a_nursery_where_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "PATIENCE", 0.0)
    async with aiocg.Runtime(workers=1) as runtime:
        env = await made(runtime)
        assert (await env.step("increment"))[0] == 2
        (pid,) = runtime.worker_pids()
        assert psutil.Process(pid).ppid() == os.getpid()


async def test_a_nursery_that_cannot_load_the_compiler_is_gone_for_good() -> None:
    folder = await RuntimeFolder.create()
    page = StatusPage.create()
    one = Nursery(["absent"], folder.path / "absent.tmp", folder)
    try:
        for _ in range(2):
            with pytest.raises(NurseryGone):
                await one.fork(f"ipc://{folder.path}/worker", os.environ, page.descriptor)
        one.stop()
        with pytest.raises(RuntimeClosed):
            await one.fork(f"ipc://{folder.path}/worker", os.environ, page.descriptor)
        assert not Path(folder.path, "absent.tmp").exists()
    finally:
        await one.close()
        page.close()
        await folder.close()


async def test_a_dead_worker_keeps_its_number_until_it_is_closed(eventually) -> None:
    folder = await RuntimeFolder.create()
    page = StatusPage.create()
    one = Nursery(["scripted"], folder.path / "scripted.tmp", folder)
    try:
        environ = {**os.environ, "TMPDIR": str(folder.path)}
        worker: Forked = await one.fork(f"ipc://{folder.path}/worker", environ, page.descriptor)
        os.killpg(worker.pid, signal.SIGTERM)
        assert await worker.wait() == -signal.SIGTERM
        assert psutil.Process(worker.pid).status() == psutil.STATUS_ZOMBIE
        worker.close()
        await eventually(lambda: not psutil.pid_exists(worker.pid))
    finally:
        await one.close()
        page.close()
        await folder.close()


async def test_a_folder_that_a_worker_has_made_again_is_made_private() -> None:
    folder = await RuntimeFolder.create()
    try:
        shutil.rmtree(folder.path)
        (folder.path / "worker").mkdir(parents=True)
        folder.path.chmod(0o755)
        folder.ensure()
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        folder.path.chmod(0o777)
        with pytest.raises(PermissionError, match="has been replaced"):
            folder.ensure()
    finally:
        await folder.close()
