"""Action spaces of every kind, without a worker: forms, texts, and what is refused."""

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.errors import InvalidAction, NotExpressible, UnknownName
from aiocg.spaces import DiscreteActions, ParametrizedActions, TargetedActions, TextActions
from aiocg.spaces.actions import ActionSpace, ActionSpaces, join_texts, split_list, split_texts
from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec

FIRST = ActionSpaceSpec(
    "Passes",
    (
        ActionSpec("mem2reg", "promote memory", ("-mem2reg",)),
        ActionSpec("gvn"),
        ActionSpec("simplifycfg", "simplify", ("-simplifycfg", "simplify-cfg")),
    ),
)
OLD = ActionSpaceSpec(
    "Old",
    (
        ActionSpec("-gvn", text="gvn"),
        ActionSpec("-gone", text=""),
        ActionSpec("-gone-too", text=""),
        ActionSpec("-both", aliases=("both",), text="function(mem2reg,gvn)"),
    ),
)
PARAMETRIZED = ActionSpaceSpec(
    "Parametrized",
    (
        ActionSpec("gvn", text="gvn$<>", parameters=(ActionParameter("pre", ("", "no-pre", "pre")),)),
        ActionSpec(
            "simplifycfg",
            text="function(simplifycfg$<>)",
            parameters=(
                ActionParameter("threshold", ("", "bonus-inst-threshold=0", "bonus-inst-threshold=2")),
                ActionParameter("loops", ("", "no-keep-loops")),
                ActionParameter("hoist", ("", "no-hoist", "hoist")),
            ),
        ),
        ActionSpec("O2", text="${}default<O2>", parameters=(ActionParameter("inline", ("", "inliner-threshold=50")),)),
        ActionSpec("unroll", text="unroll$<>", parameters=(ActionParameter("level", ("O1", "O2")),)),
        ActionSpec("nothing", text=""),
    ),
    kind="parametrized",
)
TARGETED = ActionSpaceSpec(
    "Functions", (ActionSpec("gvn"), ActionSpec("both", text="mem2reg,gvn")), kind="targeted", targets="functions"
)
SPACES = ActionSpaces((FIRST, OLD, PARAMETRIZED, TARGETED, ActionSpaceSpec("Text", kind="text")), None)
PASSES = SPACES["Passes"]
OTHERS: Any = SPACES["Old"]
PARAMETERS: Any = SPACES["Parametrized"]
TARGETS: Any = SPACES["Functions"]
TEXT = SPACES["Text"]
ON_TWO = TARGETS.with_targets(["@main", '@"odd (name"'])
ALL = [*SPACES.values(), ON_TWO, TARGETS.with_targets([])]


def texts(space: ActionSpace, actions: Any) -> list[str]:
    return [SPACES.language.text(action) for action in space.encode(actions)]


# ------------------------------------------------------------------------------------------------ all kinds


@pytest.mark.parametrize("space", ALL, ids=repr)
def test_every_sample_is_contained_and_is_an_action(space: ActionSpace) -> None:
    space = space.unseeded()
    space.seed(1)
    for _ in range(50):
        action = space.sample()
        assert space.contains(action)
        if space is not TARGETS and not (isinstance(space, TargetedActions) and space.targets is None):
            assert len(space.encode(action)) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("space", ALL, ids=repr)
@given(junk=st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=4))
def test_contains_never_raises(space: ActionSpace, junk: object) -> None:
    assert space.contains(junk) in (True, False)
    assert space.contains(np.array(1.5)) is False and space.contains(b"") is False and space.contains({}) is False


@pytest.mark.parametrize("space", [PASSES, OTHERS, PARAMETERS, ON_TWO, TEXT], ids=repr)
def test_every_candidate_travels_and_comes_back_as_it_was(space: ActionSpace) -> None:
    candidates = space.candidates()
    assert len(candidates) > 0
    encoded = space.encode(candidates)
    again = space.encode(space.decode_all(encoded))
    assert again == encoded
    ranks = [space.rank(SPACES.language.text(action)) for action in encoded]
    assert len(set(ranks)) == len(set(encoded)) and sorted(ranks)


