"""Programs that watch over themselves: a state with a sanitizer's checks, built and run.

LLVM's own passes put the checks of AddressSanitizer, ThreadSanitizer and MemorySanitizer into a copy of the program as
it is, after all optimisations: the state itself stays what it was. The checks of UndefinedBehaviorSanitizer come from
the front end; a program that has them only needs the runtime that they call. All four stand on the machine's C library
and on the runtimes that come with clang. Where these are missing or do not work, an empty program shows that first.
"""

import contextlib
import functools
import os
import re
import shutil
import time
import weakref
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_library import SOURCES
from aiocg.workers.llvm.program import BITCODE
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.execution import Ended
from aiocg.workers.programs.linking import EXECUTABLE, OBJECT, Executable, link, temporary_folder, write_files
from aiocg.workers.programs.recipe import LinkError, Program, Run

FOUND = 99  # the exit status of a program in which a sanitizer has found something
REPORT = 4000  # characters of a report that are kept
MEMORY = 2048  # MiB that a program may use; address space says nothing, as sanitizers reserve terabytes of it
SELF_TEST_TIMEOUT = 60.0  # seconds to build and run an empty program

_FUNCTION = 0xFFFFFFFF  # LLVMAttributeFunctionIndex
_LINKER, _SUPPORT = "ld.lld", "cplusplus.c"
_OWN_LIBRARY = "runtime.a"  # in the recipes of programs that stand on our C library
_READ = 1 << 16  # bytes of standard error that are looked at
_OPTIONS = f"symbolize=0:exitcode={FOUND}:hard_rss_limit_mb={MEMORY}"
_SUMMARY = re.compile(r"SUMMARY: (\w+Sanitizer): (.*)")
_BEGINNING = re.compile(r"^(?:=+\d*=+\s*(?:ERROR|WARNING)|WARNING: \w+Sanitizer|.*: runtime error: )", re.MULTILINE)


class Sanitizer(NamedTuple):
    """One of LLVM's sanitizers.

    Attributes:
        flag: clang's name of it, after `-fsanitize=`.
        attribute: marks the functions to be checked; empty when the checks are in the program already.
        pipelines: what inserts the checks, oldest spelling first: old names are unknown later, but not the reverse.
        settings: the environment variables it runs under, those preferred first.
    """

    flag: str
    attribute: bytes
    pipelines: tuple[str, ...]
    settings: tuple[dict[str, str], ...]


ADDRESS = Sanitizer(
    "address",
    b"sanitize_address",
    ("require<asan-globals-md>,asan-module", "asan-module", "asan"),
    # LeakSanitizer traces its own process, which some containers forbid.
    tuple({"ASAN_OPTIONS": f"{_OPTIONS}:detect_leaks={leaks}"} for leaks in (1, 0)),
)
THREAD = Sanitizer("thread", b"sanitize_thread", ("tsan-module,function(tsan)",), ({"TSAN_OPTIONS": _OPTIONS},))
MEMORY_USE = Sanitizer(
    "memory", b"sanitize_memory", ("msan-module,function(msan)", "msan"), ({"MSAN_OPTIONS": _OPTIONS},)
)
UNDEFINED = Sanitizer("undefined", b"", (), ({"UBSAN_OPTIONS": f"{_OPTIONS}:halt_on_error=1:print_stacktrace=0"},))

_verdicts: "weakref.WeakKeyDictionary[Engine, dict[str, dict[str, str] | str]]" = weakref.WeakKeyDictionary()


class Unavailable(Exception):
    """A sanitizer cannot be used here; the message says why."""


def watch(
    engine: Engine, state: State, program: Program | None, sanitizer: Sanitizer, deadline: float
) -> dict[str, Any]:
    """Build a state with a sanitizer and do all its runs.

    Args:
        engine: that the state lives in.
        state: the program's IR.
        program: its recipe.
        sanitizer: what watches.
        deadline: when to give up, in seconds of the monotonic clock.

    Returns:
        JSON. `skipped` says why nothing was done, if so; else `runs` is what `Ended.describe` says of each run, with
        `finding`, such as "AddressSanitizer: heap-buffer-overflow" or "", and `report`, the sanitizer's words.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when the program cannot be built or started.
        LlvmError: when the checks cannot be inserted, or there is no machine code for them.
    """
    try:
        if program is None or not program.runs:
            raise Unavailable("the benchmark does not say how it is run")
        settings = usable(engine, sanitizer)
        executable = build(engine, state.content, program, sanitizer, deadline)
    except Unavailable as reason:
        return {"skipped": str(reason), "runs": []}
    runs = []
    with contextlib.closing(executable):
        for run in program.runs:
            with _started(engine, executable, run, settings, deadline) as ended:
                runs.append({**ended.describe(), **finding(ended)})
    return {"skipped": "", "runs": runs}


