"""Decisions of a compile: LLVM's own and others, forks in the middle, deaths of the processes that wait."""

import contextlib
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiocg.transport.codegen_options import write
from aiocg.transport.elf import image_size, sections
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import DEADLINE, CompilationError
from aiocg.workers.decisions._channel import Question
from aiocg.workers.decisions.session import DecisionSession
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.baselines import MARKED_LEVELS

from .conftest import DATA, Start, bitcode, busy

KEEP, INLINE, DEFAULT = range(3)
KINDS = ("inline", "evict", "priority")
PROGRAMS = ("sorting.c", "matrix.c", "calculator.c", "shapes.cc")
GROWING = f"""
define i64 @mixed(i64 %v0) {{
  {" ".join(f"%v{one} = {('mul', 'xor')[one % 2]} i64 %v{one - 1}, {one + 2}{chr(10)}" for one in range(1, 30))}
  ret i64 %v29
}}
define i64 @start(i64 %v0) {{
  {" ".join(f"%v{one} = call i64 @mixed(i64 %v{one - 1}){chr(10)}" for one in range(1, 30))}
  ret i64 %v29
}}
""".encode()  # LLVM makes it ten times as large at O2


def legal(session: DecisionSession) -> list[int]:
    found = session.get_observation("LegalActions")
    return [index for index, one in enumerate(struct.unpack(f"{found.shape[0]}q", found.data)) if one]


def go_on(session: DecisionSession, seed: int, most: int = 1_000_000) -> list[int]:
    """Decide at random, to the end or so many times; return the actions."""
    dice, actions = random.Random(seed), []
    while not session.get_observation("Finished") and len(actions) < most:
        actions.append(dice.choice(legal(session)))
        session.apply_action(actions[-1])
    return actions


def outcome(session: DecisionSession) -> tuple[int, Any]:
    assert session.get_observation("Finished") == 1
    return session.state_hash(), session.get_observation("Object")


def ended(process: psutil.Process) -> None:
    """Wait until a process has ended."""
    deadline = time.monotonic() + 20
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, f"{process} is still there"
            time.sleep(0.01)


def waiting(worker: int | None = None) -> list[int]:
    """The processes that compile for this one, which have no children of their own."""
    return [one.pid for one in psutil.Process(worker).children() if one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [*PROGRAMS, "growing"])
@pytest.mark.parametrize("level", ["Oz", "O2"])
def test_answers_that_llvm_would_give_lead_to_its_own_object(start: Start, program: str, level: str) -> None:
    kind = start("inline", level)
    content = GROWING if program == "growing" else bitcode(program)
    session = kind(kind.load_benchmark(content))
    while not session.get_observation("Finished"):
        assert session.get_observation("DefaultAction") in (KEEP, INLINE)
        session.apply_action(DEFAULT)
    assert session.get_observation("Decisions") > 0
    engine = kind.engine
    state = engine.load(content)
    for action in MARKED_LEVELS.get({"Oz": "OzMinsize"}.get(level, ""), (f"default<{level}>",)):
        state = engine.apply(engine.hold(state), action)
    assert session.get_observation("Object") == engine.code.object_file(state)
    assert session.get_observation("IrInstructionCount") == state.instructions


@pytest.mark.few(1)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_much_is_loaded_as_of_what_clang_makes(start: Start, program: str, tmp_path: Path) -> None:
    clang, target = find_clang(Library.find()), tmp_path / "made"
    words = [clang, "-Oz", "-w", "-fno-exceptions", "-c", program, "-o", str(target)]
    subprocess.run(words, cwd=DATA, check=True)
    theirs = target.read_bytes()
    subprocess.run([*words, "-Xclang", "-disable-llvm-passes", "-emit-llvm"], cwd=DATA, check=True)
    kind = start("inline")
    session = kind(kind.load_benchmark(target.read_bytes()))
    while not session.get_observation("Finished"):
        session.apply_action(DEFAULT)
    ours, clangs = (
        [
            (one.name, one.flags, one.is_stored and content[one.offset :][: one.size])
            for one in sections(content)
            if one.is_loaded
        ]
        for content in (session.get_observation("Object"), theirs)
    )
    assert image_size(session.get_observation("Object")) == image_size(theirs)
    if program != "matrix.c":  # two registers are swapped in it: bitcode does not keep the order of use-lists
        assert ours == clangs and ours


@pytest.mark.few(1)
@pytest.mark.parametrize("decision", KINDS)
def test_the_same_answers_lead_to_the_same_object_in_another_process(start: Start, decision: str) -> None:
    kind = start(decision, "O2")
    program = kind.load_benchmark(busy())
    session = kind(program)
    actions = go_on(session, 1)
    again = kind(kind.load_benchmark(busy()))
    for action in actions:
        again.apply_action(action)
    assert outcome(again) == outcome(session)
    assert image_size(session.get_observation("Object")).stored == session.get_observation("ObjectImageSizeBytes")


