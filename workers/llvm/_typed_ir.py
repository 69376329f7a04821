"""Today's textual IR, line by line, as LLVM 6 or 10 would have printed it.

The differences: pointers have types (see `_Evidence`), arrays decay to pointers by a `getelementptr`, and flags
and attributes that did not exist are left out. In LLVM 6 `memcpy` and similar functions take their alignment as an
argument, and `fneg` is a subtraction; what its dictionary does not have is left out, too: names of parameters,
`dso_local`, and how many bytes of an argument can be read. Some information is lost: casts between pointer types are
no longer instructions, and byte offsets replace some field indices.

Since LLVM 15 a pointer is just `ptr`. The instructions still state what they access: `load i32, ptr %p` shows that `%p`
points to an `i32`. A `_Pointee` collects such evidence for a pointer. Pointers that must have the same type, because
one is stored where the other is loaded, or because a phi joins them, share a `_Pointee`.

With typed pointers, a program that uses one pointer as two types has a cast in between. Opaque pointers need no cast,
so the stronger evidence wins; for an access itself, only its own type counts.
"""

import functools
import re
from collections.abc import Callable, Iterator

NAME = r'(?:"[^"]*"|[-\w.$]+)'
PARENTHESES = r"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"  # four deep
OPERAND = rf"(?:[%@]{NAME}|null|undef|poison|zeroinitializer|[a-z]+(?: [a-z]+(?:\([-\d, ]*\))?)* ?{PARENTHESES})"
POINTER = r"ptr(?: addrspace\(\d+\))?"
_GEP_FLAGS = rf"(?:(?:inbounds|nuw|nusw|inrange(?:{PARENTHESES})?) )*"
_ATTRIBUTE = (
    r"(?!null\b|undef\b|poison\b|zeroinitializer\b|getelementptr\b|inttoptr\b|addrspacecast\b)"
    rf"[a-z_]\w*(?:{PARENTHESES})?(?: \d+)?"
)

TYPE_DEFINITION = re.compile(rf"(%{NAME}) = type (.*)")
GLOBAL = re.compile(rf"(@{NAME}) = (.*?\b)(global|constant) (.*)")
ALIAS = re.compile(rf"@{NAME} = .*\b(?:alias|ifunc) ")
FUNCTION = re.compile(rf"(.*?)(@{NAME})({PARENTHESES})")
LABEL = re.compile(rf"{NAME}:( +; .*[^!])?")
METADATA = re.compile(r",? (?:![\w.$]+ !.*|#\d+(?:,? [!{\[].*)?)$")

LOAD = re.compile(rf"(%{NAME}) = load ((?:atomic |volatile )*)(.+?), {POINTER} ({OPERAND})(.*)")
STORE = re.compile(rf"store ((?:atomic |volatile )*)({POINTER} {OPERAND}|.+?), {POINTER} ({OPERAND})((?:,| [a-z]).*|)$")
GEP = re.compile(rf"(%{NAME}) = getelementptr ({_GEP_FLAGS})(.+?), {POINTER} ({OPERAND})(.*)")
CONSTANT_GEP = re.compile(rf"getelementptr ({_GEP_FLAGS})\((.+?), {POINTER} ({OPERAND})(.*)\)")
PHI = re.compile(rf"(%{NAME}) = phi {POINTER} (.*)")
INCOMING = re.compile(rf"\[ ({OPERAND}), (%{NAME}) \]")
SELECT = re.compile(rf"(%{NAME}) = select (.*), {POINTER} ({OPERAND}), {POINTER} ({OPERAND})$")
ICMP = re.compile(rf"(%{NAME}) = icmp (?:samesign )?(\w+) {POINTER} ({OPERAND}), ({OPERAND})$")
RETURN = re.compile(rf"ret {POINTER} ({OPERAND})$")
ALLOCA = re.compile(rf"(%{NAME}) = alloca (?:inalloca )?(.*)")
CALL = re.compile(
    rf"(?:(%{NAME}) = )?((?:tail |musttail |notail )?(?:call|invoke) .*?)([%@]{NAME})({PARENTHESES})(.*)", re.DOTALL
)
INT_TO_POINTER = re.compile(rf"(%{NAME}) = (inttoptr .* to) {POINTER}$")
POINTER_TO_POINTER = re.compile(rf"(%{NAME}) = (bitcast|freeze) {POINTER} ({OPERAND})(?: to {POINTER})?$")
ATOMIC = re.compile(
    rf"(%{NAME}) = (atomicrmw (?:volatile )?\w+|cmpxchg(?: weak| volatile)*) {POINTER} ({OPERAND}), (.*)"
)
PAIR = re.compile(rf"\b{POINTER} ({OPERAND})")
BARE_POINTER = re.compile(rf"\b{POINTER}\b(?! {OPERAND})")
POINTER_ARGUMENT = re.compile(rf"{POINTER}((?: {_ATTRIBUTE})*)(?: ({OPERAND}))?$")

