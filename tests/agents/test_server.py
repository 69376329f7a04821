"""The MCP server, over the client of its own package."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

import aiocg
import aiocg.testing
from aiocg.agents import AgentSessions, Limits, mcp_server
from aiocg.errors import AiocgError

TOOLS = ["list_programs", "list_actions", "list_observations", "reset", "step", "undo", "expand", "observe", "close"]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


@pytest_asyncio.fixture(scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest.fixture
def sessions(runtime: aiocg.Runtime) -> AgentSessions:
    return AgentSessions(runtime, "scripted-v0", reward_space="value", limits=Limits(sessions=2))


async def call(client: Any, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


async def error_of(client: Any, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return "\n".join(part.text for part in answer.content)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_plays_an_episode_by_calling_tools(sessions: AgentSessions, mode: str) -> None:
    mcp = pytest.importorskip("mcp")
    async with mcp.Client(mcp_server(sessions), mode=mode) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed)
        assert "At most 2 sessions" in (client.instructions or "")
        session = (await call(client, "reset", program="scripted-v0/5"))["session"]
        found = await call(client, "expand", session=session, candidates=[["double"], ["nothing"]])
        assert [one["reward"] for one in found["candidates"]] == [-5, 0]
        assert (await call(client, "step", session=session, actions=["double"]))["episode_reward"] == -5
        assert (await call(client, "observe", session=session, space="value")) == {"value": 10}
        assert (await call(client, "undo", session=session))["actions_taken"] == 0
        assert (await call(client, "close", session=session)) == {"closed": session}
        await call(client, "reset", program="scripted-v0/5")
    with pytest.raises(AiocgError, match="there are none"):  # the client's end closes its sessions
        sessions.find("s2")


async def test_errors_are_the_tools_answers_and_say_what_to_do(sessions: AgentSessions) -> None:
    mcp = pytest.importorskip("mcp")
    async with mcp.Client(mcp_server(sessions)) as client:
        assert "reset makes one" in await error_of(client, "step", session="s1", actions=["double"])
        assert "agents have no access to files" in await error_of(client, "reset", program="file:///etc/passwd")
        session = (await call(client, "reset", program="scripted-v0/5"))["session"]
        assert "did you mean double" in await error_of(client, "step", session=session, actions=["doubl"])
        assert "SIGSEGV" in await error_of(client, "step", session=session, actions=["crash"])
        assert r"refused \udcff, as asked" in await error_of(client, "step", session=session, actions=["lie<refusal>"])
        assert "valid list" in await error_of(client, "step", session=session, actions=3)
        assert "valid string" in await error_of(client, "step", session=session, actions=[3])
        assert "required" in await error_of(client, "observe", session=session)
        assert "valid integer" in await error_of(client, "undo", session=session, steps="two")
        assert "Unknown tool" in await error_of(client, "delete", session=session)
        assert (await call(client, "observe", session=session, space="value")) == {"value": 5}


def test_without_the_package_it_is_said_what_to_install(
    sessions: AgentSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(AiocgError, match=r"pip install 'aiocg\[mcp\]'"):
        mcp_server(sessions)


# ------------------------------------------------------------------------------------------------ as a process


class Server:
    """`aiocg mcp`, spoken to line by line."""

    def __init__(self, place: Any, *options: str) -> None:
        command = [sys.executable, "-P", "-m", "aiocg.cli", "mcp", "--workers", "1", *options]
        self.process: subprocess.Popen[str] = place.start(*command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self._id = 0
        self.ask("initialize", HELLO)
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._id += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}))
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            answer = json.loads(line)  # and nothing else is ever written there
            if answer.get("id") == self._id:
                return answer["result"]
        pytest.fail(f"no answer: {self.process.stderr.read() if self.process.stderr else ''}")

    def call(self, tool: str, **arguments: Any) -> Any:
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = answer["content"][0]["text"]
        return text if answer.get("isError") else json.loads(text)

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [worker for child in children for worker in child.children()]


@pytest.fixture
def server(place: Any) -> Iterator[Server]:
    pytest.importorskip("mcp")
    (place.folder / "mine.c").write_text("int twice(int x) { int y = x; return y + y; }\n")
    server = Server(place, "--program", "mine.c", "--characters", "500", "--actions", "4")
    yield server
    server.process.kill()
    server.process.wait()
    for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
        assert stream is not None
        stream.close()


def ends(server: Server, place: Any) -> int:
    status = server.process.wait(60)
    assert place.remains() == []
    return status


@pytest.mark.slow
def test_an_episode_over_standard_streams_survives_bad_input_and_a_killed_worker(server: Server, place: Any) -> None:
    told = server.call("reset", program="mine.c")
    size = server.call("observe", session="s1", space="IrInstructionCount")["value"]
    server.write("this is no message")
    server.write('{"jsonrpc": "2.0", "id": 0, "method": 7}')
    assert "mem2reg" in json.dumps(server.call("list_actions", contains="mem2reg"))
    (worker,) = server.workers()
    worker.kill()
    stepped = server.call("step", session="s1", actions=["mem2reg"])
    assert stepped["reward"] > 0 and stepped["state"] != told["state"]
    assert server.call("observe", session="s1", space="IrInstructionCount")["value"] < size
    text = server.call("observe", session="s1", space="Ir")
    assert (len(text["text"]), text["cut"], text["next_offset"]) == (500, True, 500)
    assert "1 to 4 actions" in server.call("step", session="s1", actions=["gvn"] * 5)
    assert "file on the worker's machine" in server.call("observe", session="s1", space="BitcodeFile")
    assert "no access to files" in server.call("reset", program="file:///etc/passwd")
    assert server.process.stdin is not None
    server.process.stdin.close()  # as a client's end
    assert ends(server, place) == 0
    assert server.process.stderr is not None and "Traceback" not in server.process.stderr.read()


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_ends_it_and_leaves_nothing(server: Server, place: Any, number: signal.Signals) -> None:
    server.call("reset", program="mine.c")
    assert server.workers()
    server.process.send_signal(number)
    assert ends(server, place) == (-number if number == signal.SIGKILL else 128 + number)
    assert server.process.stderr is not None and "Traceback" not in server.process.stderr.read()


@pytest.mark.slow
def test_an_environment_that_there_is_not_is_told_at_once(place: Any) -> None:
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "mcp", "--env", "llvm-v9")
    assert done.returncode == 1 and "did you mean llvm-v0" in done.stderr
    for name in ("a", "b"):
        os.mkdir(place.folder / name)
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "mcp", "--program", "a/x.c", "--program", "b/x.c")
    assert done.returncode == 1 and "two files are called x.c" in done.stderr
