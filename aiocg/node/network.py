"""How a client reaches nodes and their workers: the seam at which a test puts a simulated network."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiocg.node.channel import Holding, NodeChannel
from aiocg.transport.channels import RequestChannel
from aiocg.transport.control import MAX_CONTROL_BYTES, FromClient, FromNode, from_node_codec
from aiocg.transport.messages import Reply
from aiocg.transport.security import ClientSecurity
from aiocg.transport.sockets import Channel


class ControlChannel(Protocol):
    """A channel to a node; see `Channel`."""

    closed: bool

    @property
    def connected(self) -> bool:
        """Whether the connection stands."""

    def send(self, message: FromClient, *, at_once: bool = False) -> None:
        """Queue a message."""

    def close(self) -> None:
        """Close the connection and drop what is queued."""


class Network:
    """TCP and ZeroMQ."""

    def control(
        self,
        address: str,
        security: ClientSecurity,
        on_messages: Callable[[list[FromNode]], None],
        on_error: Callable[[Exception], None],
    ) -> ControlChannel:
        """Open a channel to a node; see `Channel`."""
        return Channel[FromClient, FromNode](
            address,
            from_node_codec(),
            on_messages=on_messages,
            on_error=on_error,
            security=security,
            max_frame_bytes=MAX_CONTROL_BYTES,
        )

    def worker(
        self,
        address: str,
        holding: Holding,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
    ) -> RequestChannel:
        """Open a channel to a worker of a node; see `NodeChannel`."""
        return NodeChannel(address, holding, on_replies, on_error, security)

    async def check_port(self, host: str, port: int) -> None:
        """Connect to a port once.

        Raises:
            OSError: if that is not possible.
        """
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
