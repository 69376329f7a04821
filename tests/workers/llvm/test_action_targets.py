"""Functions and loops as targets: found as LLVM finds them, and changed without touching anything else."""

import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.transport.arrays import Array
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.session import LlvmSession

Compile = Callable[..., bytes]

PRINT_LOOPS = """
import sys
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module
with Module.parse(Library(sys.argv[1]), sys.stdin.buffer.read()) as module:
    module.run_passes("function(print<loops>)", None)
"""

# Three loops of f and one of g, each with a volatile store of a number of its own.
NESTED = b"""
define void @f(ptr %p, i32 %n) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i.next, %latch ]
  store volatile i32 100, ptr %p
  br label %inner
inner:
  %j = phi i32 [ 0, %outer ], [ %j.next, %inner ]
  store volatile i32 101, ptr %p
  %j.next = add nuw nsw i32 %j, 1
  %j.more = icmp ult i32 %j.next, 12
  br i1 %j.more, label %inner, label %latch, !llvm.loop !0
latch:
  %i.next = add nuw nsw i32 %i, 1
  %i.more = icmp ult i32 %i.next, 24
  br i1 %i.more, label %outer, label %middle, !llvm.loop !2
middle:
  br label %last
last:
  %k = phi i32 [ 0, %middle ], [ %k.next, %last ]
  store volatile i32 102, ptr %p
  %k.next = add nuw i32 %k, 1
  %k.more = icmp ult i32 %k.next, %n
  br i1 %k.more, label %last, label %done
done:
  ret void
}

define void @g(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  store volatile i32 200, ptr %p
  %i.next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %i.next, 8
  br i1 %more, label %loop, label %done, !llvm.loop !4
done:
  ret void
}

!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.mustprogress"}
!2 = distinct !{!2, !1, !3}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = distinct !{!4, !5}
!5 = !{!"llvm.loop.unroll.count", i32 4}
"""
VALUES = {"@f:0": 100, "@f:1": 101, "@f:2": 102, "@g:0": 200}

# The latch of the inner loop is the latch of the outer one too.
SHARED_LATCH = b"""
define void @f(ptr %p) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i.next, %inner ]
  %i.next = add nuw nsw i32 %i, 1
  store volatile i32 100, ptr %p
  %i.more = icmp ult i32 %i, 24
  br i1 %i.more, label %inner, label %done
inner:
  %j = phi i32 [ 0, %outer ], [ %j.next, %inner ]
  store volatile i32 101, ptr %p
  %j.next = add nuw nsw i32 %j, 1
  %j.more = icmp ult i32 %j.next, 12
  br i1 %j.more, label %inner, label %outer, !llvm.loop !0
done:
  ret void
}
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.mustprogress"}
"""


@pytest.fixture
def loops(natives: NativeLibraries) -> Loops:
    return Loops(natives.load("loops"))


@pytest.fixture(scope="module", autouse=True)
def _started(cache_dir: Path) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir)})


@pytest.fixture
def targeted() -> None:
    if not LlvmSession.engine.library.has("LLVMRunPassesOnFunction"):
        pytest.skip("this LLVM cannot run passes on one function")


def opened(content: bytes) -> LlvmSession:
    return LlvmSession(LlvmSession.load_benchmark(content))


def copies(session: LlvmSession) -> dict[str, int]:
    """Count the stores of each loop of `NESTED`."""
    text = session.get_observation("Ir")
    return {loop: len(re.findall(rf"store volatile i32 {value},", text)) for loop, value in VALUES.items()}


def hints(text: str) -> list[str]:
    """Return the operands of the loop nodes that branches name, without numbers of nodes."""
    nodes = dict(re.findall(r"^(!\d+) = (?:distinct )?!\{(.*)\}$", text, re.MULTILINE))
    used = re.findall(r"!llvm\.loop (!\d+)", text)
    return sorted({" ".join(nodes[part] for part in nodes[node].split(", ")[1:]) for node in used})


# ------------------------------------------------------------------------------------------------ references


def printed_loops(library: Library, content: bytes) -> list[tuple[str, str, int, int, int]]:
    """Return function, header, depth, number of blocks and of latches as LLVM's own printer tells them."""
    command = [sys.executable, "-P", "-c", PRINT_LOOPS, str(library.path)]
    text = subprocess.run(command, input=content, capture_output=True, check=True).stderr.decode()
    found, function = [], ""
    for line in text.splitlines():
        if named := re.match(r"Loop info for function '(.*)':", line):
            function = named[1]
        elif loop := re.match(r"\s*(?:Parallel )?Loop at depth (\d+) containing: (.*)", line):
            blocks = loop[2].split(",")
            (header,) = [block.partition("<")[0] for block in blocks if "<header>" in block]
            found.append((function, header, int(loop[1]), len(blocks), sum("<latch>" in block for block in blocks)))
    return found


