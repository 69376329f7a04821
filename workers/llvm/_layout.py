"""Locates, by experiment, the data that libLLVM's C API does not expose.

A specimen is parsed, and its objects are inspected at the offsets where known releases keep the data; an offset is
accepted only if it holds exactly what is expected.
"""

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import Structure, c_ubyte, c_uint32, c_void_p
from pathlib import Path
from typing import Any, TypeVar

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Context, LlvmError, Module, body_of, instructions

T = TypeVar("T")


class _Unexpected(Exception):
    """LLVM's memory layout differs from that of all known releases; the message says where."""


class _Memory:
    """Reads this process's memory; any address is allowed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, address: int, size: int) -> bytes:
        """Return bytes; zeros where nothing is mapped."""
        try:
            content = os.pread(self._descriptor, size, address)
        except (OSError, OverflowError):
            content = b""
        return content.ljust(size, b"\0")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return the words of an object."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))


@contextmanager
def _open_memory() -> Iterator[_Memory]:
    """Open this process's memory."""
    with open("/proc/self/mem", "rb", buffering=0) as file:
        yield _Memory(file.fileno())


def _expect(holds: object, what: str) -> None:
    """Raise `_Unexpected` unless something holds."""
    if not holds:
        raise _Unexpected(f"{what} not as expected")


def _only(places: Iterable[T], what: str) -> T:
    """Return the one place that fits."""
    found = list(places)
    _expect(len(found) == 1, what)
    return found[0]


RENUMBER_INSTRUCTIONS = "_ZN4llvm10BasicBlock20renumberInstructionsEv"

_SPECIMEN = Path(__file__).with_name("native") / "specimen.ll"
_RANGE = "\n@range = global ptr getelementptr inrange(-1, 1) (i8, ptr @g, i64 1)\n"  # since LLVM 19
_CALL = 45  # LLVMCall
_ATOMIC = (27, 28, 55, 56, 57)  # LLVMLoad, LLVMStore, LLVMFence, LLVMAtomicCmpXchg, LLVMAtomicRMW
_SANITISED = 1 << 16
_INSTRUCTION = 24  # LLVMInstructionValueKind before LLVM 23
_BYTE = 19  # LLVMConstantByteValueKind, since LLVM 23
_KINDS = {0, 1, 5, 6, *range(8, 21), 22, 23, 24, 25}  # LLVMValueKind, in the specimen
_EXPERIMENTS = 16  # freed memory may resemble the data sought; then another specimen is made beside it
_UNSEEN = 255
_BITS_OF_COUNT = (1 << 27) - 1
_OPERANDS_BEHIND = 1 << 30
_ATTACHED = 1 << 61  # bit of a value's first word


class Layout(Structure):
    """`struct Layout` of `native/canonical.c`."""

    _fields_ = (
        ("function_attributes", c_uint32),
        ("call_attributes", c_uint32),
        ("variable_attributes", c_uint32),
        ("order", c_uint32),
        ("scope", c_uint32),
        ("source_type", c_uint32),
        ("attachments", c_uint32),
        ("names", c_uint32),
        ("first_attachment", c_uint32),
        ("named", c_uint32),
        ("since_23", c_uint32),
        ("module_names", c_uint32),
        ("counter", c_uint32),
        ("first_kind", c_uint32),
        ("block_list", c_uint32),
        ("node", c_uint32),
        ("plain_uses", c_uint32),
        ("kinds", c_ubyte * 256),
    )


def find_layout(library: Library) -> Layout | str:
    """Return the library's layout, or a text that says what is not as expected."""
    problem = ""
    with ExitStack() as kept:
        try:
            memory = kept.enter_context(_open_memory())
            for _ in range(_EXPERIMENTS):
                try:
                    return _measure(_Specimen(library, memory, kept))
                except _Unexpected as unexpected:
                    problem = str(unexpected)
        except (OSError, LlvmError) as error:
            problem = str(error)
    return problem


