"""A compiler that misbehaves, or is not there: what is told of it, and that everything else goes on."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.errors import DeadlineExceeded, EnvironmentNotSupported, ObservationFailed, WorkerFailure
from aiocg.fleet.restart_policy import Policy
from aiocg.workers.gcc._discovery import OptionsFile, discover
from aiocg.workers.gcc._local import LocalRunner

from .written import LOOP, program

pytestmark = pytest.mark.asyncio(loop_scope="session")

SLEEP = f"4716.{os.getpid()}"  # seconds, by which what was started here is known


class Wrapper:
    """A compiler that is the machine's own, but misbehaves as it is told to for `program.c`."""

    def __init__(self, folder: Path, gcc: str) -> None:
        self.path = folder / "gcc-wrapped"
        self._what = folder / "misbehaviour"
        self.path.write_text(
            f'#!/bin/sh\ncase " $* " in *" program.c "*) [ -e {self._what} ] && . {self._what} ;; esac\n'
            f'exec {gcc} "$@"\n'
        )
        self.path.chmod(0o755)

    def __str__(self) -> str:
        return str(self.path)

    @contextlib.contextmanager
    def doing(self, what: str) -> Any:
        self._what.write_text(what)
        try:
            yield
        finally:
            self._what.unlink()


@pytest.fixture(scope="module")
def wrapper(gcc: str, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Wrapper:
    """A compiler whose options are known, since finding that takes seconds: they are those of the other."""
    made = Wrapper(tmp_path_factory.mktemp("bin"), gcc)
    with closing(LocalRunner(gcc)) as inner, closing(LocalRunner(str(made))) as outer:
        found = discover(inner, str(cache))
        OptionsFile(str(cache), outer.identity, found.version).get(lambda: found)
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def alone(wrapper: Wrapper, cache: Path) -> AsyncIterator[aiocg.Runtime]:
    """A runtime with one worker."""
    policy = Policy(first_delay=0.01, max_delay=0.05)
    async with aiocg.Runtime(workers=1, policy=policy, options={"cache_dir": str(cache)}) as runtime:
        yield runtime
    assert processes() == []


@pytest_asyncio.fixture(loop_scope="session")
async def env(alone: aiocg.Runtime, wrapper: Wrapper) -> AsyncIterator[aiocg.Env]:
    env = await alone.make(
        "gcc-v0", gcc_bin=str(wrapper), benchmark=distinct(), action_space="command_line", observation_space="obj_size"
    )
    await env.reset()
    yield env
    await env.close()


def distinct() -> Any:
    """Return a program that nothing is known of yet."""
    return program(LOOP + f"int made_at = {time.monotonic_ns() % 2**31};\n")


def processes() -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdecimal() and SLEEP.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110, processes set no events
            await asyncio.sleep(0.01)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("what", "reason", "words"),
    [
        ("echo 'during RTL pass: final; internal compiler error: in f' >&2; exit 1", "internal compiler error", "in f"),
        ("echo 'error: these do not go together' >&2; exit 1", "refused", "do not go together"),
        ("echo 'out of memory allocating 8 bytes' >&2; exit 1", "memory", "allocating"),
        ("echo 'last words' >&2; kill -SEGV $$", "crashed", "last words"),
        ("exit 0", "nothing", "reported success"),
    ],
)
async def test_a_failed_compile_is_told_and_the_environment_goes_on(
    alone: aiocg.Runtime, env: aiocg.Env, wrapper: Wrapper, what: str, reason: str, words: str
) -> None:
    (pid,) = alone.worker_pids()
    before = await env.observe("obj_size")
    with wrapper.doing(what):
        _, _, terminated, _, info = await env.step("gcc -O2")
        assert terminated and isinstance(info["error"], ObservationFailed)
        assert info["error"].fields["reason"] == reason and words in str(info["error"])
        good, bad = await other_and_this(env)
        assert good.error is None and words in str(bad.error)
    await env.reset()
    assert (await env.step("gcc -O1"))[0] != before
    assert alone.worker_pids() == [pid]


async def other_and_this(env: aiocg.Env) -> Any:
    """Expand a new episode by what is known to compile, and by what does not."""
    await env.reset()
    return await env.expand(["gcc", "gcc -O3"])


