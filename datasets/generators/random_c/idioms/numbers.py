"""Idioms of numbers: bits, division, roots, recursion, polynomials."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import F64, I32, I64, U8, U16, U32, U64, WORDS, Integer


def _population_count(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    step = kit.pick("x &= x - 1;\n        n++;", "n += x & 1;\n        x >>= 1;")
    result = Lvalue("", I32, 0, 64)
    return kit.define(result, [scalar_parameter("x", kind)], 64 * 14, "popcount/population_count", step=step)


def _parallel_count(kit: Kit) -> Function:
    return kit.define(Lvalue("", U32, 0, 255), [scalar_parameter("x", U32)], 40, "popcount/parallel_count")


def _reversed_bits(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    return kit.define(kind, [scalar_parameter("x", kind)], kind.bits * 22, "reverse/reversed_bits", bits=kind.bits)


def _stirred(kit: Kit) -> Function:
    """The end of a hash function."""
    kind = kit.rng.choice((U32, U64))
    lines = []
    for _ in range(kit.rng.between(2, 4)):
        lines.append(f"x ^= x >> {kit.rng.between(7, kind.bits // 2 + 1)};")
        lines.append(
            kit.pick(f"x *= {kit.rng.below(2**31) * 2 + 1}u;", f"x += x << {kit.rng.between(2, 12)};", "x = ~x;")
        )
    text = "\n    ".join(lines)
    return kit.define(kind, [scalar_parameter("x", kind)], 50, "mix", lines=text)


def _greatest_divisor(kit: Kit) -> Function:
    kind = kit.rng.choice((U16, U32, U64))
    parameters = [scalar_parameter("a", kind), scalar_parameter("b", kind)]
    return kit.define(kind, parameters, 95 * 16, kit.pick("gcd/loop", "gcd/recursive"))


def _square_root(kit: Kit) -> Function:
    return kit.define(Lvalue("", U32, 0, 65535), [scalar_parameter("x", U32)], 16 * 26, "isqrt")


def _newton(kit: Kit) -> Function:
    rounds = kit.rng.between(4, 12)
    check = kit.pick(
        "if (fabs(next - guess) < 0.0001)\n            break;", "if (next == guess)\n            return guess;"
    )
    parameters = [scalar_parameter("x", F64)]
    return kit.define(F64, parameters, rounds * 30, "newton", rounds=rounds, check=check)


def _power(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    modulus = kit.rng.choice((65521, 10007, 32749, 4093))
    parameters = [scalar_parameter("base", kind), scalar_parameter("exponent", U16)]
    result = Lvalue("", kind, 0, modulus - 1)
    return kit.define(result, parameters, 16 * 24, "power", modulus=modulus)


def _collatz(kit: Kit) -> Function:
    most = kit.rng.choice((20, 50, 100))
    step = kit.pick("n % 2 == 0 ? n / 2 : 3 * n + 1", "n & 1 ? n * 3 + 1 : n >> 1")
    parameters = [scalar_parameter("n", kit.rng.choice((U32, U64)))]
    return kit.define(Lvalue("", I32, 0, most), parameters, most * 22, "collatz", step=step, most=most)


def _prime(kit: Kit) -> Function:
    step = kit.pick("1", "d == 2 ? 1 : 2")
    return kit.define(Lvalue("", I32, 0, 1), [scalar_parameter("n", U16)], 256 * 18, "is_prime", step=step)


def _fibonacci(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    recurses = kit.rng.chance(40)
    most = kit.rng.between(6, 10) if recurses else 60
    work = 180 * 20 if recurses else 60 * 16
    parameters = [scalar_parameter("n", I32, 0, most)]
    return kit.define(kind, parameters, work, "fibonacci/recursive" if recurses else "fibonacci/loop")


def _mutual(kit: Kit) -> Function:
    """Two functions that call each other."""
    rng = kit.rng
    return kit.define(
        rng.choice((U32, U64)),
        [scalar_parameter("n", I32), scalar_parameter("total", U32)],
        64 * 18,
        "alternate",
        even=kit.name("even"),
        other=kit.name("odd"),
        a=rng.below(100),
        b=rng.below(100),
        c=rng.between(3, 33),
    )


def _tail_recursion(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    step = kit.pick("total + n * n", "total * 3 + n", "total ^ (n << 3)", "n & 1 ? total + n : total - n")
    words = {"loop": kit.name("loop"), "step": step, "most": kit.rng.choice((20, 50, 100))}
    return kit.define(kind, [scalar_parameter("n", kind)], 100 * 20, "sum_to", **words)


def _saturating(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, Integer(8, True), Integer(16, True)))
    low = kit.pick(f"if (sum < {kind.low})\n        return {kind.low};", f"sum = sum < {kind.low} ? {kind.low} : sum;")
    parameters = [scalar_parameter("a", kind), scalar_parameter("b", kind)]
    operator = kit.pick("+", "-", "*") if kind.bits == 8 else kit.pick("+", "-")
    return kit.define(kind, parameters, 24, "saturate", operator=operator, high=kind.high, low=low)


def _median(kit: Kit) -> Function:
    """Minimum, maximum or the middle of three numbers."""
    kind = kit.rng.choice((*WORDS, F64))
    least, most = kit.name("min"), kit.name("max")
    choice = kit.pick(
        f"{most}({least}(a, b), {least}({most}(a, b), c))", f"{least}(a, {most}(b, c))", f"{most}({most}(a, b), c)"
    )
    parameters = [scalar_parameter(letter, kind) for letter in "abc"]
    return kit.define(kind, parameters, 60, "median", least=least, most=most, choice=choice)


def _polynomial(kit: Kit) -> Function:
    """Horner's rule, in a row or in a loop."""
    degree = kit.rng.between(2, 6)
    x = kit.pick("x / 1048576.0", "x * 0.0000009", "1.0 / (1.0 + x * x)")
    numbers = [kit.real() for _ in range(degree + 1)]
    total = numbers[0]
    for number in numbers[1:]:
        total = f"({total}) * y + {number}"
    return kit.define(
        Lvalue("", F64, -20.0, 20.0),
        [scalar_parameter("x", F64)],
        200,
        kit.pick("polynomial/row", "polynomial/loop"),
        x=x,
        sum=total,
        count=degree + 1,
        numbers=", ".join(numbers),
    )