def _measure(specimen: "_Specimen") -> Layout:
    library, c, memory, layout = specimen.library, specimen.c, specimen.memory, Layout()
    has_range = library.version[0] >= 19
    text = _SPECIMEN.read_text(encoding="utf-8") + (_RANGE if has_range else "")
    if library.version[0] < 15:
        text = re.sub(r"\bptr\b", "i8*", text).replace(".p0.i64", ".p0i8.i64").replace(", no_sanitize_address", "")
    module = specimen.module(text)
    functions = {name: module.function(name.encode()) for name in "abcdeflm"}
    body = body_of(c, functions["f"])
    calls = [one for one in body if c.LLVMGetInstructionOpcode(one) == _CALL]
    layout.function_attributes = specimen.attributes([functions[name] for name in "abcdelm"], range(4, 24))
    layout.call_attributes = specimen.attributes(calls[1:8], range(6, 11))
    called = memory.words(calls[1], 12)[layout.call_attributes + 1]
    _expect(called == c.LLVMGetCalledFunctionType(calls[1]), "the type of a call is")
    globals_ = [c.LLVMGetNamedGlobal(module.pointer, name) for name in (b"g", b"h", b"sanitised")]
    words, local, sanitised = (memory.words(one, 5) for one in globals_)
    _expect(words[3] == c.LLVMGlobalGetValueType(globals_[0]) and words[4] != local[4], "a global is")
    _expect(words[4] ^ sanitised[4] == _SANITISED, "what sanitisers know of a global is")
    variables = [c.LLVMGetNamedGlobal(module.pointer, name.encode()) for name in "vwxgzyh"]
    layout.variable_attributes = specimen.attributes(variables, range(5, 20))
    layout.order = specimen.order(functions["f"])
    layout.scope = specimen.scope(body)
    layout.block_list, layout.node = specimen.lists(functions["f"])
    if has_range:
        layout.source_type = specimen.source_type(module)
    specimen.check_instructions(body)
    specimen.check_metadata(module, body)
    specimen.fill_kinds(layout, module, functions["f"], body)
    layout.first_kind = c.LLVMGetMDKindIDInContext(specimen.context(), b"aiocg", 5)
    _find_names(specimen, layout)
    _find_tables(specimen, layout)
    return layout


