"""Mathematical functions as LLVM IR, for scalars and vectors.

`log` and `tanh` are Cephes's polynomials for single precision (Moshier, https://www.netlib.org/cephes/: logf, tanhf),
and `exp` reduces its argument as expf does there. Their error is about two units in the last place at most, and they
handle infinities, NaN and subnormal numbers.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from aiocg.workers.loops.cpu._jit import vector_length

FLOAT = ir.FloatType()
INT = ir.IntType(32)
FLAGS = ("contract", "nsz")
SCALED = 16  # elements that AVX-512 scales at once
CURRENT_ROUNDING = 4

Emitter = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value]


def lanes(kind: ir.Type) -> int:
    """Return how many elements a type has, 0 for scalars."""
    return kind.count if isinstance(kind, ir.VectorType) else 0


def splat(kind: ir.Type, value: float) -> ir.Constant:
    """Return a constant of a scalar or vector type."""
    count = lanes(kind)
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * count if count else value)


def intrinsic(
    builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value, flags: Sequence[str] = ()
) -> ir.Value:
    """Call one of LLVM's intrinsics by its full name."""
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [one.type for one in arguments]), name)
    return builder.call(function, arguments, fastmath=flags)


def call(builder: ir.IRBuilder, function: str, arguments: Sequence[ir.Value]) -> ir.Value:
    """Apply one of `expression.FUNCTIONS`; all arguments have one type, which is the result's."""
    if function in SIMPLE:
        return SIMPLE[function](builder, arguments)
    kind = arguments[0].type
    name = f"{function}.{_suffix(kind)}"
    callee = builder.module.globals.get(name)
    if callee is None:
        callee = ir.Function(builder.module, ir.FunctionType(kind, [kind]), name)
        callee.linkage = "internal"
        callee.attributes.add("alwaysinline")
        inner = ir.IRBuilder(callee.append_basic_block())
        inner.ret(LONG[function](inner, callee.args[0]))
    return builder.call(callee, arguments)


def _suffix(kind: ir.Type) -> str:
    count = lanes(kind)
    return f"v{count}{_suffix(kind.element)}" if count else {FLOAT: "f32", INT: "i32"}[kind]


