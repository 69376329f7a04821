"""Linking and running GCC's object code: run times, and whether the output is as expected.

A program that uses our own runtime is linked with it by lld, as LLVM's programs are, and runs on this machine, wherever
it was compiled: it needs nothing from the compiler's system. Any other program is linked by the compiler with the
libraries there, and runs where it was linked, on this machine or in the container, with the environment variables of
all commands.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from aiocg.workers.gcc._runner import CommandRunner, Completed
from aiocg.workers.programs.execution import RESIDENT_LIMIT, Ended, Runner, Start, run_all, run_times
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
    remaining,
    temporary_folder,
    write_files,
)
from aiocg.workers.programs.parameters import KEYS, Parameters
from aiocg.workers.programs.recipe import LinkError, Program, Run, failure
from aiocg.workers.programs.sandbox import Sandbox

PARAMETERS = tuple(name for name in KEYS if not name.startswith("buildtimes"))
"""The available parameters, for `aiocg.workers.programs.parameters.exchange`."""

EXPORTING = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"'
OWN_LINKER = "{lld}"  # first word of the recipes of programs that need no library of the machine


class _Last(NamedTuple):
    """The most recently linked executable."""

    code: bytes
    recipe: str
    executable: Executable


class Execution:
    """Links and runs the machine code of a compiler; for one thread at a time.

    The last executable is cached, so that several observations of a state link once.

    Args:
        commands: runs commands of the compiler.
        clang: a path, or a name on PATH; lld and the builtins library are searched for beside it.
        sandbox: how programs are isolated from the machine; None for the user's setting.
    """

    def __init__(self, commands: CommandRunner, *, clang: str = "clang", sandbox: Sandbox | None = None) -> None:
        self._commands = commands
        self._tools = _GccTools(commands.compiler, clang)
        self._runner = Runner(sandbox)
        self._last: _Last | None = None

    def is_runnable(self, program: Program, code: bytes, deadline: float) -> bool:
        """Return whether a program links.

        Args:
            program: the benchmark's recipe.
            code: an object file of the whole program.
            deadline: the time limit, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if time or disk space runs out.
        """
        try:
            self.executable(program, code, deadline)
        except LinkError:
            remaining(deadline)  # a timeout is reported as such
            return False
        return True

    def run_times(self, program: Program, code: bytes, parameters: Parameters, deadline: float) -> list[float]:
        """Run a program repeatedly; return the seconds of each run.

        No other worker on this machine measures on the same core meanwhile; a container chooses its cores itself.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if it cannot be linked, or a run does not behave as
                expected, as far as that is known.
        """
        run = program.run(parameters.measured_run)
        return run_times(self._starting(program, code, deadline), run, parameters, deadline)

    def run_all(self, program: Program, code: bytes, deadline: float) -> list[dict[str, Any]]:
        """Perform each run of a program once; describe it as `aiocg.workers.programs.execution.Ended.describe`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if it cannot be linked or started.
        """
        return run_all(self._starting(program, code, deadline), program)

    def _starting(self, program: Program, code: bytes, deadline: float) -> Start:
        executable = self.executable(program, code, deadline)
        return lambda run, core: self._run(program, executable, run, deadline, core)

    def executable(self, program: Program | None, code: bytes, deadline: float) -> Executable:
        """Link a program; the caller must not close the executable.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if there is no recipe, or linking fails.
        """
        program = buildable(program)
        last = self._last
        if last is None or (last.recipe, last.code) != (program.digest, code):
            self.release()
            command = self._tools.expand(program.command)
            files = program.files | {OBJECT: code}
            there: dict[str, Any] = {"linker": self._link_in_place, "below": self._commands.root}
            place = there if self._needs_place(program) else {}
            made = build(command, files, program.environment, deadline, **place)
            last = self._last = _Last(code, program.digest, made)
        return last.executable

    def release(self) -> None:
        """Remove the last executable."""
        last, self._last = self._last, None
        if last is not None:
            last.executable.close()

    def close(self) -> None:
        """End the runner process, and remove the last executable."""
        self.release()
        self._runner.close()

    def _needs_place(self, program: Program) -> bool:
        return self._commands.is_apart and program.command[0] != OWN_LINKER

    def _link_in_place(self, command: list[str], folder: str, environment: Mapping[str, str], deadline: float) -> None:
        line, timeout = _with_environment(environment, command), min(LINK_TIMEOUT, remaining(deadline))
        done = self._commands.run(line, folder=folder, timeout=timeout)
        if done.stopped:
            raise LinkError(f"{command[0]} ran out of {_want(done)}", timed_out="linking")
        if done.status:
            words = done.errors[:MESSAGES].decode(errors="replace").strip()
            raise LinkError(f"{command[0]} ended with {done.status}\n{words}")

    @contextlib.contextmanager
    def _run(
        self, program: Program, executable: Executable, run: Run, deadline: float, core: int | None = None
    ) -> Iterator[Ended]:
        """Run a program; its output files exist within the context."""
        if not self._needs_place(program):
            with self._runner.run(executable.path, run, deadline, core) as ended:
                yield ended
            return
        left, root = remaining(deadline), self._commands.root
        with temporary_folder("run-", root) as folder, _file() as stdin, _file() as stdout, _file() as stderr:
            write_files(Path(folder), run.files)
            words = [f"{executable.path.parent}/{EXECUTABLE}", *run.arguments]
            command, timeout = _with_environment(run.environment, words), min(run.timeout, left)
            done = self._commands.run(command, folder=folder, timeout=timeout, stdin=run.stdin, memory=RESIDENT_LIMIT)
            if done.stopped == "timeout" and left < run.timeout:
                raise failure(TOO_LATE, "running")
            for file, content in ((stdout, done.output), (stderr, done.errors)):
                file.write(content)
                file.flush()
            stopped = _want(done)
            yield Ended(run, done.status, done.seconds, stopped, Path(folder), (stdin, stdout, stderr), True)


class _GccTools(Tools):
    """Link tools with GCC's driver."""

    def __init__(self, compiler: str, clang: str) -> None:
        super().__init__(clang)
        self._compiler = compiler

    def driver(self, language: str) -> list[str]:
        """The first words of the driver's command line."""
        return [self._compiler]

    def expand(self, command: Sequence[str]) -> list[str]:
        """Replace placeholders with tools; GCC's C driver needs an extra option for C++.

        The options between the two words that silence clang's warnings are dropped: only clang knows them.
        """
        libraries = ["-lstdc++", "-lm"] if "{clang++}" in command else []
        begin, end = "--start-no-unused-arguments", "--end-no-unused-arguments"
        if begin in command and end in command:
            command = [*command[: command.index(begin)], *command[command.index(end) + 1 :]]
        return [*super().expand(command), *libraries]


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _want(done: Completed) -> str:
    """Return what a stopped command ran out of, in the words of `Ended.stopped`."""
    return {"": "", "timeout": "time", "memory": "memory", "output": "room for its output"}[done.stopped]


def _with_environment(environment: Mapping[str, str], command: list[str]) -> list[str]:
    """Return a command that sets additional environment variables; an image may lack `env`."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return ["sh", "-c", EXPORTING, "sh", *variables, "--", *command] if variables else command
