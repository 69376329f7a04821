"""Decides which node runs each worker of one kind: a pure state machine, with the clock as an argument.

A node has a *capacity*, the workers that it should run, and a *most*, which it runs when others are lost. Workers go to
the node that is filled least, beyond its capacity only when no other has room. What the machine returns is carried out
by the launcher: `place` says where a worker starts, `moves` which workers should be started again elsewhere, and
`retired` which nodes can be left.
"""

import hashlib
import heapq
import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Node:
    capacity: int
    most: int
    rank: int = 0  # among nodes that are equally full
    is_up: bool = True
    draining: bool = False
    closed: float = -math.inf  # it takes no workers before then
    workers: set[int] = field(default_factory=set)
    free: int = 0  # workers that it would take now, as counted in the sum

    @property
    def is_open(self) -> bool:
        return self.is_up and not self.draining and self.closed == -math.inf


class Placement:
    """The nodes of a cluster, and the workers of one kind on them.

    Attributes:
        count: number of workers that are wanted; None for as many as the nodes should run.
        room: number of workers that could be placed now.

    Args:
        salt: decides between nodes that are equally full. With one of its own for each process, those that have one
            worker each do not all choose the same node.
    """

    def __init__(self, salt: str = "") -> None:
        self._salt = salt
        self.count: int | None = None
        self.room = 0
        self._offered = 0  # capacity of all nodes that do not leave, lost ones included
        self._nodes: dict[str, _Node] = {}
        self._where: dict[int, str] = {}
        self._moving: set[int] = set()
        self._unbalanced = False
        self._least: list[tuple[bool, float, int, str]] = []  # a heap of nodes by how full they are, or once were

    @property
    def target(self) -> int:
        """Number of workers that there should be when all nodes are up."""
        return self._offered if self.count is None else self.count

    @property
    def placed(self) -> int:
        """Number of workers that have a node."""
        return len(self._where)

    def where(self, worker: int) -> str | None:
        """Return the node of a worker, None if it has none."""
        return self._where.get(worker)

    def is_moving(self, worker: int) -> bool:
        """Return whether a worker should move."""
        return worker in self._moving

    def load(self, node: str) -> int:
        """Return the number of workers on a node."""
        return len(self._nodes[node].workers) if node in self._nodes else 0

    # ------------------------------------------------------------------------------------------------ nodes

    def up(self, name: str, capacity: int, most: int) -> None:
        """Handle that a node has come, has come back, or has other limits."""
        node = self._nodes.setdefault(name, _Node(0, 0, self._rank(name)))
        self._offered += (capacity - node.capacity) * (not node.draining)
        node.capacity, node.most, node.is_up, node.closed = capacity, max(most, capacity), True, -math.inf
        self._unbalanced = True
        self._changed(name, node)

    def down(self, name: str) -> None:
        """Handle that a node is lost; `ended` follows for each of its workers."""
        if (node := self._nodes.get(name)) is not None:
            node.is_up = False
            self._changed(name, node)

    def drain(self, name: str) -> None:
        """Have a node's workers moved to others, because it leaves."""
        if (node := self._nodes.get(name)) is not None and not node.draining:
            node.draining = True
            self._offered -= node.capacity
            self._unbalanced = True
            self._changed(name, node)

    def retired(self) -> list[str]:
        """Forget the nodes that were drained and have no worker any more, and return them."""
        gone = [name for name, node in self._nodes.items() if node.draining and not node.workers]
        for name in gone:
            del self._nodes[name]
        return gone

    def refused(self, name: str, until: float) -> None:
        """Handle that a node takes no worker at present."""
        if (node := self._nodes.get(name)) is not None:
            node.closed = until
            self._changed(name, node)

    def ticked(self, now: float) -> None:
        """Handle the passing of time."""
        for name, node in self._nodes.items():
            if -math.inf < node.closed <= now:
                node.closed = -math.inf
                self._changed(name, node)

    # ---------------------------------------------------------------------------------------------- workers

    def place(self, worker: int) -> str | None:
        """Choose the node for a worker; None if none has room."""
        while self._least:
            over, fullness, _, name = self._least[0]
            node = self._nodes.get(name)
            if node is None or not node.free or (over, fullness) != _fullness(node):
                heapq.heappop(self._least)  # from another time; the present entry is in the heap as well
                continue
            node.workers.add(worker)
            self._where[worker] = name
            self._changed(name, node)
            return name
        return None

    def ended(self, worker: int) -> None:
        """Handle that a worker has ended, or could not be started."""
        self._moving.discard(worker)
        name = self._where.pop(worker, None)
        if name is not None and (node := self._nodes.get(name)) is not None:
            node.workers.discard(worker)
            self._changed(name, node)

    def moves(self) -> list[int]:
        """Return the workers that should move: from nodes that leave, and from full nodes to emptier ones.

        A worker that moves is started anew by `place` before the old one ends. Further moves wait for these.
        """
        if not self._unbalanced or self._moving:
            return []
        self._unbalanced = False
        stay = {name: node for name, node in self._nodes.items() if node.is_open}
        capacity = sum(node.capacity for node in stay.values())
        expected = min(self.target, len(self._where) + self.room)  # with those that are about to be placed
        share = expected / capacity if capacity else 0.0
        leaving = [worker for node in self._nodes.values() if node.draining for worker in node.workers]
        missing = sum(max(0, math.floor(share * node.capacity) - len(node.workers)) for node in stay.values())
        missing = max(0, missing - len(leaving)) + max(0, len(self._where) - len(leaving) - self.target)
        for node in sorted(stay.values(), key=lambda node: _fullness(node), reverse=True):
            excess = min(missing, len(node.workers) - math.ceil(share * node.capacity))
            if excess > 0:
                leaving += sorted(node.workers)[-excess:]
                missing -= excess
        self._moving.update(leaving)
        return leaving

    def _rank(self, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._salt} {name}".encode()).digest()) if self._salt else 0

    def _changed(self, name: str, node: _Node) -> None:
        free = max(0, node.most - len(node.workers)) if node.is_open else 0
        self.room += free - node.free
        node.free = free
        if free:
            heapq.heappush(self._least, (*_fullness(node), node.rank, name))
        if len(self._least) > 8 * len(self._nodes) + 64:
            self._least = [(*_fullness(node), node.rank, name) for name, node in self._nodes.items() if node.free]
            heapq.heapify(self._least)


def _fullness(node: _Node) -> tuple[bool, float]:
    """Return whether a node would run more workers than it should, and how full it would be, with another one."""
    load = len(node.workers) + 1
    return load > node.capacity, load / max(1, node.capacity)
