"""The supervisor's decisions: a pure state machine, the clock an argument."""

import math
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.fleet.restart_policy import (
    Exhausted,
    KillReason,
    Observation,
    Policy,
    SlotLifecycle,
    SlotState,
    describe_death,
    is_explained,
    is_outside_kill,
)

DEATHS = st.lists(
    st.tuples(
        st.floats(0.0, 30.0),  # seconds it took to start
        st.one_of(st.none(), st.floats(0.0, 120.0)),  # seconds that it lived then, None if it never said welcome
        st.sampled_from(["explained", "unexplained", "cancelled"]),
    ),
    max_size=60,
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


def ready(now: float = 0.0) -> SlotLifecycle:
    slot = SlotLifecycle(POLICY)
    slot.started(now)
    slot.ready(now)
    return slot


def seen(
    sequence: int = 0, *, deadline: float | None = None, waiting: bool = True, stopped: bool = False
) -> Observation:
    return Observation(sequence, deadline, waiting, stopped)


def test_a_slot_goes_from_waiting_to_starting_to_ready() -> None:
    slot = SlotLifecycle(POLICY)
    assert slot.state is SlotState.WAITING
    slot.started(1.0)
    assert slot.state is SlotState.STARTING
    slot.ready(2.0)
    assert (slot.state, slot.since) == (SlotState.READY, 2.0)


def watched(slot: SlotLifecycle, what: Observation, since: float, until: float) -> KillReason | None:
    """Look at a worker again and again, and say what the last look leads to."""
    for tick in range(int(since * 4) + 1, int(until * 4)):
        assert slot.observed(what, tick / 4) is None
    return slot.observed(what, until)


def test_a_start_that_takes_too_long_is_ended() -> None:
    slot = SlotLifecycle(POLICY)
    slot.started(100.0)
    assert watched(slot, seen(), 100.0, 130.0) is None
    assert slot.observed(seen(), 130.1) is KillReason.START
    assert (slot.state, slot.kill_reason) == (SlotState.DYING, KillReason.START)


def test_a_start_that_nobody_watched_has_not_taken_too_long() -> None:
    slot = SlotLifecycle(POLICY)
    slot.started(0.0)
    for turn in range(1, 50):  # the client is busy for a minute each time, or was stopped
        assert slot.observed(seen(), 60.0 * turn) is None
    assert watched(slot, seen(), 2940.0, 2950.0) is None


def test_sessions_need_not_wait_for_a_worker_that_takes_much_longer_than_others_did() -> None:
    slot = ready()
    assert not slot.is_missing(1.0, 50.0)
    assert slot.died(50.0, explained=True) == 0.0
    slot.started(50.1)
    looks = []
    for tick in range(1, 30):
        looks.append(slot.is_missing(1.0, 50.0 + tick / 4))
        slot.observed(seen(), 50.0 + tick / 4)
    assert looks.index(True) == 12 and all(looks[12:])  # after 1 s, and twice the second
    assert not slot.is_missing(10.0, 57.5)  # where a start may take as long
    slot.ready(57.5)
    assert not slot.is_missing(1.0, 57.5) and slot.longest_start == pytest.approx(7.4)


def test_a_start_that_nobody_watched_was_not_long() -> None:
    slot = SlotLifecycle(POLICY)
    slot.started(0.0)
    slot.observed(seen(), 0.2)
    slot.ready(60.0)
    assert slot.longest_start < 0.5


def test_sessions_do_not_move_because_nobody_looked() -> None:
    slot = ready()
    assert not slot.is_missing(0.0, 1.0)
    slot.died(1.0, explained=True)
    for turn in range(1, 4):
        assert not slot.is_missing(0.0, 100.0 * turn)


def test_a_slot_that_was_given_up_is_tried_again_after_longer_and_longer_times() -> None:
    slot, now, waits = SlotLifecycle(Policy(max_deaths=0, recovery_delay=60.0)), 0.0, []
    for _ in range(7):
        slot.started(now)
        slot.ready(now)
        assert slot.died(now + 1.0, explained=True) is None and slot.state is SlotState.FAILED
        given_up = now = now + 1.0
        while not slot.may_return(now):
            now += 30.0
        waits.append(now - given_up)
        assert slot.state is SlotState.WAITING and (slot.deaths, slot.exhausted) == (0, None)
    assert waits == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0, 960.0]
    slot.started(now)
    slot.ready(now)
    assert slot.died(now + 100.0, explained=True) is None  # it has lived for long, so this is another matter
    assert not slot.may_return(now + 159.0) and slot.may_return(now + 160.0)


def test_no_deadline_applies_while_starting() -> None:
    slot = SlotLifecycle(POLICY)
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
    assert slot.observed(seen(2), 1.0) is None
    assert watched(slot, seen(2), 1.0, 6.0) is None
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
    assert slot.observed(seen(2, deadline=1000.0), 1.0) is None
    assert watched(slot, seen(2, deadline=1000.0, stopped=True), 1.0, 6.0) is None
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


