"""Programs marked for size: as text marked by other means is, and as clang makes them."""

import functools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.programs import PROGRAMS_DIRECTORY, program_flags
from aiocg.transport.elf import function_sizes
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._attributes import MINSIZE, NOTHING, OPTSIZE, Attributes, marked
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._object_code import text_size
from aiocg.workers.llvm._vocabulary import Vocabulary
from aiocg.workers.llvm.baselines import MARKED_LEVELS, Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.programs.parameters import Parameters
from aiocg.workers.programs.recipe import decode_program

from .subject import Subject

FEW = ("qsort", "regex", "polygon")
UNROLLED = ("aes", "chacha20", "connect4", "dct", "matrix")  # by clang -Oz or -Os, where -O1 has forbidden it
ALL = [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()]
MARKED = {"OzMinsize": MINSIZE, "OsOptsize": OPTSIZE}

levels = pytest.mark.parametrize("level", MARKED)
programs = pytest.mark.parametrize(
    "program", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in FEW)]
)

KINDS = """
declare void @outside() #3

define void @plain() {
  call void @outside()
  ret void
}
define void @small() #0 {
  ret void
}
define void @kept() #1 {
  ret void
}
define void @smallest() #2 {
  ret void
}
attributes #0 = { optsize nounwind }
attributes #1 = { noinline optnone }
attributes #2 = { minsize }
attributes #3 = { nounwind }
"""

POINTERS = b"""
define void @f() {
  ret void
}
define void @g() "frame-pointer"="non-leaf" {
  ret void
}
"""


@functools.cache
def bitcode(program: str) -> bytes:
    return default_datasets()["programs-v0"][program].content


def mark_text(ir: str, attributes: Attributes) -> str:
    """Mark the functions of textual IR, each of which refers to a group of attributes."""
    definitions = len(re.findall(r"^define ", ir, re.MULTILINE))
    ir, count = re.subn(r"^(define .*\)[a-z_ ]*) #", rf"\1 {' '.join(attributes)} #", ir, flags=re.MULTILINE)
    assert count == definitions
    return ir


def functions(ir: str) -> dict[str, set[str]]:
    """Return the attributes of the functions of textual IR."""
    groups = {number: set(words.split()) for number, words in re.findall(r"^attributes #(\d+) = \{(.*)\}", ir, re.M)}
    return {
        name: groups.get(group, set()) & {"minsize", "optsize", "optnone", "noinline", "nounwind"}
        for name, group in re.findall(r"^(?:define|declare) .*@(\w+)\(\)(?: #(\d+))?", ir, re.MULTILINE)
    }


def observe(benchmark: Benchmark, level: str, *names: str) -> list[int]:
    subject = Subject(benchmark, benchmark.at(level), Parameters())
    return [OBSERVATIONS[name].compute(subject) for name in names]


@pytest.mark.parametrize("attributes", [MINSIZE, OPTSIZE])
def test_functions_with_a_body_are_marked_but_for_those_with_optnone(library: Library, attributes: Attributes) -> None:
    with Module.parse(library, marked(library, KINDS.encode(), attributes)) as module:
        assert module.verify() is None
        found = functions(module.to_text())
    added = set(attributes)
    assert found == {
        "outside": {"nounwind"},
        "plain": added,
        "small": {"optsize", "nounwind"} | added,
        "kept": {"noinline", "optnone"},
        "smallest": {"minsize"} | added,
    }


def test_functions_to_be_debugged_are_not_marked(library: Library) -> None:
    content = marked(library, b"define void @f() optdebug {\n  ret void\n}\n", MINSIZE)
    with Module.parse(library, content) as module:
        assert module.verify() is None
        assert "size" not in module.to_text()


@pytest.mark.parametrize("major", [14, 19])
def test_other_libraries_mark_functions_too(system_library: Callable[[int], Library], major: int) -> None:
    library = system_library(major)
    with Module.parse(library, marked(library, KINDS.encode(), MINSIZE)) as module:
        assert module.verify() is None
        assert functions(module.to_text())["plain"] == set(MINSIZE)


