"""Runs sequences of passes as the engine does, each sequence in a forked child, and prints what each step led to.

Reads {"programs": [path], "sequences": [[program, [pipeline]]]} from standard input and prints, for each sequence, a
list with the digest of the bitcode after each step, or the error that ended it. Two of these processes have their
memory in different places, so a pass that looks at addresses gives itself away.
"""

import hashlib
import json
import os
import random
import signal
import sys
from pathlib import Path

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine

SECONDS = 60


def outcomes(library: Library, program: bytes, pipelines: list[str]) -> list[str]:
    """Run a sequence in a child and return its outcomes, the last of which may be an error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w") as pipe:
            for line in steps(library, program, pipelines):
                print(line, file=pipe, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    if status:
        lines.append(f"error: {pipelines[len(lines)]} ended the process with status {status}")
    return lines


def steps(library: Library, content: bytes, pipelines: list[str]):
    """Yield the digest of the program after each pipeline, or an error and no more."""
    for pipeline in pipelines:
        with Module.parse(library, content) as module:
            try:
                module.run_passes(pipeline, TargetMachine.create(library, module.triple))
            except LlvmError as error:
                yield f"error: {pipeline}: {error}".replace("\n", " ")
                return
            if problem := module.verify():
                yield f"error: {pipeline} left invalid IR: {problem}".replace("\n", " ")
                return
            content = module.write_bitcode()
        yield hashlib.blake2b(content, digest_size=8).hexdigest()


def main() -> None:
    """Do the work that standard input describes."""
    library = Library(sys.argv[1])
    work = json.load(sys.stdin)
    programs = [Path(path).read_bytes() for path in work["programs"]]
    sizes = random.Random(sys.argv[2])
    ballast = [bytearray(sizes.randrange(16, 4096)) for _ in range(sizes.randrange(1000, 10000))]
    del ballast[::2]  # leave holes, so that allocations land elsewhere than in another process
    results = [outcomes(library, programs[program], pipelines) for program, pipelines in work["sequences"]]
    json.dump(results, sys.stdout)


main()
