"""The chaos program: what decides and what judges is tested by itself, and a short run shows that it all works."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

import aiocg
import aiocg.testing
from bench.chaos import checks, remains
from bench.chaos.faults import FAULTS, MISDEEDS, NAMES, Fault, Kill, Target, misdeed
from bench.chaos.injector import Appointment, Injector, schedule
from bench.chaos.ledger import Ledger, LedgerTail, LedgerWriter
from bench.chaos.remains import Remains, SearchArea
from bench.chaos.witness import Sample, Sighting
from bench.chaos.world import LLVM, SCRIPTED, Form, Settings, Walk, value_after, walks

CHECKOUT = Path(__file__).resolve().parent.parent


SMALL = Settings(seed=3, environments=10, seconds=40.0, faults=NAMES)

Lines = list[list[Any]]


def chaos(*arguments: str, timeout: float = 110.0) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.chaos", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=timeout)


# ------------------------------------------------------------------------------------------------------- world


def test_walks_follow_from_the_seed_alone() -> None:
    other = Settings(seed=4, environments=10, seconds=40.0)
    assert walks(SMALL) == walks(SMALL) != walks(other)
    assert walks(SMALL)[:4] == walks(Settings(seed=3, environments=4, seconds=40.0))
    assert Settings.from_dict(json.loads(json.dumps(SMALL.to_dict()))) == SMALL


def test_walks_have_all_forms_of_requests_and_both_compilers() -> None:
    paths = walks(Settings(environments=200))
    kinds = Counter(path.environment for path in paths)
    assert kinds == {LLVM: 140, SCRIPTED: 60}
    turns = [turn for path in paths for episode in path.episodes for turn in episode.turns]
    assert {turn.form for turn in turns} == set(Form)
    assert 0.003 < sum(turn.misdeed is not None for turn in turns) / len(turns) < 0.03
    assert [turn.number for episode in paths[0].episodes for turn in episode.turns] == list(range(60))


def test_arithmetic_is_that_of_the_scripted_compiler() -> None:
    assert value_after(3, ["double", "increment", "square", "nap"]) == 50
    assert value_after(2**60, ["square"]) == pow(2**60, 2, 2**61 - 1)
    with pytest.raises(ValueError, match="arithmetic"):
        value_after(3, ["abort"])


# -------------------------------------------------------------------------------------------- faults, injector


def test_every_fault_has_a_name_of_its_own_and_says_how() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(FAULTS) + len(MISDEEDS) + 1
    assert all(one.how and one.weight > 0 for one in (*FAULTS, *MISDEEDS))


def test_misdeeds_are_chosen_by_seed_among_those_that_are_allowed() -> None:
    chosen = [misdeed(seed, SCRIPTED, NAMES) for seed in range(200)]
    assert chosen == [misdeed(seed, SCRIPTED, NAMES) for seed in range(200)]
    assert {one.name for one in chosen if one} == {one.name for one in MISDEEDS if one.environment == SCRIPTED}
    assert {one.name for seed in range(50) if (one := misdeed(seed, LLVM, ["llvm-hang", "hang"]))} == {"llvm-hang"}
    assert misdeed(1, LLVM, ["hang", "kill"]) is None


def test_the_schedule_begins_with_each_fault_once_and_follows_from_the_seed() -> None:
    first = list(islice(schedule(SMALL), 40))
    assert first == list(islice(schedule(SMALL), 40))
    assert {one.name for one in first[: len(FAULTS)]} == {fault.name for fault in FAULTS}
    assert all(0 < b.after - a.after < 20 for a, b in pairwise(first))
    assert first != list(islice(schedule(Settings(seed=4, faults=NAMES)), 40))
    assert {one.name for one in islice(schedule(Settings(faults=("stop", "hang"))), 9)} == {"stop"}
    assert list(schedule(Settings(faults=("hang",)))) == []


class Noise(Fault):
    """A fault that takes note of what is done with it."""

    name, how = "noise", "nothing is done"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.impossible = ""
        self.aimless = False
        self.moment = True

    def opportune(self, target: Target) -> bool:
        return self.moment

    def obstacle(self, target: Target) -> str:
        return self.impossible

    def strike(self, target: Target, rng: random.Random) -> str | None:
        self.done.append(f"struck {rng.random():.3f}")
        return None if self.aimless else "all"

    def lasts(self, rng: random.Random) -> float:
        return 2.0

    def mend(self, target: Target) -> None:
        self.done.append("mended")


def injector(noise: Noise, *times: float) -> Injector:
    target = Target(list, set, Path(), Path(), "", Path())
    return Injector(iter([Appointment(time, "noise", 5) for time in times]), target, [noise])


def test_faults_are_done_when_they_are_due_and_mended_when_they_have_lasted() -> None:
    noise = Noise()
    one = injector(noise, 1.0, 10.0)
    for elapsed in (0.0, 0.9, 1.1, 2.9):
        one.turn(elapsed, 100 + elapsed)
    assert noise.done == [f"struck {random.Random(5).random():.3f}"]
    assert [(struck.when, struck.name, struck.what) for struck in one.struck] == [(101.1, "noise", "all")]
    one.turn(3.2, 103.2)
    one.turn(3.3, 103.3)
    assert noise.done[1:] == ["mended"]
    one.turn(10.1, 110.1)
    one.end()
    assert noise.done[2:] == ["struck 0.623", "mended"]


def test_a_fault_waits_for_a_good_moment_but_not_for_long() -> None:
    noise = Noise()
    one = injector(noise, 1.0, 2.0)
    noise.moment = False
    one.turn(1.1, 1.1)
    assert noise.done == []
    noise.moment = True
    one.turn(1.2, 1.2)
    noise.moment = False
    one.turn(2.1, 2.1)
    assert len(one.struck) == 1
    one.turn(2.6, 2.6)
    assert len(one.struck) == 2


def test_busy_workers_are_preferred() -> None:
    workers = [(pid, "llvm", Path()) for pid in (11, 12, 13)]
    kill = FAULTS[0]()
    assert isinstance(kill, Kill)
    busy = Target(lambda: workers, lambda: {12, 99}, Path(), Path(), "", Path())
    idle = Target(lambda: workers, set, Path(), Path(), "", Path())
    assert kill.opportune(busy) and not kill.opportune(idle)
    assert {kill.victim(busy, random.Random(seed)) for seed in range(20)} == {(12, "llvm")}
    assert len({kill.victim(idle, random.Random(seed)) for seed in range(40)}) == 3


def test_what_cannot_be_done_is_counted_with_its_reason() -> None:
    noise = Noise()
    one = injector(noise, 0.0, 0.0)
    noise.impossible = "needs root"
    one.turn(1.0, 1.0)
    noise.impossible, noise.aimless = "", True
    one.turn(1.0, 1.0)
    assert one.struck == []
    assert one.skipped == {("noise", "needs root"): 1, ("noise", "there was nothing to do it to"): 1}


# ------------------------------------------------------------------------------------------------------ ledger


def test_a_ledger_is_read_as_it_was_written_also_while_it_is_written(tmp_path: Path) -> None:
    tail = LedgerTail(tmp_path / "ledger")
    assert tail.more() == []
    writer = LedgerWriter(tmp_path / "ledger")
    writer.write("asked", 1, "step 0")
    assert [line[1:] for line in tail.more()] == [["asked", 1, "step 0"]]
    with (tmp_path / "ledger").open("ab") as file:
        file.write(b'[1.0, "mark"')
    assert tail.more() == []
    with (tmp_path / "ledger").open("ab") as file:
        file.write(b', "walking"]\n')
    writer.write("answered", 1, "step 0", [2**64 - 1], 3)
    writer.close()
    assert len(tail.more()) == 2
    ledger = Ledger.read(tmp_path / "ledger")
    assert (ledger.marks, ledger.acknowledged) == ({"walking": 1.0}, 1)
    assert ledger.answers[1, "step 0"][0].states == (2**64 - 1,)


# ------------------------------------------------------------------------------------------------------ checks


def faultless(paths: list[Walk]) -> Lines:
    """Write what a client writes when all goes well; LLVM's hashes are made up."""
    lines: Lines = [[0.0, "mark", "walking"]]

    def ask(walk: Walk, request: str, states: list[int], taken: int) -> None:
        lines.append([1.0, "asked", walk.index, request])
        lines.append([1.5, "answered", walk.index, request, states, taken])

    for walk in paths:
        state = 0
        for episode in walk.episodes:
            start, taken = int(episode.benchmark.split("/")[-1]) if walk.scripted else 0, list[str]()

            def after(*actions: str, walk: Walk = walk, start: int = start, taken: list[str] = taken) -> int:
                done = [*taken, *actions]
                return value_after(start, done) if walk.scripted else hash((walk.index, *map(len, done))) % 2**64

            ask(walk, f"reset {episode.turns[0].number}", [after()], 0)
            for turn in episode.turns:
                name = f"{turn.form} {turn.number}"
                match turn.form:
                    case Form.STEP:
                        taken += turn.actions
                        ask(walk, name, [after()], len(taken))
                    case Form.BURST:
                        for number, action in enumerate(turn.actions):
                            taken.append(action)
                            ask(walk, f"{name}.{number}", [after()], len(taken))
                    case Form.FORK:
                        ask(walk, name, [after(*turn.actions)], len(taken))
                    case Form.EXPAND:
                        ask(walk, name, [after(action) for action in turn.actions], len(taken))
            state = after()
        lines.append([2.0, "final", walk.index, state])
    return lines


