"""`python -P -m aiocg.workers KIND --address A --parent PID --status FD`: run one worker.

For a client on this machine, A is a socket in a private folder. For one elsewhere, A is `tcp://HOST:0`; then what is
secret comes through one inherited descriptor (`--security`), and the port that the worker got goes out by another
(`--announce`): arguments and the environment can be read by others on the machine.
"""

import argparse
import json
import signal
from importlib.metadata import entry_points

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.status import StatusPage
from aiocg.transport.worker_stream import WorkerStream
from aiocg.workers.compilation import CompilationSession
from aiocg.workers.host import Host
from aiocg.workers.limits import die_with_parent, disable_core_dumps, limit_address_space


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


def listen(address: str, keys: int | None, announce: int | None) -> tuple[ReplyChannel, int]:
    """Listen at an address; return the channel, and how many sessions there may be, 0 for any number.

    Args:
        address: where.
        keys: descriptor with the keys, for `tcp://`.
        announce: descriptor that is told where, for `tcp://`.

    Raises:
        TransportError: when that is not possible.
    """
    if keys is None:
        return WorkerStream(address), 0
    from aiocg.workers import network  # ZeroMQ costs a worker on this machine time and memory

    return network.listen(address, keys, announce)


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
    channel, max_sessions = listen(arguments.address, arguments.security, arguments.announce)
    host = Host(arguments.kind, find_compiler(arguments.kind), channel, StatusPage(arguments.status), max_sessions)
    host.start(json.loads(arguments.options))
    host.run()
    channel.close()


if __name__ == "__main__":
    main()
