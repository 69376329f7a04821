"""Where the workers of a cluster run, and where its sessions go."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiocg.cluster._placement import Placement
from aiocg.fleet.placement import WorkerLoad, candidates, choose_first


def placement(**nodes: tuple[int, int]) -> Placement:
    """Return a placement with nodes of some capacity and limit."""
    machine = Placement()
    for name, (capacity, most) in nodes.items():
        machine.up(name, capacity, most)
    return machine


def loads(machine: Placement, *names: str) -> list[int]:
    return [machine.load(name) for name in names]


def test_workers_are_spread_by_capacity() -> None:
    machine = placement(big=(8, 8), small=(2, 2))
    for worker in range(5):
        machine.place(worker)
    assert loads(machine, "big", "small") == [4, 1]
    assert (machine.target, machine.room) == (10, 5)


def test_processes_with_one_worker_each_do_not_all_choose_the_same_node() -> None:
    chosen: Counter[str | None] = Counter()
    for process in range(300):
        machine = Placement(f"process {process}")
        for name in "abc":
            machine.up(name, 2, 2)
        chosen[machine.place(0)] += 1
    assert set(chosen) == set("abc") and min(chosen.values()) > 60


def test_nodes_take_more_than_they_should_only_when_all_are_full() -> None:
    machine = placement(a=(2, 8), b=(2, 3))
    for worker in range(4):
        machine.place(worker)
    assert loads(machine, "a", "b") == [2, 2]
    for worker in range(4, 11):
        assert machine.place(worker) is not None
    assert loads(machine, "a", "b") == [8, 3]
    assert machine.place(11) is None
    assert machine.room == 0


def test_workers_of_a_lost_node_find_a_place_and_go_back_when_it_returns() -> None:
    machine = placement(a=(2, 4), b=(2, 4))
    for worker in range(4):
        machine.place(worker)
    lost = [worker for worker in range(4) if machine.where(worker) == "a"]
    machine.down("a")
    for worker in lost:
        machine.ended(worker)
    for worker in lost:
        assert machine.place(worker) == "b"
    assert (machine.target, machine.moves()) == (4, [])
    machine.up("a", 2, 4)
    moving = machine.moves()
    assert len(moving) == 2
    for successor, worker in enumerate(moving, start=10):
        assert machine.place(successor) == "a"
        machine.ended(worker)
    assert loads(machine, "a", "b") == [2, 2]
    assert machine.moves() == []


def test_nobody_moves_to_a_node_whose_workers_are_still_to_come() -> None:
    machine = placement(a=(2, 4))
    machine.place(0), machine.place(1)
    machine.up("b", 2, 4)
    assert machine.moves() == []
    machine.place(2), machine.place(3)
    assert loads(machine, "a", "b") == [2, 2]


def test_further_moves_wait_for_those_under_way() -> None:
    machine = placement(a=(4, 8))
    machine.count = 8
    for worker in range(8):
        machine.place(worker)
    machine.up("b", 2, 8)
    first = machine.moves()
    machine.up("c", 2, 8)
    assert len(first) == 2 and machine.moves() == []
    for successor, worker in enumerate(first, start=10):
        machine.place(successor)
        machine.ended(worker)
    assert machine.moves() != []


def test_a_node_that_leaves_gives_its_workers_away_and_is_retired_when_the_last_is_gone() -> None:
    machine = placement(a=(2, 2), b=(2, 2))
    for worker in range(4):
        machine.place(worker)
    machine.drain("a")
    leaving = machine.moves()
    assert {machine.where(worker) for worker in leaving} == {"a"} and len(leaving) == 2
    assert (machine.target, machine.room) == (2, 0)
    assert machine.retired() == []
    for worker in leaving:
        machine.ended(worker)
    assert machine.retired() == ["a"]
    assert machine.load("a") == 0


def test_when_a_lost_node_is_removed_the_workers_that_nobody_should_run_any_more_leave() -> None:
    machine = placement(a=(2, 4), b=(2, 4))
    machine.down("a")
    for worker in range(4):
        machine.place(worker)
    assert machine.moves() == []
    machine.drain("a")
    assert len(machine.moves()) == 2


def test_a_node_that_refuses_is_asked_again_later() -> None:
    machine = placement(a=(1, 1))
    machine.refused("a", until=30.0)
    assert (machine.place(1), machine.room) == (None, 0)
    machine.ticked(29.0)
    assert machine.room == 0
    machine.ticked(30.0)
    assert machine.place(1) == "a"


# ---------------------------------------------------------------------------------------------- any order


class Anything(RuleBasedStateMachine):
    """Nodes come and go in any order, and workers with them."""

    names = st.sampled_from("abcd")

    @initialize()
    def begin(self) -> None:
        self.machine = Placement()
        self.capacity: dict[str, tuple[int, int]] = {}
        self.up: set[str] = set()
        self.draining: set[str] = set()
        self.numbers = 0

    @rule(name=names, capacity=st.integers(1, 4), more=st.integers(0, 3))
    def node_up(self, name: str, capacity: int, more: int) -> None:
        self.machine.up(name, capacity, capacity + more)
        self.capacity[name] = capacity, capacity + more
        self.up.add(name)

    @rule(name=names)
    def down(self, name: str) -> None:
        self.machine.down(name)
        self.up.discard(name)
        for worker in [w for w in range(self.numbers) if self.machine.where(w) == name]:
            self.machine.ended(worker)

    @rule(name=names)
    def drain(self, name: str) -> None:
        self.machine.drain(name)
        if name in self.capacity:
            self.draining.add(name)

    @rule()
    def retire(self) -> None:
        for name in self.machine.retired():
            assert self.machine.load(name) == 0
            self.draining.remove(name)
            self.up.discard(name)
            del self.capacity[name]

    @rule()
    def place(self) -> None:
        room = self.machine.room
        name = self.machine.place(self.numbers)
        assert (name is None) == (room == 0)
        if name is not None:
            assert name in self.up and name not in self.draining
        self.numbers += 1

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def ended(self, data: st.DataObject) -> None:
        self.machine.ended(data.draw(st.integers(0, self.numbers - 1)))

    @rule()
    def move(self) -> None:
        for worker in self.machine.moves():
            name = self.machine.where(worker)
            assert name is not None
            if self.machine.placed > self.machine.target:  # it is one too many, and has no successor
                self.machine.ended(worker)
                continue
            successor = self.machine.place(self.numbers)
            self.numbers += 1
            assert name in self.draining or successor is None or successor != name or self.machine.room == 0
            self.machine.ended(worker)

    @invariant()
    def the_sums_are_right(self) -> None:
        counts = Counter(filter(None, map(self.machine.where, range(self.numbers))))
        assert counts == {name: self.machine.load(name) for name in counts}
        assert counts.total() == self.machine.placed
        stay = self.capacity.keys() - self.draining
        assert self.machine.target == sum(self.capacity[name][0] for name in stay)
        assert self.machine.room == sum(max(0, self.capacity[name][1] - counts[name]) for name in stay & self.up)


TestAnything = Anything.TestCase


# ----------------------------------------------------------------------------------------------- sessions


def test_sessions_of_a_program_prefer_the_same_workers_and_the_load_decides_first() -> None:
    order = candidates("benchmark://a/1", 0, 6)
    assert sorted(order) == list(range(6))
    assert order == candidates("benchmark://a/1", 7, 6)
    assert len({tuple(candidates(f"benchmark://a/{i}", 0, 6)) for i in range(20)}) > 10
    idle = WorkerLoad(True, 1, 0)
    assert choose_first([idle, idle]) == 0
    assert choose_first([WorkerLoad(True, 2, 0), idle]) == 1
    assert choose_first([WorkerLoad(False, 0, 0), idle]) == 1
    assert choose_first([WorkerLoad(False, 0, 0)]) is None


def test_another_worker_leaves_most_programs_where_they_are() -> None:
    programs = [f"benchmark://a/{i}" for i in range(400)]
    moved = sum(candidates(one, 0, 8)[0] != candidates(one, 0, 9)[0] for one in programs)
    assert moved < len(programs) / 4


def test_many_sessions_of_one_program_fill_many_workers_evenly() -> None:
    sessions = [0] * 1000
    for serial in range(5000):
        near = candidates("benchmark://a/1", serial, len(sessions))
        assert len(near) <= 16
        index = choose_first([WorkerLoad(True, sessions[i], 0) for i in near])
        assert index is not None
        sessions[near[index]] += 1
    assert max(sessions) <= 7 and min(sessions) >= 1
