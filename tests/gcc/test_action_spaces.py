"""Action spaces of options, without a compiler: forms, texts, what is refused, and what Gymnasium makes of them."""

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import batch_space, iterate
from hypothesis import given
from hypothesis import strategies as st

from aiocg.errors import InvalidAction, NotExpressible, UnknownName
from aiocg.gcc._gcc_line import GccLine
from aiocg.spaces import ChoiceActions, CommandLineActions, MappingActions, OptionActions
from aiocg.spaces.actions import ActionSpaces
from aiocg.transport.messages import ActionSpaceSpec
from aiocg.transport.options import Option
from aiocg.workers.gcc.session import _apply, edits

OPTIONS = (
    Option("-O", "level", "", ("-O0", "-O1", "-O2", "-O3", "-Ofast", "-Og", "-Os")),
    Option("-fgcse", "flag", "", ("-fgcse", "-fno-gcse")),
    Option("-falign-loops", "alignment", "", ("-falign-loops", "-fno-align-loops", "-falign-loops=16")),
    Option("-fsimd-cost-model", "enum", "", ("-fsimd-cost-model=cheap", "-fsimd-cost-model=dynamic")),
    Option("-flifetime-dse", "integer", "", ("-flifetime-dse", "-fno-lifetime-dse"), "-flifetime-dse={}", 0, 2),
    Option("--param=sched-autopref", "param", "", (), "--param=sched-autopref={}", -1, 100),
    Option("--param=max-inline-insns", "param", "", (), "--param=max-inline-insns={}", 0, 2**31 - 1),
    Option("--param=wide", "param", "", (), "--param=wide={}", 0, 2**52),
)
EDITS = edits(OPTIONS)
SPACES = ActionSpaces(
    (
        ActionSpaceSpec("edits", tuple(edit.action for edit in EDITS)),
        ActionSpaceSpec("choices", kind="options", options=OPTIONS),
        ActionSpaceSpec("options", kind="mapping"),
        ActionSpaceSpec("command_line", kind="text"),
    ),
    GccLine,
)
ONE_BY_ONE: Any = SPACES["edits"]
CHOICES: Any = SPACES["choices"]
MAPPING: Any = SPACES["options"]
LINES: Any = SPACES["command_line"]
LIMITED: Any = CHOICES.limited(6)
WHOLE: list[Any] = [CHOICES, MAPPING, LINES, LIMITED]
LINE = SPACES.language.line
assert LINE is not None
UNSET = [-1] * len(OPTIONS)

any_choices = st.tuples(*[st.integers(-1, len(option) - 1) for option in OPTIONS]).map(list)


# ------------------------------------------------------------------------------------------ all of them


def test_the_declaration_says_which_class_a_space_has_and_all_have_the_same_options() -> None:
    assert [type(space) for space in WHOLE[:3]] == [ChoiceActions, MappingActions, CommandLineActions]
    assert all(isinstance(space, OptionActions) and space.options == OPTIONS for space in WHOLE)
    assert [space.kind for space in SPACES.values()] == ["discrete", "options", "mapping", "text"]


@pytest.mark.parametrize("space", WHOLE, ids=repr)
@given(choices=any_choices)
def test_all_choices_have_a_form_in_every_space_and_it_is_the_same_text(space: Any, choices: list[int]) -> None:
    text = LINE.write(choices)
    assert space.encode(space.form(choices)) == (text,) == space.encode([text]) == space.encode(text)
    assert space.encode([space.decode(text)]) == (text,)
    assert {space.decode(text): 1}[space.decode(text)] == 1  # it can be compared and hashed


@pytest.mark.parametrize("space", WHOLE, ids=repr)
def test_samples_follow_the_seed_are_contained_and_are_actions(space: Any) -> None:
    drawn = []
    for seed in (3, 3, 4):
        one = space.unseeded()
        one.seed(seed)
        drawn.append([one.sample() for _ in range(20)])
        assert all(one.contains(action) and len(one.encode([action])) == 1 for action in drawn[-1])
    texts = [[space.text(action) for action in actions] for actions in drawn]
    assert texts[0] == texts[1] != texts[2]
    generators = map(np.random.default_rng, (3, 3, 4))
    again = [[space.text(space.draw(rng)) for _ in range(20)] for rng in generators]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize("space", WHOLE, ids=repr)
