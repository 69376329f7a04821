"""Compilers as tools for language models and other agents: sessions with limits, and an MCP server over them.

`aiocg mcp` is the server; `mcp_server` makes one for a runtime of one's own (it needs `pip install 'aiocg[mcp]'`).
"""

from aiocg.agents.limits import Limits, Refused
from aiocg.agents.server import mcp_server
from aiocg.agents.session import AgentSession
from aiocg.agents.sessions import AgentSessions

__all__ = ["AgentSession", "AgentSessions", "Limits", "Refused", "mcp_server"]