@pytest.mark.parametrize("space", [PASSES, OTHERS, PARAMETERS, ON_TWO, TEXT], ids=repr)
@given(data=st.data())
def test_a_list_of_texts_is_read_back_as_it_was_written(space: ActionSpace, data: st.DataObject) -> None:
    named = [c for c in space.candidates() if space.text(c)]
    actions = [space.decode(space.encode([c])[0]) for c in data.draw(st.lists(st.sampled_from(named)))]
    assert space.from_string(space.to_string(actions)) == actions


@pytest.mark.parametrize("space", [PASSES, OTHERS, PARAMETERS, ON_TWO, TEXT], ids=repr)
def test_drawing_follows_the_generator(space: ActionSpace) -> None:
    drawn = [[space.text(space.draw(rng)) for _ in range(20)] for rng in map(np.random.default_rng, (3, 3, 4))]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("space", ALL, ids=repr)
def test_a_space_can_be_pickled_and_copied(space: ActionSpace) -> None:
    assert space == space.unseeded()
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert (again.name, again.names, again.targets) == (space.name, space.names, space.targets)
        assert again.encode(again.candidates()) == space.encode(space.candidates())


@pytest.mark.parametrize("space", ALL, ids=repr)
def test_no_action_at_all_is_an_empty_list(space: ActionSpace) -> None:
    assert space.encode([]) == () == space.encode(()) and space.encode(np.array([], dtype=int)) == ()


@pytest.mark.parametrize("space", [PASSES, OTHERS, PARAMETERS, ON_TWO, TEXT], ids=repr)
@pytest.mark.parametrize("action", [1.5, None, True, b"gvn", [1.5], [None], [b"gvn"], object(), [[0, 0, 0, 0, 0, 0]]])
def test_what_is_no_action_of_any_space_is_refused(space: ActionSpace, action: object) -> None:
    with pytest.raises((InvalidAction, UnknownName)):
        space.encode(action)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a, b ,,c", ["a", "b", "c"]),
        ("a<x;y,z>,b(c,d(e,f)),{g=1,h=2}i", ["a<x;y,z>", "b(c,d(e,f))", "{g=1,h=2}i"]),
        ('@"odd (name,"(a,b),c', ['@"odd (name,"(a,b)', "c"]),
        ("a),b", ["a)", "b"]),
        ("a(b,c", ["a(b,c"]),
        ('a,"b', ["a", '"b']),
    ],
)
def test_a_list_is_split_outside_of_brackets_and_quotes(text: str, parts: list[str]) -> None:
    assert split_list(text) == parts


@given(st.lists(st.sampled_from(["", "a", "a,b", "f(a,b)", '@"odd (,name"(a,b)', "{x=1;y=2}a,b<c;d>", "a b"])))
def test_texts_that_are_lists_are_read_back_as_they_were_written(texts: list[str]) -> None:
    assert split_texts(join_texts(texts)) == texts


# ------------------------------------------------------------------------------------------------- discrete


def test_actions_of_the_first_space_travel_as_indices_and_others_as_text() -> None:
    assert PASSES.encode(["gvn", 0, "-simplifycfg"]) == (1, 0, 2)
    assert OTHERS.encode([0, "both", "-gone"]) == (1, "function(mem2reg,gvn)", "")


def test_what_a_space_does_not_have_comes_back_as_text() -> None:
    assert OTHERS.decode_all([1, "function(mem2reg,gvn)", 2, "licm"]) == [0, 3, "simplifycfg", "licm"]
    assert PASSES.decode_all([1, "licm"]) == [1, "licm"]


