"""The history of a session: back and forth, failures, other settings, and what others do to its environment."""

import asyncio
import dataclasses
import os
import signal

import msgspec
import pytest

import aiocg
from aiocg.cli.shell.session import ActionEnded, ShellSession
from aiocg.errors import InvalidAction, UnknownName

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one runtime for all of them


async def value(session: ShellSession) -> int:
    """Return the number that the environment really is at."""
    number: int = await session.env.observe("value")
    return number


async def test_actions_are_remembered_with_what_they_earned(session: ShellSession) -> None:
    entries = [await session.act(action) for action in ("double", "nothing", "increment")]
    assert [entry.observation for entry in entries] == [10, 10, 11]
    assert [entry.observation for entry in session.entries] == [None] * 4  # they may be large
    assert [entry.reward for entry in entries] == [-5, 0, -1]
    assert [entry.total for entry in entries] == [-5, -5, -6]
    assert [entry.had_no_effect for entry in entries] == [False, True, False]
    assert (session.position, session.actions) == (3, ("double", "nothing", "increment"))


async def test_one_can_go_to_any_state_and_on_from_there(session: ShellSession) -> None:
    for action in ("double", "increment", "double"):
        await session.act(action)
    for position, expected in ((0, 5), (3, 22), (1, 10), (2, 11)):
        await session.go_to(position)
        assert await value(session) == expected
        assert session.env.action_texts == session.actions
        assert session.env.episode_reward == session.present.total == 5 - expected
    entry = await session.act("increment")
    assert (entry.observation, entry.total, len(session.entries)) == (12, -7, 4)
    with pytest.raises(IndexError, match="the history has 3 actions"):
        await session.go_to(4)


@pytest.mark.parametrize(("action", "cause"), [("crash", "SIGSEGV"), ("refuse", "refused, as asked"), ("exit", "3")])
async def test_a_failing_action_leaves_the_session_where_it_was(session: ShellSession, action: str, cause: str) -> None:
    await session.act("double")
    with pytest.raises(ActionEnded, match=cause) as caught:
        await session.act(action)
    assert caught.value.action == action
    assert (await value(session), session.actions) == (10, ("double",))
    assert (await session.act("increment")).total == -6
    await session.go_to(0)
    assert await value(session) == 5


async def test_an_action_that_takes_too_long_ends_likewise(session: ShellSession) -> None:
    session.env.timeout = 0.2
    with pytest.raises(ActionEnded, match="deadline of"):
        await session.act("hang")
    assert (await session.act("double")).observation == 10


async def test_killing_the_workers_is_not_noticed(session: ShellSession) -> None:
    await session.act("double")
    await session.act("increment")
    for pid in session.runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert (await session.act("double")).observation == 22
    await session.go_to(1)
    assert await value(session) == 10


async def test_a_history_that_cannot_be_built_again_becomes_empty_and_that_is_told(session: ShellSession) -> None:
    await session.act("forget")  # adds the process id
    for pid in session.runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActionEnded, match="not deterministic") as caught:
        await session.act("increment")
    assert caught.value.lost
    assert (session.actions, await value(session)) == ((), 5)


