"""Evaluation by NumPy: right values, bounds that rounding keeps to and mistakes do not, and little memory."""

import itertools
import math
import operator
import random
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from aiocg.workers.loops import _reference as reference
from aiocg.workers.loops._expression import Affine, Computation, Expression, Number, Read, Stage
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import Expected, Scale, compare, expect, growth, random_inputs, scale_of_array

from . import strategies

computations = strategies.computations

MATMUL = "C[i:40, j:50] = sum(k:{}) A[i, k] * B[k, j]"
SOFTMAX = """
M[i:{m}] = max(j:{n}) X[i, j]
E[i:{m}, j:{n}] = exp(X[i, j] - M[i])
S[i:{m}] = sum(j:{n}) E[i, j]
Y[i:{m}, j:{n}] = E[i, j] / S[i]
"""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "max": max, "min": min,
    "neg": operator.neg, "abs": abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh,
}  # fmt: skip
REDUCERS: Mapping[str, Callable[..., Any]] = {"sum": operator.add, "max": max, "min": min}


def _one_by_one(computation: Computation, inputs: Sequence[NDArray[Any]], number: type[np.floating[Any]],
                rng: random.Random | None = None) -> list[NDArray[Any]]:  # fmt: skip
    """Evaluate element by element, with numbers of a type, and with the terms in a random order if there is one."""
    known = {tensor.name: array for tensor, array in zip(computation.inputs, inputs, strict=True)}
    for stage in computation.stages:
        result = np.empty(stage.result.shape, number)
        reduced = list(itertools.product(*(range(axis.extent) for axis in stage.reduction)))
        for place in np.ndindex(result.shape):
            if rng is not None:
                rng.shuffle(reduced)
            terms = [_value(stage.body, known, _axes(stage, place + turn), number) for turn in reduced]
            result[place] = terms[0] if not stage.reducer else _folded(REDUCERS[stage.reducer], terms)
        known[stage.tensor] = result
    return [known[stage.tensor] for stage in computation.stages]


def _folded(combine: Callable[[Any, Any], Any], terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = combine(total, term)
    return total


def _axes(stage: Stage, values: Sequence[int]) -> dict[str, int]:
    return {axis.name: value for axis, value in zip(stage.axes, values, strict=True)}


def _value(one: Expression, known: Mapping[str, NDArray[Any]], axes: Mapping[str, int], number: Any) -> Any:
    if isinstance(one, Number):
        return number(one.value)
    if isinstance(one, Read):
        return number(known[one.tensor][tuple(_index(index, axes) for index in one.indices)])
    return FUNCTIONS[one.function](*(_value(argument, known, axes, number) for argument in one.arguments))


def _index(index: Affine, axes: Mapping[str, int]) -> int:
    return index.constant + sum(factor * axes[axis] for axis, factor in index.terms)


def _uniform(computation: Computation, seed: int, low: float = -1.0) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, 1.0, tensor.shape).astype(np.float32) for tensor in computation.inputs]


