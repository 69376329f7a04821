"""Sessions of an OpenEnv server: actions, observations and state."""

import inspect
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

from aiocg.errors import AiocgError

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
except ImportError:
    raise AiocgError("an OpenEnv server needs FastAPI: pip install 'aiocg[openenv]'") from None

from aiocg.agents.limits import LONGEST_ERROR, Refused
from aiocg.agents.server import EXPECTED, Tools
from aiocg.agents.sessions import AgentSessions
from aiocg.agents.values import sayable

__all__ = ["STEPS", "Action", "Observation", "OpenEnvSession", "Reset", "State", "error_of"]

STEPS = 45  # of an episode
OFFERED = (Tools.list_programs, Tools.list_actions, Tools.list_observations, Tools.undo, Tools.expand, Tools.observe)


class Reset(BaseModel):
    """How an episode begins."""

    program: str | None = Field(None, description="a program, such as programs-v0/qsort; of the server if null")
    observe: list[str] = Field([], max_length=16, description="observations that each answer is to have")
    episode_id: str | None = Field(None, max_length=255, description="name of the episode; drawn if null")
    seed: int | None = Field(None, description="not used: nothing is left to chance")


class Action(BaseModel):
    """What a client does: take actions of the compiler, which is a step, or call a tool."""

    model_config = ConfigDict(extra="forbid")

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
    had_no_effect: bool | None = Field(None, description="whether the step has left the program as it was")
    observed: dict[str, Any] = Field({}, description="by the names that reset was given")
    error: dict[str, str] | None = Field(None, description="why the step or call has failed, and so changed nothing")
    tool_name: str | None = None
    result: Any = None
    tools: list[dict[str, Any]] | None = None


class State(BaseModel):
    """Where an episode stands."""

    model_config = ConfigDict(extra="allow")

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


TOOLS = {tool.__name__: (tool, _arguments(tool)) for tool in OFFERED}


class OpenEnvSession:
    """What one client has: an episode at a time. Answers are OpenEnv's: `observation`, `reward` and `done`.

    Args:
        sessions: of the client alone.
        program: what an episode is of when the client names nothing.
        steps: of an episode, at most.
    """

    def __init__(self, sessions: AgentSessions, program: str, steps: int = STEPS) -> None:
        self._sessions, self._program, self._steps = sessions, program, steps
        self._tools = Tools(sessions)
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
            raise Refused(f"the episode has had its {self._steps} steps: reset begins another")
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
        return self._state.step_count >= self._steps

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
            result = await tool(self._tools, **given)
        except ValidationError as error:
            return answer | {"error": {"error_type": "invalid_args", "message": sayable(str(error))[:LONGEST_ERROR]}}
        except EXPECTED as error:
            return answer | {"error": error_of(error)}
        if "state" in result:
            self._told = result
        return answer | {"result": result}


def _listed() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": inspect.getdoc(tool) or "",
            "input_schema": arguments.model_json_schema(),
        }
        for name, (tool, arguments) in TOOLS.items()
    ]


def error_of(error: Exception) -> dict[str, str]:
    """Return what a client is told of an error."""
    return {"error_type": "execution_error", "message": sayable(str(error))[:LONGEST_ERROR]}
