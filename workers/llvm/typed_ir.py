"""Today's textual IR, line by line, as LLVM 6 or 10 would have printed it.

The differences: pointers have types (see `pointer_evidence`), arrays decay to pointers by a `getelementptr`, and flags
and attributes that did not exist are left out. In LLVM 6 `memcpy` and similar functions take their alignment as an
argument, and `fneg` is a subtraction; what its dictionary does not have is left out, too: names of parameters,
`dso_local`, and how many bytes of an argument can be read. Some information is lost: casts between pointer types are
no longer instructions, and byte offsets replace some field indices.
"""

import functools
import re
from collections.abc import Callable, Iterator

from aiocg.workers.llvm import ir_lines as ir
from aiocg.workers.llvm.ir_lines import leading_pointer, leading_type, split
from aiocg.workers.llvm.pointer_evidence import Evidence, Function
from aiocg.workers.llvm.pointer_types import Pointee

__all__ = ["Rewriter"]

Match = re.Match[str]

_TYPED_ATTRIBUTE = re.compile(r"\b(sret|byval)\([^()]*\)")
_NEW = rf"noundef|noext|writable|dead_on_unwind|dead_on_return|allocptr|(?:range|nofpclass|initializes){ir.PARENTHESES}"
_NEW_ATTRIBUTES = {
    6: re.compile(rf" (?:{_NEW}|immarg|allocalign|dso_local|align \d+(?=[ ,)]))"),
    10: re.compile(rf" (?:{_NEW}|allocalign)"),
}
_NEW_FLAGS = re.compile(r"\b(?:(zext|uitofp) nneg|(or) disjoint|(trunc)(?: nuw| nsw)+|(icmp) samesign) ")
_FLAGGED = frozenset({"zext", "uitofp", "or", "trunc", "icmp"})
_SPLAT = re.compile(r"splat \(([^()]*)\)")
_LANES = re.compile(r"<(\d+) x ")
_FNEG = re.compile(r" fneg (.*)(?<=[\w>]) (\S+)$")
_TYPE_NAME = re.compile(rf"%{ir.NAME}")
_PREDECESSORS = re.compile(r" +; preds")
_UNNAMED = re.compile(r" %\d+$")
_RESULT = re.compile(rf"{ir.POINTER}(?= (?:\(.*\) )?$)")
_REFERENCE = re.compile(r" dereferenceable(?:_or_null)?\(\d+\)")
_ANY_POINTER = re.compile(rf"\b{ir.POINTER}\b")
_ALIGNMENT, _ALIGNED_ATTRIBUTE = re.compile(r"\balign (\d+)"), re.compile(r"\balign\((\d+)\)")
_ALIGNED = re.compile(r", align \d+$")
_HEAD_END = re.compile(r" (?:#\d|\{$|personality |comdat|!|section |gc |prefix ).*")
_INTRINSIC = re.compile(r"@llvm\.(memcpy|memmove|memset|lifetime)\.")
_CALLS = ("call", "tail", "musttail", "notail", "invoke")
_ALWAYS = frozenset({"alloca", *_CALLS})  # rewritten even without a pointer in the line
_KNOWN_ATTRIBUTES = frozenset(
    (
        *("byval", "dereferenceable", "dereferenceable_or_null", "inalloca", "inreg", "nest", "noalias", "nocapture"),
        *("nonnull", "readnone", "readonly", "returned", "signext", "sret", "swifterror", "swiftself", "writeonly"),
        "zeroext",
    )
)


# How an instruction is handled: its pattern, the method that collects evidence, and the method that writes it.
_Parser = tuple[re.Pattern[str], Callable[[Match], None] | None, Callable[[Match], str]]
# A parsed line: its names, its opcode, its text, and the function that writes it from its parts.
_Statement = tuple[dict[str, Pointee], str, str, Match | None, Callable[[Match], str] | None]