async def test_what_is_cancelled_can_be_recovered_from(session: ShellSession) -> None:
    await session.act("double")
    task = asyncio.create_task(session.act("hang"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    session.runtime.interrupt()
    async with asyncio.timeout(20):
        assert not await session.recover()
        assert (await session.act("increment")).observation == 11


async def test_another_reward_applies_to_the_whole_history(session: ShellSession) -> None:
    for action in ("double", "increment", "double"):
        await session.act(action)
    await session.go_to(2)
    await session.set_reward(None)
    assert [entry.total for entry in session.entries] == [None] * 4
    assert (session.position, session.env.episode_reward) == (2, None)
    await session.set_reward("pid")
    assert [entry.total for entry in session.entries] == [0, 0, 0, 0]
    await session.set_reward("value")
    assert [entry.total for entry in session.entries] == [0, -5, -6, -17]
    assert session.env.episode_reward == -6
    await session.go_to(3)
    assert await value(session) == 22


async def test_a_reward_that_cannot_be_computed_changes_nothing(session: ShellSession) -> None:
    await session.act("double")
    with pytest.raises(aiocg.AiocgError, match="cannot be observed"):
        await session.set_reward("impossible")
    with pytest.raises(UnknownName):
        await session.set_reward("no such")
    await session.recover()
    assert (session.env.reward_space, session.env.episode_reward, session.actions) == ("value", -5, ("double",))
    assert (await session.act("increment")).total == -6


async def test_rewards_in_another_space_are_those_of_each_action(session: ShellSession) -> None:
    for action in ("double", "increment"):
        await session.act(action)
    assert await session.rewards_in("value") == [-5, -1]
    assert await session.rewards_in("pid") == [0, 0]
    assert (await value(session), session.env.episode_reward) == (11, -6)


async def test_a_program_that_does_not_load_leaves_the_one_before(session: ShellSession) -> None:
    await session.act("double")
    for bad in ("scripted-v0/abc", "scripted-v0/kill", "no-such-dataset-v0/1"):
        with pytest.raises(Exception, match=r"abc|kill|no-such"):
            await session.start(await session.find_benchmark(bad))
        await session.recover()
        assert (session.benchmark_name, session.actions, await value(session)) == ("scripted-v0/5", ("double",), 10)


async def test_a_dataset_stands_for_one_of_its_programs(session: ShellSession) -> None:
    drawn = [await session.find_benchmark("scripted-v0") for _ in range(3)]
    assert len({str(benchmark.uri) for benchmark in drawn}) == 3
    assert all(str(benchmark.uri).startswith("benchmark://scripted-v0/") for benchmark in drawn)
    assert (await session.find_benchmark("benchmark://scripted-v0")).uri.path.isdecimal()
    assert (await session.find_benchmark("-")).uri.dataset


async def test_any_benchmark_is_one_that_the_environment_takes(
    session: ShellSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.env, "spec", dataclasses.replace(session.env.spec, kind="tensor expression"))
    assert {(await session.find_benchmark("-")).uri.dataset for _ in range(5)} == {"loops-v0"}


async def test_saved_states_are_come_back_to(session: ShellSession) -> None:
    for action in ("double", "increment"):
        await session.act(action)
    state = session.env.state
    await session.start(await session.find_benchmark("scripted-v0/9"))
    await session.load(state)
    assert (session.benchmark_name, session.actions, session.present.total) == ("scripted-v0/5", state.actions, -6)
    with pytest.raises(ActionEnded):
        await session.load(msgspec.structs.replace(state, actions=("exit",)))
    await session.recover()
    assert (await value(session), session.actions) == (11, state.actions)


async def test_what_others_do_to_the_environment_becomes_history(session: ShellSession) -> None:
    await session.act("double")
    await session.env.step(["increment", "double"])
    await session.adopt()
    assert (session.actions, session.present.total) == (("double", "increment", "double"), -17)
    await session.env.step("crash")
    await session.adopt()
    assert await value(session) == 22


async def test_actions_are_given_by_name_text_or_index_as_their_space_has_them(session: ShellSession) -> None:
    assert [session.text_of(word) for word in ("double", "2", "inc")] == ["double", "double", "increment"]
    await session.set_action_space("Arithmetic")
    assert [session.text_of(word) for word in ("1", "add<5>")] == ["add<1>", "add<5>"]
    for name, word in (("Arithmetic", "3"), ("Places", "1"), ("Recipes", "3")):
        await session.set_action_space(name)
        with pytest.raises((InvalidAction, UnknownName)):
            session.text_of(word)


async def test_targets_are_known_as_soon_as_the_action_space_has_them(session: ShellSession) -> None:
    await session.set_action_space("Places")
    assert session.env.action_space.targets == ("@0",)
    assert (await session.act(session.text_of("@0(raise)"))).observation == 6
    assert session.text_of("@0(clear)") == "@0(clear)"