_WORD = "abcdefghijklmnopqrstuvwxyz0123456789_"
_LEADING_NAME = re.compile(rf"%{NAME}\**")


_CONTINUATION = re.compile(r"    +(?:to label|unwind label|cleanup$|catch |filter |i\d+ -?\d+, label)|  +\]")


def joined_lines(text: str, *, labels: bool = False) -> Iterator[str]:
    """Return one line for each definition of a type, variable or function, and for each instruction.

    An instruction is indented, without its attributes and metadata. With `labels`, these have lines, too.
    """
    current = ""
    for line in text.split("\n"):
        start = line[:2]
        if start == "  ":
            if "!" in line or "#" in line:
                line = METADATA.sub("", line)
            if line[2:3] in (" ", "]") and _CONTINUATION.match(line):
                part = line.strip()
                current += part if part == "]" else f"\n {part}"
                continue
            if line[2:3] in ("#", ";", ""):  # a debug record or a comment
                continue
        elif start[:1] not in ("@", "%", "d") and not (labels and LABEL.match(line)):
            continue
        if current:
            yield current
        current = line
    if current:
        yield current


def _leading_type(text: str) -> str:
    """Return the type at the start of a text."""
    if text[:1] == "%":
        match = _LEADING_NAME.match(text)
        return match[0] if match else text
    if text[:1] not in "[{<":
        rest = text.lstrip(_WORD)
        return text[: len(text) - len(rest) + len(rest) - len(rest.lstrip("*"))]
    depth = 0
    for place, character in enumerate(text):
        if character in "[{<(":
            depth += 1
        elif character in "]}>)":
            depth -= 1
            if not depth:
                rest = text[place + 1 :]
                return text[: len(text) - len(rest.lstrip("*"))]
    return text


def _leading_pointer(text: str) -> str:
    """Return the typed pointer type at the start of a text."""
    depth = 0
    for place, character in enumerate(text):
        if character in "[{<(":
            depth += 1
        elif character in "]}>)":
            depth -= 1
        elif character == " " and not depth and text[place - 1] == "*":
            return text[:place]
    return text


def _split(text: str) -> list[str]:
    """Split at the commas outside all brackets and quotes."""
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


UNTYPED, INDEXED, USED, DECLARED = range(4)  # strengths of evidence: `getelementptr i8` only counts bytes

_DEPTH = 3  # limit for pointers to pointers
_NESTING = 6  # limit for named types expanded inside each other
_LONGEST = 2000  # characters of a field's pointee type; no dictionary has longer ones
_LONGEST_VALUE = 100_000  # characters of an expanded named type
_NAMED_TYPE = re.compile(rf"%{NAME}")


class _Pointee:
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
        self.inner: _Pointee | None = None
        self.parent: _Pointee | None = None

    def root(self) -> "_Pointee":
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

    def target(self) -> "_Pointee":
        """Return the pointee's own pointee, given that it is a pointer."""
        node = self.root()
        if node.inner is None:
            node.inner = _Pointee()
        return node.inner.root()


def _unify(one: _Pointee, other: _Pointee) -> None:
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
        _unify(one.inner, other.inner)