@pytest.fixture(scope="module")
def paths() -> list[Walk]:
    return walks(SMALL)


@pytest.fixture
def lines(paths: list[Walk]) -> Lines:
    return faultless(paths)


def judge(lines: Lines, paths: list[Walk]) -> list[str]:
    """Return the rules that a ledger breaks, beside a faultless one."""
    reference, ledger = Ledger.of(faultless(paths)), Ledger.of(lines)
    found = [
        *checks.nobody_else_ended(ledger),
        *checks.everybody_arrived(ledger, paths),
        *checks.states_are_the_same(reference, ledger),
        *checks.nothing_was_lost(reference, ledger),
        *checks.everything_happened_once(ledger, paths),
        *checks.misdeeds_became_errors(ledger, {}, 1.0),
    ]
    return [violation.rule for violation in found]


def find(lines: Lines, paths: list[Walk], event: str, *, scripted: bool, form: str = "step") -> list[Any]:
    """Return the line of an event of an environment of one kind."""
    wanted = {walk.index for walk in paths if walk.scripted is scripted}
    return next(line for line in lines if line[1] == event and line[2] in wanted and form in str(line[3:]))


def test_a_faultless_ledger_breaks_no_rule(lines: Lines, paths: list[Walk]) -> None:
    assert judge(lines, paths) == []