def test_spaces_of_two_environments_do_not_share_their_random_stream(space: Any) -> None:
    one, two = space.unseeded(), space.unseeded()
    one.seed(1)
    two.seed(1)
    first = [space.text(one.sample()) for _ in range(5)]
    assert [space.text(two.sample()) for _ in range(5)] == first
    assert [space.text(copy.deepcopy(one).sample())] == [space.text(pickle.loads(pickle.dumps(one)).sample())]


@pytest.mark.parametrize("space", WHOLE, ids=repr)
@given(junk=st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=4))
def test_contains_never_raises(space: Any, junk: object) -> None:
    assert space.contains(junk) in (True, False)
    assert space.contains(np.array(1.5)) is False and space.contains(b"") is False


@pytest.mark.parametrize("space", WHOLE, ids=repr)
def test_candidates_have_one_option_each_and_come_back_as_they_were(space: Any) -> None:
    candidates = space.candidates()
    encoded = space.encode(candidates)
    assert encoded[0] == "gcc" and {len(text.split()) for text in encoded[1:]} == {2}
    assert len(set(encoded)) == len(encoded)
    assert {"gcc -O0", "gcc -Os", "gcc -fno-gcse", "gcc --param=max-inline-insns=2147483647"} < set(encoded)
    assert space.encode(space.decode_all(encoded)) == encoded
    assert len({space.rank(text) for text in encoded}) == len(encoded)
    assert space.rank("-O2") > max(map(space.rank, encoded))  # an edit, which is none of this space


@pytest.mark.parametrize("space", WHOLE, ids=repr)
def test_an_edit_that_was_done_before_is_shown_by_its_name(space: Any) -> None:
    assert space.decode(ONE_BY_ONE.names.index("-O2")) == "-O2"
    assert space.decode_all(ONE_BY_ONE.encode(["-O2", "-fgcse"])) == ["-O2", "-fgcse"]


@pytest.mark.parametrize("space", WHOLE, ids=repr)
@given(choices=any_choices)
def test_a_line_for_a_shell_is_read_back_as_it_was_written(space: Any, choices: list[int]) -> None:
    actions = [space.decode(LINE.write(choices))]
    line = space.to_string(actions)
    assert line.startswith("gcc") and line.endswith("-c input.c -o output.o")
    assert space.from_string(line) == actions
    assert space.to_string([*space.decode_all(["gcc -Os", "gcc -O1 -fgcse"]), *actions]) == line  # the last one counts


@pytest.mark.parametrize("space", WHOLE, ids=repr)
@pytest.mark.parametrize("action", [5, 1.5, b"gcc", {"a"}, [1.5], ["gcc", 5], [[0]], [{}, 3], "-fgcs", "gcc -O2 -fgcs"])
def test_what_is_no_action_is_refused(space: Any, action: Any) -> None:
    with pytest.raises((InvalidAction, UnknownName)):
        space.encode(action)


# ---------------------------------------------------------------------------------------------- vectors


def test_a_vector_has_zero_for_an_option_that_is_not_given() -> None:
    assert CHOICES.nvec.tolist() == [8, 3, 4, 3, 6, 103, 2**31 + 1, 2**52 + 2]
    vector = [3, 2, 0, 0, 0, 0, 31, 0]
    text = "gcc -O2 -fno-gcse --param=max-inline-insns=30"
    for action in (vector, tuple(vector), np.array(vector), np.array(vector, dtype=np.uint16)):
        assert CHOICES.encode(action) == (text,)
        assert CHOICES.encode([action, action]) == (text, text)
    assert CHOICES.encode(np.array([vector, [0] * 8])) == (text, "gcc")
    assert CHOICES.encode([]) == ()
    assert CHOICES.decode(text) == tuple(vector)
    assert CHOICES.contains(np.array(vector)) and not CHOICES.contains(np.array([8, *vector[1:]]))