@given(computations(), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_results_are_those_of_evaluating_one_by_one(computation: Computation, seed: int) -> None:
    inputs = random_inputs(computation, seed)
    with np.errstate(all="ignore"):
        right = _one_by_one(computation, inputs, np.float64)
    for found, exact in zip(expect(computation, inputs), right, strict=True):
        assert found.values.dtype == np.float32
        np.testing.assert_allclose(found.values, exact, rtol=1e-5, atol=1e-6)
        if found.tolerance is None:
            np.testing.assert_array_equal(found.values, exact)


@pytest.mark.slow
@given(computations(), st.integers(0, 9), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_rounding_to_float32_in_any_order_is_tolerated(computation: Computation, seed: int, rng: random.Random) -> None:
    for inputs in (random_inputs(computation, seed), _uniform(computation, seed)):
        with np.errstate(all="ignore"):
            got = _one_by_one(computation, inputs, np.float32, rng)
        assert compare(computation, got, expect(computation, inputs)) is None


@given(computations(), st.integers(0, 9), st.data())
@settings(max_examples=50, deadline=None)
def test_one_wrong_element_is_found(computation: Computation, seed: int, data: st.DataObject) -> None:
    expected = expect(computation, random_inputs(computation, seed))
    got = [one.values.copy() for one in expected]
    assert compare(computation, got, expected) is None
    number = data.draw(st.integers(0, len(got) - 1))
    place = data.draw(st.tuples(*(st.integers(0, extent - 1) for extent in got[number].shape)))
    tolerance = expected[number].tolerance
    if tolerance is None:
        got[number][place] = np.nextafter(got[number][place], np.float32(np.inf))
    else:
        got[number][place] += 4 * tolerance[place] + np.spacing(abs(got[number][place]))
    found = compare(computation, got, expected)
    assert found is not None
    assert (found.tensor, found.place, found.wrong) == (computation.stages[number].tensor, place, 1)
    assert found.value == got[number][place]


@pytest.mark.parametrize("length", [1, 100, 1024, 5000])
def test_a_product_of_matrices_is_exact_in_every_order(length: int) -> None:
    computation = parse(MATMUL.format(length))
    a, b = inputs = random_inputs(computation)
    (expected,) = expect(computation, inputs)
    assert expected.tolerance is None
    assert len(np.unique(a)) > min(a.size, 60) / 2  # and yet it has many different numbers
    for order in (np.arange(length), np.arange(length)[::-1], np.random.default_rng(0).permutation(length)):
        np.testing.assert_array_equal(np.ascontiguousarray(a[:, order]) @ b[order], expected.values)


def test_a_term_that_is_left_out_is_found() -> None:
    computation = parse(MATMUL.format(1024))
    a, b = inputs = random_inputs(computation)
    got = a @ b
    got[7, 9] -= a[7, -1] * b[-1, 9]
    found = compare(computation, [got], expect(computation, inputs))
    assert found is not None and found.place == (7, 9)
    assert str(found).startswith("C[7, 9] is ")
    assert "1 of 2,000 elements are wrong" in str(found)


def test_a_term_that_is_left_out_of_a_sum_of_exponentials_is_found() -> None:
    computation = parse(SOFTMAX.format(m=20, n=1000))
    inputs = random_inputs(computation)
    expected = expect(computation, inputs)
    m, e, s, y = [one.values.copy() for one in expected]
    s[3] = e[3, 1:].sum()
    found = compare(computation, [m, e, s, y], expected)
    assert found is not None and (found.tensor, found.place) == ("S", (3,))
    s[3] = e[3].sum()
    assert compare(computation, [m, e, s, e / s[:, None]], expected) is None


def test_long_sums_of_numbers_above_zero_one_after_the_other_are_tolerated() -> None:
    computation = parse("S[i:2] = sum(j:200000) exp(X[i, j])")
    inputs = _uniform(computation, 1)
    got = np.cumsum(np.exp(inputs[0]), axis=1, dtype=np.float32)[:, -1]
    (expected,) = expect(computation, inputs)
    assert not np.array_equal(got, expected.values)
    assert compare(computation, [got], [expected]) is None
    assert compare(computation, [got * np.float32(1.02)], [expected]) is not None


TEXTS = [
    MATMUL.format(70),
    SOFTMAX.format(m=9, n=31),
    "Y[n:2, f:3, y:7, x:6] = sum(c:3, r:3, s:2) X[n, c, 2*y + r, x + s] * K[f, c, r, s]",
    "Y[i:13, j:17] = sum(k:11) -2 * A[12 - i, k] * B[k, j]",
    "Y[i:13, j:17] = sum(k:11) A[i, k] * B[k, j] * D[k]",
    "Y[i:13, j:17] = max(k:11, l:3) A[i, k] - B[k + l, j]",
    "Y[i:13, j:17] = sum(k:11, l:3) A[i]",  # axes that are used nowhere
    "Y[i:13, j:17] = sum(k:11, l:3) tanh(A[j])",
    "Y[i:13, j:17] = sum(k:11) 2",
    "H[i:13, j:17] = sum(k:11) tanh(A[i, k])\nY[i:13, j:17] = sum(k:17) H[i, k] * B[k, j]",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_results_do_not_depend_on_the_blocks(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computation = parse(text)
    inputs = random_inputs(computation, 3)
    whole = expect(computation, inputs)
    for name in ("CONTRACTED", "BROADCAST", "COMPARED"):
        monkeypatch.setattr(reference, name, 50)
    parts = expect(computation, inputs)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-6)
        assert (one.tolerance is None) == (other.tolerance is None)
        if one.tolerance is not None and other.tolerance is not None:
            np.testing.assert_allclose(one.tolerance, other.tolerance, rtol=1e-2)
    got = [one.values.copy() for one in parts]
    assert compare(computation, got, whole) is None
    got[-1].flat[-1] = np.nan
    found = compare(computation, got, whole)
    assert found is not None and found.place == tuple(extent - 1 for extent in got[-1].shape)
    assert math.isnan(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "Y[n:2, f:8, y:64, x:64] = sum(c:32, r:5, s:5) X[n, c, y + r, x + s] * K[f, c, r, s]",  # 52 MB if unrolled
        "Y[i:2000] = sum(j:2000) exp(X[i] - Z[j])",  # 32 MB if broadcast
        "Y[i:500, j:500] = sum(k:64) A[i, k] * B[k, j] * D[i, j]",  # 128 MB
    ],
)
def test_memory_is_bounded(text: str) -> None:
    computation = parse(text)
    inputs = random_inputs(computation)
    tracemalloc.start()
    try:
        expect(computation, inputs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    arrays = 2 * 4 * computation.stages[-1].result.size
    assert peak - arrays < 8 * (2 * reference.CONTRACTED + 8 * reference.BROADCAST)


def test_random_inputs_repeat_with_the_seed() -> None:
    computation = parse(MATMUL.format(30))
    for one, same, other in zip(*(random_inputs(computation, seed) for seed in (1, 1, 2)), strict=True):
        np.testing.assert_array_equal(one, same)
        assert one.dtype == np.float32
        assert not np.array_equal(one, other)
        assert np.abs(one).max() <= 1
        assert one.min() < -0.5 < 0.5 < one.max()


def test_inputs_of_roots_logarithms_and_quotients_are_above_zero() -> None:
    for body in ("sqrt(A[i])", "1 + log(A[i])", "1 / A[i]"):
        (array,) = random_inputs(parse(f"Y[i:1000] = {body}"))
        assert array.min() > 0


def test_what_is_not_finite_is_compared() -> None:
    computation = parse("Y[i:4] = log(A[i])\nZ[i:4] = 2 * A[i]")
    expected = expect(computation, [np.array([-1, 0, 1, np.inf], np.float32)])
    right = [one.values.copy() for one in expected]
    assert [str(value) for value in right[0]] == ["nan", "-inf", "0.0", "inf"]
    assert compare(computation, right, expected) is None
    for place, value in ((0, 3.0), (1, np.inf), (1, -3e38), (2, np.nan), (3, np.nan)):
        wrong = [right[0].copy(), right[1]]
        wrong[0][place] = value
        found = compare(computation, wrong, expected)
        assert found is not None and (found.tensor, found.place) == ("Y", (place,))


@pytest.mark.parametrize(
    ("text", "value", "results"),
    [
        ("Y[i:1] = exp(200 * A[i])", 1.0, {np.inf}),
        ("Y[i:1] = exp(200 * A[i]) / exp(200 * A[i])", 1.0, {np.nan}),  # 1 in float64
        ("Y[i:1] = 1 / exp(200 * A[i])", 1.0, {0.0}),
        ("Y[i:1] = -1e38 * A[i] * 10", 1.0, {-np.inf}),
        ("Y[i:1] = 3e38 * A[i] * 1.5 - 3e38 * A[i]", 1.0, {np.inf, 1.5e38}),  # with and without a fused operation
        ("Y[i:1] = 1e38 * A[i] * 10 - 1e38 * A[i] * 10", 1.0, {np.nan, np.inf, -np.inf}),
        ("Y[i:1] = sum(j:5) 1e38 * A[j - j]", 1.0, {np.inf}),
        ("Y[i:1] = sum(j:2, k:2) A[j] * 3e38", (1.0, -1.0), {0.0, np.inf, -np.inf, np.nan}),  # depends on the order
        ("Y[i:1] = max(j:2) exp(200 * A[j])", (0.0, 1.0), {np.inf}),
    ],
)
def test_what_float32_cannot_represent_is_infinite_in_the_reference(
    text: str, value: float | tuple[float, ...], results: set[float]
) -> None:
    computation = parse(text)
    expected = expect(computation, [np.full(tensor.shape, value, np.float32) for tensor in computation.inputs])
    for result in results:
        assert compare(computation, [np.array([result], np.float32)], expected) is None, result
    unknown = expected[0].tolerance is not None and bool(np.isinf(expected[0].tolerance).all())
    assert unknown == (len(results) > 1)
    if not unknown:
        assert compare(computation, [np.array([2e38], np.float32)], expected) is not None


def test_arrays_of_other_shapes_or_types_are_refused() -> None:
    computation = parse("Y[i:4] = A[i]")
    with pytest.raises(ValueError, match=r"expected inputs of the shapes \[\(4,\)\], got \[\(5,\)\]"):
        expect(computation, [np.zeros(5, np.float32)])
    expected = expect(computation, [np.zeros(4, np.float32)])
    for wrong in (np.zeros(3, np.float32), np.zeros(4)):
        with pytest.raises(ValueError, match="expected float32 of the shape"):
            compare(computation, [wrong], expected)


def test_a_read_outside_of_a_tensor_is_refused() -> None:
    computation = parse("Y[i:4] = A[i + 1]")
    small = Computation(parse("Y[i:4] = A[i]").inputs, computation.stages)
    with pytest.raises(ValueError, match="read outside of it"):
        expect(small, [np.zeros(4, np.float32)])


def test_expected_values_without_tolerance_are_compared_bit_by_bit() -> None:
    computation = parse("Y[i:4] = A[i]")
    got = np.array([1, 2, 3, 4], np.float32)
    assert compare(computation, [got], [Expected(got.copy(), None)]) is None
    found = compare(computation, [got], [Expected(np.nextafter(got, np.float32(9)), None)])
    assert found is not None and found.wrong == 4 and found.tolerance == 0


@given(st.integers(-20, 20), st.lists(st.integers(-(2**24), 2**24), min_size=1, max_size=20))
@settings(deadline=None)
def test_the_scale_of_an_array_has_its_lowest_bit(grid: int, numbers: list[int]) -> None:
    array = np.ldexp(np.array(numbers, np.float32), grid).astype(np.float32)
    scale = scale_of_array(array)
    lowest = min(((number & -number).bit_length() - 1 + grid for number in numbers if number), default=24)
    assert scale == Scale(min(lowest, 24), float(np.abs(array).max()))


def test_arrays_that_are_not_finite_have_no_scale() -> None:
    assert scale_of_array(np.array([1, np.nan], np.float32)) is None
    assert scale_of_array(np.array([np.inf], np.float32)) is None


def test_the_bound_of_a_sum_grows_with_its_length() -> None:
    assert growth(1) == 0
    assert growth(2) == pytest.approx(2**-24)
    assert growth(1025) == pytest.approx(2**-14, rel=1e-3)
    assert growth(2**30) == 1
