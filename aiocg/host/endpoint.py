"""Where a worker on this machine listens, and how to connect to it."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.streams import ClientStream


class Endpoint(Protocol):
    """Where one worker listens.

    Attributes:
        arguments: command-line arguments that tell the worker where and how to listen.
        descriptors: file descriptors that the worker inherits for this.
    """

    arguments: list[str]
    descriptors: list[int]

    def inherited(self) -> None:
        """Close what only the worker needs, after its process has been started."""

    def reachable(self) -> bool:
        """Return whether clients can connect, once the worker listens."""

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""

    def close(self) -> None:
        """Clean up, after the process has ended or could not be started; idempotent."""


class SocketFile:
    """A socket in a private folder, for a client on the same machine.

    Attributes:
        address: address of the socket.

    Args:
        path: path of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"ipc://{path}"
        self.arguments = ["--address", self.address]
        self.descriptors: list[int] = []

    def inherited(self) -> None:
        """Do nothing: the worker inherits no descriptors for its socket."""

    def reachable(self) -> bool:
        """Return whether the socket still exists."""
        return os.path.exists(self._path)

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet."""
        return ClientStream(self.address, on_replies=on_replies, on_error=on_error)

    def close(self) -> None:
        """Remove the socket."""
        with contextlib.suppress(OSError):
            self._path.unlink()