@pytest.mark.few(1)
@pytest.mark.parametrize("decision", KINDS)
def test_forks_in_the_middle_of_a_compile_go_on_independently(start: Start, decision: str) -> None:
    kind = start(decision, "O2")
    program = kind.load_benchmark(busy())
    session = kind(program)
    beginning = go_on(session, 2, 20)
    fork, other = session.fork(), session.fork()
    assert fork.state_hash() == session.state_hash()
    rest = {one: go_on(one, seed) for seed, one in enumerate((session, fork, other))}
    for one, actions in rest.items():
        alone = kind(program)
        for action in (*beginning, *actions):
            alone.apply_action(action)
        assert outcome(alone) == outcome(one)


@pytest.mark.few(1)
@pytest.mark.parametrize("decision", ["evict", "priority"])
def test_programs_that_carry_options_of_the_code_generator_are_asked_about(start: Start, decision: str) -> None:
    kind = start(decision, "O2")
    text = kind.engine.text(kind.engine.load(busy()))
    options = write(["enable-shrink-wrap=false"]).decode()
    text += f'\n!aiocg.codegen = !{{!999}}\n!999 = !{{!"{options}"}}\n'
    session = kind(kind.load_benchmark(text.encode()))
    assert session.get_observation("SpillCost") > 0
    go_on(session, 1)
    assert session.get_observation("Decisions") > 100


def test_what_llvm_would_make_of_the_rest_is_projected(start: Start) -> None:
    kind = start("inline")
    session = kind(kind.load_benchmark(busy()))
    own = session.get_observation("ObjectImageSizeBytes")
    assert session.get_observation("ProjectedImageSizeBytes") == own
    while session.get_observation("DefaultAction") == INLINE:
        session.apply_action(DEFAULT)
    session.apply_action(INLINE)
    projected = session.get_observation("ProjectedImageSizeBytes")
    assert session.get_observation("ObjectImageSizeBytes") == own, "nothing has ended yet"
    while not session.get_observation("Finished"):
        session.apply_action(DEFAULT)
    assert session.get_observation("ObjectImageSizeBytes") == projected


def test_an_illegal_eviction_is_refused_and_changes_nothing(start: Start) -> None:
    kind = start("evict", "O2")
    session = kind(kind.load_benchmark(busy()))
    illegal = sorted({*range(len(kind.kind.actions))} - {*legal(session)})
    before = session.state_hash()
    with pytest.raises(CompilationError, match="is illegal for this decision: legal are") as raised:
        session.apply_action(illegal[0])
    assert raised.value.code == FailureCode.ACTION_UNKNOWN and session.state_hash() == before
    go_on(session, 3)
    with pytest.raises(CompilationError, match="has ended: there is nothing left to decide") as raised:
        session.apply_action(0)
    assert raised.value.code == FailureCode.ACTION


def test_a_death_over_an_answer_is_an_error_that_names_the_cause(start: Start) -> None:
    kind = start("evict", "O2")
    program = kind.load_benchmark(busy())
    process = program.fork(float("inf"))
    assert isinstance(process.state, Question)
    with pytest.raises(CompilationError, match="LLVM ended over this decision, by SIG"):
        process.answer(struct.pack("q", 1_000_000), float("inf"))
    go_on(kind(program), 4)


def test_who_is_killed_while_it_waits_comes_back(start: Start) -> None:
    kind = start("inline")
    program = kind.load_benchmark(busy())
    session = kind(program)
    actions = go_on(session, 5, 3)
    fork = session.fork()
    for process in waiting():
        os.kill(process, signal.SIGKILL)
    rest = go_on(session, 6)
    assert go_on(fork, 6) == rest and outcome(fork) == outcome(session)
    alone = kind(program)
    for action in (*actions, *rest):
        alone.apply_action(action)
    assert outcome(alone) == outcome(session)
    assert kind.statistics()["processes_rebuilt"] > 0


def test_who_is_killed_over_an_answer_is_asked_once_more(start: Start) -> None:
    kind = start("inline")
    program = kind.load_benchmark(busy())
    session = kind(program)
    go_on(session, 5, 3)
    (process,) = (psutil.Process(one.process) for one in kind.waiting.processes())
    process.suspend()
    kill = threading.Timer(0.3, process.kill)
    kill.start()
    session.apply_action(KEEP)
    kill.join()
    process = psutil.Process(kind.waiting.processes()[0].process)
    process.suspend()
    kill = threading.Timer(0.3, process.kill)
    kill.start()
    assert session.get_observation("ProjectedImageSizeBytes") > 0
    kill.join()


