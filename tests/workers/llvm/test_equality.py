"""Whether a pass has changed a program: the quick answers against the slow one, which compares texts."""

import ctypes
import hashlib
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.datasets import default_datasets
from aiocg.workers.llvm import passes
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.equality import Equality, digest
from aiocg.workers.llvm.library import Library, find_clang
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.states import State

FEW = ("gcd",)
LONGER = ("crc32", "huffman", "json", "connect4", "fft")
PREDECESSORS = re.compile(r'^((?:"[^"\n]*"|[-$.\w]+):) +; preds = .*$', re.MULTILINE)
START = """
@table = global [4 x i32] zeroinitializer
declare i32 @callee(i32)
define i32 @f(i32 %x, i32 %y) {
entry:
  %a = add i32 %x, %y
  %b = mul i32 %a, 3
  %c = call i32 @callee(i32 %b)
  %d = icmp ult i32 %c, %a
  br i1 %d, label %yes, label %no
yes:
  %e = load i32, i32* getelementptr inbounds ([4 x i32], [4 x i32]* @table, i64 0, i64 1), align 4
  ret i32 %e
no:
  ret i32 %a
}
"""


def plain_text(text: str) -> str:
    """Drop the comments that list predecessors, which is what the C code does."""
    return PREDECESSORS.sub(r"\1", text)


def text_of(library: Library, content: bytes) -> str:
    with Module.parse(library, content) as module:
        return plain_text(module.to_text())


@pytest.fixture(scope="session")
def equality(natives: NativeLibraries) -> Equality:
    return Equality(natives.load("equality"))


@pytest.fixture(scope="session")
def compact(natives: NativeLibraries, equality: Equality) -> Callable[[str], str]:
    """The C function that works in place, as one from text to text."""

    def call(text: str) -> str:
        buffer = ctypes.create_string_buffer(text.encode())
        length = natives.load("equality").c.aiocg_plain_text(buffer)
        return buffer.raw[:length].decode()

    return call


@given(
    text=st.lists(st.sampled_from([*"ab-$._\"': ;=,%\n\t", "\n", " ; preds = ", "; preds = ", "a:", '"a b":'])).map(
        "".join
    )
)
def test_predecessor_comments_are_dropped_and_nothing_else(compact: Callable[[str], str], text: str) -> None:
    assert compact(text) == plain_text(text)


def test_predecessor_comments_of_labels_and_of_strings_are_told_apart(compact: Callable[[str], str]) -> None:
    text = '@s = constant [9 x i8] c"; preds = "\n\nloop:       ; preds = %b, %a\n"a b":   ; preds = %c\n  ret void\n'
    assert compact(text) == '@s = constant [9 x i8] c"; preds = "\n\nloop:\n"a b":\n  ret void\n'


def assert_verdicts_are_right(engine: Engine, state: State) -> set[tuple[bool, bool]]:
    """Run all passes on a state; return (is it the same, does the fingerprint say so) as they occurred."""
    library, equality, seen = engine.library, engine.equality, set()
    before = text_of(library, state.content)
    with Module.parse(library, state.content) as module:
        fingerprint = equality.fingerprint(module)
        machine = engine._machine(module.triple)
    for one in passes.available(library):
        with Module.parse(library, state.content) as module:
            try:
                module.run_passes(one.pipeline, machine)
            except LlvmError:
                continue
            after, left = module.write_bitcode(), equality.fingerprint(module)
        with Module.parse(library, after) as canonical:
            text = plain_text(canonical.to_text())
            assert equality.text_digest(canonical) == hashlib.blake2b(text.encode(), digest_size=16).digest()
            assert equality.fingerprint(canonical) == left, one.pipeline
        assert text != before or left == fingerprint, one.pipeline
        assert (engine.apply(state, one.pipeline) is state) == (text == before), one.pipeline
        seen.add((text == before, left == fingerprint))
    return seen


@pytest.mark.parametrize("program", [*FEW, *(pytest.param(one, marks=pytest.mark.slow) for one in LONGER)])
def test_every_pass_is_judged_as_the_text_says(engine: Engine, program: str) -> None:
    state = engine.load(default_datasets()["programs-v0"].benchmark(program).content)
    for pipeline in ("verify", "mem2reg,simplifycfg", "default<O2>"):
        seen = assert_verdicts_are_right(engine, engine.apply(state, pipeline))
        assert {(True, True), (False, False)} <= seen


@pytest.mark.parametrize("major", [14, 19])
def test_an_older_llvm_is_judged_so_too(
    system_library: Callable[[int], Library], natives: NativeLibraries, compile_with: Callable[..., bytes], major: int
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    engine = Engine(library, NativeLibraries(library, clang, natives.folder.parent))
    assert_verdicts_are_right(engine, engine.load(compile_with(clang, "sorting.c")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add i32", "add nsw i32"),
        ("add i32 %x, %y", "add i32 %x, 1"),
        ("mul i32 %a, 3", "mul i32 %a, 4"),
        ("icmp ult", "icmp ule"),
        ("%a", "%aa"),
        ("no:", "no2:"),
        ("@callee", "@other"),
        ("call i32 @callee(i32 %b)", "call i32 @callee(i32 %b) readnone"),
        ("call i32", "tail call i32"),
        ("define i32 @f(i32 %x", "define i32 @f(i32 noundef %x"),
        ("define i32", "define internal i32"),
        ("declare i32 @callee(i32)", 'declare i32 @callee(i32) "key"="value"'),
        ("global", "unnamed_addr global"),
        ("align 4", "align 8"),
    ],
)
def test_the_fingerprint_sees_small_differences(library: Library, equality: Equality, old: str, new: str) -> None:
    start = START if library.version[0] < 15 else START.replace("i32* getelementptr", "ptr getelementptr")
    start = start if library.version[0] < 15 else start.replace("[4 x i32]* @table", "ptr @table")
    changed = start.replace(old, new) if old in ("%a", "no:", "@callee") else start.replace(old, new, 1)
    changed = changed.replace("label %no\n", "label %no2\n") if old == "no:" else changed
    with Module.parse(library, start.encode()) as before, Module.parse(library, changed.encode()) as after:
        assert after.verify() is None
        assert equality.fingerprint(before) != equality.fingerprint(after)
        assert equality.text_digest(before) != equality.text_digest(after)
        assert equality.text_digest(before) == digest(plain_text(before.to_text()).encode())
