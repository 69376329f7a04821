"""The API by ASGI, without a socket: real programs, bad input, caps, and workers that are killed meanwhile."""

import asyncio
import json
import os
import re
import signal
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import httpx
import hypothesis
import hypothesis.strategies as st
from fastapi import FastAPI

import aiocg
from aiocg.web._programs import box_exists
from aiocg.web.api import create_app
from aiocg.web.limits import Limits

IR = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  %z = mul i32 %y, 1\n  ret i32 %z\n}\n"
C = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }\n"


class Client(httpx.AsyncClient):
    """Calls an application in this process, and fails where something other than what was expected comes back."""

    def __init__(self, app: FastAPI, host: str = "127.0.0.1", **options: Any) -> None:
        super().__init__(transport=httpx.ASGITransport(app), base_url=f"http://{host}", timeout=60, **options)

    async def get_json(self, path: str, status: int = 200, **options: Any) -> Any:
        return _read(await self.get(path, **options), status)

    async def post_json(self, path: str, body: Any = None, status: int = 200) -> Any:
        return _read(await self.post(path, json=body), status)

    async def refused(self, path: str, body: Any, status: int) -> str:
        """Post what must be refused, and return what is said."""
        message: str = (await self.post_json(path, body, status))["error"]["message"]
        return message


def _read(reply: httpx.Response, status: int) -> Any:
    assert reply.status_code == status, reply.text
    return reply.json() if reply.content else None


@pytest.fixture
async def app(runtime: aiocg.Runtime) -> AsyncIterator[FastAPI]:
    app = create_app(runtime=runtime, limits=Limits(sessions=3, source_bytes=2000, shown_bytes=20_000))
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[Client]:
    async with Client(app) as client:
        yield client


async def opened(client: Client, **body: Any) -> str:
    id: str = (await client.post_json("/sessions", body or {"source": IR, "language": "ir"}, 201))["id"]
    return f"/sessions/{id}"


async def test_a_session_from_its_opening_to_its_end(client: Client) -> None:
    told = await client.post_json("/sessions", {"benchmark": "programs-v0/gcd"}, 201)
    assert told["env"] == "llvm-ic-v0" and told["lines"]["-Oz"] < told["present"]["costs"]["IrInstructionCount"]
    path = f"/sessions/{told['id']}"
    gains = (await client.post_json(f"{path}/expand"))["gains"]
    assert gains[0]["gain"] >= gains[1]["gain"] > 0
    stepped = await client.post_json(f"{path}/step", {"actions": [gains[0]["action"], "simplifycfg"]})
    assert stepped["nodes"][0]["state"] == gains[0]["state"]
    assert stepped["nodes"][0]["costs"] == gains[0]["costs"]
    assert (await client.post_json(f"{path}/undo"))["node"] == 1
    assert (await client.post_json(f"{path}/goto/2"))["node"] == 2
    assert "define" in (await client.get_json(f"{path}/observations/Ir"))["value"]
    assert len((await client.get_json(f"{path}/observations/Autophase"))["value"]) == 56
    assert (await client.get_json(f"{path}/diff?before=0&after=2"))["lines"][0] == "--- node 0"
    assert [node["node"] for node in (await client.get_json(f"{path}/tree"))["nodes"]] == [0, 1, 2]
    forked = await client.post_json(f"{path}/fork", None, 201)
    assert forked["id"] != told["id"] and forked["nodes"] == 3 and forked["present"]["node"] == 2
    assert (await client.delete(path)).status_code == 204
    assert (await client.get_json(f"/sessions/{forked['id']}"))["actions"] == [gains[0]["action"], "simplifycfg"]
    assert "open another" in (await client.get_json(path, 404))["error"]["message"]


@pytest.mark.parametrize(
    ("source", "language"),
    [
        (C, "c"),
        pytest.param(
            "#include <vector>\nint f(std::vector<int> v) { return v.size(); }", "c++", marks=pytest.mark.needs("libc")
        ),
        (IR, "ir"),
    ],
)
async def test_programs_can_be_sent(client: Client, source: str, language: str) -> None:
    path = await opened(client, source=source, language=language)
    assert (await client.post_json(f"{path}/step", {"actions": ["default<Oz>"]}))["present"]["depth"] == 1


