"""Which nodes of a cluster count as lost."""

import math

from aiocg.cluster._membership import Down, Event, Failed, Membership, Up

PATIENCE, TIMEOUT = 5.0, 60.0
STEP = 0.1


class Watch:
    """A membership, and the silence of its nodes as time passes."""

    def __init__(self, *nodes: str) -> None:
        self.now = 0.0
        self.membership = Membership(PATIENCE, TIMEOUT, self.now)
        self.heard = dict.fromkeys(nodes, 0.0)

    def pass_by(self, seconds: float, *talking: str) -> list[Event]:
        """Let time pass while some nodes are heard; return what happens."""
        events = []
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            for node in talking:
                self.heard[node] = self.now
            silences = {node: self.now - heard for node, heard in self.heard.items()}
            events += self.membership.looked(silences, self.now)
        return events


def test_nodes_that_are_heard_are_up() -> None:
    watch = Watch("a", "b")
    assert watch.pass_by(1.0, "a", "b") == [Up("a"), Up("b")]
    assert watch.membership.up == {"a", "b"}


def test_a_node_that_is_silent_while_another_is_heard_is_lost_and_can_come_back() -> None:
    watch = Watch("a", "b")
    watch.pass_by(1.0, "a", "b")
    assert watch.pass_by(4.9, "b") == []
    assert watch.pass_by(3.0, "b") == [Down("a")]
    assert watch.pass_by(1.0, "a", "b") == [Up("a")]


def test_a_short_silence_is_forgiven() -> None:
    watch = Watch("a", "b")
    watch.pass_by(1.0, "a", "b")
    for _ in range(5):
        assert watch.pass_by(4.0, "b") == []
        assert watch.pass_by(0.1, "a", "b") == []


def test_when_all_are_silent_none_is_lost_and_those_heard_first_afterwards_do_not_cost_the_others_their_place() -> None:
    watch = Watch("a", "b", "c")
    watch.pass_by(1.0, "a", "b", "c")
    assert watch.pass_by(50.0) == []
    assert watch.pass_by(3.0, "a") == []
    assert watch.pass_by(1.0, "a", "b") == []
    assert watch.membership.up == {"a", "b", "c"}


def test_after_all_were_silent_each_has_as_long_again_to_come_back() -> None:
    watch = Watch("a", "b")
    watch.pass_by(1.0, "a", "b")
    watch.pass_by(10.0)
    assert watch.pass_by(12.0, "a") == []
    assert watch.pass_by(3.0, "a") == [Down("b")]
    assert watch.pass_by(1.0, "a", "b") == [Up("b")]
    assert watch.pass_by(7.0, "a") == [Down("b")]


def test_a_node_that_is_gone_is_lost_however_often_all_are_silent() -> None:
    watch = Watch("a", "b")
    watch.pass_by(1.0, "a", "b")
    events = [event for _ in range(10) for event in watch.pass_by(1.0, "a") + watch.pass_by(5.0)]
    assert events == [Down("b")]


def test_when_all_are_silent_for_too_long_the_cluster_fails() -> None:
    watch = Watch("a", "b")
    watch.pass_by(1.0, "a", "b")
    assert Failed() not in watch.pass_by(TIMEOUT)
    assert Failed() in watch.pass_by(3.0)


def test_a_node_that_does_not_want_us_is_lost_at_once_unless_it_is_the_last() -> None:
    membership = Membership(PATIENCE, TIMEOUT, 0.0)
    membership.looked({"a": 0.0, "b": 0.0}, 0.1)
    assert membership.looked({"a": math.inf, "b": 0.0}, 0.2) == [Down("a")]
    assert membership.looked({"a": math.inf, "b": math.inf}, 0.3) == []


def test_while_our_own_process_was_stopped_nobody_was_silent() -> None:
    membership = Membership(PATIENCE, TIMEOUT, 0.0)
    membership.looked({"a": 0.0, "b": 0.0}, 0.1)
    assert membership.looked({"a": 100.0, "b": 0.0}, 100.0) == []


def test_a_node_that_was_removed_is_neither_lost_nor_up() -> None:
    membership = Membership(PATIENCE, TIMEOUT, 0.0)
    membership.looked({"a": 0.0, "b": 0.0}, 0.1)
    membership.left("a")
    assert membership.looked({"a": 0.0, "b": 0.0}, 0.2) == [Up("a")]  # another one, of the same address
    assert membership.looked({"b": 0.0}, 0.3) == []
    assert membership.up == {"b"}
