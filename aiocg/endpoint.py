"""Where a worker on this machine listens: what it is told of that, and how to connect to it."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.streams import ClientStream

__all__ = ["Endpoint", "SocketFile"]


class Endpoint(Protocol):
    """A place to listen for one worker.

    Attributes:
        arguments: of the worker's process, that say where and how.
        descriptors: that it inherits for it.
    """

    arguments: list[str]
    descriptors: list[int]

    def inherited(self) -> None:
        """The process has been started: what was meant for it only is closed here."""

    def reachable(self) -> bool:
        """Say whether others can connect, once the worker listens."""

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""

    def close(self) -> None:
        """Free what is left, after the end of the process or when there is none; idempotent."""


class SocketFile:
    """A socket in a private folder, for a client on the same machine.

    Args:
        path: of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._address = f"unix://{path}"
        self.arguments = ["--address", self._address]
        self.descriptors: list[int] = []

    def inherited(self) -> None:
        """The process has been started."""

    def reachable(self) -> bool:
        """Say whether the socket is still there."""
        return os.path.exists(self._path)

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""
        return ClientStream(self._address, on_replies=on_replies, on_error=on_error)

    def close(self) -> None:
        """Remove the socket."""
        with contextlib.suppress(OSError):
            self._path.unlink()
