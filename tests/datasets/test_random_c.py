"""The generator of `aiocg-v0`: seeds and sizes, the same text everywhere, and expressions that C defines."""

import hashlib
import itertools
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.datasets import BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.generators.random_c import DEFAULT_SIZE, MIN_SIZE, RandomProgramsDataset
from aiocg.datasets.generators.random_c import _values as values
from aiocg.datasets.generators.random_c._program import random_program
from aiocg.datasets.generators.random_c._statements import estimate
from aiocg.datasets.generators.random_c._values import (
    F32,
    F64,
    I32,
    I64,
    INTEGERS,
    LIMIT,
    U8,
    U32,
    Rng,
    Scalar,
    Value,
    common_type,
)
from aiocg.datasets.generators.random_c.idioms import IDIOMS
from aiocg.datasets.generators.random_c.idioms._drawn import Kit

GOLDEN = {
    (0, 50): "69631d1e1db7b8b1050cc363c1662cc9635ed61283b9cc6f29bcc9667a5cdbb9",
    (1, 300): "6f5636e504614076234e9291d70e87fb0cb9298baf85e71c7ed97d2d59339142",
    (7, 1000): "0a6376f458e0e8c3264621b290e1692f148719652fe2332a6095ef32b7917fd9",
    (4294967295, 5000): "23896e5fc98fa57e67cea22764be43a7bc3262b5ff3946c8e6c0f50209f45786",
}

CONSTRUCTS = {
    "for loop": r"\bfor \(",
    "loop inside a loop": r"\n( +)(?:for|while) \(.*\{(?:\n\1 .*)*?\n\1    +(?:for|while|do)\b",
    "counting down": r"for \(.*--\)",
    "while loop": r"\bwhile \([^;]*\{",
    "do loop": r"\bdo \{",
    "break out of a loop": r"\bbreak;",
    "continue": r"\bcontinue;",
    "switch": r"\bswitch \(",
    "fall through": r"/\* falls through \*/",
    "else": r"\} else \{",
    "early return": r"\n        +return ",
    "conditional expression": r" \? .* : ",
    "logical operators": r"&&[^;]*\|\||\|\|[^;]*&&|&&",
    "array": r"\n(?:static )?\w+ g_\d+\[\d+\] =",
    "array of two dimensions": r"\n(?:static )?\w+ g_\d+\[\d+\]\[\d+\] =",
    "local array": r"\n    +\w+ \w+\[\d+\] = ",
    "structure": r"\nstruct s_\d+ \{",
    "structure in a structure": r"\n    struct s_\d+ f\d;",
    "bit-field": r"\n    uint32_t f\d : \d+;",
    "structure by value": r"\(.*struct \w+ \w+[,)].*\n\{",
    "structure by pointer": r"\(.*struct \w+ \*\w+[,)].*\n\{",
    "structure returned": r"\nstatic (?:inline )?struct \w+ \w+\(",
    "assignment of a structure": r"\n    +\*?\w+ = \*?(?:g_\d+|s\d*|p\d+);",
    "pointer to a variable": r"\n    +\w+ \*p\d+ = ",
    "pointer that walks": r"\w\+\+ = \*\w+\+\+|p\+\+",
    "table of functions": r"\(\*const \w+\[\d\]\)\(",
    "function as an argument": r"\(\w+ \(\*operation\)\(",
    "recursion": r"\nstatic \w+ (\w+)\(.*\n\{(?:\n .*)*\b\1\(",
    "functions that call each other": r"\nstatic \w+ odd_\d+\(.*\);",
    "inline function": r"\nstatic inline ",
    "function with external linkage": r"\nu?int\d+_t \w+\(",
    "memcpy": r"memcpy\(",
    "memset": r"memset\(",
    "memmove": r"memmove\(",
    "qsort": r"qsort\(",
    "square root": r"sqrt\(",
    "float": r"\bfloat \w+",
    "double": r"\bdouble \w+",
    "rotation": r"<< \d+ \| .* >> \d+",
    "division": r" / ",
    "remainder": r" % ",
    "sorting": r"\bsort_\d+\(",
    "matrix product": r"\bmultiply_\d+\(",
    "hash": r"\bhash_\d+\(",
    "state machine": r"\bscan_numbers_\d+\(",
    "interpreter": r"\bexecute_\d+\(",
    "list": r"\bstruct node_\d+",
    "tree": r"\bstruct tree_\d+",
    "memo": r"\bmemo_\d+\(",
    "stencil": r"\b(?:smooth|relax)_\d+\(",
} | {f"type {kind.name}": rf"\b{kind.name} \w+" for kind in INTEGERS}


