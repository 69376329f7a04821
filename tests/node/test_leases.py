"""What a node decides: clients, their workers, and what they may use."""

from typing import Any

import pytest

from aiocg.host.launcher import Look
from aiocg.node.leases import (
    MAX_LEASES,
    MESSAGES_AT_ONCE,
    MESSAGES_PER_MINUTE,
    Command,
    End,
    Get,
    Leases,
    Obey,
    Policy,
    Send,
    Start,
)
from aiocg.node.limits import Limits
from aiocg.node.server import Admitted
from aiocg.transport.control import (
    CONTROL_VERSION,
    Attach,
    Attached,
    Authorize,
    Beat,
    Busy,
    Detach,
    Died,
    Fetch,
    Kill,
    Looked,
    Obeyed,
    Order,
    Pulse,
    Refused,
    Retire,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    Survey,
    Surveyed,
)
from aiocg.transport.status import Counts, Execution

POLICY = Policy(lease=30.0, beat=0.5, workers=4, kinds=frozenset({"llvm", "scripted"}), processors=8)
KEY = "k" * 40


def leases(**limits: int) -> Leases:
    """A node with one client of the key "a", attached from the peer b"A" at time 0."""
    made = Leases(POLICY, lambda key: Limits(**{"workers": 3, **limits}), "node")
    attach(made, b"A", "a", "one")
    return made


def wait(node: Leases, start: float, end: float) -> list[Command]:
    """Let time pass as it does for a node that runs; return what it commands."""
    commands: list[Command] = []
    steps = int((end - start) / POLICY.beat)
    for step in range(1, steps + 1):
        commands += node.ticked({}, start + step * POLICY.beat)
    return commands + node.ticked({}, end)


def attach(node: Leases, peer: bytes, key: str, instance: str, now: float = 0.0) -> list[Command]:
    return node.received(peer, key, Attach(CONTROL_VERSION, "aiocg 1", instance), now)


def messages(commands: list[Command], peer: bytes = b"A") -> list[Any]:
    return [command.message for command in commands if isinstance(command, Send) and command.peer == peer]


def spawn(node: Leases, number: int, peer: bytes = b"A", key: str = "a", now: float = 0.0, **fields: Any) -> Any:
    """Ask for a worker; return the command to start it or the refusal, whichever there is."""
    (command,) = node.received(peer, key, Spawn(number, **{"kind": "scripted", **fields}), now)
    return command.message if isinstance(command, Send) else command


def running(node: Leases, number: int, peer: bytes = b"A", key: str = "a", now: float = 0.0) -> int:
    """Have a worker started; return its number on the node."""
    start = spawn(node, number, peer, key, now)
    assert isinstance(start, Start)
    node.started(start.worker, 5000, KEY, 99)
    return start.worker


def test_who_attaches_is_told_the_lease_and_the_limits() -> None:
    node = Leases(POLICY, lambda key: Limits(workers=3, sessions=7), "node")
    (attached,) = messages(attach(node, b"A", "a", "one"))
    assert (attached.lease, attached.beat, attached.node, attached.workers) == (30.0, 0.5, "node", 3)
    assert attached.limits["sessions"] == 7


def test_a_spawned_worker_is_told_of_and_asking_again_starts_no_other() -> None:
    node = leases()
    start = spawn(node, 1)
    assert node.received(b"A", "a", Spawn(1, "scripted"), 0.1) == []  # it is being started
    spawned = Spawned(1, 5000, KEY, 99)
    assert node.started(start.worker, 5000, KEY, 99) == [Send(b"A", spawned)]
    assert node.received(b"A", "a", Spawn(1, "scripted"), 0.2) == [Send(b"A", spawned)]
    node.died(start.worker, -11, Look(4), "words", 1.0)
    assert messages(node.received(b"A", "a", Spawn(1, "scripted"), 1.1)) == [Died(1, -11, 4, None, "words")]


def test_death_is_told_until_a_beat_no_longer_names_the_worker() -> None:
    node = leases()
    worker = running(node, 1)
    node.died(worker, 3, Look(), "", 1.0)
    for sequence in (1, 2):
        answers = messages(node.received(b"A", "a", Beat(sequence, (1,)), 1.0))
        assert answers == [Died(1, 3), Pulse(sequence)]
    assert messages(node.received(b"A", "a", Beat(3, ()), 1.0)) == [Pulse(3)]
    assert messages(node.received(b"A", "a", Beat(4, (1,)), 1.0)) == [Pulse(4, unknown=(1,))]


