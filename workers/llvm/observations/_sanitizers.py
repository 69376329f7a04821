"""Runs of a state under a sanitizer.

LLVM's own passes insert the checks of AddressSanitizer, ThreadSanitizer and MemorySanitizer into a copy of the program
after all optimisations; the state itself does not change. The front end inserts the checks of
UndefinedBehaviorSanitizer; a program with these needs only the runtime that they call. All four depend on the machine's
C library and on clang's runtimes. An empty program is tried first, to detect that these are missing or do not work.
"""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._attributes import add_attributes, bodies
from aiocg.workers.llvm._program import BITCODE
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_code import SOURCES
from aiocg.workers.llvm.observations._observation import Subject
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.execution import Ended
from aiocg.workers.programs.linking import EXECUTABLE, OBJECT, Executable, build, link
from aiocg.workers.programs.recipe import LinkError, Program, Run

FOUND = 99  # the exit status after a sanitizer finding
REPORT = 4000  # limit in characters for a report
MEMORY = 2048  # MiB of memory for a program; sanitizers reserve terabytes of address space, so that is not limited
SELF_TEST_TIMEOUT = 60.0  # seconds to build and run an empty program
SYMBOLS_TIMEOUT = 10.0  # seconds to find the place of a finding

_LINKER, _SUPPORT = "ld.lld", "cplusplus.c"
_OWN_LIBRARY = "runtime.a"  # in the recipes of programs linked to our C library
_READ = 1 << 16  # bytes of standard error that are read
_OPTIONS = f"symbolize=0:exitcode={FOUND}:hard_rss_limit_mb={MEMORY}"
_SUMMARY = re.compile(r"SUMMARY: (\w+Sanitizer): (.*)")
_COMPILED_IN = re.compile(r"^(\S+?:\d+:\d+): runtime error: ", re.MULTILINE)  # the front end knows the place
_FRAME = re.compile(rf"^ *#\d+ 0x[0-9a-f]+ +\(\S*/{EXECUTABLE}\+(0x[0-9a-f]+)\)", re.MULTILINE)
_LINE = re.compile(r"^(\S.*?:[1-9]\d*(?::\d+)?)(?: \(discriminator \d+\))?$", re.MULTILINE)
_RUNTIME = "compiler-rt"  # in the paths of a sanitizer's own sources
_BEGINNING = re.compile(r"^(?:=+\d*=+\s*(?:ERROR|WARNING)|WARNING: \w+Sanitizer|.*: runtime error: )", re.MULTILINE)


class Sanitizer(NamedTuple):
    """One of LLVM's sanitizers.

    Attributes:
        flag: clang's name for it, after `-fsanitize=`.
        attribute: marks the functions to be checked; empty if the program already has the checks.
        pipelines: insert the checks; oldest spelling first, because later releases reject the old names.
        settings: the environment variables it runs under, preferred ones first.
    """

    flag: str
    attribute: str
    pipelines: tuple[str, ...]
    settings: tuple[dict[str, str], ...]


ADDRESS = Sanitizer(
    "address",
    "sanitize_address",
    ("require<asan-globals-md>,asan-module", "asan-module", "asan"),
    # LeakSanitizer uses ptrace on its own process, which some containers forbid.
    tuple({"ASAN_OPTIONS": f"{_OPTIONS}:detect_leaks={leaks}"} for leaks in (1, 0)),
)
THREAD = Sanitizer("thread", "sanitize_thread", ("tsan-module,function(tsan)",), ({"TSAN_OPTIONS": _OPTIONS},))
MEMORY_USE = Sanitizer(
    "memory", "sanitize_memory", ("msan-module,function(msan)", "msan"), ({"MSAN_OPTIONS": _OPTIONS},)
)
UNDEFINED = Sanitizer("undefined", "", (), ({"UBSAN_OPTIONS": f"{_OPTIONS}:halt_on_error=1:print_stacktrace=0"},))

_verdicts: "weakref.WeakKeyDictionary[Engine, dict[str, dict[str, str] | str]]" = weakref.WeakKeyDictionary()


class Unavailable(Exception):
    """A sanitizer cannot be used here; the message says why."""


