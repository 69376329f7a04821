"""Transitions that a memory has: the same results as without it, computed by nobody again, and not believed blindly."""

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aiocg.workers.llvm import _passes as passes
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import UNSTEADY
from aiocg.workers.llvm._remembered_transitions import RememberedTransitions, _identity
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.states import State
from aiocg.workers.memory.memory import Memory
from aiocg.workers.memory.records import Step, Trust, decode, encode, key_of

from ..memory.test_memory import CONTEXT, LONG, Place, until

Compile = Callable[..., bytes]


class Believing(Trust):
    """Checks nothing, or everything."""

    def __init__(self, *, checks: bool = False) -> None:
        super().__init__(b"", UNSTEADY)
        self._checks = checks

    def is_checked(self, step: Step) -> bool:
        return self._checks


MakeEngine = Callable[..., Engine]

_numbers = itertools.count()


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def engine_on(library: Library, natives: NativeLibraries) -> Iterator[MakeEngine]:
    """Make an engine as a process of its own would have it, with a memory."""
    made: list[Engine] = []

    def make(place: Place, *, checks: bool = False) -> Engine:
        engine = Engine(library, natives)
        memory = Memory(lambda: [place], lambda: CONTEXT, LONG)
        shared = RememberedTransitions(1 << 26, engine.states, memory, Believing(checks=checks))
        engine.transitions, engine.code.learned = shared, shared.learned
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.release()


def written(engine: Engine, place: Place) -> None:
    """Wait until all that an engine has put is there."""
    shared = engine.transitions
    assert isinstance(shared, RememberedTransitions)
    last = next(_numbers), "the last"
    shared._memory.put(last, 0, 0, {})
    until(lambda: key_of(CONTEXT, last) in place.contents)


def walk(engine: Engine, content: bytes, actions: Sequence[str]) -> list[tuple[int, int, bytes, bytes]]:
    """Take actions as a session does; return what is seen on the way."""
    state = engine.load(content)
    engine.transitions.begin(state)
    engine.hold(state)
    seen = []
    for action in actions:
        state = engine.apply(state, action, moving=True)
        seen.append((state.fingerprint, state.instructions, engine.inst_count(state), engine.autophase(state)))
    return seen


def walks(library: Library) -> list[list[str]]:
    chance = random.Random(3)
    names = [one.pipeline for one in passes.available(library)]
    return [["sroa", *chance.choices(names, k=25)] for _ in range(4)]


def test_second_engine_sees_the_same_and_runs_nothing(
    engine_on: MakeEngine, engine: Engine, place: Place, library: Library, compile_program: Compile
) -> None:
    content = compile_program("sorting.c")
    alone = [walk(engine, content, actions) for actions in walks(library)]
    first = engine_on(place)
    assert [walk(first, content, actions) for actions in walks(library)] == alone
    written(first, place)
    second = engine_on(place)
    assert [walk(second, content, actions) for actions in walks(library)] == alone
    assert first.runs > 50 and second.runs == 0


def test_program_is_made_when_it_is_asked_for_and_is_the_same(
    engine_on: MakeEngine, place: Place, compile_program: Compile
) -> None:
    content, actions = (
        compile_program("calculator.c"),
        ["sroa", "gvn", "simplifycfg", "instcombine<no-verify-fixpoint>"],
    )
    texts = []
    for _ in range(2):
        engine = engine_on(place)
        state = engine.hold(engine.load(content))
        for action in actions:
            state = engine.apply(state, action, moving=True)
        texts.append((engine.text(state), engine.bitcode(state), engine.code.text_size(state)))
        written(engine, place)
    assert texts[0] == texts[1]
    assert engine.runs == len(actions)