async def test_bitcode_can_be_sent_in_base64(client: Client) -> None:
    path = await opened(client)
    bitcode = (await client.get_json(f"{path}/observations/Bitcode"))["value"]["base64"]
    again = await opened(client, source=bitcode, language="bitcode")
    assert await client.get_json(f"{again}/observations/IrInstructionCount") == {
        "name": "IrInstructionCount",
        "value": 3,
    }


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"env": "llvm-v00"}, 422, "did you mean llvm-v0"),
        ({"benchmark": "programs-v0/qsrt"}, 422, "qsort"),
        ({"benchmark": "/etc/passwd"}, 403, "send its text"),
        ({"benchmark": "file:///etc/passwd"}, 403, "send its text"),
        ({"source": "int f( {"}, 422, "error"),
        ({"source": "this is no IR", "language": "ir"}, 422, "expected"),
        ({"source": "%", "language": "bitcode"}, 422, "base64"),
        ({"source": "x", "language": "fortran"}, 422, "c, c++, ir, bitcode"),
        ({"source": " ", "language": "ir"}, 422, "empty"),
        ({"source": "x" * 2001}, 413, "2001 bytes"),
        ({"source": IR, "benchmark": "programs-v0/gcd"}, 422, "send one of them"),
        ({"sauce": IR}, 422, "body/sauce"),
        ([], 422, "/openapi.json"),
    ],
)
async def test_what_cannot_be_opened_is_refused_with_reasons(client: Client, body: Any, status: int, said: str) -> None:
    assert said in await client.refused("/sessions", body, status)


async def test_what_a_session_cannot_do_is_refused_with_reasons(client: Client) -> None:
    path = await opened(client)
    assert "mem2reg" in await client.refused(f"{path}/step", {"actions": ["mem2regg"]}, 422)
    assert "nothing to undo" in await client.refused(f"{path}/undo", None, 409)
    assert "from 0 to 0" in await client.refused(f"{path}/goto/7", None, 409)
    assert "Autophase" in (await client.get_json(f"{path}/observations/Autofase", 422))["error"]["message"]
    assert "valid integer" in await client.refused(f"{path}/goto/x", None, 422)
    assert "Python API" in (await client.get_json(f"{path}/observations/Programl", 422))["error"]["message"]
    assert (await client.get_json(path))["nodes"] == 1


async def test_a_session_that_nobody_uses_is_closed(runtime: aiocg.Runtime) -> None:
    app = create_app(runtime=runtime, limits=Limits(idle_seconds=0.01))
    async with app.router.lifespan_context(app), Client(app) as client:
        path = await opened(client)
        async with asyncio.timeout(60):
            while len(app.state.sessions):  # noqa: ASYNC110, as users have no event
                await asyncio.sleep(0.02)
        await client.get_json(path, 404)


async def test_there_are_no_more_sessions_than_there_may_be(client: Client) -> None:
    paths = [await opened(client) for _ in range(3)]
    assert "close one" in await client.refused("/sessions", {"source": IR, "language": "ir"}, 429)
    assert "close one" in await client.refused(f"{paths[0]}/fork", None, 429)
    await client.delete(paths[0])
    await opened(client)


async def test_too_large_an_observation_is_refused(client: Client) -> None:
    path = await opened(client, benchmark="programs-v0/qsort")
    assert "the most is 20000" in (await client.get_json(f"{path}/observations/Ir", 413))["error"]["message"]


@pytest.fixture
async def boxing(runtime: aiocg.Runtime) -> AsyncIterator[Client]:
    """A client of an application that compiles in a box."""
    app = create_app(runtime=runtime, limits=Limits(boxed_sources=True))
    async with app.router.lifespan_context(app), Client(app) as client:
        yield client


async def test_c_of_visitors_is_compiled_where_it_can_include_nothing_of_this_machine(
    boxing: Client, tmp_path: Path
) -> None:
    probe = await boxing.post("/sessions", json={"source": C})
    if "none can be made here" in probe.text or not box_exists():
        pytest.skip("no box can be made here: it needs bubblewrap and namespaces of users")
    assert probe.status_code == 201, probe.text
    for source, language in (("#include <stdio.h>\n" + C, "c"), ("#include <vector>\nstd::vector<int> v;", "c++")):
        await opened(boxing, source=source, language=language)
    secret = tmp_path / "secret.h"
    secret.write_text("int secret;")
    for path in (secret, Path("/etc/passwd"), Path(__file__)):
        assert "file not found" in await boxing.refused("/sessions", {"source": f'#include "{path}"'}, 422)
    assert "error:" in await boxing.refused("/sessions", {"source": "int f( {"}, 422)


