"""Marks of calls, loops and functions: the passes obey them, they can be taken back, and they change nothing else."""

import random
import re
from collections.abc import Callable, Iterator

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._decisions import CallSites
from aiocg.workers.llvm._inlining import calls
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._vocabulary import Vocabulary
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.parameters import Parameters

from .subject import Subject
from .test_exactness import KINDS, assert_walks_agree, forgetful

Compile = Callable[..., bytes]

# No pointers, so that every LLVM from 14 on reads it. `kept` is what -Oz keeps, `small` what it inlines.
PROGRAM = b"""
declare void @use(i32)
define i32 @main(i32 %n) minsize optsize {
  %a = call i32 @kept(i32 %n)
  %b = call i32 @small(i32 %a)
  %c = call i32 @kept(i32 7)
  %d = add i32 %b, %c
  ret i32 %d
}
define internal i32 @kept(i32 %n) minsize optsize {
  call void @use(i32 %n)
  call void @use(i32 1)
  call void @use(i32 2)
  call void @use(i32 3)
  call void @use(i32 4)
  %a = call i32 @small(i32 %n)
  ret i32 %a
}
define internal i32 @small(i32 %n) minsize optsize {
  %a = mul i32 %n, 7
  ret i32 %a
}
"""
LOOP = b"""
declare void @use(i32)
define void @f(i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void @use(i32 %i)
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %next, 12
  br i1 %more, label %loop, label %done, !llvm.loop !0
done:
  ret void
}
!0 = distinct !{!0, !1, !2}
!1 = !{!"llvm.loop.mustprogress"}
!2 = !{!"llvm.loop.unroll.disable"}
"""
RECURSIVE = b"""
define i32 @main(i32 %n) {
  %a = call i32 @even(i32 %n)
  ret i32 %a
}
define internal i32 @even(i32 %n) {
  %zero = icmp eq i32 %n, 0
  br i1 %zero, label %end, label %more
more:
  %m = sub i32 %n, 1
  %a = call i32 @odd(i32 %m)
  %b = call i32 @even(i32 %a)
  %c = call i32 @odd(i32 %b)
  ret i32 %c
end:
  ret i32 1
}
define internal i32 @odd(i32 %n) {
  %zero = icmp eq i32 %n, 0
  br i1 %zero, label %end, label %more
more:
  %m = sub i32 %n, 1
  %a = call i32 @even(i32 %m)
  ret i32 %a
end:
  ret i32 0
}
"""
BRANCHES = b"""
define i32 @f(i32 %n, i1 %x, i1 %y) {
entry:
  br i1 %x, label %one, label %two
one:
  br i1 %y, label %two, label %end, !prof !0
two:
  switch i32 %n, label %end [ i32 7, label %three ]
three:
  br i1 %y, label %end, label %four
four:
  br label %end
end:
  %r = phi i32 [ 1, %one ], [ 2, %two ], [ 3, %three ], [ 4, %four ]
  ret i32 %r
}
!0 = !{!"branch_weights", i32 2000, i32 1}
"""
INLINED, KEPT = "@main:@small:0", "@main:@kept:1"


@pytest.fixture(scope="module")
def any_engine(any_library: Library, any_natives: NativeLibraries) -> Iterator[Engine]:
    """An engine of each release on this machine."""
    engine = Engine(any_library, any_natives)
    yield engine
    engine.release()


def at(engine: Engine, content: bytes) -> Subject:
    benchmark = Benchmark(engine, engine.load(content))
    return Subject(benchmark, benchmark.initial, Parameters())


def assert_same(engine: Engine, one: State, other: State) -> None:
    """Releases until 17 keep empty lists of attributes, which only bitcode shows."""
    assert engine.text(one) == engine.text(other)
    if engine.surveyor is not None:
        assert one.fingerprint == other.fingerprint
        assert engine.bitcode(one) == engine.bitcode(other)


def sites(engine: Engine, content: bytes) -> list[str]:
    found: list[str] = OBSERVATIONS["CallSites"].compute(at(engine, content))
    return found