@pytest.mark.few(1)
@pytest.mark.parametrize("major", [14, 19])
def test_other_libraries_have_marked_levels(
    system_library: Callable[[int], Library], compile_with: Callable[..., bytes], major: int, tmp_path: Path
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    engine = Engine(library, NativeLibraries(library, clang, tmp_path))
    initial = engine.load(compile_with(clang, "calculator.c"))
    expected = engine.apply(engine.load(mark_text(engine.text(initial), MINSIZE).encode()), "default<Oz>")
    assert Benchmark(engine, initial).at("OzMinsize").instructions == expected.instructions


def test_nothing_to_mark_with_is_the_program_as_it_is(library: Library) -> None:
    content = bitcode("gcd")
    with Module.parse(library, content) as module:
        assert marked(library, content, NOTHING) == module.write_bitcode()


@pytest.mark.few(1)
@pytest.mark.sampled
@programs
@levels
def test_marked_level_is_the_pipeline_on_text_that_was_marked(engine: Engine, program: str, level: str) -> None:
    initial = engine.load(bitcode(program))
    marked_text = mark_text(engine.text(initial), MARKED[level])
    expected = engine.apply(engine.load(marked_text.encode()), MARKED_LEVELS[level][1])
    text = engine.text(Benchmark(engine, initial).at(level)).replace('"aiocg-size-mark"="all" ', "")
    assert engine.load(text.encode()).fingerprint == expected.fingerprint


@pytest.mark.few(1)
@pytest.mark.sampled
@programs
@levels
def test_sizes_are_those_of_objects_generated_from_marked_text(engine: Engine, program: str, level: str) -> None:
    attributes, mark = MARKED[level], level[2:]
    benchmark = Benchmark(engine, engine.load(bitcode(program)))
    names = (f"ObjectTextSize{mark}Bytes", f"ObjectTextSizeO0{mark}", f"ObjectTextSize{level}")
    generated = [
        text_size(engine.code.generate(mark_text(engine.text(state), attributes).encode()))
        for state in (benchmark.at("O3"), benchmark.initial)
    ]
    assert observe(benchmark, "O3", *names) == [*generated, engine.code.text_size(benchmark.at(level))]
    assert engine.text(benchmark.at("O3")).count("minsize") == 0  # the program at hand is not marked


@pytest.mark.few(1)
@pytest.mark.sampled
@programs
@levels
def test_marked_level_is_what_clang_makes_of_the_source(
    engine: Engine, clang: str, program: str, level: str, tmp_path: Path
) -> None:
    """But for loops that -O1 forbids to unroll."""
    source = next(PROGRAMS_DIRECTORY.glob(f"{program}.c*"))
    flags = [*program_flags("c++" if source.suffix == ".cc" else "c"), f"-{level[:2]}", "-g0"]
    ir, code = tmp_path / "theirs.ll", tmp_path / "theirs.o"
    subprocess.run([clang, *flags, "-S", "-emit-llvm", source.name, "-o", ir], check=True, cwd=source.parent)
    subprocess.run([clang, *flags, "-c", source.name, "-o", code], check=True, cwd=source.parent)
    theirs = ir.read_bytes()
    benchmark = Benchmark(engine, engine.load(bitcode(program)))
    state = benchmark.at(level)
    size = engine.code.text_size(state, MARKED[level])
    assert size == pytest.approx(text_size(code.read_bytes()), rel=0.035)
    if program in UNROLLED:
        assert state.instructions == pytest.approx(engine.load(theirs).instructions, rel=0.025)
        return
    assert state.instructions == engine.load(theirs).instructions
    assert size == text_size(engine.code.generate(theirs))


def test_size_is_that_of_the_object_which_clang_makes_of_marked_bitcode(
    engine: Engine, clang: str, tmp_path: Path
) -> None:
    state = Benchmark(engine, engine.load(bitcode("regex"))).at("O3")
    source, target = tmp_path / "marked.bc", tmp_path / "marked.o"
    source.write_bytes(engine.bitcode(engine.apply(state, "mark<minsize>")))
    command = [clang, "-O2", "-Xclang", "-disable-llvm-passes", "-c", source, "-o", target]
    subprocess.run(command, check=True)
    assert engine.code.text_size(state, MINSIZE) == text_size(target.read_bytes()) != engine.code.text_size(state)


def test_linked_programs_have_marks_too(engine: Engine) -> None:
    program = default_datasets()["programs-v0"].benchmark("gcd")
    benchmark = Benchmark(engine, engine.load(program.content), decode_program(program.recipe))
    sizes = observe(benchmark, "Oz", "TextSizeBytes", "TextSizeOz", "TextSizeMinsizeBytes", "TextSizeOzMinsize")
    if engine.library.has_size_levels:
        assert sizes[0] == sizes[1] > sizes[2] and sizes[1] > sizes[3]
    else:
        assert sizes == [sizes[0]] * 4  # the level has marked the functions
    assert observe(benchmark, "OzMinsize", "TextSizeBytes", "TextSizeMinsizeBytes") == [sizes[3]] * 2
    engine.builder.release()


def test_one_function_has_marks_of_its_own_whatever_all_are_marked_with(engine: Engine) -> None:
    before = engine.load(KINDS.encode())
    for texts in (["mark<minsize>", "@small(mark<optsize>)"], ["@small(mark<optsize>)", "mark<minsize>"]):
        state = before
        for text in texts:
            state = engine.apply(state, text)
        found = functions(engine.text(state))
        assert (found["plain"], found["small"]) == (set(MINSIZE), {"optsize", "nounwind"})
    assert engine.apply(before, "@kept(mark<optsize>)") is before  # the verifier would refuse it


@pytest.mark.parametrize(("level", "observed"), [("O3", "O3"), ("O2", ""), ("Os", "OsOptsize")])
def test_levels_of_clang_keep_their_marks_where_a_measure_marks_functions(
    engine: Engine, level: str, observed: str
) -> None:
    benchmark = Benchmark(engine, engine.load(bitcode("stencil")))
    mark = "mark<optsize>" if level == "Os" else "mark<speed>"
    state = engine.apply(engine.apply(benchmark.initial, mark), f"default<{level}>")
    sizes = {engine.code.image_size(state, attributes)[0] for attributes in (NOTHING, OPTSIZE, MINSIZE)}
    assert len(sizes) == 1 and engine.apply(state, "mark<minsize>") is state
    assert not observed or sizes == {*observe(benchmark, "O0", f"ObjectImageSize{observed}")}


def test_marks_of_a_program_give_way_to_those_of_an_action(engine: Engine) -> None:
    state = engine.apply(engine.load(KINDS.encode()), "mark<minsize>")
    for text, expected in (("mark<optsize>", {"optsize"}), ("mark<speed>", set()), ("mark<optsize>", {"optsize"})):
        state = engine.apply(state, text)
        assert functions(engine.text(state))["plain"] == expected
    alone = engine.apply(engine.apply(state, "@plain(mark<minsize>)"), "mark<speed>")
    found = functions(engine.text(alone))
    assert (found["plain"], found["small"]) == (set(MINSIZE), {"nounwind"})


@pytest.mark.parametrize("decision", ["hot", "cold", "noinline"])
def test_what_is_decided_of_a_function_says_nothing_of_its_size(engine: Engine, decision: str) -> None:
    state = engine.load(KINDS.encode())
    for text in (f"@small(mark<{decision}>)", "mark<minsize>", "@small(mark<none>)"):
        state = engine.apply(state, text)
    assert functions(engine.text(state))["small"] == {*MINSIZE, "nounwind"}


def test_a_frame_pointer_that_the_program_has_by_itself_is_never_taken_away(engine: Engine) -> None:
    def pointers(*actions: str) -> list[str]:
        state = engine.load(POINTERS)
        for action in actions:
            state = engine.apply(state, action)
        return re.findall(r'"frame-pointer"="([\w-]+)"', engine.text(state))

    assert pointers() == pointers("@f(mark<optsize;frame-pointer>)", "@f(mark<minsize>)") == ["non-leaf"]
    assert pointers("mark<minsize;frame-pointer>", "@f(mark<optsize>)", "mark<minsize;frame-pointer>") == ["non-leaf"]
    assert pointers("mark<optsize;frame-pointer>") == ["all", "non-leaf"]
    assert pointers("@g(mark<optsize;frame-pointer>)", "@g(mark<optsize>)") == ["non-leaf"]


@pytest.mark.parametrize(
    ("text", "constraints", "framed"),
    [
        ("nop", "~{rcx},~{r11}", True),
        ("nop", "~{rbp},~{memory}", False),
        ("movl $$5, %ebp", "~{memory}", False),
        ("nop", "={ebp}", False),
        ("xchg\\09%RBP, %rax", "~{memory}", False),
        ("movb $$1, %bpl", "~{memory}", False),
        ("pause\\0Aleave", "~{memory}", False),
    ],
)
def test_no_frame_pointer_is_where_inline_assembly_names_its_register(
    engine: Engine, text: str, constraints: str, framed: bool
) -> None:
    result = "i32" if constraints.startswith("=") else "void"
    program = f"""
target triple = "x86_64-unknown-linux-gnu"
define void @clobbers() {{
  call {result} asm sideeffect "{text}", "{constraints}"()
  ret void
}}
define void @inlines_it() {{
  call void @clobbers()
  ret void
}}
"""
    for action in ("mark<minsize;frame-pointer>", "@inlines_it(mark<optsize;frame-pointer>)"):
        state = engine.apply(engine.load(program.encode()), action)
        assert ('"frame-pointer"="all"' in engine.text(state)) == framed
        assert "optsize" in engine.text(state)


@pytest.mark.parametrize(
    ("triple", "body", "framed"),
    [
        ("amd64-unknown-linux", 'call void asm sideeffect "pause", ""()', True),
        ("amd64-unknown-linux", 'call void asm sideeffect "push %ebp", ""()', False),
        ("aarch64-unknown-linux-gnu", 'call void asm sideeffect "nop", ""()', False),
        ("x86_64-unknown-linux-gnu", "call ghccc void @other()", False),
        ("x86_64-unknown-linux-gnu", "call void @other()", True),
    ],
)
def test_no_frame_pointer_is_where_its_register_may_be_used_otherwise(
    engine: Engine, triple: str, body: str, framed: bool
) -> None:
    program = f'target triple = "{triple}"\ndeclare void @other()\ndefine void @f() {{\n  {body}\n  ret void\n}}\n'
    state = engine.apply(engine.load(program.encode()), "mark<minsize;frame-pointer>")
    assert ('"frame-pointer"="all"' in engine.text(state)) == framed


def test_a_mark_is_for_the_end_of_the_passes_of_a_function(engine: Engine) -> None:
    vocabulary = Vocabulary(engine.library)
    accepted = ["@f(mark<optsize>)", "@f(inline<@g>,mark<optsize;frame-pointer>)@g(inline<@f>)"]
    accepted += ["@f(adce,mark<minsize>)"] if engine.library.has("LLVMRunPassesOnFunction") else []
    for text in accepted:
        assert vocabulary.resolve(text) == text
    for text in (
        "@f(,mark<optsize>)",
        "@f(mark<minsize>,adce,mark<optsize>)",
        "@f(adce,inline<@g>)@g(adce)",
        "@f(mark<optsize>,adce)",
        "@f(mark<fast>)",
        "@f(adcemark<optsize>)",
    ):
        with pytest.raises(CompilationError, match="is not an action"):
            vocabulary.resolve(text)


def test_sizes_of_functions_go_by_their_own_marks(engine: Engine) -> None:
    state = engine.apply(engine.load(bitcode("stencil")), "default<O2>")
    names = engine.module(state).defined_functions()
    known = engine.function_sizes.of(state, engine.module(state), MINSIZE)
    marked_for = {
        mark: engine.apply(state, "".join(f"@{name.decode()}({mark})" for name in names))
        for mark in ("mark<optsize>", "mark<minsize>")
    }
    found = {mark: engine.function_sizes.of(one, engine.module(one), MINSIZE) for mark, one in marked_for.items()}
    assert found["mark<minsize>"] == known != found["mark<optsize>"]
    assert found["mark<optsize>"] == engine.function_sizes.of(state, engine.module(state), OPTSIZE)


def test_code_is_generated_for_functions_whose_own_mark_changed_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = engine.apply(engine.load(bitcode("regex")), "mem2reg")
    names = engine.module(state).defined_functions()
    generated, generate = [], engine.code.generate

    def counted(*arguments: Any) -> bytes:
        content = generate(*arguments)
        generated.append({name for name, size in function_sizes(content).items() if size})
        return content

    monkeypatch.setattr(engine.code, "generate", counted)
    engine.function_sizes.of(state, engine.module(state), MINSIZE)
    for name in names:
        one = engine.apply(state, f"@{name.decode()}(mark<optsize;frame-pointer>)")
        engine.function_sizes.of(one, engine.module(one), MINSIZE)
    assert generated == [set(names), *({name} for name in names)]
