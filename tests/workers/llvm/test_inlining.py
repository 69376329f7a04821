"""Inlining chosen calls: those and no others, and what can be chosen."""

import random
from collections.abc import Callable

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._inlining import calls, split
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._vocabulary import Vocabulary
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibraries

Compile = Callable[..., bytes]

PROGRAM = b"""
@pointer = global ptr @taken

define i32 @main(i32 %n) {
  %a = call i32 @twice(i32 %n)
  %b = call i32 @"odd;name"(i32 %a)
  %c = call i32 @twice(i32 %b)
  %d = call i32 @kept(i32 %c)
  %e = call i32 @taken(i32 %d)
  ret i32 %e
}
define internal i32 @twice(i32 %n) {
  %a = call i32 @"odd;name"(i32 %n)
  %b = add i32 %a, %a
  ret i32 %b
}
define internal i32 @"odd;name"(i32 %n) {
  %a = mul i32 %n, 7
  ret i32 %a
}
define internal i32 @kept(i32 %n) noinline {
  %a = call i32 @kept(i32 %n)
  ret i32 %a
}
define linkonce_odr i32 @taken(i32 %n) {
  ret i32 %n
}
"""
ODD = b"odd;name"


def main_of(text: str) -> str:
    return text.split("@main(")[1].split("\n}")[0]


def test_calls_that_can_be_inlined_and_functions_that_then_go(engine: Engine) -> None:
    found = calls(engine.module(engine.load(PROGRAM)))
    assert found.edges == [(b"main", b"twice"), (b"main", ODD), (b"main", b"taken"), (b"twice", ODD)]
    assert found.removable == [b"twice", ODD]  # the address of `taken` is known, `kept` calls itself


def test_functions_that_llvm_cannot_inline_are_not_listed(engine: Engine) -> None:
    text = """
declare void @llvm.va_start.p0(ptr)
declare i32 @setjmp(ptr) returns_twice
define i32 @main(ptr %p) {
  %a = call i32 (i32, ...) @variable(i32 1, i32 2)
  %b = call i32 @back(ptr %p)
  %c = call i32 @computed(ptr %p)
  ret i32 %c
}
define internal i32 @computed(ptr %p) {
  %known = icmp eq ptr %p, null
  %label = select i1 %known, ptr blockaddress(@computed, %one), ptr blockaddress(@computed, %other)
  indirectbr ptr %label, [label %one, label %other]
one:
  ret i32 4
other:
  ret i32 9
}
define internal i32 @variable(i32 %n, ...) {
  %list = alloca [24 x i8]
  call void @llvm.va_start.p0(ptr %list)
  ret i32 %n
}
define internal i32 @back(ptr %p) {
  %a = call i32 @setjmp(ptr %p) returns_twice
  ret i32 %a
}
"""
    found = calls(engine.module(engine.load(text.encode())))
    assert (found.edges, found.removable) == ([], [])


def test_chosen_calls_are_inlined_and_no_others(engine: Engine) -> None:
    before = engine.load(PROGRAM)
    after = engine.apply(before, "@main(inline<@twice>)")
    text = engine.text(after)
    assert "@twice" not in main_of(text)
    assert main_of(text).count('@"odd;name"') == 3  # one of its own, two in what was copied
    assert "alwaysinline" not in text
    assert engine.text(after).count("define") == 5
    more = engine.apply(after, '@main(inline<@"odd;name";@taken>)@twice(inline<@"odd;name">)')
    assert main_of(engine.text(more)).count("call") == 1  # of `kept`
    assert engine.text(engine.apply(more, "globaldce")).count("define") == 3


def test_what_must_not_be_inlined_stays_as_it_is(engine: Engine) -> None:
    before = engine.load(PROGRAM)
    assert engine.apply(before, "@main(inline<@kept>)") is before
    assert engine.apply(before, "@twice(inline<@twice;@taken>)") is before  # it calls neither


