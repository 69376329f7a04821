"""A state depends on the benchmark and the actions alone, wherever its module has been and wherever it came from."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.datasets import default_datasets
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import _canonical as canonical
from aiocg.workers.llvm import _passes as passes
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import MOST_RUNS
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import MOST_BEGUN, REACH, State

Compile = Callable[..., bytes]

PROGRAMS = tuple(uri.path for uri in default_datasets()["programs-v0"].benchmark_uris())
SMALL = b"""
@where = internal global [2 x ptr] [ptr blockaddress(@jump, %one), ptr blockaddress(@jump, %two)]
@pair = internal constant { ptr, <2 x ptr> } { ptr @jump, <2 x ptr> <ptr @where, ptr null> }
@.str = private constant [4 x i8] c"abc\\00"
declare void @llvm.assume(i1)
declare void @use(ptr)
define internal i32 @jump(i32 %x) {
entry:
  %i = and i32 %x, 1
  %p = getelementptr [2 x ptr], ptr @where, i32 0, i32 %i
  %t = load ptr, ptr %p
  indirectbr ptr %t, [label %one, label %two]
one:
  call void @use(ptr @.str)
  ret i32 1
two:
  %q = load ptr, ptr @pair
  call void @llvm.assume(i1 true) [ "align"(ptr %q, i64 8) ]
  call void @use(ptr %q)
  ret i32 %x
}
define i32 @main(i32 %x, ptr %p) {
entry:
  %a = alloca i32
  store i32 %x, ptr %a
  %f = call i32 @jump(i32 %x)
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %v = load i32, ptr %a
  %w = add i32 %v, %f
  store i32 %w, ptr %a
  %j = add nuw i32 %i, 1
  %c = icmp ult i32 %j, 9
  br i1 %c, label %loop, label %end, !llvm.loop !0
end:
  %r = load i32, ptr %a
  ret i32 %r
}
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.mustprogress"}
"""


def forgetful(library: Library, natives: NativeLibraries, **options: Any) -> Engine:
    return Engine(library, natives, transition_cache_bytes=0, **options)


@cache
def pipelines(library: Library) -> list[str]:
    return [one.pipeline for one in passes.available(library)]


def has_clones(engine: Engine) -> bool:
    return engine.surveyor is not None and engine.surveyor.clones_are_exact


class Walk:
    """One session that walks along a path; `between` is done before each action."""

    initials: ClassVar[dict[tuple[Engine, bytes], State]] = {}

    def __init__(self, engine: Engine, content: bytes) -> None:
        self.engine = engine
        if (engine, content) not in self.initials:
            self.initials[engine, content] = engine.load(content)
        self.state = engine.hold(self.initials[engine, content])

    def step(self, action: str) -> str | None:
        """Apply an action and return the error, if there is one."""
        self.between()
        try:
            self.state = self.engine.apply(self.state, action, moving=True)
        except CompilationError as error:
            return error.message
        return None

    def between(self) -> None:
        """In place: nothing."""

    def close(self) -> None:
        self.engine.let_go(self.state)


class Written(Walk):
    """Writes and parses before each pass."""

    def between(self) -> None:
        self.engine.release()


class Forked(Walk):
    """Has another session at each state, from which others go elsewhere; the next pass is run on a clone."""

    chance = random.Random(0)

    def between(self) -> None:
        self.engine.hold(self.state)
        if self.chance.random() < 0.7:
            return
        first, second = self.chance.choices(pipelines(self.engine.library), k=2)
        try:
            self.engine.apply(self.engine.apply(self.state, first), second)
        except CompilationError:
            return

    def step(self, action: str) -> str | None:
        before = self.state
        error = super().step(action)
        self.engine.let_go(before)
        return error


class Replayed(Walk):
    """Loses its module now and then, without having written it."""

    count = 0

    def between(self) -> None:
        self.count += 1
        if self.count % 3 == 0:
            self.engine.shelf.discard(self.state)
            if self.state.origin is not None:
                self.state.content = None


KINDS = (Walk, Written, Forked, Replayed)


@pytest.fixture(scope="session")
def engines(library: Library, natives: NativeLibraries) -> list[Engine]:
    return [forgetful(library, natives) for _ in KINDS]


def assert_walks_agree(engines: list[Engine], content: bytes, path: list[str]) -> int:
    """Walk along a path in all ways; return how often the program changed."""
    walks = [kind(engine, content) for kind, engine in zip(KINDS, engines, strict=True)]
    changes = 0
    for number, action in enumerate(path):
        before = walks[0].state
        errors = {walk.step(action) for walk in walks}
        states = [walk.state for walk in walks]
        where = path[: number + 1]
        assert len(errors) == 1, where
        assert len({state.fingerprint for state in states}) == 1, where
        assert len({state.instructions for state in states}) == 1, where
        changes += states[0] is not before
    assert len({walk.engine.text(walk.state) for walk in walks}) == 1, path
    assert len({walk.engine.bitcode(walk.state) for walk in walks}) == 1, path
    for walk in walks:
        walk.close()
    return changes


def paths(library: Library, seed: object, length: int) -> Iterator[list[str]]:
    chance = random.Random(f"{seed}")
    while True:
        yield chance.choices(pipelines(library), k=length)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.every_case])])
def test_random_trajectories_lead_to_the_same_states(
    engines: list[Engine], library: Library, compile_program: Compile, count: int
) -> None:
    programs = [SMALL.replace(b"9", b"%d" % number) for number in range(5, 9)] * 15
    programs += [compile_program(name) for name in ("sorting.c", "matrix.c")]
    programs += [compile_program("sorting.c", "-O2"), compile_program("shapes.cc", "-O1")]
    ways = paths(library, "random", 8)
    changes = sum(assert_walks_agree(engines, programs[number % len(programs)], next(ways)) for number in range(count))
    assert changes > count
    straight, written, forked, replayed = engines
    assert straight.parses + straight.clones < straight.runs / 4
    assert written.parses > written.runs / 2
    if has_clones(straight):
        assert forked.clones > forked.runs / 4
    assert replayed.runs > straight.runs


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("-g",), ("-O2", "-g"), ("-fexceptions",)], ids=" ".join)
def test_so_they_do_with_debug_information_and_exceptions(
    engines: list[Engine], library: Library, compile_program: Compile, flags: tuple[str, ...]
) -> None:
    for name, path in zip(("shapes.cc", "sorting.c"), paths(library, flags, 25), strict=False):
        assert_walks_agree(engines, compile_program(name, *flags), path)


@pytest.mark.slow
def test_long_walk_starts_again_from_bitcode_now_and_then(
    engines: list[Engine], library: Library, compile_program: Compile
) -> None:
    actions = ["mem2reg", "reg2mem"] * REACH
    assert assert_walks_agree(engines, compile_program("sorting.c"), actions) == len(actions)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROGRAMS)
def test_long_random_trajectories_lead_to_the_same_states(
    engines: list[Engine], library: Library, program: str
) -> None:
    content = default_datasets()["programs-v0"].benchmark(program).content
    assert_walks_agree(engines, content, next(paths(library, program, 30)))


@pytest.mark.slow
@pytest.mark.parametrize("major", [14, 19])
def test_so_they_do_in_older_llvms(
    system_library: Callable[[int], Library], natives: NativeLibraries, compile_with: Compile, major: int
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    older = NativeLibraries(library, clang, natives.folder.parent)
    engines = [forgetful(library, older) for _ in KINDS]
    assert (engines[0].surveyor is not None) == (major == 19)
    for name in ("sorting.c", "calculator.c"):
        for _, path in zip(range(2), paths(library, name, 30), strict=False):
            assert_walks_agree(engines, compile_with(clang, name), path)


def test_so_they_do_where_memory_is_not_as_expected(
    library: Library, natives: NativeLibraries, compile_program: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a state's bytes are what it is."""
    monkeypatch.setattr(canonical, "NEWEST", 13)
    engines = [forgetful(library, natives) for _ in KINDS]
    assert {engine.surveyor for engine in engines} == {None}
    for name, path in zip(("sorting.c", "shapes.cc"), paths(library, "unknown", 30), strict=False):
        assert_walks_agree(engines, compile_program(name), path)


