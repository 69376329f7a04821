"""Compilers as tools for language models and other agents: sessions with limits, and servers over them.

`aiocg mcp` is one for the Model Context Protocol; `mcp_server` makes it for a runtime of one's own (it needs
`pip install 'aiocg[mcp]'`). `aiocg openenv` is one for OpenEnv, and `aiocg.agents.openenv.openenv_app` makes it
(`pip install 'aiocg[openenv]'`).
"""

from aiocg.agents.server import mcp_server
from aiocg.agents.sessions import AgentSession, AgentSessions, Limits, Refused

__all__ = ["AgentSession", "AgentSessions", "Limits", "Refused", "mcp_server"]