def test_a_worker_that_a_beat_does_not_name_is_ended_once() -> None:
    node = leases()
    first, _ = running(node, 1), running(node, 2)
    assert End(first) in node.received(b"A", "a", Beat(1, (2,)), 0.0)
    assert messages(node.received(b"A", "a", Beat(2, (2,)), 0.0)) == [Pulse(2, (node_look(node, 2),))]
    assert node.died(first, -9, Look(), "", 0.1) == []  # nobody wants to know


def node_look(node: Leases, number: int) -> Any:
    (lease,) = node.leases.values()
    look = lease.holders[number].look
    return Looked(number, look.sequence, look.memory)


def test_an_old_beat_that_comes_late_ends_nothing() -> None:
    node = leases()
    node.received(b"A", "a", Beat(5, ()), 0.0)
    running(node, 1)
    assert node.received(b"A", "a", Beat(4, ()), 0.1) == []
    assert node.count("a") == 1


def test_kill_ends_a_worker_and_its_death_is_told() -> None:
    node = leases()
    worker = running(node, 1)
    assert node.received(b"A", "a", Kill(1), 0.0) == [End(worker)]
    assert node.received(b"A", "a", Kill(1), 0.0) == []
    assert messages(node.died(worker, -9, Look(), "", 0.0)) == [Died(1, -9)]
    assert node.received(b"A", "a", Kill(77), 0.0) == []


def test_workers_live_as_long_as_the_lease_and_no_longer() -> None:
    node = leases()
    worker = running(node, 1)
    node.received(b"A", "a", Beat(1, (1,)), 10.0)
    assert End(worker) not in wait(node, 10.0, 39.9)
    assert wait(node, 39.9, 40.1) == [End(worker)]
    assert messages(node.received(b"A", "a", Beat(2, (1,)), 40.2)) == [
        Refused("unattached", "this node does not know this client: attach first")
    ]


def test_a_node_that_was_stopped_for_long_takes_nobody_for_gone() -> None:
    node = leases()
    worker = running(node, 1)
    wait(node, 0.0, 10.0)
    assert node.ticked({}, 500.0) == []  # what was sent meanwhile is still to be read
    assert End(worker) not in wait(node, 500.0, 519.0)
    assert End(worker) in wait(node, 519.0, 521.0)


def test_who_comes_back_within_the_lease_has_its_workers_whatever_the_connection() -> None:
    node = leases()
    running(node, 1)
    assert messages(node.received(b"B", "a", Beat(1, (1,)), 5.0), b"B")[0].code == "unattached"
    assert isinstance(messages(attach(node, b"B", "a", "one", 6.0), b"B")[0], Attached)
    (pulse,) = messages(node.received(b"B", "a", Beat(1, (1,)), 7.0), b"B")
    assert pulse.unknown == () and [look.number for look in pulse.looks] == [1]


def test_a_name_that_another_key_uses_leads_to_nothing_of_its_owner() -> None:
    node = leases()
    running(node, 1)
    for message in (Beat(1, ()), Kill(1), Spawn(2, "scripted")):  # from A's own address, were that possible
        assert messages(node.received(b"A", "b", message, 0.0))[0].code == "unattached"
    assert node.received(b"A", "b", Detach(), 0.0) == []
    attach(node, b"B", "b", "one")  # the same instance, another key
    assert messages(node.received(b"B", "b", Beat(1, (1,)), 0.0), b"B") == [Pulse(1, unknown=(1,))]
    assert node.count("a") == 1


def test_detach_ends_everything_of_one_process_and_nothing_of_another() -> None:
    node = leases()
    attach(node, b"B", "a", "two")
    mine, other = running(node, 1), running(node, 1, b"B")
    told = Send(b"A", Refused("detached", "the client has left"))
    assert node.received(b"A", "a", Detach(), 0.0) == [End(mine), told]
    assert End(other) not in node.ticked({}, 1.0)


def test_a_key_has_so_many_workers_in_all_its_processes() -> None:
    node = leases()
    attach(node, b"B", "a", "two")
    running(node, 1), running(node, 2), running(node, 1, b"B")
    refused = spawn(node, 3)
    assert isinstance(refused, SpawnRefused)
    assert refused.retry is None
    assert "its maximum of 3 workers" in refused.message
    attach(node, b"C", "c", "one")
    first = spawn(node, 1, b"C", "c")
    assert isinstance(first, Start)
    full = spawn(node, 2, b"C", "c")
    assert "the node is full: it runs 4 workers" in full.message and full.retry is None


def test_a_worker_that_is_ending_or_whose_client_is_silent_is_worth_waiting_for() -> None:
    node = leases(workers=2)
    attach(node, b"B", "a", "two")
    running(node, 1)
    worker = running(node, 1, b"B")
    assert spawn(node, 2).retry is None
    node.received(b"B", "a", Kill(1), 0.0)
    assert spawn(node, 3).retry is not None
    node.died(worker, -9, Look(), "", 0.0)
    running(node, 2, b"B")
    assert spawn(node, 4, now=10.0).retry is not None  # the other process has not been heard since 0
    node.received(b"B", "a", Beat(1, (2,)), 11.0)
    assert spawn(node, 5, now=11.0).retry is None


