"""Compiler states as immutable values, and the memory of which pipeline leads from which to which.

A state *is* its bitcode. Applying a pass parses the bitcode into a fresh context, runs the pass and writes
the result, which is what a chain of `opt` processes would do. That makes a state a pure function of benchmark
and actions, which passes run on a module in memory do not: they read the order of use-lists and the counters
behind value names, and those remember more than the program. Even the bytes that a module is written to differ,
for half of all programs, once it has been written and read. It also makes a fork free and a thousand idle states
cheap: bitcode is 12 to 18 times smaller than a module in memory.

What a parse costs is saved where nothing can tell: a module that a pass has left exactly as it was serves the next
pass (see `seal`), one that it has changed does where it can be made what a parse would be (see `settle`), and where a
worker is idle, it does that or parses before it is asked (see `Engine.prepare`).
"""

import hashlib
import weakref
from collections import OrderedDict
from typing import Any


class State:
    """A program at one point of an episode; it never changes, so forks share it.

    Attributes:
        content: what a parse starts from: bitcode, or the text of a benchmark that came as text.
        hash: unsigned 64-bit hash of the content.
        memo: numeric observations and other small facts that were computed already.
        inert: pipelines known to leave this program as it is.
    """

    __slots__ = ("__weakref__", "content", "hash", "inert", "memo")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.hash = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
        self.memo: dict[str, Any] = {}
        self.inert: set[str] = set()


class States:
    """The states that are in use, so that equal ones share their memory and what is known about them."""

    def __init__(self) -> None:
        self._alive: weakref.WeakValueDictionary[int, State] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._alive)

    def intern(self, content: bytes) -> State:
        """Return the state in use that has this content, or a new one."""
        state = State(content)
        known = self._alive.get(state.hash)
        if known is not None and known.content == content:
            return known
        self._alive[state.hash] = state
        return state


class Transitions:
    """What each (state, pipeline) led to; the least recently used are forgotten first.

    Attributes:
        limit: bytes that the remembered states may take; a state that several transitions lead to counts once
            for each, so this errs towards less.
        size: bytes in use.
        hits: how often `get` knew the answer.
    """

    OVERHEAD = 1024  # bytes that a state and its memo take beside the content

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.hits = 0
        self._entries: OrderedDict[tuple[int, str], State] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, state: State, pipeline: str) -> State | None:
        """Return the state that the pipeline is known to lead to."""
        key = state.hash, pipeline
        after = self._entries.get(key)
        if after is not None:
            self._entries.move_to_end(key)
            self.hits += 1
        return after

    def put(self, state: State, pipeline: str, after: State) -> None:
        """Remember a transition that is not known yet, unless it alone is over the limit."""
        footprint = len(after.content) + self.OVERHEAD
        if footprint > self.limit:
            return
        self._entries[state.hash, pipeline] = after
        self.size += footprint
        while self.size > self.limit:
            _, forgotten = self._entries.popitem(last=False)
            self.size -= len(forgotten.content) + self.OVERHEAD
