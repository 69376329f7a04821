"""Linking what GCC has made, and running it: how long it takes, and whether it does what is expected of it.

A program that stands on our own runtime is linked with it by lld, as LLVM's are, and runs on this machine whatever made
its code: it needs nothing of the place. Any other is linked by the compiler with the libraries that are there, and runs
where it was linked, on this machine or in the container; there it has the variables that all commands have, too.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from aiocg.workers.gcc.place import Completed, Place
from aiocg.workers.programs.execution import MEMORY_LIMIT, Ended, Runner, measuring_core
from aiocg.workers.programs.linking import (
    EXECUTABLE,
    LINK_TIMEOUT,
    MESSAGES,
    OBJECT,
    TOO_LATE,
    Executable,
    Tools,
    build,
    buildable,
    link,
    remaining,
    temporary_folder,
    write_files,
)
from aiocg.workers.programs.parameters import KEYS, Parameters
from aiocg.workers.programs.recipe import LinkError, Program, Run, failure
from aiocg.workers.programs.sandbox import Sandbox

__all__ = ["PARAMETERS", "Execution"]

PARAMETERS = tuple(name for name in KEYS if not name.startswith("buildtimes"))
"""The parameters there are, for `aiocg.workers.programs.parameters.exchange`."""

EXPORTING = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
OWN_LINKER = "{lld}"  # with which the recipes of programs begin that need no library of the machine's


class _Last(NamedTuple):
    """What was linked last."""

    code: bytes
    recipe: str
    executable: Executable


class Execution:
    """Links and runs the machine code of a place's compiler; for one thread at a time.

    The executable of the last code is kept, so that observing several things of a state links once.

    Args:
        place: where the compiler is.
        clang: a path, or a name on PATH; lld and the library of arithmetic are looked for beside it.
        sandbox: how programs are kept apart from the machine; None is as the user has chosen.
    """

    def __init__(self, place: Place, *, clang: str = "clang", sandbox: Sandbox | None = None) -> None:
        self._place = place
        self._tools = _GccTools(place.compiler, clang)
        self._runner = Runner(sandbox)
        self._last: _Last | None = None

    def is_runnable(self, program: Program | None, code: bytes, deadline: float) -> bool:
        """Say whether a program can be linked, and its recipe says how it is run.

        Args:
            program: the recipe of the benchmark.
            code: an object file of all of the program.
            deadline: when to give up, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there is not time or place enough to find out.
        """
        if program is None or not program.command or not program.runs:
            return False
        try:
            self.executable(program, code, deadline)
        except LinkError:
            remaining(deadline)  # for want of time is another matter
            return False
        return True

    def run_times(
        self, program: Program | None, code: bytes, parameters: Parameters, deadline: float
    ) -> list[float]:
        """Run a program again and again and return the seconds that it took each time.

        Empty when the recipe does not say how the program is run. No other worker of this machine measures at the same
        time on the same core; a container chooses its cores itself.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when it cannot be linked, or a run does not do what is
                expected of it, as far as that is known.
        """
        if program is None or not program.command or not program.runs:
            return []
        run = program.run(parameters.measured_run)
        executable = self.executable(program, code, deadline)
        times = []
        with measuring_core(deadline) as core:
            for _ in range(parameters.warmups + parameters.runtimes):
                with self._run(program, executable, run, deadline, core) as ended:
                    if problem := ended.problem():
                        raise failure(f"the run {run.name!r} {problem}")
                    times.append(ended.seconds)
        return times[parameters.warmups :]

    def run_all(self, program: Program | None, code: bytes, deadline: float) -> list[dict[str, Any]]:
        """Do each run of a program once and describe it as `aiocg.workers.programs.execution.Ended.describe` does.

        Empty when the recipe does not say how the program is run.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when it cannot be linked or started.
        """
        if program is None or not program.command or not program.runs:
            return []
        executable = self.executable(program, code, deadline)
        results = []
        for run in program.runs:
            with self._run(program, executable, run, deadline) as ended:
                results.append(ended.describe())
        return results

    def executable(self, program: Program | None, code: bytes, deadline: float) -> Executable:
        """Link a program; do not close what is returned.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there is no recipe, or linking fails.
        """
        program = buildable(program)
        last = self._last
        if last is None or (last.recipe, last.code) != (program.digest, code):
            self.release()
            command = self._tools.expand(program.command)
            files = program.files | {OBJECT: code}
            if self._needs_place(program):
                made = build(
                    command, files, program.environment, deadline, linker=self._link_in_place, below=self._place.root
                )
            else:
                made = build(command, files, program.environment, deadline, linker=link)
            last = self._last = _Last(code, program.digest, made)
        return last.executable

    def release(self) -> None:
        """Remove the executable that is kept."""
        last, self._last = self._last, None
        if last is not None:
            last.executable.close()

    def close(self) -> None:
        """End the process that starts programs, and remove what is kept."""
        self.release()
        self._runner.close()

    def _needs_place(self, program: Program) -> bool:
        return self._place.is_apart and program.command[0] != OWN_LINKER

    def _link_in_place(
        self, command: list[str], folder: str, environment: Mapping[str, str], deadline: float
    ) -> None:
        done = self._place.run(
            _with_environment(environment, command), folder=folder, timeout=min(LINK_TIMEOUT, remaining(deadline))
        )
        if done.stopped:
            raise LinkError(f"{command[0]} ran out of {_want(done)}", timed_out="linking")
        if done.status:
            words = done.errors[:MESSAGES].decode(errors="replace").strip()
            raise LinkError(f"{command[0]} ended with {done.status}\n{words}")

    @contextlib.contextmanager
    def _run(
        self, program: Program, executable: Executable, run: Run, deadline: float, core: int | None = None
    ) -> Iterator[Ended]:
        """Run a program; what it wrote is there while the context lasts."""
        if not self._needs_place(program):
            with self._runner.run(executable.path, run, deadline, core) as ended:
                yield ended
            return
        left = remaining(deadline)
        with (
            temporary_folder("run-", self._place.root) as folder,
            _file() as stdin,
            _file() as stdout,
            _file() as stderr,
        ):
            write_files(Path(folder), run.files)
            command = [f"{executable.path.parent}/{EXECUTABLE}", *run.arguments]
            done = self._place.run(
                _with_environment(run.environment, command),
                folder=folder,
                timeout=min(run.timeout, left),
                stdin=run.stdin,
                memory=MEMORY_LIMIT,
            )
            if done.stopped == "timeout" and left < run.timeout:
                raise failure(TOO_LATE, "running")
            for file, content in ((stdout, done.output), (stderr, done.errors)):
                file.write(content)
                file.flush()
            stopped = _want(done)
            yield Ended(run, done.status, done.seconds, stopped, Path(folder), (stdin, stdout, stderr))


class _GccTools(Tools):
    """The tools by which programs are linked, where the driver is GCC's."""

    def __init__(self, compiler: str, clang: str) -> None:
        super().__init__(clang)
        self._compiler = compiler

    def driver(self, language: str) -> list[str]:
        """The start of the command line of the compiler's driver."""
        return [self._compiler]

    def expand(self, command: Sequence[str]) -> list[str]:
        """Put the tools in the place of the words that stand for them; GCC's driver for C has to be told of C++.

        What stands between the two words that keep clang from complaining is for clang alone.
        """
        libraries = ["-lstdc++", "-lm"] if "{clang++}" in command else []
        begin, end = "--start-no-unused-arguments", "--end-no-unused-arguments"
        if begin in command and end in command:
            command = [*command[: command.index(begin)], *command[command.index(end) + 1 :]]
        return [*super().expand(command), *libraries]


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _want(done: Completed) -> str:
    """Say what a command ran out of when it was stopped, as `Ended.stopped` does."""
    return {"": "", "timeout": "time", "memory": "memory", "output": "place for its output"}[done.stopped]


def _with_environment(environment: Mapping[str, str], command: list[str]) -> list[str]:
    """Return a command with more variables than the place gives to all; an image need have no `env`."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return ["sh", "-c", EXPORTING, "sh", *variables, "--", *command] if variables else command
