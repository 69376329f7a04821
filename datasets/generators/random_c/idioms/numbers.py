"""Idioms of numbers: bits, division, roots, recursion, polynomials."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Function, Place, scalar_parameter
from aiocg.datasets.generators.random_c.types import F64, I32, I64, U8, U16, U32, U64, WORDS, Integer

__all__ = ["IDIOMS"]


def _population_count(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    step = kit.pick("x &= x - 1;\n        n++;", "n += x & 1;\n        x >>= 1;")
    template = """
    $head
    {
        $T n = 0;
        while (x != 0) {
            $step
        }
        return n;
    }
    """
    result = Place("", I32, 0, 64)
    return kit.define("popcount", result, [scalar_parameter("x", kind)], 64 * 14, template, step=step)


def _parallel_count(kit: Kit) -> Function:
    template = """
    $head
    {
        x = x - ((x >> 1) & 0x55555555u);
        x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
        x = (x + (x >> 4)) & 0x0f0f0f0fu;
        return (x * 0x01010101u) >> 24;
    }
    """
    return kit.define("popcount", Place("", U32, 0, 255), [scalar_parameter("x", U32)], 40, template)


def _reversed_bits(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    template = """
    $head
    {
        $T reversed = 0;
        for ($I i = 0; i < $bits; i++) {
            reversed = ($T)(reversed << 1 | (x & 1));
            x >>= 1;
        }
        return reversed;
    }
    """
    return kit.define("reverse", kind, [scalar_parameter("x", kind)], kind.bits * 22, template, bits=kind.bits)


def _stirred(kit: Kit) -> Function:
    """The end of a hash function."""
    kind = kit.rng.choice((U32, U64))
    lines = []
    for _ in range(kit.rng.between(2, 4)):
        lines.append(f"x ^= x >> {kit.rng.between(7, kind.bits // 2 + 1)};")
        lines.append(
            kit.pick(f"x *= {kit.rng.below(2**31) * 2 + 1}u;", f"x += x << {kit.rng.between(2, 12)};", "x = ~x;")
        )
    template = """
    $head
    {
        $lines
        return x;
    }
    """
    text = "\n    ".join(lines)
    return kit.define("mix", kind, [scalar_parameter("x", kind)], 50, template, lines=text)


def _greatest_divisor(kit: Kit) -> Function:
    kind = kit.rng.choice((U16, U32, U64))
    parameters = [scalar_parameter("a", kind), scalar_parameter("b", kind)]
    loop = """
    $head
    {
        while (b != 0) {
            $T rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    }
    """
    recursive = """
    $head
    {
        if (b == 0)
            return a;
        return $name(b, a % b);
    }
    """
    return kit.define("gcd", kind, parameters, 95 * 16, kit.pick(loop, recursive))


def _square_root(kit: Kit) -> Function:
    template = """
    $head
    {
        uint32_t root = 0, bit = 1u << 30;
        while (bit > x)
            bit >>= 2;
        while (bit != 0) {
            if (x >= root + bit) {
                x -= root + bit;
                root = (root >> 1) + bit;
            } else {
                root >>= 1;
            }
            bit >>= 2;
        }
        return root;
    }
    """
    return kit.define("isqrt", Place("", U32, 0, 65535), [scalar_parameter("x", U32)], 16 * 26, template)


def _newton(kit: Kit) -> Function:
    rounds = kit.rng.between(4, 12)
    template = """
    $head
    {
        double guess = x < 0.0 ? 1.0 - x : 1.0 + x;
        double wanted = guess;
        for ($I i = 0; i < $rounds; i++) {
            double next = 0.5 * (guess + wanted / guess);
            $check
            guess = next;
        }
        return bounded(guess);
    }
    """
    check = kit.pick(
        "if (fabs(next - guess) < 0.0001)\n            break;", "if (next == guess)\n            return guess;"
    )
    parameters = [scalar_parameter("x", F64)]
    return kit.define("newton", F64, parameters, rounds * 30, template, rounds=rounds, check=check)


def _power(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    modulus = kit.rng.choice((65521, 10007, 32749, 4093))
    template = """
    $head
    {
        $T result = 1;
        base %= $modulus;
        while (exponent > 0) {
            if (exponent & 1)
                result = result * base % $modulus;
            base = base * base % $modulus;
            exponent >>= 1;
        }
        return result;
    }
    """
    parameters = [scalar_parameter("base", kind), scalar_parameter("exponent", U16)]
    result = Place("", kind, 0, modulus - 1)
    return kit.define("power", result, parameters, 16 * 24, template, modulus=modulus)


def _collatz(kit: Kit) -> Function:
    most = kit.rng.choice((20, 50, 100))
    template = """
    $head
    {
        int32_t steps = 0;
        while (n > 1 && steps < $most) {
            n = $step;
            steps++;
        }
        return steps;
    }
    """
    step = kit.pick("n % 2 == 0 ? n / 2 : 3 * n + 1", "n & 1 ? n * 3 + 1 : n >> 1")
    parameters = [scalar_parameter("n", kit.rng.choice((U32, U64)))]
    return kit.define("collatz", Place("", I32, 0, most), parameters, most * 22, template, step=step, most=most)


def _prime(kit: Kit) -> Function:
    template = """
    $head
    {
        if (n < 2)
            return 0;
        for (uint32_t d = 2; d * d <= n; d += $step) {
            if (n % d == 0)
                return 0;
        }
        return 1;
    }
    """
    step = kit.pick("1", "d == 2 ? 1 : 2")
    return kit.define("is_prime", Place("", I32, 0, 1), [scalar_parameter("n", U16)], 256 * 18, template, step=step)


def _fibonacci(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    loop = """
    $head
    {
        $T a = 0, b = 1;
        for ($I i = 0; i < n; i++) {
            $T next = a + b;
            a = b;
            b = next;
        }
        return a;
    }
    """
    recursive = """
    $head
    {
        return n < 2 ? ($T)n : $name(n - 1) + $name(n - 2);
    }
    """
    recurses = kit.rng.chance(40)
    most = kit.rng.between(6, 10) if recurses else 60
    work = 180 * 20 if recurses else 60 * 16
    parameters = [scalar_parameter("n", I32, 0, most)]
    return kit.define("fibonacci", kind, parameters, work, recursive if recurses else loop)


def _mutual(kit: Kit) -> Function:
    """Two functions that call each other."""
    template = """
    static $T $other(int32_t n, $T total);

    static $T $even(int32_t n, $T total)
    {
        return n == 0 ? total : $other(n - 1, total + $a);
    }

    static $T $other(int32_t n, $T total)
    {
        return n == 0 ? total ^ $b : $even(n - 1, total * $c);
    }

    $head
    {
        return $even(n & 63, total);
    }
    """
    rng = kit.rng
    return kit.define(
        "alternate",
        rng.choice((U32, U64)),
        [scalar_parameter("n", I32), scalar_parameter("total", U32)],
        64 * 18,
        template,
        even=kit.name("even"),
        other=kit.name("odd"),
        a=rng.below(100),
        b=rng.below(100),
        c=rng.between(3, 33),
    )


def _tail_recursion(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    step = kit.pick("total + n * n", "total * 3 + n", "total ^ (n << 3)", "n & 1 ? total + n : total - n")
    template = """
    static $T $loop($T n, $T total)
    {
        if (n == 0)
            return total;
        return $loop(n - 1, $step);
    }

    $head
    {
        return $loop(n % $most, 0);
    }
    """
    words = {"loop": kit.name("loop"), "step": step, "most": kit.rng.choice((20, 50, 100))}
    return kit.define("sum_to", kind, [scalar_parameter("n", kind)], 100 * 20, template, **words)


def _saturating(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, Integer(8, True), Integer(16, True)))
    template = """
    $head
    {
        int32_t sum = a $operator b;
        if (sum > $high)
            return $high;
        $low
        return ($T)sum;
    }
    """
    low = kit.pick(f"if (sum < {kind.low})\n        return {kind.low};", f"sum = sum < {kind.low} ? {kind.low} : sum;")
    parameters = [scalar_parameter("a", kind), scalar_parameter("b", kind)]
    operator = kit.pick("+", "-", "*") if kind.bits == 8 else kit.pick("+", "-")
    return kit.define("saturate", kind, parameters, 24, template, operator=operator, high=kind.high, low=low)


def _median(kit: Kit) -> Function:
    """Minimum, maximum or the middle of three numbers."""
    kind = kit.rng.choice((*WORDS, F64))
    template = """
    static inline $T $least($T a, $T b)
    {
        return a < b ? a : b;
    }

    static inline $T $most($T a, $T b)
    {
        return a > b ? a : b;
    }

    $head
    {
        return $choice;
    }
    """
    least, most = kit.name("min"), kit.name("max")
    choice = kit.pick(
        f"{most}({least}(a, b), {least}({most}(a, b), c))",
        f"{least}(a, {most}(b, c))",
        f"{most}({most}(a, b), c)",
    )
    parameters = [scalar_parameter(letter, kind) for letter in "abc"]
    return kit.define("median", kind, parameters, 60, template, least=least, most=most, choice=choice)


def _polynomial(kit: Kit) -> Function:
    """Horner's rule, in a row or in a loop."""
    degree = kit.rng.between(2, 6)
    x = kit.pick("x / 1048576.0", "x * 0.0000009", "1.0 / (1.0 + x * x)")
    numbers = [kit.real() for _ in range(degree + 1)]
    row = """
    $head
    {
        double y = $x;
        return $sum;
    }
    """
    loop = """
    $head
    {
        static const double factors[$count] = {$numbers};
        double y = $x, sum = 0.0;
        for ($I i = 0; i < $count; i++)
            sum = sum * y + factors[i];
        return sum;
    }
    """
    total = numbers[0]
    for number in numbers[1:]:
        total = f"({total}) * y + {number}"
    return kit.define(
        "polynomial",
        Place("", F64, -20.0, 20.0),
        [scalar_parameter("x", F64)],
        200,
        kit.pick(row, loop),
        x=x,
        sum=total,
        count=degree + 1,
        numbers=", ".join(numbers),
    )


def _escape(kit: Kit) -> Function:
    most = kit.rng.choice((16, 32, 64))
    template = """
    $head
    {
        double re = a / 524288.0, im = b / 524288.0, x = 0.0, y = 0.0;
        int32_t n = 0;
        while (n < $most && x * x + y * y <= 4.0) {
            double next = x * x - y * y + re;
            y = 2.0 * x * y + im;
            x = next;
            n++;
        }
        return n;
    }
    """
    parameters = [scalar_parameter("a", F64), scalar_parameter("b", F64)]
    return kit.define("escape", Place("", I32, 0, most), parameters, most * 34, template, most=most)


def _digits(kit: Kit) -> Function:
    base = kit.rng.choice((10, 10, 7, 16, 8))
    step = kit.pick("total += x % $base;", "total = total * $base + x % $base;", "total ^= x % $base * total + 1;")
    template = f"""
    $head
    {{
        $T total = 0;
        do {{
            {step}
            x /= $base;
        }} while (x != 0);
        return total;
    }}
    """
    kind = kit.rng.choice((U32, U64))
    return kit.define("digits", kind, [scalar_parameter("x", kind)], 24 * 20, template, base=base)


def _calendar(kit: Kit) -> Function:
    """The number of a day in its year, or since long ago."""
    template = """
    static int32_t $leap(int32_t year)
    {
        return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    }

    $head
    {
        static const int16_t before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
        int32_t days = before[month] + day;
        if (month > 1 && $leap(year))
            days++;
        $since
        return days;
    }
    """
    since = kit.pick("", "days += year * 365 + year / 4 - year / 100 + year / 400;")
    parameters = [
        scalar_parameter("year", I32, 0, 4000),
        scalar_parameter("month", I32, 0, 11),
        scalar_parameter("day", I32, 1, 31),
    ]
    result = Place("", I32, 0, 1_500_000)
    return kit.define("day_number", result, parameters, 60, template, leap=kit.name("leap"), since=since)


def _fixed_point(kit: Kit) -> Function:
    shift = kit.rng.choice((8, 12, 16))
    body = kit.pick(
        "return (product >> $shift) + ((product >> ($shift - 1)) & 1);",
        "return product / (1 << $shift);",
        "if (product < 0)\n            return -(-product >> $shift);\n        return product >> $shift;",
    )
    template = f"""
    $head
    {{
        int64_t product = (int64_t)a * b;
        {body}
    }}
    """
    parameters = [scalar_parameter("a", I32), scalar_parameter("b", I32)]
    return kit.define("scale", I64, parameters, 20, template, shift=shift)


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
