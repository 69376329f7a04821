"""The OpenEnv server: episodes over WebSockets and HTTP, what it refuses, and that clients do not see each other."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import pytest_asyncio

pytest.importorskip("fastapi")

import uvicorn
import websockets

import aiocg
import aiocg.testing
from aiocg.agents import Limits
from aiocg.agents.openenv import openenv_app

from ..test_examples import own_python

LIMITS = Limits(sessions=2, actions=3, candidates=4)


class Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@pytest_asyncio.fixture(scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@contextlib.asynccontextmanager
async def served(runtime: aiocg.Runtime, **options: Any) -> AsyncIterator[str]:
    """Serve, and give the address without its scheme."""
    given = {"mine": aiocg.testing.scripted_benchmark(77)}
    options = {"reward_space": "value", "programs": given, "limits": LIMITS, "steps": 3} | options
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(openenv_app(runtime, "scripted-v0", **options), log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    yield f"127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture
async def address(runtime: aiocg.Runtime) -> AsyncIterator[str]:
    async with served(runtime) as address:
        yield address


class Client:
    """Messages, as the client of the package sends them."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def ask(self, kind: str, data: Any = None) -> Any:
        await self.connection.send(json.dumps({"type": kind} | ({} if data is None else {"data": data})))
        return json.loads(await self.connection.recv())

    async def observed(self, kind: str, data: Any = None) -> Any:
        answer = await self.ask(kind, data)
        assert answer["type"] == "observation", answer
        assert set(answer["data"]) == {"observation", "reward", "done"}
        return answer["data"]

    async def refusal(self, kind: str, data: Any = None) -> tuple[str, str]:
        answer = await self.ask(kind, data)
        assert answer["type"] == "error", answer
        return answer["data"]["code"], answer["data"]["message"]

    async def call(self, tool: str, **arguments: Any) -> Any:
        data = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        return (await self.observed("step", data))["observation"]


@contextlib.asynccontextmanager
async def client_of(address: str, query: str = "", **options: Any) -> AsyncIterator[Client]:
    async with websockets.connect(f"ws://{address}/ws{query}", **options) as connection:
        yield Client(connection)


@pytest.mark.slow
async def test_an_episode_is_played_over_a_socket(address: str) -> None:
    async with client_of(address) as client:
        begun = await client.observed("reset", {"program": "scripted-v0/5", "observe": ["value"], "episode_id": "mine"})
        assert (begun["reward"], begun["done"]) == (None, False)
        state = begun["observation"].pop("state")
        assert begun["observation"] == {
            "program": "benchmark://scripted-v0/5", "actions_taken": 0, "episode_reward": 0,
            "observed": {"value": {"value": 5}},
        }  # fmt: skip
        told = await client.observed("step", {"actions": ["double", "increment"]})
        assert (told["reward"], told["done"]) == (-6, False)
        assert told["observation"]["observed"] == {"value": {"value": 11}}
        assert told["observation"]["state"] != state
        answer = await client.ask("state")
        assert answer["data"].items() >= {"episode_id": "mine", "step_count": 1, "actions_taken": 2}.items()
        assert not (await client.observed("step", {"actions": ["nothing"]}))["done"]
        assert (await client.observed("step", {"actions": ["increment"]}))["done"]
        assert await client.refusal("step", {"actions": ["increment"]}) == (
            "EXECUTION_ERROR", "the episode has had its 3 steps: reset begins another"
        )  # fmt: skip
        assert not (await client.observed("reset", {}))["done"]
        assert (await client.observed("step", {"actions": ["nothing"]}))["observation"]["program"].endswith("77")


