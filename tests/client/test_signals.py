"""SIGINT and SIGTERM to a client, whatever it is doing: it ends soon, says so by convention, and leaves nothing."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

PATIENCE = 2.0  # seconds that a client has to end; on an idle machine it takes a tenth of that
SLACK = 30.0  # seconds that a busy machine may add
INT, TERM = signal.SIGINT, signal.SIGTERM

ASYNCHRONOUS = """
    import asyncio, sys
    import aiocg
    from aiocg.testing import scripted_benchmark
    phase = sys.argv[1]

    def say(word):
        if word == phase:
            print(word, flush=True)

    async def main():
        runtime = aiocg.Runtime(workers=2)
        async with runtime:
            say("starting")
            env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
            await env.reset()
            futures = [env.submit("nap") for _ in range(60)]
            say("stepping")
            await asyncio.gather(*(futures if phase == "closing" else [*futures, env.submit("hang")]))
            say("closing")
            if phase == "closing":
                hanging = env.submit("hang")
                await asyncio.sleep(0.05)
    asyncio.run(main())
    print("ended", flush=True)
"""

BLOCKING = """
    import sys, time
    import aiocg.gym
    from aiocg.testing import scripted_benchmark
    phase = sys.argv[1]

    def say(word):
        if word == phase:
            print(word, flush=True)

    say("starting")
    env = aiocg.gym.CompilerEnv("scripted-v0", benchmark=scripted_benchmark(5))
    env.reset()
    say("stepping")
    for _ in range(50):
        env.step("nap")
    if phase == "stepping":
        env.step("hang")
    say("closing")
    env.close()
    aiocg.gym.shutdown()
    print("ended", flush=True)
"""

VECTOR = """
    import sys
    import aiocg.gym
    from aiocg.testing import scripted_benchmark
    phase = sys.argv[1]
    vector = aiocg.gym.CompilerVectorEnv("scripted-v0", 4, benchmark=scripted_benchmark(5))
    vector.reset()
    print(phase, flush=True)
    while True:
        vector.step([5 if phase == "hanging" else 11] * 4)
"""

COMPILING = """
    import sys
    from aiocg.datasets import default_datasets
    print("compiling", flush=True)
    for name in ("qsort", "lz77", "sudoku", "huffman", "chacha20", "life", "matmul", "nqueens"):
        default_datasets().benchmark(f"benchmark://programs-v0/{name}").content
    print("ended", flush=True)
"""

POOL = """
    import concurrent.futures, multiprocessing, sys
    import aiocg.gym
    from aiocg.testing import scripted_benchmark

    def work(number):
        env = aiocg.gym.CompilerEnv("scripted-v0", benchmark=scripted_benchmark(number))
        env.reset()
        print("stepping", flush=True)
        env.step("hang")

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[2])
        with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
            list(pool.map(work, range(2)))