def test_size_of_machine_code_is_remembered_although_it_is_measured_later(
    engine_on: MakeEngine, place: Place, compile_program: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = compile_program("sorting.c")
    sizes = []
    for _ in range(2):
        engine = engine_on(place)
        before = engine.load(content)
        engine.transitions.begin(before)
        after = engine.apply(before, "sroa")
        written(engine, place)
        sizes.append((engine.code.image_size(before).stored, engine.code.image_size(after).stored))
        written(engine, place)
        monkeypatch.setattr(type(engine.code), "generate", lambda *_: pytest.fail("machine code was generated again"))
    assert sizes[0] == sizes[1] and sizes[0][0] > sizes[0][1] > 0


def test_candidates_are_looked_up_together(engine_on: MakeEngine, place: Place, compile_program: Compile) -> None:
    content = compile_program("matrix.c")
    lists = [
        ["sroa", one, two]
        for one in ("gvn", "licm", "dce")
        for two in ("simplifycfg", "instcombine<no-verify-fixpoint>")
    ]
    first = engine_on(place)
    outcomes = []
    for engine in (first, engine_on(place)):
        state = engine.hold(engine.load(content))
        assert isinstance(engine.transitions, RememberedTransitions)
        engine.transitions.foresee(state, lists)
        asked = place.asked
        outcomes.append([])
        for actions in lists:
            after = state
            for action in actions:
                after = engine.apply(after, action)
            outcomes[-1].append((after.fingerprint, after.instructions))
        written(engine, place)
    assert outcomes[0] == outcomes[1]
    assert place.asked == asked and engine.runs == 0  # all was there when the first was applied


def test_answer_that_comes_late_is_used_for_what_is_not_computed_yet(
    engine_on: MakeEngine, place: Place, compile_program: Compile
) -> None:
    content, actions = compile_program("sorting.c"), ["sroa", "dce", "simplifycfg", "inline"]
    first = engine_on(place)
    state = first.load(content)
    right = [first.apply(state, action).fingerprint for action in actions]
    written(first, place)
    second = engine_on(place)
    shared = second.transitions
    assert isinstance(shared, RememberedTransitions)
    shared._memory._patience = 0.0
    state = second.load(content)
    place.goes_on.clear()
    shared.foresee(state, [[action] for action in actions])
    found = [second.apply(state, actions[0]).fingerprint]
    place.goes_on.set()
    until(lambda: not shared._memory._due.answered.locked())  # type: ignore[union-attr]
    found += [second.apply(state, action).fingerprint for action in actions[1:]]
    assert found == right and second.runs == 1


def test_actions_without_effect_are_remembered_as_such(engine_on: MakeEngine, place: Place, simple: bytes) -> None:
    first = engine_on(place)
    state = first.apply(first.load(simple), "dce")
    assert first.apply(state, "dce") is state
    written(first, place)
    second = engine_on(place)
    state = second.apply(second.load(simple), "dce")
    assert second.apply(state, "dce") is state
    assert second.runs == 0


def test_failures_are_not_remembered(
    engine_on: MakeEngine, place: Place, simple: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = engine_on(place)
    state = first.load(simple)
    with monkeypatch.context() as patch:
        patch.setattr(first, "_transform", lambda *_: (_ for _ in ()).throw(LlvmError("out of memory")))
        with pytest.raises(Exception, match="out of memory"):
            first.apply(state, "dce")
    written(first, place)
    second = engine_on(place)
    assert second.apply(second.load(simple), "dce").instructions == 6
    assert second.runs == 1


def test_passes_known_to_differ_between_two_runs_are_not_remembered(
    engine_on: MakeEngine, place: Place, compile_program: Compile
) -> None:
    assert {"attributor", "gvn-sink", "sandbox-vectorizer"} == UNSTEADY
    for runs in (1, 2):
        engine = engine_on(place)
        state = engine.load(compile_program("sorting.c"))
        engine.apply(state, "gvn-sink")
        written(engine, place)
        assert engine.runs == 1, runs


def forge(place: Place, step: Step, **changes: object) -> None:
    """Make a place say something else of a step, in due form."""
    key = key_of(CONTEXT, step)
    record = decode(key, place.contents[key])
    assert record is not None
    place.contents[key] = encode(key, record._replace(**changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lie", [{"after": 99}, {"instructions": 1}, {"facts": {"inst_count": bytes(560)}}], ids=["state", "count", "fact"]
)
def test_lie_that_is_checked_is_told_and_ends_the_memory_of_its_action_alone(
    engine_on: MakeEngine, place: Place, simple: bytes, lie: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    first = engine_on(place)
    before = first.load(simple)
    right = first.apply(before, "dce")
    other = first.apply(before, "simplifycfg")
    written(first, place)
    forge(place, (before.fingerprint, "dce"), **lie)
    second = engine_on(place, checks=True)
    with caplog.at_level(logging.WARNING):
        after = second.apply(second.load(simple), "dce")
    assert (after.fingerprint, after.instructions, after.memo) == (right.fingerprint, right.instructions, right.memo)
    assert "dce leads to other states than remembered" in caplog.text
    assert second.transitions.statistics()["memory_mistrusted"] == ["dce"]
    assert second.apply(second.load(simple), "simplifycfg").fingerprint == other.fingerprint
    assert second.transitions.statistics()["memory_mistrusted"] == ["dce"]
    asked = place.asked
    second.apply(after, "dce")
    assert place.asked == asked


def test_answers_that_are_right_when_checked_stay_trusted(
    engine_on: MakeEngine, place: Place, library: Library, compile_program: Compile
) -> None:
    content, (actions, *_) = compile_program("sorting.c"), walks(library)
    first, second = engine_on(place), engine_on(place, checks=True)
    seen = walk(first, content, actions)
    written(first, place)
    assert walk(second, content, actions) == seen
    counts = second.transitions.statistics()
    assert counts["memory_mistrusted"] == [] and counts["memory_checked"] > 10
    assert second.runs == first.runs


def test_lie_that_is_found_when_a_program_is_made_is_told(engine_on: MakeEngine, place: Place, simple: bytes) -> None:
    first = engine_on(place)
    before = first.load(simple)
    first.apply(before, "dce")
    written(first, place)
    forge(place, (before.fingerprint, "dce"), after=99)
    second = engine_on(place)
    before = second.load(simple)
    after = second.apply(before, "dce")
    with pytest.raises(LlvmError, match="dce is not deterministic"):
        second.text(after)
    assert second.transitions.statistics()["memory_mistrusted"] == ["dce"]
    assert second.apply(before, "dce").instructions == 6


def test_long_way_is_cut_by_bitcode_as_without_a_memory(
    engine_on: MakeEngine, place: Place, library: Library, compile_program: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a module can be made by a bounded number of actions."""
    for module in ("engine", "_remembered_transitions"):
        monkeypatch.setattr(f"aiocg.workers.llvm.{module}.REACH", 4)
    content, actions = compile_program("sorting.c"), walks(library)[0]
    seen = []
    for _ in range(2):
        engine = engine_on(place)
        state = engine.hold(engine.load(content))
        seen.append([])
        for action in actions:
            state = engine.apply(state, action, moving=True)
            assert state.distance <= 4
            seen[-1].append(state.fingerprint)
        written(engine, place)
    assert seen[0] == seen[1]


def test_identity_is_that_of_the_library_its_use_and_our_sources(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = [_identity(library, tmp_path, False) for _ in range(2)]
    assert same[0] == same[1]
    assert len(list(tmp_path.glob("*.hash"))) == 1
    assert _identity(library, tmp_path / "missing", False) == same[0]
    assert _identity(library, tmp_path, True) != same[0]
    other = tmp_path / "libLLVM.so"
    other.write_bytes(b"another")
    monkeypatch.setattr(library, "path", other)
    assert _identity(library, tmp_path, False) != same[0]


def test_state_that_is_not_understood_is_not_remembered(
    engine_on: MakeEngine, place: Place, compile_program: Compile
) -> None:
    for _ in range(2):
        engine = engine_on(place)
        state: State = engine.load(compile_program("sorting.c", "-g"))
        assert state.opaque
        engine.apply(state, "sroa")
        written(engine, place)
        assert engine.runs == 1
