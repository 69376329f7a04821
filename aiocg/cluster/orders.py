"""Nodes that whoever has invited them starts, and gives orders to."""

import asyncio
import shlex
import subprocess
from collections.abc import Iterable, Sequence

from aiocg.cluster.hosts import Host
from aiocg.errors import AiocgError, NodeUnreachable
from aiocg.host.threads import in_thread
from aiocg.node.client import security_of
from aiocg.node.connection import Connection
from aiocg.transport.control import Order
from aiocg.transport.security import ClientSecurity

NODE_TIMEOUT = 60.0  # seconds of silence that end a connection over which an order is given
START_TIMEOUT = 60.0  # seconds that a machine may take to start a node
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
            connection = Connection(host.address, security_of(host.address, keys, host.key), NODE_TIMEOUT)
        except NodeUnreachable as error:
            return str(error)
        try:
            await connection.attached()
            return await connection.order(order)
        except (NodeUnreachable, TimeoutError) as error:
            return str(error) or "it does not answer"
        finally:
            await connection.close()

    told = list(hosts)
    return dict(zip([host.address for host in told], await asyncio.gather(*map(give, told)), strict=True))


def starting(machine: str, aiocg: str, options: Sequence[str]) -> list[str]:
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
    command = starting(machine, aiocg, options)
    try:
        done = await in_thread(
            lambda: subprocess.run(
                command, input=token, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=START_TIMEOUT
            )
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AiocgError(f"{machine}: no node can be started there: {error}") from error
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip()
        raise AiocgError(f"{machine}: no node can be started there: {errors}")
