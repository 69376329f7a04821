"""Times feature extraction alone, on a module in memory: `python walks.py CLANG CACHE SECONDS < program.bc`.

Prints a JSON object: the number of instructions, and for each kind of walk its samples in seconds, one per walk, the
kinds taking turns.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._programl import ProgramGraphs
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries


def main() -> None:
    """Walk for so many seconds."""
    clang, cache, seconds = sys.argv[1:]
    library = Library.find(None)
    natives = NativeLibraries(library, find_clang(library, clang), Path(cache))
    walker, graphs = Walker(natives.load("walker")), ProgramGraphs(natives.load("programl"))
    walks: dict[str, Callable[[int], object]] = {
        "instruction_count": walker.instruction_count,
        "inst_count": walker.inst_count,
        "autophase": walker.autophase,
        "programl": lambda pointer: graphs.build(pointer, instructions),
    }
    samples: dict[str, list[float]] = {kind: [] for kind in walks}
    with Module.parse(library, sys.stdin.buffer.read()) as module:
        pointer = module.pointer
        instructions = walker.instruction_count(pointer)
        for walk in walks.values():
            walk(pointer)
        end = time.perf_counter() + float(seconds)
        while time.perf_counter() < end:
            for kind, walk in walks.items():
                started = time.perf_counter()
                walk(pointer)
                samples[kind].append(time.perf_counter() - started)
    print(json.dumps({"instructions": instructions, "samples": samples}))


if __name__ == "__main__":
    main()
