"""Whom a node lets in that has joined a cluster."""

from collections.abc import Mapping

OWNER = "whoever invited"


class Admitted:
    """The owner, who has invited the node and may give it orders, and those whom he names."""

    def __init__(self) -> None:
        self._owner = ""
        self._names: dict[str, str] = {}  # by public key; replaced, never changed, as several threads read it

    def joined(self, owner: str) -> None:
        """Let the owner in."""
        self._owner = owner
        self._names = {owner: OWNER}

    def named(self, clients: Mapping[str, str]) -> None:
        """Let in those whom the owner names: public keys by name."""
        self._names = {**{key: name for name, key in clients.items()}, self._owner: OWNER}

    def is_owner(self, key: str) -> bool:
        """Return whether the node takes orders from the owner of a key."""
        return key == self._owner != ""

    def names(self) -> dict[str, str]:
        """Return the names of all who are let in, by public key."""
        return self._names