def watch(
    engine: Engine, state: State, program: Program | None, sanitizer: Sanitizer, deadline: float
) -> dict[str, Any]:
    """Build a state with a sanitizer and do all its runs.

    Args:
        engine: the engine that holds the state.
        state: the program's IR.
        program: its recipe.
        sanitizer: the sanitizer to use.
        deadline: the time limit, in seconds of the monotonic clock.

    Returns:
        JSON. Either `skipped` gives the reason why nothing was run, or `runs` lists the `Ended.describe` of each run,
        with `_finding`, such as "AddressSanitizer: heap-buffer-overflow" or "", `report`, the sanitizer's output, and
        `_place`, such as "main.c:3:7", "" if the program has no debug information or nothing here reads it.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if the program cannot be built or started.
        LlvmError: if the checks cannot be inserted, or code generation fails.
    """
    try:
        if program is None or not program.runs:
            raise Unavailable("the benchmark does not say how it is run")
        settings = usable(engine, sanitizer)
        executable = _build(engine, engine.bitcode(state), program, sanitizer, deadline)
    except Unavailable as reason:
        return {"skipped": str(reason), "runs": []}
    runs = []
    with contextlib.closing(executable):
        for run in program.runs:
            with _started(engine, executable, run, settings, deadline) as ended:
                found = _finding(ended)
                runs.append({**ended.describe(), **found, "place": _place(executable.path, found["report"], deadline)})
    return {"skipped": "", "runs": runs}


def usable(engine: Engine, sanitizer: Sanitizer) -> dict[str, str]:
    """Return the environment variables under which a sanitizer works here. An empty program is tried once.

    Raises:
        Unavailable: if it does not work.
        CompilationError: with `FailureCode.OBSERVATION` if it cannot be tried now, for example because the disk is
            full.
    """
    verdicts = _verdicts.setdefault(engine, {})
    if sanitizer.flag not in verdicts:
        verdicts[sanitizer.flag] = _try(engine, sanitizer)
    verdict = verdicts[sanitizer.flag]
    if isinstance(verdict, str):
        raise Unavailable(f"-fsanitize={sanitizer.flag} does not work on this machine: {verdict}")
    return verdict


def _try(engine: Engine, sanitizer: Sanitizer) -> dict[str, str] | str:
    """Return the settings under which an empty program succeeds, or what is wrong."""
    deadline = time.monotonic() + SELF_TEST_TIMEOUT
    run = Run("", (), b"", {}, {}, 0, None, {}, SELF_TEST_TIMEOUT)
    program = Program(1, ("{clang}", "-o", EXECUTABLE, OBJECT), {}, {}, (run,), "")
    problem = ""
    try:
        triple = engine.library.take_string(engine.library.c.LLVMGetDefaultTargetTriple())
        empty = engine.load(f'target triple = "{triple}"\ndefine i32 @main() {{\n  ret i32 0\n}}\n'.encode())
        with contextlib.closing(_build(engine, engine.bitcode(empty), program, sanitizer, deadline)) as executable:
            for settings in sanitizer.settings:
                with _started(engine, executable, run, settings, deadline) as ended:
                    problem = ended.problem()
                    if not problem:
                        return settings
                    problem = f"{problem}: {_words(ended)[-500:].strip()}".rstrip(": ")
    except (LinkError, LlvmError, Unavailable) as error:
        problem = str(error)
    return f"an empty program {problem}"


def _build(engine: Engine, content: bytes, program: Program, sanitizer: Sanitizer, deadline: float) -> Executable:
    """Link a program with a sanitizer; close the executable when done.

    Raises:
        Unavailable: if the program's recipe does not allow a sanitizer.
        CompilationError: with `FailureCode.OBSERVATION` if linking fails.
        LlvmError: if the checks cannot be inserted, or code generation fails.
    """
    command, files = _recipe(program, sanitizer)
    checked = instrument(engine, content, sanitizer)
    files = files | {OBJECT: engine.code.generate(checked), BITCODE: checked}
    tools = engine.builder.tools

    def link_by_clang(command: list[str], folder: str, environment: Mapping[str, str], deadline: float) -> None:
        if tools.linker:  # lld selects its mode by its own file name
            os.symlink(shutil.which(tools.linker[0]) or tools.linker[0], Path(folder, _LINKER))
            command = [*command, f"--ld-path={Path(folder, _LINKER)}"]
        link([*command, *tools.runtime], folder, environment, deadline)

    return build(tools.expand(command), files, program.environment, deadline, linker=link_by_clang)


def _recipe(program: Program, sanitizer: Sanitizer) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """Change a recipe to link the sanitizer, and the machine's C library in place of ours."""
    if program.command[:1] == ("{lld}",) and _OWN_LIBRARY in program.files:
        support = {_SUPPORT: (SOURCES / _SUPPORT).read_bytes()}
        return ("{clang}", f"-fsanitize={sanitizer.flag}", "-o", EXECUTABLE, OBJECT, _SUPPORT, "-lm"), support
    for index, word in enumerate(program.command):
        if word in ("{clang}", "{clang++}"):
            rest = program.command[index + 1 :]
            return (*program.command[: index + 1], f"-fsanitize={sanitizer.flag}", *rest), program.files
    raise Unavailable("the benchmark is not linked by clang, which knows where the sanitizers are")


