"""A cache of modules in memory, within a budget."""

from collections import OrderedDict
from collections.abc import Callable

from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.states import State

__all__ = ["Shelf"]

MOST_LEFT = 8  # modules of states without a session; the next action may need one
DISPLACING = 16  # when the shelf is full, one of this many new modules displaces an old one
CONTEXT_BYTES, INSTRUCTION_BYTES = 64 << 10, 220  # measured size of a module


class Shelf:
    """Modules by state. Modules of states without a session are freed first, then the least recently used.

    If more sessions take turns than modules fit, the least recently used module is always the next one needed. A full
    shelf therefore admits only a few new modules and keeps the others (bimodal insertion: Qureshi et al., "Adaptive
    insertion policies for high performance caching", ISCA 2007).

    Attributes:
        limit: most bytes for all modules, estimated.
        size: bytes of the modules stored, estimated.
    """

    def __init__(self, limit: int, save: Callable[[State, Module], None]) -> None:
        """Create an empty shelf that calls `save` before it frees the module of a state with a session."""
        self.limit = limit
        self.size = 0
        self._save = save
        self._held: OrderedDict[State, Module] = OrderedDict()
        self._left: OrderedDict[State, Module] = OrderedDict()
        self._without_room = 0

    def __len__(self) -> int:
        return len(self._held) + len(self._left)

    def __contains__(self, state: State) -> bool:
        return state in self._held or state in self._left

    def get(self, state: State) -> Module | None:
        """Return the state's module, which stays on the shelf."""
        module = self._held.get(state)
        if module is None:
            return self._left.get(state)
        self._held.move_to_end(state)
        return module

    def take(self, state: State) -> Module | None:
        """Remove and return the state's module."""
        module = self._held.pop(state, None) or self._left.pop(state, None)
        if module is not None:
            self.size -= CONTEXT_BYTES + INSTRUCTION_BYTES * state.instructions
        return module

    def put(self, state: State, module: Module, *, keep: bool = False) -> None:
        """Store a module; if the state has another, free that one.

        A full shelf may free the module at once, unless it is told to `keep` it until the next call.
        """
        if state in self._held or state in self._left:
            self.discard(state)
        size = CONTEXT_BYTES + INSTRUCTION_BYTES * state.instructions
        if keep:
            self._fit(size)
        (self._held if state.holders else self._left)[state] = module
        self.size += size
        if not keep and (self.size > self.limit or len(self._left) > MOST_LEFT):
            self._fit()

    def hold(self, state: State) -> None:
        """Record that a state has a session."""
        module = self._left.pop(state, None)
        if module is not None:
            self._held[state] = module
            self._fit()

    def let_go(self, state: State) -> None:
        """Record that the last session has left a state."""
        if state in self._held:
            self._left[state] = self._held.pop(state)
            self._fit()

    def discard(self, state: State) -> None:
        """Free the state's module, if it has one."""
        module = self.take(state)
        if module is not None:
            module.close()

    def clear(self) -> None:
        """Free all modules, after saving those of states with sessions."""
        while self._held:
            self._save_and_free(next(iter(self._held)))
        while self._left:
            self.discard(next(iter(self._left)))

    def _fit(self, size: int = 0) -> None:
        """Free modules until so many more bytes fit; of those held, one may stay whatever its size."""
        limit = self.limit - size
        while len(self._left) > MOST_LEFT or (self._left and self.size > limit):
            self.discard(next(iter(self._left)))
        while self.size > limit and len(self._held) > (0 if size else 1):
            self._without_room += 1
            newest = self._without_room % DISPLACING != 0
            self._save_and_free(next(reversed(self._held) if newest else iter(self._held)))

    def _save_and_free(self, state: State) -> None:
        self._save(state, self._held[state])
        self.discard(state)