def test_who_does_not_come_back_in_time_is_ended(start: Start) -> None:
    kind = start("inline")
    session = kind(kind.load_benchmark(busy()))
    go_on(session, 7, 5)
    (process,) = (one.process for one in kind.waiting.processes())
    stopped = psutil.Process(process)
    stopped.suspend()
    DEADLINE.times[kind] = time.monotonic() + 0.2
    with pytest.raises(CompilationError, match="has not come to its next decision in time"):
        session.apply_action(KEEP)
    del DEADLINE.times[kind]
    ended(stopped)
    go_on(session, 8)


@pytest.mark.slow
def test_few_processes_serve_many_sessions(start: Start) -> None:
    kind = start("inline", most_waiting=3)
    session = kind(kind.load_benchmark(busy()))
    forks = []
    for seed in range(12):
        forks.append(session.fork())
        go_on(forks[-1], seed, 5)
        assert len(kind.waiting) <= 3
    outcomes = set()
    for seed, fork in enumerate(forks):
        go_on(fork, 100 + seed)
        outcomes.add(outcome(fork)[0])
        fork.close()
    assert len(outcomes) == len(forks) and len(kind.waiting) == 0
    assert kind.statistics()["processes_rebuilt"] > 5


@contextlib.contextmanager
def descriptors(free: int) -> Iterator[None]:
    """Leave this process only so many descriptors that are free."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
def test_where_the_system_has_no_room_fewer_processes_wait(start: Start) -> None:
    kind = start("inline")
    program = kind.load_benchmark(busy())
    session = kind(program)
    with descriptors(40):
        forks = [session.fork() for _ in range(30)]
        for seed, fork in enumerate(forks):
            go_on(fork, seed, 3)
        assert 0 < len(kind.waiting) < 13
        others = []
        with contextlib.suppress(OSError):
            while True:
                others.append(os.dup(0))
        try:
            go_on(kind(kind.load_benchmark(GROWING)), 1)
        finally:
            for descriptor in others:
                os.close(descriptor)
    for seed, fork in enumerate(forks):
        go_on(fork, seed)
        assert fork.get_observation("Finished")


def test_few_descriptors_are_enough(start: Start) -> None:
    kind = start("inline")
    with descriptors(15):
        session = kind(kind.load_benchmark(busy()))
        go_on(session, 1)
        assert session.get_observation("Finished")


def test_a_program_without_calls_is_finished_at_once(start: Start) -> None:
    kind = start("inline")
    session = kind(kind.load_benchmark(b"define i32 @f(i32 %x) {\n  ret i32 %x\n}\n"))
    assert session.get_observation("Finished") == 1 and session.get_observation("Decisions") == 0
    assert session.get_observation("ObjectImageSizeBytes") > 0


@pytest.mark.few(2)
@pytest.mark.parametrize("place", ["", "a: b:3:4: c.c:5:6"])
@pytest.mark.parametrize("name", ["a: b' not inlined into 'c", "12:34: z", "f-1", "7", "x because y"])
def test_a_call_is_told_whatever_its_function_is_called(start: Start, name: str, place: str) -> None:
    program = f"""
define i32 @"{name}"(i32 %x) {{
  %y = add i32 %x, 1
  ret i32 %y
}}
define i32 @start(i32 %x) {"!dbg !3" if place else ""} {{
  %a = call i32 @"{name}"(i32 %x) {", !dbg !4" if place else ""}
  ret i32 %a
}}
"""
    if place:
        program += """
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "a: b:3:4: c.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "start", scope: !1, file: !1, unit: !0, type: !5)
!4 = !DILocation(line: 5, column: 6, scope: !3)
!5 = !DISubroutineType(types: !{})
"""
    kind = start("inline")
    for action in (KEEP, INLINE):
        session = kind(kind.load_benchmark(program.encode()))
        assert session.get_observation("Remark") == ""
        session.apply_action(action)
        call = {"place": place, "callee": name, "inlined": action == INLINE}
        assert session.get_observation("LastCall") == call


def test_whoever_has_no_such_level_is_told_which_there_are(start: Start) -> None:
    with pytest.raises(CompilationError, match="no level 'O9': there are O1, O2, O3, Os, Oz"):
        start("inline", "O9")


def test_no_process_outlives_a_killed_worker(tmp_path: Path, run_cache: Path) -> None:
    (tmp_path / "program.bc").write_bytes(busy())
    script = f"""
import time
from collections.abc import Iterator
from pathlib import Path
from aiocg.workers.decisions.session import DecisionSession as S
S.start({{"decision": "inline", "cache_dir": {str(run_cache)!r}}})
session = S(S.load_benchmark(Path("program.bc").read_bytes()))
forks = [session.fork() for _ in range(5)]
for fork in forks:
    fork.apply_action(0)
print("ready", flush=True)
time.sleep(60)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, env=environment
    ) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        processes = [psutil.Process(one) for one in waiting(worker.pid)]
        assert len(processes) == 6
        worker.kill()
    for process in processes:
        ended(process)