class _Specimen:
    """Objects of the specimen, compared with what the C API says about them."""

    def __init__(self, library: Library, memory: _Memory, kept: ExitStack) -> None:
        self.library, self.c, self.memory, self._kept = library, library.c, memory, kept
        self._bytes = library.version[0] >= 23  # it has constants of a byte type, which come before those of numbers

    def context(self) -> int:
        """Create a context that lives until the end."""
        return self._kept.enter_context(Context(self.library)).pointer

    def module(self, text: str) -> Module:
        """Parse a module that lives until the end."""
        return self._kept.enter_context(Module.parse(self.library, text.encode()))

    def attributes(self, seven: list[Any], words: range) -> int:
        """Find the word that holds the attribute list, of objects with lists 1, 1, 2, none, 2, 1, and none."""
        seen = [self.memory.words(one, words.stop) for one in seven]
        places = []
        for word in words:
            one, again, two, none, other, third, nothing = (each[word] for each in seen)
            if one == again == third and two == other and none == nothing == 0 and 0 not in (one, two) and one != two:
                places.append(word)
        return _only(places, "attribute lists are")

    def scope(self, body: list[int]) -> int:
        """Find the byte that holds the synchronisation scope: 1 is the system, 0 one thread, others are higher."""
        places = []
        atomic = [one for one in body if self.c.LLVMGetInstructionOpcode(one) in _ATOMIC]
        seen = [self.memory.read(one, 128) for one in atomic[-3 * len(_ATOMIC) :]]  # these were parsed last
        for place in range(24, 128):
            scopes = [one[place] for one in seen]
            if scopes == [1, 0, scopes[2]] * len(_ATOMIC) and scopes[2] > 1:
                places.append(place)
        return _only(places, "the scope of an atomic instruction is")

    def order(self, function: int | None) -> int:
        """Find the number of an instruction within its block."""
        block = self.c.LLVMGetFirstBasicBlock(function)
        number = getattr(self.library.c, RENUMBER_INSTRUCTIONS)
        number.restype, number.argtypes = None, (c_void_p,)
        number(block)
        seen = [self.memory.read(one, 128) for one in instructions(self.c, block)]
        places = [
            place for place in range(24, 128, 4)
            if [struct.unpack_from("<I", one, place)[0] for one in seen] == list(range(len(seen)))
        ]  # fmt: skip
        return _only(places, "the number of an instruction is")

    def lists(self, function: int | None) -> tuple[int, int]:
        """Find the words of a block's list of instructions and of an instruction's node: each points to the next."""
        block = self.c.LLVMGetFirstBasicBlock(function)
        body = list(instructions(self.c, block))
        heads, first = [self.memory.words(one, 13) for one in body], self.memory.words(block, 17)
        return _only(
            [
                (own, node)
                for own in range(3, 16)
                for node in range(3, 12)
                if [head[node + 1] - 8 * node for head in heads] == [*body[1:], block + 8 * (own - node)]
                and first[own + 1] == body[0] + 8 * node
            ],
            "how instructions are listed is",
        )

    def source_type(self, module: Module) -> int:
        """Find the source type of a constant getelementptr, and the range after the result type."""
        c, places = self.c, []
        ranged, plain = (
            c.LLVMGetInitializer(c.LLVMGetNamedGlobal(module.pointer, name)) for name in (b"range", b"offset")
        )
        source = c.LLVMGetGEPSourceElementType(ranged)
        for place in range(3, 6):
            words = self.memory.words(ranged, place + 7)
            bounds = words[place + 2] & _MASK64, words[place + 4], words[place + 6] & 0xFF
            without = self.memory.words(plain, place + 7)[place + 6] & 0xFF
            if words[place] == source and bounds == (_MASK64, 1, 1) and not without:
                places.append(place)
        return _only(places, "the range of a constant getelementptr is")

    def check_instructions(self, body: list[int]) -> None:
        """Check uses and operand counts."""
        c, listed = self.c, 0
        for one in body:
            flags, kind, first = self.memory.words(one, 3)
            count, more = c.LLVMGetNumOperands(one), flags >> 32
            _expect(kind == c.LLVMTypeOf(one) and first == (c.LLVMGetFirstUse(one) or 0), "a value is")
            _expect(more & _BITS_OF_COUNT == count, "the number of operands is")
            start = self.memory.words(one - 8, 1)[0] if more & _OPERANDS_BEHIND else one - 32 * count
            for number in range(count):
                use = start + 32 * number
                value, following, previous, user = self.memory.words(use, 4)
                _expect(use == c.LLVMGetOperandUse(one, number) and user == one == c.LLVMGetUser(use), "a use is")
                _expect(value == c.LLVMGetOperand(one, number), "what a use refers to is")
                if c.LLVMGetFirstUse(value):
                    _expect(following == (c.LLVMGetNextUse(use) or 0), "a list of uses is")
                    _expect(self.memory.words(previous, 1)[0] == use, "a list of uses is")
                    listed += 1
        _expect(listed > 10, "what has uses is")

    def check_metadata(self, module: Module, body: list[int]) -> None:
        """Find how a distinct node differs from a uniqued one."""
        c, loop = self.c, self.library.c.LLVMGetMDKindIDInContext(module.context.pointer, b"llvm.loop", 9)
        node = next(filter(None, (c.LLVMGetMetadata(one, loop) for one in body)))
        operands = (c.LLVMGetOperand(one, 0) for one in body if c.LLVMGetNumOperands(one))
        register = next(value for value in operands if self._kind(value) == 22)
        storages = [self.memory.read(c.LLVMValueAsMetadata(value), 2)[1] & 0x7F for value in (register, node)]
        _expect(storages == [0, 1], "how metadata is stored is")

    def _kind(self, value: int) -> int:
        number = int(self.c.LLVMGetValueKind(value))
        return number - 1 if self._bytes and number > _BYTE else number

    def fill_kinds(self, layout: Layout, module: Module, function: int | None, body: list[int]) -> None:
        """Map each class to its kind of value, from one example of each."""
        c, named = self.c, (b"g", b"offset", b"array", b"struct", b"vector", b"address")
        values = [c.LLVMGetNamedGlobal(module.pointer, name) for name in named]
        values += [c.LLVMGetInitializer(value) for value in values]
        values += [function, c.LLVMGetParam(function, 0), c.LLVMGetNamedGlobalAlias(module.pointer, b"alias", 5)]
        values.append(c.LLVMBasicBlockAsValue(c.LLVMGetFirstBasicBlock(function)))
        values += [c.LLVMGetOperand(one, i) for one in body for i in range(c.LLVMGetNumOperands(one))]
        classes = {self.memory.read(value, 1)[0]: self._kind(value) for value in values}
        first = min(self.memory.read(one, 1)[0] for one in body)
        opcodes = {self.memory.read(one, 1)[0]: c.LLVMGetInstructionOpcode(one) for one in body}
        _expect(opcodes.get(first) == 1, "an instruction is")  # ret, the first opcode
        for number in range(256):
            layout.kinds[number] = _INSTRUCTION if number >= first else classes.get(number, _UNSEEN)
        _expect(set(classes.values()) | {_INSTRUCTION} == _KINDS, "what kinds of values there are is")
        _expect(all((number >= first) == (kind == _INSTRUCTION) for number, kind in classes.items()), "a class is")
        number = next(value for value in values if self._kind(value) == 18)
        layout.plain_uses = bool(c.LLVMGetFirstUse(number))


