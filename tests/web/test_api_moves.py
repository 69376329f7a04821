"""The API does what a model says that is nothing but a number, whatever is sent in whatever order."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aiocg
from aiocg.testing import ScriptedDataset
from aiocg.web.api import create_app
from aiocg.web.limits import Limits

MODULUS = 2**61 - 1  # of the numbers of scripted-v0
EFFECTS: dict[str, Callable[[int], int]] = {
    "increment": lambda value: value + 1,
    "double": lambda value: 2 * value,
    "square": lambda value: value**2,
    "": lambda value: value,
}
SENT = st.recursive(st.none() | st.booleans() | st.text(max_size=5), st.lists)
ACTIONS = st.sampled_from([*EFFECTS, "refuse", "nothing of that name"])
MOVES = st.one_of(
    st.tuples(st.just("step"), st.lists(ACTIONS, max_size=4)),
    st.tuples(st.just("undo"), st.none()),
    st.tuples(st.just("goto"), st.integers(-1, 6)),
    st.tuples(st.just("fork"), st.none()),
    st.tuples(st.just("expand"), st.lists(ACTIONS, max_size=3)),
    st.tuples(st.just("observe"), st.sampled_from(["value", "no such thing", "../../etc/passwd", "a b"])),
    st.tuples(
        st.just("send"), st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda one: st.lists(one))
    ),
)


class Model:
    """What a session should be: numbers in the order in which they were first seen, and the way to the present one."""

    def __init__(self, value: int) -> None:
        self.seen = [value]
        self.ways = {value: [value]}
        self.trail = [value]

    def step(self, action: str) -> bool:
        """Return whether the action is carried out."""
        if action not in EFFECTS:
            return False
        value = EFFECTS[action](self.trail[-1]) % MODULUS
        if value not in self.seen:
            self.seen.append(value)
            self.ways[value] = [*self.ways[self.trail[-1]], value]
        if value != self.trail[-1]:
            self.trail.append(value)
        return True

    def fork(self) -> "Model":
        other = Model(0)
        other.seen, other.ways, other.trail = [*self.seen], dict(self.ways), [*self.trail]
        return other


async def move(client: Any, path: str, model: Model, kind: str, what: Any) -> tuple[str, Model]:
    """Do something to a session and to its model; return where one is afterwards."""
    if kind == "step":
        reply = await client.post(f"{path}/step", json={"actions": what})
        known = all(action in EFFECTS or action == "refuse" for action in what)
        right = known and all(model.step(action) for action in what)
        assert reply.status_code == (200 if right else 422), reply.text
    elif kind == "undo":
        reply = await client.post(f"{path}/undo")
        assert reply.status_code == (200 if len(model.trail) > 1 else 409)
        model.trail = model.trail[:-1] or model.trail
    elif kind == "goto":
        reply = await client.post(f"{path}/goto/{what}")
        there = 0 <= what < len(model.seen)
        assert reply.status_code == (200 if there else 409)
        model.trail = [*model.ways[model.seen[what]]] if there else model.trail
    elif kind == "fork":
        reply = await client.post(f"{path}/fork")
        assert reply.status_code == 201
        path, model = f"/sessions/{reply.json()['id']}", model.fork()
    elif kind == "expand":
        reply = await client.post(f"{path}/expand", json={"actions": what})
        known = all(action in EFFECTS or action == "refuse" for action in what)
        assert reply.status_code == (200 if known else 422), reply.text
        if known:
            gains = {one["action"]: one["error"] is None for one in reply.json()["gains"]}
            assert gains == {action: model.fork().step(action) for action in what}
    elif kind == "observe":
        reply = await client.get(f"{path}/observations/{what}")
        assert reply.status_code in ((200,) if what == "value" else (404, 422))
    else:
        reply = await client.post(f"{path}/step", json=what)
        assert reply.status_code == 422
    if reply.status_code >= 400 and reply.status_code != 404:
        assert reply.json()["error"]["message"]
    return path, model


@pytest.fixture(scope="module")
def machinery() -> Iterator[tuple[asyncio.Runner, aiocg.Runtime]]:
    """An event loop and a runtime in it, as Hypothesis calls a test many times."""
    with asyncio.Runner() as runner:
        runtime = aiocg.Runtime(workers=1, options={"untrusted": True})
        runtime.datasets["scripted-v0"] = ScriptedDataset()
        runner.run(runtime.__aenter__())
        yield runner, runtime
        runner.run(runtime.close())


@pytest.mark.slow
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(moves=st.lists(MOVES, max_size=12))
def test_a_session_stands_where_the_model_does(
    machinery: tuple[asyncio.Runner, aiocg.Runtime], moves: list[tuple[str, Any]]
) -> None:
    runner, runtime = machinery
    runner.run(play(runtime, moves))


async def play(runtime: aiocg.Runtime, moves: list[tuple[str, Any]]) -> None:
    """Do what is said to an application and to models of its sessions."""
    app = create_app(runtime=runtime, limits=Limits(snapshots=2))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=60) as client,
    ):
        body = {"env": "scripted-v0", "benchmark": "scripted-v0/3"}
        path, model = f"/sessions/{(await client.post('/sessions', json=body)).json()['id']}", Model(3)
        left = [(path, model)]
        for kind, what in moves:
            path, model = await move(client, path, model, kind, what)
            left += [(path, model)] * (kind == "fork")
        for path, model in left:
            told = (await client.get(path)).json()
            assert told["present"]["costs"] == {"value": float(model.trail[-1])} and told["nodes"] == len(model.seen)
            assert [model.seen[node] for node in told["trail"]] == model.trail
            assert (await client.get(f"{path}/observations/value")).json()["value"] == model.trail[-1]
