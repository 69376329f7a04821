"""Options of LLVM's code generator that a program carries."""

import subprocess
from pathlib import Path

import pytest

from aiocg.transport.codegen_options import CHOICES, clang_words, read
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._attributes import MINSIZE
from aiocg.workers.llvm._codegen_options import CodegenOptions, options_of
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._object_code import text_size
from aiocg.workers.llvm._vocabulary import Vocabulary
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import State

from .conftest import Compile

LEVEL = ("mark<minsize>", "clang<Oz>")


def after(engine: Engine, content: bytes, *actions: str) -> State:
    state = engine.load(content)
    for action in actions:
        state = engine.apply(engine.hold(state), action)
    return engine.hold(state)


@pytest.mark.parametrize("program", ["calculator.c", "sorting.c"])
def test_code_is_as_clang_generates_it_with_these_options(
    engine: Engine, compile_program: Compile, clang: str, tmp_path: Path, program: str
) -> None:
    state = after(engine, compile_program(program), *LEVEL, "codegen<size;disable-lsr=false>")
    bitcode, ours = engine.bitcode(state), engine.code.object_file(state)
    (tmp_path / "program.bc").write_bytes(bitcode)
    command = [clang, "-O2", "-Xclang", "-disable-llvm-passes", "-w", *clang_words(bitcode), "-c", "program.bc"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert text_size((tmp_path / "program.o").read_bytes()) == text_size(ours)
    assert "-disable-lsr=false" in clang_words(bitcode)


def test_the_options_end_with_the_program_that_carries_them(engine: Engine, compile_program: Compile) -> None:
    content = compile_program("calculator.c")
    plain = after(engine, content, *LEVEL)
    before = engine.code.image_size(plain), engine.code.assembly(plain)
    chosen = after(engine, content, *LEVEL, "codegen<size>")
    assert engine.code.image_size(chosen).stored < before[0].stored
    engine.code.forget()
    plain.memo.clear()
    assert (engine.code.image_size(plain), engine.code.assembly(plain)) == before


def test_what_was_chosen_last_is_all_that_counts(engine: Engine, compile_program: Compile) -> None:
    content, last = compile_program("calculator.c"), "codegen<tail-merge-size=2;disable-lsr=true>"
    direct = after(engine, content, last)
    assert after(engine, content, "codegen<size>", last) is direct
    assert engine.apply(direct, last) is direct and direct is not engine.load(content)
    with Module.parse(engine.library, engine.bitcode(direct)) as module:
        assert options_of(module) == ["disable-lsr=true", "tail-merge-size=2"] == read(engine.bitcode(direct))
    with Module.parse(engine.library, engine.bitcode(engine.load(content))) as module:
        assert options_of(module) == [] == read(engine.bitcode(engine.load(content)))


def test_passes_keep_the_options(engine: Engine, compile_program: Compile) -> None:
    state = after(engine, compile_program("calculator.c"), "codegen<disable-lsr=true>", *LEVEL, "globaldce", "strip")
    assert read(engine.bitcode(state)) == ["disable-lsr=true"]


def test_sizes_of_functions_are_with_the_options(engine: Engine, compile_program: Compile) -> None:
    plain = after(engine, compile_program("calculator.c"), *LEVEL)
    chosen = engine.hold(engine.apply(plain, "codegen<size>"))
    first, second = (sum(engine.function_sizes.of(one, engine.module(one), MINSIZE)) for one in (plain, chosen))
    whole = engine.code.image_size(plain, MINSIZE).stored - engine.code.image_size(chosen, MINSIZE).stored
    assert first - second > 0 and abs(first - second - whole) <= 16 * len(engine.module(plain).defined_functions())


def test_an_option_counts_once() -> None:
    assert read(b"aiocg-codegen<disable-lsr=true;disable-lsr=false>") == ["disable-lsr=false"]


def test_a_program_may_not_bring_other_options(library: Library) -> None:
    text = b'!aiocg.codegen = !{!0}\n!0 = !{!"aiocg-codegen<load=evil;disable-lsr=true;pre-RA-sched=fast>"}\n'
    with Module.parse(library, text) as module:
        assert options_of(module) == ["disable-lsr=true"]
    for strange in (
        b"!aiocg.codegen = !{}",
        b"!aiocg.codegen = !{!0, !0}\n!0 = !{}",
        b"!aiocg.codegen = !{!0}\n!0 = !{i32 1}",
    ):
        with Module.parse(library, strange) as module:
            assert options_of(module) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("codegen<>", "'' is neither 'size' nor one of"),
        ("codegen<size", "does not end with '>'"),
        ("codegen<nothing=1>", "'nothing=1' is neither"),
        ("codegen<disable-lsr=2>", "disable-lsr is false or true, not '2'"),
        ("codegen<disable-lsr>", "disable-lsr is false or true, not ''"),
        ("codegen<size>,gvn", "does not end with '>', as an action of its own does"),
        ("gvn,codegen<size>", "codegen<...> is an action of its own"),
        ("function(codegen<size>)", "codegen<...> is an action of its own"),
        ("@main(codegen<size>)", "codegen<...> is an action of its own"),
        ("@main(gvn,codegen<size>)", "codegen<...> is an action of its own"),
        ("@main(codegen<size>)@f(gvn)", "codegen<...> is an action of its own"),
        ("{inliner-threshold=5}codegen<size>", "codegen<...> is an action of its own"),
        ("codegen", "codegen<...> is an action of its own"),
    ],
)
def test_what_is_no_choice_is_refused(library: Library, text: str, reason: str) -> None:
    with pytest.raises(CompilationError, match="is not an action") as caught:
        Vocabulary(library).resolve(text)
    assert reason in str(caught.value)


def test_a_release_leaves_out_what_it_lacks(any_library: Library, any_natives: NativeLibraries) -> None:
    options = CodegenOptions(any_library)
    chosen = options.resolve("codegen<size>")
    assert 5 <= len(chosen) <= len(CHOICES)
    if any_library.version[0] < 20:
        with pytest.raises(ValueError, match="has no option apply-ext-tsp-for-size"):
            options.resolve("codegen<apply-ext-tsp-for-size=true>")


def test_a_release_since_20_has_all_options(library: Library) -> None:
    if library.version[0] < 20:
        pytest.skip("blocks are not put in order by ext-tsp for size")
    options = CodegenOptions(library)
    assert all(options.resolve(f"codegen<{name}={value}>") for name, values in CHOICES.items() for value in values)
