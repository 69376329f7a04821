"""An MCP server: the sessions of an agent as tools, after the Model Context Protocol."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiocg import __version__
from aiocg.agents.sessions import LONGEST_ERROR, AgentSessions, sayable
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.transport.errors import TransportError

__all__ = ["EXPECTED", "TOOLS", "answering", "mcp_server"]

EXPECTED = (AiocgError, DatasetError, TransportError)  # that a call may end with: their messages are for agents

LOOKING = ("list_programs", "list_actions", "list_observations")
TOOLS = (*LOOKING, "reset", "step", "undo", "expand", "observe", "close")
"""The methods of `AgentSessions` that an agent can call."""

INSTRUCTIONS = " ".join(Path(__file__).with_name("instructions.txt").read_text("utf-8").split())

Tool = Callable[..., Awaitable[dict[str, Any]]]


def answering(tool: Tool) -> Tool:
    """Let a tool answer with an error that the agent can read where something was wrong that has a message."""

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return await tool(*args, **kwargs)
        except EXPECTED as error:
            from mcp.server.mcpserver.exceptions import ToolError

            raise ToolError(sayable(str(error))[:LONGEST_ERROR]) from error

    return call


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
    for name in TOOLS:
        server.add_tool(answering(getattr(sessions, name)))
    return server