def drop_answer(lines: Lines, paths: list[Walk]) -> None:
    lines.remove(find(lines, paths, "answered", scripted=False))


def drop_part_of_a_burst(lines: Lines, paths: list[Walk]) -> None:
    lines.remove(find(lines, paths, "answered", scripted=True, form="burst"))


def drop_request(lines: Lines, paths: list[Walk]) -> None:
    drop_answer(lines, paths)
    lines.remove(find(lines, paths, "asked", scripted=False))


def answer_twice(lines: Lines, paths: list[Walk]) -> None:
    lines.append(list(find(lines, paths, "answered", scripted=False)))


def ask_twice(lines: Lines, paths: list[Walk]) -> None:
    lines.append(list(find(lines, paths, "asked", scripted=False)))


def change_hash(lines: Lines, paths: list[Walk]) -> None:
    find(lines, paths, "answered", scripted=False)[4][0] ^= 1


def change_final_hash(lines: Lines, paths: list[Walk]) -> None:
    find(lines, paths, "final", scripted=False, form="")[3] ^= 1


def change_number(lines: Lines, paths: list[Walk]) -> None:
    find(lines, paths, "answered", scripted=True, form="expand")[4][0] += 1


def take_one_more(lines: Lines, paths: list[Walk]) -> None:
    find(lines, paths, "answered", scripted=False)[5] += 1


def end_somebody(lines: Lines, paths: list[Walk]) -> None:
    line = find(lines, paths, "answered", scripted=False)
    lines[lines.index(line)] = [1.5, "ended", line[2], line[3], "WorkerCrashed: it died"]


