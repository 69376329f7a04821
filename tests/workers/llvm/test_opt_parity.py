"""States are what `opt` writes, for the LLVMs of this machine that come with an `opt`, up to names of local values.

Passes that go by the order of use-lists may decide otherwise, as states have these in canonical order and `opt` has
them as they were read. One default of `opt` is out of reach of the C API and is switched off: merging debug types of
the same name, which concerns C++ compiled with -g.
"""

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import available
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import State

FLAGS = ("-disable-debug-info-type-map", "-relocation-model=pic")
PIPELINES = (
    "default<Oz>", "default<O3>", "sroa", "early-cse<memssa>", "simplifycfg", "gvn", "licm", "loop-rotate",
    "loop-unroll", "inline", "reassociate", "sccp", "jump-threading", "loop-vectorize", "slp-vectorizer",
    "function-attrs",
)  # fmt: skip

LOOP = b"""
%pair = type { i32, i64 }
@table = internal global [4 x i32] [i32 1, i32 2, i32 3, i32 4]

declare i32 @printf(i8*, ...)

define i32 @loop(i32 %x, i32 %y, %pair* %p) {
entry:
  %a = alloca i32
  store i32 %x, i32* %a
  %q = getelementptr %pair, %pair* %p, i32 0, i32 1
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %v = load i32, i32* %a
  %e = getelementptr [4 x i32], [4 x i32]* @table, i32 0, i32 %i
  %t = load i32, i32* %e
  %w = add i32 %v, %t
  store i32 %w, i32* %a
  %j = add i32 %i, 1
  %c = icmp slt i32 %j, 4
  br i1 %c, label %loop, label %exit

exit:
  %r = load i32, i32* %a
  %l = load i64, i64* %q
  %m = trunc i64 %l to i32
  %n = mul i32 %r, %m
  ret i32 %n
}
"""
TRIPLE = b'target triple = "x86_64-pc-linux-gnu"\n'
LAYOUT = b'target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"\n'
ASSEMBLY = b'module asm ".globl beside"\nmodule asm "beside: nop"\n'
TEXTS = {
    "no target": LOOP,
    "no layout": TRIPLE + LOOP,
    "other target": b'target triple = "aarch64-linux-gnu"\n' + LOOP,
    "assembly": TRIPLE + LAYOUT + ASSEMBLY + LOOP,
}


class Reference:
    """An LLVM of this machine: its tools, and our engine on its library."""

    def __init__(self, major: int, library: Library, clang: str, cache: Path, compile_with: Callable[..., bytes]):
        self.tools = Path(f"/usr/lib/llvm-{major}/bin")
        for tool in ("opt", "clang"):
            if not (self.tools / tool).exists():
                pytest.skip(f"{self.tools / tool} is missing (apt install llvm-{major} clang-{major})")
        self.engine = Engine(library, NativeLibraries(library, clang, cache))
        self._compile_with = compile_with

    def compile(self, name: str, *flags: str) -> bytes:
        return self._compile_with(str(self.tools / "clang"), name, *flags)

    def stress(self, seed: int) -> bytes:
        command = [str(self.tools / "llvm-stress"), "-size=150", f"-seed={seed}"]
        return TRIPLE + LAYOUT + subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    def opt(self, content: bytes, pipeline: str, *flags: str) -> bytes:
        command = [str(self.tools / "opt"), f"-passes={pipeline}", *flags, "-", "-o", "-"]
        return subprocess.run(command, input=content, check=True, stdout=subprocess.PIPE).stdout

    def text(self, content: bytes) -> str:
        """Print bitcode without names of local values and without the order of predecessors."""
        with Module.parse(self.engine.library, content, names=False) as module:
            return re.sub(r"(?m) +; preds = .*$", "", module.to_text())

    def is_same(self, state: State, content: bytes) -> bool:
        return self.text(self.engine.bitcode(state)) == self.text(content)

    def assert_parity(self, content: bytes, pipelines: tuple[str, ...] = PIPELINES) -> int:
        """Compare every pipeline; return how many had an effect."""
        initial = self.engine.load(content)
        effects = 0
        for pipeline in pipelines:
            state = self.engine.apply(initial, pipeline)
            assert self.is_same(state, self.opt(content, pipeline, *FLAGS)), pipeline
            effects += state is not initial
        return effects


