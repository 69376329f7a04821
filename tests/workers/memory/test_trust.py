"""What is believed, what is checked, and when the memory is left alone."""

from aiocg.workers.memory.records import CHECKED, FIRST_REST, LONGEST_REST, PATIENT, Rests, Trust


def test_one_answer_in_a_hundred_is_checked_and_each_by_somebody() -> None:
    steps = [(number << 64 | number, f"pass{number % 124}") for number in range(20_000)]
    checked = [step for step in steps if Trust(b"salt").is_checked(step)]
    assert 150 < len(checked) < 250
    assert all(
        any(Trust(number.to_bytes(8, "little")).is_checked(step) for number in range(10 * CHECKED))
        for step in steps[:50]
    )


def test_wrong_outcomes_end_the_trust_in_their_action_alone() -> None:
    trust = Trust(b"")
    assert trust.trusts("gvn") and trust.trusts("dce")
    assert trust.mistrust("gvn")
    assert not trust.mistrust("gvn")
    assert not trust.trusts("gvn") and trust.trusts("dce")
    assert trust.mistrusted == {"gvn"}


def test_passes_that_differ_between_two_runs_are_never_trusted() -> None:
    trust = Trust(b"", ["gvn-sink", "attributor"])
    for action in ("gvn-sink", "function(gvn,gvn-sink)", "@main(gvn-sink)", "attributor"):
        assert not trust.trusts(action)
    for action in ("gvn", "sink", "attributor-cgscc", "gvn-hoist"):
        assert trust.trusts(action)


def test_memory_that_is_late_many_times_in_a_row_is_left_alone_for_longer_and_longer() -> None:
    rests, now = Rests(), 100.0
    for _ in range(PATIENT - 1):
        rests.late(now)
        assert not rests.rests(now)
    length = FIRST_REST
    for _ in range(10):
        rests.late(now)
        assert rests.rests(now) and rests.rests(now + length - 0.01) and not rests.rests(now + length)
        now += length
        length = min(2 * length, LONGEST_REST)
    rests.answered()
    rests.late(now)
    assert not rests.rests(now)
