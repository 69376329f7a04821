"""Compiler states, and a cache of the transitions between them.

A state is a program at one point of an episode: a pure function of the benchmark and the actions. Canonical order
(see `canonical`) ensures that a pass gives the same result on a module changed in place, on a clone and on a parsed
module. So a state needs no bitcode: it has a fingerprint, cached observations, and a way to rebuild its module, from
bitcode, if some was written, or by the action that led here from the state before.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from aiocg.workers.llvm._action_text import LONG

_T = TypeVar("_T")
REACH = 64
"""Most actions that rebuilding a module may take: after this many, a state gets bitcode."""

MOST_BEGUN = 32
"""Number of recent initial states that `Beginnings` remembers."""

MOST_INERT = 1 << 14
"""Most actions without effect that a state remembers."""

MASK = 0xFFFFFFFFFFFFFFFF
"""The bits of a fingerprint that are the state's hash."""


class State:
    """A program at one point of an episode; it never changes, so forks share it.

    Attributes:
        fingerprint: 128 bits that identify the program, the same in every process.
        content: the program as bitcode; None if it was not needed yet.
        origin: the previous state and the action that led here; None if the state keeps its `content`.
        distance: number of actions since a state that keeps its content.
        instructions: number of instructions.
        holders: number of sessions at this state.
        memo: cached numeric observations and other small facts.
        inert: actions known not to change this program.
        opaque: whether the fingerprint is a hash of the bitcode, because the survey does not understand the program.
    """

    __slots__ = ("__weakref__", "content", "distance", "fingerprint", "holders", "inert", "instructions", "memo",
                 "opaque", "origin")  # fmt: skip

    def __init__(self, fingerprint: int, origin: "tuple[State, str] | None" = None) -> None:
        self.fingerprint = fingerprint
        self.content: bytes | None = None
        self.origin = origin
        self.distance: int = 0 if origin is None else origin[0].distance + 1
        self.instructions = 0
        self.holders = 0
        self.memo: dict[str, Any] = {}
        self.inert: set[str] = set()
        self.opaque = False

    @property
    def hash(self) -> int:
        """64 bits of the fingerprint."""
        return self.fingerprint & MASK

    def remember(self, name: str, compute: Callable[[], _T]) -> _T:
        """Return what the memo has under a name, which is computed the first time."""
        if name not in self.memo:
            self.memo[name] = compute()
        found: _T = self.memo[name]
        return found

    def anchor(self, content: bytes) -> None:
        """Give the state bitcode that it keeps."""
        self.content, self.origin, self.distance = content, None, 0


class _Reference(weakref.ref[State]):
    """A weak reference that knows the fingerprint of its state, even after the state is gone."""

    __slots__ = ("fingerprint",)
    fingerprint: int


class States:
    """The states in use. Equal programs are one object, so that they share what is known about them."""

    def __init__(self) -> None:
        alive: dict[int, _Reference] = {}

        def forget(reference: weakref.ref[State]) -> None:
            assert isinstance(reference, _Reference)
            if alive.get(reference.fingerprint) is reference:
                del alive[reference.fingerprint]

        self._alive, self._forget = alive, forget  # a closure without `self`, so that there is no reference cycle

    def __len__(self) -> int:
        return len(self._alive)

    def intern(self, fingerprint: int, origin: tuple[State, str] | None = None) -> State:
        """Return the state in use with this fingerprint, or else a new one with this origin."""
        known = self._alive.get(fingerprint)
        state = known() if known is not None else None
        if state is None:
            state = State(fingerprint, origin)
            reference = self._alive[fingerprint] = _Reference(state, self._forget)
            reference.fingerprint = fingerprint
        return state


class Transitions:
    """A cache from (state, action) to the resulting state; drops the least recently used first.

    Attributes:
        limit: most bytes for the cached states; a state that several transitions lead to counts several times.
        size: bytes in use, counted in the same way.
        hits: number of successful lookups.
    """

    OVERHEAD = 1024  # bytes of a state and its memo, without its content
    shared = False  # whether others' transitions are looked up as well

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.hits = 0
        self._entries: OrderedDict[tuple[int, str], tuple[State, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, state: State, action: str) -> State | None:
        """Return the state that an action leads to, or None if that is not known."""
        key = state.fingerprint, action
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        self.hits += 1
        return entry[0]

    def foresee(self, state: State, lists: Iterable[Sequence[str]]) -> None:
        """Look up together where lists of actions lead, if they are shared."""

    def put(self, state: State, action: str, after: State) -> None:
        """Add a transition, unless its action is long or it alone exceeds the limit."""
        if len(action) > LONG:
            return
        if after is state:
            if len(state.inert) >= MOST_INERT:
                state.inert.clear()
            state.inert.add(action)
            return
        footprint = self.OVERHEAD if after.distance or after.content is None else self.OVERHEAD + len(after.content)
        if footprint > self.limit:
            return
        self._entries[state.fingerprint, action] = after, footprint
        self.size += footprint
        while self.size > self.limit:
            _, (_, forgotten) = self._entries.popitem(last=False)
            self.size -= forgotten

    def begin(self, state: State) -> None:
        """Prepare for a program that begins with a state."""

    def statistics(self) -> dict[str, Any]:
        """Return counters of a memory that is shared with others, if there is one."""
        return {}

    def doubt(self, action: str) -> None:
        """Forget all transitions by an action, since it has led from one state to two."""
        for key in [key for key in self._entries if key[1] == action]:
            self.size -= self._entries.pop(key)[1]


class Beginnings:
    """Recent initial states. One that is used again is held, so that its module stays in memory."""

    def __init__(self, hold: Callable[[State], State], let_go: Callable[[State], None]) -> None:
        self._hold, self._let_go = hold, let_go
        self._begun: OrderedDict[State, bool] = OrderedDict()  # state -> whether it is held

    def note(self, state: State) -> None:
        """Record that a session begins at a state."""
        again = state in self._begun
        if again and not self._begun[state]:
            self._hold(state)
        self._begun[state] = again
        self._begun.move_to_end(state)
        if len(self._begun) > MOST_BEGUN:
            oldest, held = self._begun.popitem(last=False)
            if held:
                self._let_go(oldest)