_MASK64 = (1 << 64) - 1
_NODES = '!0 = !{!"0"}\n!1 = !{!"1"}'
_NAMES_TAKEN = 4
_VALUES = 60  # so that some collide in any table
_CONTEXT_WORDS = 1024  # how far to search; the tables are at words 298 to 368, and 20 to 49, in LLVM 14 to 23
_MODULE_WORDS = 64  # how far to search; the table is at words 13 to 15 in LLVM 14 to 23


def _find_names(specimen: "_Specimen", layout: Layout) -> None:
    """Find the counter of name collisions, by giving functions names that are already taken."""
    c, memory, context = specimen.c, specimen.memory, specimen.context()
    module = c.LLVMModuleCreateWithNameInContext(b"specimen", context)
    kind = c.LLVMFunctionType(c.LLVMVoidTypeInContext(context), None, 0, 0)
    found: set[tuple[int, int]] = set()
    for made in range(_NAMES_TAKEN):
        c.LLVMAddFunction(module, b"f", kind)
        fitting = {
            (word, place)
            for word, table in enumerate(memory.words(module, _MODULE_WORDS))
            for place in range(20, 36, 4)
            if table and table % 8 == 0 and _fits(memory.read(table, 40), made, place)
        }
        found = found & fitting if made else fitting
    layout.module_names, layout.counter = _only(found, "the table of names is")


def _fits(table: bytes, made: int, place: int) -> bool:
    """Return whether this can be a table with so many names that counts so many collisions at a given offset."""
    entries, buckets, items, more = struct.unpack_from("<Q3I", table)  # more: removed items; since LLVM 23 their size
    plausible = bool(entries) and buckets == 16 and items == made + 1 and more in (0, 16)
    return plausible and struct.unpack_from("<I", table, place)[0] == made