def test_functions_that_are_always_inlined_are_only_inlined_where_chosen(engine: Engine) -> None:
    program = PROGRAM.replace(b"@twice(i32 %n) {", b"@twice(i32 %n) alwaysinline {")
    before = engine.load(program.replace(b'@"odd;name"(i32 %n) {', b'@"odd;name"(i32 %n) alwaysinline {'))
    text = engine.text(engine.apply(before, '@twice(inline<@"odd;name">)'))
    assert main_of(text) == main_of(engine.text(before))
    gone = engine.text(engine.apply(before, '@twice(inline<@"odd;name">)@main(inline<@twice;@"odd;name">)'))
    assert gone.count("define") == 5  # removing what is dead is another action's
    assert gone.count("alwaysinline") == engine.text(before).count("alwaysinline")


@pytest.fixture
def on_functions(library: Library) -> None:
    """Skip where LLVM cannot run passes on one function."""
    if not library.has("LLVMRunPassesOnFunction"):
        pytest.skip(f"LLVM {library.version_text} cannot run passes on one function")


@pytest.mark.usefixtures("on_functions")
def test_passes_run_after_it(engine: Engine) -> None:
    before = engine.load(PROGRAM)
    at_once = engine.apply(before, '@twice(inline<@"odd;name">,instcombine<no-verify-fixpoint>)')
    inlined = engine.apply(before, '@twice(inline<@"odd;name">)')
    assert engine.apply(inlined, "@twice(instcombine<no-verify-fixpoint>)") is at_once
    assert at_once is not inlined


def test_a_function_that_is_not_there_is_named_and_nothing_changes(engine: Engine) -> None:
    before = engine.load(PROGRAM)
    with pytest.raises(CompilationError, match="the program has no function @nobody") as raised:
        engine.apply(before, '@twice(inline<@"odd;name">)@main(inline<@nobody>)')
    assert raised.value.code == FailureCode.ACTION_UNKNOWN
    assert "@twice(i32 %0)" in engine.text(before)


@pytest.mark.parametrize(
    "inner", ["inline<>", "inline<twice>", "inline<@a>,", "inline<@a>sroa", "inline<@a;>", "inline<@a"]
)
def test_mistakes_are_told(engine: Engine, inner: str) -> None:
    with pytest.raises(CompilationError, match="is not an action") as raised:
        Vocabulary(engine.library).resolve(f"@main({inner})")
    assert raised.value.code == FailureCode.ACTION_UNKNOWN


@pytest.mark.usefixtures("on_functions")
def test_texts_are_split_into_functions_and_passes(engine: Engine) -> None:
    assert split('inline<@a;@"b;,c">,sroa,gvn') == ((b"a", b"b;,c"), "sroa,gvn")
    assert split("inline<@a>") == ((b"a",), "")
    assert split("sroa") == ((), "sroa")
    text = '@main(inline<@twice;@"odd;name">,sroa<modify-cfg>)@twice(gvn)'
    assert Vocabulary(engine.library).resolve(text) == text


@pytest.mark.usefixtures("on_functions")
@pytest.mark.parametrize("program", ["sorting.c", "matrix.c", "shapes.cc"])
def test_states_do_not_depend_on_where_their_module_was(
    library: Library, natives: NativeLibraries, compile_program: Compile, program: str
) -> None:
    """One engine goes on in place, one writes and parses before each action."""
    lasting, forgetting = (Engine(library, natives, transition_cache_bytes=0) for _ in range(2))
    rng = random.Random(program)
    content = compile_program(program)
    here, there = lasting.load(content), forgetting.load(content)
    lasting.hold(here)
    forgetting.hold(there)
    for _ in range(12):
        edges = calls(forgetting.module(there)).edges
        caller, callee = rng.choice(edges) if edges else (b"main", b"main")
        passes = rng.choice(["", ",sroa,early-cse", ",instcombine<no-verify-fixpoint>,simplifycfg", ",gvn"])
        action = f"{quote(caller)}(inline<{quote(callee)}>{passes})"
        here = lasting.apply(here, action, moving=True)
        forgetting.release()
        there = forgetting.apply(there, action, moving=True)
        assert here.fingerprint == there.fingerprint
    assert lasting.text(here) == forgetting.text(there)
