"""What the pointers of a function point to, found out from how they are used.

Since LLVM 15 a pointer is just `ptr`. The instructions still say what they access: `load i32, ptr %p` that `%p` leads to an
`i32`. Here each pointer has a `Pointee`, which collects such evidence; pointers that must be of one type, because one is
stored where the other is loaded, or because a phi joins them, share one. With typed pointers a program that uses one
pointer as two types needs a cast in between; without them there is none, and the stronger evidence wins.
"""

import re
from collections.abc import Iterator

__all__ = ["DECLARED", "INDEXED", "UNTYPED", "USED", "Pointee", "Types", "unify"]

UNTYPED, INDEXED, USED, DECLARED = range(4)  # how strong an evidence is: that of an access to bytes is the weakest

_DEPTH = 3  # of pointers to pointers
_MENTION = re.compile(r'%(?:"[^"]*"|[-\w.$]+)|\bptr\b(?: addrspace\(\d+\))?')


class Pointee:
    """What one pointer, or several of one type, lead to.

    Attributes:
        type: it, as text with typed pointers; "" while nothing is known.
        strength: of the evidence for `type`.
        inner: what it in turn leads to, when it is a pointer.
    """

    __slots__ = ("inner", "parent", "strength", "type")

    def __init__(self, type: str = "", strength: int = UNTYPED) -> None:
        self.type = type
        self.strength = strength
        self.inner: Pointee | None = None
        self.parent: Pointee | None = None

    def root(self) -> "Pointee":
        """Return the one that stands for all that were unified with this."""
        node = self
        while node.parent is not None:
            node = node.parent
        if node is not self:
            self.parent = node
        return node

    def suggest(self, type: str, strength: int) -> None:
        """Take in evidence that it is a `type`; the first of the strongest is believed."""
        node = self.root()
        if not node.type or strength > node.strength:
            node.type, node.strength = type, strength

    def target(self) -> "Pointee":
        """Return what it leads to, given that it is a pointer."""
        node = self.root()
        if node.inner is None:
            node.inner = Pointee()
        return node.inner.root()

    def text(self, depth: int = _DEPTH) -> str:
        """Return its type; "i8" when nothing is known."""
        node = self.root()
        if node.inner is not None and depth and node.strength <= INDEXED:
            return node.inner.text(depth - 1) + "*"
        return node.type or "i8"


def unify(one: Pointee, other: Pointee) -> None:
    """Give two pointers one type."""
    one, other = one.root(), other.root()
    if one is other:
        return
    other.parent = one
    if other.type:
        one.suggest(other.type, other.strength)
    if one.inner is None:
        one.inner = other.inner
    elif other.inner is not None:
        unify(one.inner, other.inner)


class Types:
    """The named types of a module, and the types of parts of types."""

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self._typed: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def typed(self, type: str, within: tuple[str, ...] = ()) -> str:
        """Return a type with its named parts written out, and with `i8*` for each `ptr`."""
        known = self._typed.get(type)
        if known is None:

            def replace(match: re.Match[str]) -> str:
                name = match[0]
                if name[0] != "%":
                    return "i8*"
                body = self.bodies.get(name, "opaque")
                return "opaque" if body == "opaque" or name in within else self.typed(body, (*within, name))

            known = _MENTION.sub(replace, type)
            if not within:
                self._typed[type] = known
        return known

    def parts(self, type: str) -> tuple[str, ...]:
        """Return the types of the parts of an aggregate, the type of the elements alone for an array or a vector."""
        known = self._parts.get(type)
        if known is None:
            known = self._parts[type] = tuple(self._split(self.bodies.get(type, type)))
        return known

    def is_struct(self, type: str) -> bool:
        """Say whether the parts of a type are fields."""
        return self.bodies.get(type, type).startswith(("{", "<{"))

    def part(self, type: str, indices: tuple[str, ...]) -> str:
        """Return the type of the part that these indices lead to; "" when that cannot be said."""
        for index in indices:
            parts = self.parts(type)
            place = int(index) if self.is_struct(type) and index.isdecimal() else 0
            if place >= len(parts):
                return ""
            type = parts[place]
        return type

    def path(self, type: str, wanted: str) -> tuple[str, ...] | None:
        """Return the kinds of indices, i64 or i32, that lead from a type to its first part of a wanted (typed) type."""
        if self.typed(type) == wanted:
            return ()
        step = "i32" if self.is_struct(type) else "i64"
        for part in self.parts(type):
            found = self.path(part, wanted)
            if found is not None:
                return (step, *found)
        return None

    def _split(self, body: str) -> Iterator[str]:
        if body.startswith("<{"):
            body = body[1:-1]
        if body.startswith("{"):
            yield from split(body[1:-1].strip())
        elif body.startswith(("[", "<")) and body.endswith(("]", ">")):
            yield body[1:-1].partition(" x ")[2].removeprefix("vscale x ")


def split(text: str) -> list[str]:
    """Split at the commas that are outside of all brackets and quotes."""
    if not any(bracket in text for bracket in '([{<"'):
        return text.split(", ") if text else []
    found, depth, start, quoted = [], 0, 0, False
    for place, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    found.append(text[start:].strip())
    return found
