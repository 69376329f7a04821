"""A cluster that loses machines all the time, simulated: what its decisions cost, and that nothing is lost.

    python -m bench.cluster_simulation                   # 10,000 workers, 100,000 sessions, ten minutes
    python -m bench.cluster_simulation --machines 10     # a smaller one

The state machines are those that a runtime uses (`aiocg.cluster._membership`, `aiocg.cluster._placement` and
`aiocg.fleet.placement`); machines, processes and time are made up. Machines die at random and come back after a while.
Sessions end and others begin. A session is lost when it belongs to no worker that runs or waits for its start.
Times are processor time, with half a microsecond of the clock's own.
"""

import argparse
import heapq
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

from aiocg.cluster._membership import Down, Membership, Up
from aiocg.cluster._placement import Placement
from aiocg.cluster.machine import PATIENCE
from aiocg.fleet.placement import WorkerLoad, candidates, choose_first, choose_worker

TICK = 0.05  # seconds between looks at the machines, as in a runtime
START = 1.5  # seconds until a worker has started
PROGRAMS = 500

T = TypeVar("T")


class World:
    """Machines, worker slots with their sessions, and the clock.

    Args:
        machines: how many.
        size: workers that each should run; it may run twice as many.
        sessions: how many there are at any time.
        deaths: share of the machines that die per second.
        away: seconds until a dead machine is back.
        turnover: sessions that end, and begin, per second.
    """

    def __init__(
        self, machines: int, size: int, sessions: int, deaths: float, away: float, turnover: int, seed: int
    ) -> None:
        self.dice = random.Random(seed)
        self.now = 0.0
        self.machines = {f"tcp://machine-{i}:5757": True for i in range(machines)}
        self.size, self.deaths, self.away, self.turnover = size, deaths, away, turnover
        self.heard = dict.fromkeys(self.machines, 0.0)
        self.membership = Membership(PATIENCE, 60.0, 0.0)
        self.placement = Placement()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.counts: dict[str, int] = defaultdict(int)
        self.serials = itertools.count()
        self.workers = itertools.count()
        self.slots: list[int | None] = [None] * (machines * size)  # the worker of each slot
        self.usable = [True] * len(self.slots)
        self.slot_of: dict[int, int] = {}
        self.members: list[list[int]] = [[] for _ in self.slots]  # the sessions of each slot
        self.home: dict[int, int] = {}
        self.waits: list[float] = []  # seconds for which a session had no running worker
        self.lost_at: dict[int, float] = {}  # slots without a running worker, since when
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.ties = itertools.count()
        self.look()
        for slot in range(len(self.slots)):
            self.fill(slot)
        for _ in range(sessions):
            self.open()

    def timed(self, name: str, count: int, call: Callable[[], T]) -> T:
        """Make a decision, and note what each of the `count` events in it cost."""
        began = time.thread_time()
        result = call()
        self.times[name].append((time.thread_time() - began) / max(1, count))
        self.counts[name] += count
        return result

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Do something in a while."""
        heapq.heappush(self.due, (self.now + seconds, next(self.ties), call))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += TICK
            while self.due and self.due[0][0] <= self.now:
                heapq.heappop(self.due)[2]()
            alive = [name for name, lives in self.machines.items() if lives]
            for name in alive:
                self.heard[name] = self.now
                if self.dice.random() < self.deaths * TICK:
                    self.machines[name] = False
                    self.counts["machines that died"] += 1
                    self.later(self.away, lambda name=name: self.machines.update({name: True}))  # type: ignore[misc]
                    for worker in [w for w in self.slot_of if self.placement.where(w) == name]:
                        self.lost_at.setdefault(self.slot_of[worker], self.now)
            self.look()
            for _ in range(round(self.turnover * TICK)):
                self.close(self.dice.randrange(len(self.home)))
                self.open()

    def look(self) -> None:
        """Look at the machines, and carry out what follows."""
        silences = {name: self.now - heard for name, heard in self.heard.items()}
        events = self.timed("Beat", len(silences), lambda: self.membership.looked(silences, self.now))
        for event in events:
            if isinstance(event, Up):
                name = event.node
                self.timed("NodeUp", 1, lambda name=name: self.placement.up(name, self.size, 2 * self.size))  # type: ignore[misc]
            elif isinstance(event, Down):
                name = event.node
                self.timed("Down", 1, lambda name=name: self.placement.down(name))  # type: ignore[misc]
                for worker in [w for w in self.slot_of if self.placement.where(w) == name]:
                    self.end(worker)
        self.placement.ticked(self.now)
        began = time.thread_time()
        moves = self.placement.moves()
        if moves:
            self.times["Move"].append((time.thread_time() - began) / len(moves))
            self.counts["Move"] += len(moves)
        for worker in moves:
            self.later(START, lambda worker=worker: self.move(worker))  # type: ignore[misc]
        for slot in [slot for slot, usable in enumerate(self.usable) if not usable][: self.placement.room]:
            self.usable[slot] = True
            self.fill(slot)

    def fill(self, slot: int) -> None:
        """Start a worker for a slot; without room, hand its sessions over."""
        worker = next(self.workers)
        if self.timed("Place", 1, lambda: self.placement.place(worker)) is None:
            self.hand_over(slot)
            return
        self.slots[slot], self.slot_of[worker] = worker, slot
        self.later(START, lambda: self.started(slot, worker))

    def started(self, slot: int, worker: int) -> None:
        """The worker serves its sessions, unless its machine died meanwhile."""
        name = self.placement.where(worker)
        if self.slots[slot] == worker and name is not None and self.machines[name]:
            self.waits += [self.now - self.lost_at.pop(slot, self.now)] * len(self.members[slot])

    def end(self, worker: int) -> None:
        """A worker is gone with its machine."""
        self.timed("Ended", 1, lambda: self.placement.ended(worker))
        slot = self.slot_of.pop(worker, None)
        if slot is not None and self.slots[slot] == worker:
            self.slots[slot] = None
            self.lost_at.setdefault(slot, self.now)
            self.fill(slot)

    def move(self, worker: int) -> None:
        """A worker moves: its successor has started."""
        slot = self.slot_of.get(worker)
        if slot is None or self.slots[slot] != worker:
            return
        successor = next(self.workers)
        if self.timed("Place", 1, lambda: self.placement.place(successor)) is None:
            self.placement.ended(worker)
            del self.slot_of[worker]
            self.slots[slot] = None
            self.fill(slot)
            return
        self.slots[slot], self.slot_of[successor] = successor, slot
        del self.slot_of[worker]
        self.timed("Ended", 1, lambda: self.placement.ended(worker))
        self.started(slot, successor)

    def hand_over(self, slot: int) -> None:
        """Give the sessions of a slot to the least busy other one."""
        self.usable[slot] = False
        self.lost_at.pop(slot, None)
        self.counts["slots handed over"] += 1
        loads = [WorkerLoad(usable, len(held), 0) for usable, held in zip(self.usable, self.members, strict=True)]
        heir = choose_worker(loads)
        assert heir is not None, "no worker is left"
        for session in self.members[slot]:
            self.home[session] = heir
        self.members[heir] += self.members[slot]
        self.members[slot] = []

    def open(self) -> None:
        """Begin a session."""
        session, program = next(self.serials), f"benchmark://cbench-v1/{self.dice.randrange(PROGRAMS)}"

        def choose() -> int:
            near = candidates(program, session, len(self.slots))
            index = choose_first([WorkerLoad(self.usable[i], len(self.members[i]), 0) for i in near])
            assert index is not None
            return near[index]

        slot = self.timed("Load", 1, choose)
        self.home[session] = slot
        self.members[slot].append(session)

    def close(self, place: int) -> None:
        """End a session: swap it to the front of the dictionary's order by age, roughly at random."""
        session = next(itertools.islice(self.home, min(place, 50), None))
        self.members[self.home.pop(session)].remove(session)

    def lost(self) -> int:
        """Return how many sessions belong to no worker that runs or will."""
        held = sum(len(held) for slot, held in enumerate(self.members) if self.usable[slot] and self.has_place(slot))
        return len(self.home) - held

    def has_place(self, slot: int) -> bool:
        """Has the slot a worker on some machine?"""
        worker = self.slots[slot]
        return worker is not None and self.placement.where(worker) is not None


