"""Idioms of bytes and text: checksums, scanning, encoding, state machines."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import I32, U8, U16, U32, U64, Integer


def _bytes(length: int, *, writable: bool = False, name: str = "text") -> Array:
    return Array(name, U8, (length,), writable)


def _count(length: int) -> Lvalue:
    return scalar_parameter("count", I32, 1, length)


def _hash(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    length = kit.length(20)
    prime = 16777619 if kind == U32 else 1099511628211
    step = kit.pick(
        f"hash = (hash ^ text[i]) * {prime}u;",
        "hash = hash * 33 + text[i];",
        "hash += text[i];\n        hash += hash << 10;\n        hash ^= hash >> 6;",
        f"hash = (hash << 5 | hash >> {kind.bits - 5}) ^ text[i];",
    )
    words = {"start": kit.rng.below(2**31), "step": step, "end": kit.pick("", " ^ hash >> 15", " * 2654435761u")}
    return kit.define(kind, [_bytes(length), _count(length)], length * 26, "hash", **words)


def _redundancy_check(kit: Kit) -> Function:
    length = kit.length(180)
    step = kit.pick(
        "crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;", "crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));"
    )
    return kit.define(U32, [_bytes(length), _count(length)], length * 170, "crc", step=step)


def _adler(kit: Kit) -> Function:
    length = kit.length(24)
    modulus = kit.pick("65521", "255", "65535")
    return kit.define(U32, [_bytes(length), _count(length)], length * 26, "checksum", modulus=modulus)


def _word_count(kit: Kit) -> Function:
    length = kit.length(40)
    space = kit.pick("text[i] <= ' '", "text[i] == ' ' || text[i] == '\\n'", "text[i] % 7 == 0")
    result = Lvalue("", I32, 0, length)
    return kit.define(result, [_bytes(length), _count(length)], length * 30, "count_words", space=space)


def _length(kit: Kit) -> Function:
    """The text up to a byte that ends it, or the whole."""
    length = kit.length(14)
    result = Lvalue("", I32, 0, length)
    words = {"end": kit.pick("0", "'\\n'", "7")}
    return kit.define(result, [_bytes(length), _count(length)], length * 16, "text_length", **words)


def _case(kit: Kit) -> Function:
    length = kit.length(30)
    step = kit.pick(
        "if (text[i] >= 'a' && text[i] <= 'z')\n            text[i] -= 'a' - 'A';",
        "if ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z')\n            text[i] ^= 32;",
        "if (text[i] >= 'a' && text[i] <= 'z')\n            text[i] = (uint8_t)((text[i] - 'a' + 13) % 26 + 'a');",
        "text[i] = (uint8_t)(text[i] % 26 + 'a');",
    )
    return kit.define(U8, [_bytes(length, writable=True), _count(length)], length * 34, "letters", step=step)


def _palindrome(kit: Kit) -> Function:
    length = kit.length(20)
    result = Lvalue("", I32, 0, length)
    return kit.define(result, [_bytes(length), _count(length)], length * 14, "palindrome")


def _number(kit: Kit) -> Function:
    """Read a number as it stands in the text."""
    length = kit.length(30)
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - 1)]
    words = {"length": length, "other": kit.pick("break;", "continue;", "digit %= 10;")}
    return kit.define(U32, parameters, length * 30, "parse", **words)


def _written_number(kit: Kit) -> Function:
    base = kit.rng.choice((10, 16, 2, 8))
    length = 64 if base == 2 else 32
    parameters = [_bytes(length, writable=True), scalar_parameter("value", kit.rng.choice((U32, U64)))]
    words = {"base": base, "length": length}
    return kit.define(Lvalue("", I32, 1, length), parameters, length * 36, "format", **words)


def _search(kit: Kit) -> Function:
    length, part = kit.length(90), kit.rng.between(2, 4)
    same = kit.pick("text[i + k] == text[at + k]", "(text[i + k] & 15) == (text[at + k] >> 4)")
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - part)]
    result = Lvalue("", I32, 0, length)
    work = length * part * 26
    return kit.define(result, parameters, work, "find_text", same=same, part=part, length=length)


def _run_lengths(kit: Kit) -> Function:
    length = kit.length(40)
    parameters = [_bytes(length, writable=True, name="packed"), _bytes(length)]
    return kit.define(Lvalue("", I32, 0, length), parameters, length * 46, "run_lengths", length=length)


def _base64(kit: Kit) -> Function:
    length = kit.length(60)
    return kit.define(U32, [_bytes(length)], length * 40, "encode", length=length)


def _number_machine(kit: Kit) -> Function:
    """A state machine that finds numbers with a sign, a point and an exponent."""
    length = kit.length(60)
    words = {"weight": kit.rng.between(2, 100)}
    return kit.define(U32, [_bytes(length), _count(length)], length * 40, "scan_numbers", **words)


def _table_machine(kit: Kit) -> Function:
    """A state machine whose transitions are in a table."""
    states, classes = kit.rng.between(3, 6), kit.rng.choice((2, 4, 8))
    length = kit.length(24)
    rows = ", ".join("{" + ", ".join(str(kit.rng.below(states)) for _ in range(classes)) + "}" for _ in range(states))
    words = {"states": states, "classes": classes, "rows": rows, "final": kit.rng.below(states)}
    result = Lvalue("", U32, 0, length)
    return kit.define(result, [_bytes(length), _count(length)], length * 26, "run_machine", **words)


def _brackets(kit: Kit) -> Function:
    length = kit.length(40)
    result = Lvalue("", I32, -1, 2 * length + 1)
    words = {"length": length, "mask": kit.pick("3", "7")}
    return kit.define(result, [_bytes(length), _count(length)], length * 34, "brackets", **words)


def _packed_words(kit: Kit) -> Function:
    """Read words from bytes, or write them."""
    kind: Integer = kit.rng.choice((U16, U32, U64))
    size, length = kind.bits // 8, 16
    order = range(size) if kit.rng.chance(50) else range(size)[::-1]
    read = " | ".join(f"({kind.name})text[at + {i}] << {8 * shift}" for shift, i in enumerate(order))
    words = {"read": read, "end": kit.pick("& 0x7f", "^ 0x5a", "+ 1", "/ 3")}
    if kind == U16:
        words["end"] = kit.pick("& 0x7f", "/ 3", "% 1000")
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - size)]
    return kit.define(kind, parameters, 60, "load", **words)


IDIOMS: tuple[Idiom, ...] = (
    _hash,
    _hash,
    _redundancy_check,
    _adler,
    _word_count,
    _length,
    _case,
    _palindrome,
    _number,
    _written_number,
    _search,
    _run_lengths,
    _base64,
    _number_machine,
    _table_machine,
    _brackets,
    _packed_words,
)
