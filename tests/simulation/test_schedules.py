"""Whatever befalls workers in a simulated world, what was acknowledged counts once and nobody innocent is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiocg.fleet.slot import WorkerSlot
from bench.simulation.loop import Deadlock, Endless, VirtualLoop
from bench.simulation.mutants import MUTANTS, Mutant
from bench.simulation.schedule import draw, play, shrink
from bench.simulation.world import FAULTS, NODE_FAULTS, REQUESTS, Move

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_schedules_hold(first: int) -> None:
    for seed in range(first, first + 50):
        assert not (outcome := play(seed, draw(seed))).problem, f"seed {seed}: {outcome.details}"


FOUND: dict[str, tuple[int, list[Move]]] = {
    "an innocent request convicted because a worker was killed for starting too slowly": (
        8543,
        [
            ("expand", 4, 3, 491628783),
            ("fork", 2, 0, 636735625),
            ("wait", 5, 0, 778047843),
            ("fork", 4, 3, 343382770),
            ("harm", 0, 1, 500793650),
            ("node dies", 1, 2, 922128425),
            ("wait", 4, 2, 317418289),
            ("node dies", 0, 1, 812856574),
            ("set and leave", 0, 2, 187785180),
            ("nap", 2, 4, 5000779),
            ("part", 0, 0, 926494390),
        ],
    ),
    "a fork of a lost session kept on its worker": (
        1242,
        [
            ("fork", 0, 5, 1065738614),
            ("forget", 2, 0, 559393679),
            ("expand", 1, 4, 927067799),
            ("set and leave", 5, 3, 426655339),
            ("fork", 2, 4, 676646731),
        ],
    ),
    "a request that one worker had died over lost with the slot": (
        19926,
        [
            ("slow starts", 5, 4, 26890648),
            ("kill all", 0, 0, 1056497538),
            ("wait", 2, 4, 648418159),
            ("bad starts", 3, 4, 169687193),
            ("kill", 5, 5, 1072168703),
            ("block", 3, 4, 62565054),
            ("wait", 2, 1, 154049473),
            ("no spawn", 3, 2, 149653592),
            ("kill all", 4, 4, 689295870),
            ("garble", 2, 4, 446238693),
        ],
    ),
    "trials of several doubted sessions that repeat slow actions for longer than ten seconds": (
        2007714,
        [
            ("nap", 0, 5, 504161715),
            ("fork", 2, 5, 180796466),
            ("expand", 3, 2, 337180682),
            ("step", 4, 4, 366058631),
            ("kill soon", 2, 1, 358087082),
            ("bad starts", 5, 0, 456899401),
            ("fork", 3, 5, 325718387),
            ("harm", 2, 3, 235942995),
            ("everybody", 2, 4, 878397155),
            ("everybody", 1, 4, 661403727),
            ("everybody", 1, 1, 125903458),
        ],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_failed_once_holds(name: str) -> None:
    assert not (outcome := play(*FOUND[name])).problem, outcome.details


def test_every_kind_of_move_is_drawn() -> None:
    drawn = {what for seed in range(400) for what, *_ in draw(seed)}
    assert drawn == {*FAULTS, *NODE_FAULTS, *REQUESTS, "doze", "node goes"}


def test_runs_of_a_seed_are_the_same_whatever_the_hash_seed() -> None:
    program = "from bench.simulation.schedule import *; print([play(s, draw(s)).checksum for s in range(40)])"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_a_failing_schedule_is_shrunk_to_moves_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    resume = WorkerSlot._resume

    def forgetful(slot: WorkerSlot) -> None:
        bound = set(slot.residents.bound)
        resume(slot)
        slot.residents.bound |= bound

    monkeypatch.setattr(WorkerSlot, "_resume", forgetful)
    seed = next(seed for seed in range(200) if play(seed, draw(seed)).problem)
    fewer = shrink(seed, draw(seed))
    assert play(seed, fewer).problem
    assert len(fewer) <= 4
    assert all(not play(seed, fewer[:i] + fewer[i + 1 :]).problem for i in range(len(fewer)))


# --- Planted faults

FINDABLE = [mutant for mutant in MUTANTS if mutant.seed is not None]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FINDABLE, ids=lambda mutant: mutant.name)
def test_planted_fault_is_found(mutant: Mutant) -> None:
    command = [sys.executable, "-m", "bench.simulation", "--plant", mutant.name, "--first", str(mutant.seed)]
    run = subprocess.run([*command, "--count", "1"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 1 and "1 failed" in run.stdout, run.stderr


def test_schedules_that_find_planted_faults_hold_without_them() -> None:
    for seed in sorted({mutant.seed for mutant in FINDABLE if mutant.seed is not None}):
        assert not (outcome := play(seed, draw(seed))).problem, f"seed {seed}: {outcome.details}"


# --- The loop


def test_time_jumps_to_the_next_timer_and_the_world_goes_on_beside_a_busy_loop() -> None:
    loop, seen = VirtualLoop(), []
    began = loop.time()
    loop.happen(1.0, lambda: seen.append(loop.time() - began))
    loop.happen(2.0, lambda: loop.call_soon(lambda: seen.append(loop.time() - began)))
    loop.call_later(0.5, loop.skip, 5.0)
    loop.call_later(6.0, loop.stop)
    loop.run_forever()
    loop.close()
    assert seen == [1.0, 5.5]


def test_a_program_that_waits_for_nothing_is_a_deadlock_and_one_that_never_waits_endless() -> None:
    loop = VirtualLoop()
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Endless):
        loop.run_forever()
    loop.close()