def simulate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a simulation; return its figures."""
    began = time.process_time()
    world = World(
        arguments.machines, arguments.size, arguments.sessions, arguments.deaths, arguments.away, arguments.turnover,
        arguments.seed,
    )  # fmt: skip
    lost = 0
    for _ in range(math.ceil(arguments.minutes * 60)):
        world.run(1.0)
        lost = max(lost, world.lost())
    events = {
        name: {
            "events": world.counts[name],
            "mean_us": round(1e6 * statistics.fmean(times), 2),
            "p99_us": round(1e6 * statistics.quantiles(times, n=100)[98], 2) if len(times) > 1 else None,
            "max_us": round(1e6 * max(times), 1),
        }
        for name, times in world.times.items()
    }
    waits = sorted(world.waits) or [0.0]
    return {
        **vars(arguments),
        "workers": len(world.slots),
        "machines_died": world.counts["machines that died"],
        "sessions_lost": lost,
        "sessions_that_waited": sum(wait > 0 for wait in waits),
        "longest_wait_s": round(waits[-1], 1),
        "slots_handed_over": world.counts["slots handed over"],
        "most_sessions_of_a_worker": max(map(len, world.members)),
        "events": events,
        "mean_us_of_all": round(
            1e6 * sum(statistics.fmean(world.times[n]) * world.counts[n] for n in events)
            / sum(world.counts[n] for n in events), 2,
        ),
        "processor_s_of_all": round(time.process_time() - began, 1),
    }  # fmt: skip


def main() -> None:
    """Simulate, print the figures as JSON, and fail when a session was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=157)
    parser.add_argument("--size", type=int, default=64, help="workers that a machine should run")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--deaths", type=float, default=0.01, help="share of the machines that die per second")
    parser.add_argument("--away", type=float, default=30.0, help="seconds until a dead machine is back")
    parser.add_argument("--turnover", type=int, default=1000, help="sessions that end and begin per second")
    parser.add_argument("--seed", type=int, default=1)
    figures = simulate(parser.parse_args())
    print(json.dumps(figures, indent=2))
    sys.exit(1 if figures["sessions_lost"] else 0)


if __name__ == "__main__":
    main()
