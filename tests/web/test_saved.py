"""Sessions that begin with what was saved: states, transitions, entries of a leaderboard."""

import gzip
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.states.state import CompilerEnvState, InvalidState
from aiocg.web.limits import Limits, Refusal
from aiocg.web.saved import find_opening, openings, state_of
from aiocg.web.sessions import Sessions

ENTRY = Path(__file__).resolve().parents[2] / "leaderboard" / "entries" / "bytes-1s-1core" / "aiocg-greedy"
STATE = CompilerEnvState(
    environment="llvm-ic-v0", benchmark="benchmark://programs-v0/gcd", actions=("mem2reg", "gvn"), reward=0.5
)


async def test_a_session_begins_at_a_saved_state(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(STATE.to_json())
    async with Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(find_opening(str(file))))
        assert session.env.spec.id == "llvm-ic-v0" and session.tree.path(session.tree.present.number) == STATE.actions
        with pytest.raises(aiocg.errors.AiocgError):
            await sessions.open_saved(find_opening(_written(tmp_path, STATE.to_json().replace("gvn", "gvnn"))))
        assert len(sessions) == 1


def _written(folder: Path, text: str) -> str:
    path = folder / "other.json"
    path.write_text(text)
    return str(path)


async def test_a_state_of_compilergym_is_translated(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    file.write_text(
        "benchmark,reward,walltime,commandline\n"
        "benchmark://programs-v0/gcd,0.5,1.0,opt -mem2reg -gvn input.bc -o output.bc\n"
    )
    async with Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(find_opening(str(file))))
        assert session.tree.path(session.tree.present.number) == ("mem2reg", "gvn")


def test_of_several_states_a_program_or_a_line_says_which(tmp_path: Path) -> None:
    file = tmp_path / "states.csv"
    better, other = (
        CompilerEnvState(environment="llvm-ic-v0", benchmark=f"benchmark://programs-v0/{name}", reward=0.75)
        for name in ("gcd", "qsort")
    )
    file.write_text("\n".join([STATE.csv_header(), *(one.to_csv() for one in (STATE, better, other))]) + "\n")
    assert find_opening(str(file), "programs-v0/gcd").reward == 0.75
    assert find_opening(f"{file}:2").reward == 0.5
    (empty := tmp_path / "empty.csv").touch()
    with pytest.raises(InvalidState, match="there is nothing in this file"):
        find_opening(str(empty))
    with pytest.raises(InvalidState, match="it has programs-v0/gcd, programs-v0/qsort"):
        find_opening(str(file))
    with pytest.raises(InvalidState, match="it has programs-v0/gcd"):
        find_opening(str(file), "programs-v0/crc32")
    packed = tmp_path / "states.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert len(openings(packed)) == 3


def test_an_entry_of_the_leaderboard_is_opened_at_a_program() -> None:
    opening = find_opening(str(ENTRY), "programs-v0/aes")
    assert (opening.environment, opening.reward_space) == ("llvm-v0", "ObjectImageSizeOzMinsize")
    assert opening.program == "programs-v0/aes" and opening.actions and opening.reward is not None
    with pytest.raises(InvalidState, match="name a program"):
        find_opening(str(ENTRY))


async def test_states_of_a_file_of_transitions_are_nodes(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    file = tmp_path / "t.db"
    async with aiocg.Runtime(workers=1) as logging:
        logging.log_to(file)
        env = await logging.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        await env.step_texts(["mem2reg", "gvn"])
        await env.expand_texts([["dce"], ["simplifycfg"]])
        states = {env.state_hash}
        await env.reset()
        await env.step_texts(["sroa"])
        states.add(env.state_hash)
    opening = find_opening(str(file))
    async with Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(opening))
        assert states <= {node.state for node in session.tree} and len(session.tree) >= 4
        assert session.tree.present.number == 0
        for node in session.tree:
            await session.goto(node.number)
            assert session.env.state_hash == node.state
            assert await session.observe("IrInstructionCount") == node.costs["IrInstructionCount"]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"environment": 1}', "a,b\n1,2\n", f"{STATE.to_json()}\n{STATE.to_json()}"]
)
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(InvalidState):
        state_of(text)


def test_visitors_may_not_open_files_of_this_machine(tmp_path: Path) -> None:
    state: Any = STATE.to_json().replace("benchmark://programs-v0/gcd", "file:///etc/passwd")
    with pytest.raises(Refusal, match="visitors may not name"):
        find_opening(_written(tmp_path, state)).visiting()