async def test_c_of_visitors_is_refused_where_there_is_no_box(boxing: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "send the IR" in await boxing.refused("/sessions", {"source": C}, 403)


async def test_what_a_session_shows_is_drawn(client: Client) -> None:
    path = await opened(client)
    await client.post_json(f"{path}/step", {"actions": ["instcombine"]})
    for picture, said in (
        ("tree.svg", "instcombine"),
        ("cfg.svg?function=f", "entry"),
        ("cfg.svg?function=f&instructions=true", "ret i32"),
        ("cfg.dot?function=f", "digraph"),
    ):
        reply = await client.get(f"{path}/{picture}")
        assert reply.status_code == 200 and said in reply.text, reply.text
        assert reply.headers["content-type"].startswith("text/" if "dot" in picture else "image/svg+xml")
    assert "no function 'g'" in (await client.get_json(f"{path}/cfg.svg?function=g", 404))["error"]["message"]
    assert "take loops-v0" in (await client.get_json(f"{path}/nest.svg", 409))["error"]["message"]


async def test_a_saved_state_is_opened(client: Client) -> None:
    state = aiocg.CompilerEnvState(
        environment="llvm-ic-v0", benchmark="benchmark://programs-v0/gcd", actions=("mem2reg", "gvn")
    )
    for text in (state.to_json(), f"{state.csv_header()}\n{state.to_csv()}\n"):
        told = await client.post_json("/sessions", {"state": text}, 201)
        assert told["actions"] == ["mem2reg", "gvn"]
        await client.delete(f"/sessions/{told['id']}")
    assert "not a state" in await client.refused("/sessions", {"state": "{}"}, 422)
    there = state.to_json().replace("benchmark://programs-v0/gcd", "file:///etc/passwd")
    assert "send its text" in await client.refused("/sessions", {"state": there}, 403)


async def test_datasets_and_programs_are_listed_page_by_page(client: Client) -> None:
    names = [one["name"] for one in (await client.get_json("/datasets"))["items"]]
    assert "programs-v0" in names
    assert [one["name"] for one in (await client.get_json("/datasets?prefix=programs-v0/gc"))["items"]] == [
        "programs-v0/gcd"
    ]
    first = await client.get_json("/datasets?prefix=scripted-v0/")
    second = await client.get_json(f"/datasets?prefix=scripted-v0/&cursor={first['next']}")
    assert first["items"][-1]["name"] == "scripted-v0/99" and second["items"][0]["name"] == "scripted-v0/100"
    assert "programs-v0" in (await client.get_json("/datasets?prefix=program-v0/", 422))["error"]["message"]
    assert {"llvm-v0", "scripted-v0"} <= {one["id"] for one in (await client.get_json("/envs"))["envs"]}


class Socket:
    """One WebSocket of an application in this process."""

    def __init__(self, app: FastAPI, path: str, **headers: str) -> None:
        found = {"host": "127.0.0.1", **headers}
        scope = {
            "type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "scheme": "ws", "headers": [(name.encode(), value.encode()) for name, value in found.items()],
            "subprotocols": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"},
        }  # fmt: skip
        self._to: asyncio.Queue[Any] = asyncio.Queue()
        self._from: asyncio.Queue[Any] = asyncio.Queue()
        self._to.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._to.get, self._from.put))

    async def receive(self) -> Any:
        async with asyncio.timeout(60):
            return await self._from.get()

    async def event(self) -> Any:
        message = await self.receive()
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def leave(self) -> None:
        self._to.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task


async def test_a_killed_worker_is_an_event_and_no_error(client: Client, app: FastAPI, runtime: aiocg.Runtime) -> None:
    path = await opened(client)
    socket = Socket(app, f"{path}/events", origin="http://127.0.0.1")
    assert (await socket.receive())["type"] == "websocket.accept"
    await client.post_json(f"{path}/step", {"actions": ["instcombine"]})
    assert await socket.event() == {"event": "moved", "node": 1, "action": "instcombine", "new": True}
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    await client.post_json(f"{path}/goto/0")
    assert len((await client.post_json(f"{path}/expand"))["gains"]) > 100
    seen = [await socket.event(), await socket.event()]
    assert {one["event"] for one in seen} == {"moved", "death"}
    assert "SIGKILL" in next(one["cause"] for one in seen if one["event"] == "death")
    await client.delete(path)
    while (await socket.receive())["type"] != "websocket.close":
        pass
    await socket.leave()