def test_deaths_that_are_explained_cost_no_delay() -> None:
    slot = ready()
    for turn in range(100):
        assert slot.died(turn, explained=True) == 0.0
        slot.started(turn)
        slot.ready(turn)
    assert (slot.deaths, slot.state, slot.exhausted) == (100, SlotState.READY, None)


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
    slot = SlotLifecycle(POLICY)
    for attempt in range(3):
        slot.started(attempt)
        outcome = slot.died(attempt + 0.5, explained=False)
        assert (outcome is None) == (attempt == 2)
    assert slot.state is SlotState.FAILED


def test_starts_that_time_out_count_as_failed_starts() -> None:
    slot = SlotLifecycle(POLICY)
    outcomes = []
    for attempt in range(3):
        slot.started(100.0 * attempt)
        assert watched(slot, seen(), 100.0 * attempt, 100.0 * attempt + 30.0) is None
        assert slot.observed(seen(), 100.0 * attempt + 30.1) is KillReason.START
        outcomes.append(slot.died(100.0 * attempt + 32.0, explained=False))
    assert outcomes[-1] is None and None not in outcomes[:-1]


def test_one_successful_start_forgives_the_failed_ones() -> None:
    slot = SlotLifecycle(POLICY)
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
    slot = SlotLifecycle()
    slot.started(0.0)
    slot.condemn(KillReason.GARBAGE, 1.0)
    slot.died(1.0, explained=False)
    assert slot.failed_starts == 1


# --------------------------------------------------------------------------------------------------- budgets


def live(slot: SlotLifecycle, now: float, start: float, life: float | None, how: str) -> tuple[float, float | None]:
    """Lead a slot through one process; return when it died and what came of that."""
    slot.started(now)
    now += start
    if life is not None:
        slot.ready(now)
        now += life
    if how == "cancelled":
        slot.condemn(KillReason.CANCELLED, now)
    return now, slot.died(now, explained=how == "explained")


@given(DEATHS)
def test_no_budget_is_overdrawn_and_none_is_ended_that_is_not(deaths: list[tuple[float, float | None, str]]) -> None:
    numbers = {"max_failed_starts": 3, "max_death_rate": 4, "max_explained_rate": 5, "max_deaths": 12}
    slot, now = SlotLifecycle(Policy(start_patience=0.0, **numbers)), 0.0
    times: dict[str, list[float]] = {"explained": [], "unexplained": []}
    failed = 0
    for start, life, how in deaths:
        now, delay = live(slot, now, start, life, how)
        if how != "cancelled":
            times[how].append(now)
        failed = 0 if life is not None else failed + (how == "unexplained")
        recent = {kind: sum(now - time < 60.0 for time in some) for kind, some in times.items()}
        limits = [failed >= 3, recent["unexplained"] > 4, recent["explained"] > 5]
        over = [*limits, sum(map(len, times.values())) > 12]
        if how != "cancelled":
            assert (delay is None) == any(over)
        if delay is None:
            assert slot.state is SlotState.FAILED and slot.exhausted is not None
            assert slot.exhausted.deaths >= slot.exhausted.allowed == getattr(slot.policy, slot.exhausted.limit)
            return
        assert slot.state is SlotState.WAITING and slot.exhausted is None and 0.0 <= delay <= slot.policy.max_delay
        now += delay


@pytest.mark.parametrize(("how", "life"), [("unexplained", 0.0), ("unexplained", 1.0), ("explained", 0.1)])
def test_what_dies_at_once_and_again_is_given_up_within_two_minutes(how: str, life: float) -> None:
    slot, now = SlotLifecycle(), 0.0
    while True:
        now, delay = live(slot, now, 0.15, life, how)
        if delay is None:
            break
        now += delay
    assert now < 120.0


def test_the_budgets_say_what_happened_how_often_and_in_what_time() -> None:
    slot = SlotLifecycle(Policy(max_explained_rate=2))
    for now in (10.0, 20.0, 30.0):
        live(slot, now, 1.0, 4.0, "explained")
    assert slot.exhausted == Exhausted("max_explained_rate", 2, 3, 20.0)
    slot = SlotLifecycle(Policy(max_deaths=1))
    for now in (10.0, 5000.0):
        live(slot, now, 1.0, 4.0, "explained")
    assert slot.exhausted == Exhausted("max_deaths", 1, 2, 4995.0)


# ------------------------------------------------------------------------------------ memory and cancellation


def large(memory: int, *, waiting: bool = True) -> Observation:
    return Observation(0, None, waiting, memory=memory)