class Rewriter:
    """Rewrites a module.

    Args:
        lines: the module's text, one line per statement.
        llvm: 6, or 10.

    Attributes:
        evidence: what is known of the module's pointers.
        locals: the pointers of each function that has a body.
    """

    def __init__(self, lines: list[str], llvm: int = 6) -> None:
        self.llvm = llvm
        self.locals: list[dict[str, Pointee]] = []
        self._new_attributes = _NEW_ATTRIBUTES[llvm]
        self.evidence = known = Evidence()
        self.types = known.types
        self._parsers: dict[str, _Parser] = {
            "load": (ir.LOAD, known.load, self._load),
            "store": (ir.STORE, known.store, self._store),
            "getelementptr": (ir.GEP, known.gep, self._gep),
            "phi": (ir.PHI, known.phi, self._phi),
            "select": (ir.SELECT, known.select, self._select),
            "icmp": (ir.ICMP, known.icmp, self._icmp),
            "ret": (ir.RETURN, known.returns, self._return),
            "alloca": (ir.ALLOCA, known.alloca, self._alloca),
            "inttoptr": (ir.INT_TO_POINTER, None, self._int_to_pointer),
            "bitcast": (ir.POINTER_TO_POINTER, None, self._pointer_to_pointer),
            "freeze": (ir.POINTER_TO_POINTER, None, self._pointer_to_pointer),
            "atomicrmw": (ir.ATOMIC, known.atomic, self._atomic),
            "cmpxchg": (ir.ATOMIC, known.atomic, self._atomic),
            **dict.fromkeys(_CALLS, (ir.CALL, known.call, self._call)),
        }
        for line in lines:
            if line[0] in "%@d":
                known.declare(self._new_attributes.sub("", line) if line[0] == "d" else line)
        self._prefixes = tuple({name.split(".")[0] for name in self.types.bodies})
        self._statements = list(self._parse(lines))

    def lines(self) -> Iterator[str]:
        """Return the statements of the module, rewritten."""
        for names, opcode, line, match, write in self._statements:
            self.evidence.names = names
            yield self._inlined(write(match) if write and match else self._other(opcode, line))

    def _parse(self, lines: list[str]) -> Iterator[_Statement]:
        for line in lines:
            start = line[0]
            if start == " ":
                if (statement := self._instruction(line[2:])) is not None:
                    yield statement
            elif start == "@":
                if not ir.ALIAS.match(line):
                    yield {}, "", ir.METADATA.sub("", line), None, None
            elif line.startswith("define ") and (match := ir.FUNCTION.match(self._new_attributes.sub("", line))):
                self.evidence.enter(match)
                self.locals.append(self.evidence.names)
                yield self.evidence.names, "", line, match, self._head
            elif label := ir.LABEL.match(line):
                yield {}, "", line, label, _label

    def _instruction(self, line: str) -> _Statement | None:
        start = line.find(" = ") + 3 if line[0] == "%" else 0
        end = line.find(" ", start)
        opcode = line[start:end] if end > 0 else line[start:]
        names = self.evidence.names
        parser = self._parsers.get(opcode)
        if parser is None or ("ptr" not in line and opcode not in _ALWAYS):
            return names, opcode, line, None, None
        pattern, see, write = parser
        if opcode in _CALLS:
            if "@llvm.dbg." in line or "call void asm" in line:
                return None
            line = self._new_attributes.sub("", line)
        match = pattern.match(line)
        if match is not None and see:
            see(match)
        return names, opcode, line, match, write

    def _inlined(self, line: str) -> str:
        """Expand the remaining named types."""
        if not any(prefix in line for prefix in self._prefixes):
            return line
        bodies, typed = self.types.bodies, self.types.typed
        return _TYPE_NAME.sub(lambda match: typed(match[0]) if match[0] in bodies else match[0], line)

    # ---- operands

    def _pointer(self, operand: str, wanted: str = "") -> str:
        """Write a pointer operand with its type.

        Args:
            operand: the operand, as in the text.
            wanted: the pointee type that the use needs; "" for the operand's own.
        """
        if operand[0] == "%":
            return f"{wanted or self.evidence.text(operand)}* {operand}"
        if operand[0] == "@":
            return self._address(operand, wanted)
        type = f"{wanted or 'i8'}*"
        if operand in ("undef", "poison"):
            return f"{type} undef"
        if "(" not in operand:
            return f"{type} {operand}"
        gep = ir.CONSTANT_GEP.match(operand)
        if gep and gep[3] in self.evidence.globals:
            return self._address(gep[3], wanted or "i8", is_part=True)
        inner = ir.PAIR.sub(lambda match: self._pointer(match[1]), operand)
        return f"{type} {inner.replace(' to ptr', f' to {type}')}"

    def _address(self, operand: str, wanted: str, is_part: bool = False) -> str:
        """Write the address of a global or of one of its parts."""
        function = self.evidence.functions.get(operand)
        if function is not None:
            own = self._function_type(function)
            return f"{own}* {operand}" if wanted in ("", own) else f"{wanted}* bitcast ({own}* {operand} to {wanted}*)"
        raw = self.evidence.globals.get(operand)
        if raw is None:
            return f"{wanted or 'i8'}* {operand}"
        own = self.types.typed(raw)
        wanted = wanted or (self.types.typed(self.types.parts(raw)[0]) if raw.startswith("[") else own)
        if own == wanted and not is_part:
            return f"{own}* {operand}"
        path = self.types.path(raw, wanted)
        if path is None:
            return f"{wanted}* bitcast ({own}* {operand} to {wanted}*)"
        indices = "".join(f", {kind} 0" for kind in ("i64", *path))
        return f"{wanted}* getelementptr inbounds ({own}, {own}* {operand}{indices})"

    def _value(self, operand: str, type: str) -> str:
        """Write an operand that follows its type."""
        return operand if operand[0] == "%" else self._pointer(operand, type)[len(type) + 2 :]

    def _function_type(self, function: Function) -> str:
        parameters = (
            self.types.text(pointee) + "*" if pointee is not None and function.is_defined else self.types.typed(kind)
            for kind, pointee in zip(function.kinds, function.parameters, strict=True)
        )
        return f"{self._result(function)} ({', '.join(parameters)})"

    def _result(self, function: Function) -> str:
        if function.result == "ptr":
            return (self.types.text(function.returned) if function.is_defined else "i8") + "*"
        return self.types.typed(function.result)

    # ---- statements

    def _head(self, match: Match) -> str:
        function = self.evidence.functions[match[2]]
        head = match[1]
        if "ptr" in head:
            head = _ANY_POINTER.sub("i8*", _RESULT.sub(self._result(function), head))

        def unnamed(argument: str) -> str:
            return _UNNAMED.sub("", argument) if self.llvm == 6 else argument

        arguments = []
        for argument, pointee in zip(split(match[3][1:-1]), function.parameters, strict=False):
            parsed = ir.POINTER_ARGUMENT.match(argument) if pointee is not None else None
            if pointee is None or parsed is None:
                arguments.append(_ANY_POINTER.sub("i8*", unnamed(argument)))
            else:
                name = f" {parsed[2]}" if parsed[2] else ""
                arguments.append(f"{self.types.text(pointee)}*{_attributes(parsed[1], self.llvm)}{unnamed(name)}")
        rest = _HEAD_END.sub("", match.string[match.end() :])
        return f"{head}{match[2]}({', '.join(arguments)}){rest}"

    def _load(self, match: Match) -> str:
        type = self.evidence.text(match[1]) + "*" if match[3] == "ptr" else self.types.typed(match[3])
        return f"{match[1]} = load {match[2]}{type}, {self._pointer(match[4], type)}{match[5]}"

    def _store(self, match: Match) -> str:
        value = match[2]
        if value.startswith("ptr "):
            operand, target = value[4:], self.evidence.pointee(match[3])
            if operand[0] == "%":
                wanted = self.evidence.text(operand)
            else:
                wanted = self.types.text(target.target()) if target is not None else ""
            value = self._pointer(operand, wanted)
            type = f"{wanted}*" if wanted else leading_pointer(value)
        else:
            type = self.types.typed(leading_type(value))
            value = self._other("", value)
        return f"store {match[1]}{value}, {self._pointer(match[3], type)}{match[4]}"

    def _gep(self, match: Match) -> str:
        if match[3] == "ptr":
            known = self.evidence.pointee(match[4])
            type = self.types.text(known) if known is not None else "i8*"
            type = type if type.endswith("*") else "i8*"
        else:
            type = self.types.typed(match[3])
        inbounds = "inbounds " if "inbounds" in match[2] else ""
        return f"{match[1]} = getelementptr {inbounds}{type}, {self._pointer(match[4], type)}{match[5]}"

    def _phi(self, match: Match) -> str:
        type = self.evidence.text(match[1])
        incoming = ir.INCOMING.sub(lambda one: f"[ {self._value(one[1], type)}, {one[2]} ]", match[2])
        return f"{match[1]} = phi {type}* {incoming}"

    def _select(self, match: Match) -> str:
        type = self.evidence.text(match[1])
        return f"{match[1]} = select {match[2]}, {self._pointer(match[3], type)}, {self._pointer(match[4], type)}"

    def _icmp(self, match: Match) -> str:
        named = match[3] if match[3][0] == "%" else match[4]
        type = self.evidence.text(named) if named[0] == "%" else "i8"
        return f"{match[1]} = icmp {match[2]} {self._pointer(match[3], type)}, {self._value(match[4], type)}"

    def _return(self, match: Match) -> str:
        return f"ret {self._pointer(match[1])}"

    def _alloca(self, match: Match) -> str:
        raw = leading_type(match[2])
        if raw == "ptr":
            type = self.evidence.text(match[1])
            type = type if type.endswith("*") else "i8*"
        else:
            type = self.types.typed(raw)
        return f"{match[1]} = alloca {type}{match[2][len(raw) :]}"

    def _int_to_pointer(self, match: Match) -> str:
        return f"{match[1]} = {match[2]} {self.evidence.text(match[1])}*"

    def _pointer_to_pointer(self, match: Match) -> str:
        target = f" to {self.evidence.text(match[1])}*" if match[2] == "bitcast" else ""
        return f"{match[1]} = {match[2]} {self._pointer(match[3])}{target}"

    def _atomic(self, match: Match) -> str:
        type, rest = self.types.typed(leading_type(match[4])), _ALIGNED.sub("", match[4])
        rest = ir.PAIR.sub(lambda pair: self._pointer(pair[1], "i8"), rest)
        return f"{match[1]} = {match[2]} {self._pointer(match[3], type)}, {rest}"

    def _call(self, match: Match) -> str:
        function = self.evidence.functions.get(match[3])
        head, arguments = match[2], match[4][1:-1]
        if "ptr" in head:
            head = self._call_head(match, function)
        if "ptr" in arguments:
            arguments = ", ".join(
                self._argument(function, place, argument) for place, argument in enumerate(split(arguments))
            )
        if intrinsic := _INTRINSIC.match(match[3]):
            arguments = self._intrinsic_arguments(intrinsic[1], arguments)
        result = f"{match[1]} = " if match[1] else ""
        return self._modern(f"{result}{head}{match[3]}({arguments}){match[5]}")

    def _call_head(self, match: Match, function: Function | None) -> str:
        """Write the type before the callee: the result type, or the whole function type."""
        head = match[2]
        if function is not None:
            result = self._result(function)
            if self.llvm == 6 and not function.returns_reference:
                head = _REFERENCE.sub("", head)
        else:
            result = self.evidence.text(match[1]) + "*" if match[1] else "i8*"
        return _ANY_POINTER.sub("i8*", _RESULT.sub(result, head))

    def _argument(self, function: Function | None, place: int, argument: str) -> str:
        parsed = ir.POINTER_ARGUMENT.match(argument)
        if parsed is None or not parsed[2]:
            return self._other("", argument)
        wanted, attributes = "", parsed[1]
        if function is not None:
            declared = place < len(function.parameters)
            parameter = function.parameters[place] if declared and function.is_defined else None
            # A function that is only declared usually belongs to a library, and takes `void *` or `char *`.
            wanted = self.types.text(parameter) if parameter is not None else "i8"
            if self.llvm == 6 and not (declared and function.references[place]):  # which later LLVMs infer
                attributes = _REFERENCE.sub("", attributes)
        pointer = self._pointer(parsed[2], wanted)
        type = f"{wanted}*" if wanted else leading_pointer(pointer)
        return f"{type}{_attributes(attributes, self.llvm)}{pointer[len(type) :]}"

    def _other(self, opcode: str, line: str) -> str:
        """Write a line that has no method of its own."""
        line = self._modern(line)
        if opcode in _FLAGGED:
            line = _NEW_FLAGS.sub(lambda match: f"{match[match.lastindex or 0]} ", line)
        elif opcode == "fneg" and self.llvm == 6:
            line = _FNEG.sub(r" fsub \1 -0.0, \2", line)
        if "ptr" in line:
            line = ir.PAIR.sub(lambda match: self._pointer(match[1]), line)
            line = ir.BARE_POINTER.sub("i8*", line)
        return line

    def _modern(self, line: str) -> str:
        """Remove or respell newer syntax that may occur in any line."""
        if "splat (" in line and (lanes := _LANES.search(line)):
            line = _SPLAT.sub(lambda match: f"<{', '.join([match[1]] * int(lanes[1]))}>", line)
        if self.llvm == 6:
            line = line.replace("dso_local ", "")
        return line.replace("poison", "undef")

    def _intrinsic_arguments(self, name: str, arguments: str) -> str:
        """Return an intrinsic's arguments, with those that it does not have any more."""
        if name == "lifetime":  # its size is no longer stated
            return arguments if arguments.startswith("i64") else f"i64 1, {arguments}"
        head, _, volatile = arguments.rpartition(", ")
        return f"{head}, i32 1, {volatile}" if self.llvm == 6 else arguments


def _label(match: Match) -> str:
    """Write the label of a block as CompilerGym does, which leaves the spaces where there is no predecessor."""
    return "<LABEL>:" + _TYPE_NAME.sub("<LABEL>", _PREDECESSORS.sub(" ; preds", match[1] or ""))


@functools.lru_cache(4096)
def _attributes(text: str, llvm: int) -> str:
    """Return the pointer attributes that an LLVM had, in its order."""
    known = _KNOWN_ATTRIBUTES if llvm == 6 else _KNOWN_ATTRIBUTES | {"align"}
    text = _TYPED_ATTRIBUTE.sub(r"\1", _ALIGNMENT.sub(r"align(\1)", text)).replace("captures(none)", "nocapture")
    kept = [one for one in text.split(" ") if one.split("(")[0] in known]
    kept.sort(key=lambda one: ("(" in one, one))
    return _ALIGNED_ATTRIBUTE.sub(r"align \1", "".join(f" {one}" for one in kept))
