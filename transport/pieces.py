"""The messages by which the content of a program goes from one node to another. Pure."""

from typing import Annotated

import msgspec

from aiocg.transport.messages import Message

__all__ = ["Fetch", "Fetched", "Piece", "Read"]

_Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Key = Annotated[str, msgspec.Meta(min_length=40, max_length=40)]


class Fetch(Message, frozen=True):
    """Get the content of a program from another node, and keep it for `LoadStored`; answered by `Fetched`.

    Attributes:
        digest: its SHA-256.
        size: its size in bytes.
        address, key: of the other node.
        reader: the secret key with which that gives it away, from its `Attached`.
    """

    digest: _Digest
    size: _Count
    address: _Name
    key: _Key
    reader: _Key


class Read(Message, frozen=True):
    """Ask a node for a piece of the content of a program; answered by `Piece`. Only another node does.

    Attributes:
        digest: SHA-256 of the whole.
        offset: where the piece begins.
    """

    digest: _Digest
    offset: _Count


class Fetched(Message, frozen=True):
    """Answer to `Fetch`: whether the content is kept now."""

    digest: _Digest
    kept: bool


class Piece(Message, frozen=True):
    """Answer to `Read`; without bytes if there are none at that place, or the content is not kept."""

    digest: _Digest
    offset: _Count
    content: bytes
