"""The textual language: what it means, that texts and computations are turned into each other, and how errors help."""

import math
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.transport.messages import FailureCode
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
from aiocg.workers.loops._language import LIMITS, LanguageError, parse
from aiocg.workers.loops._schedule import unparse

SOFTMAX = """
# each row, so that it adds up to 1

M[i:64] = max(j:1000) X[i, j]
E[i:64, j:1000] = exp(X[i, j] - M[i])    # no overflow
S[i:64] = sum(j:1000) E[i, j]\r
Y[i:64, j:1000] = E[i, j] / S[i]
"""


def _index(*axes: str) -> tuple[Affine, ...]:
    return tuple(Affine(0, ((axis, 1),)) for axis in axes)


def _error(text: str | bytes) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    return caught.value


def test_product_of_matrices_is_one_stage_with_two_inputs() -> None:
    found = parse("C[i:4, j:8] = sum(k:16) A[i, k] * B[k, j]")
    body = Call("mul", (Read("A", _index("i", "k")), Read("B", _index("k", "j"))))
    stage = Stage("C", (Axis("i", 4), Axis("j", 8)), (Axis("k", 16),), "sum", body)
    assert found == Computation((Tensor("A", (4, 16)), Tensor("B", (16, 8))), (stage,))


def test_statements_use_those_above_and_comments_are_left_out() -> None:
    found = parse(SOFTMAX)
    assert [stage.tensor for stage in found.stages] == ["M", "E", "S", "Y"]
    assert [stage.reducer for stage in found.stages] == ["max", "", "sum", ""]
    assert found.inputs == (Tensor("X", (64, 1000)),)


def test_inputs_are_as_large_as_the_greatest_index_read() -> None:
    found = parse("Y[y:5, x:4] = sum(r:3) X[2*y + r, x*3 + 7, 4 - y]\nZ[i:30] = X[i, 0, 0] + 2 * Y[4, 3]")
    assert found.inputs == (Tensor("X", (30, 17, 5)),)


def test_an_axis_is_in_an_index_once_and_not_at_all_if_it_cancels_out() -> None:
    found = parse("Y[i:4, j:3] = X[i + j + i + 2, j - j, 3 - i]")
    (read,) = found.stages[0].reads()
    assert read.indices == (Affine(2, (("i", 2), ("j", 1))), Affine(0), Affine(3, (("i", -1),)))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("A[i] - B[i] - C[i]", "(A[i] - B[i]) - C[i]"),
        ("A[i] / B[i] * C[i]", "(A[i] / B[i]) * C[i]"),
        ("A[i] + B[i] * C[i]", "A[i] + (B[i] * C[i])"),
        ("-A[i] * B[i]", "(-A[i]) * B[i]"),
        ("A[i] * -B[i]", "mul(A[i], neg(B[i]))"),
        ("max(A[i], 0) + exp(B[i])", "add(max(A[i], 0), exp(B[i]))"),
        ("2-3", "2 - 3"),
        ("1e3 + .5 + 2.", "1000 + 0.5 + 2"),
    ],
)
def test_operators_bind_as_usual(text: str, same: str) -> None:
    assert parse(f"Y[i:4] = {text}") == parse(f"Y[i:4] = {same}")


def test_a_minus_before_a_number_belongs_to_it() -> None:
    assert parse("Y[i:4] = -1.5").stages[0].body == Number(-1.5)
    assert parse("Y[i:4] = neg(1.5)").stages[0].body == Call("neg", (Number(1.5),))
    assert parse("Y[i:4] = -(1.5)").stages[0].body == Call("neg", (Number(1.5),))


def test_numbers_are_those_of_float32() -> None:
    assert parse("Y[i:4] = 0.1").stages[0].body == Number(struct.unpack("f", struct.pack("f", 0.1))[0])
    assert parse("Y[i:4] = 1e-60").stages[0].body == Number(0.0)


def test_a_function_and_a_reduction_of_the_same_name_are_told_apart() -> None:
    assert parse("Y[i:4] = max(A[i], B[i])").stages[0].reducer == ""
    assert parse("Y[i:4] = max(k:3) max(A[i], B[k])").stages[0].reducer == "max"


