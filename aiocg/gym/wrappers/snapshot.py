"""A state to come back to, with what wrappers know of it."""

from typing import Any

from aiocg.snapshot import Snapshot

__all__ = ["WrapperSnapshot", "snapshot_below"]


class WrapperSnapshot:
    """What `CompilerEnvWrapper.snapshot` remembers. It never changes, so that copies are the snapshot itself.

    Attributes:
        below: the snapshot of what is wrapped.
        wrapper: class of the wrapper.
        kept: attributes of the wrapper that belong to the episode.
    """

    def __init__(self, below: "Snapshot | WrapperSnapshot", wrapper: type, kept: dict[str, Any]) -> None:
        self.below = below
        self.wrapper = wrapper
        self.kept = kept

    @property
    def bare(self) -> Snapshot:
        """The snapshot of the environment itself."""
        return self.below.bare if isinstance(self.below, WrapperSnapshot) else self.below

    @property
    def closed(self) -> bool:
        """Was the snapshot closed?"""
        return self.bare.closed

    def close(self) -> None:
        """Free the state on the worker."""
        self.bare.close()

    def __deepcopy__(self, memo: object) -> "WrapperSnapshot":
        return self


def snapshot_below(
    snapshot: "Snapshot | WrapperSnapshot", mine: bool, to_wrapper: bool
) -> "Snapshot | WrapperSnapshot":
    """Return what a wrapper hands on of a snapshot that it is to restore.

    Args:
        snapshot: what it was given.
        mine: the wrapper, or one like it, has made the snapshot.
        to_wrapper: what is below is a wrapper, which may know its part.
    """
    if not isinstance(snapshot, WrapperSnapshot):
        return snapshot
    if not to_wrapper:
        return snapshot.bare
    return snapshot.below if mine else snapshot
