"""States of environments as values."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.datasets.uri import BenchmarkUri
from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1)
REALS = st.floats(allow_nan=False, allow_infinity=False)
STATES = st.builds(
    CompilerEnvState,
    environment=NAMES,
    benchmark=NAMES,
    actions=st.lists(NAMES, max_size=5).map(tuple),
    reward_space=st.none() | NAMES,
    reward=st.none() | REALS,
    walltime=st.floats(0, 1e9),
)
STATE = CompilerEnvState(
    environment="llvm-v0",
    benchmark="benchmark://programs-v0/qsort",
    actions=("mem2reg", "simplifycfg<no-keep-loops;hoist-common-insts>"),
    reward_space="IrInstructionCountOz",
    reward=0.75,
    walltime=1.5,
)


def fields(state: CompilerEnvState | LegacyState) -> dict[str, object]:
    """What a state has: states are equal although these differ."""
    return msgspec.structs.asdict(state)


@given(STATES)
def test_json_is_read_back_as_it_was_written(state: CompilerEnvState) -> None:
    assert fields(CompilerEnvState.from_json(state.to_json())) == fields(state)
    assert fields(CompilerEnvState.from_json(state.to_json().encode())) == fields(state)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("C",))), max_size=4))
def test_actions_may_have_spaces_and_quotes_in_csv(actions: list[str]) -> None:
    state = CompilerEnvState(environment="e", benchmark="b", actions=tuple(actions))
    assert fields(CompilerEnvState.from_csv(state.to_csv())) == fields(state)


@given(STATES)
def test_csv_is_read_back_as_it_was_written(state: CompilerEnvState) -> None:
    assert fields(CompilerEnvState.from_csv(state.to_csv())) == fields(state)


def test_csv_has_the_columns_of_its_header() -> None:
    assert CompilerEnvState.csv_header() == "environment,benchmark,reward_space,reward,walltime,actions"
    assert STATE.to_csv().startswith("llvm-v0,benchmark://programs-v0/qsort,IrInstructionCountOz,0.75,1.5,mem2reg ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"environment": 1, "benchmark": "b"}',
        '{"environment": "e"}',
        b"\xff\xfe",
        b"\x80{}",
    ],
)
def test_text_that_is_no_state_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidState):
        CompilerEnvState.from_json(text)


@pytest.mark.parametrize("line", ["", "a,b", "a,b,c,d,e,f", "a,b,c,1.0,much,f", "a,b,c,1,2,f,g", 'a,b,"c'])
def test_a_line_that_is_no_state_is_refused(line: str) -> None:
    with pytest.raises(InvalidState):
        CompilerEnvState.from_csv(line)


# ------------------------------------------------------------------------------------------------ equality


@given(STATES, st.floats(0, 1e9), st.none() | REALS, st.none() | NAMES)
def test_equal_states_are_the_same_place_and_have_equal_hashes(
    state: CompilerEnvState, walltime: float, reward: float | None, space: str | None
) -> None:
    other = msgspec.structs.replace(state, walltime=walltime, reward=reward, reward_space=space)
    comparable = state.has_reward and other.has_reward
    difference = abs(float(reward or 0) - float(state.reward or 0))
    close = not comparable or (space == state.reward_space and difference < 1e-5)
    assert (other == state) == (state == other) == close
    assert not close or hash(other) == hash(state)


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({}, True),
        ({"walltime": 99.0}, True),
        ({"reward": None}, True),
        ({"reward": 0.750009}, True),
        ({"reward": 0.75002}, False),
        ({"reward_space": "IrInstructionCountO3"}, False),
        ({"reward": None, "reward_space": None}, True),
        ({"actions": ("mem2reg",)}, False),
        ({"benchmark": "benchmark://programs-v0/gcd"}, False),
        ({"environment": "llvm-ic-v0"}, False),
    ],
    ids=str,
)
def test_states_are_compared_by_place_and_by_rewards_that_both_have(changes: dict[str, object], equal: bool) -> None:
    other = msgspec.structs.replace(STATE, **changes)
    assert (other == STATE, other != STATE) == (equal, not equal)
    assert not equal or len({other, STATE}) == 1


def test_a_reward_that_is_no_number_or_endless_is_equal_to_itself() -> None:
    for reward in (float("nan"), float("inf")):
        one = msgspec.structs.replace(STATE, reward=reward)
        assert one == msgspec.structs.replace(STATE, reward=reward)
        assert one != STATE


def test_states_of_compilergym_are_compared_by_their_command_lines() -> None:
    state = LegacyState(benchmark="benchmark://x-v0/1", commandline="opt -gvn input.bc -o output.bc", reward=1.0)
    assert state == msgspec.structs.replace(state, walltime=3.0, reward=None)
    assert state != msgspec.structs.replace(state, reward=1.1)
    assert state != msgspec.structs.replace(state, commandline="opt input.bc -o output.bc")
    assert state != STATE and STATE != "a state"
    assert hash(state) == hash(msgspec.structs.replace(state, reward=None))


# -------------------------------------------------------------------------------------------------- values


def test_a_state_may_be_made_of_a_list_of_actions_and_of_a_name_taken_apart() -> None:
    uri = BenchmarkUri.from_string("benchmark://programs-v0/qsort")
    state = CompilerEnvState(environment="llvm-v0", benchmark=uri, actions=["sroa"])  # type: ignore[arg-type]
    assert (state.benchmark, state.actions) == ("benchmark://programs-v0/qsort", ("sroa",))
    assert isinstance(hash(state), int)
    assert (state.has_reward, STATE.has_reward) == (False, True)


@pytest.mark.parametrize("walltime", [-1.0, -1e-9, float("nan"), float("inf")])
def test_a_wall_time_is_a_number_that_is_not_negative(walltime: float) -> None:
    for kind in (CompilerEnvState, LegacyState):
        with pytest.raises(InvalidState, match="walltime must be a number of seconds that is not negative"):
            kind(**{"environment": "e"} if kind is CompilerEnvState else {}, benchmark="b", walltime=walltime)
    with pytest.raises(InvalidState, match="walltime"):
        CompilerEnvState.from_csv(f"e,b,,,{walltime},")


def test_one_text_is_no_list_of_actions() -> None:
    with pytest.raises(InvalidState, match="not one text: 'mem2reg gvn'"):
        CompilerEnvState(environment="e", benchmark="b", actions="mem2reg gvn")  # type: ignore[arg-type]


LEGACY_STATES = st.builds(
    LegacyState, benchmark=NAMES, commandline=st.text(), reward=st.none() | REALS, walltime=st.floats(0, 1e9)
)


@given(LEGACY_STATES)
def test_a_state_of_compilergym_is_read_back_as_it_was_written(state: LegacyState) -> None:
    assert fields(LegacyState.from_json(state.to_json())) == fields(state)
    if not set(state.commandline) & {"\r", "\n", "\0"}:  # which are another file's lines, or end a text
        assert fields(LegacyState.from_csv(state.to_csv())) == fields(state)


def test_an_error_says_where_it_is() -> None:
    error = InvalidState("it is wrong", "results.csv", 17)
    assert (str(error), error.source, error.line) == ("results.csv, line 17: it is wrong", "results.csv", 17)
    assert str(InvalidState("it is wrong")) == "it is wrong"


def test_a_very_long_episode_is_a_line_of_csv() -> None:
    state = CompilerEnvState(environment="e", benchmark="b", actions=("instcombine",) * 20_000)
    assert CompilerEnvState.from_csv(state.to_csv()) == state