@pytest.mark.parametrize("vector", [[0] * 7, [0] * 9, [-1] + [0] * 7, [0] * 7 + [2**52 + 2], [0.0] * 8])
def test_a_vector_out_of_range_is_refused(vector: list[Any]) -> None:
    with pytest.raises(InvalidAction):
        CHOICES.encode([vector])


def test_samples_reach_all_of_a_huge_range() -> None:
    space = CHOICES.unseeded()
    space.seed(0)
    drawn = np.array([space.sample() for _ in range(200)])
    assert drawn.dtype == np.int64
    assert drawn[:, 7].min() < 2**48 and drawn[:, 7].max() > 2**51
    assert set(drawn[:, 1]) == {0, 1, 2}


def test_a_mask_says_what_is_sampled() -> None:
    few = ActionSpaces((ActionSpaceSpec("choices", kind="options", options=OPTIONS[:2]),), None)["choices"]
    mask = (np.eye(8, dtype=np.int8)[7], np.array([0, 0, 1], dtype=np.int8))
    assert few.sample(mask=mask).tolist() == [7, 2]


def test_a_limit_keeps_the_ends_and_some_numbers_between_that_lie_ever_further_apart() -> None:
    assert LIMITED.nvec.tolist() == [8, 3, 4, 3, 6, 7, 7, 7]
    for option, kept in zip(OPTIONS, LIMITED.kept, strict=True):
        assert kept[0] == 0 and list(kept) == sorted(set(kept)) and kept[-1] <= len(option) - 1
    assert LIMITED.kept[6][-1] == 2**31 - 1 and LIMITED.kept[5][-1] == 101
    gaps = np.diff(LIMITED.kept[6])
    assert (gaps[1:] > gaps[:-1]).all()
    assert LIMITED.decode("gcc --param=max-inline-insns=2147483647") == (0, 0, 0, 0, 0, 0, 6, 0)
    assert LIMITED.decode("gcc --param=max-inline-insns=30") == "gcc --param=max-inline-insns=30"
    assert CHOICES.limited(2).nvec[5:].max() == 3 and LIMITED.limited(3).nvec[5:].max() == 4
    assert all(len(CHOICES.limited(most).nvec) == len(OPTIONS) for most in range(2, 40))
    with pytest.raises(ValueError, match="two are kept"):
        CHOICES.limited(1)


# --------------------------------------------------------------------------------------------- mappings


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({}, "gcc"),
        ({"-O": 2}, "gcc -O2"),
        ({"-O": "s"}, "gcc -Os"),
        ({"-O": "-O3", "-fgcse": None}, "gcc -O3"),
        ({"-fgcse": True}, "gcc -fgcse"),
        ({"-fgcse": np.bool_(False)}, "gcc -fno-gcse"),
        ({"-fgcse": 1}, "gcc -fgcse"),
        ({"-fgcse": 0}, "gcc"),
        ({"-falign-loops": False}, "gcc -fno-align-loops"),
        ({"-falign-loops": "16"}, "gcc -falign-loops=16"),
        ({"-falign-loops": 16}, "gcc -falign-loops=16"),
        ({"-falign-loops": -2}, "gcc -fno-align-loops"),
        ({"-falign-loops": -4}, "gcc"),
        ({"-fsimd-cost-model": "dynamic"}, "gcc -fsimd-cost-model=dynamic"),
        ({"-flifetime-dse": 2}, "gcc -flifetime-dse=2"),
        ({"-flifetime-dse": "-fno-lifetime-dse"}, "gcc -fno-lifetime-dse"),
        ({"--param=sched-autopref": -1}, "gcc --param=sched-autopref=-1"),
        ({"--param=sched-autopref": -2}, "gcc"),
        ({"--param=max-inline-insns": np.int64(30), "-O": "1"}, "gcc -O1 --param=max-inline-insns=30"),
        ({"--param=max-inline-insns": "30"}, "gcc --param=max-inline-insns=30"),
    ],
)
def test_a_mapping_says_what_is_chosen_by_name(action: dict[str, Any], text: str) -> None:
    assert MAPPING.encode(action) == (text,) == MAPPING.encode([action])
    assert MAPPING.decode(text) == text


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"-fgcs": 1}, "-fgcse"),
        ({5: 1}, "5"),
        ({"-fgcse": 3}, "-fno-gcse"),
        ({"-fgcse": "-O2"}, "-fno-gcse"),
        ({"-falign-loops": 8}, "-falign-loops=16"),
        ({"-fsimd-cost-model": True}, "dynamic"),
        ({"-O": 7}, "-Os"),
        ({"--param=sched-autopref": 101}, "from -1 to 100"),
        ({"--param=sched-autopref": "many"}, "from -1 to 100"),
        ({"--param=sched-autopref": 1.5}, "from -1 to 100"),
    ],
)
def test_what_a_mapping_cannot_say_is_refused_with_what_it_can(action: dict[Any, Any], words: str) -> None:
    with pytest.raises((InvalidAction, UnknownName), match=words):
        MAPPING.encode(action)