def test_actions_with_one_text_come_back_as_the_first_of_them() -> None:
    assert OTHERS.decode_all(OTHERS.encode(["-gone-too", "-gone"])) == [1, 1]


def test_a_text_names_an_action_of_any_space_that_has_it() -> None:
    assert OTHERS.index("function(mem2reg,gvn)") == 3 and OTHERS.index("gvn") == 0
    with pytest.raises(UnknownName):
        OTHERS.index("mem2reg")


def test_a_space_of_ones_own_texts() -> None:
    space: Any = SPACES.choose(["gvn", "-mem2reg", "function(licm,gvn)"])
    assert isinstance(space, DiscreteActions) and space.n == 3
    assert space.encode([0, 1, "function(licm,gvn)", "mem2reg"]) == (1, 0, "function(licm,gvn)", 0)
    assert space.decode_all([1, 0, 2]) == [0, 1, "simplifycfg"]
    assert space.descriptions[1] == "promote memory"


@pytest.mark.parametrize("choice", [[], ["gvn", "gvn"], ["gvn", 3], "Pases", [["gvn"]]])
def test_a_choice_that_is_no_space_is_refused(choice: Any) -> None:
    with pytest.raises((InvalidAction, UnknownName)):
        SPACES.choose(choice)


def test_a_space_is_extended_by_what_it_does_not_have() -> None:
    space = PASSES.extended(["licm", "gvn", "licm", "-mem2reg"])  # type: ignore[attr-defined]
    assert space.names == ("mem2reg", "gvn", "simplifycfg", "licm")
    assert space.encode(["gvn", 3]) == (1, "licm") and space.decode("licm") == 3
    assert PASSES.names == ("mem2reg", "gvn", "simplifycfg")


def test_chosen_spaces_have_random_streams_of_their_own() -> None:
    one, other = SPACES.choose("Passes"), SPACES.choose(None)
    one.seed(5)
    alone = [one.sample() for _ in range(10)]
    one.seed(5)
    assert [(one.sample(), other.sample())[0] for _ in range(10)] == alone


# --------------------------------------------------------------------------------------------- parametrized


def test_a_parametrized_space_is_as_wide_as_its_parameters_need() -> None:
    assert isinstance(PARAMETERS, gymnasium.spaces.MultiDiscrete)
    assert PARAMETERS.nvec.tolist() == [5, 3, 2, 3]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ([0, 0, 0, 0], "gvn"),
        ([0, 1, 1, 2], "gvn<no-pre>"),
        (np.array([1, 0, 0, 0]), "function(simplifycfg)"),
        ((1, 2, 1, 2), "function(simplifycfg<bonus-inst-threshold=2;no-keep-loops;hoist>)"),
        ([2, 0, 1, 1], "default<O2>"),
        ([2, 1, 0, 0], "{inliner-threshold=50}default<O2>"),
        ([2, 2, 0, 0], "default<O2>"),
        ([3, 0, 0, 0], "unroll<O1>"),
        ([3, 2, 0, 0], "unroll<O1>"),
        ([4, 2, 1, 2], ""),
        ("gvn<pre>", "gvn<pre>"),
        ("function(simplifycfg<hoist;no-keep-loops>)", "function(simplifycfg<no-keep-loops;hoist>)"),
        ("unroll", "unroll<O1>"),
        ({"pass": "gvn"}, "gvn"),
        ({"pass": "unroll", "level": "O2"}, "unroll<O2>"),
        ({"pass": "simplifycfg", "loops": "no-keep-loops"}, "function(simplifycfg<no-keep-loops>)"),
    ],
)
def test_vectors_texts_and_mappings_are_actions(action: Any, text: str) -> None:
    assert texts(PARAMETERS, action) == [text]
    assert texts(PARAMETERS, [action, action]) == [text, text]