@pytest.fixture(scope="module", params=[14, 19], ids=["llvm14", "llvm19"])
def reference(
    request: pytest.FixtureRequest,
    system_library: Callable[[int], Library],
    clang: str,
    cache_dir: Path,
    compile_with: Callable[..., bytes],
) -> Reference:
    return Reference(request.param, system_library(request.param), clang, cache_dir, compile_with)


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["sorting.c", "matrix.c", "calculator.c", "shapes.cc"])
def test_compiled_program_becomes_what_opt_writes(reference: Reference, name: str) -> None:
    assert reference.assert_parity(reference.compile(name)) >= 8


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["sorting.c", "shapes.cc"])
def test_program_with_debug_information_becomes_what_opt_writes(reference: Reference, name: str) -> None:
    pipelines = ("default<Oz>", "default<O3>", "sroa", "simplifycfg", "gvn", "inline")
    assert reference.assert_parity(reference.compile(name, "-g"), pipelines) >= 4


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TEXTS)
def test_text_becomes_what_opt_writes(reference: Reference, name: str) -> None:
    pipelines = ("default<Oz>", "default<O3>", "sroa", "licm", "loop-unroll", "globalopt", "reg2mem")
    assert reference.assert_parity(TEXTS[name], pipelines) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_program_becomes_what_opt_writes(reference: Reference, seed: int) -> None:
    assert reference.assert_parity(reference.stress(seed)) >= 3


@pytest.mark.few(1)
@pytest.mark.parametrize("level", ["O1", "O2", "Os"])
def test_other_levels_become_what_opt_writes(reference: Reference, level: str) -> None:
    assert reference.assert_parity(reference.compile("calculator.c"), (f"default<{level}>",)) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["matrix.c", "calculator.c"])
def test_path_is_a_chain_of_opt_processes(reference: Reference, name: str) -> None:
    content = reference.compile(name)
    state: State = reference.engine.load(content)
    for pipeline in random.Random(3).sample(PIPELINES, k=8):
        content = reference.opt(reference.engine.bitcode(state), pipeline, *FLAGS)
        state = reference.engine.apply(state, pipeline)
        assert reference.is_same(state, content)


# Options of the pass builder, and the flags of `opt` that set the same.
OPTIONS = {
    "{loop-unrolling=0}": "-disable-loop-unrolling",
    "{merge-functions=1}": "-enable-merge-functions",
    "{loop-interleaving=0}": "-interleave-loops=false",
    "{licm-mssa-max-acc-promotion=0}": "-licm-mssa-max-acc-promotion=0",
}


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_option_of_the_pass_builder_is_the_flag_of_opt(reference: Reference, option: str) -> None:
    for name in ("matrix.c", "shapes.cc"):
        content = reference.compile(name, "-O2")
        state = reference.engine.apply(reference.engine.load(content), f"{option}default<O3>")
        assert reference.is_same(state, reference.opt(content, "default<O3>", OPTIONS[option], *FLAGS))


def test_every_pass_can_stand_anywhere_on_a_line_of_opt(reference: Reference) -> None:
    """With neighbours over the module, over functions, and over loops with and without MemorySSA."""
    pipelines = [one.nested for one in available(reference.engine.library)]
    for neighbour in ("globaldce", "function(sroa)", "function(loop(loop-rotate))", "function(loop-mssa(licm))"):
        line = ",".join(f"{neighbour},{pipeline}" for pipeline in pipelines)
        assert reference.opt(b"", line)


@pytest.mark.slow
def test_line_of_many_passes_ends_at_the_instructions_that_the_engine_has(reference: Reference) -> None:
    """The text may differ: in one process, a pass sees what others left in memory, such as the order of use-lists."""
    chance, content = random.Random(1), reference.compile("calculator.c", "-O2")
    initial = reference.engine.load(content)
    passes = available(reference.engine.library)
    agreements = 0
    for _ in range(8):
        line, state = [], initial
        for one in chance.choices(passes, k=30):
            state = reference.engine.apply(state, one.pipeline)
            line.append(one.nested)
        with Module.parse(reference.engine.library, reference.opt(content, ",".join(line), *FLAGS)) as module:
            agreements += reference.engine.walker.inst_count(module.pointer) == reference.engine.inst_count(state)
    assert agreements >= 7


@pytest.mark.few(1)
def test_short_line_of_passes_ends_where_the_engine_does(reference: Reference) -> None:
    chance, content = random.Random(2), reference.compile("sorting.c", "-O2")
    initial = reference.engine.load(content)
    passes = available(reference.engine.library)
    agreements = 0
    for _ in range(8):
        chosen = chance.choices(passes, k=3)
        state = initial
        for one in chosen:
            state = reference.engine.apply(state, one.pipeline)
        line = ",".join(one.nested for one in chosen)
        agreements += reference.is_same(state, reference.opt(content, line, *FLAGS))
    assert agreements >= 7