def layout(text: str) -> dict[str, list[str]]:
    """Return the names of the blocks of each function, in the order of the text."""
    bodies = re.findall(r"^define [^\n]*@([\w.]+)\([^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {name: [f"%{block}" for block in re.findall(r"^([\w.]+):", body, re.MULTILINE)] for name, body in bodies}


def assert_loops_are_llvms(library: Library, loops: Loops, content: bytes) -> int:
    with Module.parse(library, content) as module:
        module.run_passes("function(instnamer)", None)
        text, found = module.to_text(), loops.find(module)
    blocks = layout(text)
    names = list(blocks)
    ours = [
        (names[one.function], blocks[names[one.function]][one.header], one.depth, one.blocks, one.latches)
        for one in found
    ]
    printed = printed_loops(library, text.encode())
    if library.version[0] < 15:  # which says nothing of functions
        ours = [("", *one[1:]) for one in ours]
    assert sorted(ours) == sorted(printed)
    assert [(one.function, one.header) for one in found] == sorted((one.function, one.header) for one in found)
    return len(found)


def random_function(chance: random.Random, name: str) -> str:
    """Write a function with any control flow: irreducible, with blocks that are not reached, edges twice."""
    count = chance.randrange(2, 14)
    lines = [f"define void @{name}(i32 %x) {{", "entry:", f"  br label %{name}.0"]
    for number in range(count):
        lines.append(f"{name}.{number}:")
        targets = [f"label %{name}.{chance.randrange(count)}" for _ in range(chance.choice([0, 1, 1, 2, 2, 3]))]
        if not targets:
            lines.append("  ret void")
        elif len(targets) == 1:
            lines.append(f"  br {targets[0]}")
        else:
            cases = " ".join(f"i32 {value}, {target}" for value, target in enumerate(targets[1:]))
            lines.append(f"  switch i32 %x, {targets[0]} [ {cases} ]")
    return "\n".join([*lines, "}", ""])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["sorting.c", "matrix.c", "calculator.c", "shapes.cc"])
@pytest.mark.parametrize("pipeline", ["", "function(sroa,simplifycfg,loop-rotate)", "default<O3>"])
def test_loops_of_programs_are_those_that_llvm_prints(
    library: Library, engine: Engine, loops: Loops, compile_program: Compile, name: str, pipeline: str
) -> None:
    state = engine.apply(engine.load(compile_program(name)), pipeline)
    assert_loops_are_llvms(library, loops, engine.bitcode(state))


def test_loops_of_random_functions_are_those_that_llvm_prints(library: Library, loops: Loops) -> None:
    chance = random.Random(5)
    text = "\n".join(random_function(chance, f"f{number}") for number in range(600))
    assert assert_loops_are_llvms(library, loops, text.encode()) > 600


@pytest.mark.few(1)
@pytest.mark.parametrize("major", [14, 19])
def test_loops_are_found_with_old_releases_too(
    system_library: Callable[[int], Library], clang: str, cache_dir: Path, major: int
) -> None:
    library = system_library(major)
    chance = random.Random(6)
    text = "\n".join(random_function(chance, f"f{number}") for number in range(100))
    assert_loops_are_llvms(library, Loops(NativeLibraries(library, clang, cache_dir).load("loops")), text.encode())


def test_loop_of_ten_thousand_blocks_is_found(library: Library, loops: Loops) -> None:
    """Deeper than any stack of a recursive walk."""
    blocks = "\n".join(f"b{n}:\n  br label %b{n + 1}" for n in range(10_000))
    text = f"define void @f(i1 %x) {{\nentry:\n  br label %b0\n{blocks}\nb10000:\n  br i1 %x, label %b0, label %out\n"
    with Module.parse(library, f"{text}out:\n  ret void\n}}\n".encode()) as module:
        (found,) = loops.find(module)
    assert (found.header, found.depth, found.blocks, found.instructions, found.latches) == (1, 1, 10_001, 10_001, 1)


# -------------------------------------------------------------------------------------------------- targets


def test_functions_are_listed_as_llvm_writes_them() -> None:
    text = b'declare void @no()\ndefine void @"a b"() {\n  ret void\n}\ndefine void @f() {\n  ret void\n}\n'
    session = opened(text + b"define void @0() {\n  ret void\n}\n")
    assert session.get_observation("Functions") == ['@"a b"', "@f"]
    assert session.get_observation("Loops") == []
    assert session.get_observation("LoopFeatures").shape == (0, 6)


