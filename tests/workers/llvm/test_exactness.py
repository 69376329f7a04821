"""A state depends on the benchmark and the actions alone, whatever is kept in memory between two passes."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.datasets import default_datasets
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import passes
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.library import Library, find_clang
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.shelf import Shelf
from aiocg.workers.llvm.states import State

Compile = Callable[..., bytes]

PROGRAMS = tuple(uri.path for uri in default_datasets()["programs-v0"].benchmark_uris())


class Plain(Engine):
    """Parses before every pass, and keeps nothing."""

    seals = None

    def apply(self, state: State, action: str) -> State:
        self.release()
        state.inert.clear()
        return super().apply(state, action)


def forgetful(kind: type[Engine], library: Library, natives: NativeLibraries, **options: Any) -> Engine:
    return kind(library, natives, transition_cache_bytes=0, **options)


@pytest.fixture(scope="session")
def pair(library: Library, natives: NativeLibraries) -> tuple[Engine, Engine]:
    """An engine that keeps few modules, and one that keeps none."""
    return forgetful(Engine, library, natives, module_cache_bytes=2 << 20), forgetful(Plain, library, natives)


def outcome(engine: Engine, state: State, action: str) -> tuple[State, bytes | str]:
    """Apply an action; return where that leads, and the content or the error."""
    try:
        after = engine.apply(state, action)
    except CompilationError as error:
        return state, error.message
    return after, after.content


def walk(engine: Engine, content: bytes, path: list[str]) -> list[bytes | str]:
    state, outcomes = engine.load(content), []
    for action in path:
        state, result = outcome(engine, state, action)
        outcomes.append(result)
    return outcomes


LOOKS: tuple[Callable[[Engine, State], object], ...] = (
    Engine.text, Engine.bitcode, Engine.autophase, Engine.instruction_count, Engine.prepare,
    lambda engine, state: engine.loops.find(engine.module(state)),
    lambda engine, state: engine.release(),
)  # fmt: skip
USUAL = (
    "sroa", "early-cse", "simplifycfg", "gvn", "licm", "loop-rotate", "cgscc(inline)", "reassociate", "ipsccp", "dce",
    "instcombine<no-verify-fixpoint>", "loop-unroll", "iroutliner", "irce", "correlated-propagation", "loop-reduce",
    "globalopt", "reg2mem", "loop-vectorize", "function-attrs", "no-such-pass",
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(USUAL), st.lists(st.sampled_from(LOOKS), max_size=2)),
        max_size=12,
    )
)
def test_whatever_is_asked_in_whatever_order_states_are_the_same(
    pair: tuple[Engine, Engine],
    compile_program: Compile,
    moves: list[tuple[int, str, list[Callable[[Engine, State], object]]]],
) -> None:
    """Each move picks one of the states so far, looks at it and applies an action, as forks and `expand` do."""
    engine, plain = pair
    content = compile_program("sorting.c")
    states = [(engine.load(content), plain.load(content))]
    for choice, action, looks in moves:
        here, there = states[choice % len(states)]
        here.inert.clear()
        for look in looks:
            look(engine, here)
        (after, result), (after_plain, expected) = outcome(engine, here, action), outcome(plain, there, action)
        assert result == expected
        assert (after is here) == (after_plain is there)
        assert engine.text(after) == plain.text(after_plain)
        states.append((after, after_plain))


def assert_walks_agree(engine: Engine, plain: Engine, content: bytes, seed: str, *, walks: int, length: int) -> None:
    chance, choices = random.Random(seed), [one.pipeline for one in passes.available(engine.library)]
    for _ in range(walks):
        path = chance.choices(choices, k=length)
        assert walk(engine, content, path) == walk(plain, content, path), path


def test_random_paths_of_all_passes_lead_to_the_same_states(
    pair: tuple[Engine, Engine], compile_program: Compile
) -> None:
    engine, plain = pair
    traceless = engine.traceless
    for name in ("matrix.c", "shapes.cc"):
        assert_walks_agree(engine, plain, compile_program(name), name, walks=2, length=40)
    assert engine.traceless - traceless > 40  # or nothing was tried here
    assert plain.traceless == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROGRAMS)
def test_long_random_paths_lead_to_the_same_states(pair: tuple[Engine, Engine], program: str) -> None:
    content = default_datasets()["programs-v0"].benchmark(program).content
    assert_walks_agree(*pair, content, program, walks=4, length=60)


@pytest.mark.parametrize("major", [14, 19])
def test_so_they_do_in_older_llvms(
    system_library: Callable[[int], Library], natives: NativeLibraries, compile_with: Compile, major: int
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    older = NativeLibraries(library, clang, natives.folder.parent)
    engine, plain = forgetful(Engine, library, older), forgetful(Plain, library, older)
    for name in ("sorting.c", "calculator.c"):
        assert_walks_agree(engine, plain, compile_with(clang, name), name, walks=2, length=30)
    assert engine.traceless > 20


def test_pass_that_leaves_no_trace_costs_neither_parsing_nor_writing(engine: Engine, compile_program: Compile) -> None:
    state = engine.apply(engine.load(compile_program("sorting.c")), "default<O2>")
    engine.prepare(state)
    parses, writes, runs = engine.parses, engine.writes, engine.runs
    for action in ("lower-atomic", "coro-elide", "lower-invoke", "lower-matrix-intrinsics"):
        engine.text(state)
        assert engine.apply(state, action) is state
    assert (engine.parses, engine.writes, engine.runs) == (parses, writes, runs + 4)
    assert engine.traceless == 4


def test_prepared_state_is_not_parsed_by_the_next_pass(engine: Engine, compile_program: Compile) -> None:
    state = engine.load(compile_program("sorting.c"))
    engine.prepare(state)
    parses = engine.parses
    engine.prepare(state)
    assert engine.apply(state, "sroa") is not state
    assert engine.parses == parses


def test_modules_that_are_kept_stay_within_their_limit(
    library: Library, natives: NativeLibraries, compile_program: Compile
) -> None:
    content = compile_program("sorting.c")
    engine = forgetful(Engine, library, natives, module_cache_bytes=4 * Shelf.GROWTH * len(content))
    initial = engine.load(content)
    for action in ("sroa", "simplifycfg", "gvn", "licm", "loop-rotate", "reg2mem"):
        engine.prepare(engine.apply(initial, action))
        assert engine.shelf.size <= engine.shelf.limit
    assert len(engine.shelf) > 1
    engine.release()
    assert len(engine.shelf) == 0