@pytest.mark.parametrize("held", [True, False])
def test_what_does_not_fit_into_memory_can_be_looked_at(
    library: Library, natives: NativeLibraries, compile_program: Compile, held: bool
) -> None:
    crowded, roomy = Engine(library, natives, module_cache_bytes=1 << 17), Engine(library, natives)
    walks = [Walk(engine, compile_program("sorting.c")) for engine in (crowded, roomy)]
    for action in ("sroa", "early-cse", "simplifycfg", "gvn", "licm", "loop-rotate"):
        for walk in walks:
            if held:
                walk.engine.hold(walk.state)
            walk.step(action)
    seen: list[tuple[State, State]] = []
    here, there = (walk.state for walk in walks)
    while here.origin is not None and there.origin is not None:
        seen.append((here, there))
        here, there = here.origin[0], there.origin[0]
    assert len(seen) > 3
    for _ in range(3):
        for one, other in seen:
            assert crowded.text(one) == roomy.text(other)
            assert crowded.shelf.size <= crowded.shelf.limit or len(crowded.shelf) == 1


LOOKS: tuple[Callable[[Engine, State], object], ...] = (
    Engine.text, Engine.bitcode, Engine.autophase, Engine.inst_count, Engine.module,
    lambda engine, state: engine.loops.find(engine.module(state)),
    lambda engine, state: engine.release(),
    lambda engine, state: engine.shelf.discard(state),
)  # fmt: skip
USUAL = (
    "sroa", "early-cse", "simplifycfg", "gvn", "licm", "loop-rotate", "cgscc(inline)", "reassociate", "ipsccp", "dce",
    "instcombine<no-verify-fixpoint>", "loop-unroll", "iroutliner", "irce", "correlated-propagation", "loop-reduce",
    "globalopt", "reg2mem", "loop-vectorize", "function-attrs", "strip", "no-such-pass", "@no_such_function(dce)",
)  # fmt: skip


