"""The exchange by which a node joins a cluster with a token."""

import os
import stat
import sys
from pathlib import Path
from typing import Annotated, Self

import msgspec

from aiocg.transport.arrays import Array
from aiocg.transport.codec import Codec
from aiocg.transport.errors import SecurityError
from aiocg.transport.messages import Message
from aiocg.transport.security import ClientSecurity, KeyPair, check_key

_Text = Annotated[str, msgspec.Meta(max_length=300)]


class Join(Message, frozen=True):
    """A node wants to belong to the cluster.

    Attributes:
        address: where clients reach it, `tcp://HOST:PORT`.
        public: its public key.
    """

    address: _Text
    public: _Text


class Joined(Message, frozen=True):
    """The node belongs to the cluster.

    Attributes:
        client: public key of the client whom it is to let in.
    """

    client: _Text


def from_joiner_codec() -> Codec[Join]:
    """Return a codec for what nodes send."""
    return Codec(Join, Array)


def from_inviter_codec() -> Codec[Joined]:
    """Return a codec for what the inviting side sends."""
    return Codec(Joined, Array)


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node needs to join; whoever has it can, until it is used up.

    Attributes:
        address: where the inviting side listens.
        server: its public key.
        secret: the secret key of a pair that was made for this.
    """

    address: str
    server: str
    secret: str

    def __repr__(self) -> str:
        """Omit the secret key."""
        return f"Token({self.address!r})"

    def write(self, path: Path) -> None:
        """Write a new file that nobody else can read.

        Raises:
            SecurityError: if it cannot be written, or exists.
        """
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SecurityError(f"the token cannot be written to {path}: {error.strerror}") from None
        with open(descriptor, "wb") as file:
            file.write(self.encoded())

    def encoded(self) -> bytes:
        """Return the content of such a file."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that nobody else can read; `-` is standard input.

        Raises:
            SecurityError: if others can, or it is no token; the message does not quote it.
        """
        try:
            if str(path) == "-":
                mode, content = 0, sys.stdin.buffer.read(4096)
            else:
                with path.open("rb") as file:
                    mode, content = os.fstat(file.fileno()).st_mode, file.read(4096)
        except OSError as error:
            raise SecurityError(f"the token {path} cannot be read: {error.strerror}") from None
        if mode & 0o077:
            raise SecurityError(
                f"others can read the token {path} (its mode is {stat.S_IMODE(mode):04o}): make another one, and "
                "copy it with mode 0600"
            )
        try:
            token = msgspec.json.decode(content, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SecurityError(f"{path} is no token: `aiocg cluster invite` did not write it") from None
        check_key(token.server, "the public key in the token")
        return token

    def security(self) -> ClientSecurity:
        """Return the keys of the connection.

        Raises:
            SecurityError: if they are damaged.
        """
        return ClientSecurity(KeyPair.from_secret(self.secret), self.server)
