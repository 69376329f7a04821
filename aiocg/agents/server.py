"""An MCP server: the sessions of an agent as tools, after the Model Context Protocol."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiocg import __version__
from aiocg.agents.sessions import LONGEST_ERROR, AgentSessions, sayable
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.transport.errors import TransportError

__all__ = ["EXPECTED", "Tools", "mcp_server"]

EXPECTED = (AiocgError, DatasetError, TransportError)  # that a call may end with: their messages are for agents

INSTRUCTIONS = """\
You optimise programs with a compiler. reset begins an episode with a program and returns the name of a session. \
Actions are texts, such as names of passes; list_actions has them. expand says what actions would be worth, without \
taking them; step takes them; undo takes a step back. A reward is positive where the program gets better, and \
episode_reward is the sum since the reset. A call that fails changes nothing. At most {sessions} sessions are open at \
once: close those that you do not need."""

Tool = Callable[..., Awaitable[dict[str, Any]]]


def _answering(tool: Tool) -> Tool:
    """Let a tool answer with an error that the agent can read where something was wrong that has a message."""

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return await tool(*args, **kwargs)
        except EXPECTED as error:
            from mcp.server.mcpserver.exceptions import ToolError

            raise ToolError(sayable(str(error))[:LONGEST_ERROR]) from error

    return call


class Tools:
    """What an agent can call. The docstrings of the methods are what it reads, and errors what it is told.

    Args:
        sessions: the sessions of the agent.
    """

    def __init__(self, sessions: AgentSessions) -> None:
        self._sessions = sessions

    async def list_programs(self, dataset: str = "", offset: int = 0) -> dict[str, Any]:
        """List the datasets of programs or, given the name of one, its programs, from an offset on."""
        return await self._sessions.programs(dataset, offset)

    async def list_actions(self, contains: str = "", offset: int = 0) -> dict[str, Any]:
        """List actions whose name or description contains a text, from an offset on.

        Other texts of the compiler's language are actions, too: for LLVM whole pipelines such as
        `function(sroa,instcombine)`, passes with parameters, and `default<Oz>`.
        """
        return await self._sessions.actions(contains, offset)

    async def list_observations(self, contains: str = "", offset: int = 0) -> dict[str, Any]:
        """List what can be observed and whose name or description contains a text, from an offset on."""
        return await self._sessions.observations(contains, offset)

    async def reset(self, program: str, session: str = "") -> dict[str, Any]:
        """Begin an episode with a program, such as `programs-v0/qsort`; in a new session unless one is named."""
        return await self._sessions.reset(program, session)

    async def step(self, session: str, actions: list[str]) -> dict[str, Any]:
        """Take actions one after the other; the reward is that of all of them together."""
        return await self._sessions.find(session).step(actions)

    async def undo(self, session: str, steps: int = 1) -> dict[str, Any]:
        """Take back the last calls of step."""
        return await self._sessions.find(session).undo(steps)

    async def expand(self, session: str, candidates: list[list[str]]) -> dict[str, Any]:
        """Say what each of several lists of actions would be rewarded with, without taking any."""
        return {"candidates": await self._sessions.find(session).expand(candidates)}

    async def observe(self, session: str, space: str, offset: int = 0) -> dict[str, Any]:
        """Observe the present program: for LLVM `Ir` is its text, `IrInstructionCount` its size.

        Long text is cut: `characters` says how much there is, and the next part begins at `next_offset`.
        """
        return await self._sessions.find(session).observe(space, offset)

    async def close(self, session: str) -> dict[str, Any]:
        """Close a session."""
        await self._sessions.close(session)
        return {"closed": session}


def mcp_server(sessions: AgentSessions) -> Any:
    """Return an `MCPServer` of the package `mcp` whose tools are an agent's sessions; they are closed when it ends.

    Raises:
        AiocgError: when `mcp` is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise AiocgError("an MCP server needs the package mcp, version 2: pip install 'aiocg[mcp]'") from error

    @contextlib.asynccontextmanager
    async def closing(_: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await sessions.close_all()

    instructions = INSTRUCTIONS.format(sessions=sessions.limits.sessions)
    server = MCPServer("aiocg", version=__version__, instructions=instructions, log_level="WARNING", lifespan=closing)
    tools = Tools(sessions)
    for tool in (
        tools.list_programs,
        tools.list_actions,
        tools.list_observations,
        tools.reset,
        tools.step,
        tools.undo,
        tools.expand,
        tools.observe,
        tools.close,
    ):
        server.add_tool(_answering(tool))
    return server