async def test_a_compile_that_hangs_is_an_error_of_its_step_by_parameter_and_by_deadline(
    alone: aiocg.Runtime, env: aiocg.Env, wrapper: Wrapper
) -> None:
    (pid,) = alone.worker_pids()
    assert await env.send_parameter("timeout", "0.3") == "0.3"
    with wrapper.doing(f"sleep {SLEEP}"):
        _, _, terminated, _, info = await env.step("gcc -O2")
        assert terminated and info["error"].fields == {**info["error"].fields, "reason": "timeout"}
        assert processes() == []
        await env.reset()  # the parameter stays
        await env.send_parameter("timeout", "60")
        with pytest.raises(ObservationFailed, match="had not compiled") as failed:
            try:
                await env.observe("asm_size_O3", timeout=1.0)
            except DeadlineExceeded:  # a busy machine has not let the worker say so in time
                await env.reset()
                (pid,) = alone.worker_pids()
                await env.observe("asm_size_O3", timeout=4.0)
        assert failed.value.fields["reason"] == "timeout" and processes() == []
    assert alone.worker_pids() == [pid]
    assert await env.observe("asm_size_O3") > 0


async def test_a_cancelled_observation_takes_its_compile_along(
    alone: aiocg.Runtime, env: aiocg.Env, wrapper: Wrapper
) -> None:
    with wrapper.doing(f"sleep {SLEEP} & sleep {SLEEP}"):
        waiting = asyncio.ensure_future(env.observe("asm_size_O2"))
        await until(lambda: len(processes()) == 2)
        waiting.cancel()
        await until(lambda: processes() == [])
    assert await env.observe("asm_size_O2") > 0


async def test_a_killed_worker_takes_its_compile_along_and_the_request_is_done_by_the_next(
    alone: aiocg.Runtime, env: aiocg.Env, wrapper: Wrapper
) -> None:
    await env.step("gcc -O2")
    with wrapper.doing(f"sleep {SLEEP}"):
        waiting = asyncio.ensure_future(env.observe("asm_size_O3"))
        await until(lambda: len(processes()) == 1)
        first = processes()
    (pid,) = alone.worker_pids()
    os.kill(pid, signal.SIGKILL)
    assert await waiting > 0
    assert not set(first) & set(processes())
    assert await env.observe("command_line") == "gcc -O2" and alone.worker_pids() != [pid]


async def test_a_compiler_that_is_replaced_or_removed_is_told_and_reset_takes_what_is_there(
    alone: aiocg.Runtime, env: aiocg.Env, wrapper: Wrapper
) -> None:
    aside, status = wrapper.path.with_name("aside"), wrapper.path.stat()
    (pid,) = alone.worker_pids()
    wrapper.path.rename(aside)
    _, _, terminated, _, info = await env.step("gcc -O2")
    assert terminated and isinstance(info["error"], WorkerFailure) and "is gone" in str(info["error"])
    with pytest.raises(WorkerFailure, match="no compiler"):
        await env.reset()
    aside.rename(wrapper.path)
    await env.reset()
    assert (await env.step("gcc -O2"))[0] > 0
    os.utime(wrapper.path, (1, 1))
    with pytest.raises(WorkerFailure, match="was replaced"):
        await env.observe("asm_size_O3")
    os.utime(wrapper.path, ns=(status.st_atime_ns, status.st_mtime_ns))  # or else its options are looked for again
    await env.reset()
    assert (await env.step("gcc -O3"))[0] > 0
    assert alone.worker_pids() == [pid]


async def test_a_compiler_that_is_not_there_is_told_at_once(cache: Path) -> None:
    async with aiocg.Runtime(workers=1, options={"cache_dir": str(cache)}) as runtime:
        for name in ("gcc-nowhere", "/nowhere/bin/gcc"):
            with pytest.raises(EnvironmentNotSupported, match=f"no compiler '{name}'.*Install GCC"):
                await runtime.make("gcc-v0", gcc_bin=name, benchmark=distinct())


async def test_what_is_no_compiler_is_told_at_once(cache: Path) -> None:
    async with aiocg.Runtime(workers=1, options={"cache_dir": str(cache)}) as runtime:
        with pytest.raises(EnvironmentNotSupported):
            await runtime.make("gcc-v0", gcc_bin="/bin/true", benchmark=distinct())


async def test_a_program_that_does_not_compile_is_told_when_it_is_observed(make: Callable[..., Any]) -> None:
    env = await make(program("int main(void) { return nothing; }\n"), action_space="command_line")
    await env.step("gcc -O2")
    with pytest.raises(ObservationFailed, match="'nothing' undeclared"):
        await env.observe("obj_size")
    assert await env.observe("command_line") == "gcc -O2"