ERRORS = [  # text, line, column, what the message says
    ("", 1, 1, "there is no statement; expected one such as C[i:64]"),
    ("# nothing\n\n", 3, 1, "there is no statement"),
    ("C", 1, 2, 'expected "[", found the end of the line'),
    ("C[] = 1", 1, 3, 'expected an axis, such as i:64, found "]"'),
    ("C[i] = A[i]", 1, 4, 'expected ":", found "]"'),
    ("C[i:4 j:4] = 1", 1, 7, 'expected "," or "]", found "j"'),
    ("C[i:4.5] = 1", 1, 5, 'expected an extent, found "4.5"'),
    ("C[i:0] = 1", 1, 5, "expected an extent from 1 to 1,073,741,824, found 0"),
    ("C[i:4, i:4] = 1", 1, 8, 'there are two axes "i"'),
    ("C[i:4] A[i]", 1, 8, 'expected "=", found "A"'),
    ("C[i:4] = ", 1, 9, "expected a number, an element of a tensor, a function, or (, found the end of the line"),
    ("C[i:4] = A[i] +  # and?", 1, 24, "expected a number"),
    ("C[i:4] = A[i] B[i]", 1, 15, 'expected an operator or the end of the line, found "B"'),
    ("C[i:4] = (A[i]", 1, 15, 'expected ")", found the end of the line'),
    ("C[i:4] = A[i", 1, 13, 'expected "," or "]"'),
    ("C[i:4] = A[i,]", 1, 14, 'expected an axis or a whole number, found "]"'),
    ("C[i:4] = A[j]", 1, 12, 'this line has no axis "j"; expected one of i'),
    ("C[row:4] = A[rov]", 1, 14, 'this line has no axis "rov"; did you mean "row"?'),
    ("C[i:4] = A[1.5 * i]", 1, 12, 'expected a whole number, found "1.5"'),
    ("C[i:4] = A[i * i]", 1, 16, 'expected a whole number, found "i"'),
    ("C[i:4] = A[i - 1]", 1, 12, "expected an index that is never negative, this one goes down to -1"),
    ("C[i:4] = A", 1, 10, 'expected indices after "A", such as A[i]'),
    ("C[i:4] = i + 1", 1, 10, '"i" is an axis, which has no value here; expected an element of a tensor'),
    ("C[i:4] = squrt(A[i])", 1, 10, 'there is no function "squrt"; did you mean "sqrt"?'),
    ("C[i:4] = foo(A[i])", 1, 10, 'there is no function "foo"; expected one of abs, add,'),
    ("C[i:4] = exp(A[i], 2)", 1, 10, 'expected 1 argument of "exp", found 2'),
    ("C[i:4] = max(A[i])", 1, 10, 'expected 2 arguments of "max", found 1'),
    ("C[i:4] = 2 * sum(k:4) A[k]", 1, 14, "a reduction such as sum(k:8) stands only after"),
    ("C[i:4] = sum(A[i])", 1, 10, "a reduction such as sum(k:8) stands only after"),
    ("C[i:4] = 1e39", 1, 10, '"1e39" is beyond the range of float32'),
    ("C[i:4] = A[i] + A[i, i]", 1, 17, 'expected 1, the number of indices that "A" has in line 1, found 2'),
    ("C[i:4] = C[i]", 1, 10, '"C" is what this line computes'),
    ("C[i:4] = A[i]\nA[i:4] = C[i]", 2, 1, '"A" is already read, which makes it an input, in line 1'),
    ("C[i:4] = A[i]\nC[i:4] = A[i]", 2, 1, '"C" is already computed in line 1'),
    ("C[i:4] = A[i]\nD[i:5] = C[i]", 2, 12, 'expected an index below 4, the extent of "C", this one goes up to 4'),
    ("exp[i:4] = 1", 1, 1, 'expected the name of a tensor or axis, found "exp", which is a function'),
    ("C[i:4] = 1\nD[C:4] = 1", 2, 3, '"C" is a tensor in line 1; expected another name'),
    ("C[i:4] = A[i] ? 1", 1, 15, "unexpected character '?'"),
    ("C[i:4] = \x00", 1, 10, "unexpected character '\\x00'"),
    ("C[i:4] = Ä[i]", 1, 10, "unexpected character 'Ä'"),
    (b"C[i:4] = 1\n\xff", 2, 1, "byte 0xff is not UTF-8"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS)
def test_errors_say_where_and_what_was_expected(text: str | bytes, line: int, column: int, message: str) -> None:
    error = _error(text)
    assert (error.line, error.column, error.code) == (line, column, FailureCode.BENCHMARK)
    assert error.fields == {"line": line, "column": column}
    assert error.message.startswith(f"line {line}, column {column}: {message}")


def test_errors_point_at_the_place_even_in_a_long_line() -> None:
    error = _error(f"C[i:4] = {' + '.join(['A[i]'] * 40)} + B[j]")
    _, excerpt, pointer = error.message.split("\n")
    assert excerpt[pointer.index("^")] == "j"
    assert len(excerpt) < 120


NAMES = ",".join(f"i{number}:1" for number in range(LIMITS.dimensions))
AXES = "\n".join(f"T{n}[i:2, j:2, k:2] = 1" for n in range(8))
INSIDE = [
    ("statements", "\n".join(f"T{number}[i:1] = 1" for number in range(LIMITS.statements)), "\nX[i:1] = 1"),
    ("axes", AXES, "\nX[i:1] = 1"),
    ("dimensions", f"C[{NAMES}", ",j:1] = 1"),
    ("dimensions of an input", f"C[i:1] = A[{','.join('i' * LIMITS.dimensions)}", ",i]"),
    ("nodes", f"C[i:1] = {'+'.join(['1'] * (LIMITS.nodes // 2))}", "+1"),
    ("signs", f"C[i:1] = {'-' * LIMITS.nesting}A[i]", ""),
    ("calls", f"C[i:1] = {'exp(' * LIMITS.nesting}1{')' * LIMITS.nesting}", ""),
    ("integer", f"C[i:1] = A[i*{LIMITS.integer}", "0]"),
    ("footprint", f"C[i:{2**15}, j:{2**15}] = ", "A[i]"),
    ("iterations", f"C[i:{2**20}] = sum(j:{2**20}", ", k:2) 1"),
    ("text", f"C[i:1] = 1 #{'x' * (LIMITS.text - 12)}", "x"),
]
CLOSED = {"dimensions": "] = 1", "dimensions of an input": "]", "integer": "]", "footprint": "1", "iterations": ") 1"}


@pytest.mark.parametrize(("name", "inside", "more"), INSIDE, ids=[name for name, _, _ in INSIDE])
def test_limits_are_reached_and_not_passed(name: str, inside: str, more: str) -> None:
    parse(inside + CLOSED.get(name, ""))
    deeper = inside.replace("---", "----", 1).replace("exp(exp(", "exp(exp(exp(", 1)
    beyond = inside + more if more else deeper
    assert "more than" in (message := _error(beyond).message) or "of at most" in message or "below" in message


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "text",
    ["(" * 60_000, "-" * 60_000, "exp(" * 15_000, "A[" * 30_000, "1+" * 30_000, "9" * 60_000, "x" * 60_000,
     "1e" + "9" * 60_000, "A[i" + "+i" * 20_000, "\t" * 60_000],
    ids=lambda text: text[:4],
)  # fmt: skip
def test_texts_of_the_greatest_length_are_refused(text: str) -> None:
    with pytest.raises(LanguageError):
        parse(f"C[i:4] = {text}")


