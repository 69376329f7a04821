"""The supervisor's decisions: a pure state machine, the clock an argument."""

import signal

import pytest

from aiocg.supervision import (
    KillReason,
    Observation,
    Policy,
    Slot,
    SlotState,
    describe_death,
    is_explained,
    is_outside_kill,
)

POLICY = Policy(
    start_timeout=30.0,
    stall_timeout=5.0,
    max_failed_starts=3,
    healthy_after=10.0,
    first_delay=1.0,
    max_delay=6.0,
    max_death_rate=4,
    rate_window=60.0,
)


def ready(now: float = 0.0) -> Slot:
    slot = Slot(POLICY)
    slot.started(now)
    slot.ready(now)
    return slot


def seen(
    sequence: int = 0, *, deadline: float | None = None, waiting: bool = True, stopped: bool = False
) -> Observation:
    return Observation(sequence, deadline, waiting, stopped)


def test_a_slot_goes_from_waiting_to_starting_to_ready() -> None:
    slot = Slot(POLICY)
    assert slot.state is SlotState.WAITING
    slot.started(1.0)
    assert slot.state is SlotState.STARTING
    slot.ready(2.0)
    assert (slot.state, slot.since) == (SlotState.READY, 2.0)


def test_a_start_that_takes_too_long_is_ended() -> None:
    slot = Slot(POLICY)
    slot.started(100.0)
    assert slot.observed(seen(), 130.0) is None
    assert slot.observed(seen(), 130.1) is KillReason.START
    assert (slot.state, slot.kill_reason) == (SlotState.DYING, KillReason.START)


def test_no_deadline_applies_while_starting() -> None:
    slot = Slot(POLICY)
    slot.started(0.0)
    assert slot.observed(seen(deadline=1.0), 20.0) is None


def test_an_overrun_deadline_is_ended_whatever_the_progress() -> None:
    slot = ready()
    assert slot.observed(seen(2, deadline=7.0), 7.0) is None
    assert slot.observed(seen(4, deadline=7.0), 7.01) is KillReason.DEADLINE


def test_a_long_operation_within_its_deadline_is_no_stall() -> None:
    slot = ready()
    assert slot.observed(seen(2, deadline=1000.0), 900.0) is None


def test_a_worker_with_requests_that_executes_none_has_stalled() -> None:
    slot = ready()
    for now in range(1, 7):
        assert slot.observed(seen(2), now) is None
    assert slot.observed(seen(2), 6.1) is KillReason.STALLED


def test_a_supervisor_that_did_not_look_for_a_while_does_not_blame_the_worker() -> None:
    slot = ready()
    assert slot.observed(seen(2), 1.0) is None
    assert slot.observed(seen(2), 100.0) is None
    assert slot.observed(seen(2), 101.0) is None


def test_progress_puts_a_stall_off() -> None:
    slot = ready()
    for turn in range(1, 20):
        assert slot.observed(seen(turn), 4.0 * turn) is None


def test_an_idle_worker_never_stalls() -> None:
    slot = ready()
    assert slot.observed(seen(2, waiting=False), 1000.0) is None
    assert slot.observed(seen(2, waiting=True), 1004.0) is None


def test_a_stopped_worker_is_ended_before_its_deadline_but_not_at_once() -> None:
    slot = ready()
    for now in range(1, 6):
        assert slot.observed(seen(2, deadline=1000.0, stopped=now > 1), now) is None
    assert slot.observed(seen(2, deadline=1000.0, stopped=True), 6.1) is KillReason.STALLED


def test_a_stopped_worker_that_nobody_waits_for_is_left_alone() -> None:
    slot = ready()
    assert slot.observed(seen(2, waiting=False, stopped=True), 1000.0) is None


def test_nothing_is_done_to_a_worker_that_is_condemned_already() -> None:
    slot = ready()
    slot.condemn(KillReason.GARBAGE, 1.0)
    assert slot.observed(seen(2, deadline=1.0), 100.0) is None
    assert slot.kill_reason is KillReason.GARBAGE


def test_a_new_start_forgets_why_the_last_process_was_ended() -> None:
    slot = ready()
    slot.condemn(KillReason.DEADLINE, 1.0)
    assert slot.died(1.1, explained=True) == 0.0
    slot.started(1.2)
    assert (slot.state, slot.kill_reason) == (SlotState.STARTING, None)


def test_deaths_that_are_explained_cost_no_delay_and_are_not_limited() -> None:
    slot = ready()
    for turn in range(100):
        assert slot.died(turn, explained=True) == 0.0
        slot.started(turn)
        slot.ready(turn)
    assert (slot.deaths, slot.state) == (100, SlotState.READY)