def calls_in(text: str, function: str) -> list[str]:
    """Return the functions that a function calls, in order."""
    body = text.split(f"@{function}(")[-1] if f"define i32 @{function}(" in text else ""
    body = next(part for part in text.split("\n}") if re.search(rf"define .*@{function}\(", part)) if body else ""
    return re.findall(r"call .*?@(\w+)\(", body)


def test_calls_are_listed_by_caller_callee_and_number(any_engine: Engine) -> None:
    assert sites(any_engine, PROGRAM) == ["@main:@kept:0", "@main:@small:0", KEPT, "@kept:@small:0"]


def test_the_pipeline_obeys(any_engine: Engine) -> None:
    before = any_engine.load(PROGRAM)

    def after(decisions: str) -> list[str]:
        return calls_in(any_engine.text(any_engine.apply(any_engine.apply(before, decisions), "clang<Oz>")), "main")

    assert after("") == ["kept", "kept"]
    assert after(f"{INLINED}(mark<noinline>)") == ["kept", "small", "kept"]
    kept = "@main:@kept:0(mark<noinline>)"  # else it is inlined as the only call that is left
    assert after(f"{kept}{KEPT}(mark<alwaysinline>)") == ["kept", *["use"] * 5]
    assert after(f"{kept}{KEPT}(mark<alwaysinline>){INLINED}(mark<noinline>)") == ["kept", "small", *["use"] * 5]
    assert after("@small(mark<noinline>)") == ["kept", "small", "kept"]


@pytest.mark.parametrize("mark", ["alwaysinline", "noinline"])
def test_marks_of_calls_are_taken_back(any_engine: Engine, mark: str) -> None:
    before = any_engine.load(PROGRAM)
    marked = any_engine.apply(before, f"{KEPT}(mark<{mark}>)@kept:@small:0(mark<noinline>)")
    assert marked is not before
    assert mark in any_engine.text(marked)
    assert any_engine.apply(marked, f"{KEPT}(mark<{mark}>)") is marked
    one = any_engine.apply(marked, "@kept:@small:0(mark<none>)")
    assert_same(any_engine, any_engine.apply(before, f"{KEPT}(mark<{mark}>)"), one)
    assert_same(any_engine, any_engine.apply(one, f"{KEPT}(mark<none>)"), before)
    assert_same(any_engine, any_engine.apply(marked, "mark<none>"), before)


def test_marks_leave_nothing_in_an_object_but_their_effect(any_engine: Engine) -> None:
    """Where the pipeline does the same without them."""
    plain = any_engine.apply(any_engine.load(PROGRAM), "clang<Oz>")
    chosen = f"@main:@kept:0(mark<noinline>){KEPT}(mark<noinline>)"
    marked = any_engine.apply(any_engine.apply(any_engine.load(PROGRAM), chosen), "clang<Oz>")
    assert marked.fingerprint != plain.fingerprint
    assert any_engine.code.object_file(marked) == any_engine.code.object_file(plain)
    assert_same(any_engine, any_engine.apply(marked, "mark<none>"), plain)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ((b"@small(i32 %n) minsize", b"@small(i32 %n) noinline minsize"), "@small"),
        ((b"@small(i32 %n) minsize optsize", b"@small(i32 %n) noinline optnone"), "@small"),
        ((b"@small(i32 %n) minsize", b"@small(i32 %n) alwaysinline minsize"), "@small"),
        ((b"internal i32 @small", b"weak i32 @small"), "@small"),
        ((b"internal i32 @small", b"linkonce i32 @small"), "@small"),
        ((b"@small(i32 %n) minsize", b'@small(i32 %n) "target-features"="+avx2" minsize'), "@small"),
        ((b"@small(i32 %n) minsize", b"@small(i32 %n) sanitize_address minsize"), "@small"),
        ((b"@small(i32 %n) minsize", b"@small(i32 %n) null_pointer_is_valid minsize"), "@small"),
        ((b"call i32 @small(i32 %a)", b"call i32 @small(i32 %a) noinline"), "@main:@small"),
        ((b"call i32 @small(i32 %a)", b"call i32 @small(i32 %a) alwaysinline"), "@main:@small"),
        ((b"@main(i32 %n) minsize optsize", b"@main(i32 %n) noinline optnone"), "@main"),
    ],
    ids=lambda one: one[1].decode()[-40:] if isinstance(one, tuple) else "",
)
def test_what_may_not_be_decided_is_refused_and_nothing_changes(
    any_engine: Engine, change: tuple[bytes, bytes], refused: str
) -> None:
    content = PROGRAM.replace(*change)
    assert content != PROGRAM
    left = sites(any_engine, content)
    gone = [site for site in sites(any_engine, PROGRAM) if site not in left]
    assert gone
    assert all(refused in site for site in gone)
    before = any_engine.load(content)
    for site in gone:
        with pytest.raises(CompilationError, match=r"no call .* that may be decided") as raised:
            any_engine.apply(
                before, f"{left[0]}(mark<noinline>){site}(mark<alwaysinline>)" if left else f"{site}(mark<noinline>)"
            )
        assert raised.value.code == FailureCode.ACTION_UNKNOWN
    assert "aiocg-mark" not in any_engine.text(before)


