"""An OpenEnv server: sessions of agents over HTTP and WebSockets, as clients and trainers of OpenEnv expect them.

A WebSocket at `/ws` is a session: its client resets, steps, and asks for the state. An HTTP request at `/reset` or
`/step` is an episode of its own, as nothing is kept between two of them.
"""

import contextlib
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from aiocg.errors import AiocgError

try:
    from fastapi import APIRouter, Body, FastAPI, Request, WebSocket, WebSocketDisconnect
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
    from starlette.requests import HTTPConnection
except ImportError:
    raise AiocgError("an OpenEnv server needs FastAPI: pip install 'aiocg[openenv]'") from None

from aiocg import __version__
from aiocg.agents.server import EXPECTED, LOOKING
from aiocg.agents.sessions import LONGEST_ERROR, AgentSessions, Limits, Refused, sayable
from aiocg.datasets.benchmark import Benchmark
from aiocg.registry import environment as find_environment
from aiocg.runtime import Runtime
from aiocg.web.guard import LOOPBACK, Guard, check_hosts

__all__ = ["STEPS", "Action", "Observation", "OpenEnvSession", "Reset", "State", "error_of", "openenv_app"]

STEPS = 45  # of an episode
OFFERED = (*LOOKING, "undo", "expand", "observe")


class Reset(BaseModel):
    """How an episode begins."""

    program: str | None = Field(None, description="a program, such as programs-v0/qsort; of the server if null")
    observe: list[str] = Field([], max_length=16, description="observations that each answer is to have")
    episode_id: str | None = Field(None, max_length=255, description="name of the episode; drawn if null")
    seed: int | None = Field(None, description="not used: nothing is left to chance")


class Action(BaseModel, extra="forbid"):
    """What a client does: take actions of the compiler, which is a step, or call a tool."""

    type: Literal["step", "call_tool", "list_tools"] = "step"
    actions: list[str] = Field([], description="of a step: texts of the compiler's language, one after the other")
    tool_name: str = Field("", description="of a call: one of the tools that list_tools tells")
    arguments: dict[str, Any] = Field({}, description="of a call")
    metadata: dict[str, Any] = Field({}, description="not used")


class Observation(BaseModel):
    """What a client is told; of a call only the tool's name, and its result or error."""

    program: str | None = None
    actions_taken: int | None = None
    episode_reward: float | None = None
    state: str | None = Field(None, description="hash of the present program")
    finished: bool | None = Field(None, description="whether the compiler has nothing left to ask, if it asks")
    had_no_effect: bool | None = Field(None, description="whether the step has left the program as it was")
    observed: dict[str, Any] = Field({}, description="by the names that reset was given")
    error: dict[str, str] | None = Field(None, description="why the step or call has failed, and so changed nothing")
    tool_name: str | None = None
    result: Any = None
    tools: list[dict[str, Any]] | None = None


class State(BaseModel, extra="allow"):
    """Where an episode stands."""

    episode_id: str | None = None
    step_count: int = 0


def _arguments(tool: Callable[..., Any]) -> type[BaseModel]:
    """Return what a tool takes, without the session, which is the client's own."""
    fields: dict[str, Any] = {
        name: (one.annotation, ... if one.default is one.empty else one.default)
        for name, one in inspect.signature(tool).parameters.items()
        if name not in ("self", "session")
    }
    return create_model(tool.__name__, __config__=ConfigDict(extra="forbid"), **fields)


TOOLS = {name: (tool := getattr(AgentSessions, name), _arguments(tool)) for name in OFFERED}


