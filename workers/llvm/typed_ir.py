"""Today's textual IR, line by line, as LLVM 6 would have printed it.

What is different: pointers have types (see `pointer_types`), strings decay to pointers by a `getelementptr`, `memcpy` and
its like have their alignment as an argument, and flags and attributes that did not exist are left out. What a program
looked like before cannot always be known, such as the casts between pointer types, which are no instructions any more.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from aiocg.workers.llvm.pointer_types import DECLARED, INDEXED, USED, Pointee, Types, split, unify

__all__ = ["Rewriter"]

_NAME = r'(?:"[^"]*"|[-\w.$]+)'
_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_OPERAND = rf"(?:[%@]{_NAME}|null|undef|poison|zeroinitializer|[a-z]+(?: [a-z]+)* ?{_PARENTHESES})"
_POINTER = r"ptr(?: addrspace\(\d+\))?"

_TYPE_DEFINITION = re.compile(rf"(%{_NAME}) = type (.*)")
_GLOBAL = re.compile(rf"(@{_NAME}) = (.*?\b)(global|constant) (.*)")
_FUNCTION = re.compile(rf"(.*?)(@{_NAME})({_PARENTHESES})")
_METADATA = re.compile(r",? (?:![\w.$]+ !.*|![\w.$]+ \(.*|#\d+.*)$")
_LOAD = re.compile(rf"(%{_NAME}) = load ((?:atomic |volatile )*)(.+?), {_POINTER} ({_OPERAND})(.*)")
_STORE = re.compile(rf"store ((?:atomic |volatile )*)(.+), {_POINTER} ({_OPERAND})(.*)")
_GEP_FLAGS = r"(?:(?:inbounds|nuw|nusw|inrange(?:\([^()]*\))?) )*"
_GEP = re.compile(rf"(%{_NAME}) = getelementptr ({_GEP_FLAGS})(.+?), {_POINTER} ({_OPERAND})(.*)")
_CONSTANT_GEP = re.compile(rf"getelementptr ({_GEP_FLAGS})\((.+?), {_POINTER} ({_OPERAND})(.*)\)")
_PHI = re.compile(rf"(%{_NAME}) = phi {_POINTER} (.*)")
_INCOMING = re.compile(rf"\[ ({_OPERAND}), (%{_NAME}) \]")
_SELECT = re.compile(rf"(%{_NAME}) = select (.*), {_POINTER} ({_OPERAND}), {_POINTER} ({_OPERAND})$")
_ICMP = re.compile(rf"(%{_NAME}) = icmp (?:samesign )?(\w+) {_POINTER} ({_OPERAND}), ({_OPERAND})$")
_RETURN = re.compile(rf"ret {_POINTER} ({_OPERAND})$")
_ALLOCA = re.compile(rf"(%{_NAME}) = alloca (?:inalloca )?(.*)")
_CALL = re.compile(
    rf"(?:(%{_NAME}) = )?((?:tail |musttail |notail )?(?:call|invoke) .*?)([%@]{_NAME})({_PARENTHESES})(.*)", re.DOTALL
)
_CAST = re.compile(rf"(%{_NAME}) = (?:inttoptr .* to|freeze) {_POINTER}\b")
_ATOMIC = re.compile(
    rf"(%{_NAME}) = (atomicrmw (?:volatile )?\w+|cmpxchg(?: weak| volatile)*) {_POINTER} ({_OPERAND}), (.*)"
)
_PAIR = re.compile(rf"\b{_POINTER} ({_OPERAND})")
_BARE = re.compile(rf"\b{_POINTER}\b(?! {_OPERAND})")
_ATTRIBUTE = (
    r"(?!null\b|undef\b|poison\b|getelementptr\b|inttoptr\b|addrspacecast\b)"
    rf"[a-z_]\w*(?:{_PARENTHESES})?(?: \d+(?=[ ,)]))?"
)
_POINTER_ARGUMENT = re.compile(rf"{_POINTER}((?: {_ATTRIBUTE})*)(?: ({_OPERAND}))?$")
_TYPED_ATTRIBUTE = re.compile(r"\b(sret|byval)\(([^()]*)\)")
_NEW_ATTRIBUTES = re.compile(
    r" (?:noundef|noext|immarg|writable|dead_on_unwind|dead_on_return|allocptr|allocalign|dso_local"
    rf"|align \d+(?=[ ,)])|(?:range|nofpclass|initializes){_PARENTHESES})"
)
_NEW_FLAGS = re.compile(
    r"(?<= zext )nneg |(?<= uitofp )nneg |(?<= or )disjoint |(?<= trunc )(?:nuw |nsw )+|(?<= icmp )samesign "
)
_SPLAT = re.compile(r"splat \(([^()]*)\)")
_LANES = re.compile(r"<(\d+) x ")
_TYPE_NAME = re.compile(rf"%{_NAME}")
_ALWAYS = frozenset({"alloca", "call", "tail", "musttail", "notail", "invoke"})
_KNOWN_ATTRIBUTES = frozenset(
    "byval dereferenceable dereferenceable_or_null inalloca inreg nest noalias nocapture nonnull readnone readonly "
    "returned signext sret swifterror swiftself writeonly zeroext".split()
)
_WORD = "abcdefghijklmnopqrstuvwxyz0123456789_"
_INTRINSIC = re.compile(r"@llvm\.(memcpy|memmove|memset|lifetime)\.")


class _Function:
    """What calls need to know of a function.

    Attributes:
        parameters: what each parameter leads to; None for one that is no pointer.
        returned: what the returned pointer leads to.
        is_defined: whether its instructions are there to see.
    """

    def __init__(self, result: str, arguments: list[str], is_defined: bool) -> None:
        self.result = result
        self.kinds = ["..." if argument == "..." else leading_type(argument) for argument in arguments]
        self.parameters = [Pointee() if kind == "ptr" else None for kind in self.kinds]
        self.returned = Pointee()
        self.is_defined = is_defined


class _Statement(NamedTuple):
    """A parsed line, and what writes it."""

    write: "Callable[[re.Match[str]], str] | None"
    match: "re.Match[str] | None"
    line: str


class Rewriter:
    """Rewrites a module.

    Args:
        lines: of its text, those of one statement joined.
    """

    def __init__(self, lines: list[str]) -> None:
        self.types = Types()
        self.globals: dict[str, str] = {}
        self.functions: dict[str, _Function] = {}
        self.names: dict[str, Pointee] = {}
        self._returned = Pointee()
        self._fields: dict[tuple[str, tuple[str, ...]], Pointee] = {}
        self._objects: dict[str, Pointee] = {}
        self._parsers = {
            "load": (_LOAD, self._see_load, self._write_load),
            "store": (_STORE, self._see_store, self._write_store),
            "getelementptr": (_GEP, self._see_gep, self._write_gep),
            "phi": (_PHI, self._see_phi, self._write_phi),
            "select": (_SELECT, self._see_select, self._write_select),
            "icmp": (_ICMP, self._see_icmp, self._write_icmp),
            "ret": (_RETURN, self._see_return, self._write_return),
            "alloca": (_ALLOCA, self._see_alloca, self._write_alloca),
            "inttoptr": (_CAST, None, self._write_cast),
            "freeze": (_CAST, None, self._write_cast),
            "atomicrmw": (_ATOMIC, self._see_atomic, self._write_atomic),
            "cmpxchg": (_ATOMIC, self._see_atomic, self._write_atomic),
            **dict.fromkeys(
                ("call", "tail", "musttail", "notail", "invoke"), (_CALL, self._see_call, self._write_call)
            ),
        }
        for line in lines:
            if line[0] in "%@d":
                self._declare(line)
        self._prefixes = tuple({name.split(".")[0] for name in self.types.bodies})
        self._bodies = [(names, statement) for names, statement in self._parse(lines)]

    def lines(self) -> Iterator[str]:
        """Return the statements of the module, rewritten."""
        for names, statement in self._bodies:
            self.names = names
            if statement.write and statement.match:
                yield self._inlined(statement.write(statement.match))
            else:
                yield self._inlined(self._write_other(statement.line))

    # ---- reading

    def _declare(self, line: str) -> None:
        if match := _TYPE_DEFINITION.match(line):
            self.types.bodies[match[1]] = match[2]
        elif match := _GLOBAL.match(line):
            self.globals[match[1]] = leading_type(match[4])
        elif line.startswith(("define ", "declare ")) and (match := _FUNCTION.match(_NEW_ATTRIBUTES.sub("", line))):
            result = leading_type(match[1].split(" ")[-2]) if match[1].count(" ") > 1 else ""
            self.functions[match[2]] = _Function(result, split(match[3][1:-1]), line.startswith("define "))

    def _parse(self, lines: list[str]) -> Iterator[tuple[dict[str, Pointee], _Statement]]:
        names: dict[str, Pointee] = {}
        for line in lines:
            if line.startswith("@"):
                if not re.match(rf"@{_NAME} = .*\b(?:alias|ifunc) ", line):
                    yield {}, _Statement(None, None, _METADATA.sub("", line))
            elif line.startswith("define "):
                self.names = names = {}
                match = _FUNCTION.match(_NEW_ATTRIBUTES.sub("", line))
                if match:
                    self._enter(match)
                    yield names, _Statement(self._write_head, match, line)
            elif line.startswith("  ") and not line.startswith(("  #dbg", "  ;")):
                statement = self._parse_instruction(line.strip())
                if statement:
                    yield names, statement

    def _enter(self, match: "re.Match[str]") -> None:
        function = self.functions[match[2]]
        self._returned = function.returned
        for number, (argument, pointee) in enumerate(zip(split(match[3][1:-1]), function.parameters, strict=False)):
            if pointee is not None:
                name = argument.split(" ")[-1]
                self.names[name if name[0] == "%" else f"%{number}"] = pointee
                if typed := _TYPED_ATTRIBUTE.search(argument):
                    pointee.suggest(self.types.typed(typed[2]), DECLARED)

    def _parse_instruction(self, line: str) -> _Statement | None:
        if "!" in line or "#" in line:
            line = _METADATA.sub("", line)
        start = line.find(" = ") + 3 if line[0] == "%" else 0
        end = line.find(" ", start)
        opcode = line[start:end] if end > 0 else line[start:]
        parser = self._parsers.get(opcode)
        if parser is None or ("ptr" not in line and opcode not in _ALWAYS):
            return _Statement(None, None, line)
        pattern, see, write = parser
        if pattern is _CALL:
            if "@llvm.dbg." in line or "call void asm" in line:
                return None
            line = _NEW_ATTRIBUTES.sub("", line)
        match = pattern.match(line)
        if match is None:
            return _Statement(None, None, line)
        if see:
            see(match)
        return _Statement(write, match, line)

    # ---- evidence

    def _pointee(self, operand: str) -> Pointee | None:
        """Return what is known of a named pointer; None for a constant."""
        if operand[0] == "%":
            known = self.names.get(operand)
            if known is None:
                known = self.names[operand] = Pointee()
            return known
        if operand in self.globals:
            known = self._objects.get(operand)
            if known is None:
                known = self._objects[operand] = Pointee(self.types.typed(self.globals[operand]), DECLARED)
            return known
        return None

    def _suggest(self, operand: str, type: str, strength: int) -> None:
        known = self._pointee(operand)
        if known is not None:
            known.suggest(self.types.typed(type), strength)

    def _join(self, one: Pointee, operand: str) -> None:
        """A pointer is used where another one is: they are of one type, unless the operand is an array that decays."""
        other = self._pointee(operand)
        if other is None:
            return
        root = other.root()
        if root.strength == DECLARED and root.type.startswith("["):
            one.suggest(root.type[1:-1].partition(" x ")[2], USED)
        elif operand[0] == "@":
            one.suggest(root.type, USED)
        else:
            unify(root, one)

    def _see_load(self, match: "re.Match[str]") -> None:
        if match[3] == "ptr":
            pointer = self._pointee(match[4])
            if pointer is not None:
                self._join(pointer.target(), match[1])
        else:
            self._suggest(match[4], match[3], USED)

    def _see_store(self, match: "re.Match[str]") -> None:
        if match[2].startswith("ptr "):
            pointer = self._pointee(match[3])
            if pointer is not None:
                self._join(pointer.target(), match[2][4:])
        else:
            self._suggest(match[3], leading_type(match[2]), USED)

    def _see_gep(self, match: "re.Match[str]") -> None:
        source = match[3]
        self._suggest(match[4], source, INDEXED if source == "i8" else USED)
        indices = tuple(index.split(" ")[-1] for index in match[5].split(", ")[2:])
        result = self._pointee(match[1])
        assert result is not None
        reached = self.types.part(source, indices)
        if reached == "ptr":
            path = tuple(index if index.isdecimal() else "" for index in indices)
            field = self._fields.setdefault((source, path), Pointee())
            unify(field, result.target())
        elif reached and source != "i8":
            result.suggest(self.types.typed(reached), DECLARED)
        elif source == "i8":
            result.suggest("i8", INDEXED)

    def _see_phi(self, match: "re.Match[str]") -> None:
        result = self._pointee(match[1])
        assert result is not None
        for operand, _ in _INCOMING.findall(match[2]):
            self._join(result, operand)

    def _see_select(self, match: "re.Match[str]") -> None:
        result = self._pointee(match[1])
        assert result is not None
        self._join(result, match[3])
        self._join(result, match[4])

    def _see_icmp(self, match: "re.Match[str]") -> None:
        left = self._pointee(match[3])
        if left is not None and match[3][0] == "%":
            self._join(left, match[4])

    def _see_return(self, match: "re.Match[str]") -> None:
        self._join(self._returned, match[1])

    def _see_alloca(self, match: "re.Match[str]") -> None:
        type = leading_type(match[2])
        if type != "ptr":
            self._suggest(match[1], type, DECLARED)

    def _see_atomic(self, match: "re.Match[str]") -> None:
        self._suggest(match[3], leading_type(match[4]), USED)

    def _see_call(self, match: "re.Match[str]") -> None:
        function = self.functions.get(match[3])
        if function is None or not function.is_defined:
            return
        if match[1] and function.result == "ptr":
            self._join(function.returned, match[1])
        if "ptr" in match[4]:
            for argument, parameter in zip(split(match[4][1:-1]), function.parameters, strict=False):
                if parameter is not None and (parsed := _POINTER_ARGUMENT.match(argument)) and parsed[2]:
                    self._join(parameter, parsed[2])

    # ---- writing

    def _inlined(self, line: str) -> str:
        """Write out named types."""
        if not any(prefix in line for prefix in self._prefixes):
            return line
        bodies, typed = self.types.bodies, self.types.typed
        return _TYPE_NAME.sub(lambda match: typed(match[0]) if match[0] in bodies else match[0], line)

    def _pointer(self, operand: str, wanted: str = "") -> str:
        """Write a pointer operand with its type.

        Args:
            operand: as it stands in the text.
            wanted: what it is used as a pointer to; "" for what it is.
        """
        if operand[0] == "%":
            return f"{wanted or self._text(operand)}* {operand}"
        if operand in ("null", "undef", "poison"):
            return f"{wanted or 'i8'}* {'null' if operand == 'null' else 'undef'}"
        if operand[0] == "@":
            return self._address(operand, wanted)
        gep = _CONSTANT_GEP.match(operand)
        if gep and gep[3] in self.globals:
            return self._address(gep[3], wanted or "i8", always=True)
        inner = _PAIR.sub(lambda match: self._pointer(match[1]), operand)
        type = f"{wanted or 'i8'}*"
        return f"{type} {inner.replace(' to ptr', f' to {type}')}"

    def _address(self, operand: str, wanted: str, always: bool = False) -> str:
        function = self.functions.get(operand)
        if function is not None:
            own = self._function_type(function)
            return f"{own}* {operand}" if wanted in ("", own) else f"{wanted}* bitcast ({own}* {operand} to {wanted}*)"
        raw = self.globals.get(operand)
        if raw is None:
            return f"{wanted or 'i8'}* {operand}"
        own = self.types.typed(raw)
        if not wanted:
            wanted = own[1:-1].partition(" x ")[2] if own.startswith("[") else own
        if own == wanted and not always:
            return f"{own}* {operand}"
        path = self._path(raw, wanted)
        if path is None:
            return f"{wanted}* bitcast ({own}* {operand} to {wanted}*)"
        indices = "".join(f", {kind} 0" for kind in ("i64", *path))
        return f"{wanted}* getelementptr inbounds ({own}, {own}* {operand}{indices})"

    def _path(self, raw: str, wanted: str) -> tuple[str, ...] | None:
        return self.types.path(raw, wanted)

    def _function_type(self, function: _Function) -> str:
        parameters = (
            pointee.text() + "*" if pointee is not None and function.is_defined else self.types.typed(kind)
            for kind, pointee in zip(function.kinds, function.parameters, strict=True)
        )
        return f"{self._result(function)} ({', '.join(parameters)})"

    def _result(self, function: _Function) -> str:
        if function.result == "ptr":
            return (function.returned.text() if function.is_defined else "i8") + "*"
        return self.types.typed(function.result)

    def _text(self, operand: str) -> str:
        known = self._pointee(operand)
        return known.text() if known is not None else "i8"

    def _write_load(self, match: "re.Match[str]") -> str:
        type = self._text(match[1]) + "*" if match[3] == "ptr" else self.types.typed(match[3])
        return f"{match[1]} = load {match[2]}{type}, {self._pointer(match[4], type)}{match[5]}"

    def _write_store(self, match: "re.Match[str]") -> str:
        value = match[2]
        if value.startswith("ptr "):
            target = self._pointee(match[3])
            operand = value[4:]
            wanted = self._text(operand) if operand[0] == "%" else target.target().text() if target else ""
            value = self._pointer(operand, wanted)
            type = value[: -len(operand) - 1] if operand[0] == "%" else leading_pointer(value)
        else:
            value = self._modern(value)
            type = self.types.typed(leading_type(value))
        return f"store {match[1]}{value}, {self._pointer(match[3], type)}{match[4]}"

    def _write_gep(self, match: "re.Match[str]") -> str:
        source = match[3]
        type = self.types.typed(source)
        if source == "ptr":
            known = self._pointee(match[4])
            type = known.text() if known is not None and known.text().endswith("*") else "i8*"
        inbounds = "inbounds " if "inbounds" in match[2] else ""
        return f"{match[1]} = getelementptr {inbounds}{type}, {self._pointer(match[4], type)}{match[5]}"

    def _write_phi(self, match: "re.Match[str]") -> str:
        type = self._text(match[1])

        def replace(incoming: "re.Match[str]") -> str:
            return f"[ {self._value(incoming[1], type)}, {incoming[2]} ]"

        return f"{match[1]} = phi {type}* {_INCOMING.sub(replace, match[2])}"

    def _value(self, operand: str, type: str) -> str:
        """Write an operand whose type stands before already."""
        return operand if operand[0] == "%" else self._pointer(operand, type)[len(type) + 2 :]

    def _write_select(self, match: "re.Match[str]") -> str:
        type = self._text(match[1])
        return f"{match[1]} = select {match[2]}, {self._pointer(match[3], type)}, {self._pointer(match[4], type)}"

    def _write_icmp(self, match: "re.Match[str]") -> str:
        type = self._text(match[3]) if match[3][0] == "%" else self._text(match[4]) if match[4][0] == "%" else "i8"
        return f"{match[1]} = icmp {match[2]} {self._pointer(match[3], type)}, {self._value(match[4], type)}"

    def _write_return(self, match: "re.Match[str]") -> str:
        return f"ret {self._pointer(match[1], self._returned_text(match[1]))}"

    def _returned_text(self, operand: str) -> str:
        return self._text(operand) if operand[0] == "%" else ""

    def _write_alloca(self, match: "re.Match[str]") -> str:
        type = leading_type(match[2])
        typed = self._text(match[1]) if type == "ptr" else self.types.typed(type)
        if type == "ptr" and not typed.endswith("*"):
            typed = "i8*"
        return f"{match[1]} = alloca {typed}{match[2][len(type) :]}"

    def _write_cast(self, match: "re.Match[str]") -> str:
        rest = match.string[match.end() :]
        if rest.startswith(" "):
            return f"{match[1]} = freeze {self._pointer(rest[1:])}"
        return f"{match[0][: -len('ptr')]}{self._text(match[1])}*"

    def _write_atomic(self, match: "re.Match[str]") -> str:
        type = self.types.typed(leading_type(match[4]))
        rest = re.sub(r", align \d+$", "", match[4])
        if rest.startswith("ptr"):
            type, rest = "i8*", _PAIR.sub(lambda pair: self._pointer(pair[1], "i8"), rest)
        return f"{match[1]} = {match[2]} {self._pointer(match[3], type)}, {rest}"

    def _write_other(self, line: str) -> str:
        line = self._modern(line)
        if "ptr" in line:
            line = _PAIR.sub(lambda match: self._pointer(match[1], "i8"), line)
            line = _BARE.sub("i8*", line)
        return line

    def _modern(self, line: str) -> str:
        """Leave out, or spell as before, what newer LLVMs have added to a line."""
        if " fneg " in line:
            line = re.sub(r" fneg (.*?)([\w]+|<.*?>) (\S+)$", r" fsub \1\2 -0.0, \3", line)
        if "splat (" in line and (lanes := _LANES.search(line)):
            line = _SPLAT.sub(lambda match: f"<{', '.join([match[1]] * int(lanes[1]))}>", line)
        return _NEW_FLAGS.sub("", line.replace("dso_local ", "")).replace("poison", "undef")

    def _write_head(self, match: "re.Match[str]") -> str:
        function = self.functions[match[2]]
        head = match[1]
        if function.result == "ptr":
            head = re.sub(rf"{_POINTER} $", f"{self._result(function)} ", head)
        arguments = []
        for argument, pointee in zip(split(match[3][1:-1]), function.parameters, strict=False):
            if pointee is None:
                arguments.append(re.sub(r" %\d+$", "", argument))
            else:
                parsed = _POINTER_ARGUMENT.match(argument)
                name = parsed[2] if parsed and parsed[2] else ""
                named = f" {name}" if name and not re.fullmatch(r"%\d+", name) else ""
                attributes = _attributes(parsed[1] if parsed else "")
                arguments.append(f"{pointee.text()}*{attributes}{named}")
        rest = match.string[match.end() :].split(" #")[0].split(" {")[0].split(" personality")[0].split(" comdat")[0]
        return f"{head}{match[2]}({', '.join(arguments)}){rest}"

    def _write_call(self, match: "re.Match[str]") -> str:
        function = self.functions.get(match[3])
        head = match[2]
        if "ptr" in head:
            head = self._call_head(match, function)
        arguments = match[4][1:-1]
        intrinsic = _INTRINSIC.match(match[3])
        if "ptr" in arguments:
            parameters = function.parameters if function and function.is_defined else ()
            arguments = ", ".join(
                self._argument(argument, parameters[place] if place < len(parameters) else None, function is not None)
                for place, argument in enumerate(split(arguments))
            )
        if intrinsic:
            arguments = _intrinsic_arguments(intrinsic[1], arguments)
        result = f"{match[1]} = " if match[1] else ""
        return self._modern(f"{result}{head}{match[3]}({arguments}){match[5]}")

    def _call_head(self, match: "re.Match[str]", function: _Function | None) -> str:
        """Write the types before the callee: that of the result, or that of the whole function."""
        result = "i8*"
        if function is not None:
            result = self._result(function)
        elif match[1]:
            result = self._text(match[1]) + "*"
        head = re.sub(rf"{_POINTER}(?= (?:\(.*\) )?$)", result, match[2])
        return re.sub(rf"\b{_POINTER}\b", "i8*", head)

    def _argument(self, argument: str, parameter: Pointee | None, is_direct: bool) -> str:
        parsed = _POINTER_ARGUMENT.match(argument)
        if parsed is None or not parsed[2]:
            return self._write_other(argument) if "ptr" in argument else argument
        if parameter is not None:
            wanted = parameter.text()
        else:
            wanted = "i8" if is_direct else ""
        pointer = self._pointer(parsed[2], wanted)
        type = leading_pointer(pointer)
        return f"{type}{_attributes(parsed[1])}{pointer[len(type) :]}"


def _attributes(text: str) -> str:
    """Return those attributes of a pointer that LLVM 6 had, in its order."""
    if not text:
        return ""
    text = _TYPED_ATTRIBUTE.sub(r"\1", text).replace("captures(none)", "nocapture")
    kept = [one for one in text.split(" ") if one.split("(")[0] in _KNOWN_ATTRIBUTES]
    kept.sort(key=lambda one: ("(" in one, one))
    return "".join(f" {one}" for one in kept)


def _intrinsic_arguments(name: str, arguments: str) -> str:
    """Return the arguments as the intrinsic had them in LLVM 6."""
    if name == "lifetime":
        return arguments if arguments.startswith("i64") else f"i64 1, {arguments}"
    head, _, last = arguments.rpartition(", ")
    return f"{head}, i32 1, {last}"


def leading_type(text: str) -> str:
    """Return the type that a text begins with."""
    if text[:1] == "%":
        match = re.match(rf"%{_NAME}", text)
        return match[0] if match else text
    if text[:1] not in "[{<":
        return text[: len(text) - len(text.lstrip(_WORD))]
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "[{<(") - (character in "]}>)")
        if not depth:
            return text[: place + 1]
    return text


def leading_pointer(text: str) -> str:
    """Return the typed pointer type that a text begins with."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "[{<(") - (character in "]}>)")
        if not depth and character == " " and text[place - 1] == "*":
            return text[:place]
    return text