OWN_CLIENT = """
import asyncio, json, sys
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

def told(one):
    return [one.reward, one.done, one.observation["observed"], one.observation.get("error")]

async def tools(url):
    async with MCPToolClient(base_url=url) as client:
        await client.reset(program="scripted-v0/5")
        names = [tool.name for tool in await client.list_tools()]
        tried = await client.call_tool("expand", candidates=[["double"], ["nothing"]])
        try:
            await client.call_tool("undo", steps="two")
        except RuntimeError as error:
            return names, tried, str(error)

url = sys.argv[1]
with GenericEnvClient(base_url=url).sync() as client:
    episode = [told(client.reset(seed=1, program="scripted-v0/5", observe=["value"], episode_id="mine"))]
    for actions in (["double", "increment"], ["doubl"], ["nothing"]):
        episode.append(told(client.step({"actions": actions})))
    state = client.state()
    try:
        client.step({"actions": ["double"]})
    except RuntimeError as error:
        over = str(error)
    again = told(client.reset())
print(json.dumps([episode, state, over, again, asyncio.run(tools(url))]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "package", ["openenv-core==0.3.0", pytest.param("openenv>=0.10", marks=pytest.mark.every_case)]
)
async def test_clients_of_openenv_itself_play_episodes(address: str, tmp_path: Path, package: str) -> None:
    """In an environment of their own, as they want another release of `mcp` than verifiers does."""
    python = await asyncio.to_thread(own_python, tmp_path / "venv", [package])
    command = [python, "-P", "-c", OWN_CLIENT, f"http://{address}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    episode, state, over, again, (names, tried, wrong) = json.loads(output)
    assert episode[:2] == [[None, False, {"value": {"value": 5}}, None], [-6, False, {"value": {"value": 11}}, None]]
    reward, done, _, error = episode[2]
    assert (reward, done) == (0, False) and "did you mean double" in error["message"]
    assert episode[3][:2] == [0, True] and "has had its 3 steps" in over
    assert state.items() >= {"episode_id": "mine", "step_count": 3, "actions_taken": 3}.items()
    assert again == [None, False, {}, None]
    assert names == ["list_programs", "list_actions", "list_observations", "undo", "expand", "observe"]
    assert [one["reward"] for one in tried["candidates"]] == [-5, 0] and "invalid_args" in wrong


async def test_tools_are_those_of_the_other_server_without_sessions(address: str) -> None:
    async with client_of(address) as client:
        listed = (await client.observed("step", {"type": "list_tools"}))["observation"]["tools"]
        assert [tool["name"] for tool in listed] == [
            "list_programs", "list_actions", "list_observations", "undo", "expand", "observe"
        ]  # fmt: skip
        expand = listed[4]
        assert set(expand["input_schema"]["properties"]) == {"candidates"} and "without taking" in expand["description"]
        assert (await client.call("list_actions", contains="BY 2"))["result"]["actions"][0]["name"] == "double"
        await client.observed("reset", {"program": "scripted-v0/5"})
        tried = await client.call("expand", candidates=[["double"], ["nothing"]])
        assert [one["reward"] for one in tried["result"]["candidates"]] == [-5, 0]
        await client.observed("step", {"actions": ["double"]})
        assert (await client.call("observe", space="value"))["result"] == {"value": 10}
        assert (await client.call("undo"))["result"]["actions_taken"] == 0
        assert (await client.ask("state"))["data"]["actions_taken"] == 0
        assert (await client.call("undo", steps=4))["error"]["error_type"] == "execution_error"
        assert (await client.call("undo", steps="two"))["error"]["error_type"] == "invalid_args"
        assert (await client.call("expand", candidates=[], session="s1"))["error"]["error_type"] == "invalid_args"
        assert (await client.call("close"))["error"]["error_type"] == "tool_not_found"


async def test_a_step_that_fails_earns_nothing_and_changes_nothing(address: str) -> None:
    async with client_of(address) as client:
        begun = await client.observed("reset", {"program": "scripted-v0/5", "observe": ["value", "nonsense"]})
        assert begun["observation"]["observed"]["nonsense"]["error"]["error_type"] == "execution_error"
        for actions, said in ([["doubl"], "did you mean double"], [["crash"], "SIGSEGV"], [["nothing"] * 4, "1 to 3"]):
            told = await client.observed("step", {"actions": actions})
            assert told["reward"] == 0 and said in told["observation"]["error"]["message"]
            assert told["observation"]["observed"]["value"] == {"value": 5}
        assert told["done"]


async def test_what_is_no_message_is_refused_and_the_next_is_answered(address: str) -> None:
    async with client_of(address) as client:
        assert (await client.refusal("step", {"actions": ["double"]}))[0] == "EXECUTION_ERROR"
        assert (await client.refusal("step", {"actions": "double"}))[0] == "VALIDATION_ERROR"
        assert (await client.refusal("step"))[0] == "VALIDATION_ERROR"
        assert (await client.refusal("reset", {"program": "/etc/passwd"}))[0] == "EXECUTION_ERROR"
        assert (await client.refusal("reset", {"observe": ["value"] * 17}))[0] == "VALIDATION_ERROR"
        assert (await client.refusal("delete"))[0] == "UNKNOWN_TYPE"
        for text in ("no JSON", "", b"\xff", "[" * 100_000):
            await client.connection.send(text)
            assert json.loads(await client.connection.recv())["data"]["code"] == "INVALID_JSON"
        await client.connection.send("7")
        assert json.loads(await client.connection.recv())["data"]["code"] == "UNKNOWN_TYPE"
        await client.connection.send('{"type": "reset", "data": {"program": "\\ud800"}}')
        assert json.loads(await client.connection.recv())["data"]["code"] == "EXECUTION_ERROR"
        assert (await client.observed("reset", {"program": "scripted-v0/5"}))["observation"]["actions_taken"] == 0


async def test_clients_have_sessions_of_their_own_and_there_are_only_so_many(address: str) -> None:
    async with client_of(address) as one, client_of(address) as other:
        await one.observed("reset", {"program": "scripted-v0/5"})
        await other.observed("reset", {"program": "scripted-v0/6"})
        await one.observed("step", {"actions": ["double"]})
        assert (await other.call("observe", space="value"))["result"] == {"value": 6}
        async with client_of(address) as third:
            told = json.loads(await third.connection.recv())
            assert told["data"]["code"] == "CAPACITY_REACHED" and "2 clients" in told["data"]["message"]
        async with httpx.AsyncClient() as http:
            assert (await http.post(f"http://{address}/reset", json={})).status_code == 422
        await one.connection.send('{"type": "close"}')
        with pytest.raises(websockets.ConnectionClosed):
            await one.connection.recv()
        async with client_of(address) as fourth:
            await fourth.observed("reset", {})


@pytest.mark.slow
async def test_over_http_each_request_is_an_episode(address: str) -> None:
    async with httpx.AsyncClient(base_url=f"http://{address}") as http:
        assert (await http.get("/health")).json() == {"status": "healthy"}
        assert (await http.get("/metadata")).json()["name"] == "scripted-v0"
        assert set((await http.get("/schema")).json()) == {"action", "observation", "state"}
        assert (await http.get("/state")).json() == {"episode_id": None, "step_count": 0}
        assert (await http.post("/mcp", json={})).json()["jsonrpc"] == "2.0"
        assert {"/reset", "/step", "/state"} <= set((await http.get("/openapi.json")).json()["paths"])
        assert (await http.post("/reset")).json()["observation"]["program"].endswith("77")
        told = await http.post("/step", json={"program": "scripted-v0/5", "action": {"actions": ["double"]}})
        assert told.json()["reward"] == -5
        for wrong in (b'{"action": {"actions": 3}}', b'{"action": {"actions": "\\ud800"}, "observe": NaN}', b"NaN"):
            told = await http.post("/step", content=wrong, headers={"Content-Type": "application/json"})
            assert told.status_code == 422 and told.json()["detail"][0]["msg"]
        told = await http.post("/reset", content=b'{"episode_id": "\\ud800"}')
        assert told.status_code in (200, 422)
        told = await http.post("/reset", json={"program": "file:///etc/passwd"})
        assert told.status_code == 422 and "no access to files" in told.json()["detail"]


async def test_tools_are_called_over_http_while_the_socket_of_a_session_is_there(address: str) -> None:
    async with httpx.AsyncClient(base_url=f"http://{address}") as http:

        async def ask(method: str, **params: Any) -> Any:
            answer = (await http.post("/mcp", json={"id": 7, "method": method, "params": params})).json()
            assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
            return answer.get("result") or answer["error"]["message"]

        async def expand(name: str) -> Any:
            return await ask("tools/call", session_id=name, name="expand", arguments={"candidates": [["double"]]})

        assert "tools/call" in await ask("resources/list")
        assert "expand" in [tool["name"] for tool in (await ask("tools/list"))["tools"]]
        forgotten, other, name = [(await ask("openenv/session/create"))["session_id"] for _ in range(3)]
        assert "connect to /ws" in await expand(name)
        async with client_of(address, f"?session_id={name}") as client:
            assert "reset" in await expand(name)
            await client.observed("reset", {"program": "scripted-v0/5"})
            assert (await expand(name))["data"]["candidates"][0]["reward"] == -5
            assert "invalid_args" in await ask("tools/call", session_id=name, name="undo", arguments={"steps": "two"})
            assert "tool_not_found" in await ask("tools/call", session_id=name, name="close")
            assert "validation error" in await ask("tools/call", session_id=name, name=7)
            assert "connect to /ws" in await expand(other)
            for taken in (name, forgotten, "nonsense"):
                async with client_of(address, f"?session_id={taken}") as refused:
                    assert "there is no session" in json.loads(await refused.connection.recv())["data"]["message"]
        assert (await ask("openenv/session/close", session_id=name))["closed"]
        assert "connect to /ws" in await expand(name)


async def test_without_the_token_nobody_comes_in(runtime: aiocg.Runtime) -> None:
    with pytest.raises(ValueError, match="give a token"):
        openenv_app(runtime, "scripted-v0", hosts=["example.org"])
    async with served(runtime, token="secret") as address:
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"http://{address}/health")).status_code == 401
        with pytest.raises(websockets.InvalidStatus):
            async with client_of(address):
                pass
        async with client_of(address, additional_headers={"Authorization": "Bearer secret"}) as client:
            await client.observed("reset", {})


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted_and_leaves_nothing(place: Any) -> None:
    (place.folder / "mine.c").write_text("int twice(int x) { int y = x; return y + y; }\n")
    command = [sys.executable, "-P", "-m", "aiocg.cli", "openenv", "--workers", "1", "--port", "0"]
    process = place.start(*command, "--program", "mine.c")
    assert process.stdout is not None
    address = process.stdout.readline().strip().removeprefix("OpenEnv at ")
    told = httpx.post(f"{address}/step", json={"action": {"actions": ["mem2reg"]}}, timeout=60).json()
    assert told["reward"] > 0 and told["observation"]["program"].endswith("mine.c")
    assert psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.stdout.close()
    assert place.remains() == []
