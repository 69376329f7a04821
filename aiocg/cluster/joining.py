"""Nodes that join a cluster by themselves, with a token that is good for so many of them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aiocg.cluster.hosts import Host, HostsError
from aiocg.errors import NodeUnreachable
from aiocg.transport.errors import NotAdmittedError, ProtocolError, SecurityError
from aiocg.transport.joining import Join, Joined, Token, from_inviter_codec, from_joiner_codec
from aiocg.transport.security import KeyPair, ServerSecurity, check_key
from aiocg.transport.server import ServerChannel, key_of
from aiocg.transport.sockets import Channel

MAX_BYTES = 1 << 16  # of a frame

logger = logging.getLogger("aiocg.cluster")


@dataclass
class _Guest:
    """Whoever has a token.

    Attributes:
        name: what we call it.
        left: how many more nodes may join with the token.
    """

    name: str
    left: int


class Invitation:
    """Lets nodes join, until as many have as there are tokens for; a context manager.

    Attributes:
        address: where it listens.

    Args:
        bind: where to listen, `tcp://HOST:PORT`, port 0 for any free one.
        client: public key of the client whom the nodes are to let in.
        joined: called with each.
    """

    def __init__(self, bind: str, client: str, joined: Callable[[Host], None]) -> None:
        """Listen.

        Raises:
            AddressError: if the address cannot be bound.
        """
        self._client = client
        self._joined = joined
        self._answered: set[bytes] = set()
        self._own = KeyPair.generate()
        self._guests: dict[str, _Guest] = {}  # by public key
        self._changed = asyncio.Event()
        self._channel: ServerChannel[Joined, Join] = ServerChannel(
            bind,
            from_joiner_codec(),
            security=ServerSecurity(self._own, self._guests.__contains__),
            on_messages=self._received,
            on_error=self._malformed,
            max_frame_bytes=MAX_BYTES,
        )
        self.address = self._channel.address

    def token(self, address: str, count: int = 1, name: str = "") -> Token:
        """Return a token for so many nodes, with the address at which they reach us."""
        pair = KeyPair.generate()
        self._guests[pair.public] = _Guest(name, count)
        return Token(address, self._own.public, pair.secret)

    def withdraw(self, token: Token) -> bool:
        """Let nobody join with a token any more; return whether nodes could have."""
        self._changed.set()
        return self._guests.pop(KeyPair.from_secret(token.secret).public).left > 0

    @property
    def missing(self) -> list[str]:
        """The names of the tokens with which not all nodes have joined."""
        return [guest.name for guest in self._guests.values() if guest.left]

    async def complete(self) -> None:
        """Wait until all have joined."""
        while self.missing:
            self._changed.clear()
            await self._changed.wait()

    def _received(self, peer: bytes, messages: list[Join]) -> None:
        guest = self._guests.get(key_of(peer), _Guest("", 0))
        for message in messages:
            if peer in self._answered or not guest.left:
                continue
            try:
                check_key(message.public, "the key of a node")
                host = Host(message.address, message.public)
            except (SecurityError, HostsError) as error:
                logger.warning("node not admitted", extra={"cause": str(error)})
                continue
            guest.left -= 1
            self._answered.add(peer)
            self._joined(host)
            self._channel.send(peer, Joined(self._client))
            self._changed.set()

    def _malformed(self, peer: bytes, error: ProtocolError) -> None:
        logger.warning("malformed message", extra={"cause": str(error)})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._channel.close()


async def join(token: Token, address: str, public: str, *, timeout: float = 60.0) -> str:
    """Join a cluster as a node; return the public key of the client whom to let in.

    Args:
        token: the token.
        address: where clients reach the node.
        public: the node's public key.
        timeout: seconds to wait for an answer.

    Raises:
        NodeUnreachable: if there is no answer, or the token is used up.
        SecurityError: if the token is damaged.
    """
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def received(messages: list[Joined]) -> None:
        if not answer.done():
            answer.set_result(messages[0].client)

    def failed(error: Exception) -> None:
        if not answer.done():
            reason = "the token is used up" if isinstance(error, NotAdmittedError) else str(error)
            answer.set_exception(NodeUnreachable(token.address, reason))

    channel: Channel[Join, Joined] = Channel(
        token.address,
        from_inviter_codec(),
        on_messages=received,
        on_error=failed,
        security=token.security(),
        max_frame_bytes=MAX_BYTES,
    )
    try:
        channel.send(Join(address, public))
        async with asyncio.timeout(timeout):
            client = await answer
    except TimeoutError:
        raise NodeUnreachable(token.address, f"nobody who invites has answered within {timeout:g} s") from None
    finally:
        channel.close()
    check_key(client, "the client's public key")
    return client
