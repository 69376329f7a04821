"""Drives LLVM alone, by requests on standard input (see `driving`): `python drive_bare.py [LIBRARY]`.

What any environment around this LLVM costs at least: a loop over the library's C functions in one process, without
sessions, messages, checks or a memory. `drive_aiocg.py` has the same operations. Two ways:

* "in place": the program is parsed once and each pass changes the module in memory;
* "as values": each pass starts from bitcode and ends as bitcode, which is what makes a state a value.
"""

import contextlib
import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import platformdirs
from driving import Channel, parse

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import DIAGNOSTIC_HANDLER, Library, find_clang, system_libraries
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.native_code import NativeLibraries

clock = time.perf_counter
Module = tuple[int, int]  # context, module
Walk = Callable[[int], object]
PARTS = ("parse", "pass", "walk", "write", "free")


class Llvm:
    """The few things that are done with a libLLVM."""

    def __init__(self, path: str | None) -> None:
        self.library = Library.find(path)
        self.c = self.library.c
        cache = os.environ.get("AIOCG_CACHE")
        natives = NativeLibraries(
            self.library, find_clang(self.library), Path(cache) if cache else platformdirs.user_cache_path("aiocg")
        )
        walker = Walker(natives.load("walker"))
        self.walks: dict[str | None, Walk] = {
            "Autophase": walker.autophase,
            "InstCount": walker.inst_count,
            "IrInstructionCount": walker.instruction_count,
            None: lambda module: None,
        }
        self._options = self.c.LLVMCreatePassBuilderOptions()
        self._quiet = DIAGNOSTIC_HANDLER(lambda diagnostic, context: None)
        self._machine = self.c.LLVMCreateTargetMachine(self._target(), self.triple, b"", b"", 0, 0, 0)

    @property
    def triple(self) -> bytes:
        """What programs are compiled for."""
        return self.library.default_triple()

    def read(self, content: bytes) -> Module:
        """Parse bitcode, or text, into a context of its own."""
        context = self.c.LLVMContextCreate()
        self.c.LLVMContextSetDiagnosticHandler(context, self._quiet, None)
        buffer = self.c.LLVMCreateMemoryBufferWithMemoryRange(content, len(content), b"<stdin>", 1)
        module, message = c_void_p(), c_void_p()
        if self.c.LLVMParseIRInContext(context, buffer, byref(module), byref(message)) or not module.value:
            raise ValueError(self.library.take_string(message.value))
        return context, module.value

    def text(self, pipeline: str) -> bytes:
        """Return what LLVM is to run.

        On a module in memory instcombine may need another round; where it checks itself, that ends the process.
        """
        checks = pipeline == "instcombine" and self.library.version >= (18, 0, 0)
        return b"instcombine<no-verify-fixpoint>" if checks else pipeline.encode()

    def run(self, module: Module, pipeline: bytes) -> None:
        """Run passes."""
        error = self.c.LLVMRunPasses(module[1], pipeline, self._machine, self._options)
        if error:
            raise ValueError(self.library.take_error(error))

    def write(self, module: Module) -> bytes:
        """Return bitcode."""
        buffer = self.c.LLVMWriteBitcodeToMemoryBuffer(module[1])
        content = ctypes.string_at(self.c.LLVMGetBufferStart(buffer), self.c.LLVMGetBufferSize(buffer))
        self.c.LLVMDisposeMemoryBuffer(buffer)
        return content

    def free(self, module: Module) -> None:
        """Free a module with its context."""
        self.c.LLVMContextDispose(module[0])

    @contextmanager
    def reading(self, content: bytes) -> Iterator[Module]:
        """Parse, and free at the end."""
        module = self.read(content)
        try:
            yield module
        finally:
            self.free(module)

    def _target(self) -> c_void_p:
        target, message = c_void_p(), c_void_p()
        if self.c.LLVMGetTargetFromTriple(self.triple, byref(target), byref(message)):
            raise ValueError(self.library.take_string(message.value))
        return target


class InPlace:
    """One environment, whose passes change the module in memory."""

    def __init__(self, llvm: Llvm, content: bytes) -> None:
        self._llvm = llvm
        self._module = llvm.read(content)

    def step(self, pipeline: bytes, walk: Walk) -> list[float]:
        """Run a pass and observe; return the time before, between and after."""
        times = [clock()] * 2
        self._llvm.run(self._module, pipeline)
        times.append(clock())
        walk(self._module[1])
        return times + [clock()] * 3

    def content(self) -> bytes:
        """Return the program as bitcode."""
        return self._llvm.write(self._module)

    def close(self) -> None:
        """Free it."""
        self._llvm.free(self._module)