@pytest.fixture(scope="module")
def dataset() -> RandomProgramsDataset:
    return RandomProgramsDataset()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_random_numbers_are_those_of_splitmix64() -> None:
    rng = Rng(1234567)
    assert [rng.bits() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_draws_are_in_range_and_reach_all_of_it() -> None:
    rng = Rng(1)
    assert {rng.between(-2, 2) for _ in range(200)} == {-2, -1, 0, 1, 2}
    assert {rng.weighted([(1, "a"), (3, "b")]) for _ in range(100)} == {"a", "b"}
    assert sorted(rng.sample(range(5), 9)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("seed", "size"), GOLDEN)
def test_a_seed_and_a_size_are_one_text_for_ever(seed: int, size: int) -> None:
    assert sha256(random_program(seed, size)) == GOLDEN[seed, size]


@pytest.mark.slow
def test_text_does_not_depend_on_the_hashes_of_the_interpreter() -> None:
    program = (
        "import hashlib; from aiocg.datasets.generators.random_c._program import random_program; "
        "print(hashlib.sha256(random_program(5, 2000).encode()).hexdigest())"
    )
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-P", "-c", program]
        found.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    assert found == {sha256(random_program(5, 2000))}


def test_seeds_and_sizes_are_different_programs() -> None:
    texts = {random_program(seed, size) for seed in range(30) for size in (MIN_SIZE, 300)}
    assert len(texts) == 60


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(MIN_SIZE, 2500))
def test_estimated_size_is_what_was_asked_for(seed: int, size: int) -> None:
    assert abs(estimate(random_program(seed, size)) - size) <= max(size * 0.25, 60)


@pytest.mark.slow
def test_all_constructs_appear_in_fifty_programs() -> None:
    text = "\n".join(random_program(seed, 2000) for seed in range(50))
    assert [name for name, pattern in CONSTRUCTS.items() if not re.search(pattern, text)] == []


def test_no_program_jumps_or_is_volatile() -> None:
    text = "\n".join(random_program(seed, 1000) for seed in range(20))
    assert not re.search(r"\bgoto\b|\bvolatile\b|\bsetjmp\b", text)


def test_main_ends_with_its_checksum_and_nowhere_else() -> None:
    for seed, size in itertools.product(range(60), (80, 300)):
        main = random_program(seed, size).partition("\nint main(")[2]
        assert main.count("return ") == 1, (seed, size)


def test_every_idiom_keeps_to_the_work_that_it_is_allowed() -> None:
    for idiom, seed in itertools.product(IDIOMS, range(10)):
        function = idiom(Kit(Rng(seed), lambda word: f"{word}_1", 60_000))
        assert 0 < function.work <= 60_000, idiom


def test_dataset_is_unbounded_and_named_by_seeds(dataset: RandomProgramsDataset) -> None:
    assert (dataset.name, dataset.scheme, dataset.size, dataset.validatable) == ("aiocg-v0", "generator", 0, True)
    assert str(dataset.uri_at(2**32 - 1)) == "generator://aiocg-v0/4294967295"
    assert [str(uri) for uri in itertools.islice(dataset.benchmark_uris(), 2)] == [
        "generator://aiocg-v0/0",
        "generator://aiocg-v0/1",
    ]
    for rng in (random.Random(0), np.random.default_rng(0)):
        assert 0 <= int(dataset.random_benchmark(rng).uri.path) < 2**32


