"""What GCC's help says, read: of real compilers, of lines of each form, and of anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.transport.options import Option, OptionReader
from aiocg.workers.gcc._discovery import GREATEST, Entry, exclusion, propose, read_help

from . import help_texts


def entries(version: str, topic: str) -> tuple[Entry, ...]:
    answers = help_texts.texts(version)
    return read_help(answers[f"--help={topic} -Q"], answers[f"--help={topic}"])


def proposed(*lines: str) -> list[Option]:
    return [proposal.option for proposal in propose(read_help("\n".join(f"  {line}" for line in lines)))[0]]


@pytest.mark.parametrize(
    ("version", "optimizers", "params"),
    [
        ("gcc-9", 247, 222),
        ("gcc-10", 254, 235),
        ("gcc-11", 256, 263),
        ("gcc-12", 264, 279),
        ("gcc-13", 266, 283),
        ("gcc-14", 276, 291),
        ("gcc-15", 287, 305),
    ],
)
def test_every_line_of_every_version_is_read(version: str, optimizers: int, params: int) -> None:
    found = entries(version, "optimizers"), entries(version, "params")
    assert (len(found[0]), len(found[1])) == (optimizers, params)
    assert [entry.line for topic in found for entry in topic if not entry.name] == []


@pytest.mark.parametrize(
    ("version", "optimizers", "params", "dropped", "excluded"),
    [  # fewer than lines: there is one option for all levels, and one for -fx and -fx=
        # whoever changes these numbers raises `_FORMAT` in options_file.py
        ("gcc-9", 235, 222, 0, 23),
        ("gcc-10", 241, 235, 1, 25),
        ("gcc-11", 243, 263, 1, 25),
        ("gcc-12", 250, 279, 1, 30),
        ("gcc-13", 252, 283, 1, 30),
        ("gcc-14", 260, 291, 1, 30),
        ("gcc-15", 268, 306, 2, 32),
    ],
)
def test_every_entry_is_a_form_of_a_proposed_option_or_has_a_reason(
    version: str, optimizers: int, params: int, dropped: int, excluded: int
) -> None:
    found = entries(version, "optimizers") + entries(version, "params")
    proposals, left_out = propose(found)
    names = [proposal.option.name for proposal in proposals]
    assert len(set(names)) == len(names)
    of_params = sum(name.startswith("--param=") for name in names)
    counts = (len(names) - of_params, of_params, len(left_out), sum(bool(exclusion(name)) for name in names))
    assert counts == (optimizers, params, dropped, excluded)
    known = {*names, *[drop.name for drop in left_out]}
    for entry in found:
        stem = "-O" if entry.name.startswith("-O") else entry.name.removesuffix("=").replace("-fno-", "-f")
        assert stem in known, entry


@pytest.mark.parametrize("version", help_texts.VERSIONS)
def test_words_and_choices_of_every_version_are_inverse_to_each_other(version: str) -> None:
    found = entries(version, "optimizers") + entries(version, "params")
    options = [proposal.option for proposal in propose(found)[0]]
    reader = OptionReader(options)
    for index, option in enumerate(options):
        assert len(option) > 0
        for choice in {0, len(option) // 2, len(option) - 1}:
            word = option.word(choice)
            assert " " not in word and "," not in word
            assert reader.read_word(word) == (index, choice)


def test_each_form_of_a_line_is_understood() -> None:
    options = proposed(
        "-O<number>                  \t\t",
        "-Os                         \t\t",
        "-fgcse                      \t\t[disabled]",
        "-fno-threadsafe-statics     \t\t[available in C++, ObjC++]",
        "-ffp-contract=[off|on|fast] \t\tfast",
        "-flifetime-dse              \t\t[enabled]",
        "-flifetime-dse=<0,2>        \t\t2",
        "-falign-loops               \t\t[disabled]",
        "-falign-loops=              \t\t",
        "-fsched-stalled-insns=<number> \t\t",
        "-gstatement-frontiers       \t\t[disabled]",
        "--param=align-threshold=<1,65536> \t\t100",
        "--param=max-unroll-times=   \t\t8",
        "--param=prefetch-minimum-stride= \t-1",
        "max-peel-times              default 16 minimum 0 maximum 0",
        "sms-dfa-history             default 0 minimum 0 maximum 16",
    )
    assert [(option.name, option.kind, " ".join(option.texts[:4]), option.low, option.high) for option in options] == [
        ("-O", "level", "-O0 -O1 -O2 -O3", 0, -1),
        ("-fgcse", "flag", "-fgcse -fno-gcse", 0, -1),
        ("-fthreadsafe-statics", "flag", "-fthreadsafe-statics -fno-threadsafe-statics", 0, -1),
        ("-ffp-contract", "enum", "-ffp-contract=off -ffp-contract=on -ffp-contract=fast", 0, -1),
        ("-flifetime-dse", "integer", "-flifetime-dse -fno-lifetime-dse", 0, 2),
        ("-falign-loops", "alignment", "-falign-loops -fno-align-loops -falign-loops=1 -falign-loops=2", 0, -1),
        ("-fsched-stalled-insns", "integer", "", 0, GREATEST),
        ("-gstatement-frontiers", "flag", "-gstatement-frontiers -gno-statement-frontiers", 0, -1),
        ("--param=align-threshold", "param", "", 1, 65536),
        ("--param=max-unroll-times", "param", "", 0, GREATEST),
        ("--param=prefetch-minimum-stride", "param", "", -1, GREATEST),
        ("--param=max-peel-times", "param", "", 0, GREATEST),
        ("--param=sms-dfa-history", "param", "", 0, 16),
    ]


def test_a_line_that_is_wrapped_is_one_line() -> None:
    wrapped = "  max-vartrack-size           default 50000000 minimum 0 maximum\n" + " " * 30 + "2147483647\n"
    assert read_help(wrapped)[0].high == 2147483647
    descriptions = "  -fgcse                      Perform global common\n" + " " * 28 + "subexpression elimination.\n"
    (entry,) = read_help("  -fgcse                      \t[disabled]\n", descriptions)
    assert entry.description == "Perform global common subexpression elimination."


def test_another_name_of_an_option_is_dropped_for_that_reason() -> None:
    ((drop,), names) = propose(read_help("  -fhandle-exceptions         \t\t-fexceptions\n"))[::-1]
    assert (drop.name, drop.reason, names) == ("-fhandle-exceptions", "another name of -fexceptions", [])


LONG = "9" * 5000
HEADS = st.sampled_from(["-f", "-fno-", "-O", "-g", "--param=", "---", "", "\n  "])
TAILS = st.sampled_from(["", "=", "=<0,2>", "=<2,0>", "=<-1,", "=[a|b]", "=[|]", "=<number>", "<0,2>", f"=<0,{LONG}>"])
SETTINGS = st.sampled_from(
    [
        *("", "[enabled]", "-fgcse", "-1", "²", "9" * 30, LONG, "--", "é", "\x00", "\r", "\x85", "\n" + " " * 30 + "8"),
        *("default 1 minimum 0 maximum 9", "default 1 minimum 9 maximum 0", f"default {LONG} minimum 0 maximum 0"),
        "default 9999999999 minimum 9999999999 maximum 0",
    ]
)
STEMS = st.sampled_from(["x", "y-z", "number", "é", "align-x"])
LINES = st.tuples(HEADS, STEMS, TAILS, st.just(" \t"), SETTINGS).map("".join) | st.tuples(STEMS, SETTINGS).map(" ".join)


@settings(max_examples=300)
@given(st.lists(LINES | st.text(max_size=9), max_size=6), st.text(max_size=40))
def test_any_text_is_read_and_each_line_becomes_an_option_or_a_reason(lines: list[str], descriptions: str) -> None:
    found = read_help("\n".join(f"  {line}" for line in lines), descriptions)
    proposals, dropped = propose(found)
    assert len(proposals) + len(dropped) <= len(found)
    assert {entry.line for entry in found if not entry.name} <= {drop.name for drop in dropped}
    for option in [proposal.option for proposal in proposals]:
        assert len(option) > 0
        assert not any(character.isspace() for character in option.word(0) + option.word(len(option) - 1))
