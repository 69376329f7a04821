"""The syntax of lines of textual IR: names, operands, and instructions with pointers."""

import re
from collections.abc import Iterator

__all__ = ["NAME", "joined_lines", "leading_pointer", "leading_type", "split"]

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


def leading_type(text: str) -> str:
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


def leading_pointer(text: str) -> str:
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


def split(text: str) -> list[str]:
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
