"""Reads the text of LLVM IR into functions, blocks, instructions and operands: slowly, and without LLVM.

It is for `programl_reader.py`, and knows only the grammar of IR as LLVM prints it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Type = tuple[Any, ...]

_TOKEN = re.compile(
    r"""\s+|;[^\n]*                                                     # nothing
    | (?P<token> c?"[^"]*" | [%@$!\#]"[^"]*" | [%@$!\#][-\w.$]* | \.\.\. | [-+]?[\w.][-+\w.$]* | [][(){}<>,=*:|^&~] )
    """,
    re.VERBOSE,
)


def _words(text: str) -> set[str]:
    return set(text.split())


_LABEL = re.compile(r'("[^"]*"|[-\w.$]+):')
_OPENING, _CLOSING = "([{<", ")]}>"
_FLAGS = _words("""
    nuw nsw exact disjoint nneg samesign inbounds nusw fast nnan ninf nsz arcp contract afn reassoc volatile atomic weak
    inalloca swifterror
    """)
_BINARY = _words("add fadd sub fsub mul fmul udiv sdiv fdiv urem srem frem shl lshr ashr and or xor")
_CASTS = _words("""
    trunc zext sext fptoui fptosi uitofp sitofp fptrunc fpext ptrtoint inttoptr bitcast addrspacecast ptrtoaddr
    """)
_EXPRESSIONS = _BINARY | _CASTS | _words("getelementptr icmp fcmp select extractelement insertelement shufflevector")
_OTHER_TYPES = _words("void half bfloat float double fp128 x86_fp80 ppc_fp128 x86_mmx x86_amx label token metadata")

_VALUES = _words("""
    true false null undef poison zeroinitializer none asm blockaddress splat dso_local_equivalent no_cfi ptrauth [ { <
    """)

_TOKEN_TYPE: Type = ("other", "token")


@dataclass
class Operand:
    """A constant has a text that is its own, a local value a name; a position is where it stands among the operands."""

    type: Type
    text: str
    position: int


@dataclass
class Instruction:
    opcode: str
    operands: list[Operand]
    name: str = ""
    type: Type = ("other", "void")
    successors: list[str] = field(default_factory=list)
    callee: str = ""


@dataclass
class Function:
    name: str
    parameters: dict[str, Type]
    blocks: dict[str, list[Instruction]]


# ------------------------------------------------------------------------------------------------- reading text


def tokens(text: str) -> list[str]:
    return [match["token"] for match in _TOKEN.finditer(text) if match["token"]]


class Cursor:
    """Reads types, values and instructions from tokens."""

    def __init__(self, text: str, structs: dict[str, Type]) -> None:
        self.tokens = tokens(text)
        self.at = 0
        self.structs = structs

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *wanted: str) -> bool:
        if self.peek() in wanted and self.peek():
            self.at += 1
            return True
        return False

    def expect(self, wanted: str) -> None:
        found = self.next()
        assert found == wanted, f"{wanted} expected, not {found}: {' '.join(self.tokens)}"

    def group(self) -> str:
        """Read a bracketed group, or a single token, and return it as text."""
        start, depth = self.at, 0
        while True:
            token = self.next()
            depth += (token in _OPENING) - (token in _CLOSING)
            if depth == 0:
                return " ".join(self.tokens[start : self.at])

    def skip_to(self, *ends: str) -> None:
        while self.peek() and self.peek() not in ends:
            self.group()

    def skip_flags(self) -> None:
        while self.peek() in _FLAGS:
            self.next()

    # types

    def at_type(self) -> bool:
        token = self.peek()
        return (
            token in _OTHER_TYPES
            or token in ("ptr", "target", "[", "{", "<")
            or token.startswith("%")
            or re.fullmatch(r"i\d+", token) is not None
        )

    def type(self) -> Type:
        base = self.base_type()
        while True:
            if self.peek() == "*" or (self.peek() == "addrspace" and self.peek(4) == "*"):
                base = ("pointer", self.address_space(), base)
                self.expect("*")
            elif self.peek() == "(":
                base = ("function", base, self.group())
            else:
                return base

    def address_space(self) -> int:
        if not self.accept("addrspace"):
            return 0
        return int(self.group().strip("( )"))

    def base_type(self) -> Type:
        token = self.next()
        if re.fullmatch(r"i\d+", token):
            return ("integer", int(token[1:]))
        if token == "ptr":
            return ("pointer", self.address_space(), None)
        if token.startswith("%"):
            return ("named", token)
        if token == "target":
            return ("other", f"target{self.group()}")
        if token == "[":
            return self.sequence("array", "]")
        if token == "{":
            return ("struct", False, self.members())
        if token == "<" and self.peek() == "{":
            self.next()
            members = self.members()
            self.expect(">")
            return ("struct", True, members)
        if token == "<":
            if self.accept("vscale"):
                self.expect("x")
                return self.sequence("scalable", ">")
            return self.sequence("vector", ">")
        assert token in _OTHER_TYPES, f"{token} is no type: {' '.join(self.tokens)}"
        return ("other", token)

    def sequence(self, kind: str, end: str) -> Type:
        count = int(self.next())
        self.expect("x")
        element = self.type()
        self.expect(end)
        return (kind, count, element)

    def members(self) -> tuple[Type, ...]:
        found = []
        while not self.accept("}"):
            found.append(self.type())
            self.accept(",")
        return tuple(found)

    # values

    def value(self) -> str:
        """Read a value without its type, and return its text."""
        start = self.at
        token = self.peek()
        if token in ("blockaddress", "splat", "ptrauth"):
            self.next()
            self.group()
        elif token in ("dso_local_equivalent", "no_cfi"):
            self.at += 2
        elif token == "asm":
            self.next()
            while self.peek() in ("sideeffect", "alignstack", "inteldialect", "unwind"):
                self.next()
            self.next()
            self.expect(",")
            self.next()
        elif token in _EXPRESSIONS:
            while self.peek() != "(":
                if self.next() == "inrange" and self.peek() == "(":
                    self.group()
            self.group()
        else:
            self.group()
        return " ".join(self.tokens[start : self.at])

    def operand(self, position: int) -> Operand:
        kind = self.type()
        return Operand(kind, self.value(), position)

    def operands(self) -> list[Operand]:
        """Read operands with their types, up to where something else follows the comma."""
        found = [self.operand(0)]
        while self.peek() == ",":
            self.next()
            if not self.at_type():
                self.at -= 1
                break
            found.append(self.operand(len(found)))
        return found

    def label(self) -> str:
        self.expect("label")
        return self.next()

    def labels(self) -> list[str]:
        self.expect("[")
        found = []
        while not self.accept("]"):
            found.append(self.label())
            self.accept(",")
        return found

    # instructions

    def instruction(self) -> Instruction:
        name = ""
        if self.peek(1) == "=":
            name = self.next()
            self.next()
        self.accept("tail", "musttail", "notail")
        opcode = self.next()
        self.skip_flags()
        read = getattr(self, f"read_{opcode}", None)
        if opcode in _BINARY:
            read = self.binary
        elif opcode in _CASTS:
            read = self.cast
        assert read is not None, f"how to read {opcode}?"
        found: Instruction = read(opcode)
        found.name = name
        return found

    def pair(self) -> tuple[Operand, Operand]:
        first = self.operand(0)
        self.expect(",")
        return first, Operand(first.type, self.value(), 1)

    def binary(self, opcode: str) -> Instruction:
        first, second = self.pair()
        return Instruction(opcode, [first, second], type=first.type)

    def cast(self, opcode: str) -> Instruction:
        operand = self.operand(0)
        self.expect("to")
        return Instruction(opcode, [operand], type=self.type())

    def read_icmp(self, opcode: str) -> Instruction:
        self.next()
        first, second = self.pair()
        return Instruction(opcode, [first, second], type=_like(first.type, ("integer", 1)))

    read_fcmp = read_icmp

    def unary(self, opcode: str) -> Instruction:
        operand = self.operand(0)
        return Instruction(opcode, [operand], type=operand.type)

    read_fneg = read_freeze = unary

    def read_alloca(self, opcode: str) -> Instruction:
        allocated = self.type()
        count, space = Operand(("integer", 32), "1", 0), 0
        while self.accept(","):
            if self.at_type():
                count = self.operand(0)
            elif self.peek() == "addrspace":
                space = self.address_space()
            else:
                self.skip_to(",")
        return Instruction(opcode, [count], type=("pointer", space, allocated))

    def read_load(self, opcode: str) -> Instruction:
        loaded = self.type()
        self.expect(",")
        return Instruction(opcode, [self.operand(0)], type=loaded)

    def plain(self, opcode: str) -> Instruction:
        return Instruction(opcode, self.operands())

    read_store = read_resume = plain

    def read_getelementptr(self, opcode: str) -> Instruction:
        self.type()
        self.expect(",")
        operands = self.operands()
        wide = next((operand.type for operand in operands if operand.type[0] in ("vector", "scalable")), None)
        base = operands[0].type
        pointer: Type = ("pointer", (base if base[0] == "pointer" else base[2])[1], None)
        return Instruction(opcode, operands, type=_like(wide, pointer) if wide else pointer)

    def read_br(self, opcode: str) -> Instruction:
        if self.peek() == "label":
            return Instruction(opcode, [], successors=[self.label()])
        condition = self.operand(0)
        successors = []
        while self.accept(","):
            if self.peek() != "label":
                break
            successors.append(self.label())
        return Instruction(opcode, [condition], successors=successors)

    def read_switch(self, opcode: str) -> Instruction:
        operands = [self.operand(0)]
        self.expect(",")
        successors = [self.label()]
        self.expect("[")
        while not self.accept("]"):
            operands.append(self.operand(2 * len(operands)))
            self.expect(",")
            successors.append(self.label())
        return Instruction(opcode, operands, successors=successors)

    def read_indirectbr(self, opcode: str) -> Instruction:
        address = self.operand(0)
        self.expect(",")
        return Instruction(opcode, [address], successors=self.labels())

    def read_ret(self, opcode: str) -> Instruction:
        return Instruction(opcode, [] if self.peek() == "void" else [self.operand(0)])

    def read_unreachable(self, opcode: str) -> Instruction:
        return Instruction(opcode, [])

    read_fence = read_unreachable

    def read_call(self, opcode: str) -> Instruction:
        while not self.at_type():
            self.group()
        result = self.type()
        result = result[1] if result[0] == "function" else result
        callee = self.value()
        operands, count = self.arguments()
        while self.peek() and self.peek() not in ("[", "to", ","):
            self.group()
        if self.accept("["):
            count = self.bundles(operands, count)
        successors = []
        if self.accept("to"):
            successors = [self.label()]
            successors += self.labels() if opcode == "callbr" else [self.next() and self.label()]
        operands.append(Operand(("pointer", 0, None), callee, count + len(successors)))
        return Instruction(opcode, operands, type=result, successors=successors, callee=callee)

    read_invoke = read_callbr = read_call

    def arguments(self, count: int = 0) -> tuple[list[Operand], int]:
        """Read arguments in brackets; return those that are data, and how many there are with those before them."""
        self.expect("(")
        found = []
        while not self.accept(")"):
            kind = self.type()
            if kind == ("other", "metadata"):
                self.skip_to(",", ")")
            else:
                self.skip_attributes()
                found.append(Operand(kind, self.value(), count))
            count += 1
            self.accept(",")
        return found, count

    def skip_attributes(self) -> None:
        while not self.at_value():
            if self.next() == "align" or self.peek() == "(":
                self.group()

    def at_value(self) -> bool:
        token = self.peek()
        return (
            token in _VALUES
            or token in _EXPRESSIONS
            or re.match(r'[%@]|c"|-?\d|[-+](inf|q?nan)|f0x', token) is not None
        )

    def bundles(self, operands: list[Operand], count: int) -> int:
        while not self.accept("]"):
            self.next()
            found, count = self.arguments(count)
            operands += found
            self.accept(",")
        return count

    def read_phi(self, opcode: str) -> Instruction:
        kind = self.type()
        operands = []
        while self.accept("[") or (self.accept(",") and self.accept("[")):
            operands.append(Operand(kind, self.value(), len(operands)))
            self.skip_to("]")
            self.next()
        return Instruction(opcode, operands, type=kind)

    def read_select(self, opcode: str) -> Instruction:
        operands = self.operands()
        return Instruction(opcode, operands, type=operands[1].type)

    def read_extractelement(self, opcode: str) -> Instruction:
        operands = self.operands()
        return Instruction(opcode, operands, type=operands[0].type[2])

    def read_insertelement(self, opcode: str) -> Instruction:
        operands = self.operands()
        return Instruction(opcode, operands, type=operands[0].type)

    def read_shufflevector(self, opcode: str) -> Instruction:
        first, second, mask = self.operands()
        return Instruction(opcode, [first, second], type=(*mask.type[:2], first.type[2]))

    def read_extractvalue(self, opcode: str) -> Instruction:
        operand = self.operand(0)
        kind = operand.type
        while self.accept(",") and self.peek().isdigit():
            kind = self.structs.get(kind[1], kind) if kind[0] == "named" else kind
            kind = kind[2][int(self.next())] if kind[0] == "struct" else (self.next() and kind[2])
        return Instruction(opcode, [operand], type=kind)

    read_insertvalue = read_insertelement

    def read_cmpxchg(self, opcode: str) -> Instruction:
        operands = self.operands()
        return Instruction(opcode, operands, type=("struct", False, (operands[1].type, ("integer", 1))))

    def read_atomicrmw(self, opcode: str) -> Instruction:
        self.next()
        operands = self.operands()
        return Instruction(opcode, operands, type=operands[1].type)

    def read_va_arg(self, opcode: str) -> Instruction:
        operand = self.operand(0)
        self.expect(",")
        return Instruction(opcode, [operand], type=self.type())

    def read_landingpad(self, opcode: str) -> Instruction:
        kind = self.type()
        self.accept("cleanup")
        operands = []
        while self.accept("catch", "filter"):
            operands.append(self.operand(len(operands)))
        return Instruction(opcode, operands, type=kind)

    def token(self, position: int) -> Operand:
        return Operand(_TOKEN_TYPE, self.value(), position)

    def read_catchswitch(self, opcode: str) -> Instruction:
        self.expect("within")
        parent = self.token(0)
        handlers = self.labels()
        self.expect("unwind")
        unwind = [self.label()] if self.peek() == "label" else []
        return Instruction(opcode, [parent], type=_TOKEN_TYPE, successors=unwind + handlers)

    def read_catchpad(self, opcode: str) -> Instruction:
        self.expect("within")
        parent = self.token(0)
        operands = [] if self.peek(1) == "]" else self.bracketed()
        parent.position = len(operands)
        return Instruction(opcode, [*operands, parent], type=_TOKEN_TYPE)

    read_cleanuppad = read_catchpad

    def bracketed(self) -> list[Operand]:
        self.expect("[")
        return self.operands()

    def read_catchret(self, opcode: str) -> Instruction:
        self.expect("from")
        pad = self.token(0)
        self.expect("to")
        return Instruction(opcode, [pad], successors=[self.label()])

    def read_cleanupret(self, opcode: str) -> Instruction:
        self.expect("from")
        pad = self.token(0)
        self.expect("unwind")
        return Instruction(opcode, [pad], successors=[self.label()] if self.peek() == "label" else [])


def _like(shape: Type, element: Type) -> Type:
    """Return the type that has the element for each element of `shape`, or the element when that is no vector."""
    return (*shape[:2], element) if shape[0] in ("vector", "scalable") else element


def read_module(text: str) -> tuple[list[Function], dict[str, Type]]:
    """Read the functions of a module, in order, and the structures that have names."""
    structs: dict[str, Type] = {}
    functions: list[Function] = []
    for line in _logical_lines(text):
        if line.startswith("%"):
            name, definition = line.split(" = type ", 1)
            structs[name] = ("struct", False, ()) if definition == "opaque" else Cursor(definition, {}).type()
        elif line.startswith(("define ", "declare ")):
            functions.append(_head(line, structs))
        elif label := _LABEL.match(line):
            functions[-1].blocks[f"%{label[1]}"] = []
        elif line.startswith("  "):
            blocks = functions[-1].blocks
            if not blocks:
                blocks[""] = []  # the label of a function's first block may be left out
            blocks[next(reversed(blocks))].append(Cursor(line, structs).instruction())
    return functions, structs


def _logical_lines(text: str) -> Iterator[str]:
    """Give the lines of a module with those that go on in the next joined, and without records of debug information."""
    pending = ""
    for line in text.splitlines():
        if line.strip().startswith("#dbg_"):
            continue
        if line.startswith(("   ", "  ]")):
            pending += line
            continue
        if pending:
            yield pending
        pending = line
    yield pending


def _head(line: str, structs: dict[str, Type]) -> Function:
    cursor = Cursor(line, structs)
    while not cursor.peek().startswith("@"):
        cursor.next()
    function = Function(cursor.next(), {}, {})
    cursor.expect("(")
    while line.startswith("define") and not cursor.accept(")"):
        if cursor.accept("..."):
            continue
        kind = cursor.type()
        start = cursor.at
        cursor.skip_to(",", ")")
        if cursor.at > start:
            function.parameters[cursor.tokens[cursor.at - 1]] = kind
        cursor.accept(",")
    return function
