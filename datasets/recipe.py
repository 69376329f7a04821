"""How a program is linked, run and checked, in the form that a worker takes.

A recipe is MessagePack of one map; `aiocg.workers.programs.recipe` reads it::

    version       1
    command       what links the program, in an empty folder that has, beside `files`, the program's machine code as
                  `program.o` and, if the command names it, its IR as `program.bc`; it writes the executable `program`.
                  The worker puts its own tools in the place of these words: `{clang}` and `{clang++}`, the compiler
                  driver, GCC's where that is the compiler; `{lld}`, the ELF linker; `{builtins}`, the compiler's
                  library of arithmetic, or nothing.
    files         the content of files in that folder, by name
    environment   all environment variables of the command
    runs          in order; each a map of
        name          such as "small"
        arguments     after the program's name
        stdin         the content of standard input
        files         the content of files in the otherwise empty folder in which it runs, by name
        environment   all environment variables
        exit_status   that the program must end with
        stdout        the content of standard output, or nil when it is not known
        outputs       what it writes: the content of each file, by name, or nil when that is not known
        timeout       seconds
    measured      name of the run whose time is measured
"""

from collections.abc import Mapping
from typing import Any

from aiocg.datasets.benchmark import BenchmarkProgram, ProgramRun
from aiocg.datasets.linking import LINK_FLAGS, runtime_archive
from aiocg.datasets.toolchain import find_toolchain, link_flags

__all__ = ["encode_program"]

VERSION = 1
_RUNTIME = "runtime.a"
_FREESTANDING = ("{lld}", *LINK_FLAGS, "-o", "program", "program.o", _RUNTIME, "{builtins}")


def encode_program(program: BenchmarkProgram) -> bytes:
    """Write the recipe of a program.

    A program without a command of its own is linked with our runtime if it is freestanding, or else by clang with the
    machine's libraries. Only the runs that the program carries are in the recipe.

    Raises:
        BenchmarkInitError: when our runtime does not compile.
        ToolchainNotFound: when there is no clang to compile it.
        OSError: when the file of an expected output cannot be read.
    """
    import msgspec

    command, files = program.command, dict(program.files)
    if not command and program.freestanding:
        command, files = _FREESTANDING, files | {_RUNTIME: runtime_archive(find_toolchain())}
    elif not command:
        driver = "{clang++}" if program.language == "c++" else "{clang}"
        flags = link_flags(find_toolchain().clang, program.language)
        command = (driver, *flags, "-o", "program", "program.o", "-lm")
    runs = {name: run for name, run in program.runs.items() if program.carried is None or name in program.carried}
    recipe = {
        "version": VERSION,
        "command": command,
        "files": files,
        "environment": dict(program.environment),
        "runs": [_run(name, run) for name, run in runs.items()],
        "measured": program.measured or next(iter(runs), ""),
    }
    return msgspec.msgpack.encode(recipe, order="sorted")


def _run(name: str, run: ProgramRun) -> Mapping[str, Any]:
    return {
        "name": name,
        "arguments": run.arguments,
        "stdin": run.stdin,
        "files": dict(run.files),
        "environment": dict(run.environment),
        "exit_status": run.exit_status,
        "stdout": run.expected_output(),
        "outputs": dict(run.output_files),
        "timeout": run.timeout,
    }
