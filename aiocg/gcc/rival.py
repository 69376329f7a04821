"""GCC's smallest level, as the rival of search results."""

import asyncio
import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, DatasetError, first_diagnostic
from aiocg.datasets.process import run_bounded, told_of
from aiocg.datasets.scratch import PREFIX, scratch_folder, write_below
from aiocg.gcc._gcc_line import commands
from aiocg.gcc.meaning import effects
from aiocg.host.threads import in_thread
from aiocg.transport.elf import image_size

if TYPE_CHECKING:
    from aiocg.env.env import Env

SMALLEST = ("-Oz", "-Os")  # GCC has the first since its release 12
TIMEOUT = 600.0  # seconds
_QUESTION_TIMEOUT = 20.0


class SameMeaning(NamedTuple):
    """The smallest program of a level with options of a command line that are no optimisations.

    Attributes:
        words: the level, and options that change what a program does or how it is protected.
        cost: of the program with these.
        alone: of the program with the level alone.
    """

    words: tuple[str, ...]
    cost: float
    alone: float


async def same_meaning(env: "Env", cost: str) -> SameMeaning | None:
    """Return what a search for options has to beat; None when the compiler refuses both levels.

    Options such as `-fno-asynchronous-unwind-tables` make any program smaller, and are no achievement of a search. The
    level has all such options of the command line, or only those about unwind tables, or none, as is smallest.

    Args:
        env: an environment of GCC, at what a search has found.
        cost: an observation.
    """
    line = env.action_spaces.language.line
    assert line is not None
    _, *words = (await env.observe("command_line")).split(" ")
    meaning = tuple(["-ffast-math" if word == "-Ofast" else word for word, _ in effects(words, line.options)])
    tables = tuple([word for word in meaning if word.endswith("unwind-tables")])
    known = {word for option in line.options if option.kind == "level" for word in option.texts}
    levels = [level for level in SMALLEST if level in known]
    lines = [(level, *more) for more in dict.fromkeys(((), tables, meaning)) for level in levels]
    found = await env.expand_texts([(" ".join(("gcc", *one)),) for one in lines], observation_spaces=[cost])
    costs = {one: tried.observation[0] for one, tried in zip(lines, found, strict=True) if tried.error is None}
    if not costs:
        return None
    best = min(costs, key=lambda one: costs[one])
    return SameMeaning(best, costs[best], costs.get(best[:1], costs[best]))


@dataclasses.dataclass(frozen=True, slots=True)
class GccObject:
    """What the GCC of this machine makes of a program's sources with one flag.

    Attributes:
        compiler: its name and release; "" if there is none.
        level: the flag.
        bytes: that the object file brings into an image; None if there is none.
        problem: why not, "" if there is one.
    """

    compiler: str = ""
    level: str = ""
    bytes: int | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """What to call it in a table."""
        return f"gcc {self.level}"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON can say it."""
        return dataclasses.asdict(self)


@contextlib.asynccontextmanager
async def compiling_small(
    benchmark: Benchmark | None,
) -> AsyncIterator[Callable[[float | None], Awaitable[GccObject | None]]]:
    """Compile a program as `_compile_small` does, beside other work; do nothing if there is none.

    Yields:
        Returns what was compiled; waits for it so many seconds at most, without limit if None.
    """
    task = asyncio.ensure_future(in_thread(lambda: None if benchmark is None else _compile_small(benchmark)))

    async def result(patience: float | None) -> GccObject | None:
        await asyncio.wait([task], timeout=patience)
        return task.result() if task.done() else GccObject(problem="compiling by GCC takes longer than the search")

    try:
        yield result
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, DatasetError):
            await task


def _compile_small(benchmark: Benchmark, driver: str = "gcc") -> GccObject:
    """Compile a program's sources for size by a GCC of this machine, with the flags of the program.

    Args:
        benchmark: with sources.
        driver: a name on PATH, or a path.
    """
    found = shutil.which(driver)
    macros = _macros(found) if found is not None else {}
    if found is None or "__GNUC__" not in macros or "__clang__" in macros:
        return GccObject(problem=f"there is no GCC here: no {driver} on PATH" + (" that is one" if found else ""))
    release = ".".join(macros.get(f"__GNUC_{part}__", "0") for part in ("MINOR", "PATCHLEVEL"))
    compiler = f"gcc {macros['__GNUC__']}.{release}"
    level = SMALLEST[int(macros["__GNUC__"]) < 12]
    try:
        return GccObject(compiler, level, image_size(_object(benchmark, found, level)).stored)
    except BenchmarkInitError as error:
        return GccObject(compiler, level, problem=_said(error) if error.diagnostics else _short(error))
    except (DatasetError, ValueError, OSError) as error:
        return GccObject(compiler, level, problem=first_diagnostic(error))


def _said(error: BenchmarkInitError) -> str:
    """Return what GCC says is wrong, without the folder of ours that its sources are in."""
    return re.sub(rf"^\S*{PREFIX}\w*/source/", "", first_diagnostic(error))


def _object(benchmark: Benchmark, compiler: str, level: str) -> bytes:
    """Return the object file of a program's units together."""
    tree = benchmark.source_tree
    name = str(benchmark.uri)
    with scratch_folder() as scratch:
        origin, output = Path(os.path.realpath(scratch), "source"), Path(scratch, "output")
        output.mkdir()
        write_below(origin, tree.files)
        script = " && ".join(commands(compiler, (level, "-w"), dataclasses.replace(tree, origin=str(origin))))
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": scratch}  # a GCC that is killed leaves files there
        late = f"{compiler} took longer than {TIMEOUT:g} s and was stopped"
        with told_of(name, compiler, late=late, cancelled="compiling by GCC was cancelled"):
            status, said = run_bounded(("sh", "-c", script), cwd=str(output), env=environment, timeout=TIMEOUT)
        if status:
            raise BenchmarkInitError(name, "gcc does not accept it", said.strip())
        made = output / "program.o" if len(tree.units) > 1 else next(output.glob("*.o"))
        return made.read_bytes()


def _short(error: BenchmarkInitError) -> str:
    return error.reason.partition(";")[0]


def _macros(compiler: str) -> dict[str, str]:
    """Return the macros that a compiler defines; none when it does not work."""
    command, null = [compiler, "-dM", "-E", "-x", "c", os.devnull], subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=null, capture_output=True, text=True, timeout=_QUESTION_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.split(" ", 2) for line in done.stdout.splitlines() if line.startswith("#define "))
    return {words[1]: words[-1] for words in lines}
