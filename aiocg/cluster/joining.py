"""Nodes that join a cluster by themselves, with a token that is good for so many of them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Self

from aiocg.cluster.hosts import Host, HostsError
from aiocg.errors import NodeUnreachable
from aiocg.transport.errors import NotAdmittedError, ProtocolError, SecurityError
from aiocg.transport.joining import Join, Joined, Token, from_inviter_codec, from_joiner_codec
from aiocg.transport.security import KeyPair, ServerSecurity, check_key
from aiocg.transport.server import ServerChannel
from aiocg.transport.sockets import Channel

MAX_BYTES = 1 << 16  # of a frame

logger = logging.getLogger("aiocg.cluster")


class Invitation:
    """Lets nodes join, until as many have as were invited; a context manager.

    Attributes:
        address: where it listens.

    Args:
        bind: where to listen, `tcp://HOST:PORT`, port 0 for any free one.
        client: public key of the client whom the nodes are to let in.
        count: how many nodes may join.
        joined: called with each.
    """

    def __init__(self, bind: str, client: str, count: int, joined: Callable[[Host], None]) -> None:
        """Listen.

        Raises:
            AddressError: if the address cannot be bound.
        """
        self._client = client
        self._joined = joined
        self._left = count
        self._answered: set[bytes] = set()
        self._own, self._guest = KeyPair.generate(), KeyPair.generate()
        self._complete = asyncio.Event()
        self._channel: ServerChannel[Joined, Join] = ServerChannel(
            bind,
            from_joiner_codec(),
            security=ServerSecurity.for_clients(self._own, [self._guest.public]),
            on_messages=self._received,
            on_error=self._malformed,
            max_frame_bytes=MAX_BYTES,
        )
        self.address = self._channel.address

    def token(self, address: str) -> Token:
        """Return the token, with the address at which nodes reach us."""
        return Token(address, self._own.public, self._guest.secret)

    async def complete(self) -> None:
        """Wait until all have joined."""
        await self._complete.wait()

    def _received(self, peer: bytes, messages: list[Join]) -> None:
        for message in messages:
            if peer in self._answered or self._left <= 0:
                continue
            try:
                check_key(message.public, "the key of a node")
                host = Host(message.address, message.public)
            except (SecurityError, HostsError) as error:
                logger.warning("node not admitted", extra={"cause": str(error)})
                continue
            self._left -= 1
            self._answered.add(peer)
            self._joined(host)
            self._channel.send(peer, Joined(self._client))
            if not self._left:
                self._complete.set()

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