def _find_tables(specimen: "_Specimen", layout: Layout) -> None:
    """Find a context's tables of attachments, pairs of kind and node, and of names, by many values that have both."""
    c, memory, many = specimen.c, specimen.memory, range(_VALUES)
    fences = "".join(f"fence acquire, !one !{i % 2}{', !two !0' if i % 3 else ''}\n" for i in many)
    variables = "".join(f"@variable{i} = global i8 0, !one !{i % 2}\n" for i in many)
    module = specimen.module(f"{variables}define void @f() {{\n{fences}ret void }}\n{_NODES}")
    context = module.context.pointer
    kinds = [c.LLVMGetMDKindIDInContext(context, name, 3) for name in (b"one", b"two")]
    body = body_of(c, module.function(b"f"))[:-1]
    attached, names = {}, {}
    for one in body:
        nodes = ((kind, c.LLVMGetMetadata(one, kind)) for kind in kinds)
        attached[one] = [(kind, c.LLVMValueAsMetadata(node)) for kind, node in nodes if node]
    for i in many:
        variable = c.LLVMGetNamedGlobal(module.pointer, b"variable%d" % i)
        names[variable] = b"variable%d" % i
        attached[variable] = attached[body[3 * (i % 2)]]  # these have one node each
    unnamed = memory.words(body[0], 1)[0]
    flags = [memory.words(one, 1)[0] & ~unnamed for one in names]
    layout.named = 1 << _only(
        (bit for bit in range(27, 32) if all(word >> 32 + bit & 1 for word in flags)), "a name is"
    )
    start = memory.words(context, 1)[0]
    layout.since_23 = specimen.library.version[0] >= 23

    def name(table: int, value: int) -> bytes:
        entry = memory.words(_find(memory, table, 16, value, linear=layout.since_23) + 8, 1)[0]
        return memory.read(entry + 16, memory.words(entry, 1)[0] & 15)

    def attachments(table: int, value: int) -> list[tuple[int, int]]:
        begin, count = memory.words(_find(memory, table, 40, value, linear=False) + 8, 2)
        pairs = struct.iter_unpack("<I4xQ", memory.read(begin, 16 * (count & 3)))
        return [(kind, node) for kind, node in pairs]

    heads = {value: memory.read(value, 128) for value in attached}

    def first(place: int, value: int) -> int:
        return int.from_bytes(heads[value][place : place + 4], "little")

    def linked(table: int, value: int) -> list[tuple[int, int]]:
        nodes: list[tuple[int, int]] = []
        index = first(layout.first_attachment, value)
        while index and len(nodes) < len(kinds):
            index, kind, node = struct.unpack("<IIQ", memory.read(memory.words(table, 1)[0] + 16 * index, 16))
            nodes.insert(0, (kind, node))
        return nodes

    words = memory.words(start, _CONTEXT_WORDS + 2)
    pointers = [word for word in range(_CONTEXT_WORDS) if words[word] and words[word] % 8 == 0]
    counts = [words[word + 2] >> 32 if layout.since_23 else words[word + 2] & 0xFFFFFFFF for word in pointers]
    maps = [word for word, count in zip(pointers, counts, strict=True) if count.bit_count() == 1]

    def fits(read: Callable[[int, int], object], word: int, expected: Mapping[int, object]) -> bool:
        return all(read(start + 8 * word, key) == value for key, value in expected.items())

    layout.names = _only((word for word in maps if fits(name, word, names)), "the table of names is")
    if not layout.since_23:
        _expect(all(memory.words(one, 1)[0] & _ATTACHED for one in attached), "who has attachments is")
    read, tables = (linked, pointers) if layout.since_23 else (attachments, maps)
    found = []
    for place in range(24, 128, 4) if layout.since_23 else (0,):
        if place and len({index for one in attached if 0 < (index := first(place, one)) < 1 << 16}) < len(attached):
            continue  # each has another index
        layout.first_attachment = place
        found += [(place, word) for word in tables if fits(read, word, attached)]
    layout.first_attachment, layout.attachments = _only(found, "the table of attachments is")


def _find(memory: _Memory, table: int, size: int, key: int, *, linear: bool) -> int:
    """Return the address of a key's bucket in an `llvm::DenseMap` of pointers, as `dense` in C does; 0 if none."""
    buckets, *words = struct.unpack("<Q4I", memory.read(table, 24))
    count = words[3] if linear else words[2]
    mixed = key * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    place = mixed ^ mixed >> 31 if linear else (key & 0xFFFFFFFF) >> 4 ^ (key & 0xFFFFFFFF) >> 9
    for step in range(1, _VALUES):
        if count.bit_count() != 1:
            return 0
        bucket: int = buckets + size * (place & count - 1)
        if memory.words(bucket, 1)[0] == key:
            return bucket
        place += 1 if linear else step
    return 0
