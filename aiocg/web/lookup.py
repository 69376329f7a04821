"""What a request is about."""

from starlette.requests import HTTPConnection

from aiocg.web.session import ExplorerSession
from aiocg.web.sessions import Sessions

__all__ = ["session_of", "sessions_of"]


def sessions_of(connection: HTTPConnection) -> Sessions:
    """Return the sessions of the application."""
    found: Sessions = connection.app.state.sessions
    return found


def session_of(connection: HTTPConnection, id: str) -> ExplorerSession:
    """Return a session.

    Raises:
        Refusal: when there is none of this id.
    """
    return sessions_of(connection).find(id)
