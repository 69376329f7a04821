"""A state to come back to."""

from aiocg.episode import Episode
from aiocg.session import Session

__all__ = ["Snapshot"]


class Snapshot:
    """A state that `Env.snapshot` remembers, kept on the worker until the snapshot is dropped or closed."""

    def __init__(self, session: Session, episode: Episode) -> None:
        self.session = session
        self.episode = episode

    @property
    def closed(self) -> bool:
        """Was the snapshot closed?"""
        return self.session.closed

    def close(self) -> None:
        """Free the state on the worker."""
        self.session.close()
