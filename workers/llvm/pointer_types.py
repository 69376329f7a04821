"""What pointers lead to, where textual IR no longer says so, and the types of a module with that written in.

Since LLVM 15 a pointer is just `ptr`. The instructions still say what they access: `load i32, ptr %p` says that `%p`
leads to an `i32`. A `Pointee` collects such evidence for a pointer. Pointers that must be of one type, because one is
stored where the other is loaded, or because a phi joins them, share one.
"""

import re

from aiocg.workers.llvm.ir_lines import NAME, leading_type, split

__all__ = ["DECLARED", "INDEXED", "UNTYPED", "USED", "Pointee", "Types", "unify"]

UNTYPED, INDEXED, USED, DECLARED = range(4)  # how strong evidence is: `getelementptr i8` only counts bytes

_DEPTH = 3  # of pointers to pointers
_NESTING = 6  # of named types that are written out inside each other
_LONGEST = 2000  # characters of a type that a field leads to; it would be in no dictionary
_LONGEST_VALUE = 100_000  # characters of a named type, written out
_NAMED_TYPE = re.compile(rf"%{NAME}")


class Pointee:
    """What one pointer, or several of one type, lead to.

    Attributes:
        type: it, as it stands in the text; "" while nothing is known.
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
    """The named types of a module.

    Attributes:
        bodies: what each is defined as.
        fields: what the pointers inside types lead to, by the type and the indices that lead to the pointer in it; an
            index into an array is "".
    """

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self.fields: dict[tuple[str, tuple[str, ...]], Pointee] = {}
        self._typed: dict[tuple[str, tuple[str, ...]], str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def text(self, pointee: Pointee, within: tuple[str, ...] = ()) -> str:
        """Return the type that a pointer leads to, with typed pointers; "i8" when nothing is known."""
        node, stars, first = pointee.root(), "", None
        while node.inner is not None and node.strength <= INDEXED and len(stars) < _DEPTH:
            first, node, stars = first or node, node.inner.root(), stars + "*"
            if node is first:  # such as a list whose links are its first fields
                return "i8"
        return (self.typed(node.type, within) if node.type else "i8") + stars

    def typed(self, type: str, within: tuple[str, ...] = ()) -> str:
        """Return a type with typed pointers and with its named parts written out.

        What would contain itself, or goes too deep, is `opaque`, as in the dictionary of inst2vec.

        Args:
            type: as it stands in the text.
            within: the named types that it is being written inside of.
        """
        key = type, within
        known = self._typed.get(key)
        if known is None:
            known = self._typed[key] = self._write(type, type, (), within)
        return known

    def _write(self, type: str, owner: str, path: tuple[str, ...], within: tuple[str, ...]) -> str:
        if type.startswith("ptr"):
            field = self.fields.get((owner, path))
            if field is None:
                return "i8*"
            text = self.text(field, within)
            return text + "*" if len(text) < _LONGEST else "opaque*"
        if "*" in type or "(" in type:  # typed pointers, from before LLVM 15
            return _NAMED_TYPE.sub(lambda match: self._named(match[0], within), type)
        if type[0] == "%":
            return self._named(type, within)
        if type[0] not in "[{<" or type in ("{}", "<{}>"):
            return type
        step = self.is_struct(type)
        parts = [
            self._write(part, owner, (*path, str(place) if step else ""), within)
            for place, part in enumerate(self.parts(type))
        ]
        if step:
            inside = "{ " + ", ".join(parts) + " }"
            return f"<{inside}>" if type[0] == "<" else inside
        return f"{type.partition(' x ')[0]} x {parts[0]}{type[-1]}"

    def _named(self, name: str, within: tuple[str, ...]) -> str:
        body = self.bodies.get(name, "opaque")
        if body == "opaque" or name in within or len(within) > _NESTING:
            return "opaque"
        key = body, (*within, name)
        if key not in self._typed:
            text = self._write(body, name, (), key[1])
            self._typed[key] = text if len(text) < _LONGEST_VALUE else "opaque"
        return self._typed[key]

    def is_struct(self, type: str) -> bool:
        """Say whether the parts of a type are fields."""
        return self.bodies.get(type, type).startswith(("{", "<{"))

    def parts(self, type: str) -> tuple[str, ...]:
        """Return the types of the parts of an aggregate; for an array or a vector, only that of the elements."""
        known = self._parts.get(type)
        if known is None:
            known = self._parts[type] = tuple(_parts(self.bodies.get(type, type)))
        return known

    def locate(self, type: str, indices: list[str]) -> tuple[str, tuple[str, tuple[str, ...]]]:
        """Return the type of the part that indices lead to, and its key in `fields`; "" when that cannot be said."""
        owner = type
        path: tuple[str, ...] = ()
        for index in indices:
            parts = self.parts(type)
            step = index if self.is_struct(type) else ""
            place = int(step) if step.isdecimal() else 0
            if place >= len(parts):
                return "", (owner, path)
            type = parts[place]
            owner, path = (type, ()) if type[0] == "%" else (owner, (*path, step))
        return type, (owner, path)

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


def _parts(body: str) -> list[str]:
    if body.startswith("<{"):
        body = body[1:-1]
    if body.startswith("{"):
        return split(body[1:-1].strip())
    if body.startswith(("[", "<")):
        return [leading_type(body[1:-1].partition(" x ")[2].removeprefix("vscale x "))]
    return []