class AsValues:
    """One environment, whose state is bitcode."""

    def __init__(self, llvm: Llvm, content: bytes) -> None:
        self._llvm = llvm
        self._content = content

    def step(self, pipeline: bytes, walk: Walk) -> list[float]:
        """Parse, run a pass, observe, write, free; return the time before, between and after."""
        times = [clock()]
        module = self._llvm.read(self._content)
        times.append(clock())
        self._llvm.run(module, pipeline)
        times.append(clock())
        walk(module[1])
        times.append(clock())
        self._content = self._llvm.write(module)
        times.append(clock())
        self._llvm.free(module)
        return [*times, clock()]

    def content(self) -> bytes:
        """Return the program as bitcode."""
        return self._content

    def close(self) -> None:
        """There is nothing to free."""


WAYS = {"in place": InPlace, "as values": AsValues}


class Bare:
    """What is done with LLVM alone."""

    def __init__(self, path: str | None) -> None:
        self.llvm = Llvm(path)
        self.content = b""

    def libraries(self) -> dict[str, Any]:
        """Return the other libLLVMs of this machine, one of each version, that can be used here."""
        found = {self.llvm.library.version_text: ""}
        for path in system_libraries():
            with contextlib.suppress(CompilationError):
                found.setdefault(Library(path).version_text, str(path))
        return {"paths": [path for path in found.values() if path]}

    def start(self, program: str) -> dict[str, Any]:
        """Read a program."""
        with self.llvm.reading(Path(program).read_bytes()) as module:
            self.content = self.llvm.write(module)
        return {"compiler": f"LLVM {self.llvm.library.version_text}", "instructions": self._count(self.content)}

    def walk(self, pipelines: list[str], observation: str | None, way: str) -> dict[str, Any]:
        """Do one action after another."""
        walk = self.llvm.walks[observation]
        env = WAYS[way](self.llvm, self.content)
        began = time.process_time()
        steps = [env.step(self.llvm.text(pipeline), walk) for pipeline in pipelines]
        processor = time.process_time() - began
        instructions = self._count(env.content())
        env.close()
        lengths = [[late - early for early, late in itertools.pairwise(times)] for times in steps]
        parts = dict(zip(PARTS, (sum(part) / len(steps) for part in zip(*lengths, strict=True)), strict=True))
        seconds = [times[-1] - times[0] for times in steps]
        return {"seconds": seconds, "processor": processor / len(steps), "parts": parts, "instructions": instructions}

    def batches(self, batches: list[list[str]], observation: str | None) -> dict[str, Any]:
        """Do several actions in place and then observe; the time is that of one action."""
        walk, nothing, seconds = self.llvm.walks[observation], self.llvm.walks[None], []
        env = InPlace(self.llvm, self.content)
        spent = time.process_time()
        for batch in batches:
            *first, last = map(self.llvm.text, batch)
            began = clock()
            for pipeline in first:
                env.step(pipeline, nothing)
            env.step(last, walk)
            seconds.append((clock() - began) / len(batch))
        spent = time.process_time() - spent
        env.close()
        return {"seconds": seconds, "processor": spent / sum(map(len, batches))}

    def greedy(self, prefix: list[str], pipelines: list[str]) -> dict[str, Any]:
        """Try every action from one state, each on a module of its own, and count instructions."""
        with self.llvm.reading(self.content) as module:
            for pipeline in prefix:
                self.llvm.run(module, self.llvm.text(pipeline))
            content = self.llvm.write(module)
        began, spent = clock(), time.process_time()
        for pipeline in pipelines:
            with self.llvm.reading(content) as module:
                self.llvm.run(module, self.llvm.text(pipeline))
                self.llvm.walks["IrInstructionCount"](module[1])
        return {"seconds": [clock() - began], "processor": time.process_time() - spent}

    def play(self, plans: list[list[str]], observation: str | None, way: str) -> dict[str, Any]:
        """Step so many environments in turn."""
        walk = self.llvm.walks[observation]
        envs = [WAYS[way](self.llvm, self.content) for _ in plans]
        turns = list(zip(*(map(self.llvm.text, plan) for plan in plans), strict=True))
        began = clock()
        for turn in turns:
            for env, pipeline in zip(envs, turn, strict=True):
                env.step(pipeline, walk)
        seconds = clock() - began
        for env in envs:
            env.close()
        return {"seconds": seconds}

    def _count(self, content: bytes) -> object:
        with self.llvm.reading(content) as module:
            return self.llvm.walks["IrInstructionCount"](module[1])


def main() -> None:
    """Do what is asked until there is nothing more."""
    channel, bare = Channel(), Bare(sys.argv[1] if len(sys.argv) > 1 else None)
    for line in sys.stdin:
        operation, arguments = parse(line)
        try:
            channel.reply(getattr(bare, operation)(**arguments))
        except Exception as error:
            channel.reply_error(error)


if __name__ == "__main__":
    main()