@pytest.mark.slow
async def test_a_search_is_started_watched_paused_and_goes_on(client: Client) -> None:
    path = await opened(client, benchmark="programs-v0/gcd")
    told = await client.get_json(f"{path}/search")
    assert (told["search"], told["runs"], told["resumable"]) == (None, [], False)
    assert {"greedy", "functionwise", "mcts"} <= set(told["searches"])
    assert "start one" in await client.refused(f"{path}/search/resume", {}, 409)
    assert "take greedy" in await client.refused(f"{path}/search", {"name": "best"}, 422)
    started = await client.post_json(f"{path}/search", {"name": "random", "seconds": 100}, 202)
    assert started["search"]["running"] is True
    assert "pause it first" in await client.refused(f"{path}/search", {"name": "greedy"}, 409)
    async with asyncio.timeout(60):
        while (await client.get_json(f"{path}/search"))["search"]["evaluations"] < 20:  # noqa: ASYNC110, as visitors do
            await asyncio.sleep(0.05)
    stopped = _read(await client.delete(f"{path}/search"), 200)["search"]
    assert stopped["running"] is False and stopped["error"] == ""
    told = await client.get_json(path)
    assert told["present"]["costs"] == {"IrInstructionCount": stopped["best"]} and told["nodes"] > 5
    resumed = await client.post_json(f"{path}/search/resume", {"seconds": 0.5}, 202)
    assert resumed["search"]["number"] == 1 and resumed["search"]["running"] is True
    async with asyncio.timeout(60):
        while (await client.get_json(f"{path}/search"))["search"]["running"]:  # noqa: ASYNC110, as visitors do
            await asyncio.sleep(0.05)
    assert (await client.get_json(f"{path}/search"))["search"]["error"] == ""


async def test_an_action_that_crashes_the_compiler_is_told_and_changes_nothing(client: Client) -> None:
    path = await opened(client, env="scripted-v0", benchmark="scripted-v0/5")
    reply = await client.post_json(f"{path}/step", {"actions": ["increment", "crash"]}, 422)
    assert reply["error"]["type"] == "WorkerCrashed"
    assert (await client.get_json(path))["present"]["costs"] == {"value": 6}
    assert (await client.get_json(f"{path}/observations/value"))["value"] == 6


@pytest.mark.parametrize(
    ("headers", "code"),
    [({"origin": "http://evil.example"}, 1008), ({"host": "evil.example"}, 1008), ({"origin": "null"}, 1008)],
)
async def test_a_page_of_another_origin_opens_no_websocket(app: FastAPI, headers: dict[str, str], code: int) -> None:
    socket = Socket(app, "/sessions/x/events", **headers)
    message = await socket.receive()
    assert (message["type"], message["code"]) == ("websocket.close", code)


async def test_pages_of_other_sites_may_link_here_and_nothing_else(client: Client) -> None:
    for destination, status in (("image", 403), ("iframe", 403), ("document", 200)):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": destination}
        assert (await client.get("/envs", headers=headers)).status_code == status


async def test_other_names_and_origins_are_refused(client: Client, app: FastAPI) -> None:
    async with Client(app, host="rebound.example") as other:
        assert "call it by one of" in (await other.get_json("/envs", 421))["error"]["message"]
    reply = await client.post("/sessions", json={}, headers={"origin": "http://evil.example"})
    assert reply.status_code == 403 and "may not do this" in reply.json()["error"]["message"]
    assert (await client.post("/sessions/x/undo", headers={"origin": "http://127.0.0.1"})).status_code == 404


async def test_a_request_must_say_how_long_it_is_and_not_be_too_long(client: Client) -> None:
    assert (await client.post("/sessions", content=b" " * 1_000_000)).status_code == 413

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{}"

    reply = await client.post("/sessions", content=pieces())
    assert reply.status_code == 411 and "Content-Length" in reply.json()["error"]["message"]


async def test_elsewhere_a_token_is_needed(runtime: aiocg.Runtime) -> None:
    with pytest.raises(ValueError, match="give a token"):
        create_app(runtime=runtime, hosts=["here.example"])
    app = create_app(runtime=runtime, hosts=["here.example"], token="secret")
    async with app.router.lifespan_context(app):
        async with Client(app, "here.example") as client:
            assert "a token is needed" in (await client.get_json("/envs", 401))["error"]["message"]
            await client.get_json("/envs", 401, headers={"authorization": "Bearer secre"})
            await client.get_json("/envs", headers={"authorization": "Bearer secret"})
            await client.get_json("/envs?token=secret")
            await client.get_json("/envs")  # by the cookie that this has left
        assert (await Socket(app, "/sessions/x/events", host="here.example").receive())["code"] == 1008