def test_loops_are_listed_with_their_features() -> None:
    if LlvmSession.engine.library.version[0] < 15:
        pytest.skip("this LLVM does not read `ptr`")
    session = opened(NESTED)
    assert session.get_observation("Loops") == list(VALUES)
    features = session.get_observation("LoopFeatures")
    rows = [tuple(memoryview(features.data).cast("q")[row * 6 : row * 6 + 6]) for row in range(4)]
    assert rows == [(0, 1, 1, 3, 11, 1), (0, 2, 2, 1, 5, 1), (0, 5, 1, 1, 5, 1), (1, 1, 1, 1, 5, 1)]


@pytest.mark.usefixtures("targeted")
def test_pass_on_one_function_leaves_the_others_as_they_are(compile_program: Compile) -> None:
    session = opened(compile_program("matrix.c"))

    def bodies() -> dict[str, str]:
        text = re.sub(r"[!#]\d+", "", session.get_observation("Ir"))  # numbers of metadata and groups of attributes
        return dict(re.findall(r"^define .*?@(\w+)\((.*?)^\}", text, re.MULTILINE | re.DOTALL))

    before = bodies()
    assert session.apply_action("@norm(sroa)")
    after = bodies()
    assert {name for name in before if before[name] != after[name]} == {"norm"}
    assert not session.apply_action("@norm(sroa)")
    assert session.apply_action("@multiply(function(sroa,loop-mssa(licm)))")


@pytest.mark.usefixtures("targeted")
def test_passes_on_all_functions_one_by_one_are_the_pass_on_the_module(compile_program: Compile) -> None:
    for name in ("sroa", "early-cse", "simplifycfg", "loop-rotate", "gvn"):
        session = opened(compile_program("calculator.c"))
        whole = session.fork()
        whole.apply_action(name)
        for function in session.get_observation("Functions"):
            session.apply_action(f"{function}({name})")
        assert session.get_observation("IrSha1") == whole.get_observation("IrSha1")


@pytest.mark.usefixtures("targeted")
def test_function_with_an_odd_name_is_a_target() -> None:
    odd = '@"a:b@c(d)\\22 e"'
    session = opened(f"define i32 {odd}(i32 %x) {{\n  %y = add i32 %x, 0\n  ret i32 %y\n}}\n".encode())
    (target,) = session.get_observation("Functions")
    assert target == odd
    assert session.apply_action(f"{target}(instsimplify)")


@pytest.mark.usefixtures("targeted")
@pytest.mark.parametrize("target", VALUES)
@pytest.mark.parametrize("factor", [2, 3, 4, 8])
def test_one_loop_is_unrolled_and_no_other(target: str, factor: int) -> None:
    session = opened(NESTED)
    before = session.get_observation("Ir")
    assert session.apply_action(f"{target}(unroll<{factor}>)")
    found = copies(session)
    if target == "@f:0":  # the copies of a loop have copies of the loops inside
        assert found == {"@f:0": factor, "@f:1": factor, "@f:2": 1, "@g:0": 1}
    elif target == "@f:2":  # with a loop for what remains, as its trip count is not known
        assert found == {"@f:0": 1, "@f:1": 1, "@f:2": factor + 1, "@g:0": 1}
    else:
        assert found == dict.fromkeys(VALUES, 1) | {target: factor}
    text = session.get_observation("Ir")
    gone = {"@g:0": "count"}.get(target, "") if factor == 8 else ""  # eight iterations: no loop is left
    assert set(hints(text)) == {hint for hint in hints(before) if not gone or gone not in hint}
    assert "aiocg" not in text


@pytest.mark.usefixtures("targeted")
def test_loop_is_unrolled_fully_where_its_trip_count_is_known() -> None:
    session = opened(NESTED)
    assert session.apply_action("@f:1(unroll<full>)")
    assert copies(session) == {"@f:0": 1, "@f:1": 12, "@f:2": 1, "@g:0": 1}
    assert session.get_observation("Loops") == ["@f:0", "@f:1", "@g:0"]


@pytest.mark.usefixtures("targeted")
def test_loop_that_llvm_does_not_unroll_stays_as_it_is() -> None:
    session = opened(NESTED)
    state = session.state
    assert not session.apply_action("@f:2(unroll<full>)")
    assert session.state is state


@pytest.mark.usefixtures("targeted")
@pytest.mark.parametrize("value", ["null", '!"text"', "i32 77777777"])
def test_hints_that_are_named_as_ours_are_kept_and_mean_nothing(value: str) -> None:
    session = opened(
        f"""
define void @f(i1 %c) {{
entry:
  br label %loop

loop:
  br i1 %c, label %loop, label %end, !llvm.loop !1

end:
  ret void
}}

!llvm.module.flags = !{{!0}}
!0 = !{{i32 2, !"Debug Info Version", i32 3}}
!1 = distinct !{{!1, !2}}
!2 = !{{!"aiocg.loop", {value}}}
""".encode()
    )
    assert session.apply_action("@f:0(unroll<2>)")
    assert f'!{{!"aiocg.loop", {value}}}' in session.get_observation("Ir")


