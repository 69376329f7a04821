"""Remembered states: forks of a session that keep a state on the worker."""

from aiocg.env.episode import Episode
from aiocg.errors import EnvClosed, ResetNeeded
from aiocg.fleet.session import Session

__all__ = ["Snapshot", "fork_into"]


class Snapshot:
    """A state that `Env.snapshot` remembers, kept on the worker until the snapshot is dropped or closed."""

    def __init__(self, session: Session, episode: Episode) -> None:
        self.session = session
        self.episode = episode

    @property
    def closed(self) -> bool:
        """Was the snapshot closed?"""
        return self.session.closed

    def check(self) -> None:
        """Check that the state can still be restored.

        Raises:
            EnvClosed: if the snapshot was closed.
            ResetNeeded: if the worker died and the state could not be rebuilt.
        """
        if self.session.closed:
            raise EnvClosed("this snapshot was closed")
        if self.session.error is not None:
            raise ResetNeeded(f"this snapshot could not be kept: {self.session.error}")

    def close(self) -> None:
        """Free the state on the worker."""
        self.session.close()


async def fork_into(child: Session, session: Session, episode: Episode) -> Episode:
    """Give a new session the state of another, and return a copy of that one's episode; seldom waits."""
    if session.fork_ahead(child):
        return episode.copy()
    copy: Episode = await session.fork(child, lambda reply: episode.copy())
    return copy
