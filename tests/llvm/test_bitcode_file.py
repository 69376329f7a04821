"""The observation that is a file: what is in it, and when it goes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import aiocg
from aiocg.errors import ObservationFailed

CHILD = """
import asyncio, aiocg

async def main():
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        print(await env.observe("BitcodeFile"), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_it_has_the_bitcode_of_the_state(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    first = Path(await env.observe("BitcodeFile"))
    await env.step("mem2reg")
    path, bitcode = await env.observe("BitcodeFile", "Bitcode")
    assert Path(path).read_bytes() == bitcode != first.read_bytes()
    assert (path.endswith(f"{env.state_hash:016x}.bc"), Path(path).stat().st_mode & 0o077) == (True, 0)
    assert Path(path).parent.stat().st_mode & 0o077 == 0
    written = Path(path).stat().st_mtime_ns, Path(path).stat().st_ino
    assert await env.observe("BitcodeFile") == path
    assert (Path(path).stat().st_mtime_ns, Path(path).stat().st_ino) == written
    Path(path).unlink()
    assert await env.observe("BitcodeFile") == path and Path(path).read_bytes() == bitcode
    assert not env.observation_spaces["BitcodeFile"].deterministic


@pytest.mark.usefixtures("own_nurseries")  # in whose folder the file is
@pytest.mark.asyncio(loop_scope="session")
async def test_it_outlives_the_worker_and_goes_with_the_runtime() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        path = Path(await env.observe("BitcodeFile"))
        for pid in runtime.worker_pids():
            os.kill(pid, signal.SIGKILL)
        assert await env.observe("BitcodeFile") == str(path) and path.exists()
    assert not path.exists() and not path.parent.exists()


@pytest.mark.slow
def test_it_goes_when_the_client_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-P", "-c", CHILD], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        path = Path(client.stdout.readline().strip())
        assert path.exists()
        client.kill()
    for _ in range(3000):
        if not path.parent.parent.exists():
            break
        time.sleep(0.02)
    assert not path.exists() and not path.parent.parent.exists()


@pytest.mark.usefixtures("own_nurseries")  # in whose folder the file is
@pytest.mark.asyncio(loop_scope="session")
async def test_a_folder_that_cannot_be_written_is_an_error_of_this_observation_alone(make) -> None:  # type: ignore[no-untyped-def]
    """A full disk looks the same; a file stands where the folder should be, because root may write anywhere."""
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        path = Path(await env.observe("BitcodeFile"))
        path.unlink()
        path.parent.rmdir()
        path.parent.write_text("in the way")
        with pytest.raises(ObservationFailed, match="BitcodeFile: no file can be written"):
            await env.observe("BitcodeFile")
        assert await env.observe("IrInstructionCount") > 0