class _Types:
    """The named types of a module.

    Attributes:
        bodies: the definition of each type.
        fields: the pointees of pointers inside types, by the type and the indices of the pointer in it; an index into
            an array is "".
    """

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self.fields: dict[tuple[str, tuple[str, ...]], _Pointee] = {}
        self._typed: dict[tuple[str, tuple[str, ...]], str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def text(self, pointee: _Pointee, within: tuple[str, ...] = ()) -> str:
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
        return _split(body[1:-1].strip())
    if body.startswith(("[", "<")):
        return [_leading_type(body[1:-1].partition(" x ")[2].removeprefix("vscale x "))]
    return []


_POINTEE_ATTRIBUTE = re.compile(r"\b(?:sret|byval)\(([^()]*)\)")


class _Function:
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
        self.result = _last_type(head)
        self.references = ["dereferenceable" in argument for argument in arguments]
        self.returns_reference = "dereferenceable" in head
        self.kinds = ["..." if argument == "..." else _leading_type(argument) for argument in arguments]
        self.parameters = [_Pointee() if kind == "ptr" else None for kind in self.kinds]
        self.returned = _Pointee()
        self.is_defined = is_defined


class _Evidence:
    """All evidence about the pointers of a module.

    Attributes:
        types: the named types.
        globals: the types of the global variables, as in the text.
        functions: the defined and declared functions.
        names: the pointers of the current function.
    """

    def __init__(self) -> None:
        self.types = _Types()
        self.globals: dict[str, str] = {}
        self.functions: dict[str, _Function] = {}
        self.names: dict[str, _Pointee] = {}
        self._objects: dict[str, _Pointee] = {}
        self._returned = _Pointee()

    def declare(self, line: str) -> None:
        """Record a line outside functions, or a function header."""
        if line[0] == "%":
            if match := TYPE_DEFINITION.match(line):
                self.types.bodies[match[1]] = match[2]
        elif line[0] == "@":
            if match := GLOBAL.match(line):
                self.globals[match[1]] = _leading_type(match[4])
        elif line.startswith(("define ", "declare ")) and (match := FUNCTION.match(line)):
            self.functions[match[2]] = _Function(match[1], _split(match[3][1:-1]), line.startswith("define "))

    def enter(self, match: "re.Match[str]") -> _Function:
        """Begin a function, with a new `names` dict."""
        function = self.functions[match[2]]
        self._returned = function.returned
        self.names = {}
        for number, (argument, pointee) in enumerate(zip(_split(match[3][1:-1]), function.parameters, strict=False)):
            if pointee is not None:
                name = argument.split(" ")[-1]
                self.names[name if name[0] == "%" else f"%{number}"] = pointee
                if typed := _POINTEE_ATTRIBUTE.search(argument):
                    pointee.suggest(typed[1], DECLARED)
        return function

    def pointee(self, operand: str) -> _Pointee | None:
        """Return the pointee of a named pointer; None for any other operand."""
        if operand[0] == "%":
            return self._local(operand)
        known = self._objects.get(operand)
        if known is None and operand in self.globals:
            known = self._objects[operand] = _Pointee(self.globals[operand], DECLARED)
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
            pointer.suggest(_leading_type(match[2]), USED)

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
                _unify(pointer.target(), result.target())
            return
        if pointer is not None:
            pointer.suggest(source, USED)
        reached, key = self.types.locate(source, [index.split(" ")[-1] for index in match[5].split(", ")[2:]])
        if reached == "ptr":
            _unify(self.types.fields.setdefault(key, _Pointee()), result.target())
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
        type = _leading_type(match[2])
        if type != "ptr":
            self._local(match[1]).suggest(type, DECLARED)

    def atomic(self, match: "re.Match[str]") -> None:
        """See `ir_lines.ATOMIC`."""
        pointer, type = self.pointee(match[3]), _leading_type(match[4])
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
            for argument, parameter in zip(_split(match[4][1:-1]), function.parameters, strict=False):
                if parameter is not None and (parsed := POINTER_ARGUMENT.match(argument)) and parsed[2]:
                    self._join(parameter, parsed[2])

    def _local(self, name: str) -> _Pointee:
        known = self.names.get(name)
        if known is None:
            known = self.names[name] = _Pointee()
        return known

    def _join(self, one: _Pointee, operand: str) -> None:
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
            _unify(root, one)


def _last_type(head: str) -> str:
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


Match = re.Match[str]

_TYPED_ATTRIBUTE = re.compile(r"\b(sret|byval)\([^()]*\)")
_NEW = rf"noundef|noext|writable|dead_on_unwind|dead_on_return|allocptr|(?:range|nofpclass|initializes){PARENTHESES}"
_NEW_ATTRIBUTES = {
    6: re.compile(rf" (?:{_NEW}|immarg|allocalign|dso_local|align \d+(?=[ ,)]))"),
    10: re.compile(rf" (?:{_NEW}|allocalign)"),
}
_NEW_FLAGS = re.compile(r"\b(?:(zext|uitofp) nneg|(or) disjoint|(trunc)(?: nuw| nsw)+|(icmp) samesign) ")
_FLAGGED = frozenset({"zext", "uitofp", "or", "trunc", "icmp"})
_SPLAT = re.compile(r"splat \(([^()]*)\)")
_LANES = re.compile(r"<(\d+) x ")
_FNEG = re.compile(r" fneg (.*)(?<=[\w>]) (\S+)$")
_TYPE_NAME = re.compile(rf"%{NAME}")
_PREDECESSORS = re.compile(r" +; preds")
_UNNAMED = re.compile(r" %\d+$")
_RESULT = re.compile(rf"{POINTER}(?= (?:\(.*\) )?$)")
_REFERENCE = re.compile(r" dereferenceable(?:_or_null)?\(\d+\)")
_ANY_POINTER = re.compile(rf"\b{POINTER}\b")
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
_Statement = tuple[dict[str, _Pointee], str, str, Match | None, Callable[[Match], str] | None]


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
        self.locals: list[dict[str, _Pointee]] = []
        self._new_attributes = _NEW_ATTRIBUTES[llvm]
        self.evidence = known = _Evidence()
        self.types = known.types
        self._parsers: dict[str, _Parser] = {
            "load": (LOAD, known.load, self._load),
            "store": (STORE, known.store, self._store),
            "getelementptr": (GEP, known.gep, self._gep),
            "phi": (PHI, known.phi, self._phi),
            "select": (SELECT, known.select, self._select),
            "icmp": (ICMP, known.icmp, self._icmp),
            "ret": (RETURN, known.returns, self._return),
            "alloca": (ALLOCA, known.alloca, self._alloca),
            "inttoptr": (INT_TO_POINTER, None, self._int_to_pointer),
            "bitcast": (POINTER_TO_POINTER, None, self._pointer_to_pointer),
            "freeze": (POINTER_TO_POINTER, None, self._pointer_to_pointer),
            "atomicrmw": (ATOMIC, known.atomic, self._atomic),
            "cmpxchg": (ATOMIC, known.atomic, self._atomic),
            **dict.fromkeys(_CALLS, (CALL, known.call, self._call)),
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
                if not ALIAS.match(line):
                    yield {}, "", METADATA.sub("", line), None, None
            elif line.startswith("define ") and (match := FUNCTION.match(self._new_attributes.sub("", line))):
                self.evidence.enter(match)
                self.locals.append(self.evidence.names)
                yield self.evidence.names, "", line, match, self._head
            elif label := LABEL.match(line):
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
        gep = CONSTANT_GEP.match(operand)
        if gep and gep[3] in self.evidence.globals:
            return self._address(gep[3], wanted or "i8", is_part=True)
        inner = PAIR.sub(lambda match: self._pointer(match[1]), operand)
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

    def _function_type(self, function: _Function) -> str:
        parameters = (
            self.types.text(pointee) + "*" if pointee is not None and function.is_defined else self.types.typed(kind)
            for kind, pointee in zip(function.kinds, function.parameters, strict=True)
        )
        return f"{self._result(function)} ({', '.join(parameters)})"

    def _result(self, function: _Function) -> str:
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
        for argument, pointee in zip(_split(match[3][1:-1]), function.parameters, strict=False):
            parsed = POINTER_ARGUMENT.match(argument) if pointee is not None else None
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
            type = f"{wanted}*" if wanted else _leading_pointer(value)
        else:
            type = self.types.typed(_leading_type(value))
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
        incoming = INCOMING.sub(lambda one: f"[ {self._value(one[1], type)}, {one[2]} ]", match[2])
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
        raw = _leading_type(match[2])
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
        type, rest = self.types.typed(_leading_type(match[4])), _ALIGNED.sub("", match[4])
        rest = PAIR.sub(lambda pair: self._pointer(pair[1], "i8"), rest)
        return f"{match[1]} = {match[2]} {self._pointer(match[3], type)}, {rest}"

    def _call(self, match: Match) -> str:
        function = self.evidence.functions.get(match[3])
        head, arguments = match[2], match[4][1:-1]
        if "ptr" in head:
            head = self._call_head(match, function)
        if "ptr" in arguments:
            arguments = ", ".join(
                self._argument(function, place, argument) for place, argument in enumerate(_split(arguments))
            )
        if intrinsic := _INTRINSIC.match(match[3]):
            arguments = self._intrinsic_arguments(intrinsic[1], arguments)
        result = f"{match[1]} = " if match[1] else ""
        return self._modern(f"{result}{head}{match[3]}({arguments}){match[5]}")

    def _call_head(self, match: Match, function: _Function | None) -> str:
        """Write the type before the callee: the result type, or the whole function type."""
        head = match[2]
        if function is not None:
            result = self._result(function)
            if self.llvm == 6 and not function.returns_reference:
                head = _REFERENCE.sub("", head)
        else:
            result = self.evidence.text(match[1]) + "*" if match[1] else "i8*"
        return _ANY_POINTER.sub("i8*", _RESULT.sub(result, head))

    def _argument(self, function: _Function | None, place: int, argument: str) -> str:
        parsed = POINTER_ARGUMENT.match(argument)
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
        type = f"{wanted}*" if wanted else _leading_pointer(pointer)
        return f"{type}{_attributes(attributes, self.llvm)}{pointer[len(type) :]}"

    def _other(self, opcode: str, line: str) -> str:
        """Write a line that has no method of its own."""
        line = self._modern(line)
        if opcode in _FLAGGED:
            line = _NEW_FLAGS.sub(lambda match: f"{match[match.lastindex or 0]} ", line)
        elif opcode == "fneg" and self.llvm == 6:
            line = _FNEG.sub(r" fsub \1 -0.0, \2", line)
        if "ptr" in line:
            line = PAIR.sub(lambda match: self._pointer(match[1]), line)
            line = BARE_POINTER.sub("i8*", line)
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