def stop_half_way(lines: Lines, paths: list[Walk]) -> None:
    lines.remove(find(lines, paths, "final", scripted=False, form=""))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("damage", "rules"),
    [
        (drop_answer, {"lost"}),
        (drop_part_of_a_burst, {"lost"}),
        (drop_request, {"not asked"}),
        (answer_twice, {"answered twice"}),
        (ask_twice, {"asked twice"}),
        (change_hash, {"another state"}),
        (change_final_hash, {"another final state"}),
        (change_number, {"another state", "done twice or never"}),
        (take_one_more, {"done twice or never"}),
        (end_somebody, {"ended without fault"}),
        (stop_half_way, {"did not arrive"}),
    ],
)
def test_each_damage_to_a_ledger_is_found(
    damage: Callable[[Lines, list[Walk]], None], rules: set[str], lines: Lines, paths: list[Walk]
) -> None:
    damage(lines, paths)
    assert set(judge(lines, paths)) == rules


def test_an_answer_that_comes_late_after_the_last_fault_of_its_slot_is_found() -> None:
    lines: Lines = [[1.0, "asked", one, "step 0", f"llvm {one}"] for one in (1, 2, 3)]
    lines += [[1.0, "asked", 4, "reset 0", "llvm 4"]]
    lines += [[4.0, "over", "llvm 1"], [9.0, "over", "llvm 2"], [30.0, "over", "llvm 1"], [8.0, "over", "llvm 9"]]
    lines += [[15.0, "answered", one, "step 0", [5], 1, f"llvm {one if one < 3 else 9}"] for one in (1, 2, 3)]
    lines += [[15.0, "answered", 4, "reset 0", [5], 0, "llvm 4"]]
    ledger = Ledger.of(lines)
    assert checks.waits(ledger) == {(1, "step 0"): 11.0, (2, "step 0"): 6.0, (3, "step 0"): 7.0}
    assert [(one.rule, one.who) for one in checks.answers_were_in_time(ledger)] == [
        ("late answer", "environment 1, step 0")
    ]


def test_an_action_that_was_done_twice_is_found_without_another_run(lines: Lines, paths: list[Walk]) -> None:
    line = find(lines, paths, "answered", scripted=True)
    line[4] = [value_after(line[4][0], ["increment"])]
    assert "done twice or never" in {
        violation.rule for violation in checks.everything_happened_once(Ledger.of(lines), paths)
    }


@pytest.mark.parametrize(
    ("error", "told", "harmless", "rules"),
    [
        ("DeadlineExceeded", 6.2, True, []),
        ("DeadlineExceeded", 6.4, True, ["late error"]),
        ("WorkerCrashed", 15.2, True, []),
        ("WorkerCrashed", 15.4, True, ["late error"]),
        ("", 6.2, True, ["wrong error"]),
        ("SessionLost", 6.2, True, ["wrong error"]),
        ("DeadlineExceeded", 6.2, False, ["harmed others"]),
        (None, 0.0, True, ["no error"]),
    ],
)
def test_a_misdeed_must_become_its_error_in_time(
    error: str | None, told: float, harmless: bool, rules: list[str]
) -> None:
    lines: Lines = [[1.0, "misdeed", 2, 7, "hang", 0.300004]]
    if error is not None:
        lines.append([told, "consequence", 0.300004, error, "words", harmless])
    ledger = Ledger.of(lines)
    sightings = {300004: Sighting(99, 5.0, 5.3), 60000000: Sighting(98, 1.0, 9.0)}
    assert [one.rule for one in checks.misdeeds_became_errors(ledger, sightings, 1.0)] == rules
    assert checks.judged(ledger, sightings) == (error is not None)
    assert checks.misdeeds_became_errors(ledger, {}, 1.0) == [
        one for one in checks.misdeeds_became_errors(ledger, sightings, 1.0) if one.rule != "late error"
    ]


MARKS = {"walking": 10.0, "finished": 20.0, "rested": 21.0, "busy": 22.0}


@pytest.mark.parametrize(
    ("descriptors", "memory", "zombies", "rules"),
    [
        (40, 100, {}, []),
        (60, 100, {}, ["descriptors leak"]),
        (40, 180, {}, ["memory grows"]),
        (40, 100, {7: (11.0, 11.5)}, []),
        (40, 100, {7: (11.0, 18.0)}, ["zombie"]),
    ],
)
def test_what_the_client_uses_must_be_flat(
    descriptors: int, memory: int, zombies: dict[int, tuple[float, float]], rules: list[str]
) -> None:
    samples = [Sample(when, 40, 90 << 20, 6) for when in (9.0, 11.0)] + [Sample(12.0, 90, 100 << 20, 9)]
    samples.append(Sample(21.5, descriptors, memory << 20, 6))
    assert [one.rule for one in checks.use_is_flat(samples, MARKS, zombies)] == rules