def test_a_process_waits_for_its_first_worker_and_not_for_more() -> None:
    node = leases(workers=1)
    worker = running(node, 1)
    assert spawn(node, 2).retry is None
    attach(node, b"B", "a", "two")
    assert spawn(node, 1, b"B").retry is not None
    node.received(b"A", "a", Kill(1), 0.0)
    node.died(worker, -9, Look(), "", 0.0)
    assert isinstance(spawn(node, 2, b"B"), Start)


def test_a_key_starts_so_many_workers_a_minute() -> None:
    node = leases(spawns_per_minute=2)
    for number in (1, 2):
        node.died(running(node, number), -9, Look(), "", 0.0)
    refused = spawn(node, 3)
    assert refused.retry == pytest.approx(30.0)
    assert "may start 2 workers per minute" in refused.message
    assert isinstance(spawn(node, 4, now=30.1), Start)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "gcc"}, "no workers of kind 'gcc'; it has: llvm, scripted"),
        ({"kind": "/bin/sh"}, "no workers of kind"),
        ({"options": {"clang": 1}}, "does not accept the option 'clang' from clients, only: module_cache_bytes, tr"),
        ({"options": {"transition_cache_bytes": -1}}, "must be from 0"),
        ({"options": {"transition_cache_bytes": float("nan")}}, "must be from 0"),
    ],
)
def test_what_no_client_may_ask_for_is_refused_for_good(fields: dict[str, Any], says: str) -> None:
    refused = spawn(leases(), 1, **fields)
    assert isinstance(refused, SpawnRefused)
    assert says in refused.message
    assert refused.retry is None


@pytest.mark.parametrize(("asked", "gets"), [(0, 1000), (500, 500), (5000, 1000)])
def test_a_worker_gets_no_more_memory_than_its_key_may_have(asked: int, gets: int) -> None:
    assert spawn(leases(memory=1000), 1, memory_limit=asked).memory_limit == gets


def test_a_process_that_cannot_be_started_is_refused_for_the_moment() -> None:
    node = leases()
    start = spawn(node, 1)
    (refused,) = messages(node.failed(start.worker, "no more processes"))
    assert refused.retry is not None and "no more processes" in refused.message
    assert node.count("a") == 0


def test_a_worker_that_was_let_go_while_it_started_is_ended_and_counts_until_it_is_gone() -> None:
    node = leases(workers=1)
    start = spawn(node, 1)
    assert End(start.worker) in node.received(b"A", "a", Detach(), 0.0)
    assert node.started(start.worker, 5000, KEY, 1) == []
    attach(node, b"B", "a", "two")
    assert spawn(node, 1, b"B").retry is not None
    node.died(start.worker, -9, Look(), "", 0.0)
    assert isinstance(spawn(node, 2, b"B"), Start)


def test_changes_are_told_unasked_and_what_stays_is_not() -> None:
    node = leases()
    worker = running(node, 1)
    look = Look(8, Execution(1, 2, 3, -1, started=4.0, deadline=9.0), False, 5)
    (pulse,) = messages(node.ticked({worker: look}, 5.0))
    assert pulse.looks[0].stated == Stated(1, 2, 3, -1, elapsed=1.0, left=4.0)
    assert node.ticked({worker: look}, 6.0) == []
    assert len(node.ticked({worker: look}, 9.1)) == 1  # its deadline has passed
    assert node.ticked({worker: look}, 9.2) == []
    (answer,) = messages(node.received(b"A", "a", Beat(1, (1,)), 10.0))  # asked, it tells everything
    assert answer.looks[0].stated.left == -1.0


def test_a_revoked_key_loses_its_workers_and_no_other_does() -> None:
    node = leases()
    attach(node, b"B", "b", "one")
    mine, other = running(node, 1), running(node, 1, b"B", "b")
    assert node.revoked("a") == [End(mine)]
    assert [command.worker for command in node.close() if isinstance(command, End)] == [other]


def test_a_closing_node_serves_nobody_and_is_closed_when_all_processes_are_gone() -> None:
    node = leases()
    worker = running(node, 1)
    commands = node.close()
    assert End(worker) in commands and messages(commands)[0].code == "closing"
    assert messages(attach(node, b"A", "a", "one"))[0].code == "closing"
    assert not node.closed
    node.died(worker, -9, Look(), "", 0.0)
    assert node.closed


