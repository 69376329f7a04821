"""The call graph of a program, and which functions are dead after inlining."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

__all__ = ["NAME", "NOTHING", "CallGraph", "Inlined"]

NAME = re.compile(r'@(?:[^" ;>]+|"[^"]*")')  # of a function, as LLVM writes it

Inlined = frozenset[str]
"""The functions that a function inlines."""
NOTHING: Inlined = frozenset()


class Inlining(Protocol):
    """A function, for `CallGraph.alive`.

    Attributes:
        chosen: the functions that it inlines.
    """

    @property
    def chosen(self) -> Inlined: ...


class CallGraph:
    """The direct calls between functions.

    Attributes:
        order: all functions, callers before callees except in recursion.
        removable: functions that are dead once no call to them is left.

    Args:
        names: the names of all functions.
        calls: pairs of caller and callee.
        removable: functions that are dead once no call to them is left.
    """

    def __init__(self, names: Sequence[str], calls: Iterable[tuple[str, str]], removable: Iterable[str]) -> None:
        self.removable = frozenset(removable)
        self._callees: dict[str, list[str]] = {name: [] for name in names}
        self._callers: dict[str, list[str]] = {name: [] for name in names}
        for caller, callee in calls:
            self._callees[caller].append(callee)
            self._callers[callee].append(caller)
        self._roots = [name for name in names if name not in self.removable]
        self.order = self._top_down([*self._roots, *names])
        self._places = {name: place for place, name in enumerate(self.order)}

    def below(self, name: str) -> tuple[str, ...]:
        """Return the callees of a function that come after it in `order`."""
        return tuple([callee for callee in self._callees[name] if self._places[callee] > self._places[name]])

    def is_removable_with(self, caller: str, callee: str) -> bool:
        """Return whether `callee` is dead once `caller` has inlined it."""
        return callee in self.removable and self._callers[callee] == [caller]

    def callers(self, name: str) -> Sequence[str]:
        """Return the functions that call a function."""
        return self._callers[name]

    def alive(self, functions: Mapping[str, Inlining]) -> set[str]:
        """Return the functions that are alive after each has inlined what it chose; calls in inlined code stay."""
        found, left = set(self._roots), list(self._roots)
        while left:
            name = left.pop()
            inlined = functions[name].chosen
            called = [callee for callee in self._callees[name] if callee not in inlined]
            for copied in inlined:
                called += self._callees[copied]
            for callee in called:
                if callee not in found:
                    found.add(callee)
                    left.append(callee)
        return found

    def _top_down(self, names: Iterable[str]) -> list[str]:
        """Return the functions in reverse postorder."""
        postorder: list[str] = []
        seen: set[str] = set()
        for root in names:
            stack = [] if root in seen else [(root, iter(self._callees[root]))]
            seen.add(root)
            while stack:
                name, callees = stack[-1]
                callee = next((one for one in callees if one not in seen), None)
                if callee is None:
                    postorder.append(name)
                    stack.pop()
                else:
                    seen.add(callee)
                    stack.append((callee, iter(self._callees[callee])))
        return postorder[::-1]