def test_one_that_has_grown_is_drained_when_its_successor_is_up() -> None:
    slot = ready()
    grown = large(POLICY.memory_threshold + 1)
    assert slot.observed(grown, 1.0) is None
    assert slot.outgrown(grown, 1.0) and not slot.outgrown(grown, 1.1)  # it is asked for once
    assert slot.observed(large(POLICY.memory_threshold + 1, waiting=False), 1.2) is None
    assert slot.drain() and slot.state is SlotState.DRAINING
    assert slot.observed(grown, 2.1) is None
    assert slot.next_look(grown, 2.1) < 2.11
    assert slot.observed(large(POLICY.memory_threshold + 1, waiting=False), 2.2) is KillReason.MEMORY
    assert slot.died(2.3, explained=True) == 0.0


def test_one_that_is_drained_keeps_its_deadlines() -> None:
    slot = ready()
    assert slot.drain()
    assert slot.observed(seen(2, deadline=5.0), 5.1) is KillReason.DEADLINE


def test_one_that_is_dying_or_starting_is_not_drained() -> None:
    slot = ready()
    slot.condemn(KillReason.GARBAGE, 1.0)
    assert not slot.drain()
    slot.died(1.2, explained=False)
    slot.started(1.3)
    assert not slot.drain() and not slot.outgrown(large(1 << 60), 1.4)


def test_the_loss_and_the_leaving_of_nodes_spend_no_budget_however_often_they_happen() -> None:
    slot = SlotLifecycle(POLICY)
    for attempt in range(2000):
        now = 0.01 * attempt
        slot.started(now)
        slot.ready(now)
        if attempt % 2:
            assert slot.drain(KillReason.MOVED)
            assert slot.observed(large(0, waiting=False), now) is KillReason.MOVED
        else:
            slot.condemn(KillReason.LOST, now)
        assert slot.died(now, explained=True) == 0.0
    assert (slot.deaths, slot.exhausted) == (0, None)


def test_one_past_twice_the_threshold_is_ended_at_once() -> None:
    assert ready().observed(large(2 * POLICY.memory_threshold + 1), 1.0) is KillReason.MEMORY


def test_what_grows_again_at_once_is_left_alone_for_a_while() -> None:
    slot = ready()
    assert slot.outgrown(large(POLICY.memory_threshold + 1), 1.0)
    slot.started(2.0)
    slot.ready(2.0)
    assert not slot.outgrown(large(POLICY.memory_threshold + 1), 60.0)
    assert slot.outgrown(large(POLICY.memory_threshold + 1), 61.1)


def unwanted(until: float | None, deadline: float = 1000.0) -> Observation:
    return Observation(2, deadline, waiting=True, unwanted_until=until)


def test_what_nobody_waits_for_is_ended_when_its_grace_is_over() -> None:
    slot = ready()
    assert slot.observed(unwanted(None), 5.0) is None
    assert slot.observed(unwanted(5.05), 5.0) is None
    assert slot.next_look(unwanted(5.05), 5.0) == 5.05
    assert slot.observed(unwanted(5.05), 5.05) is KillReason.CANCELLED
    assert slot.died(5.1, explained=True) == 0.0 and slot.deaths == 0


def test_the_next_look_is_when_something_is_to_come() -> None:
    slot = ready()
    assert slot.next_look(seen(2), 1.0) == math.inf
    assert slot.next_look(seen(2, deadline=1.01), 1.0) == 1.01
    assert slot.next_look(unwanted(1.005, deadline=1.01), 1.0) == 1.005


def test_one_that_nobody_can_connect_to_is_replaced_at_once_and_is_not_to_blame() -> None:
    slot = SlotLifecycle(POLICY)
    slot.started(1.0)
    lost = Observation(2, None, waiting=False, unreachable=True)
    assert slot.observed(lost, 1.1) is KillReason.UNREACHABLE
    assert is_explained(KillReason.UNREACHABLE, outside=True, executing=False)
    slot = ready()
    assert slot.observed(lost, 1.0) is None  # what is connected stays so


def test_starts_that_fail_for_a_moment_are_forgiven_where_one_has_succeeded() -> None:
    slot = SlotLifecycle(
        Policy(max_failed_starts=3, start_patience=10.0, first_delay=1.0, max_delay=1.0, max_death_rate=99)
    )
    slot.proven = True
    for turn in range(8):
        slot.started(turn)
        assert slot.died(turn + 0.5, explained=False) == 1.0
    slot.started(20.0)
    slot.ready(21.0)
    slot.died(22.0, explained=True)
    for turn in range(10):
        slot.started(30.0 + turn)
        assert slot.died(30.5 + turn, explained=False) is not None
    slot.started(41.0)
    assert slot.died(41.5, explained=False) is None and slot.exhausted is not None
    assert slot.exhausted.limit == "max_failed_starts"


def test_deaths_whose_cause_was_found_are_forgiven() -> None:
    slot = SlotLifecycle(Policy(max_death_rate=2))
    for turn in range(6):
        slot.started(turn)
        slot.ready(turn)
        if turn % 2:
            slot.forgive()
        assert slot.died(turn + 0.5, explained=bool(turn % 2)) is not None