def test_a_key_cannot_be_held_by_processes_without_end() -> None:
    node = leases()
    for index in range(MAX_LEASES - 1):
        assert isinstance(messages(attach(node, b"X%d" % index, "a", str(index)), b"X%d" % index)[0], Attached)
    (refused,) = messages(attach(node, b"Y", "a", "more"), b"Y")
    assert (refused.code, len(node.leases)) == ("busy", MAX_LEASES)


def test_a_flood_of_messages_of_one_key_is_dropped_and_those_of_others_are_heard() -> None:
    node = leases()
    assert node.hear("a", 100, 0.0) == 100
    assert node.hear("a", MESSAGES_AT_ONCE, 0.0) == MESSAGES_AT_ONCE - 100
    assert [node.hear("a", 1, 0.0), node.hear("b", 1, 0.0)] == [0, 1]
    assert node.hear("a", 10**6, 1.0) == MESSAGES_PER_MINUTE // 60
    assert node.hear("a", 10**6, 1000.0) == MESSAGES_AT_ONCE


def test_a_survey_is_answered_with_the_sums_over_all_clients() -> None:
    node = leases()
    attach(node, b"B", "b", "two")
    first, second = running(node, 1), running(node, 1, b"B", "b")
    doing = Execution(1, 2, 3, -1, started=4.0, deadline=9.0)
    looks = {first: Look(8, doing, memory=5, counts=Counts(3, 0, 10, 1)), second: Look(2, counts=Counts(2, 0, 20, 2))}
    node.ticked(looks, 5.0)
    node.died(second, -9, looks[second], "", 5.1)
    (surveyed,) = messages(node.received(b"A", "a", Survey(), 5.2))
    busy = (Busy(99, True, 2, 3, pytest.approx(1.2), pytest.approx(3.8)),)
    assert surveyed == Surveyed(2, 1, POLICY.workers, 1, 3, 30, 3, 5, POLICY.processors, busy)
    (surveyed,) = messages(node.received(b"B", "b", Survey(), 5.2), b"B")
    assert surveyed.longest == (Busy(99, False, 0, 0, pytest.approx(1.2), pytest.approx(3.8)),)  # not what others do


@pytest.mark.parametrize("order", [Authorize({"alice": KEY}), Retire()])
def test_an_order_is_taken_from_the_owner_only(order: Order) -> None:
    node = Leases(POLICY, lambda key: Limits(), "node", lambda key: key == "b")
    attach(node, b"A", "a", "one")
    attach(node, b"B", "b", "two")
    (answer,) = node.received(b"A", "a", order, 1.0)
    assert isinstance(answer, Send) and "only from whoever invited" in answer.message.problem  # type: ignore[union-attr]
    assert node.received(b"B", "b", order, 1.0) == [Send(b"B", Obeyed()), Obey(order)]
    (refused,) = messages(node.received(b"C", "b", order, 1.0), b"C")  # who has not attached gives no orders
    assert isinstance(refused, Refused) and refused.code == "unattached"


def test_whom_the_owner_names_is_let_in_beside_him_until_he_names_others() -> None:
    admitted = Admitted()
    assert admitted.names() == {} and not admitted.is_owner("")
    admitted.joined("owner's")
    admitted.named({"alice": "alice's", "bob": "bob's"})
    assert set(admitted.names()) == {"owner's", "alice's", "bob's"}
    admitted.named({"bob": "bob's", "myself": "owner's"})
    assert admitted.names() == {"bob's": "bob", "owner's": "whoever invited"}
    assert admitted.is_owner("owner's") and not admitted.is_owner("bob's")


def test_a_client_that_is_attached_has_programs_fetched_and_nobody_else() -> None:
    node = leases()
    fetch = Fetch(bytes(32), 5, "tcp://other:1", KEY, KEY)
    assert node.received(b"A", "a", fetch, 0.1) == [Get(b"A", "a", fetch)]
    (refused,) = messages(node.received(b"S", "a", fetch, 0.1), b"S")
    assert refused.code == "unattached"


def test_what_a_busy_worker_does_is_told_now_and_then_and_that_it_overran_a_deadline_at_once() -> None:
    node = leases()
    worker = running(node, 1)
    told = []
    for tick in range(1, 41):  # for two seconds, it does something else at each look
        now = tick * 0.05
        look = Look(tick, Execution(1, 1, tick, -1, now, now + 60.0))
        told += [now] * len(messages(node.ticked({worker: look}, now)))
    assert 6 <= len(told) <= 8
    (before,) = messages(node.ticked({worker: Look(99, Execution(1, 1, 99, -1, 2.2, 2.35))}, 2.3))
    assert before.looks[0].sequence == 99 and not node.ticked({}, 2.34)
    (overrun,) = messages(node.ticked({}, 2.36))
    assert overrun.looks[0].stated.left < 0
