"""Options as typed choices: words from choices, choices from words, and what is said of other words."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiocg.transport.options import UNSET, Option, OptionReader, UnknownOption, words

LEVEL = Option("-O", "level", texts=("-O0", "-O2", "-Os"))
STALLED = Option("-fstalled", "integer", "", ("-fstalled", "-fno-stalled"), "-fstalled={}", 0, 9)
STRIDE = Option("--param=stride", "param", template="--param=stride={}", low=-1, high=2**31 - 1)
OPTIONS = (LEVEL, STALLED, STRIDE)


@st.composite
def option_lists(draw: st.DrawFn) -> list[Option]:
    """Draw options such as compilers have: all of one form or both, and no two of one name."""
    names = st.from_regex(r"(-f|--param=)[a-z][a-z0-9-]{0,6}", fullmatch=True)
    options = []
    for name in draw(st.lists(names, unique=True, max_size=6)):
        values = draw(st.lists(st.from_regex(r"[a-z]{1,3}(:[0-9])?", fullmatch=True), unique=True, max_size=4))
        texts = [name] if draw(st.booleans()) and not name.startswith("--") else []
        texts += [f"{name}={value}" for value in values]
        low = draw(st.integers(-3, 2**31 - 1))
        numbers = draw(st.booleans()) or not texts
        span: dict[str, Any] = {"template": f"{name}={{}}", "low": low, "high": draw(st.integers(low, 2**31 - 1))}
        options.append(Option(name, "param", texts=tuple(texts), **(span if numbers else {})))
    return options


@given(st.data())
def test_what_words_writes_the_reader_reads(data: st.DataObject) -> None:
    options = data.draw(option_lists())
    choices = [data.draw(st.integers(UNSET, len(option) - 1)) for option in options]
    line = words(options, choices)
    assert len(line) == sum(choice != UNSET for choice in choices)
    assert OptionReader(options).read(line) == choices
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(options), type=list[Option]) == options


@given(st.data())
def test_any_word_is_a_choice_or_refused_with_a_reason(data: st.DataObject) -> None:
    options = data.draw(option_lists())
    pieces = st.sampled_from([option.name for option in options] + ["=", "-", "0", "9" * 5000, "²", "a", "{}", " ", ""])
    word = "".join(data.draw(st.lists(pieces, max_size=4))) + data.draw(st.text(max_size=3))
    try:
        index, choice = OptionReader(options).read_word(word)
    except UnknownOption as refused:
        error = refused
    else:
        written = options[index].word(choice)
        assert written == word or int(written.rpartition("=")[2]) == int(word.rpartition("=")[2])
        return
    assert error.word == word
    assert error.reason


@given(st.integers(-(10**25), 10**25))
def test_a_number_is_read_when_it_is_in_the_range(number: int) -> None:
    assume(abs(number) < 2**32 or number % 2)
    if STRIDE.low <= number <= STRIDE.high:
        assert OptionReader(OPTIONS).read_word(f"--param=stride={number}") == (2, number + 1)
    else:
        with pytest.raises(UnknownOption, match="is not in the range from -1 to 2147483647"):
            OptionReader(OPTIONS).read_word(f"--param=stride={number}")


def test_of_several_words_for_one_option_the_last_counts() -> None:
    assert OptionReader(OPTIONS).read(["-O2", "-fstalled=3", "-Os", "-fno-stalled"]) == [2, 1, UNSET]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("", "is not an option of this compiler"),
        ("-fgcse", "is not an option of this compiler"),
        ("-O3", "is not an option of this compiler"),
        ("-O=3", "expected -O0 or -O2 or -Os"),
        ("-fstalled=", "expected -fstalled or -fno-stalled or -fstalled=a number from 0 to 9"),
        ("-fstalled=+1", "expected -fstalled or -fno-stalled or -fstalled=a number from 0 to 9"),
        ("-fstalled=1_0", "expected -fstalled or -fno-stalled or -fstalled=a number from 0 to 9"),
        ("--param=stride", "expected --param=stride=a number from -1 to 2147483647"),
        ("--param=stride=--1", "expected --param=stride=a number from -1 to 2147483647"),
        ("--param=stride=" + "9" * 5000, "is not in the range from -1 to 2147483647"),
    ],
)
def test_a_word_that_is_no_choice_is_refused_with_what_is_expected(word: str, reason: str) -> None:
    with pytest.raises(UnknownOption) as caught:
        OptionReader(OPTIONS).read(["-O2", word])
    assert (caught.value.word, caught.value.reason) == (word, reason)


def test_a_choice_for_each_option_is_needed() -> None:
    with pytest.raises(ValueError, match="zip"):
        words(OPTIONS, [0])


@pytest.mark.parametrize("digits", ["0" * 9000 + "7", "-" + "0" * 9000 + "1"])
def test_number_with_thousands_of_zeros_is_a_number(digits: str) -> None:
    assert OptionReader(OPTIONS).read_word(f"--param=stride={digits}") == (2, 1 + int(digits[0] + digits[-1]))


@pytest.mark.parametrize("digits", ["9" * 9000, "-" + "9" * 9000, "9" * 25])
def test_number_with_thousands_of_digits_is_out_of_range(digits: str) -> None:
    with pytest.raises(UnknownOption, match="is not in the range"):
        OptionReader(OPTIONS).read_word(f"--param=stride={digits}")
