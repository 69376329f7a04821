"""Compilers other than LLVM in the same sessions: schedules of loops, whose cost is a time, and options of GCC."""

import asyncio
from typing import Any

import httpx
import pytest

import aiocg
from aiocg.web._links import Link, read_link
from aiocg.web.api import create_app
from aiocg.web.limits import Limits

EXPRESSION = "C[i:64, j:64] = sum(k:64) A[i, k] * B[k, j]"


async def search(client: httpx.AsyncClient, path: str, name: str, evaluations: int) -> dict[str, Any]:
    """Let a search run until it has evaluated so many candidates, and pause it."""
    (await client.post(f"{path}/search", json={"name": name, "seconds": 100})).raise_for_status()
    while (found := (await client.get(f"{path}/search")).json()["search"])["evaluations"] < evaluations:
        assert found["running"], found
        await asyncio.sleep(0.1)
    ended: dict[str, Any] = (await client.delete(f"{path}/search")).json()["search"]
    return ended


@pytest.mark.slow
async def test_a_schedule_is_changed_and_drawn() -> None:
    app = create_app(workers=1)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=300) as client:
            body = {"env": "loops-v0", "source": EXPRESSION, "language": "expression"}
            told = (await client.post("/sessions", json=body)).json()
            assert told["costs"] == ["runtime"] and told["present"]["costs"]["runtime"] > 0
            path = f"/sessions/{told['id']}"
            gains = (await client.post(f"{path}/expand")).json()["gains"]
            assert 10 < len(gains) < 100 and not any(one["error"] for one in gains)  # what is not possible is not tried
            assert "reorder<loop=1>" in [one["action"] for one in gains]
            stepped = await client.post(f"{path}/step", json={"actions": ["reorder<loop=1>"]})
            assert stepped.json()["present"]["node"] == 1
            drawn = (await client.get(f"{path}/nest.svg")).text
            assert drawn.index("for i in 64") < drawn.index("for k in 64") < drawn.index("for j in 64")
            assert "+  for k in 64 : L1" in (await client.get(f"{path}/diff?before=0&after=1")).json()["lines"]
            link = (await client.get(f"{path}/link")).json()["link"]
            found = read_link(link.removeprefix("/?"), Limits())
            assert found == Link("loops-v0", "", ("reorder<loop=1>",), EXPRESSION, "expression")
            assert (await client.get(f"{path}/search")).json()["searches"] == ["schedule"]
            searched = await search(client, path, "schedule", 8)
            assert searched["error"] == "" and searched["node"] is not None
            assert (await client.get(path)).json()["nodes"] > 8
            wrong = {**body, "source": "C[i:64] = nonsense("}
            assert (await client.post("/sessions", json=wrong)).status_code == 422


@pytest.mark.slow
@pytest.mark.needs("gcc")
async def test_options_of_gcc_are_tried() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        app = create_app(runtime=runtime)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
                body = {"env": "gcc-v0", "benchmark": "programs-v0/gcd"}
                told = (await client.post("/sessions", json=body)).json()
                assert told["lines"].keys() >= {"-O3", "-Os"}
                (cost,), path = told["costs"], f"/sessions/{told['id']}"
                (gain,) = (await client.post(f"{path}/expand", json={"actions": ["-Os"]})).json()["gains"]
                assert gain["costs"][cost] == told["lines"]["-Os"] < told["present"]["costs"][cost]
                await client.post(f"{path}/step", json={"actions": ["-Os"]})
                assert (await client.get(f"{path}/diff?before=0&after=1")).json()["lines"]
                assert (await client.get(f"{path}/features?node=1")).json()["deltas"]
                assert "screening" in (await client.get(f"{path}/search")).json()["searches"]
                searched = await search(client, path, "screening", 8)
                assert searched["error"] == "" and searched["best"] <= gain["costs"][cost]
                for picture in ("cfg.svg?function=main", "nest.svg"):
                    assert (await client.get(f"{path}/{picture}")).status_code == 409
