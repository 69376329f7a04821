"""A build by the lock file: sources become bitcode, and images are linked from it at once, with nothing compiled twice.

As with link-time optimisation, the objects of such a build are bitcode. That takes an image of nothing but units that
clang compiles, with the search's passes; with others, the build is done as always, and its images are made once more.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.replacing import replacing
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import compile_flags, find_toolchain, link_flags
from aiocg.errors import AiocgError
from aiocg.llvm.recording import recording_commands
from aiocg.llvm.tools import apply
from aiocg.programs.project.commands import run_build
from aiocg.programs.project.compilation import ALWAYS, OLD_C
from aiocg.shrink import compiler
from aiocg.shrink.candidate import first_diagnostic
from aiocg.shrink.image import read_image
from aiocg.shrink.inputs import read_inputs
from aiocg.shrink.linking import Form, Linker
from aiocg.shrink.lock import Lock, read_lock
from aiocg.shrink.record import Start, understand
from aiocg.shrink.tools import Clang
from aiocg.shrink.units import LEVEL, Units


def build(text: str, lock: Path, commands: Path, report: Path) -> int:
    """Build by a lock file, and return the build's exit status.

    Args:
        text: of the build, for the shell.
        lock: a file whose entries are all repeatable; names in it are relative to the working directory.
        commands: a folder for the commands that take the places of compilers.
        report: a file to which a line is added for each image, a JSON object with `name`, `bytes` and `note`.
    """
    commands.mkdir(parents=True, exist_ok=True)
    search_path = os.environ.get("PATH", os.defpath)
    recording_commands(str(commands), search_path, compiler.__file__)
    variables = {
        compiler.VARIABLE: json.dumps(_plan(lock, report)),
        "PATH": os.pathsep.join((str(commands), search_path)),
        "CCACHE_DISABLE": "1",
    }
    return run_build(["/bin/sh", "-c", text], {**os.environ, **variables})


def is_repeatable(lock: Lock) -> bool:
    """Say whether everything that a lock file has can be built by it at once."""
    return lock.whole and all(entry.repeatable for entry in lock.images.values())


def _plan(lock: Path, report: Path) -> Mapping[str, Any]:
    """Return what the compilers of the build are to do."""
    toolchain, known = find_toolchain(), read_lock(lock)
    lld = report.with_name("ld.lld")
    lld.symlink_to(Path(toolchain.linker_command()[0]).resolve())
    clang = {
        language: [*toolchain.command(language), *compile_flags(toolchain.clang, language)] for language in ("c", "c++")
    }
    return {
        **clang,
        "bitcode": [LEVEL, "-Xclang", "-disable-llvm-passes", *ALWAYS, "-emit-llvm"],
        "lenient": OLD_C,
        "lto": [LEVEL, "-flto", *link_flags(toolchain.clang, "c"), f"--ld-path={lld}", "-w", "-Qunused-arguments"],
        "left_out": sorted({word for entry in known.images.values() for word in entry.left_out}),
        "images": {os.path.abspath(name): name for name in known.images},
        "link": [sys.executable, "-P", "-m", "aiocg.shrink.locked"],
        "lock": str(lock.absolute()),
        "report": str(report),
    }


def link(words: Sequence[str], plan: Mapping[str, Any]) -> None:
    """Link an image of a lock file from bitcode.

    Args:
        words: the compiler's name and what follows it.
        plan: as the build has it.

    Raises:
        AiocgError, BenchmarkInitError, OSError, ValueError: when it cannot be done.
    """
    found = understand([Start(tuple(words), Path.cwd())])
    if not found.links:
        raise ValueError("; ".join(found.left_alone.values()) or "it is no link")
    (one,) = found.links
    name = plan["images"][str(one.output)]
    entry, note = read_lock(Path(plan["lock"])).images[name], ""
    with scratch_folder() as scratch:
        (units := Path(scratch, "units")).mkdir()
        linker = Linker(
            read_inputs(one, {}, Path(scratch)), Units(units), Path(scratch), Form(entry.code, entry.link), Clang()
        )
        module, actions = linker.joined(), entry.actions
        if why := entry.staleness(module, find_toolchain().version):
            note, actions = f"the lock file is of no use for it: {why}; only the core set was tried", _core(module)
        content = linker.image(apply(module, actions, subject=name))
    os.umask(mask := os.umask(0o077))
    with replacing(one.output, 0o777 & ~mask) as file:
        file.write(content)
    with open(plan["report"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"name": name, "bytes": read_image(content).bytes, "note": note}) + "\n")


def _core(module: bytes) -> tuple[str, ...]:
    """Return what the core set finds for a module."""
    import asyncio

    from aiocg.runtime import Runtime
    from aiocg.shrink.searching import CORE, search

    async def found() -> tuple[str, ...]:
        async with Runtime(workers=1) as runtime:  # builds use `make -j`
            return await search(runtime, module, CORE)

    return asyncio.run(found())


def _main() -> None:
    plan = json.loads(os.environ[compiler.VARIABLE])
    words = sys.argv[1:]
    try:
        link(words, plan)
    except (AiocgError, BenchmarkInitError, OSError, ValueError) as error:
        line = [*plan["c++" if "++" in words[0] else "c"], *plan["lto"], *words[1:]]
        print(
            f"aiocg shrink: {' '.join(words)[:99]}: linked by clang alone: {first_diagnostic(error)}",
            file=sys.stderr,
        )
        os.execv(line[0], line)


if __name__ == "__main__":
    _main()