@pytest.mark.usefixtures("targeted")
def test_unrolling_twice_multiplies() -> None:
    session = opened(NESTED)
    for _ in range(2):
        assert session.apply_action("@f:1(unroll<2>)")
    assert copies(session)["@f:1"] == 4


@pytest.mark.usefixtures("targeted")
def test_loops_that_share_a_latch_are_told_apart() -> None:
    inner, outer = opened(SHARED_LATCH), opened(SHARED_LATCH)
    assert inner.get_observation("Loops") == ["@f:0", "@f:1"]
    assert inner.apply_action("@f:1(unroll<2>)")
    assert (copies(inner)["@f:0"], copies(inner)["@f:1"]) == (1, 2)
    assert outer.apply_action("@f:0(unroll<2>)")
    assert (copies(outer)["@f:0"], copies(outer)["@f:1"]) == (2, 2)


@pytest.mark.usefixtures("targeted")
@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("@nothing(gvn)", "has no function @nothing"),
        ("@external(gvn)", "only declares @external"),
        ("@f:3(unroll<2>)", "has no loop 3"),
        ("@external:0(unroll<2>)", "only declares @external"),
    ],
)
def test_target_that_is_not_there_is_an_error_and_changes_nothing(action: str, message: str) -> None:
    session = opened(NESTED + b"declare void @external()\n")
    state = session.state
    session.check_action(action)
    with pytest.raises(CompilationError, match=message) as caught:
        session.apply_action(action)
    assert caught.value.code == FailureCode.ACTION_UNKNOWN
    assert session.state is state


@pytest.mark.usefixtures("targeted")
def test_targeted_actions_are_remembered_by_their_canonical_text(compile_program: Compile) -> None:
    session = opened(compile_program("matrix.c"))
    session.fork().apply_action("@norm(sroa)")
    runs = LlvmSession.statistics()["pipelines_run"]
    session.fork().apply_action('@"norm"(sroa)')
    assert LlvmSession.statistics()["pipelines_run"] == runs


@pytest.mark.slow
@pytest.mark.parametrize("major", [14, 19])
def test_targeted_spaces_are_not_offered_where_the_library_cannot(
    system_library: Callable[[int], Library], clang: str, cache_dir: Path, major: int
) -> None:
    try:
        LlvmSession.start({"library": str(system_library(major).path), "clang": clang, "cache_dir": str(cache_dir)})
        assert {"FunctionPasses", "LoopUnroll"}.isdisjoint(space.name for space in LlvmSession.action_spaces)
        with pytest.raises(CompilationError, match="LLVM 20 and later") as caught:
            LlvmSession.check_action("@main(sroa)")
        assert caught.value.code == FailureCode.ACTION_UNKNOWN
    finally:
        LlvmSession.start({"cache_dir": str(cache_dir)})


@pytest.mark.usefixtures("targeted")
def test_several_functions_with_passes_each_become_what_they_become_one_by_one(compile_program: Compile) -> None:
    program = compile_program("calculator.c")
    one_by_one, at_once = opened(program), opened(program)
    names = at_once.get_observation("Functions")
    chosen = random.Random(0)
    passes = {name: ",".join(chosen.choices(["sroa", "gvn", "licm", "simplifycfg", "dse"], k=4)) for name in names}
    assert at_once.apply_action("".join(f"{name}({pipeline})" for name, pipeline in passes.items()))
    for name, pipeline in passes.items():
        for one in pipeline.split(","):
            one_by_one.apply_action(f"{name}({one})")
    assert at_once.get_observation("IrSha1") == one_by_one.get_observation("IrSha1")
    counts = numbers(at_once.get_observation("FunctionInstructionCounts"))
    assert counts == numbers(one_by_one.get_observation("FunctionInstructionCounts"))
    assert sum(counts) == at_once.get_observation("IrInstructionCount")
    assert len(counts) == len(names)


@pytest.mark.usefixtures("targeted")
def test_several_functions_of_which_one_is_not_there_stay_as_they_are() -> None:
    session = opened(NESTED)
    before = session.state_hash()
    with pytest.raises(CompilationError) as caught:
        session.apply_action("@f(simplifycfg)@nowhere(sroa)@g(sroa)")
    assert (caught.value.code, session.state_hash()) == (FailureCode.ACTION_UNKNOWN, before)
    with pytest.raises(CompilationError, match="globaldce is a module pass"):
        session.check_action("@f(sroa)@g(sroa,globaldce)")


def numbers(array: Array) -> list[int]:
    return list(struct.unpack(f"<{array.shape[0]}q", array.data))
