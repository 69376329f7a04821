"""States of environments as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.state import CompilerEnvState, InvalidState

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


@given(STATES)
def test_json_is_read_back_as_it_was_written(state: CompilerEnvState) -> None:
    assert CompilerEnvState.from_json(state.to_json()) == state
    assert CompilerEnvState.from_json(state.to_json().encode()) == state


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("C",))), max_size=4))
def test_actions_may_have_spaces_and_quotes_in_csv(actions: list[str]) -> None:
    state = CompilerEnvState(environment="e", benchmark="b", actions=tuple(actions))
    assert CompilerEnvState.from_csv(state.to_csv()) == state


@given(STATES)
def test_csv_is_read_back_as_it_was_written(state: CompilerEnvState) -> None:
    assert CompilerEnvState.from_csv(state.to_csv()) == state


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


def test_states_are_values() -> None:
    again = CompilerEnvState.from_json(STATE.to_json())
    assert again == STATE and hash(again) == hash(STATE)
    assert CompilerEnvState.from_json(STATE.to_json().replace("0.75", "0.5")) != STATE


def test_a_very_long_episode_is_a_line_of_csv() -> None:
    state = CompilerEnvState(environment="e", benchmark="b", actions=("instcombine",) * 20_000)
    assert CompilerEnvState.from_csv(state.to_csv()) == state