@pytest.fixture(scope="session")
def pair(library: Library, natives: NativeLibraries) -> tuple[Engine, Engine]:
    """An engine that remembers but has room for few modules, and one that forgets everything."""
    return Engine(library, natives, module_cache_bytes=1 << 20), forgetful(library, natives)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(
        st.tuples(
            st.integers(0, 30), st.booleans(), st.sampled_from(USUAL), st.lists(st.sampled_from(LOOKS), max_size=2)
        ),
        max_size=12,
    )
)
def test_whatever_is_asked_in_whatever_order_states_are_the_same(
    pair: tuple[Engine, Engine],
    compile_program: Compile,
    moves: list[tuple[int, bool, str, list[Callable[[Engine, State], object]]]],
) -> None:
    """Each move picks one of the states so far, looks at it and applies an action, as forks and `expand` do."""
    engine, plain = pair
    content = compile_program("sorting.c")
    states = [(engine.hold(engine.load(content)), plain.load(content))]
    for choice, moving, action, looks in moves:
        place = choice % len(states)
        here, there = states[place]
        for look in looks:
            look(engine, here)
        results = []
        for one, state in ((engine, here), (plain, there)):
            try:
                results.append((one.apply(state, action, moving=moving and one is engine), ""))
            except CompilationError as error:
                results.append((state, error.message))
            plain.release()
        (after, message), (after_plain, expected) = results
        assert message == expected
        assert (after is here) == (after_plain is there)
        assert after.fingerprint == after_plain.fingerprint
        assert engine.text(after) == plain.text(after_plain)
        if moving:
            states[place] = after, after_plain
        else:
            states.append((engine.hold(after), after_plain))
    for here, _ in states:
        engine.let_go(here)


def test_session_that_is_alone_never_writes_or_parses(engine: Engine, compile_program: Compile) -> None:
    walk = Walk(engine, compile_program("sorting.c"))
    parses, writes = engine.parses, engine.writes
    for action in ("sroa", "early-cse", "simplifycfg", "gvn", "licm", "lower-atomic", "loop-rotate"):
        assert walk.step(action) is None
        engine.autophase(walk.state)
    assert (engine.parses - parses, engine.writes - writes, engine.clones) == (1, 0, 0)


def test_fork_costs_one_clone_and_only_when_one_side_goes_on(engine: Engine, compile_program: Compile) -> None:
    if not has_clones(engine):
        pytest.skip("clones share constants with use-lists before LLVM 21")
    walk = Walk(engine, compile_program("sorting.c"))
    walk.step("sroa")
    state = engine.hold(walk.state)
    parses, writes = engine.parses, engine.writes
    assert engine.clones == 0
    walk.step("gvn")
    assert engine.apply(state, "simplifycfg", moving=True) is not state
    assert (engine.parses, engine.writes, engine.clones) == (parses, writes, 1)