def test_a_partial_mapping_is_contained_and_one_with_words_is_none_of_the_space() -> None:
    assert isinstance(MAPPING, gymnasium.spaces.Dict) and list(MAPPING.spaces) == [option.name for option in OPTIONS]
    assert MAPPING.contains({"-O": 2}) and MAPPING.contains({})
    assert not MAPPING.contains({"-O": "s"}) and not MAPPING.contains({"-x": 0}) and not MAPPING.contains({"-O": 7})


# ---------------------------------------------------------------------------------------- command lines


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "gcc"),
        ("-O2", "gcc -O2"),
        ("-fno-gcse -O2", "gcc -O2 -fno-gcse"),
        ("gcc -O2 -O1  -O3", "gcc -O3"),
        ("/usr/bin/x86_64-linux-gnu-gcc-12 -O -c a.c -o a.o", "gcc -O1"),
        ("docker:gcc:11.2.0 -w -c src.c -o obj.o", "gcc"),
        ("g++ -O3 '-fgcse'", "gcc -O3 -fgcse"),
        ("cc -Wall -Wextra -pipe --param max-inline-insns=0x1F", "gcc --param=max-inline-insns=31"),
        ("--param=max-inline-insns=0030 -fno-diagnostics-color", "gcc --param=max-inline-insns=30"),
        ("--param=sched-autopref=-1", "gcc --param=sched-autopref=-1"),
    ],
)
def test_a_line_is_read_however_it_is_spelt_and_has_one_text(line: str, text: str) -> None:
    assert LINES.encode(line) == (text,) == CHOICES.encode([line]) == MAPPING.encode([line])
    assert LINES.contains(line) and LINES.decode(text) == text
    assert LINES.from_string(line) == ([text] if line else [])


def test_the_language_gives_a_line_its_one_text_in_every_space() -> None:
    language = SPACES.language
    assert language.encode_all(["gcc  -fgcse -O2", "-O2", "nonsense"]) == (
        "gcc -O2 -fgcse",
        language.names.index("-O2"),
        "nonsense",
    )
    with pytest.raises(InvalidAction):
        language.encode("gcc -fgcs")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("-fgcs", "did you mean -fgcse"),
        ("-fno-gsce", "-fno-gcse"),
        ("--param=sched-autopref=101", "from -1 to 100"),
        ("--param=sched-autopref=x", "number from -1 to 100"),
        ("--param=sched-autopref", "from -1 to 100"),
        ("-march=native", "is not an option"),
        ("-DNDEBUG", "belongs to the program"),
        ("-std=c99", "belongs to the program"),
        ("-Wl,-s", "is not an option"),
        ("'-O2", "quotation"),
    ],
)
def test_a_word_that_is_no_option_is_refused_with_the_nearest_one_or_the_range(word: str, words: str) -> None:
    with pytest.raises(InvalidAction, match=words):
        LINES.encode(f"gcc -O2 {word}")
    assert not LINES.contains(f"gcc {word}")


# ------------------------------------------------------------------------------------------------ edits