def usable(engine: Engine, sanitizer: Sanitizer) -> dict[str, str]:
    """Return the environment variables under which a sanitizer works here. An empty program is tried, once.

    Raises:
        Unavailable: when it does not work.
        CompilationError: with `FailureCode.OBSERVATION` when that cannot be said now, for want of disk for example.
    """
    verdicts = _verdicts.setdefault(engine, {})
    if sanitizer.flag not in verdicts:
        verdicts[sanitizer.flag] = _try(engine, sanitizer)
    verdict = verdicts[sanitizer.flag]
    if isinstance(verdict, str):
        raise Unavailable(f"-fsanitize={sanitizer.flag} does not work on this machine: {verdict}")
    return verdict


def _try(engine: Engine, sanitizer: Sanitizer) -> dict[str, str] | str:
    """Return the settings with which an empty program ends well, or what is wrong."""
    deadline = time.monotonic() + SELF_TEST_TIMEOUT
    run = Run("", (), b"", {}, {}, 0, None, {}, SELF_TEST_TIMEOUT)
    program = Program(1, ("{clang}", "-o", EXECUTABLE, OBJECT), {}, {}, (run,), "")
    problem = ""
    try:
        triple = engine.library.take_string(engine.library.c.LLVMGetDefaultTargetTriple())
        empty = engine.load(f'target triple = "{triple}"\ndefine i32 @main() {{\n  ret i32 0\n}}\n'.encode())
        with contextlib.closing(build(engine, empty.content, program, sanitizer, deadline)) as executable:
            for settings in sanitizer.settings:
                with _started(engine, executable, run, settings, deadline) as ended:
                    problem = ended.problem()
                    if not problem:
                        return settings
                    problem = f"{problem}: {_words(ended)[-500:].strip()}".rstrip(": ")
    except (LinkError, LlvmError, Unavailable) as error:
        problem = str(error)
    return f"an empty program {problem}"


def build(engine: Engine, content: bytes, program: Program, sanitizer: Sanitizer, deadline: float) -> Executable:
    """Link a program with a sanitizer; close the executable when done.

    Raises:
        Unavailable: when the program's recipe has no place for a sanitizer.
        CompilationError: with `FailureCode.OBSERVATION` when linking fails.
        LlvmError: when the checks cannot be inserted, or there is no machine code for them.
    """
    command, files = _recipe(program, sanitizer)
    checked = instrument(engine, content, sanitizer)
    files = files | {OBJECT: engine.code.generate(checked), BITCODE: checked}
    executable = Executable(folder := temporary_folder("build-"))
    try:
        write_files(Path(folder.name), files)
        tools = engine.builder.tools
        if tools.linker:  # by a name that makes it act as the linker of clang
            os.symlink(shutil.which(tools.linker[0]) or tools.linker[0], Path(folder.name, _LINKER))
            command = (*command, f"--ld-path={Path(folder.name, _LINKER)}")
        rpaths = (f"-Wl,-rpath,{path}" for path in _library_folders(tools.clang))
        link([*tools.expand(command), *rpaths], folder.name, program.environment, deadline)
    except BaseException:
        executable.close()
        raise
    return executable


def _recipe(program: Program, sanitizer: Sanitizer) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """Change how a program is linked: with the sanitizer, and if it stands on our C library, on the machine's."""
    if program.command[:1] == ("{lld}",) and _OWN_LIBRARY in program.files:
        support = {_SUPPORT: (SOURCES / _SUPPORT).read_bytes()}
        return ("{clang}", f"-fsanitize={sanitizer.flag}", "-o", EXECUTABLE, OBJECT, _SUPPORT, "-lm"), support
    for index, word in enumerate(program.command):
        if word in ("{clang}", "{clang++}"):
            rest = program.command[index + 1 :]
            return (*program.command[: index + 1], f"-fsanitize={sanitizer.flag}", *rest), program.files
    raise Unavailable("the benchmark is not linked by clang, which knows where the sanitizers are")