def test_extents_of_a_thousand_digits_are_refused() -> None:
    assert "expected an extent of at most 1,073,741,824" in _error(f"C[i:{'9' * 5000}] = 1").message


def _outcome(text: str | bytes) -> Computation | LanguageError:
    try:
        return parse(text)
    except LanguageError as error:
        return error


def _check(text: str | bytes) -> None:
    """A text is parsed, and then what is printed is, too; or the error is in the text, and can be shown."""
    found = _outcome(text)
    if isinstance(found, Computation):
        assert parse(unparse(found)) == found
        return
    lines = text.split(b"\n") if isinstance(text, bytes) else text.split("\n")
    assert 1 <= found.line <= len(lines)
    assert 1 <= found.column <= len(lines[found.line - 1]) + 1
    assert all(character.isprintable() or character == "\n" for character in found.message)


@given(st.text() | st.binary())
@settings(deadline=None)
def test_any_text_is_parsed_or_refused(text: str | bytes) -> None:
    _check(text)


WORDS = st.sampled_from([*"[](),:=+-*/\n #ijkABC018", "sum(", "max(k:3)", "exp(", "i:4", "A[i]", "1.5", "C[i:4] = "])


@given(st.lists(WORDS, max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_words_of_the_language_are_parsed_or_refused(text: str) -> None:
    _check(text)


@given(st.randoms(use_true_random=False), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_damaged_texts_are_parsed_or_refused(rng: random.Random, damages: int) -> None:
    text = SOFTMAX
    for _ in range(damages):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["", rng.choice(text), "(", "\n", "9"]) + text[place + rng.randrange(2) :]
    _check(text)


EXTENTS = {"i": 3, "j": 4, "k": 5}
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def _affine(draw: st.DrawFn) -> Affine:
    factors = [(axis, draw(st.integers(-3, 3))) for axis in draw(st.permutations(sorted(EXTENTS)))]
    terms = tuple((axis, factor) for axis, factor in factors if factor)
    least = -sum(min(0, factor * (EXTENTS[axis] - 1)) for axis, factor in terms)
    return Affine(least + draw(st.integers(0, 3)), terms)


READS = st.builds(Read, st.just("A"), st.tuples(_affine(), _affine())) | st.builds(
    Read, st.just("B"), st.tuples(_affine())
)


def _calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    by_arity = {arity: [name for name, own in FUNCTIONS.items() if own == arity] for arity in (1, 2)}
    return st.builds(Call, st.sampled_from(by_arity[1]), st.tuples(inner)) | st.builds(
        Call, st.sampled_from(by_arity[2]), st.tuples(inner, inner)
    )


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(st.builds(Number, FLOATS) | READS, _calls, max_leaves=30)


@given(EXPRESSIONS, st.sampled_from(["", *REDUCERS]))
@settings(max_examples=300, deadline=None)
def test_a_printed_computation_is_parsed_to_an_equal_one(body: Expression, reducer: str) -> None:
    axes = tuple(Axis(name, extent) for name, extent in EXTENTS.items())
    kept = 1 if reducer else 3
    stage = Stage("C", axes[:kept], axes[kept:], reducer, body)
    found = parse(unparse(Computation((), (stage,))))
    assert found.stages == (stage,)
    assert parse(unparse(found)) == found


@given(FLOATS)
@settings(deadline=None)
def test_a_printed_number_is_the_same_to_the_last_bit(value: float) -> None:
    (found,) = parse(unparse(Computation((), (Stage("C", (Axis("i", 1),), (), "", Number(value)),)))).stages
    assert isinstance(found.body, Number)
    assert found.body.value == value
    assert math.copysign(1, found.body.value) == math.copysign(1, value)


def test_texts_of_several_statements_are_printed_as_they_are_written() -> None:
    text = "".join(f"{line.partition('#')[0].strip()}\n" for line in SOFTMAX.splitlines() if line.partition("#")[0])
    assert unparse(parse(SOFTMAX)) == text


def test_the_example_of_the_page_is_in_the_language() -> None:
    page = (Path(__file__).parents[3] / "docs" / "loops_language.md").read_text(encoding="utf-8")
    example = page.split("\n\n")[2]
    found = parse(example)
    assert {tensor.name: tensor.shape for tensor in found.tensors} == {
        "K": (256, 64), "Q": (64,), "V": (256, 64), "D": (256,), "M": (1,), "E": (256,), "S": (1,), "Y": (64,),
    }  # fmt: skip
