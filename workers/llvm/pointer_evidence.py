"""Evidence from a module's instructions about its pointers' types.

With typed pointers, a program that uses one pointer as two types has a cast in between. Opaque pointers need no cast,
so the stronger evidence wins; for an access itself, only its own type counts.
"""

import re

from aiocg.workers.llvm.ir_lines import (
    FUNCTION,
    GLOBAL,
    INCOMING,
    POINTER_ARGUMENT,
    TYPE_DEFINITION,
    leading_type,
    split,
)
from aiocg.workers.llvm.pointer_types import DECLARED, INDEXED, USED, Pointee, Types, unify

__all__ = ["Evidence", "Function"]

_TYPED_ATTRIBUTE = re.compile(r"\b(?:sret|byval)\(([^()]*)\)")


class Function:
    """Facts about a function that its calls need.

    Attributes:
        result: the type of its result, as in the text.
        kinds: the types of its parameters.
        parameters: the pointee of each parameter; None for one that is not a pointer.
        returned: the pointee of the result.
        is_defined: whether the module has its instructions.
        references: for each parameter, whether its declaration states the size of the pointee, as for C++ references.
        returns_reference: the same for the result.
    """

    def __init__(self, head: str, arguments: list[str], is_defined: bool) -> None:
        self.result = last_type(head)
        self.references = ["dereferenceable" in argument for argument in arguments]
        self.returns_reference = "dereferenceable" in head
        self.kinds = ["..." if argument == "..." else leading_type(argument) for argument in arguments]
        self.parameters = [Pointee() if kind == "ptr" else None for kind in self.kinds]
        self.returned = Pointee()
        self.is_defined = is_defined