@pytest.mark.parametrize(
    "action",
    [
        [0, 0, 0],
        [5, 0, 0, 0],
        [0, 3, 0, 0],
        [-1, 0, 0, 0],
        "licm",
        "gvn<strange>",
        "gvn<pre;no-pre>",
        "gvn<pre",
        {"pass": "licm"},
        {"pass": "gvn", "pre": "maybe"},
        {"pass": "gvn", "loops": ""},
        {},
        3,
    ],
)
def test_what_a_parametrized_space_does_not_have_is_refused(action: Any) -> None:
    with pytest.raises((InvalidAction, UnknownName)):
        PARAMETERS.encode(action)


@given(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)))
def test_a_vector_means_what_its_canonical_vector_means(vector: tuple[int, ...]) -> None:
    encoded = PARAMETERS.encode(vector)
    canonical = PARAMETERS.decode(encoded[0])
    assert PARAMETERS.encode(canonical) == encoded and PARAMETERS.contains(canonical)
    assert canonical[0] == vector[0]


def test_every_choice_is_among_the_samples() -> None:
    space = PARAMETERS.unseeded()
    space.seed(0)
    found = {texts(space, space.sample())[0] for _ in range(2000)}
    assert len(found) == 3 + 3 * 2 * 3 + 2 + 2 + 1


# ------------------------------------------------------------------------------------------------- targeted


def test_a_targeted_space_names_the_target() -> None:
    assert texts(ON_TWO, [[0, 0], [1, 1]]) == ["@main(gvn)", '@"odd (name"(mem2reg,gvn)']
    assert texts(ON_TWO, ["@main(both)", "@gone(gvn)"]) == ["@main(mem2reg,gvn)", "@gone(gvn)"]
    assert ON_TWO.decode_all(ON_TWO.encode([1, 1])) == ['@"odd (name"(mem2reg,gvn)']


def test_without_targets_every_action_does_nothing() -> None:
    none = TARGETS.with_targets([])
    assert none.nvec.tolist() == [1, 2] and texts(none, [[0, 0], [0, 1], ""]) == ["", "", ""]
    assert none.candidates() == []


def test_before_its_targets_are_known_a_space_takes_texts_only() -> None:
    assert texts(TARGETS, "@main(gvn)") == ["@main(gvn)"]
    with pytest.raises(InvalidAction, match="not known yet"):
        TARGETS.encode([0, 0])


@pytest.mark.parametrize("action", [[2, 0], [0, 2], [0], "@main", "@main(licm)", "gvn", "@main(gvn", "(gvn)"])
def test_what_a_targeted_space_does_not_have_is_refused(action: Any) -> None:
    with pytest.raises((InvalidAction, UnknownName)):
        ON_TWO.encode(action)


def test_other_targets_are_another_space_with_the_same_random_stream() -> None:
    space = TARGETS.unseeded()
    space.seed(3)
    two = space.with_targets(["@a", "@b"])
    four = two.with_targets(["@a", "@b", "@c", "@d"])
    assert two.nvec.tolist() == [2, 2] and four.nvec.tolist() == [4, 2] and space.targets is None
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3)))
    drawn = [two.sample().tolist(), four.sample().tolist()]
    assert drawn == [(expected.random(2) * n).astype(int).tolist() for n in ([2, 2], [4, 2])]


# ----------------------------------------------------------------------------------------------------- text


def test_a_text_space_takes_any_text() -> None:
    assert TEXT.encode("gvn") == (1,) and TEXT.encode(["loop(licm)", "-mem2reg"]) == ("loop(licm)", 0)
    assert TEXT.decode_all([1, "loop(licm)"]) == ["gvn", "loop(licm)"]
    assert isinstance(TEXT, TextActions) and isinstance(TEXT, gymnasium.Space)
    assert isinstance(PARAMETERS, ParametrizedActions)


def test_a_language_without_a_tool_has_no_command_line() -> None:
    with pytest.raises(NotExpressible):
        SPACES.language.write(["gvn"])
    assert PASSES.to_string([1, 0]) == "gvn,mem2reg"