async def test_the_routes_and_their_replies_are_described(client: Client) -> None:
    told = await client.get_json("/openapi.json")
    for operations in told["paths"].values():
        for operation in operations.values():
            assert operation["description"]
            (reply,) = [one for status, one in operation["responses"].items() if status.startswith("2")]
            if "204" not in operation["responses"]:
                for media, one in reply["content"].items():
                    assert media in ("image/svg+xml", "text/vnd.graphviz") or one["schema"]["$ref"]
    for name, fields in {
        "NodeReply": {"node", "state", "parent", "action", "depth", "costs", "edges"},
        "Run": {"number", "best", "course", "error"},
        "ErrorReply": {"error"},
    }.items():
        assert fields <= told["components"]["schemas"][name]["properties"].keys()


@pytest.mark.parametrize(
    "seconds", ["0", "-1", "-1e300", "NaN", "Infinity", "1e999", "1e9", '"soon"', "null", "[]", "true"]
)
async def test_time_that_no_search_has_is_refused(client: Client, seconds: str) -> None:
    id = (await client.post_json("/sessions", {"env": "scripted-v0", "benchmark": "scripted-v0/77"}, 201))["id"]
    for path in ("search", "search/resume"):
        told = await client.post(
            f"/sessions/{id}/{path}",
            content=f'{{"seconds": {seconds}}}',
            headers={"Content-Type": "application/json"},
        )
        assert told.status_code in (422, 409) and told.json()["error"]["message"]
    assert (await client.get_json(f"/sessions/{id}/search"))["search"] is None


@pytest.mark.parametrize("name", ["step", "expand"])
async def test_half_a_surrogate_pair_is_no_action(client: Client, name: str) -> None:
    id = (await client.post_json("/sessions", {"env": "scripted-v0", "benchmark": "scripted-v0/77"}, 201))["id"]
    told = await client.post(
        f"/sessions/{id}/{name}", content=b'{"actions": ["\\ud800"]}', headers={"Content-Type": "application/json"}
    )
    assert told.status_code == 422 and "surrogate" in told.json()["error"]["message"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KNOWN = st.sampled_from(
    ["scripted-v0", "scripted-v0/77", "double", "halve", "greedy", "number", "0", "1", "-1", "nan", "9" * 30, "c", "ir"]
)


@pytest.mark.slow
@hypothesis.settings(
    max_examples=300, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(data=st.data())
async def test_no_request_makes_the_application_fail(data: st.DataObject, app: FastAPI) -> None:
    """Every route, with any values for what OpenAPI says that it takes; `ASGITransport` raises what is a status 500."""
    schema = app.openapi()
    path, methods = data.draw(st.sampled_from(sorted(schema["paths"].items())))
    method, operation = data.draw(st.sampled_from(sorted(methods.items())))
    given, body = {}, {}
    for one in operation.get("parameters", ()):
        given[one["name"]] = str(data.draw(KNOWN | st.integers() | st.text(max_size=9)))
    for fields in re.findall(r"#/components/schemas/(\w+)", json.dumps(operation.get("requestBody", {}))):
        for name in schema["components"]["schemas"][fields]["properties"]:
            if data.draw(st.booleans()):
                body[name] = data.draw(KNOWN | ANYTHING | st.lists(KNOWN, max_size=2))
    opened = []
    async with Client(app) as client:
        try:
            session = await client.post("/sessions", json={"env": "scripted-v0", "benchmark": "scripted-v0/77"})
            opened.append(session.json()["id"])
            if "id" in given:
                given["id"] = opened[0]
            for name in re.findall(r"{(\w+)}", path):
                path = path.replace(f"{{{name}}}", urllib.parse.quote(given.pop(name), safe="") or "x")
            told = await client.request(
                method, path, params=given, content=json.dumps(body), headers={"Content-Type": "application/json"}
            )
            opened += [told.json()["id"]] if told.status_code == 201 else []
            assert told.status_code < 500
            if told.status_code >= 400:
                assert told.json()["error"]["message"]
        finally:
            for id in opened:
                await client.delete(f"/sessions/{id}")
