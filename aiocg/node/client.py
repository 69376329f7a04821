"""Workers on a node: how they are started, and processes with the same interface as local ones."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aiocg.errors import NodeUnreachable, WorkerStartError
from aiocg.host.launcher import Look
from aiocg.host.run_time import Stopwatch
from aiocg.node.attachment import Ended
from aiocg.node.channel import Holding
from aiocg.node.connection import CONNECT_TIMEOUT, TICK, Connection
from aiocg.transport.channels import RequestChannel
from aiocg.transport.control import Spawned
from aiocg.transport.errors import SecurityError
from aiocg.transport.keys import KeyFolder
from aiocg.transport.messages import Reply
from aiocg.transport.security import ClientSecurity

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec


def check_settings(spec: "EnvironmentSpec") -> None:
    """Check that an environment has no settings of its own, since a node's operator chooses what runs there.

    Raises:
        WorkerStartError: if it has some.
    """
    if "?" in spec.id:
        raise WorkerStartError(
            f"{spec.id} has settings, and on a node its operator chooses those (`aiocg serve --setting`): "
            "leave them out"
        )


def check_options(options: Mapping[str, Any]) -> dict[str, float]:
    """Return options for a compiler, if they can be sent to a node.

    Raises:
        WorkerStartError: for one that is not a number.
    """
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WorkerStartError(
                f"the option {name} is {value!r}, and only numbers can be sent to a node: its workers use the "
                "node's own compilers and folders"
            )
    return dict(options)


def security_of(address: str, keys: ClientSecurity | None, known: str = "") -> ClientSecurity:
    """Return the keys for a node: those given, or those in our key folder; `known` is the node's key, if not "".

    Raises:
        NodeUnreachable: if there are none.
    """
    if not address.startswith("tcp://"):
        raise NodeUnreachable(address, "this is not the address of a node; it must be tcp://HOST:PORT")
    try:
        if keys is not None:
            return ClientSecurity(keys.own, known) if known else keys
        folder = KeyFolder()
        return ClientSecurity(folder.pair(), known or folder.node(address))
    except (SecurityError, OSError) as error:
        raise NodeUnreachable(address, str(error)) from error


class NodeRefusal(WorkerStartError):
    """The node has no worker for us.

    Attributes:
        retry: seconds until it may have one, None for never.
    """

    def __init__(self, address: str, message: str, retry: float | None) -> None:
        self.retry = retry
        super().__init__(f"the node at {address} refuses: {message}")


async def start_worker(connection: Connection, kind: str, options: Mapping[str, float], memory_limit: int) -> Spawned:
    """Start a worker on a node.

    Raises:
        NodeUnreachable: if the node was given up, or the worker's port cannot be reached.
        NodeRefusal: if the node refuses.
        OSError: if the worker ends at once.
    """
    number = connection.spawn(kind, options, memory_limit)
    try:
        event = await connection.next_event(number)
        if isinstance(event, Spawned):
            await _check_port(connection, event)
            return event
    except BaseException:
        connection.forget(number)
        raise
    connection.forget(number)
    if connection.failure is not None:
        raise connection.failure
    if isinstance(event, Ended):
        raise OSError(f"the worker ended at once (status {event.status}): {event.stderr}")
    raise NodeRefusal(connection.address, event.message, event.retry)


async def _check_port(connection: Connection, up: Spawned) -> None:
    """Check that a worker's port can be reached, which a firewall may prevent although the node answers."""
    host = _host(connection.address).strip("[]")
    connecting = asyncio.ensure_future(connection.network.check_port(host, up.port))
    clock = asyncio.get_running_loop().time
    try:
        watch = Stopwatch(clock())
        while not connecting.done() and watch.passed(clock()) < CONNECT_TIMEOUT:
            await asyncio.wait([connecting], timeout=TICK)
        if not connecting.done():
            raise TimeoutError
        connecting.result()
    except OSError as error:  # TimeoutError is one
        if connection.look(up.number) is None:
            return  # the worker has ended or the node is silent, which is reported elsewhere
        raise NodeUnreachable(
            connection.address,
            f"it answers, but the port {up.port} of a worker does not ({error or 'timeout'}): open the firewall "
            "for the ports of `aiocg serve --worker-ports`",
        ) from error
    finally:
        connecting.cancel()


class NodeProcess:
    """A worker process on a node; see `WorkerProcess`."""

    def __init__(self, connection: Connection, up: Spawned, holding: Holding) -> None:
        self.pid = up.pid
        self._holding = holding
        self._connection = connection
        self._number = up.number
        self._address = f"tcp://{_host(connection.address)}:{up.port}"
        self._security = ClientSecurity(connection.security.own, up.key)
        self._ended: Ended | None = None

    def look(self) -> Look:
        """Return the latest look at the process."""
        if self._ended is not None:
            return self._ended.look
        return self._connection.look(self._number) or Look()

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker."""
        return self._connection.network.worker(self._address, self._holding, on_replies, on_error, self._security)

    def kill(self) -> None:
        """Kill the process and all its children; it may be dead already."""
        self._connection.kill(self._number)

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit status, minus the signal if killed."""
        if self._ended is None:
            event = await self._connection.next_event(self._number)
            assert isinstance(event, Ended)
            self._ended = event
        return self._ended.status

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""
        return self._ended.stderr if self._ended is not None else ""

    def close(self) -> None:
        """Forget the process."""
        self._connection.forget(self._number)


def _host(address: str) -> str:
    return address.removeprefix("tcp://").rpartition(":")[0]