"""


class Client:
    """A client that runs in a place of its own."""

    def __init__(self, place: Any) -> None:
        self.place = place
        place.environment["AIOCG_CACHE"] = str(place.folder / "cache")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *command: str) -> None:
        errors = (self.place.folder / "errors").open("w")
        self.process = self.place.start(*command, stderr=errors, start_new_session=True)

    def run(self, script: str, *arguments: str) -> None:
        path = self.place.folder / "script.py"
        path.write_text(textwrap.dedent(script))
        self.start(sys.executable, "-P", str(path), *arguments)

    def wait_for(self, text: str) -> None:
        assert self.process is not None and self.process.stdout is not None
        while (line := self.process.stdout.readline()) and text not in line:
            pass
        assert line, f"it ended before {text!r}: {self.errors}"

    def send(self, number: int, *, group: bool = False) -> None:
        assert self.process is not None
        (os.killpg if group else os.kill)(self.process.pid, number)

    def end(self) -> tuple[int, float]:
        """Return its exit status, and how long it took to end."""
        assert self.process is not None
        started = time.monotonic()
        status = self.process.wait(60)
        return status, time.monotonic() - started

    @property
    def errors(self) -> str:
        return str((self.place.folder / "errors").read_text())


@pytest.fixture
def client(place: Any) -> Iterator[Client]:
    client = Client(place)
    yield client
    if client.process is not None:
        client.process.kill()
        client.process.communicate()


def conclude(client: Client, number: int, *, statuses: tuple[int, ...] = ()) -> None:
    """Check that a client ends in time and as it should, and leaves nothing."""
    status, seconds = client.end()
    if status == 1 and number == INT:  # Python's own, when it has only begun, or forgets how it ended
        assert "KeyboardInterrupt" in client.errors
    else:
        assert status in (statuses or (-number, 128 + number)), client.errors
    assert seconds < PATIENCE + SLACK
    for folder in client.place.temporary.glob("pymp-*"):  # multiprocessing's own
        shutil.rmtree(folder, ignore_errors=True)
    assert client.place.remains() == []


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("number", [INT, pytest.param(TERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize("phase", ["starting", "stepping", "closing"])
@pytest.mark.parametrize("delay", [0.0, pytest.param(0.13, marks=pytest.mark.slow)])
@pytest.mark.parametrize("script", [ASYNCHRONOUS, BLOCKING], ids=["asynchronous", "blocking"])
def test_a_script_ends_by_a_signal_in_any_phase(
    client: Client, script: str, phase: str, number: int, delay: float
) -> None:
    client.run(script, phase)
    client.wait_for(phase)
    time.sleep(delay)
    client.send(number)
    # When it is closing it may have got done.
    conclude(client, number, statuses=(0, -number, 128 + number) if phase == "closing" else ())
    if number == INT and phase == "stepping":
        assert "KeyboardInterrupt" in client.errors


@pytest.mark.slow
@pytest.mark.parametrize("number", [INT, TERM])
@pytest.mark.parametrize("phase", ["hanging", "walking"])
def test_a_vector_ends_by_a_signal(client: Client, phase: str, number: int) -> None:
    client.run(VECTOR, phase)
    client.wait_for(phase)
    time.sleep(0.2)
    client.send(number)
    conclude(client, number)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.4, 0.9])
def test_a_script_that_compiles_without_a_runtime_ends_and_the_next_one_sweeps(client: Client, delay: float) -> None:
    client.run(COMPILING)
    client.wait_for("compiling")
    time.sleep(delay)
    client.send(TERM)
    assert client.end()[0] in (0, -TERM)
    script = "from aiocg.datasets.scratch import scratch_folder\nwith scratch_folder(): pass"
    subprocess.run([sys.executable, "-P", "-c", script], env=client.place.environment, check=True)
    assert client.place.remains() == []


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("number", [INT, TERM])
def test_a_pool_of_processes_ends_by_a_signal_to_all_of_it(client: Client, method: str, number: int) -> None:
    client.run(POOL, "stepping", method)
    client.wait_for("stepping")
    time.sleep(0.3)
    client.send(number, group=True)
    conclude(client, number, statuses=(1, -number, 128 + number))


COMMAND = (sys.executable, "-P", "-m", "aiocg.cli")


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("number", [INT, TERM])
@pytest.mark.parametrize("delay", [0.1, 0.2, 0.5, 1.0, 2.5, 4.0])
def test_a_command_ends_by_a_signal_at_any_time(client: Client, number: int, delay: float) -> None:
    client.start(*COMMAND, "search", "random", "programs-v0/qsort", "--budget", "30", "--workers", "2")
    time.sleep(delay)
    client.send(number)
    conclude(client, number)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, pytest.param(0.02, marks=pytest.mark.slow)])
@pytest.mark.parametrize("script", [ASYNCHRONOUS, BLOCKING], ids=["asynchronous", "blocking"])
def test_a_second_interrupt_while_it_closes_ends_it_and_leaves_nothing(
    client: Client, script: str, pause: float
) -> None:
    client.run(script, "stepping")
    client.wait_for("stepping")
    client.send(INT)
    for _ in range(3):
        time.sleep(pause)
        client.send(INT)
    conclude(client, INT, statuses=(-INT, 130, 1))