class OpenEnvSession:
    """What one client has: an episode at a time. Answers are OpenEnv's: `observation`, `reward` and `done`.

    Args:
        sessions: of the client alone.
        program: what an episode is of when the client names nothing.
        steps: of an episode, at most.
    """

    def __init__(self, sessions: AgentSessions, program: str, steps: int = STEPS) -> None:
        self._sessions, self._program, self._steps = sessions, program, steps
        self._name = ""  # of the session among ours, "" before the first reset
        self._told: dict[str, Any] = {}
        self._state = State()
        self._observed: list[str] = []

    @property
    def state(self) -> dict[str, Any]:
        """Where the episode stands, as JSON can say it."""
        return self._state.model_dump() | self._told

    async def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an episode.

        Raises:
            ValidationError: when the data are none of `Reset`.
            AiocgError, DatasetError: when the program cannot be had; the episode before goes on.
        """
        wanted = Reset.model_validate(data)
        told = await self._sessions.reset(wanted.program or self._program, self._name)
        self._name, self._told, self._observed = told.pop("session"), told, wanted.observe
        self._state = State(episode_id=wanted.episode_id or uuid.uuid4().hex)
        return await self._answer({}, None)

    async def step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Take actions, or call a tool. What fails changes nothing, and is told as the observation's `error`.

        Raises:
            ValidationError: when the data are none of `Action`.
            Refused: when the episode is over, or there is none.
        """
        wanted = Action.model_validate(data)
        if wanted.type == "list_tools":
            return {"observation": {"tools": _listed()}, "reward": None, "done": self._done}
        if wanted.type == "call_tool":
            return {"observation": await self._called(wanted), "reward": None, "done": self._done}
        session = self._sessions.find(self._name)
        if self._done:
            why = "has ended" if self._told.get("finished") else f"has had its {self._steps} steps"
            raise Refused(f"the episode {why}: reset begins another")
        self._state.step_count += 1
        try:
            told = await session.step(wanted.actions)
        except EXPECTED as error:
            return await self._answer({"error": error_of(error)}, 0.0)
        reward, idle = told.pop("reward"), told.pop("had_no_effect")
        self._told = told
        return await self._answer({"had_no_effect": idle}, reward)

    async def close(self) -> None:
        """Free everything on the worker."""
        await self._sessions.close_all()

    @property
    def _done(self) -> bool:
        return self._state.step_count >= self._steps or bool(self._told.get("finished"))

    async def _answer(self, more: dict[str, Any], reward: float | None) -> dict[str, Any]:
        session, observed = self._sessions.find(self._name), {}
        for name in self._observed:
            try:
                observed[name] = await session.observe(name, 0)
            except EXPECTED as error:
                observed[name] = {"error": error_of(error)}
        return {"observation": {**self._told, **more, "observed": observed}, "reward": reward, "done": self._done}

    async def _called(self, wanted: Action) -> dict[str, Any]:
        answer: dict[str, Any] = {"tool_name": wanted.tool_name, "result": None}
        if wanted.tool_name not in TOOLS:
            known = f"there is no tool {wanted.tool_name[:30]!r}: there are {', '.join(TOOLS)}"
            return answer | {"error": {"error_type": "tool_not_found", "message": sayable(known)}}
        tool, arguments = TOOLS[wanted.tool_name]
        try:
            given = dict(arguments.model_validate(wanted.arguments))
            if "session" in inspect.signature(tool).parameters:
                given["session"] = self._name
            result = await tool(self._sessions, **given)
        except ValidationError as error:
            return answer | {"error": {"error_type": "invalid_args", "message": sayable(str(error))[:LONGEST_ERROR]}}
        except EXPECTED as error:
            return answer | {"error": error_of(error)}
        if "state" in result:
            self._told = result
        return answer | {"result": result}


def _listed() -> list[dict[str, Any]]:
    return [
        {"name": name, "description": inspect.getdoc(tool) or "", "input_schema": arguments.model_json_schema()}
        for name, (tool, arguments) in TOOLS.items()
    ]


def error_of(error: Exception) -> dict[str, str]:
    """Return what a client is told of an error."""
    return {"error_type": "execution_error", "message": sayable(str(error))[:LONGEST_ERROR]}