@given(names=st.lists(st.sampled_from(ONE_BY_ONE.names), max_size=30))
def test_edits_are_written_as_the_line_that_they_lead_to(names: list[str]) -> None:
    by_name = {edit.action.name: edit for edit in EDITS}
    choices: tuple[int, ...] = tuple(UNSET)
    for name in names:
        choices = _apply(by_name[name], choices)
    line = ONE_BY_ONE.to_string(names)
    assert line == f"{LINE.write(choices)} -c input.c -o output.o"
    again = UNSET
    for index in ONE_BY_ONE.from_string(line):
        again = list(_apply(EDITS[index], again))
    assert again == list(choices)


def test_a_list_of_edits_is_read_with_commas_and_a_line_with_blanks() -> None:
    names = ONE_BY_ONE.names
    expected = [names.index("-O2"), names.index("-fgcse")]
    assert ONE_BY_ONE.from_string("-O2,-fgcse") == ONE_BY_ONE.from_string("-fgcse -O2") == expected
    steps = [names.index(f"--param=max-inline-insns[+{step}]") for step in (1000, 100, 100, 1)]
    assert ONE_BY_ONE.from_string("gcc --param=max-inline-insns=1200") == steps
    with pytest.raises(InvalidAction, match="max-inline-insns=2147483647"):  # it would be two million steps
        ONE_BY_ONE.from_string("gcc --param=max-inline-insns=2147483647")


def test_a_command_line_among_edits_is_refused_with_where_it_belongs() -> None:
    with pytest.raises(UnknownName, match="action_space='command_line'"):
        ONE_BY_ONE.encode("gcc -O2 -fno-gcse")
    with pytest.raises(UnknownName, match="did you mean -fgcse"):
        ONE_BY_ONE.encode("-fgcs")


def test_what_is_no_action_has_no_command_line() -> None:
    with pytest.raises(NotExpressible):
        SPACES.language.write(["-O2", "nonsense"])
    assert SPACES.language.write([]) == "gcc -c input.c -o output.o"


# ---------------------------------------------------------------------------------- what Gymnasium makes


@pytest.mark.parametrize("space", [CHOICES, MAPPING], ids=repr)
def test_flattening_has_an_element_for_each_option_and_none_for_each_choice(space: Any) -> None:
    flat = flatten_space(space)
    assert flat.shape == (len(OPTIONS),) == (flatdim(space),)
    one = space.unseeded()
    one.seed(2)
    for _ in range(20):
        action = one.sample()
        vector = flatten(space, action)
        assert flat.contains(vector)
        assert space.encode([unflatten(space, vector)]) == space.encode([action])


@pytest.mark.parametrize("space", WHOLE, ids=repr)
def test_a_batch_of_actions_is_taken_apart_again(space: Any) -> None:
    batched = batch_space(space.unseeded(), 3)
    batched.seed(1)
    each = list(iterate(batched, batched.sample()))
    assert len(each) == 3 and len({text for action in each for text in space.encode([action])}) == 3


# ------------------------------------------------------------------------------------ which compiler is named


@pytest.mark.parametrize(
    ("compiler", "called"),
    [
        ("gcc-12", "gcc-12"),
        ("/opt/my, gcc/bin/compile", "'/opt/my, gcc/bin/compile'"),
        ("docker:gcc:13", 'docker run --rm -v "$PWD":/src -w /src gcc:13 gcc'),
    ],
)
def test_a_line_for_a_shell_calls_the_compiler_that_was_chosen_and_any_is_read(compiler: str, called: str) -> None:
    specs = (
        ActionSpaceSpec("edits", tuple(edit.action for edit in EDITS)),
        ActionSpaceSpec("choices", kind="options", options=OPTIONS),
    )
    spaces = ActionSpaces(specs, lambda language: GccLine(language, compiler))
    line = spaces.language.write(["-O2", "-fno-gcse"])
    assert line == f"{called} -O2 -fno-gcse -c input.c -o output.o"
    assert spaces["edits"].from_string(line) == [ONE_BY_ONE.names.index(name) for name in ("-O2", "-fno-gcse")]
    if "," not in compiler:
        assert ONE_BY_ONE.from_string(line) == spaces["edits"].from_string(line)
    action = spaces["choices"].decode(LINE.write(UNSET))
    assert spaces["choices"].text(action) == "gcc"  # what an action is called depends on no setting
