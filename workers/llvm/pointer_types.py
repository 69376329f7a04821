"""The pointee types that textual IR no longer states, and the types of a module written with them.

Since LLVM 15 a pointer is just `ptr`. The instructions still state what they access: `load i32, ptr %p` shows that `%p`
points to an `i32`. A `Pointee` collects such evidence for a pointer. Pointers that must have the same type, because one
is stored where the other is loaded, or because a phi joins them, share a `Pointee`.
"""

import re

from aiocg.workers.llvm.ir_lines import NAME, leading_type, split

__all__ = ["DECLARED", "INDEXED", "UNTYPED", "USED", "Pointee", "Types", "unify"]

UNTYPED, INDEXED, USED, DECLARED = range(4)  # strengths of evidence: `getelementptr i8` only counts bytes

_DEPTH = 3  # limit for pointers to pointers
_NESTING = 6  # limit for named types expanded inside each other
_LONGEST = 2000  # characters of a field's pointee type; no dictionary has longer ones
_LONGEST_VALUE = 100_000  # characters of an expanded named type
_NAMED_TYPE = re.compile(rf"%{NAME}")


class Pointee:
    """What one pointer, or several of the same type, point to.

    Attributes:
        type: the pointee type, as in the text; "" while unknown.
        strength: the strength of the evidence for `type`.
        inner: the pointee's own pointee, if it is a pointer.
    """

    __slots__ = ("inner", "parent", "strength", "type")

    def __init__(self, type: str = "", strength: int = UNTYPED) -> None:
        self.type = type
        self.strength = strength
        self.inner: Pointee | None = None
        self.parent: Pointee | None = None

    def root(self) -> "Pointee":
        """Return the representative of all pointees unified with this one."""
        node = self
        while node.parent is not None:
            node = node.parent
        if node is not self:
            self.parent = node
        return node

    def suggest(self, type: str, strength: int) -> None:
        """Record evidence for a `type`; of the strongest evidence the first wins."""
        node = self.root()
        if not node.type or strength > node.strength:
            node.type, node.strength = type, strength

    def target(self) -> "Pointee":
        """Return the pointee's own pointee, given that it is a pointer."""
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
        bodies: the definition of each type.
        fields: the pointees of pointers inside types, by the type and the indices of the pointer in it; an index into
            an array is "".
    """

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self.fields: dict[tuple[str, tuple[str, ...]], Pointee] = {}
        self._typed: dict[tuple[str, tuple[str, ...]], str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def text(self, pointee: Pointee, within: tuple[str, ...] = ()) -> str:
        """Return the pointee type, with typed pointers; "i8" if unknown."""
        node, stars, first = pointee.root(), "", None
        while node.inner is not None and node.strength <= INDEXED and len(stars) < _DEPTH:
            first, node, stars = first or node, node.inner.root(), stars + "*"
            if node is first:  # such as a list whose link is its first field
                return "i8"
        return (self.typed(node.type, within) if node.type else "i8") + stars

    def typed(self, type: str, within: tuple[str, ...] = ()) -> str:
        """Return a type with typed pointers and expanded named types.

        A type that would contain itself, or nests too deeply, is `opaque`, as in inst2vec's dictionary.

        Args:
            type: the type, as in the text.
            within: the named types being expanded around it.
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
        """Return whether the parts of a type are fields."""
        return self.bodies.get(type, type).startswith(("{", "<{"))

    def parts(self, type: str) -> tuple[str, ...]:
        """Return the types of the parts of an aggregate; for an array or a vector, only the element type."""
        known = self._parts.get(type)
        if known is None:
            known = self._parts[type] = tuple(_parts(self.bodies.get(type, type)))
        return known

    def locate(self, type: str, indices: list[str]) -> tuple[str, tuple[str, tuple[str, ...]]]:
        """Return the type of the part at the given indices, and its key in `fields`; "" if unknown."""
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
        """Return the kinds of the indices, i64 or i32, from a type to its first part of the wanted (typed) type."""
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
