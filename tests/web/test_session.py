"""Sessions of the Explorer on real programs and on a compiler that dies on request."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

import aiocg
from aiocg.errors import ActionFailed, UnknownName, WorkerCrashed
from aiocg.testing import scripted_benchmark
from aiocg.web._session import ExplorerSession, Gain
from aiocg.web.limits import Limits, Refusal
from aiocg.web.tree import TreeError

IR = b"define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  %z = mul i32 %y, 1\n  ret i32 %z\n}\n"


def program(text: bytes = IR) -> aiocg.datasets.Benchmark:
    return aiocg.datasets.Benchmark.from_file_contents("benchmark://user-v0/f", text)


@pytest.fixture
async def session(runtime: aiocg.Runtime) -> AsyncIterator[ExplorerSession]:
    """A small LLVM program."""
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=program())
    yield session
    await session.close()


@pytest.fixture
async def scripted(runtime: aiocg.Runtime) -> AsyncIterator[ExplorerSession]:
    """The number 5."""
    session = await ExplorerSession.open(
        runtime, "scripted-v0", benchmark=scripted_benchmark(5), limits=Limits(snapshots=2)
    )
    yield session
    await session.close()


async def test_steps_make_nodes_with_costs_beside_the_compilers_own_levels(session: ExplorerSession) -> None:
    assert session.costs == ("IrInstructionCount",)
    assert session.lines == {"-O3": 1.0, "-Oz": 1.0}
    first, again = await session.step(["instcombine", "instcombine"])
    assert first.costs == {"IrInstructionCount": 1.0} and session.tree[0].costs == {"IrInstructionCount": 3.0}
    assert again is first and len(session.tree) == 2


async def test_the_cost_is_that_of_the_environments_own_reward(runtime: aiocg.Runtime) -> None:
    session = await ExplorerSession.open(runtime, "llvm-codesize-v0", benchmark=program())
    assert session.costs == ("ObjectImageSizeBytes",) and set(session.lines) == {"-O3", "-Oz"}
    await session.close()


async def test_what_each_action_would_gain_is_known_without_a_step(session: ExplorerSession) -> None:
    gains = await session.expand()
    assert len(gains) == len(session.env.action_space.names)
    best = gains[0]
    assert best.gain == 2.0 and best.effect
    assert gains[-1].effect is False and gains[-1].gain == 0.0
    assert len(session.tree) == 1
    assert (await session.step([best.action]))[0].state == best.state
    assert [one.action for one in await session.expand(["mem2reg"])] == ["mem2reg"]


async def test_gains_that_are_known_are_not_tried_again_and_what_is_wanted_is_tried_first(
    session: ExplorerSession,
) -> None:
    texts = await session.possible()
    seen: list[int] = []

    def wanted(known: Sequence[Gain]) -> bool:
        seen.append(len(known))
        return len(seen) < 3

    some = await session.expand(wanted=wanted, order=lambda action: "instcombine" not in action)
    assert len(some) < len(texts) and any(one.gain == 2.0 and "instcombine" in one.action for one in some)
    seen.clear()
    every = await session.expand(wanted=lambda known: not seen.append(len(known)))  # type: ignore[func-returns-value]
    assert seen[0] == len(some) and [one.action for one in every if one in some] == [one.action for one in some]
    assert {one.action for one in every} == set(texts)
    seen.clear()
    assert await session.expand(wanted=lambda known: not seen.append(1)) == every  # type: ignore[func-returns-value]
    assert seen == []


async def test_features_and_assembly_of_a_node_are_those_of_its_program(session: ExplorerSession) -> None:
    await session.step(["instcombine"])
    before, after = await session.features(0), await session.features(1)
    assert (before["MulCount"], after["MulCount"]) == (1, 0) and before["TotalInsts"] - after["TotalInsts"] == 2
    assert session.texts == {"IR": "Ir", "assembly": "Assembly"}
    assert "imul" not in await session.text(0, "Assembly") and "retq" in await session.text(1, "Assembly")
    with pytest.raises(Refusal, match="take Ir, Assembly"):
        await session.text(1, "rtl")


async def test_the_difference_between_two_nodes_is_in_lines(session: ExplorerSession) -> None:
    await session.step(["instcombine"])
    lines = await session.difference(0, 1)
    assert any(line.startswith("-") and "mul i32" in line for line in lines), lines
    assert session.tree.present.number == 1 and session.env.state_hash == session.tree.present.state


async def test_every_node_is_reached_again_with_few_snapshots(scripted: ExplorerSession) -> None:
    for action in ("increment", "double", "square", "increment", "double", "nap"):
        await scripted.step([action])
        if action == "square":
            await scripted.goto(1)
    assert len(scripted._snapshots) == 2
    for node in list(scripted.tree):
        assert (await scripted.goto(node.number)) is node
        assert scripted.env.state_hash == node.state
        assert await scripted.observe("value") == node.costs["value"]


async def test_undo_goes_back_and_ends_at_the_program_as_it_came(scripted: ExplorerSession) -> None:
    await scripted.step(["increment", "double"])
    assert (await scripted.undo()).costs == {"value": 6.0}
    assert (await scripted.undo()).number == 0
    with pytest.raises(TreeError):
        await scripted.undo()
    assert await scripted.observe("value") == 5


async def test_a_fork_goes_its_own_way(scripted: ExplorerSession) -> None:
    await scripted.step(["increment"])
    other = await scripted.fork()
    await other.step(["double"])
    assert (len(other.tree), len(scripted.tree)) == (3, 2)
    assert await other.observe("value") == 12 and await scripted.observe("value") == 6
    await other.goto(0)
    assert await other.observe("value") == 5
    await other.close()
    assert await scripted.observe("value") == 6


@pytest.mark.parametrize(("action", "error"), [("refuse", ActionFailed), ("crash", WorkerCrashed)])
async def test_an_action_that_fails_leaves_the_session_where_it_was(
    scripted: ExplorerSession, action: str, error: type[Exception]
) -> None:
    await scripted.step(["increment"])
    with scripted.events() as events, pytest.raises(error):
        await scripted.step(["double", action])
    assert scripted.tree.present.costs == {"value": 12.0}
    assert await scripted.observe("value") == 12
    seen = [events.get_nowait()["event"] for _ in range(events.qsize())]
    assert seen == ["moved", "failed"]


async def test_an_action_that_does_not_exist_changes_nothing(scripted: ExplorerSession) -> None:
    with pytest.raises(UnknownName):
        await scripted.step(["increment", "inkrement"])
    assert len(scripted.tree) == 1 and await scripted.observe("value") == 5


async def test_killed_workers_take_nothing_with_them(runtime: aiocg.Runtime, scripted: ExplorerSession) -> None:
    await scripted.step(["increment", "double", "square"])
    for number in (1, 3, 0, 2):
        for pid in runtime.worker_pids():
            os.kill(pid, signal.SIGKILL)
        node = await scripted.goto(number)
        assert await scripted.observe("value") == node.costs["value"]
    assert len(await scripted.expand(["increment", "double"])) == 2


async def test_an_abandoned_step_leaves_the_session_where_its_tree_says(scripted: ExplorerSession) -> None:
    with scripted.events() as events:
        task = asyncio.ensure_future(scripted.step(["increment", "hang"]))
        await events.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await scripted.observe("value") == scripted.tree.present.costs["value"] == 6


async def test_callers_take_turns(scripted: ExplorerSession) -> None:
    await asyncio.gather(*(scripted.step(["increment"]) for _ in range(20)), scripted.expand(["double"]))
    assert scripted.tree.present.costs == {"value": 25.0} and len(scripted.tree) == 21


async def test_there_are_caps(runtime: aiocg.Runtime, scripted: ExplorerSession) -> None:
    scripted.limits = replace(scripted.limits, actions=2, candidates=1)
    with pytest.raises(Refusal, match="up to 2 actions"):
        await scripted.step(["increment"] * 3)
    with pytest.raises(Refusal, match="up to 1 actions"):
        await scripted.expand(["increment"] * 2)
    small = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=program(), limits=Limits(shown_bytes=20))
    with pytest.raises(Refusal, match="more than 20"):
        await small.text(0)
    await small.close()