@functools.lru_cache(maxsize=4)
def _library_folders(clang: str) -> tuple[str, ...]:
    """Find the shared libraries that belong to clang and that no linker looks for by itself: LLVM's unwinder."""
    root = Path(os.path.realpath(shutil.which(clang) or clang)).parent.parent / "lib"
    return tuple(sorted({str(path.parent) for pattern in ("", "*/") for path in root.glob(f"{pattern}libunwind.so.1")}))


@contextlib.contextmanager
def _started(
    engine: Engine, executable: Executable, run: Run, settings: dict[str, str], deadline: float
) -> Iterator[Ended]:
    """Do a run under a sanitizer's settings, and what the run says beyond them, without a limit on address space."""
    settings = {name: ":".join(filter(None, (text, run.environment.get(name)))) for name, text in settings.items()}
    run = msgspec.structs.replace(run, environment={**run.environment, **settings})
    with engine.runner.run(executable.path, run, deadline, memory=None) as ended:
        yield ended


def finding(ended: Ended) -> dict[str, str]:
    """Return what a sanitizer says of a run, as `finding` and `report`."""
    words = _words(ended)
    if ended.exit_code != FOUND or "Sanitizer" not in words:
        return {"finding": "", "report": ""}
    beginning, summary = _BEGINNING.search(words), _SUMMARY.search(words)
    report = words[beginning.start() if beginning else 0 :][:REPORT]
    if summary is None:
        return {"finding": report.split("\n", 1)[0], "report": report}
    what = re.split(r" \(?/", summary[2])[0].strip()  # without the place in the executable
    return {"finding": f"{summary[1]}: {what}", "report": report}


def _words(ended: Ended) -> str:
    return ended.stderr[:_READ].decode(errors="backslashreplace")


def instrument(engine: Engine, content: bytes, sanitizer: Sanitizer) -> bytes:
    """Return a program with the checks of a sanitizer, as bitcode.

    Raises:
        LlvmError: when LLVM has no such pass, or it fails.
    """
    if not sanitizer.pipelines:
        return content
    c = _bind(engine)
    with Module.parse(engine.library, content) as module:
        kind = c.LLVMGetEnumAttributeKindForName(sanitizer.attribute, len(sanitizer.attribute))
        mark = c.LLVMCreateEnumAttribute(module.context.pointer, kind, 0)
        function = c.LLVMGetFirstFunction(module.pointer)
        while function:
            if not c.LLVMIsDeclaration(function):
                c.LLVMAddAttributeAtIndex(function, _FUNCTION, mark)
            function = c.LLVMGetNextFunction(function)
        _run_first(module, sanitizer.pipelines)
        if problem := module.verify():
            raise LlvmError(f"the program with the checks of {sanitizer.flag} is not valid: {problem}")
        return module.write_bitcode()


def _run_first(module: Module, pipelines: Sequence[str]) -> None:
    """Run the first of several pipelines that LLVM knows."""
    for pipeline in pipelines[:-1]:
        try:
            return module.run_passes(pipeline, None)
        except LlvmError as error:  # a pipeline that cannot be read has changed nothing
            if "unknown" not in str(error) and "invalid" not in str(error):
                raise
    module.run_passes(pipelines[-1], None)


def _bind(engine: Engine) -> Any:
    functions: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "LLVMAddAttributeAtIndex": (None, (c_void_p, c_uint, c_void_p)),
        "LLVMCreateEnumAttribute": (c_void_p, (c_void_p, c_uint, c_ulonglong)),
        "LLVMGetEnumAttributeKindForName": (c_uint, (c_char_p, c_size_t)),
        "LLVMGetFirstFunction": (c_void_p, (c_void_p,)),
        "LLVMGetNextFunction": (c_void_p, (c_void_p,)),
        "LLVMIsDeclaration": (c_int, (c_void_p,)),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(engine.library.c, name)
        function.restype, function.argtypes = result, arguments
    return engine.library.c
