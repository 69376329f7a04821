"""What a container adds to a compile: by an attached shell, by an exec of the engine, and by a container for each.

All compile the same file with the compiler of the image that `AIOCG_BENCH_IMAGE` names, and this machine's does, too,
where it is of the same version. The medians are those of differences within a round.
"""

import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._container import ContainerRunner
from aiocg.workers.gcc._engine import connect
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._runner import CommandRunner
from bench.measure import MILLI, Budget, Effort, Results, alternate

IMAGE = os.environ.get("AIOCG_BENCH_IMAGE", "gcc:13")
SOURCE = "int square(int x) { return x * x; }\n"
OPTIONS = ("-O1", "-c", "t.c", "-o", "t.o")
ATTACHED = Budget(1.0)  # ms


async def measure(effort: Effort) -> Results:
    """Measure where there is an engine that has the image."""
    results = Results()
    try:
        runner = ContainerRunner(IMAGE)
    except CompilationError as error:
        results.note(f"Not measured: {error.message}")
        return results
    local = LocalRunner("gcc") if shutil.which("gcc") else None
    try:
        if local is not None and _version(local) != _version(runner):
            results.note(f"No compile outside: this machine's gcc is another one than that of {IMAGE}.")
        elif local is not None:
            inside, outside = await alternate([_compile(runner), _compile(local)], effort.choose(200, 10))
            results.add("a compile outside", [taken * MILLI for taken in outside], "ms")
            more = [(a - b) * MILLI for a, b in zip(inside, outside, strict=True)]
            results.add("more in a container, by an attached shell", more, "ms", ATTACHED)
        sides = [_compile(runner), _exec(runner), _container(runner)]
        attached, executed, started = await alternate(sides, effort.choose(20, 3))
        for what, times in (("an exec", executed), ("a container", started)):
            more = [(a - b) * MILLI for a, b in zip(times, attached, strict=True)]
            results.add(f"more again by {what} for each compile", more, "ms")
    finally:
        runner.close()
        if local is not None:
            local.close()
    return results


def _version(runner: CommandRunner) -> bytes:
    return runner.run([runner.compiler, "--version"], folder=runner.root, timeout=60).output


def _timed(work: Callable[[], Any]) -> Callable[[], Awaitable[float]]:
    async def once() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    work()
    return once


def _compile(runner: CommandRunner) -> Callable[[], Awaitable[float]]:
    """Compile as workers do."""
    folder = Path(runner.root, "bench")
    folder.mkdir(exist_ok=True)
    (folder / "t.c").write_text(SOURCE)

    def work() -> None:
        done = runner.run([runner.compiler, *OPTIONS], folder=str(folder), timeout=60)
        assert done.status == 0, done

    return _timed(work)


def _exec(runner: ContainerRunner) -> Callable[[], Awaitable[float]]:
    """Compile by a command of the engine's in the same container."""
    client = connect()
    (container,) = client.containers(filters={"label": f"aiocg.folder={runner.root}"})

    def work() -> None:
        made = client.exec_create(container["Id"], [runner.compiler, *OPTIONS], workdir=f"{runner.root}/bench")
        client.exec_start(made["Id"])

    return _timed(work)


def _container(runner: ContainerRunner) -> Callable[[], Awaitable[float]]:
    """Compile in a container of its own, with the same folder."""
    client = connect()
    folder = f"{runner.root}/bench"
    host = client.create_host_config(binds={folder: {"bind": folder, "mode": "rw"}}, network_mode="none")

    def work() -> None:
        command = [runner.compiler, *OPTIONS]
        made = client.create_container(IMAGE, entrypoint=command, working_dir=folder, host_config=host)
        client.start(made["Id"])
        client.wait(made["Id"])
        client.remove_container(made["Id"])

    return _timed(work)