def test_other_functions_may_take_the_place_of_exported_ones_with_interposition(any_engine: Engine) -> None:
    flag = b'\n!llvm.module.flags = !{!9}\n!9 = !{i32 1, !"SemanticInterposition", i32 1}\n'
    exported = PROGRAM.replace(b"internal i32 @small", b"i32 @small")
    assert len(sites(any_engine, exported)) == 4
    assert sites(any_engine, exported + flag) == ["@main:@kept:0", KEPT]


@pytest.mark.parametrize(
    "text",
    [
        "@nobody:@small:0(mark<noinline>)",
        "@main:@nobody:0(mark<noinline>)",
        "@main:@use:0(mark<noinline>)",
        "@main:@small:1(mark<noinline>)",
        "@main:0(mark<unroll=2>)",
    ],
)
def test_what_is_not_there_is_refused(any_engine: Engine, text: str) -> None:
    with pytest.raises(CompilationError) as raised:
        any_engine.apply(any_engine.load(PROGRAM), text)
    assert raised.value.code == FailureCode.ACTION_UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "@main:@small(mark<noinline>)",
        "@main:@small:0(mark<hot>)",
        "@main:@small:0(sroa)",
        "@main:0(mark<vectorize=3>)",
        "@main:0(mark<unroll=1>)",
        "@main:0(mark<noinline>)",
        "@main:@small:0(mark<none>)@main:@small:0(mark<noinline>)",
        "@main:@small:0(mark<none>)@main(sroa)",
        "@main(mark<alwaysinline>)",
        "@main:branch(mark<likely>)",
        "@main:branch:0(mark<noinline>)",
        "@main:0(mark<likely>)",
        "mark<noinline>",
    ],
)
def test_mistakes_are_told(engine: Engine, text: str) -> None:
    with pytest.raises(CompilationError, match="is not an action") as raised:
        Vocabulary(engine.library).resolve(text)
    assert raised.value.code == FailureCode.ACTION_UNKNOWN


def test_functions_that_call_each_other_are_inlined_as_often_as_llvm_likes(any_engine: Engine) -> None:
    before = any_engine.load(RECURSIVE)
    found = sites(any_engine, RECURSIVE)
    assert "@even:@even:0" not in found  # a function in itself
    marked = any_engine.apply(before, "".join(f"{site}(mark<alwaysinline>)" for site in found))
    for pipeline in ("clang<Oz>", "default<O2>", "always-inline", "module-inline"):
        after = any_engine.apply(marked, pipeline)
        assert after.instructions < 1000
        assert any_engine.module(after).verify() is None


