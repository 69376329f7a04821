"""Searches that are watched: their candidates grow the tree, and one goes on from the best by hand."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import aiocg
from aiocg.search import SearchResult, greedy
from aiocg.states.behaviour import Behaviour
from aiocg.web._programs import box_exists
from aiocg.web._searching import PASSES, LiveSearch, watchable
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Limits, Refusal
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


def own_best(session: ExplorerSession, result: SearchResult) -> float:
    """Return the lowest cost of what a search has tried, without the compiler's own levels."""
    earned = max(one for one in result.state.outcomes if one is not None)
    return session.tree[0].costs["IrInstructionCount"] - earned


@pytest.mark.slow
async def test_a_search_that_is_watched_finds_what_it_finds_alone(
    runtime: aiocg.Runtime, session: ExplorerSession
) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("greedy", 60)
        await ended(search)
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCount") as env:
        alone = await greedy(env)
    run = search.last
    assert run is not None and not run.running and run.error == ""
    assert run.best == session.tree.present.costs["IrInstructionCount"] == own_best(session, alone)
    assert session.tree.path(session.tree.present.number) == run.actions
    assert session.env.state_hash == session.tree.present.state
    assert run.evaluations >= alone.evaluations > 100 and len(session.tree) > 20
    seen = [events.get_nowait() for _ in range(events.qsize())]
    assert seen[-1] == {
        "event": "search", "number": 1, "name": "greedy", "running": False, "evaluations": run.evaluations,
        "best": run.best, "nodes": len(session.tree), "error": None,
    }  # fmt: skip


