"""A page of the documentation as a program: its blocks of Python and of commands, run from top to bottom.

    python -P tests/docs_page.py docs/concepts.md [--slow]

All Python of a page runs in one interpreter, as in `python -m asyncio`: names live on from block to block, and `await`
may stand outside of functions. Of `sh` blocks the lines that call `aiocg`, or a module of it, are run. A comment before
a block says otherwise:

    <!-- test: slow -->                      it is run by the slow tests, and the others are not
    <!-- test: needs a C library -->         it is run where programs can be linked with the machine's C library
    <!-- test: needs gcc -->                 it is run where there is a gcc
    <!-- test: not run: needs a cluster -->  it is never run, and why
    <!-- test: setup                         Python that readers do not see; one of the words above may follow "setup, "
    import aiocg
    -->
"""

import ast
import asyncio
import functools
import inspect
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

C_LIBRARY = "needs a C library"
GCC = "needs gcc"
MARKS = rf"slow|{C_LIBRARY}|{GCC}|not run: [^>]*?"
BLOCK = re.compile(
    rf"^(?:<!-- test: ({MARKS}) -->\n+)?```(\w+)[^\n]*\n(?P<code>.*?)^```$"
    rf"|^<!-- test: setup(?:, ({MARKS}))?\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"^<!-- test:", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: as the page says; `setup` is Python, too.
        code: its text.
        line: of the page on which the code starts.
        mark: what the comment before it says, if anything.
    """

    language: str
    code: str
    line: int
    mark: str

    def runs(self, slow: bool) -> bool:
        """Is it to be run here, in a run of the slow blocks or of the others?"""
        if self.mark == "slow" or (slow and self.language != "setup"):
            return slow and self.mark == "slow"
        return not self.mark or (self.mark == C_LIBRARY and has_c_library()) or (self.mark == GCC and has_gcc())

    def commands(self) -> list[str]:
        """Return the calls of `aiocg`, or of a module of it; lines that end in a backslash are joined."""
        lines = self.code.replace("\\\n", " ").splitlines() if self.language == "sh" else []
        return [line for line in lines if line.startswith(("aiocg ", "python -m aiocg"))]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order.

    Raises:
        ValueError: when a comment is there that no block follows.
    """
    text = page.read_text(encoding="utf-8")
    found, marks = [], 0
    for match in BLOCK.finditer(text):
        kind = "setup" if match["setup"] is not None else "code"
        mark, language = match[1] or match[4] or "", match[2] or "setup"
        found.append(Block(language, match[kind], text.count("\n", 0, match.start(kind)) + 1, mark))
        marks += bool(mark) or kind == "setup"
    if marks != len(MARK.findall(text)):
        raise ValueError(f"{page}: a comment '<!-- test: …' is not of the known form, or no block follows it")
    return found


@functools.cache
def has_c_library() -> bool:
    """Can a program be compiled and linked with the headers and the C library of this machine?"""
    from aiocg.datasets.toolchain import find_clang, link_flags, loader_environment

    clang = find_clang()
    command = [clang, *link_flags(clang, "c"), "-x", "c", "-", "-o", os.devnull]
    program = b"#include <stdio.h>\nint main(void) { return 0; }\n"
    environment = {**os.environ, **loader_environment()}
    return subprocess.run(command, input=program, capture_output=True, env=environment).returncode == 0


def has_gcc() -> bool:
    """Is there a GCC?"""
    return shutil.which("gcc") is not None


def run(page: Path, slow: bool) -> int:
    """Run a page in the current directory; return how many blocks were run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    with asyncio.Runner() as runner:
        for block in blocks(page):
            if not block.runs(slow):
                continue
            started = time.perf_counter()
            for command in block.commands():
                print(f"$ {command}", flush=True)
                subprocess.run(["bash", "-c", command], check=True, stdin=subprocess.DEVNULL)
            if block.language in ("python", "setup"):
                # empty lines first, so that a traceback has the lines of the page
                code = "\n" * (block.line - 1) + block.code
                compiled = compile(code, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if compiled.co_flags & inspect.CO_COROUTINE:
                    runner.run(_awaited(compiled, names))
                else:
                    exec(compiled, names)
            print(f"# {page.name}:{block.line}: {time.perf_counter() - started:.1f} s", flush=True)
            count += 1
        runner.run(_closed(names))
    return count


async def _awaited(compiled: Any, names: dict[str, Any]) -> None:
    await eval(compiled, names)


async def _closed(names: dict[str, Any]) -> None:
    """Close the runtimes that a page has left open, as a reader's interpreter does when it ends."""
    import aiocg

    for value in _unique(names.values()):
        if isinstance(value, aiocg.Runtime):
            await value.close()


def _unique(values: Any) -> Iterator[Any]:
    yield from {id(value): value for value in values}.values()


def main() -> None:
    """Run the page that the command line names, on two processors at most."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    print(run(Path(sys.argv[1]), "--slow" in sys.argv), "blocks were run")


if __name__ == "__main__":
    main()