@pytest.mark.parametrize(
    ("mark", "count"), [("unroll=4", 4), ("unroll=full", 12), ("unroll=none", 1), ("vectorize=4", 1), ("none", 1)]
)
def test_loops_are_transformed_as_marked(any_engine: Engine, mark: str, count: int) -> None:
    before = any_engine.load(LOOP)
    marked = any_engine.apply(before, f"@f:0(mark<{mark}>)")
    after = any_engine.apply(any_engine.apply(marked, "function(loop-simplify,lcssa)"), "function(loop-unroll)")
    assert any_engine.text(after).count("call void @use") == count
    assert_same(any_engine, any_engine.apply(marked, "@f:0(mark<none>)"), before)


def test_hints_of_one_kind_take_the_place_of_each_other_and_others_stay(any_engine: Engine) -> None:
    before = any_engine.load(LOOP)
    several = any_engine.apply(before, "@f:0(mark<unroll=4>)@f:0(mark<vectorize=8>)@f:0(mark<interleave=2>)")
    text = any_engine.text(several)
    for hint in ("mustprogress", "unroll.count", "vectorize.width", "vectorize.enable", "interleave.count"):
        assert f'"llvm.loop.{hint}"' in text
    less = any_engine.apply(several, "@f:0(mark<vectorize=none>)@f:0(mark<unroll=none>)")
    direct = any_engine.apply(before, "@f:0(mark<interleave=2>)@f:0(mark<vectorize=none>)@f:0(mark<unroll=none>)")
    assert_same(any_engine, less, direct)
    assert '"llvm.loop.vectorize.enable"' not in any_engine.text(less)
    assert_same(any_engine, any_engine.apply(less, "mark<none>"), before)


@pytest.mark.parametrize("mark", ["likely", "unlikely", "unpredictable"])
def test_branches_are_marked_unless_the_source_says_what_they_are(any_engine: Engine, mark: str) -> None:
    before = any_engine.load(BRANCHES)
    assert OBSERVATIONS["Branches"].compute(at(any_engine, BRANCHES)) == ["@f:branch:0", "@f:branch:1"]
    marked = any_engine.apply(before, f"@f:branch:1(mark<{mark}>)")
    text = any_engine.text(marked)
    word = "unpredictable" if mark == "unpredictable" else "prof"
    assert re.search(rf"br i1 %\d+, label %\d+, label %\d+, !{word}", text.split("i32 7, label")[1])
    weights = {"likely": "i32 1999, i32 1}", "unlikely": "i32 1, i32 1999}"}
    assert weights.get(mark, "aiocg-mark") in text
    again = any_engine.apply(marked, "@f:branch:1(mark<likely>)@f:branch:0(mark<unlikely>)")
    assert any_engine.module(again).verify() is None
    assert_same(any_engine, again, any_engine.apply(before, "@f:branch:0(mark<unlikely>)@f:branch:1(mark<likely>)"))
    assert_same(any_engine, any_engine.apply(again, "mark<none>"), before)
    assert_same(any_engine, any_engine.apply(marked, "@f:branch:1(mark<none>)"), before)
    with pytest.raises(CompilationError, match="no branch 2"):
        any_engine.apply(before, "@f:branch:0(mark<likely>)@f:branch:2(mark<likely>)")


@pytest.mark.parametrize("mark", ["hot", "cold", "noinline"])
def test_functions_are_marked_and_what_the_source_says_stays(any_engine: Engine, mark: str) -> None:
    before = any_engine.load(PROGRAM)
    marked = any_engine.apply(before, f"@small(mark<{mark}>)")
    assert re.search(rf"^attributes .*\b{mark}\b", any_engine.text(marked), re.MULTILINE)
    again = any_engine.apply(marked, "@small(mark<cold>)")
    assert_same(any_engine, again, any_engine.apply(before, "@small(mark<cold>)"))
    assert_same(any_engine, any_engine.apply(again, "@small(mark<none>)"), before)
    assert_same(any_engine, any_engine.apply(again, "mark<none>"), before)
    said = any_engine.load(PROGRAM.replace(b"@small(i32 %n) minsize", b"@small(i32 %n) cold minsize"))
    assert any_engine.apply(said, f"@small(mark<{mark}>)") is said
    assert any_engine.apply(said, "@small(mark<none>)") is said