def _escape(kit: Kit) -> Function:
    most = kit.rng.choice((16, 32, 64))
    parameters = [scalar_parameter("a", F64), scalar_parameter("b", F64)]
    return kit.define(Lvalue("", I32, 0, most), parameters, most * 34, "escape", most=most)


def _digits(kit: Kit) -> Function:
    base = kit.rng.choice((10, 10, 7, 16, 8))
    step = kit.pick("total += x % $base;", "total = total * $base + x % $base;", "total ^= x % $base * total + 1;")
    kind = kit.rng.choice((U32, U64))
    return kit.define(kind, [scalar_parameter("x", kind)], 24 * 20, "digits", step=step, base=base)


def _calendar(kit: Kit) -> Function:
    """The number of a day in its year, or since long ago."""
    since = kit.pick("", "days += year * 365 + year / 4 - year / 100 + year / 400;")
    parameters = [
        scalar_parameter("year", I32, 0, 4000),
        scalar_parameter("month", I32, 0, 11),
        scalar_parameter("day", I32, 1, 31),
    ]
    result = Lvalue("", I32, 0, 1_500_000)
    return kit.define(result, parameters, 60, "day_number", leap=kit.name("leap"), since=since)


def _fixed_point(kit: Kit) -> Function:
    shift = kit.rng.choice((8, 12, 16))
    body = kit.pick(
        "return (product >> $shift) + ((product >> ($shift - 1)) & 1);",
        "return product / (1 << $shift);",
        "if (product < 0)\n        return -(-product >> $shift);\n    return product >> $shift;",
    )
    parameters = [scalar_parameter("a", I32), scalar_parameter("b", I32)]
    return kit.define(I64, parameters, 20, "scale", body=body, shift=shift)


IDIOMS: tuple[Idiom, ...] = (
    _population_count,
    _parallel_count,
    _reversed_bits,
    _stirred,
    _greatest_divisor,
    _square_root,
    _newton,
    _power,
    _collatz,
    _prime,
    _fibonacci,
    _mutual,
    _tail_recursion,
    _saturating,
    _median,
    _polynomial,
    _escape,
    _digits,
    _calendar,
    _fixed_point,
)
