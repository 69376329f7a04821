"""Nodes that join a cluster by themselves with a token: inviting them, starting them, and giving them orders."""

import asyncio
import logging
import shlex
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from aiocg.cluster.hosts import Host, HostsError
from aiocg.errors import AiocgError, NodeUnreachable
from aiocg.host.threads import in_thread
from aiocg.node import NODE_TIMEOUT
from aiocg.node.client import security_of
from aiocg.node.connection import Connection
from aiocg.transport.control import Order
from aiocg.transport.errors import NotAdmittedError, ProtocolError, SecurityError
from aiocg.transport.joining import Join, Joined, Token, from_inviter_codec, from_joiner_codec
from aiocg.transport.linked_router import key_of
from aiocg.transport.security import ClientSecurity, KeyPair, ServerSecurity, check_key
from aiocg.transport.server import ServerChannel
from aiocg.transport.sockets import Channel

_MAX_BYTES = 1 << 16  # of a frame

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
            max_frame_bytes=_MAX_BYTES,
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
        max_frame_bytes=_MAX_BYTES,
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


_NODE_START_TIMEOUT = 60.0  # seconds that a machine may take to start a node
HERE = "localhost"


async def give_order(hosts: Iterable[Host], order: Order, keys: ClientSecurity | None = None) -> dict[str, str]:
    """Give nodes an order; return why each does not obey, "" if it does, by address.

    Args:
        hosts: the nodes, which joined with a token of ours.
        order: to retire, or to let others in.
        keys: our key pair; that in our key folder if None.
    """

    async def give(host: Host) -> str:
        try:
            connection = Connection(host.address, security_of(host.address, keys, host.key))
        except NodeUnreachable as error:
            return str(error)
        try:
            async with asyncio.timeout(NODE_TIMEOUT):
                await connection.attached()
                return await connection.order(order)
        except (NodeUnreachable, TimeoutError) as error:
            return str(error) or "it does not answer"
        finally:
            await connection.close()

    told = list(hosts)
    return dict(zip([host.address for host in told], await asyncio.gather(*map(give, told)), strict=True))


def _starting(machine: str, aiocg: str, options: Sequence[str]) -> list[str]:
    """Return the command that has a node started on a machine, which goes on when the command has ended.

    The node reads a token from the standard input of the command.

    Args:
        machine: as ssh knows it, such as `me@one.example`, or `localhost`.
        aiocg: path of `aiocg` there.
        options: further options of `aiocg serve`.
    """
    bind = "tcp://127.0.0.1:0" if machine == HERE else "tcp://0.0.0.0:0"
    node = shlex.join([aiocg, "serve", "--bind", bind, "--join", "-", *options])
    log = '"${XDG_STATE_HOME:-$HOME/.local/state}/aiocg"'
    # `exec` first, so that the node holds no copy of our pipes, for whose end we wait.
    line = f"umask 077; mkdir -p {log} || exit; exec 3<&0 >>{log}/node.log 2>&1; nohup {node} <&3 3<&- &"
    return ["sh", "-c", line] if machine == HERE else ["ssh", "-o", "BatchMode=yes", machine, line]


async def start(machine: str, token: bytes, aiocg: str = "aiocg", options: Sequence[str] = ()) -> None:
    """Have a node started on a machine; it joins when it is up.

    Args:
        machine: as ssh knows it, or `localhost`.
        token: what the node joins with, which crosses the connection as a stream and is no file there.
        aiocg: path of `aiocg` there.
        options: further options of `aiocg serve`.

    Raises:
        AiocgError: if the machine does not start it.
    """
    command = _starting(machine, aiocg, options)
    try:
        done = await in_thread(
            lambda: subprocess.run(
                command, input=token, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_NODE_START_TIMEOUT
            )
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AiocgError(f"{machine}: no node can be started there: {error}") from error
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip()
        raise AiocgError(f"{machine}: no node can be started there: {errors}")
