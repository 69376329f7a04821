"""Searches that are watched: their candidates grow the tree, and one goes on from the best by hand."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import aiocg
from aiocg.search import greedy
from aiocg.web.limits import Limits, Refusal
from aiocg.web.searching import SEARCHES, LiveSearch
from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions


@pytest.fixture
async def session(runtime: aiocg.Runtime) -> AsyncIterator[ExplorerSession]:
    """The smallest program of programs-v0."""
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark="programs-v0/gcd")
    yield session
    await session.close()


async def ended(search: LiveSearch) -> None:
    """Wait for the end of a search."""
    assert search._task is not None
    async with asyncio.timeout(120):
        await asyncio.wait([search._task])


async def test_a_search_that_is_watched_finds_what_it_finds_alone(
    runtime: aiocg.Runtime, session: ExplorerSession
) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("greedy", 60)
        await ended(search)
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCount") as env:
        alone = await greedy(env)
    status = search.status
    assert status is not None and not status.running and status.error == ""
    assert status.actions == alone.actions
    assert (
        status.best
        == session.tree.present.costs["IrInstructionCount"]
        == session.tree[0].costs["IrInstructionCount"] - alone.reward
    )
    assert session.env.state_hash == session.tree.present.state
    assert status.evaluations >= alone.evaluations > 100 and len(session.tree) > 20
    seen = [events.get_nowait() for _ in range(events.qsize())]
    assert seen[-1] == {
        "event": "search", "name": "greedy", "running": False, "evaluations": status.evaluations, "best": status.best,
        "nodes": len(session.tree), "error": None,
    }  # fmt: skip


async def test_nodes_of_candidates_are_the_states_that_their_actions_lead_to(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    search.start("greedy", 60)
    await ended(search)
    for node in list(session.tree)[:: max(1, len(session.tree) // 10)]:
        await session.goto(node.number)
        assert session.env.state_hash == node.state
        assert await session.observe("IrInstructionCount") == node.costs["IrInstructionCount"]


async def test_a_stopped_search_leaves_the_session_at_its_best(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("random", 100)
        while (await events.get())["event"] != "search":
            pass
    await search.stop()
    status = search.status
    assert status is not None and not search.running and not status.running and status.error == ""
    assert session.tree.present.costs["IrInstructionCount"] == status.best
    await session.step(["dce"])  # and one goes on by hand


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
async def test_every_search_can_be_watched(session: ExplorerSession, name: str) -> None:
    search = LiveSearch(session)
    search.start(name, 2)
    await ended(search)
    assert search.status is not None and search.status.error == "" and search.status.evaluations > 10
    assert session.tree.present.costs["IrInstructionCount"] == search.status.best


async def test_a_full_tree_does_not_stop_a_search(session: ExplorerSession) -> None:
    session.tree._most = 40
    search = LiveSearch(session)
    search.start("greedy", 60)
    await ended(search)
    assert len(session.tree) == 40 and search.status is not None and search.status.evaluations > 100


async def test_what_cannot_be_searched_is_refused(runtime: aiocg.Runtime, session: ExplorerSession) -> None:
    search = LiveSearch(session)
    with pytest.raises(Refusal, match="take greedy, beam"):
        search.start("greedi", 1)
    with pytest.raises(Refusal, match="up to 120 seconds"):
        search.start("greedy", 121)
    search.start("random", 100)
    with pytest.raises(Refusal, match="stop it first"):
        search.start("greedy", 1)
    await search.close()
    assert not search.running
    async with Sessions(runtime, replace(Limits(), searches=1)) as sessions:
        one, two = [await sessions.open("llvm-ic-v0", benchmark="programs-v0/gcd") for _ in range(2)]
        sessions.start_search(one, "random", 100)
        with pytest.raises(Refusal, match="stop one"):
            sessions.start_search(two, "random", 100)
        await sessions.close(one)
        sessions.start_search(two, "random", 100)
