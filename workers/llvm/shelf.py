"""Parsed modules that wait to be used: reading bitcode costs more than most passes."""

from collections import OrderedDict
from dataclasses import dataclass

from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.states import State

__all__ = ["Parsed", "Shelf"]


@dataclass(slots=True)
class Parsed:
    """A module that is a parse of a state's content, or as good as one.

    Attributes:
        module: the engine's; whoever takes it from the shelf closes it or puts it back.
        seal: taken right after the parse; 0 where there are none.
        roots: what settling the module after a pass takes; 0 where that is not to be done.
        settled: after how many passes the module was settled since it was parsed; 0 for a parse.
        shown: whether others have looked at the module since, who may have left something in it.
    """

    module: Module
    seal: int
    roots: int = 0
    settled: int = 0
    shown: bool = False


class Shelf:
    """Parsed modules by state. The least recently used are freed first, but never the last one.

    Attributes:
        limit: bytes that the modules may take, by estimate.
        size: bytes that they take, by estimate.
    """

    GROWTH = 20  # times its bitcode, at most, is what a module takes in memory; 12 to 18 were measured

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._parsed: OrderedDict[State, Parsed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parsed)

    def __contains__(self, state: State) -> bool:
        return state in self._parsed

    def has_room(self, state: State) -> bool:
        """Could the state's module be put here without another one being freed?"""
        return self.size + self._footprint(state) <= self.limit

    def get(self, state: State) -> Parsed | None:
        """Return the state's module, which stays on the shelf."""
        parsed = self._parsed.get(state)
        if parsed is not None:
            self._parsed.move_to_end(state)
        return parsed

    def take(self, state: State) -> Parsed | None:
        """Remove and return the state's module."""
        parsed = self._parsed.pop(state, None)
        if parsed is not None:
            self.size -= self._footprint(state)
        return parsed

    def put(self, state: State, parsed: Parsed) -> None:
        """Keep a module; if the state has another, that one is freed."""
        self.discard(state)
        self._parsed[state] = parsed
        self.size += self._footprint(state)
        while self.size > self.limit and len(self._parsed) > 1:
            self.discard(next(iter(self._parsed)))

    def clear(self) -> None:
        """Free all modules."""
        for state in list(self._parsed):
            self.discard(state)

    def discard(self, state: State) -> None:
        """Free the state's module, if it has one."""
        parsed = self.take(state)
        if parsed is not None:
            parsed.module.close()

    def _footprint(self, state: State) -> int:
        return self.GROWTH * len(state.content)
