"""`aiocg cc` and `aiocg c++`: a compiler's driver that searches for better passes for each file it compiles.

`make CC="aiocg cc" CXX="aiocg c++"` is all that a project needs. What compiles C or C++ to object code is done in
steps, see `aiocg.llvm.driver`; everything else is clang's, which then takes the place of this process. With
AIOCG_CC_RECORD in the environment nothing is searched: the build is recorded, see `aiocg.llvm.recording`. In a build by
`aiocg.lock` it does what `aiocg.shrink.compiler` does. Once it is known how clang is started, `cc_start` has done so
for what is surely clang's alone.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath

from aiocg.cli import _cc_start as cc_start
from aiocg.datasets import toolchain
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.locking import replacing
from aiocg.datasets.toolchain import compile_flags, find_clang, link_flags, loader_environment
from aiocg.llvm.command_line import CommandLine, Input, parse
from aiocg.llvm.driver import ObjectCompilation
from aiocg.llvm.driver_settings import DriverError, Settings
from aiocg.llvm.recording import FILES_VARIABLE, VARIABLE, record, run_recorded
from aiocg.shrink import compiler


def main(name: str, words: Sequence[str]) -> int:
    """Compile as clang does, but better, and return the exit status.

    Args:
        name: "cc" or "c++".
        words: the command line after it.
    """
    try:
        settings = Settings.from_environment()
        plan = cc_start.read_plan() or _found()
    except (DatasetError, DriverError) as error:
        print(f"aiocg {name}: error: {error}", file=sys.stderr)
        return 1
    path, with_files = os.environ.get(VARIABLE, ""), bool(os.environ.get(FILES_VARIABLE))
    if path and not with_files:
        try:
            record(path, [name, *words])
        except OSError as error:
            reason = f"{VARIABLE} is {path!r}, which cannot be written: {error.strerror}"
            print(f"aiocg {name}: error: {reason}", file=sys.stderr)
            return 1
    if os.environ.get(compiler.VARIABLE):
        cc_start.start(name, words, plan)
    driver, linking, environment = plan[name], plan[f"{name} links"], cc_start.environment(plan)
    try:
        command = parse([name, *words])
    except ValueError:
        command = None  # clang knows how to say it
    if command is None or path or settings.search == "none" or _is_clangs(command, settings):
        links = command is not None and command.mode == "link" and command.inputs
        line = [*driver, *(linking if links else ()), *words]
        if path and with_files:
            return run_recorded(path, [name, *words], line, environment)
        cc_start.become(line, plan)
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that what is temporary is removed
        with tempfile.TemporaryDirectory(prefix="aiocg-cc-") as scratch:
            return _compile(command, driver, linking, settings, environment, Path(scratch))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"aiocg {name}: error: {error}", file=sys.stderr)
        return 1


def _is_clangs(command: CommandLine, settings: Settings) -> bool:
    """Say whether a line is for clang alone: it compiles nothing, is a probe or tiny, or asks for no optimisation."""
    if command.obstacle() or command.level == "-O0":
        return True
    if command.mode == "compile":
        if command.output == "-" or any(not one.language for one in command.inputs):
            return True
        if command.output and len(command.sources) > 1:
            return True  # which is an error
    return all(cc_start.is_trifle(one.path, searches=settings.searches) for one in command.sources)


def _found() -> compiler.Plan:
    """Find out how clang is started, and keep it for `cc_start`.

    Raises:
        DatasetError: when there is no clang, or it cannot be started.
    """
    folders = ("lib*", "lib*/gcc*", "lib*/gcc*/*", "lib*/gcc*/*/*", "include", "include/c++", "include/c++/*")
    system = [str(path) for pattern in folders for path in Path("/usr").glob(pattern)]
    places = ["/usr", *system, "/etc/ld.so.cache", toolchain.__file__, __file__, *os.get_exec_path(), *sys.path]
    times = cc_start.times(places)
    clang = find_clang()
    plan = {
        "places": [*places, str(clang)],
        "times": [*times, *cc_start.times([str(clang)])],
        "environment": [word for pair in loader_environment().items() for word in pair],
        "cc": [str(clang), *compile_flags(clang, "c")],
        "cc links": [*link_flags(clang, "c")],
        "c++": [str(clang), "--driver-mode=g++", *compile_flags(clang, "c++")],
        "c++ links": [*link_flags(clang, "c++")],
        "key": cc_start.key(),  # is the last, so that no part is taken for the whole
    }
    with contextlib.suppress(OSError):  # it is found out again, then
        path = Path(cc_start.path())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(os.fsencode(compiler.plan_text(plan)))
    return plan


def _compile(
    command: CommandLine,
    driver: list[str],
    linking: Sequence[str],
    settings: Settings,
    environment: dict[str, str],
    scratch: Path,
) -> int:
    """Compile all sources and, if that is asked for, link them; return the exit status."""
    objects = []
    for number, source in enumerate(command.sources):
        folder = scratch / str(number)
        folder.mkdir()
        output = _object_of(command, source, folder)
        objects.append(output)
        if status := ObjectCompilation(driver, command, source, output, settings, environment, folder).run():
            return status
    if command.mode == "compile":
        return 0
    quiet = "-Qunused-arguments"  # what was for the front end has been used
    line = [*driver, *linking, *command.link_words(objects), quiet, "-o", command.output or "a.out"]
    status = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL).returncode
    return status if status >= 0 else 128 - status


def _object_of(command: CommandLine, source: Input, folder: Path) -> str:
    stem = PurePath(source.path).stem
    if command.mode == "compile":
        return command.output or f"{stem}.o"
    return str(folder / f"{stem}.o")