def test_a_death_by_a_signal_that_was_sent_is_a_violation() -> None:
    lines = [
        [4.0, "over", "llvm 1"],
        [5.0, "over", "llvm 1", "signal SIGSEGV"],
        [6.0, "over", "llvm 2", "signal SIGFPE"],
    ]
    (found,) = checks.sent_signals_did_nothing(Ledger.of(lines))
    assert (found.rule, found.details) == ("died of what was sent", "signal SIGFPE")


def test_workers_that_did_not_come_back_and_remains_are_violations() -> None:
    assert checks.workers_came_back(4, 4) == [] and checks.workers_came_back(4, 3)[0].rule == "workers gone"
    left = Remains(processes=("1 a", "2 b"), files=("/tmp/x",))
    rules = [one.rule for one in checks.nothing_remains(left, "the client")]
    assert rules == ["processes remain", "processes remain", "files remain"]
    assert not left.nothing and checks.nothing_remains(Remains(), "the client") == []


# ----------------------------------------------------------------------------------------------------- remains


def test_what_is_left_is_found(tmp_path: Path) -> None:
    caches, shared = tmp_path / "caches", tmp_path / "shared"
    shared.mkdir()
    temporary = Path(f"/tmp/chaos-test-{os.getpid()}")
    (caches / "ab").mkdir(parents=True)
    temporary.mkdir()
    child = subprocess.Popen(["sleep", "100"], env={**os.environ, remains.MARK: "a mark of this test"})
    try:
        area = SearchArea("a mark of this test", temporary, caches, shared)
        assert remains.look(replace(area, mark="another mark"), {}).nothing
        (shared / "psm").touch()
        (caches / "ab" / ".new-1").touch()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(temporary / "s"))
            found = remains.look(area, {})
        assert [line.split()[0] for line in found.processes] == [str(child.pid)]
        assert found.sockets == (str(temporary / "s"),)
        assert found.memory == (str(shared / "psm"),)
        assert found.files == (str(temporary / "s"), str(caches / "ab" / ".new-1"))
        known = {child.pid: psutil.Process(child.pid).create_time()}
        child.send_signal(signal.SIGKILL)
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            pass
        assert len(remains.look(area, known).zombies) == 1
        child.wait()
        assert remains.look(area, known).zombies == ()
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(temporary)


# ---------------------------------------------------------------------------------------------------- all of it


@pytest.mark.slow
def test_an_unknown_fault_is_refused_with_the_known_ones() -> None:
    done = chaos("--fault", "nonesuch")
    assert done.returncode == 2 and "bad-reply" in done.stderr


async def test_environments_go_on_when_the_folder_is_removed_and_workers_are_killed() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(3))
        await env.reset()
        assert runtime.folder is not None
        shutil.rmtree(runtime.folder)
        assert (await env.step("double"))[0] == 6  # what is connected stays so
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        assert (await env.step("double"))[0] == 12


@pytest.mark.slow
def test_a_short_run_breaks_no_promise(tmp_path: Path) -> None:
    small = ("--seconds", "6", "--environments", "24", "--workers", "2", "--pause", "0.25", "--gap", "0.4")
    done = chaos(*small, "--seed", "2", "--grace", "10", "--json", str(tmp_path / "chaos.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "chaos.json").read_text())
    counts = found["counts"]
    assert counts["environments that arrived"] == 24
    assert counts["requests acknowledged"] == counts["requests made"] == counts["requests of the undisturbed run"] > 500
    assert counts["faults from outside"] >= 8 and counts["misdeeds"] >= 3
    assert counts["episodes that ended without fault"] == counts["left by the killed client"] == 0
    assert found["violations"] == [] and "--seed 2" in found["reproduction"]


# ----------------------------------------------------------------------------------------------------- cluster


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_searches_find_the_same_while_nodes_are_killed() -> None:
    command = [sys.executable, "-m", "bench.chaos.cluster", "--minutes", "0.4", "--every", "5"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["kills"] >= 2 and outcome["searches"] and not outcome["wrong"] and not outcome["sessions_lost"]