def _named(name: str) -> Emitter:
    def emit(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> ir.Value:
        kind = arguments[0].type
        return intrinsic(builder, f"llvm.{name}.{_suffix(kind)}", kind, *arguments, flags=("nsz",))

    return emit


SIMPLE: Mapping[str, Emitter] = {
    "add": lambda builder, arguments: builder.fadd(*arguments, flags=FLAGS),
    "sub": lambda builder, arguments: builder.fsub(*arguments, flags=FLAGS),
    "mul": lambda builder, arguments: builder.fmul(*arguments, flags=FLAGS),
    "div": lambda builder, arguments: builder.fdiv(*arguments),
    "neg": lambda builder, arguments: builder.fneg(*arguments),
    "max": _named("maximum"),  # NaN if one argument is, as in NumPy
    "min": _named("minimum"),
    "abs": _named("fabs"),
    "sqrt": _named("sqrt"),
    "fma": _named("fma"),
}


class _Arithmetic:
    """Exact arithmetic on values of one type."""

    def __init__(self, builder: ir.IRBuilder, kind: ir.Type) -> None:
        self.builder = builder
        self.kind = kind
        self.integers = ir.VectorType(INT, lanes(kind)) if lanes(kind) else INT

    def number(self, value: float) -> ir.Constant:
        return splat(self.kind, value)

    def integer(self, value: int) -> ir.Constant:
        return splat(self.integers, value)

    def bits(self, value: ir.Value) -> ir.Value:
        return self.builder.bitcast(value, self.integers)

    def real(self, bits: ir.Value) -> ir.Value:
        return self.builder.bitcast(bits, self.kind)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return intrinsic(self.builder, f"llvm.fma.{_suffix(self.kind)}", self.kind, a, b, c)

    def absolute(self, value: ir.Value) -> ir.Value:
        return intrinsic(self.builder, f"llvm.fabs.{_suffix(self.kind)}", self.kind, value)

    def horner(self, x: ir.Value, *coefficients: float) -> ir.Value:
        """Evaluate a polynomial, the highest power first."""
        value: ir.Value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, self.number(coefficient))
        return value

    def pick(self, relation: str, a: ir.Value, b: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Return `yes` where the ordered relation holds, else `no`; for NaN none holds."""
        return self.builder.select(self.builder.fcmp_ordered(relation, a, b), yes, no)


def _exp(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    with_ = _Arithmetic(builder, x.type)
    low, high = with_.number(-104.0), with_.number(89.0)  # beyond these the result is 0 or infinite
    x = with_.pick("<", x, low, low, x)
    x = with_.pick(">", x, high, high, x)
    magic = with_.number(12582912.0)  # 1.5 * 2**23: adding it rounds to an integer, which is in the lowest bits
    shifted = with_.fma(x, with_.number(math.log2(math.e)), magic)
    count = builder.fsub(shifted, magic)
    rest = with_.fma(count, with_.number(-0.693359375), x)
    rest = with_.fma(count, with_.number(2.12194440e-4), rest)
    value = with_.horner(
        rest, 1.3814597845e-3, 8.3687169546e-3, 4.1668388062e-2, 1.6666520631e-1, 4.9999993448e-1, 1.0, 1.0
    )
    if vector_length() == SCALED and lanes(x.type) and lanes(x.type) % SCALED == 0:
        return _scaled(builder, value, count)
    power = builder.sub(with_.bits(shifted), with_.bits(magic))
    half = builder.ashr(power, with_.integer(1))  # scaled in two steps: 2**power may not be a normal number
    for step in (half, builder.sub(power, half)):
        exponent = builder.shl(builder.add(step, with_.integer(127)), with_.integer(23))
        value = builder.fmul(value, with_.real(exponent))
    return value


def _scaled(builder: ir.IRBuilder, value: ir.Value, power: ir.Value) -> ir.Value:
    """Return value * 2**power by AVX-512's instruction for that, a register at a time."""
    kind, mask = ir.VectorType(FLOAT, SCALED), ir.IntType(SCALED)
    parts = []
    for first in range(0, lanes(value.type), SCALED):
        lane = ir.Constant(ir.VectorType(INT, SCALED), list(range(first, first + SCALED)))
        one, two = (builder.shuffle_vector(whole, whole, lane) for whole in (value, power))
        name = f"llvm.x86.avx512.mask.scalef.ps.{32 * SCALED}"
        parts.append(intrinsic(builder, name, kind, one, two, one, mask(-1), INT(CURRENT_ROUNDING)))
    while len(parts) > 1:
        count = lanes(parts[0].type)
        lane = ir.Constant(ir.VectorType(INT, 2 * count), list(range(2 * count)))
        parts = [builder.shuffle_vector(*pair, lane) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _log(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    with_ = _Arithmetic(builder, x.type)
    tiny = builder.fcmp_ordered("<", x, with_.number(2.0**-126))
    scaled = builder.select(tiny, builder.fmul(x, with_.number(2.0**23)), x)
    bits = with_.bits(scaled)
    mantissa = builder.or_(builder.and_(bits, with_.integer(0x7FFFFF)), with_.integer(0x3F000000))  # from 1/2 to 1
    exponent = builder.sub(builder.ashr(bits, with_.integer(23)), with_.integer(126))
    exponent = builder.sub(exponent, builder.select(tiny, with_.integer(23), with_.integer(0)))
    part = with_.real(mantissa)
    below = builder.fcmp_ordered("<", part, with_.number(math.sqrt(0.5)))
    exponent = builder.sub(exponent, builder.select(below, with_.integer(1), with_.integer(0)))
    part = builder.fadd(part, builder.select(below, part, with_.number(0.0)))
    rest = builder.fsub(part, with_.number(1.0))
    power = builder.sitofp(exponent, x.type)
    square = builder.fmul(rest, rest)
    value = with_.horner(
        rest, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    value = builder.fmul(builder.fmul(value, square), rest)
    value = with_.fma(power, with_.number(-2.12194440e-4), value)
    value = with_.fma(square, with_.number(-0.5), value)
    value = builder.fadd(rest, value)
    value = with_.fma(power, with_.number(0.693359375), value)
    value = with_.pick("<", x, with_.number(math.inf), value, x)  # infinity and NaN map to themselves
    value = with_.pick("<", x, with_.number(0.0), with_.number(math.nan), value)
    return with_.pick("==", x, with_.number(0.0), with_.number(-math.inf), value)


def _tanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    with_ = _Arithmetic(builder, x.type)
    size = with_.absolute(x)
    square = builder.fmul(x, x)
    near = with_.horner(
        square, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1
    )
    near = with_.fma(builder.fmul(near, square), x, x)
    grown = builder.fadd(call(builder, "exp", [builder.fadd(size, size)]), with_.number(1.0))
    far = builder.fsub(with_.number(1.0), builder.fdiv(with_.number(2.0), grown))
    sign = builder.and_(with_.bits(x), with_.integer(-(2**31)))
    far = with_.real(builder.or_(with_.bits(far), sign))
    return with_.pick(">", size, with_.number(0.625), far, near)


LONG: Mapping[str, Callable[[ir.IRBuilder, ir.Value], ir.Value]] = {"exp": _exp, "log": _log, "tanh": _tanh}
