"""An OpenEnv server: sessions of agents over HTTP and WebSockets, as clients and trainers of OpenEnv expect them.

A WebSocket at `/ws` is a session: its client resets, steps, and asks for the state. An HTTP request at `/reset` or
`/step` is an episode of its own, as nothing is kept between two of them.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from aiocg.errors import AiocgError

try:
    from fastapi import Body, FastAPI, Request, WebSocket, WebSocketDisconnect
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ValidationError
except ImportError:
    raise AiocgError("an OpenEnv server needs FastAPI: pip install 'aiocg[openenv]'") from None

from aiocg import __version__
from aiocg.agents.limits import LONGEST_ERROR, Limits, Refused
from aiocg.agents.openenv_session import STEPS, Action, Observation, OpenEnvSession, Reset, State, error_of
from aiocg.agents.server import EXPECTED
from aiocg.agents.sessions import AgentSessions
from aiocg.agents.values import sayable
from aiocg.datasets.benchmark import Benchmark
from aiocg.registry import environment as find_environment
from aiocg.runtime import Runtime
from aiocg.web.guard import LOOPBACK, Guard, check_hosts

__all__ = ["openenv_app"]

METHOD_NOT_FOUND = -32601  # of JSON-RPC


class Episode(Reset):
    """A step over HTTP: an episode of one step."""

    action: Action


def openenv_app(
    runtime: Runtime,
    environment: str = "llvm-ic-v0",
    *,
    reward_space: str | None = None,
    programs: Mapping[str, Benchmark] | None = None,
    limits: Limits | None = None,
    steps: int = STEPS,
    hosts: Iterable[str] = LOOPBACK,
    token: str = "",
) -> FastAPI:
    """Return an OpenEnv server as an ASGI application.

    Args:
        runtime: where the environments live; it needs `options={"untrusted": True}` if clients are not to reach files.
        environment: their id.
        reward_space: what they are rewarded by; the default of the environment if None.
        programs: programs beside those of the runtime's datasets, by the names that clients are told; the first is what
            an episode is of when a client names nothing.
        limits: what each client may have; `sessions` is how many clients there may be.
        steps: of an episode, at most.
        hosts: the names by which clients may call the server.
        token: what they must bring, as `Authorization: Bearer`; "" for nothing, on the loopback interface only.

    Raises:
        UnknownName: when there is no such environment.
        ValueError: when there is no token and `hosts` has names of other machines.
    """
    limits, spec = limits or Limits(), find_environment(environment)
    offered = dict(programs or {})
    default = next(iter(offered), str(getattr(spec.benchmark, "uri", spec.benchmark)))
    clients: set[OpenEnvSession] = set()
    app = FastAPI(title="aiocg", version=__version__, docs_url=None, redoc_url=None)  # they load scripts from elsewhere
    app.add_middleware(Guard, hosts=check_hosts(hosts, token), token=token)

    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[OpenEnvSession]:
        if len(clients) >= limits.sessions:
            raise Refused(f"{limits.sessions} clients are connected, which is the most: wait until one has left")
        sessions = AgentSessions(
            runtime, environment, reward_space=reward_space, programs=offered, limits=replace(limits, sessions=1)
        )
        clients.add(client := OpenEnvSession(sessions, default, steps))
        try:
            yield client
        finally:
            clients.discard(client)
            await client.close()

    async def refuse(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": error_of(error)["message"]}, 422)

    for kind in EXPECTED:
        app.add_exception_handler(kind, refuse)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/metadata")
    async def metadata() -> dict[str, str]:
        return {"name": environment, "description": spec.description, "version": __version__}

    @app.get("/schema")
    async def schema() -> dict[str, Any]:
        kinds: dict[str, type[BaseModel]] = {"action": Action, "observation": Observation, "state": State}
        return {name: kind.model_json_schema() for name, kind in kinds.items()}

    @app.get("/state")
    async def state() -> dict[str, Any]:
        return State().model_dump()

    @app.post("/reset")
    async def reset(wanted: Annotated[Reset | None, Body()] = None) -> dict[str, Any]:
        async with connected() as client:
            return await client.reset(wanted.model_dump() if wanted else {})

    @app.post("/step")
    async def step(wanted: Episode) -> dict[str, Any]:
        async with connected() as client:
            await client.reset(wanted.model_dump(exclude={"action"}))
            return await client.step(wanted.action.model_dump())

    @app.post("/mcp")
    async def mcp() -> dict[str, Any]:
        said = "tools are called by steps at /ws, with actions of the type call_tool; `aiocg mcp` is a server for MCP"
        return {"jsonrpc": "2.0", "id": None, "error": {"code": METHOD_NOT_FOUND, "message": said}}

    @app.websocket("/ws")
    async def session(socket: WebSocket) -> None:
        await socket.accept()
        try:
            async with connected() as client:
                while (message := await socket.receive())["type"] != "websocket.disconnect":
                    answer = await _answered(client, message.get("text") or message.get("bytes") or "")
                    if answer is None:
                        break
                    await socket.send_text(json.dumps(answer))
                else:
                    return
        except WebSocketDisconnect:
            return
        except Refused as error:
            await socket.send_text(json.dumps(_refused("CAPACITY_REACHED", str(error))))
        await socket.close()

    return app


async def _answered(client: OpenEnvSession, text: str | bytes) -> dict[str, Any] | None:
    """Return the answer to a message of a WebSocket, None if it was the last."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _refused("INVALID_JSON", f"this is no JSON: {error}")
    kind = message.get("type") if isinstance(message, dict) else None
    try:
        if kind == "reset":
            return {"type": "observation", "data": await client.reset(message.get("data", {}))}
        if kind == "step":
            return {"type": "observation", "data": await client.step(message.get("data"))}
        if kind == "state":
            return {"type": "state", "data": client.state}
    except ValidationError as error:
        return _refused("VALIDATION_ERROR", str(error))
    except EXPECTED as error:
        return _refused("EXECUTION_ERROR", str(error))
    if kind == "close":
        return None
    return _refused("UNKNOWN_TYPE", f"a message is of the type reset, step, state or close, and not {str(kind)[:30]!r}")


def _refused(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": sayable(message)[:LONGEST_ERROR], "code": code}}