class Evidence:
    """All evidence about the pointers of a module.

    Attributes:
        types: the named types.
        globals: the types of the global variables, as in the text.
        functions: the defined and declared functions.
        names: the pointers of the current function.
    """

    def __init__(self) -> None:
        self.types = Types()
        self.globals: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.names: dict[str, Pointee] = {}
        self._objects: dict[str, Pointee] = {}
        self._returned = Pointee()

    def declare(self, line: str) -> None:
        """Record a line outside functions, or a function header."""
        if line[0] == "%":
            if match := TYPE_DEFINITION.match(line):
                self.types.bodies[match[1]] = match[2]
        elif line[0] == "@":
            if match := GLOBAL.match(line):
                self.globals[match[1]] = leading_type(match[4])
        elif line.startswith(("define ", "declare ")) and (match := FUNCTION.match(line)):
            self.functions[match[2]] = Function(match[1], split(match[3][1:-1]), line.startswith("define "))

    def enter(self, match: "re.Match[str]") -> Function:
        """Begin a function, with a new `names` dict."""
        function = self.functions[match[2]]
        self._returned = function.returned
        self.names = {}
        for number, (argument, pointee) in enumerate(zip(split(match[3][1:-1]), function.parameters, strict=False)):
            if pointee is not None:
                name = argument.split(" ")[-1]
                self.names[name if name[0] == "%" else f"%{number}"] = pointee
                if typed := _TYPED_ATTRIBUTE.search(argument):
                    pointee.suggest(typed[1], DECLARED)
        return function

    def pointee(self, operand: str) -> Pointee | None:
        """Return the pointee of a named pointer; None for any other operand."""
        if operand[0] == "%":
            known = self.names.get(operand)
            if known is None:
                known = self.names[operand] = Pointee()
            return known
        known = self._objects.get(operand)
        if known is None and operand in self.globals:
            known = self._objects[operand] = Pointee(self.globals[operand], DECLARED)
        return known

    def text(self, operand: str) -> str:
        """Return a pointer's pointee type."""
        known = self.pointee(operand)
        return self.types.text(known) if known is not None else "i8"

    def load(self, match: "re.Match[str]") -> None:
        """See `ir_lines.LOAD`."""
        pointer = self.pointee(match[4])
        if pointer is None:
            return
        if match[3] == "ptr":
            self._join(pointer.target(), match[1])
        else:
            pointer.suggest(match[3], USED)

    def store(self, match: "re.Match[str]") -> None:
        """See `ir_lines.STORE`."""
        pointer = self.pointee(match[3])
        if pointer is None:
            return
        if match[2].startswith("ptr "):
            self._join(pointer.target(), match[2][4:])
        else:
            pointer.suggest(leading_type(match[2]), USED)

    def gep(self, match: "re.Match[str]") -> None:
        """See `ir_lines.GEP`."""
        source, pointer, result = match[3], self.pointee(match[4]), self._local(match[1])
        if source == "i8":
            if pointer is not None:
                pointer.suggest("i8", INDEXED)
            result.suggest("i8", INDEXED)
            return
        if source == "ptr":
            if pointer is not None and match[4][0] == "%":
                unify(pointer.target(), result.target())
            return
        if pointer is not None:
            pointer.suggest(source, USED)
        reached, key = self.types.locate(source, [index.split(" ")[-1] for index in match[5].split(", ")[2:]])
        if reached == "ptr":
            unify(self.types.fields.setdefault(key, Pointee()), result.target())
        elif reached:
            result.suggest(reached, DECLARED)

    def phi(self, match: "re.Match[str]") -> None:
        """See `ir_lines.PHI`."""
        result = self._local(match[1])
        for operand, _ in INCOMING.findall(match[2]):
            self._join(result, operand)

    def select(self, match: "re.Match[str]") -> None:
        """See `ir_lines.SELECT`."""
        result = self._local(match[1])
        self._join(result, match[3])
        self._join(result, match[4])

    def icmp(self, match: "re.Match[str]") -> None:
        """See `ir_lines.ICMP`."""
        if match[3][0] == "%":
            self._join(self._local(match[3]), match[4])

    def returns(self, match: "re.Match[str]") -> None:
        """See `ir_lines.RETURN`."""
        self._join(self._returned, match[1])

    def alloca(self, match: "re.Match[str]") -> None:
        """See `ir_lines.ALLOCA`."""
        type = leading_type(match[2])
        if type != "ptr":
            self._local(match[1]).suggest(type, DECLARED)

    def atomic(self, match: "re.Match[str]") -> None:
        """See `ir_lines.ATOMIC`."""
        pointer, type = self.pointee(match[3]), leading_type(match[4])
        if pointer is not None and type != "ptr":
            pointer.suggest(type, USED)

    def call(self, match: "re.Match[str]") -> None:
        """See `ir_lines.CALL`."""
        function = self.functions.get(match[3])
        if function is None or not function.is_defined:
            return
        if match[1] and function.result == "ptr":
            self._join(function.returned, match[1])
        if "ptr" in match[4]:
            for argument, parameter in zip(split(match[4][1:-1]), function.parameters, strict=False):
                if parameter is not None and (parsed := POINTER_ARGUMENT.match(argument)) and parsed[2]:
                    self._join(parameter, parsed[2])

    def _local(self, name: str) -> Pointee:
        known = self.names.get(name)
        if known is None:
            known = self.names[name] = Pointee()
        return known

    def _join(self, one: Pointee, operand: str) -> None:
        """Give a pointer and another that is used in its place one type, unless the operand is an array that decays."""
        other = self.pointee(operand)
        if other is None:
            return
        root = other.root()
        if root.strength == DECLARED and root.type.startswith("["):
            one.suggest(self.types.parts(root.type)[0], USED)
        elif operand[0] == "@":
            one.suggest(root.type, USED)
        else:
            unify(root, one)


def last_type(head: str) -> str:
    """Return the result type, which ends a function header before the name."""
    head = head.rstrip()
    if head.endswith(("]", "}", ">")):
        depth = 0
        for place in range(len(head) - 1, -1, -1):
            depth += (head[place] in "]}>)") - (head[place] in "[{<(")
            if not depth and (place == 0 or head[place - 1] == " "):
                return head[place:]
    if head.endswith('"'):
        return head[head.rfind('%"') :]
    return head.rpartition(" ")[2]