@pytest.mark.parametrize("name", ["sorting.c", "matrix.c", "calculator.c", "shapes.cc"])
def test_walks_with_decisions_lead_to_the_same_states(
    library: Library, natives: NativeLibraries, compile_program: Compile, name: str
) -> None:
    chance, content = random.Random(name), compile_program(name)
    engines = [forgetful(library, natives) for _ in KINDS]
    subject = at(engines[0], content)
    places = [OBSERVATIONS[name].compute(subject) for name in ("CallSites", "Loops", "Branches")]
    path = ["mark<minsize>"]
    marks = (
        ("alwaysinline", "noinline", "none"),
        ("unroll=4", "vectorize=4", "distribute", "none"),
        ("likely", "unlikely", "unpredictable", "none"),
    )
    for _ in range(10):
        path += [
            f"{chance.choice(some)}(mark<{chance.choice(of)}>)" for some, of in zip(places, marks, strict=True) if some
        ]
    path += ["sroa", "cgscc(inline)", "clang<Oz>", "mark<none>", "gvn"]
    assert assert_walks_agree(engines, content, path) > 10


@pytest.mark.parametrize("name", ["sorting.c", "calculator.c", "shapes.cc"])
def test_what_oz_does_is_what_its_program_shows(engine: Engine, compile_program: Compile, name: str) -> None:
    """A call that stays if it is kept, and is inlined if it is not, makes the same program as the pipeline alone."""
    content = compile_program(name)
    subject = at(engine, content)
    inlined = memoryview(OBSERVATIONS["InlinedByOz"].compute(subject).data).cast("q").tolist()
    found = sites(engine, content)
    assert len(inlined) == len(found)
    assert set(inlined) == {0, 1}
    start = engine.apply(engine.load(content), "mark<minsize>")
    plain = engine.apply(start, "clang<Oz>")
    kept = "".join(f"{site}(mark<noinline>)" for site, gone in zip(found, inlined, strict=True) if not gone)
    after = engine.apply(engine.apply(start, kept), "clang<Oz>")
    assert_same(engine, engine.apply(after, "mark<none>"), plain)


def test_features_of_calls(engine: Engine) -> None:
    subject = at(engine, PROGRAM)
    found = OBSERVATIONS["CallSiteFeatures"].compute(subject)
    assert found.shape == (4, 13)
    rows = memoryview(found.data).cast("q").tolist()
    assert rows[:13] == [1, 1, 0, 0, 1, 2, 0, 2, 3, 4, 5, 7, 0]
    assert rows[26:39] == [1, 1, 0, 0, 1, 2, 1, 2, 3, 4, 5, 7, 0]
    loops = OBSERVATIONS["CallSiteFeatures"].compute(at(engine, RECURSIVE))
    assert loops.shape[0] == len(sites(engine, RECURSIVE))


@pytest.mark.parametrize("linkage", [b"weak", b"linkonce"])
def test_inlining_keeps_calls_of_what_may_be_replaced(engine: Engine, linkage: bytes) -> None:
    content = PROGRAM.replace(b"internal i32 @small", linkage + b" i32 @small")
    before = engine.load(content)
    assert (b"main", b"small") not in calls(engine.module(before)).edges
    assert engine.apply(before, "@main(inline<@small>)") is before
    assert not list(CallSites(engine.module(before)).all())[3:]


def test_calls_and_loops_are_found_in_the_source(engine: Engine, compile_program: Compile) -> None:
    subject = at(engine, compile_program("sorting.c", "-g"))
    for places, lines in (("CallSites", "CallSiteLines"), ("Loops", "LoopLines")):
        found, where = (OBSERVATIONS[name].compute(subject) for name in (places, lines))
        assert len(found) == len(where) > 0
        assert all(re.fullmatch(r"sorting\.c:\d+:\d+", one) for one in where)
        assert set(OBSERVATIONS[lines].compute(at(engine, compile_program("sorting.c")))) == {""}
