"""Idioms of bytes and text: checksums, scanning, encoding, state machines."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Place, scalar_parameter
from aiocg.datasets.generators.random_c.types import I32, U8, U16, U32, U64, Integer

__all__ = ["IDIOMS"]


def _bytes(length: int, *, writable: bool = False, name: str = "text") -> Array:
    return Array(name, U8, (length,), writable)


def _count(length: int) -> Place:
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
    template = """
    $head
    {
        $T hash = $start;
        for ($I i = 0; i < count; i++) {
            $step
        }
        return hash$end;
    }
    """
    words = {"start": kit.rng.below(2**31), "step": step, "end": kit.pick("", " ^ hash >> 15", " * 2654435761u")}
    return kit.define("hash", kind, [_bytes(length), _count(length)], length * 26, template, **words)


def _redundancy_check(kit: Kit) -> Function:
    length = kit.length(180)
    template = """
    $head
    {
        uint32_t crc = 0xffffffffu;
        for ($I i = 0; i < count; i++) {
            crc ^= text[i];
            for (int32_t bit = 0; bit < 8; bit++)
                $step
        }
        return ~crc;
    }
    """
    step = kit.pick(
        "crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;",
        "crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));",
    )
    return kit.define("crc", U32, [_bytes(length), _count(length)], length * 170, template, step=step)


def _adler(kit: Kit) -> Function:
    length = kit.length(24)
    template = """
    $head
    {
        uint32_t a = 1, b = 0;
        while (count-- > 0) {
            a = (a + *text++) % $modulus;
            b = (b + a) % $modulus;
        }
        return b << 16 | a;
    }
    """
    modulus = kit.pick("65521", "255", "65535")
    return kit.define("checksum", U32, [_bytes(length), _count(length)], length * 26, template, modulus=modulus)


def _word_count(kit: Kit) -> Function:
    length = kit.length(40)
    space = kit.pick("text[i] <= ' '", "text[i] == ' ' || text[i] == '\\n'", "text[i] % 7 == 0")
    template = """
    $head
    {
        int32_t words = 0, inside = 0;
        for ($I i = 0; i < count; i++) {
            if ($space) {
                inside = 0;
            } else if (!inside) {
                inside = 1;
                words++;
            }
        }
        return words;
    }
    """
    result = Place("", I32, 0, length)
    return kit.define("count_words", result, [_bytes(length), _count(length)], length * 30, template, space=space)


def _length(kit: Kit) -> Function:
    """The text up to a byte that ends it, or the whole."""
    length = kit.length(14)
    template = """
    $head
    {
        const uint8_t *p = text;
        while (p < text + count && *p != $end)
            p++;
        return (int32_t)(p - text);
    }
    """
    result = Place("", I32, 0, length)
    words = {"end": kit.pick("0", "'\\n'", "7")}
    return kit.define("text_length", result, [_bytes(length), _count(length)], length * 16, template, **words)


def _case(kit: Kit) -> Function:
    length = kit.length(30)
    step = kit.pick(
        "if (text[i] >= 'a' && text[i] <= 'z')\n            text[i] -= 'a' - 'A';",
        "if ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z')\n            text[i] ^= 32;",
        "if (text[i] >= 'a' && text[i] <= 'z')\n            text[i] = (uint8_t)((text[i] - 'a' + 13) % 26 + 'a');",
        "text[i] = (uint8_t)(text[i] % 26 + 'a');",
    )
    template = """
    $head
    {
        for ($I i = 0; i < count; i++) {
            $step
        }
        return text[count - 1];
    }
    """
    return kit.define("letters", U8, [_bytes(length, writable=True), _count(length)], length * 34, template, step=step)


def _palindrome(kit: Kit) -> Function:
    length = kit.length(20)
    template = """
    $head
    {
        int32_t left = 0, right = count - 1, different = 0;
        while (left < right)
            different += text[left++] != text[right--];
        return different;
    }
    """
    result = Place("", I32, 0, length)
    return kit.define("palindrome", result, [_bytes(length), _count(length)], length * 14, template)


def _number(kit: Kit) -> Function:
    """Read a number as it stands in the text."""
    length = kit.length(30)
    template = """
    $head
    {
        uint32_t value = 0;
        for (int32_t i = at; i < $length; i++) {
            uint8_t digit = (uint8_t)(text[i] - '0');
            if (digit > 9)
                $other
            value = value * 10 + digit;
        }
        return value;
    }
    """
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - 1)]
    words = {"length": length, "other": kit.pick("break;", "continue;", "digit %= 10;")}
    return kit.define("parse", U32, parameters, length * 30, template, **words)


def _written_number(kit: Kit) -> Function:
    base = kit.rng.choice((10, 16, 2, 8))
    length = 64 if base == 2 else 32
    template = """
    $head
    {
        int32_t n = 0;
        do {
            text[n++] = (uint8_t)"0123456789abcdef"[value % $base];
            value /= $base;
        } while (value != 0 && n < $length);
        for (int32_t i = 0; i < n / 2; i++) {
            uint8_t swap = text[i];
            text[i] = text[n - 1 - i];
            text[n - 1 - i] = swap;
        }
        return n;
    }
    """
    parameters = [_bytes(length, writable=True), scalar_parameter("value", kit.rng.choice((U32, U64)))]
    words = {"base": base, "length": length}
    return kit.define("format", Place("", I32, 1, length), parameters, length * 36, template, **words)


def _search(kit: Kit) -> Function:
    length, part = kit.length(90), kit.rng.between(2, 4)
    template = """
    $head
    {
        for (int32_t i = 0; i + $part <= $length; i++) {
            int32_t k = 0;
            while (k < $part && $same)
                k++;
            if (k == $part)
                return i;
        }
        return $length;
    }
    """
    same = kit.pick("text[i + k] == text[at + k]", "(text[i + k] & 15) == (text[at + k] >> 4)")
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - part)]
    result = Place("", I32, 0, length)
    work = length * part * 26
    return kit.define("find_text", result, parameters, work, template, same=same, part=part, length=length)


def _run_lengths(kit: Kit) -> Function:
    length = kit.length(40)
    template = """
    $head
    {
        int32_t out = 0;
        for (int32_t i = 0; i < $length;) {
            int32_t run = 1;
            while (i + run < $length && text[i + run] == text[i] && run < 255)
                run++;
            if (out + 2 > $length)
                break;
            packed[out++] = (uint8_t)run;
            packed[out++] = text[i];
            i += run;
        }
        return out;
    }
    """
    parameters = [_bytes(length, writable=True, name="packed"), _bytes(length)]
    return kit.define("run_lengths", Place("", I32, 0, length), parameters, length * 46, template, length=length)


def _base64(kit: Kit) -> Function:
    template = """
    $head
    {
        static const char digits[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        int32_t out = 0;
        uint32_t sum = 0;
        for (int32_t i = 0; i + 2 < $length; i += 3) {
            uint32_t group = (uint32_t)text[i] << 16 | (uint32_t)text[i + 1] << 8 | text[i + 2];
            for (int32_t shift = 18; shift >= 0; shift -= 6) {
                sum = sum * 31 + (uint8_t)digits[group >> shift & 63];
                out++;
            }
        }
        return sum ^ (uint32_t)out;
    }
    """
    length = kit.length(60)
    return kit.define("encode", U32, [_bytes(length)], length * 40, template, length=length)


def _number_machine(kit: Kit) -> Function:
    """A state machine that finds numbers with a sign, a point and an exponent."""
    length = kit.length(60)
    template = """
    $head
    {
        enum { START, SIGN, DIGITS, FRACTION, EXPONENT } state = START;
        uint32_t accepted = 0;
        for ($I i = 0; i < count; i++) {
            uint8_t c = (uint8_t)(text[i] % 16);
            switch (state) {
            case START:
                state = c == 10 || c == 11 ? SIGN : c < 10 ? DIGITS : START;
                break;
            case SIGN:
                state = c < 10 ? DIGITS : START;
                break;
            case DIGITS:
                if (c < 10)
                    break;
                if (c == 12)
                    state = FRACTION;
                else if (c == 13)
                    state = EXPONENT;
                else
                    state = START;
                accepted++;
                break;
            case FRACTION:
                if (c >= 10) {
                    state = c == 13 ? EXPONENT : START;
                    accepted += $weight;
                }
                break;
            case EXPONENT:
                state = c < 10 ? EXPONENT : START;
                break;
            }
        }
        return accepted * 8 + (uint32_t)state;
    }
    """
    words = {"weight": kit.rng.between(2, 100)}
    return kit.define("scan_numbers", U32, [_bytes(length), _count(length)], length * 40, template, **words)


def _table_machine(kit: Kit) -> Function:
    """A state machine whose transitions are in a table."""
    states, classes = kit.rng.between(3, 6), kit.rng.choice((2, 4, 8))
    length = kit.length(24)
    rows = ", ".join("{" + ", ".join(str(kit.rng.below(states)) for _ in range(classes)) + "}" for _ in range(states))
    template = """
    $head
    {
        static const uint8_t next[$states][$classes] = {$rows};
        uint32_t state = 0, visits = 0;
        for ($I i = 0; i < count; i++) {
            state = next[state][text[i] % $classes];
            visits += state == $final;
        }
        return visits;
    }
    """
    words = {"states": states, "classes": classes, "rows": rows, "final": kit.rng.below(states)}
    result = Place("", U32, 0, length)
    return kit.define("run_machine", result, [_bytes(length), _count(length)], length * 26, template, **words)


def _brackets(kit: Kit) -> Function:
    length = kit.length(40)
    template = """
    $head
    {
        uint8_t stack[$length] = {0};
        int32_t depth = 0, deepest = 0;
        for ($I i = 0; i < count; i++) {
            switch (text[i] & $mask) {
            case 1:
            case 2:
                stack[depth++] = text[i];
                if (depth > deepest)
                    deepest = depth;
                break;
            case 3:
                if (depth == 0)
                    return -1;
                if (stack[--depth] == 1)
                    deepest += 0;
                break;
            default:
                break;
            }
        }
        return deepest * 2 + (depth == 0);
    }
    """
    result = Place("", I32, -1, 2 * length + 1)
    words = {"length": length, "mask": kit.pick("3", "7")}
    return kit.define("brackets", result, [_bytes(length), _count(length)], length * 34, template, **words)


def _packed_words(kit: Kit) -> Function:
    """Read words from bytes, or write them."""
    kind: Integer = kit.rng.choice((U16, U32, U64))
    size, length = kind.bits // 8, 16
    order = range(size) if kit.rng.chance(50) else range(size)[::-1]
    read = " | ".join(f"({kind.name})text[at + {i}] << {8 * shift}" for shift, i in enumerate(order))
    template = """
    $head
    {
        $T word = ($T)($read);
        return word $end;
    }
    """
    words = {"read": read, "end": kit.pick("& 0x7f", "^ 0x5a", "+ 1", "/ 3")}
    if kind == U16:
        words["end"] = kit.pick("& 0x7f", "/ 3", "% 1000")
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - size)]
    return kit.define("load", kind, parameters, 60, template, **words)


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
