"""The textual language of computations: one statement a line, such as `C[i:4, j:8] = sum(k:16) A[i, k] * B[k, j]`.

    program    = { [ statement ] [ "#" comment ] newline }
    statement  = name "[" axes "]" "=" [ ( "sum" | "max" | "min" ) "(" axes ")" ] sum
    axes       = name ":" integer { "," name ":" integer }
    sum        = product { ( "+" | "-" ) product }
    product    = unary { ( "*" | "/" ) unary }
    unary      = "-" unary | number | "(" sum ")" | function "(" sum { "," sum } ")" | name "[" index { "," index } "]"
    index      = [ "-" ] term { ( "+" | "-" ) term }
    term       = integer [ "*" name ] | name [ "*" integer ]

A tensor that is read but not defined by an earlier statement is an input, and has the smallest shape that holds all
indices. Numbers are rounded to `float32`. Parsing any text ends soon, with a `Computation` within the limits below or a
`LanguageError`; all code that traverses computations relies on these limits.
"""

import difflib
import math
import re
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, TypeVar

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import (
    FUNCTIONS,
    REDUCERS,
    Affine,
    Axis,
    Call,
    Computation,
    Expression,
    Number,
    Read,
    Stage,
    Tensor,
)

LONGEST_NAME = 32  # characters

_TOKEN = re.compile(r"(?P<name>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<sign>[][(),:=+*/-])",
                    re.ASCII)  # fmt: skip
_BLANK = re.compile(r"[ \t\r]*(?:#.*)?")
_SHOWN = 100  # characters of a line that an error shows


