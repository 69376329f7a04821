"""Applying passes to states: purity, exact knowledge of what had no effect, errors, memory."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import _passes as passes
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import State

Compile = Callable[..., bytes]


def pipelines(library: Library) -> list[str]:
    return [one.pipeline for one in passes.available(library)]


def printed(engine: Engine, state: State) -> str:
    """The IR of a state, read by nothing but a parse; without what depends on the order of use-lists."""
    with Module.parse(engine.library, engine.bitcode(state), names=False) as module:
        return re.sub(r"(?m) +; preds = .*$", "", module.to_text())


def test_pass_that_changes_the_program_gives_another_state(engine: Engine, simple: bytes) -> None:
    before = engine.load(simple)
    after = engine.apply(before, "dce")
    assert after is not before
    assert before.instructions == 7
    assert after.instructions == 6


def test_pass_leaves_the_state_it_was_applied_to_unchanged(engine: Engine, simple: bytes) -> None:
    before = engine.load(simple)
    content, digest, text = engine.bitcode(before), before.hash, engine.text(before)
    engine.apply(before, "simplifycfg")
    assert (engine.bitcode(before), before.hash, engine.text(before)) == (content, digest, text)


def test_pass_without_effect_gives_the_same_state_and_is_not_run_again(engine: Engine, simple: bytes) -> None:
    state = engine.apply(engine.load(simple), "dce")
    assert engine.apply(state, "dce") is state
    runs = engine.runs
    assert engine.apply(state, "dce") is state
    assert engine.runs == runs


def test_known_transition_is_not_run_again(engine: Engine, simple: bytes) -> None:
    state = engine.load(simple)
    after = engine.apply(state, "dce")
    runs = engine.runs
    assert engine.apply(state, "dce") is after
    assert engine.runs == runs


def test_paths_to_the_same_program_meet_in_one_state(engine: Engine, compile_program: Compile) -> None:
    state = engine.load(compile_program("sorting.c"))
    left = engine.apply(engine.apply(state, "mem2reg"), "dce")
    right = engine.apply(engine.apply(state, "dce"), "mem2reg")
    assert left is right


def test_effects_are_exact_along_random_paths(engine: Engine, library: Library, compile_program: Compile) -> None:
    """Against a judge that always compares the printed IR."""
    chance = random.Random(7)
    choices = pipelines(library)
    effects = []
    for name in ("sorting.c", "calculator.c", "shapes.cc"):
        state = engine.load(compile_program(name))
        text = printed(engine, state)
        for _ in range(80):
            try:
                after = engine.apply(state, chance.choice(choices))
            except CompilationError as error:
                assert error.code == FailureCode.ACTION  # noqa: PT017 - most paths have none
                continue
            text_after = printed(engine, after)
            assert (after is not state) == (text_after != text)
            effects.append(after is not state)
            state, text = after, text_after
    assert 20 < sum(effects) < len(effects) - 20


def test_state_does_not_depend_on_how_it_was_reached(
    engine: Engine, library: Library, natives: NativeLibraries, compile_program: Compile
) -> None:
    """Neither what was observed or tried on the way nor a fresh engine make a difference."""
    chance = random.Random(11)
    content = compile_program("calculator.c")
    path = chance.choices(pipelines(library), k=30)
    other = Engine(library, natives, transition_cache_bytes=0)
    straight, wandering = other.load(content), engine.load(content)
    for pipeline in path:
        try:
            straight = other.apply(straight, pipeline)
        except CompilationError:
            continue
        for detour in chance.choices(path, k=2):
            engine.text(wandering)
            try:
                engine.autophase(engine.apply(wandering, detour))
            except CompilationError:
                continue
        wandering = engine.apply(wandering, pipeline)
        assert wandering.fingerprint == straight.fingerprint
        assert engine.text(wandering) == other.text(straight)


@pytest.mark.slow
def test_counts_of_the_module_that_a_pass_left_are_those_of_its_bitcode(
    engine: Engine, library: Library, walker: Walker, compile_program: Compile
) -> None:
    for name in ("matrix.c", "calculator.c"):
        state = engine.load(compile_program(name))
        for pipeline in pipelines(library):
            after = engine.apply(state, pipeline)
            counts = engine.inst_count(after), engine.autophase(after), after.instructions
            with Module.parse(library, engine.bitcode(after)) as module:
                assert counts[0] == walker.inst_count(module.pointer)
                assert counts[1] == walker.autophase(module.pointer)
                assert counts[2] == walker.instruction_count(module.pointer)


def test_text_does_not_depend_on_the_module_that_a_pass_left(
    engine: Engine, library: Library, compile_program: Compile
) -> None:
    state = engine.apply(engine.load(compile_program("calculator.c")), "default<O2>")
    with Module.parse(library, engine.bitcode(state)) as module:
        read = re.sub(r"(?m) +; preds = .*$", "", module.to_text())
    assert re.sub(r"(?m) +; preds = .*$", "", engine.text(state)) == read


def test_refused_pipeline_is_an_action_error_and_the_engine_goes_on(engine: Engine, simple: bytes) -> None:
    state = engine.load(simple)
    with pytest.raises(CompilationError, match="no-such-pass") as caught:
        engine.apply(state, "no-such-pass")
    assert caught.value.code == FailureCode.ACTION
    assert caught.value.fields == {"pipeline": "no-such-pass"}
    assert engine.apply(state, "dce") is not state


def test_program_that_a_pass_breaks_is_an_action_error_with_the_verifiers_words(
    library_14: Library, clang: str, cache_dir: Path
) -> None:
    """`constraint-elimination` of LLVM 14 puts a scalar where a vector was."""
    engine = Engine(library_14, NativeLibraries(library_14, clang, cache_dir), verifies=True)
    state = engine.load(
        b"define <1 x i1> @f(<1 x i32> %x, i1 %c) {\n  br i1 %c, label %a, label %b\n"
        b"a:\n  %t = icmp ule <1 x i32> %x, %x\n  ret <1 x i1> %t\nb:\n  ret <1 x i1> zeroinitializer\n}\n"
    )
    text = engine.text(state)
    for _ in range(2):
        with pytest.raises(CompilationError, match="Function return type does not match operand type") as caught:
            engine.apply(state, "constraint-elimination")
        assert caught.value.code == FailureCode.ACTION
    assert engine.text(state) == text
    assert engine.apply(state, "simplifycfg") is not state
    unverified = Engine(library_14, engine.natives)
    assert unverified.apply(unverified.load(engine.bitcode(state)), "constraint-elimination")


def test_invalid_program_is_not_loaded(engine: Engine) -> None:
    with pytest.raises(LlvmError, match="does not dominate"):
        engine.load(b"define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret i32 %x\n}\n")


def test_text_without_data_layout_gets_that_of_its_target_where_opt_gives_it(engine: Engine) -> None:
    state = engine.load(b'target triple = "x86_64-unknown-linux-gnu"\ndefine i32 @f() {\n  ret i32 0\n}\n')
    expected = engine.library.version[0] >= 18
    assert ("target datalayout" in engine.text(state)) == expected


def test_bitcode_without_data_layout_gets_that_of_its_target_where_opt_gives_it(engine: Engine) -> None:
    text = b'target triple = "x86_64-unknown-linux-gnu"\ndefine i32 @f() {\n  ret i32 0\n}\n'
    with Module.parse(engine.library, text) as module:
        state = engine.load(module.write_bitcode())
    assert ("target datalayout" in engine.text(state)) == (engine.library.version[0] >= 18)


@pytest.mark.slow
def test_ten_thousand_steps_leak_no_memory(library: Library, natives: NativeLibraries, simple: bytes) -> None:
    engine = Engine(library, natives, transition_cache_bytes=0)
    process = psutil.Process()

    def steps(count: int) -> int:
        state = engine.load(simple)
        for number in range(count):
            pipeline = ("dce", "reg2mem", "mem2reg", "simplifycfg")[number % 4]
            engine.apply(state, pipeline)
            state.inert.clear()
        return int(process.memory_info().rss)

    first, runs = steps(2000), engine.runs
    last = steps(10_000)
    assert engine.runs - runs == 10_000
    assert last - first < 2 << 20