METHOD_NOT_FOUND, FAILED = -32601, -32000  # of JSON-RPC


router = APIRouter()


class _AsciiJson(JSONResponse):
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
        self._named: dict[str, OpenEnvSession | None] = {}  # by session id; None until its socket comes

    @contextlib.asynccontextmanager
    async def connected(self, name: str = "") -> AsyncIterator[OpenEnvSession]:
        """Give a client, until it leaves; raise Refused when there are too many.

        Args:
            name: id of the session that it comes for, from `promise`; one client may.
        """
        if name and self._named.get(name, self) is not None:
            raise Refused(f"there is no session {name[:30]!r}, or another socket has it")
        if len(self._connected) >= self._most:
            raise Refused(f"{self._most} clients are connected, which is the most: wait until one has left")
        client = OpenEnvSession(self._make(), self._default, self._steps)
        self._connected.add(client)
        if name:
            self._named[name] = client
        try:
            yield client
        finally:
            self._named.pop(name, None)
            self._connected.discard(client)
            await client.close()

    def promise(self) -> str:
        """Return the id of a new session, which begins when a socket comes for it; only the last ids are kept."""
        waiting = [name for name, client in self._named.items() if client is None]
        for name in waiting[: len(waiting) + 1 - self._most]:
            del self._named[name]
        self._named[name := uuid.uuid4().hex] = None
        return name

    def find(self, name: str) -> OpenEnvSession:
        """Return the client of a session; raise Refused when its socket has gone, or has not come yet."""
        if (client := self._named.get(name)) is None:
            raise Refused(
                f"there is no session {name[:30]!r}: create it, and connect to /ws?session_id=... for as long"
            )
        return client


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
        default_response_class=_AsciiJson,
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
    return _AsciiJson({"detail": error_of(error)["message"]}, 422)


async def _refuse_malformed(_: Request, error: Exception) -> JSONResponse:
    """Say what is malformed, as FastAPI does, but without repeating it: it may be what JSON cannot say."""
    assert isinstance(error, RequestValidationError)
    told = [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]
    return _AsciiJson({"detail": told}, 422)


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


class Call(BaseModel):
    """A call over HTTP, by JSON-RPC 2.0."""

    id: int | str | None = None
    method: str = ""
    params: dict[str, Any] = {}


@router.post("/mcp")
async def mcp(request: Request, wanted: Call) -> dict[str, Any]:
    """Answer a client of tools; its episode is that of its socket, `/ws?session_id=...`."""
    clients, params, answer = _clients(request), wanted.params, {"jsonrpc": "2.0", "id": wanted.id}
    name = str(params.get("session_id", ""))
    if wanted.method == "openenv/session/create":
        return answer | {"result": {"session_id": clients.promise()}}
    if wanted.method == "openenv/session/close":  # the socket's end is its end
        return answer | {"result": {"session_id": name, "closed": True}}
    if wanted.method == "tools/list":
        return answer | {"result": {"tools": _listed()}}
    if wanted.method == "tools/call":
        asked = {"type": "call_tool", "tool_name": params.get("name"), "arguments": params.get("arguments", {})}
        try:
            told = (await clients.find(name).step(asked))["observation"]
        except (Refused, ValidationError) as error:
            told = {"error": error_of(error)}
        if wrong := told.get("error"):
            return answer | {"error": {"code": FAILED, "message": f"{wrong['message']} (type: {wrong['error_type']})"}}
        return answer | {"result": {"data": told["result"]}}
    said = "there are tools/list and tools/call here, with sessions of OpenEnv; `aiocg mcp` is a server for MCP"
    return answer | {"error": {"code": METHOD_NOT_FOUND, "message": said}}


@router.websocket("/ws")
async def session(socket: WebSocket) -> None:
    """Serve a client: resets, steps and questions for the state."""
    await socket.accept()
    try:
        async with _clients(socket).connected(socket.query_params.get("session_id", "")) as client:
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