class LanguageError(CompilationError):
    """The text is not a computation.

    Attributes:
        line, column: the position of the mistake, both counted from 1.
    """

    def __init__(self, line: int, column: int, reason: str, text: str = "") -> None:
        start = max(0, column - 1 - _SHOWN // 2)
        excerpt = "".join(one if one.isprintable() else " " for one in text[start : start + _SHOWN])
        pointer = f"\n  {excerpt}\n  {' ' * (column - 1 - start)}^" if excerpt.strip() else ""
        super().__init__(FailureCode.BENCHMARK, f"line {line}, column {column}: {reason}{pointer}",
                         line=line, column=column)  # fmt: skip
        self.line = line
        self.column = column


class _Token(NamedTuple):
    """A name, number or sign.

    Attributes:
        kind: `name`, `number`, `sign`, or `end` of the line.
        text: the source text.
        line, column: its position, both counted from 1.
    """

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else f'"{self.text[:40]}"'


def _tokenize(number: int, line: str) -> list[_Token]:
    """Split a line into tokens; the last one is an `end`."""
    found = []
    position = 0
    while blank := _BLANK.match(line, position):
        position = blank.end()
        if position == len(line):
            break
        match = _TOKEN.match(line, position)
        if match is None:
            raise LanguageError(number, position + 1, f"unexpected character {line[position]!r}", line)
        if match.lastgroup == "name" and len(match[0]) > LONGEST_NAME:
            reason = f"expected a name of at most {LONGEST_NAME} characters, found one of {len(match[0])}"
            raise LanguageError(number, position + 1, reason, line)
        found.append(_Token(match.lastgroup or "", match[0], number, position + 1))
        position = match.end()
    return [*found, _Token("end", "", number, len(line.rstrip()) + 1)]


class _Cursor:
    """A position in the tokens of a line.

    Args:
        tokens: the line's tokens; the last one is its end.
        text: the line, for error messages.
    """

    def __init__(self, tokens: list[_Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._position = 0

    def peek(self, ahead: int = 0) -> _Token:
        """Return an upcoming token, by default the next one; past the end, the last one."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def next(self) -> _Token:
        """Consume and return the next token."""
        token = self.peek()
        self._position += 1
        return token

    def accept(self, sign: str) -> bool:
        """Consume the next token if it is this sign, and return whether it was."""
        found = self.peek().text == sign
        self._position += found
        return found

    def expect(self, sign: str) -> None:
        """Consume this sign, or fail."""
        if not self.accept(sign):
            self.expected(f'"{sign}"')

    def expected(self, what: str) -> NoReturn:
        """Fail because the next token is not the expected one."""
        self.fail(self.peek(), f"expected {what}, found {self.peek()}")

    def fail(self, token: _Token, reason: str) -> NoReturn:
        """Fail at a token."""
        raise LanguageError(token.line, token.column, reason, self._text)

    def back(self) -> None:
        """Put back the last consumed token."""
        self._position -= 1


class _Limits(NamedTuple):
    """Upper limits of a computation.

    Attributes:
        text: bytes of the text.
        statements: statements.
        axes: axes of all statements together, which are the initial loops.
        dimensions: dimensions of a tensor.
        nodes: numbers, reads and functions in one statement.
        nesting: parentheses, calls and signs inside one another.
        integer: the value of a whole number, an extent or a factor.
        footprint: bytes of all tensors.
        iterations: evaluations of the expression of one statement.
    """

    text: int = 2**16
    statements: int = 16
    axes: int = 24
    dimensions: int = 8
    nodes: int = 256
    nesting: int = 32
    integer: int = 2**30
    footprint: int = 2**32
    iterations: int = 2**40


LIMITS = _Limits()

_INFIX = {"+": "add", "-": "sub", "*": "mul", "/": "div"}

T = TypeVar("T")


def parse(text: str | bytes) -> Computation:
    """Parse a computation.

    Args:
        text: in the language above; bytes are UTF-8.

    Raises:
        LanguageError: if it is not a computation, or exceeds `LIMITS`.
    """
    if len(text) > LIMITS.text:
        raise LanguageError(1, 1, f"the text has more than {LIMITS.text:,} bytes")
    program = _Program()
    lines = (_decoded(text) if isinstance(text, bytes) else text).split("\n")
    for number, one in enumerate(lines, 1):
        tokens = _tokenize(number, one)
        if len(tokens) > 1:
            _Statement(program, tokens, one).parse()
    if not program.stages:
        raise LanguageError(len(lines), 1, "there is no statement; expected one such as C[i:64] = A[i] + B[i]")
    inputs = tuple(Tensor(name, tuple(shape)) for name, shape in program.inputs.items())
    return Computation(inputs, tuple(program.stages))


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise LanguageError(line, column, f"byte 0x{content[error.start]:02x} is not UTF-8") from None


class _Program:
    """The statements parsed so far.

    Attributes:
        stages: the stages that they define.
        inputs: shapes of the inputs so far, by name.
        first: where each name was first used, and as what: "tensor" or "axis".
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs: dict[str, list[int]] = {}
        self.first: dict[str, tuple[str, _Token]] = {}
        self.axes = 0

    @property
    def footprint(self) -> int:
        """Bytes of all tensors."""
        return 4 * sum(map(math.prod, (*self.shapes.values(), *self.inputs.values())))


class _Statement(_Cursor):
    """The parser of one statement, by recursive descent."""

    def __init__(self, program: _Program, tokens: list[_Token], text: str) -> None:
        super().__init__(tokens, text)
        self._program = program
        self._extents: dict[str, int] = {}
        self._defining = ""
        self._nodes = 0
        self._nesting = 0

    def parse(self) -> None:
        """Add the statement to the program."""
        program = self._program
        head = self._name("the name of a tensor", "tensor")
        if len(program.stages) == LIMITS.statements:
            self.fail(head, f"there are more than {LIMITS.statements} statements")
        if head.text in program.shapes or head.text in program.inputs:
            known = program.first[head.text][1].line
            verb = "computed" if head.text in program.shapes else "read, which makes it an input,"
            self.fail(head, f'"{head.text}" is already {verb} in line {known}; a tensor is computed once, before use')
        self.expect("[")
        spatial = self._axes("]")
        if len(spatial) > LIMITS.dimensions:
            self.fail(head, f'"{head.text}" has more than {LIMITS.dimensions} dimensions')
        self.expect("=")
        reduction: tuple[Axis, ...] = ()
        reducer = ""
        if self._begins_reduction():
            reducer = self.next().text
            self.next()
            reduction = self._axes(")")
        if math.prod(self._extents.values()) > LIMITS.iterations:
            self.fail(head, f"the expression would be evaluated more than {LIMITS.iterations:,} times")
        self._defining = head.text
        body = self._sum()
        if self.peek().kind != "end":
            self.expected("an operator or the end of the line")
        program.stages.append(Stage(head.text, spatial, reduction, reducer, body))
        program.shapes[head.text] = program.stages[-1].result.shape
        if program.footprint > LIMITS.footprint:
            self.fail(head, f"with this statement, the tensors have more than {LIMITS.footprint:,} bytes")

    def _axes(self, closing: str) -> tuple[Axis, ...]:
        axes = self._listed(self._axis, closing)
        self._extents.update((axis.name, axis.extent) for axis in axes)
        return tuple(axes)

    def _axis(self) -> Axis:
        name = self._name("an axis, such as i:64", "axis")
        if name.text in self._extents:
            self.fail(name, f'there are two axes "{name.text}"')
        self._program.axes += 1
        if self._program.axes > LIMITS.axes:
            self.fail(name, f"the statements have more than {LIMITS.axes} axes together")
        self.expect(":")
        token = self.peek()
        extent = self._integer("an extent")
        if extent == 0:
            self.fail(token, f"expected an extent from 1 to {LIMITS.integer:,}, found 0")
        self._extents[name.text] = extent
        return Axis(name.text, extent)

    def _sum(self) -> Expression:
        return self._chain("+-", self._product)

    def _product(self) -> Expression:
        return self._chain("*/", self._unary)

    def _chain(self, signs: str, operand: Callable[[], Expression]) -> Expression:
        left = operand()
        while (token := self.peek()).kind == "sign" and token.text in signs:
            self.next()
            left = Call(_INFIX[token.text], (left, operand()))
            self._count(token)
        return left

    def _unary(self) -> Expression:
        token = self.next()
        self._count(token)
        if token.kind == "number":
            return self._number(token, 1.0)
        if token.text == "-":
            if self.peek().kind == "number":
                return self._number(self.next(), -1.0)
            return Call("neg", (self._nested(token, self._unary),))
        if token.text == "(":
            inner = self._nested(token, self._sum)
            self.expect(")")
            return inner
        if token.kind == "name" and self.peek().text in ("(", "["):
            return self._call(token) if self.peek().text == "(" else self._read(token)
        self.back()
        if token.text in self._extents:
            self.fail(token, f'"{token.text}" is an axis, which has no value here; expected an element of a tensor')
        if token.kind == "name":
            self.fail(token, f'expected indices after "{token.text}", such as {token.text}[{self._an_index}]')
        self.expected("a number, an element of a tensor, a function, or (")

    def _call(self, name: _Token) -> Expression:
        if name.text not in FUNCTIONS:
            if name.text in REDUCERS:
                self._misplaced_reduction(name)
            known = FUNCTIONS.keys() | REDUCERS.keys()
            self.fail(name, f'there is no function "{name.text}"; {_nearest(name.text, known)}')
        opening = self.next()
        if self._begins_axis():
            self._misplaced_reduction(name)
        arguments = self._nested(opening, lambda: self._listed(self._sum, ")"))
        arity = FUNCTIONS[name.text]
        if len(arguments) != arity:
            self.fail(name, f'expected {arity} argument{"s" * (arity > 1)} of "{name.text}", found {len(arguments)}')
        return Call(name.text, tuple(arguments))

    def _misplaced_reduction(self, name: _Token) -> NoReturn:
        self.fail(name, f'a reduction such as {name.text}(k:8) stands only after "="; compute it in a line of its own')

    def _number(self, token: _Token, sign: float) -> Number:
        try:
            (value,) = struct.unpack("<f", struct.pack("<f", sign * float(token.text)))
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            self.fail(token, f"{token} is beyond the range of float32")
        return Number(value)

    def _read(self, name: _Token) -> Read:
        self._claim(name, "tensor")
        program = self._program
        if name.text == self._defining:
            self.fail(name, f'"{name.text}" is what this line computes; expected a tensor of a line above or an input')
        self.next()
        where: list[_Token] = []

        def index() -> Affine:
            where.append(self.peek())
            return self._index()

        indices = tuple(self._listed(index, "]"))
        shape = program.shapes.get(name.text) or program.inputs.setdefault(name.text, [1] * len(indices))
        if len(indices) > LIMITS.dimensions:
            self.fail(name, f'"{name.text}" has more than {LIMITS.dimensions} dimensions')
        if len(indices) != len(shape):
            before = program.first[name.text][1].line
            self.fail(name, f'expected {len(shape)}, the number of indices that "{name.text}" has in line {before}, '
                             f"found {len(indices)}")  # fmt: skip
        for dimension, (token, affine) in enumerate(zip(where, indices, strict=True)):
            self._bound(name.text, dimension, token, affine)
        return Read(name.text, indices)

    def _bound(self, tensor: str, dimension: int, token: _Token, index: Affine) -> None:
        """Check the range of an index, and grow an input to hold it."""
        edges = [(factor * (self._extents[axis] - 1), factor) for axis, factor in index.terms]
        low = index.constant + sum(edge for edge, _ in edges if edge < 0)
        high = index.constant + sum(edge for edge, _ in edges if edge > 0)
        if low < 0:
            self.fail(token, f"expected an index that is never negative, this one goes down to {low}")
        if high >= LIMITS.integer or any(abs(factor) > LIMITS.integer for _, factor in edges):
            self.fail(token, f"expected an index below {LIMITS.integer:,} with factors up to that")
        computed = self._program.shapes.get(tensor)
        if computed is None:
            shape = self._program.inputs[tensor]
            shape[dimension] = max(shape[dimension], high + 1)
        elif high >= computed[dimension]:
            extent = computed[dimension]
            self.fail(token, f'expected an index below {extent}, the extent of "{tensor}", this one goes up to {high}')

    def _index(self) -> Affine:
        constant = 0
        terms: dict[str, int] = {}
        sign = -1 if self.accept("-") else 1
        while True:
            axis, factor = self._term()
            if axis:
                terms[axis] = terms.get(axis, 0) + sign * factor
            else:
                constant += sign * factor
            if self.accept("+"):
                sign = 1
            elif self.accept("-"):
                sign = -1
            else:
                return Affine(constant, tuple((name, factor) for name, factor in terms.items() if factor))

    def _term(self) -> tuple[str, int]:
        """Return an axis, "" for none, and its factor."""
        if self.peek().kind == "number":
            factor = self._integer("a whole number")
            return (self._known_axis() if self.accept("*") else ""), factor
        axis = self._known_axis()
        return axis, (self._integer("a whole number") if self.accept("*") else 1)

    def _known_axis(self) -> str:
        token = self.peek()
        if token.kind != "name":
            self.expected("an axis or a whole number")
        if token.text not in self._extents:
            self.fail(token, f'this line has no axis "{token.text}"; {_nearest(token.text, self._extents)}')
        return self.next().text

    def _begins_reduction(self) -> bool:
        return self.peek().text in REDUCERS and self.peek(1).text == "(" and self._begins_axis(2)

    def _begins_axis(self, ahead: int = 0) -> bool:
        return self.peek(ahead).kind == "name" and self.peek(ahead + 1).text == ":"

    def _listed(self, one: Callable[[], T], closing: str) -> list[T]:
        found = [one()]
        while self.accept(","):
            found.append(one())
        if not self.accept(closing):
            self.expected(f'"," or "{closing}"')
        return found

    def _nested(self, token: _Token, inner: Callable[[], T]) -> T:
        self._nesting += 1
        if self._nesting > LIMITS.nesting:
            self.fail(token, f"there is more than {LIMITS.nesting} times something inside something; use more lines")
        found = inner()
        self._nesting -= 1
        return found

    def _count(self, token: _Token) -> None:
        self._nodes += 1
        if self._nodes > LIMITS.nodes:
            self.fail(token, f"the expression has more than {LIMITS.nodes} parts; compute some in lines of their own")

    def _name(self, expected: str, use: str) -> _Token:
        if self.peek().kind != "name":
            self.expected(expected)
        token = self.next()
        self._claim(token, use)
        return token

    def _claim(self, token: _Token, use: str) -> None:
        """Check that a name may be used as a tensor or an axis, and only as one of them."""
        if token.text in FUNCTIONS or token.text in REDUCERS:
            self.fail(token, f'expected the name of a tensor or axis, found "{token.text}", which is a function')
        before, first = self._program.first.setdefault(token.text, (use, token))
        if before != use:
            article = "an axis" if before == "axis" else "a tensor"
            self.fail(token, f'"{token.text}" is {article} in line {first.line}; expected another name')

    def _integer(self, expected: str) -> int:
        token = self.peek()
        if token.kind != "number" or not token.text.isdigit():
            self.expected(expected)
        digits = token.text.lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > LIMITS.integer:
            self.fail(token, f"expected {expected} of at most {LIMITS.integer:,}, found {token}")
        self.next()
        return int(digits)

    @property
    def _an_index(self) -> str:
        return next(iter(self._extents))


def _nearest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(word, names, 1)
    return f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(names)}"