@contextlib.contextmanager
def _started(
    engine: Engine, executable: Executable, run: Run, settings: dict[str, str], deadline: float
) -> Iterator[Ended]:
    """Start a run with the sanitizer's and the run's own environment, and without a limit on address space."""
    settings = {name: ":".join(filter(None, (text, run.environment.get(name)))) for name, text in settings.items()}
    run = msgspec.structs.replace(run, environment={**run.environment, **settings})
    with engine.runner.run(executable.path, run, deadline, memory=None) as ended:
        yield ended


def _finding(ended: Ended) -> dict[str, str]:
    """Return a sanitizer's `_finding` and `report` about a run."""
    words = _words(ended)
    if ended.exit_code != FOUND or "Sanitizer" not in words:
        return {"finding": "", "report": ""}
    beginning, summary = _BEGINNING.search(words), _SUMMARY.search(words)
    report = words[beginning.start() if beginning else 0 :][:REPORT]
    if summary is None:
        return {"finding": report.split("\n", 1)[0], "report": report}
    what = re.split(r" \(?/", summary[2])[0].strip()  # without the address in the executable
    return {"finding": f"{summary[1]}: {what}", "report": report}


def _place(executable: Path, report: str, deadline: float) -> str:
    """Return the place in the sources that a report is about, as file:line:column; "" if it cannot be found.

    LLVM's llvm-symbolizer or binutils' addr2line reads the debug information of the program.

    Args:
        executable: the program.
        report: a sanitizer's output, without symbols.
        deadline: the time limit, in seconds of the monotonic clock.
    """
    stack, _, _ = report.partition("\n\n")  # later stacks are those of allocations
    if compiled_in := _COMPILED_IN.search(stack):
        return compiled_in[1]
    addresses = _FRAME.findall(stack)
    names = (("llvm-symbolizer", "--no-inlines", "--functions=none", "--obj="), ("addr2line", "-e"))
    command = next(([path, *words] for name, *words in names if (path := shutil.which(name))), None)
    if not addresses or command is None:
        return ""
    command[-1:] = [command[-1] + str(executable)] if command[-1].endswith("=") else [command[-1], str(executable)]
    timeout = max(min(SYMBOLS_TIMEOUT, deadline - time.monotonic()), 0.0)
    try:
        done = subprocess.run([*command, *addresses], capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    places = _LINE.findall(done.stdout.decode(errors="backslashreplace"))
    return next((os.path.basename(one) for one in places if _RUNTIME not in one), "")


def _words(ended: Ended) -> str:
    return ended.stderr[:_READ].decode(errors="backslashreplace")


def instrument(engine: Engine, content: bytes, sanitizer: Sanitizer) -> bytes:
    """Return a program with the checks of a sanitizer, as bitcode.

    Raises:
        LlvmError: if LLVM has no such pass, or it fails.
    """
    if not sanitizer.pipelines:
        return content
    with Module.parse(engine.library, content) as module:
        add_attributes(module, [sanitizer.attribute], bodies(module))
        _run_first(module, sanitizer.pipelines)
        if problem := module.verify():
            raise LlvmError(f"the program with the checks of {sanitizer.flag} is not valid: {problem}")
        return module.write_bitcode()


def _run_first(module: Module, pipelines: Sequence[str]) -> None:
    """Run the first of several pipelines that LLVM knows."""
    for pipeline in pipelines[:-1]:
        try:
            return module.run_passes(pipeline, None)
        except LlvmError as error:  # a pipeline that cannot be parsed has changed nothing
            if "unknown" not in str(error) and "invalid" not in str(error):
                raise
    module.run_passes(pipelines[-1], None)


_KINDS = (
    ("Asan", ADDRESS, "AddressSanitizer, which finds memory errors and leaks"),
    ("Tsan", THREAD, "ThreadSanitizer, which finds data races"),
    ("Msan", MEMORY_USE, "MemorySanitizer, which finds uses of uninitialised memory"),
    ("Ubsan", UNDEFINED, "UndefinedBehaviorSanitizer; the program must have been compiled with its checks"),
)


def _execution_under(sanitizer: Sanitizer, subject: Subject) -> dict[str, Any]:
    return watch(subject.engine, subject.state, subject.benchmark.program, sanitizer, subject.deadline)


OBSERVATIONS = tuple(
    Observation.of(
        f"Execution{name}",
        "json",
        f"As Execution, under {what}; or why that cannot be.",
        functools.partial(_execution_under, sanitizer),
        deterministic=False,
        platform_dependent=True,
        default={"skipped": "", "runs": []},
    )
    for name, sanitizer, what in _KINDS
)
