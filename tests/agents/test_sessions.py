"""Sessions of an agent: what they answer, what they refuse, and that a call that fails changes nothing."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
import aiocg.testing
from aiocg.agents import AgentSessions, Limits, Refused
from aiocg.agents.sessions import shown
from aiocg.datasets import DatasetError
from aiocg.errors import ActionFailed, DeadlineExceeded, InvalidAction, UnknownName, WorkerCrashed
from aiocg.fleet.restart_policy import Policy

QUICK = Policy(
    first_delay=0.01, max_delay=0.1, max_death_rate=10_000, max_explained_rate=10_000, max_deaths=10_000,
    quarantine_deaths=0,
)  # fmt: skip
LIMITS = Limits(
    sessions=2, actions=3, candidates=4, undo=2, listed=5, name_characters=40, shown_characters=10, seconds=20
)


@pytest_asyncio.fixture(scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


def sessions_of(runtime: aiocg.Runtime, limits: Limits = LIMITS) -> AgentSessions:
    given = {"mine": aiocg.testing.scripted_benchmark(77)}
    return AgentSessions(runtime, "scripted-v0", reward_space="value", programs=given, limits=limits)


@pytest.fixture
async def sessions(runtime: aiocg.Runtime) -> AsyncIterator[AgentSessions]:
    sessions = sessions_of(runtime)
    yield sessions
    await sessions.close_all()


async def value_of(sessions: AgentSessions, session: str = "s1") -> Any:
    return (await sessions.find(session).observe("value", 0))["value"]


async def test_an_episode_is_told_in_numbers_and_texts(sessions: AgentSessions) -> None:
    told = await sessions.reset("scripted-v0/5", "")
    begun = told.pop("state")
    assert told == {
        "session": "s1", "program": "benchmark://scripted-v0/5", "actions_taken": 0, "episode_reward": 0
    }  # fmt: skip
    told = await sessions.find("s1").step(["double", "increment"])
    assert (told["reward"], told["episode_reward"], told["actions_taken"]) == (-6, -6, 2)
    assert not told["had_no_effect"] and told["state"] != begun
    assert (await sessions.find("s1").step(["nothing"]))["had_no_effect"]
    assert (await sessions.find("s1").undo(2))["state"] == begun
    assert await value_of(sessions) == 5


async def test_candidates_are_tried_and_not_taken(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    found = await sessions.find("s1").expand([["double"], ["refuse"], ["crash"], ["nothing", "nothing"]])
    assert found[0] == {"actions": ["double"], "reward": -5, "had_no_effect": False}
    assert "refused" in found[1]["error"] and "SIGSEGV" in found[2]["error"]
    assert found[3]["had_no_effect"]
    assert await value_of(sessions) == 5


@pytest.mark.parametrize(
    ("action", "error"),
    [("refuse", ActionFailed), ("crash", WorkerCrashed), ("incremen", UnknownName), ("hang", DeadlineExceeded)],
)
async def test_a_step_that_fails_leaves_the_state_as_it_was(
    runtime: aiocg.Runtime, action: str, error: type[Exception]
) -> None:
    sessions = sessions_of(runtime, Limits(seconds=0.2 if action == "hang" else 20))
    await sessions.reset("scripted-v0/5", "")
    before = await sessions.find("s1").step(["double"])
    with pytest.raises(error):
        await sessions.find("s1").step(["increment", action])
    assert await value_of(sessions) == 10
    after = await sessions.find("s1").step(["nothing"])
    assert (after["actions_taken"], after["state"]) == (2, before["state"])
    assert (await sessions.find("s1").undo(2))["episode_reward"] == 0
    await sessions.close_all()


async def test_a_call_that_is_cancelled_leaves_the_state_as_it_was(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    await sessions.find("s1").step(["double"])
    call = asyncio.create_task(sessions.find("s1").step(["increment", "hang"]))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await value_of(sessions) == 10


async def test_a_call_that_waits_too_long_is_given_up(runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.agents.sessions.GRACE", -19.8)  # the compiler may take longer than the call
    sessions = sessions_of(runtime)
    await sessions.reset("scripted-v0/5", "")
    with pytest.raises(Refused, match="more than 20 s and was given up: ask for less"):
        await sessions.find("s1").step(["hang"])
    monkeypatch.undo()
    assert await value_of(sessions) == 5
    await sessions.close_all()


async def test_a_killed_worker_is_not_noticed(runtime: aiocg.Runtime, sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    await sessions.find("s1").step(["double"])
    for _ in range(3):
        (pid,) = runtime.worker_pids()
        os.kill(pid, signal.SIGKILL)
        assert (await sessions.find("s1").step(["increment"]))["reward"] == -1
    assert await value_of(sessions) == 13
    await sessions.find("s1").undo(2)
    assert await value_of(sessions) == 11


async def test_a_reset_that_fails_leaves_the_episode_before(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    await sessions.find("s1").step(["double"])
    with pytest.raises(DatasetError):
        await sessions.reset("scripted-v0/nonsense", "s1")
    assert await value_of(sessions) == 10
    assert (await sessions.reset("scripted-v0/6", "s1"))["session"] == "s1"
    assert await value_of(sessions) == 6
    with pytest.raises(DatasetError):
        await sessions.reset("scripted-v0/nonsense", "")
    with pytest.raises(Refused, match="there is no session 's2'; there are s1: reset makes one"):
        sessions.find("s2")


async def test_what_is_too_much_is_refused_with_how_much_there_may_be(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    session = sessions.find("s1")
    with pytest.raises(Refused, match=r"1 to 3 actions, and you gave one of 4"):
        await session.step(["nothing"] * 4)
    with pytest.raises(Refused, match=r"1 to 3 actions, and you gave one of 0"):
        await session.expand([["nothing"], []])
    with pytest.raises(Refused, match=r"1 to 4 candidates, and you gave 5"):
        await session.expand([["nothing"]] * 5)
    with pytest.raises(Refused, match="at most 40 characters"):
        await session.step(["x" * 41])
    with pytest.raises(Refused, match="at most 40 characters"):
        await sessions.reset("scripted-v0/" + "1" * 40, "")
    with pytest.raises(Refused, match="0 calls of step can be undone, and you asked for 1"):
        await session.undo(1)
    for _ in range(3):
        await session.step(["increment"])
    with pytest.raises(Refused, match="2 calls of step can be undone, and you asked for 3"):
        await session.undo(3)
    await session.undo(2)
    assert await value_of(sessions) == 6
    await sessions.reset("scripted-v0/6", "")
    with pytest.raises(Refused, match="2 is the most: close one, or name the one that is to be reset: s1, s2"):
        await sessions.reset("scripted-v0/7", "")
    await sessions.close("s1")
    assert (await sessions.reset("scripted-v0/7", ""))["session"] == "s3"


async def test_a_name_of_an_observation_may_not_be_long(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    with pytest.raises(Refused, match="characters in its name"):
        await sessions.find("s1").observe("x" * 1_000_000, 0)


async def test_sessions_that_are_being_opened_count(sessions: AgentSessions) -> None:
    told = await asyncio.gather(*(sessions.reset("scripted-v0/5", "") for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(one, dict) for one in told) == 2
    assert sum(isinstance(one, Refused) for one in told) == 2


@pytest.mark.parametrize("name", ["/etc/passwd", "file:///etc/passwd", "../secret.c", "~/x.c", "scripted-v0/../x", ""])
async def test_agents_have_no_access_to_files(
    sessions: AgentSessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "secret.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    with pytest.raises((Refused, DatasetError)):
        await sessions.reset(name, "")


async def test_files_that_are_offered_have_names(sessions: AgentSessions) -> None:
    assert (await sessions.list_programs("", 0))["files"] == ["mine"]
    await sessions.reset("mine", "")
    assert await value_of(sessions) == 77


async def test_lists_come_in_parts(sessions: AgentSessions) -> None:
    first = await sessions.list_actions("", 0)
    assert first["actions"][1] == {"name": "increment", "description": "add 1"}
    assert (len(first["actions"]), first["next_offset"]) == (5, 5)
    assert {"name": "double", "description": "multiply by 2"} in (await sessions.list_actions("BY 2", 0))["actions"]
    last = await sessions.list_actions("", first["count"] - 1)
    assert len(last["actions"]) == 1 and "next_offset" not in last
    names = [one["name"] for one in (await sessions.list_observations("decimal", 0))["observations"]]
    assert names == ["digits", "places"]
    told = await sessions.list_programs("scripted-v0", 7)
    assert told["programs"][0] == "benchmark://scripted-v0/7"
    assert (len(told["programs"]), told["next_offset"], told["count"]) == (5, 12, "no end")
    with pytest.raises(DatasetError, match="nothing-v0"):
        await sessions.list_programs("nothing-v0", 0)
    for offset in (-1, 2**60):
        with pytest.raises(Refused, match="an offset is"):
            await sessions.list_programs("scripted-v0", offset)


async def test_long_observations_are_cut_and_say_how_much_there_is(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/1234567890123", "")
    session = sessions.find("s1")
    first = await session.observe("digits", 0)
    assert first == {"text": "1234567890", "characters": 13, "cut": True, "next_offset": 10}
    assert await session.observe("digits", 10) == {"text": "123", "characters": 13, "cut": False}
    assert (await session.observe("block", 0))["cut"]
    with pytest.raises(Refused, match="begin at 0 to 13, not at 14"):
        await session.observe("digits", 14)
    with pytest.raises(UnknownName, match="digits"):
        await session.observe("digit", 0)


async def test_values_are_said_as_json_can_say_them() -> None:
    assert shown({"a": [1.5, float("inf")], "b": (True, None)}, 100) == {"value": {"a": [1.5, None], "b": [True, None]}}
    assert shown("\udcff!", 100)["text"] == "?!"
    with pytest.raises(Refused, match="bytes"):
        shown(b"BC", 100)


async def test_what_is_no_text_of_the_language_is_told_by_the_compiler(sessions: AgentSessions) -> None:
    await sessions.reset("scripted-v0/5", "")
    with pytest.raises((InvalidAction, UnknownName)):
        await sessions.find("s1").expand([["increment"], ["increment,"]])
    assert await value_of(sessions) == 5
