"""What a client says to a node, and what it makes of the answers."""

import pytest

from aiocg.host.launcher import Look
from aiocg.node.attachment import KILL_PATIENCE, KILLED, SILENT_BEATS, Attachment, Ended
from aiocg.transport.control import (
    CONTROL_VERSION,
    Attach,
    Attached,
    Beat,
    Died,
    FromClient,
    Kill,
    Looked,
    Pulse,
    Refused,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    Survey,
    Surveyed,
)
from aiocg.transport.errors import VersionError

KEY = "k" * 40
BEAT = 0.5
HELLO = Attached(30.0, BEAT, "node", {}, 2)


def attachment() -> Attachment:
    """A client that has attached at 0 and has said so."""
    client = Attachment("aiocg 1", "me", 0.0)
    assert sent(client, 0.0) == [Attach(CONTROL_VERSION, "aiocg 1", "me")]
    client.received(HELLO, 0.0)
    assert sent(client, 0.0) == [Beat(1, ())]
    return client


def sent(client: Attachment, now: float) -> list[FromClient]:
    """Return what it sends now."""
    return client.ticked(now)[0]


def running(client: Attachment, now: float = 0.0) -> int:
    """Have a worker; return its number."""
    number = client.spawn("llvm", {}, 0)
    sent(client, now)
    assert client.received(Spawned(number, 5000, KEY, 99), now) == [Spawned(number, 5000, KEY, 99)]
    return number


def listen(client: Attachment, start: float, end: float) -> list[Ended]:
    """Let time pass without a word from the node."""
    events = []
    for step in range(1, int((end - start) / 0.1) + 1):
        events += client.ticked(start + step * 0.1)[1]
    return [event for event in events if isinstance(event, Ended)]


def test_it_attaches_again_and_again_until_it_is_answered() -> None:
    client = Attachment("aiocg 1", "me", 0.0)
    attach = Attach(CONTROL_VERSION, "aiocg 1", "me")
    assert [sent(client, now) for now in (0.0, 0.1, 0.3, 0.4, 0.6)] == [[attach], [], [attach], [], [attach]]


def test_a_spawn_goes_out_at_once_and_with_each_beat_until_it_is_answered() -> None:
    client = attachment()
    number = client.spawn("llvm", {"transition_cache_bytes": 5}, 7)
    spawn = Spawn(number, "llvm", {"transition_cache_bytes": 5}, 7)
    assert sent(client, 0.1) == [spawn]
    assert sent(client, 0.2) == []
    assert sent(client, 0.6) == [Beat(2, (number,)), spawn]
    assert client.received(SpawnRefused(number, "full", 2.0), 0.7) == [SpawnRefused(number, "full", 2.0)]
    assert client.received(Spawned(number, 5000, KEY, 99), 0.8) == []  # another answer, to what was said twice
    assert sent(client, 1.2) == [Beat(3, ())]


def test_a_kill_goes_out_until_the_worker_is_dead() -> None:
    client = attachment()
    number = running(client)
    client.kill(number, 0.1)
    assert sent(client, 0.1) == [Kill(number)]
    assert sent(client, 0.6) == [Beat(2, (number,)), Kill(number)]
    assert client.received(Died(number, -9, 4, None, "words"), 0.7) == [Ended(number, -9, Look(4), "words")]
    assert client.received(Died(number, -9), 0.8) == []
    assert sent(client, 1.2) == [Beat(3, ())]


def test_a_killed_worker_of_a_node_that_is_silent_is_not_waited_for() -> None:
    client = attachment()
    number = running(client)
    look = Looked(number, 8, stated=Stated(1, 2, 3, -1, 0.5, 1.5))
    client.received(Pulse(1, (look,)), 0.2)
    client.kill(number, 0.2)
    (ended,) = listen(client, 0.2, 0.2 + KILL_PATIENCE + 0.2)
    assert (ended.number, ended.status) == (number, KILLED)
    assert ended.look.execution is not None and ended.look.execution.request == 3