async def test_nodes_of_candidates_are_the_states_that_their_actions_lead_to(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    search.start("greedy", 60)
    await ended(search)
    for node in list(session.tree)[:: max(1, len(session.tree) // 10)]:
        await session.goto(node.number)
        assert session.env.state_hash == node.state
        assert await session.observe("IrInstructionCount") == node.costs["IrInstructionCount"]


async def test_a_paused_search_goes_on_where_it_was(session: ExplorerSession, runtime: aiocg.Runtime) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("greedy", 100)
        while not (await events.get()).get("evaluations"):  # the first tells of the first batch
            pass
        await search.pause()
    paused = replace(search.runs[0])
    assert search.resumable and not paused.complete
    await session.step(["dce"])  # by hand, meanwhile
    search.resume(100)
    await ended(search)
    (run,) = search.runs
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCount") as env:
        alone = await greedy(env)
    assert run.complete and run.best == own_best(session, alone) and run.evaluations > paused.evaluations > 0
    assert run.verdict.startswith("same: it was run" if box_exists() else "not run, because")
    assert [best for _, best in run.course] == sorted({best for _, best in run.course}, reverse=True)
    with pytest.raises(Refusal, match="no search that could go on"):
        search.resume(1)


async def test_what_another_runtime_has_run_was_not_run_here(session: ExplorerSession) -> None:
    """One of the user's own runs programs without a box where there is none; for visitors that is refused."""
    async with aiocg.Runtime(workers=1) as own, await own.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
        mine = (await greedy(env)).checks
    search = LiveSearch(session)
    search.start("greedy", 100)
    await ended(search)
    boxed = "without a box" not in mine.reason
    assert mine.behaviour is Behaviour.SAME
    assert search.runs[0].verdict.startswith("same: it was run" if boxed else "not run, because")


async def test_functionwise_goes_on_from_what_it_has_found(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("functionwise", 100)
        while (await events.get()).get("evaluations", 0) < 50:
            pass
        await search.pause()
        paused = replace(search.runs[0])
        assert search.resumable
        await session.goto(0)  # by hand, meanwhile
        search.resume(100)
        while (await events.get()).get("evaluations", 0) < paused.evaluations + 50:
            pass
        await search.pause()
    (run,) = search.runs
    assert run.error == "" and run.best is not None and paused.best is not None and run.best <= paused.best
    assert session.tree.present.costs["IrInstructionCount"] == run.best


@pytest.mark.slow
async def test_a_race_is_watched_whose_times_are_no_costs_of_nodes(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    search.start("greedy", 2)
    await ended(search)
    search.start("racing", 100)
    with session.events() as events:
        before = len(session.tree)
        while (told := await events.get()).get("evaluations", 0) < 6:
            pass
    assert told["nodes"] == before  # workers that add some meanwhile would disturb what is measured
    await search.pause()
    run = search.runs[-1]
    assert run.error == "" and run.cost == "runtime" and run.best is not None and 0 < run.best < 1
    assert set(run.lines) == {"-O0", "-O2", "-O3"} and all(0 < seconds < 1 for seconds in run.lines.values())
    assert run.node == session.tree.present.number
    assert {"default<O3>", "default<O2>"} <= session.tree[0].edges.keys()
    assert session.tree.present.costs["IrInstructionCount"] > 1


async def test_a_search_that_breaks_is_told_and_leaves_the_session_as_it_was(
    session: ExplorerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(env: aiocg.Env, **options: object) -> SearchResult:
        raise KeyError("nobody knows")

    monkeypatch.setattr("aiocg.search.random", broken)
    await session.step(["mem2reg"])
    search = LiveSearch(session)
    with session.events() as events:
        search.start("random", 60)
        await ended(search)
        (told,) = [events.get_nowait() for _ in range(events.qsize())]
    assert told["error"] == "KeyError: 'nobody knows'" and not told["running"]
    assert search.last is not None and search.last.error == told["error"] and search.last.node is None
    assert not search.resumable and session.tree.present.number == 1
    await session.step(["dce"])
    search.start("greedy", 60)
    await ended(search)
    assert search.last.error == ""


async def test_a_search_begins_where_one_is(session: ExplorerSession) -> None:
    first, second = await session.step(["mem2reg", "simplifycfg"])
    await session.goto(first.number)
    search = LiveSearch(session)
    search.start("greedy", 60, here=True)
    await ended(search)
    (run,) = search.runs
    assert run.error == "" and run.origin == first.number and run.course[0] == (0, first.costs["IrInstructionCount"])
    assert run.actions[0] == "mem2reg" and len(run.actions) > 1 and run.best < first.costs["IrInstructionCount"]
    grown = [node for node in session.tree if node.number > second.number]
    assert len(grown) > 20 and all(session.tree.path(node.number)[0] == "mem2reg" for node in grown)
    assert session.tree.present.costs["IrInstructionCount"] == run.best


@pytest.mark.slow
async def test_two_searches_can_be_compared(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    for name in ("greedy", "random"):
        search.start(name, 3)
        await ended(search)
    one, other = search.runs
    assert (one.number, other.number) == (1, 2) and None not in (one.node, other.node)
    for run in search.runs:
        assert run.node is not None
        assert session.tree[run.node].costs["IrInstructionCount"] == run.best == run.course[-1][1]


async def test_a_stopped_search_leaves_the_session_at_its_best(session: ExplorerSession) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("random", 100)
        while (await events.get())["event"] != "search":
            pass
    await search.pause()
    run = search.last
    assert run is not None and not search.running and not run.running and run.error == ""
    assert session.tree.present.costs["IrInstructionCount"] == run.best
    await session.step(["dce"])  # and one goes on by hand


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
async def test_every_search_can_be_watched(session: ExplorerSession, name: str) -> None:
    assert name in watchable(session)
    search = LiveSearch(session)
    search.start(name, 4)
    await ended(search)
    assert search.last is not None and search.last.error == "" and search.last.evaluations > 10
    assert (
        session.tree.present.costs["IrInstructionCount"]
        == search.last.best
        < session.tree[0].costs["IrInstructionCount"]
    )
    assert session.tree.present.number > 0


@pytest.mark.slow
async def test_workers_that_are_killed_take_nothing_from_a_search(
    session: ExplorerSession, runtime: aiocg.Runtime
) -> None:
    search = LiveSearch(session)
    with session.events() as events:
        search.start("greedy", 100)
        for _ in range(2):
            while not (await events.get()).get("evaluations"):
                pass
            for pid in runtime.worker_pids():
                os.kill(pid, signal.SIGKILL)
    await ended(search)
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCount") as env:
        alone = await greedy(env)
    (run,) = search.runs
    assert run.error == "" and run.complete and run.best == own_best(session, alone)
    assert session.tree.present.costs["IrInstructionCount"] == run.best


async def test_a_full_tree_does_not_stop_a_search(session: ExplorerSession) -> None:
    session.tree._most = 40
    search = LiveSearch(session)
    search.start("greedy", 60)
    await ended(search)
    assert len(session.tree) == 40 and search.last is not None and search.last.evaluations > 100


async def test_what_cannot_be_searched_is_refused(runtime: aiocg.Runtime, session: ExplorerSession) -> None:
    search = LiveSearch(session)
    with pytest.raises(Refusal, match="take greedy, beam"):
        search.start("greedi", 1)
    with pytest.raises(Refusal, match="up to 120 seconds"):
        search.start("greedy", 121)
    search.start("random", 100)
    with pytest.raises(Refusal, match="pause it first"):
        search.start("greedy", 1)
    await search.close()
    assert not search.running
    async with Sessions(runtime, replace(Limits(), searches=1)) as sessions:
        one, two = [await sessions.open("llvm-ic-v0", benchmark="programs-v0/gcd") for _ in range(2)]
        sessions.search_of(one).start("random", 100)
        with pytest.raises(Refusal, match="pause one"):
            sessions.search_of(two).start("random", 100)
        await sessions.close(one)
        sessions.search_of(two).start("random", 100)