def test_unexplained_deaths_are_delayed_longer_each_time_up_to_a_limit() -> None:
    slot = ready()
    delays = []
    for turn in range(4):
        delays.append(slot.died(20.0 * turn, explained=False))
        slot.started(20.0 * turn)
        slot.ready(20.0 * turn + 15.0)
    assert delays == [1.0, 2.0, 4.0, 6.0]


def test_a_long_life_forgives_the_deaths_before_it() -> None:
    slot = ready()
    assert slot.died(1.0, explained=False) == 1.0
    slot.started(2.0)
    slot.ready(2.0)
    assert slot.died(12.1, explained=False) == 0.0


def test_too_many_unexplained_deaths_in_a_window_end_the_slot() -> None:
    slot = ready()
    for turn in range(4):
        assert slot.died(turn, explained=False) is not None
        slot.started(turn)
        slot.ready(turn)
    assert slot.died(5.0, explained=False) is None
    assert slot.state is SlotState.FAILED


def test_unexplained_deaths_far_apart_never_end_the_slot() -> None:
    slot = ready()
    for turn in range(50):
        assert slot.died(61.0 * turn, explained=False) is not None
        slot.started(61.0 * turn)
        slot.ready(61.0 * turn)


def test_a_slot_that_never_starts_is_given_up() -> None:
    slot = Slot(POLICY)
    for attempt in range(3):
        slot.started(attempt)
        outcome = slot.died(attempt + 0.5, explained=False)
        assert (outcome is None) == (attempt == 2)
    assert slot.state is SlotState.FAILED


def test_starts_that_time_out_count_as_failed_starts() -> None:
    slot = Slot(POLICY)
    outcomes = []
    for attempt in range(3):
        slot.started(100.0 * attempt)
        assert slot.observed(seen(), 100.0 * attempt + 31.0) is KillReason.START
        outcomes.append(slot.died(100.0 * attempt + 32.0, explained=False))
    assert outcomes[-1] is None and None not in outcomes[:-1]


def test_one_successful_start_forgives_the_failed_ones() -> None:
    slot = Slot(POLICY)
    for attempt in range(6):
        slot.started(100.0 * attempt)
        if attempt % 2:
            slot.ready(100.0 * attempt)
        assert slot.died(100.0 * attempt + 1.0, explained=False) is not None


@pytest.mark.parametrize(
    ("return_code", "reason", "outside"),
    [
        (-signal.SIGKILL, None, True),
        (-signal.SIGTERM, None, True),
        (-signal.SIGHUP, None, True),
        (-signal.SIGSEGV, None, False),
        (-signal.SIGABRT, None, False),
        (0, None, False),
        (3, None, False),
        (-signal.SIGKILL, KillReason.DEADLINE, False),
        (-signal.SIGKILL, KillReason.STALLED, True),
        (-signal.SIGKILL, KillReason.GARBAGE, True),
    ],
)
def test_only_crashes_exits_and_deadlines_speak_against_the_program(
    return_code: int, reason: KillReason | None, outside: bool
) -> None:
    assert is_outside_kill(return_code, reason) is outside


@pytest.mark.parametrize(
    ("return_code", "reason", "text"),
    [
        (-signal.SIGSEGV, None, "signal SIGSEGV"),
        (-63, None, "signal 63"),
        (3, None, "exit status 3"),
        (-signal.SIGKILL, KillReason.DEADLINE, "deadline exceeded"),
        (-signal.SIGKILL, KillReason.STALLED, "did not respond"),
    ],
)
def test_a_death_is_described_in_a_few_words(return_code: int, reason: KillReason | None, text: str) -> None:
    assert describe_death(return_code, reason) == text


@pytest.mark.parametrize(
    ("reason", "outside", "executing", "expected"),
    [
        (None, True, False, True),
        (None, False, True, True),
        (None, False, False, False),
        (KillReason.DEADLINE, False, True, True),
        (KillReason.MEMORY, True, False, True),
        (KillReason.START, True, False, False),
        (KillReason.STALLED, True, False, False),
        (KillReason.GARBAGE, True, True, False),
    ],
)
def test_deaths_that_the_worker_brought_on_itself_are_unexplained(
    reason: KillReason | None, outside: bool, executing: bool, expected: bool
) -> None:
    assert is_explained(reason, outside=outside, executing=executing) is expected


def test_garbage_before_the_welcome_is_a_failed_start() -> None:
    slot = Slot()
    slot.started(0.0)
    slot.condemn(KillReason.GARBAGE, 1.0)
    slot.died(1.0, explained=False)
    assert slot.failed_starts == 1