def test_size_is_a_parameter(dataset: RandomProgramsDataset) -> None:
    benchmark = dataset.benchmark_from_seed(7, size=300)
    assert str(benchmark.uri) == "generator://aiocg-v0/7?size=300"
    assert benchmark is dataset.benchmark("7?size=300")
    (source,) = benchmark.sources
    assert (source.filename, source.contents.decode()) == ("program.c", random_program(7, 300))
    (source,) = dataset.benchmark("7").sources
    assert source.contents.decode() == random_program(7, DEFAULT_SIZE)


@pytest.mark.parametrize("path", ["x", "-1", "007", "4294967296", "1/2", "1#main"])
def test_what_is_no_seed_is_refused(dataset: RandomProgramsDataset, path: str) -> None:
    with pytest.raises(BenchmarkNotFound, match=r"seeds, which are whole numbers from 0 to 4294967295"):
        dataset.benchmark(path)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("size=49", "cannot be '49'; it is a whole number from 50 to 50000"),
        ("size=50001", "cannot be '50001'"),
        ("size=big", "cannot be 'big'"),
        ("size=100&size=100", "given twice"),
        ("sise=100", "did you mean 'size'"),
    ],
)
def test_what_is_no_size_is_refused(dataset: RandomProgramsDataset, query: str, words: str) -> None:
    with pytest.raises(InvalidBenchmarkUri) as caught:
        dataset.benchmark(f"7?{query}")
    assert words in str(caught.value)
    assert "generator://aiocg-v0/1?size=50000" in str(caught.value)


def variable(kind: Scalar, low: float | None = None, high: float | None = None) -> Value:
    return Value("x", kind, kind.low if low is None else low, kind.high if high is None else high, True)


def test_signed_arithmetic_is_plain_where_it_cannot_overflow() -> None:
    small, any_number = variable(I32, -1000, 1000), variable(I32)
    assert values.arithmetic("*", small, small) == Value("x * x", I32, -1_000_000, 1_000_000)
    assert values.arithmetic("+", any_number, any_number) == Value("(uint32_t)x + x", U32, 0, U32.high)
    assert values.arithmetic("+", variable(U8), variable(U8)) == Value("x + x", I32, 0, 510)
    assert values.negate(any_number).text == "-(uint32_t)x"
    assert values.negate(small).text == "-x"


def test_divisors_are_never_zero() -> None:
    assert values.quotient("/", variable(I32), variable(I32, 1, 9)).text == "x / x"
    assert values.quotient("/", variable(I32), variable(I32, 0, 9)).text == "x / (x + 1)"
    assert values.quotient("%", variable(I32), variable(I32)).text == "x % ((uint32_t)x | 1)"
    assert values.quotient("/", variable(F64), variable(F64)).text.endswith("x / ((x * x) + 1.0)")


def test_indices_are_brought_into_range() -> None:
    assert values.wrapped(variable(I32, 0, 7), 8).text == "x"
    assert values.wrapped(variable(I64), 16) == Value("x & 15", I64, 0, 15)
    assert values.wrapped(variable(I32), 12) == Value("(uint32_t)x % 12", U32, 0, 11)


def test_real_numbers_are_bounded_before_they_are_kept_or_converted() -> None:
    product = values.arithmetic("*", variable(F64), variable(F64))
    assert values.fit(product, F32, F32.low, F32.high).text == "bounded(x * x)"
    assert values.cast(product, I64).text == "(int64_t)(int32_t)bounded(x * x)"
    assert values.bounded(variable(F32)).text == "x"
    assert I32.holds(-LIMIT, LIMIT)


@given(st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_the_common_type_is_that_of_c(a: Scalar, b: Scalar) -> None:
    numpy_dtype = (np.empty(0, a.name.removesuffix("_t")).dtype, np.empty(0, b.name.removesuffix("_t")).dtype)
    kind = common_type(a, b)
    assert kind.bits == max(32, *(dtype.itemsize * 8 for dtype in numpy_dtype))
    widest = [dtype for dtype in numpy_dtype if dtype.itemsize * 8 == kind.bits]
    assert kind.low == (0 if any(dtype.kind == "u" for dtype in widest) else -(2 ** (kind.bits - 1)))