def test_program_that_sessions_begin_with_again_is_parsed_once(engine: Engine, compile_program: Compile) -> None:
    if not has_clones(engine):
        pytest.skip("clones share constants with use-lists before LLVM 21")
    engine.transitions.limit = 0
    initial = engine.load(compile_program("sorting.c"))
    parses, ends = engine.parses, set()
    for _ in range(5):
        engine.beginnings.note(initial)
        state = engine.hold(initial)
        for action in ("sroa", "gvn", "licm", "simplifycfg"):
            state = engine.apply(state, action, moving=True)
        ends.add(state.fingerprint)
        engine.let_go(state)
    assert len(ends) == 1
    assert (engine.parses - parses, engine.clones) == (2, 4)


def test_sessions_that_share_a_context_do_not_wear_it_out_for_each_other(
    engine: Engine, library: Library, compile_program: Compile
) -> None:
    if not has_clones(engine):
        pytest.skip("clones share constants with use-lists before LLVM 21")
    engine.transitions.limit = 0
    walks = [Walk(engine, compile_program("sorting.c")) for _ in range(MOST_RUNS // 16)]
    trails = [list(path) for _, path in zip(walks, paths(library, "shared context", 24), strict=False)]
    for walk, trail in zip(walks, trails, strict=True):
        walk.step(trail[0])
    parses, runs = engine.parses, engine.runs
    for position in range(1, 24):
        for walk, trail in zip(walks, trails, strict=True):
            walk.step(trail[position])
    assert engine.runs - runs > MOST_RUNS
    assert engine.parses - parses < len(walks) / 4


def test_programs_that_come_round_seldom_keep_no_module(engine: Engine) -> None:
    text = b"define i32 @f() {\n  %%r = add i32 1, %d\n  ret i32 %%r\n}\n"
    initials = [engine.load(text % number) for number in range(MOST_BEGUN + 1)]
    engine.transitions.limit = 0
    for initial in initials * 3:
        engine.beginnings.note(initial)
        after = engine.apply(engine.hold(initial), "early-cse", moving=True)
        assert after is not initial
        engine.let_go(after)
    assert engine.clones == 0
    assert all(initial.holders == 0 for initial in initials)


def test_candidates_without_effect_share_one_clone(engine: Engine, compile_program: Compile) -> None:
    if not has_clones(engine):
        pytest.skip("clones share constants with use-lists before LLVM 21")
    walk = Walk(engine, compile_program("sorting.c"))
    walk.step("default<O2>")
    engine.hold(walk.state)
    for action in ("lower-atomic", "coro-elide", "lower-invoke", "lower-matrix-intrinsics"):
        assert engine.apply(walk.state, action) is walk.state
    assert engine.clones == 1


def test_remembered_state_is_reached_again_by_its_action(
    library: Library, natives: NativeLibraries, compile_program: Compile
) -> None:
    engine = Engine(library, natives)
    first, path = Walk(engine, compile_program("sorting.c")), ["sroa", "gvn", "simplifycfg"]
    for action in path:
        first.step(action)
    first.close()
    writes, runs = engine.writes, engine.runs
    second = Walk(engine, compile_program("sorting.c"))
    for action in path:
        second.step(action)
    assert engine.runs == runs
    second.step("loop-rotate")
    assert engine.runs - runs <= len(path) + 1
    assert engine.writes == writes


def test_modules_that_are_kept_stay_within_their_limit(
    library: Library, natives: NativeLibraries, compile_program: Compile
) -> None:
    engine = forgetful(library, natives, module_cache_bytes=1 << 20)
    initial = engine.load(compile_program("sorting.c"))
    for action in ("sroa", "simplifycfg", "gvn", "licm", "loop-rotate", "reg2mem"):
        engine.module(engine.hold(engine.apply(initial, action)))
        assert engine.shelf.size <= engine.shelf.limit
    assert len(engine.shelf) > 1
    engine.release()
    assert len(engine.shelf) == 0


def test_walks_are_of_all_passes(library: Library) -> None:
    chosen = Counter(action for _, path in zip(range(300), paths(library, 0, 8), strict=False) for action in path)
    assert len(chosen) == len(pipelines(library))