def test_workers_that_the_node_does_not_know_are_gone_and_nobody_is_to_blame() -> None:
    client = attachment()
    number, wanted = running(client), client.spawn("llvm", {}, 0)
    client.received(Pulse(1, (Looked(number, 8, stated=Stated(1, 2, 3, -1, 0.5, 1.5)),)), 0.2)
    assert client.received(Pulse(2, (), (number, wanted)), 0.3) == [Ended(number, KILLED, Look(lost=True))]
    assert client.starting() == [wanted]


def test_it_attaches_anew_when_the_node_does_not_know_it() -> None:
    client = attachment()
    number = running(client)
    client.received(Refused("unattached", "attach first"), 0.1)
    assert sent(client, 0.1) == [Attach(CONTROL_VERSION, "aiocg 1", "me")]
    client.received(HELLO, 0.2)
    assert sent(client, 0.2) == [Beat(2, (number,))]


def test_another_version_is_an_error() -> None:
    with pytest.raises(VersionError, match="speaks version 9"):
        attachment().received(Refused("protocol", "the node speaks version 9"), 0.1)


def test_times_are_those_of_our_clock() -> None:
    client = attachment()
    number = running(client)
    client.received(Pulse(1, (Looked(number, 8, 5, True, Stated(1, 2, 3, 4, 0.5, 1.5)),)), 10.0)
    look = client.look(number, 10.0)
    assert look is not None and look.execution is not None
    assert (look.sequence, look.memory, look.stopped) == (8, 5, True)
    assert (look.execution.candidate, look.execution.started, look.execution.deadline) == (4, 9.5, 11.5)


def test_a_deadline_is_over_when_the_worker_was_seen_after_it() -> None:
    client = attachment()
    number = running(client)
    client.received(Pulse(1, (Looked(number, 8, stated=Stated(1, 2, 3, -1, 0.5, 1.5)),)), 10.0)

    def deadline(now: float) -> float:
        look = client.look(number, now)
        assert look is not None and look.execution is not None
        return look.execution.deadline

    assert deadline(11.0) == 11.5
    assert deadline(12.0) > 12.0  # it may have got done by then
    client.received(Pulse(1, (Looked(number, 8, stated=Stated(1, 2, 3, -1, 2.6, -0.6)),)), 12.1)
    assert deadline(12.2) == 11.5


def test_a_worker_that_cannot_be_seen_is_taken_to_be_at_work() -> None:
    client = attachment()
    number = running(client)
    client.received(Pulse(1, (Looked(number, 8),)), 0.2)
    sequences = []
    for step in range(60):
        client.ticked(now := 0.2 + step * 0.1)
        look = client.look(number, now)
        assert look is not None
        sequences.append(look.sequence)
    silent = int(SILENT_BEATS * BEAT / 0.1) + 1
    assert set(sequences[:silent]) == {8}
    assert len(set(sequences[silent + 1 :])) == len(sequences[silent + 1 :])


def test_a_busy_program_does_not_take_the_node_for_silent() -> None:
    client = attachment()
    listen(client, 0.0, 1.0)
    client.ticked(400.0)  # the event loop was busy, and what the node said is still to be read
    assert not client.is_silent(400.0)
    listen(client, 400.0, 402.0)
    assert client.is_silent(402.0)


def test_it_remembers_why_the_node_would_not_have_it() -> None:
    client = attachment()
    client.received(Refused("closing", "the node is being stopped"), 0.1)
    assert client.refusal == "the node is being stopped"
    assert sent(client, 0.6) == [Attach(CONTROL_VERSION, "aiocg 1", "me")]
    client.received(HELLO, 0.7)
    assert client.refusal == ""


def test_a_survey_is_asked_for_with_each_beat_until_it_is_answered() -> None:
    client = attachment()
    client.survey()
    assert sent(client, 0.1) == [Survey()]
    assert sent(client, 0.2) == []
    assert sent(client, BEAT) == [Beat(2, ()), Survey()]
    said = Surveyed(1, 2, 8, 1, 5, 100, 3, 1 << 20, 2)
    assert client.received(said, BEAT) == [] and client.surveyed == said
    assert sent(client, 2 * BEAT) == [Beat(3, ())]
