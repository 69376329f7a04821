"""Runs sequences of actions as a worker does, in a forked child, and prints what each step led to.

Reads {"programs": [path], "sequences": [[program, [canonical text]]]} from standard input and prints, for each
sequence, a list with the hash of the state after each step, or the error that ended it. Two of these
processes have their memory in different places, so a pass that looks at addresses gives itself away.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import State

SECONDS = 60


def outcomes(engine: Engine, initials: list[State], sequences: list) -> list[list[str]]:
    """Run sequences in a child, in another one after each crash, and return their outcomes.

    The last outcome of a sequence may be an error.
    """
    results: list[list[str]] = []
    while len(results) < len(sequences):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                for program, actions in sequences[len(results) :]:
                    signal.alarm(SECONDS)
                    print("begin", file=pipe, flush=True)
                    for line in steps(engine, initials[program], actions):
                        print(line, file=pipe, flush=True)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            for line in pipe.read().splitlines():
                if line == "begin":
                    results.append([])
                else:
                    results[-1].append(line)
        _, status = os.waitpid(child, 0)
        if status:
            action = sequences[len(results) - 1][1][len(results[-1])]
            results[-1].append(f"error: {action} ended the process with status {status}")
    return results


def steps(engine: Engine, state: State, actions: list[str]):
    """Yield the hash of the program after each action, or an error and no more."""
    for action in actions:
        try:
            state = engine.apply(state, action)
        except CompilationError as error:
            yield f"error: {error}".replace("\n", " ")
            return
        yield f"{state.hash:016x}"


def main() -> None:
    """Do the work that standard input describes."""
    path, seed, clang, cache = sys.argv[1:]
    library = Library(path)
    engine = Engine(library, NativeLibraries(library, clang, Path(cache)), transition_cache_bytes=0, verifies=True)
    _ = engine.loops  # loaded once, not by every child
    work = json.load(sys.stdin)
    programs = [engine.load(Path(path).read_bytes()) for path in work["programs"]]
    sizes = random.Random(seed)
    ballast = [bytearray(sizes.randrange(16, 4096)) for _ in range(sizes.randrange(1000, 10000))]
    del ballast[::2]  # leave holes, so that allocations land elsewhere than in another process
    json.dump(outcomes(engine, programs, work["sequences"]), sys.stdout)


main()
