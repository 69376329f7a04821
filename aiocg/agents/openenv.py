"""An OpenEnv server: sessions of agents over HTTP and WebSockets, as clients and trainers of OpenEnv expect them.

A WebSocket at `/ws` is a session: its client resets, steps, and asks for the state. An HTTP request at `/reset` or
`/step` is an episode of its own, as nothing is kept between two of them.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from aiocg.errors import AiocgError

try:
    from fastapi import APIRouter, Body, FastAPI, Request, WebSocket, WebSocketDisconnect
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ValidationError
    from starlette.requests import HTTPConnection
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


router = APIRouter()


class AsciiJson(JSONResponse):
    """JSON that escapes everything else, since clients may send half a surrogate pair."""

    def render(self, content: Any) -> bytes:
        """Encode a reply."""
        return json.dumps(content, allow_nan=False).encode("ascii")


class Episode(Reset):
    """A step over HTTP: an episode of one step."""

    action: Action


class Clients:
    """The clients that are connected to an application, each with sessions of its own.

    Args:
        runtime, environment, options: of their `AgentSessions`.
        default: what an episode is of when a client names nothing.
        limits: of each; `sessions` is how many clients there may be.
        steps: of an episode, at most.
    """

    def __init__(
        self, runtime: Runtime, environment: str, default: str, limits: Limits, steps: int, **options: Any
    ) -> None:
        self.environment = environment
        self._make = partial(AgentSessions, runtime, environment, limits=replace(limits, sessions=1), **options)
        self._default = default
        self._most = limits.sessions
        self._steps = steps
        self._connected: set[OpenEnvSession] = set()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[OpenEnvSession]:
        """Give a client, until it leaves; raise Refused when there are too many."""
        if len(self._connected) >= self._most:
            raise Refused(f"{self._most} clients are connected, which is the most: wait until one has left")
        client = OpenEnvSession(self._make(), self._default, self._steps)
        self._connected.add(client)
        try:
            yield client
        finally:
            self._connected.discard(client)
            await client.close()


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
    spec, offered = find_environment(environment), dict(programs or {})
    default = next(iter(offered), str(getattr(spec.benchmark, "uri", spec.benchmark)))
    app = FastAPI(
        title="aiocg",
        version=__version__,
        docs_url=None,
        redoc_url=None,  # these pages load scripts from another host
        default_response_class=AsciiJson,
    )
    app.add_middleware(Guard, hosts=check_hosts(hosts, token), token=token)
    app.state.clients = Clients(
        runtime, environment, default, limits or Limits(), steps, reward_space=reward_space, programs=offered
    )
    app.include_router(router)
    app.add_exception_handler(RequestValidationError, _refuse_malformed)
    for kind in EXPECTED:
        app.add_exception_handler(kind, _refuse)
    return app


async def _refuse(_: Request, error: Exception) -> JSONResponse:
    return AsciiJson({"detail": error_of(error)["message"]}, 422)


async def _refuse_malformed(_: Request, error: Exception) -> JSONResponse:
    """Say what is malformed, as FastAPI does, but without repeating it: it may be what JSON cannot say."""
    assert isinstance(error, RequestValidationError)
    told = [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]
    return AsciiJson({"detail": told}, 422)


def _clients(connection: HTTPConnection) -> Clients:
    found: Clients = connection.app.state.clients
    return found


@router.get("/health")
async def health() -> dict[str, str]:
    """Say that the server is there."""
    return {"status": "healthy"}


@router.get("/metadata")
async def metadata(request: Request) -> dict[str, str]:
    """Say what environment this is."""
    spec = find_environment(_clients(request).environment)
    return {"name": spec.id, "description": spec.description, "version": __version__}


@router.get("/schema")
async def schema() -> dict[str, Any]:
    """Return the schemas of what is sent."""
    kinds: dict[str, type[BaseModel]] = {"action": Action, "observation": Observation, "state": State}
    return {name: kind.model_json_schema() for name, kind in kinds.items()}


@router.get("/state")
async def state() -> dict[str, Any]:
    """Return the state of an episode that has not begun: over HTTP nothing is kept."""
    return State().model_dump()


@router.post("/reset")
async def reset(request: Request, wanted: Annotated[Reset | None, Body()] = None) -> dict[str, Any]:
    """Begin an episode, and forget it."""
    async with _clients(request).connected() as client:
        return await client.reset(wanted.model_dump() if wanted else {})


@router.post("/step")
async def step(request: Request, wanted: Episode) -> dict[str, Any]:
    """Begin an episode, take a step, and forget it."""
    async with _clients(request).connected() as client:
        await client.reset(wanted.model_dump(exclude={"action"}))
        return await client.step(wanted.action.model_dump())


@router.post("/mcp")
async def mcp() -> dict[str, Any]:
    """Say where tools are called."""
    said = "tools are called by steps at /ws, with actions of the type call_tool; `aiocg mcp` is a server for MCP"
    return {"jsonrpc": "2.0", "id": None, "error": {"code": METHOD_NOT_FOUND, "message": said}}


@router.websocket("/ws")
async def session(socket: WebSocket) -> None:
    """Serve a client: resets, steps and questions for the state."""
    await socket.accept()
    try:
        async with _clients(socket).connected() as client:
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
