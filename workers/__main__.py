"""`python -P -m aiocg.workers KIND --address A --parent PID --status FD`: run one worker.

For a client on this machine, A is a socket in a private folder. For one elsewhere, A is `tcp://HOST:0`; then what is
secret comes through one inherited descriptor (`--security`), and the port that the worker got goes out by another
(`--announce`): arguments and the environment can be read by others on the machine.
"""

import argparse
import json
import signal
from importlib.metadata import entry_points

from aiocg.transport import limits
from aiocg.transport.channels import ReplyChannel
from aiocg.transport.security import WorkerKeys
from aiocg.transport.sockets import WorkerChannel
from aiocg.transport.status import StatusPage
from aiocg.transport.streams import WorkerStream
from aiocg.workers.compilation import CompilationSession
from aiocg.workers.host import Host
from aiocg.workers.limits import die_with_parent, disable_core_dumps, limit_address_space
from aiocg.workers.pace import PacedChannel


def find_compiler(kind: str) -> type[CompilationSession]:
    """Return the class that the entry-point group `aiocg.workers` names for a kind of worker.

    Raises:
        SystemExit: when no installed package offers that kind.
    """
    found = {point.name: point for point in entry_points(group="aiocg.workers")}
    if kind not in found:
        raise SystemExit(f"no worker of kind {kind!r} is installed; there are: {', '.join(sorted(found)) or 'none'}")
    compiler: type[CompilationSession] = found[kind].load()
    return compiler


def read_keys(descriptor: int) -> WorkerKeys:
    """Read what a node hands down, and close the descriptor.

    Raises:
        SecurityError: when it is something else.
    """
    with open(descriptor, "rb") as file:
        return WorkerKeys.decode(file.read())


def open_channel(address: str, keys: WorkerKeys | None, announce: int | None) -> ReplyChannel:
    """Listen at an address.

    Args:
        address: where.
        keys: for `tcp://`.
        announce: descriptor to which the address is written as one line, with the port that was free; it is closed.

    Raises:
        TransportError: when that is not possible.
    """
    channel: ReplyChannel
    if address.startswith("unix://"):
        channel = WorkerStream(address)
    elif keys is None:
        channel = WorkerChannel(address)
    else:
        largest = keys.limits.get("request_bytes", limits.MAX_FRAME_BYTES)
        channel = PacedChannel(
            address,
            keys.security(),
            max_frame_bytes=min(int(largest), limits.MAX_FRAME_BYTES),
            requests_per_second=keys.limits.get("requests_per_second", 0.0),
        )
    if announce is not None:
        with open(announce, "w", encoding="ascii") as pipe:
            pipe.write(f"{channel.address}\n")
    return channel


def main() -> None:
    """Parse the arguments that the supervisor gives and serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m aiocg.workers", description="Run one compiler worker.")
    parser.add_argument("kind", help="name in the entry-point group aiocg.workers, e.g. llvm")
    parser.add_argument("--address", required=True, help="where to listen, e.g. unix:///run/user/1/w0")
    parser.add_argument("--parent", required=True, type=int, help="process id whose death ends this worker")
    parser.add_argument("--status", required=True, type=int, help="inherited descriptor of the status page")
    parser.add_argument("--security", type=int, help="inherited descriptor with the keys, for tcp://")
    parser.add_argument("--announce", type=int, help="inherited descriptor that is told where the worker listens")
    parser.add_argument("--memory-limit", default=0, type=int, help="address space in bytes; 0 is no limit")
    parser.add_argument("--options", default="{}", help="JSON object for the compiler")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    disable_core_dumps()
    limit_address_space(arguments.memory_limit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle; it tells us to leave
    keys = read_keys(arguments.security) if arguments.security is not None else None
    channel = open_channel(arguments.address, keys, arguments.announce)
    max_sessions = int(keys.limits.get("sessions", 0)) if keys is not None else 0
    host = Host(arguments.kind, find_compiler(arguments.kind), channel, StatusPage(arguments.status), max_sessions)
    host.start(json.loads(arguments.options))
    host.run()
    channel.close()


if __name__ == "__main__":
    main()
