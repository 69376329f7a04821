"""`python -P -m aiocg.workers KIND --address A --parent PID --status FD`: run one worker.

For a client on this machine, A is a socket in a private folder. For a remote client, A is `tcp://HOST:0`; then the keys
come through an inherited descriptor (`--security`), and the worker writes its port to another one (`--announce`),
because arguments and environment variables are visible to other users of the machine.

With `--nursery FD` instead of address and status page, this is the process that workers are forked from; see `nursery`.
"""

import argparse
import json
import os
import signal
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.contents import ContentFolder
from aiocg.transport.worker_stream import WorkerStream
from aiocg.workers import nursery
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.host import Host, OwnPage
from aiocg.workers.limits import block_crash_signals, die_with_parent, disable_core_dumps, limit_address_space

OURS = {
    "gcc": "aiocg.workers.gcc.session:GccSession",
    "llvm": "aiocg.workers.llvm.session:LlvmSession",
    **dict.fromkeys(("llvm_evict", "llvm_inline", "llvm_priority"), "aiocg.workers.decisions.session:DecisionSession"),
    "loop_tool": "aiocg.workers.loops.tool.session:LoopToolSession",
    "loops": "aiocg.workers.loops.session:LoopsSession",
    "scripted": "aiocg.workers.scripted:ScriptedSession",
}
"""Our own entry points: reading those that are installed takes a third of a worker's start."""


def find_compiler(kind: str) -> type[CompilationSession]:
    """Return the class for a kind of worker, from the entry-point group `aiocg.workers`.

    Raises:
        SystemExit: if no installed package offers that kind.
    """
    if kind in OURS:
        module, _, name = OURS[kind].partition(":")
        ours: type[CompilationSession] = getattr(import_module(module), name)
        return ours
    from importlib.metadata import entry_points  # slow to import

    found = {point.name: point for point in entry_points(group="aiocg.workers")}
    if kind not in found:
        raise SystemExit(f"no worker of kind {kind!r} is installed; there are: {', '.join(sorted(found)) or 'none'}")
    compiler: type[CompilationSession] = found[kind].load()
    return compiler


def start_for_all(compiler: type[CompilationSession], options: Mapping[str, Any]) -> bool:
    """Start a compiler before workers are forked, if it can be shared; return whether it was started."""
    if not compiler.shareable:
        return False
    try:
        compiler.start(options)
    except CompilationError:
        return False  # each worker will report the error to its client
    return True


def listen(address: str, keys: int | None, announce: int | None) -> tuple[ReplyChannel, int, ContentFolder | None]:
    """Listen at an address; return the channel, the maximum number of sessions, and what is kept of programs.

    Args:
        address: the address.
        keys: descriptor with the keys, for `tcp://`.
        announce: descriptor to write the actual address to, for `tcp://`.

    Raises:
        TransportError: if the address cannot be used.
    """
    if keys is None:
        return WorkerStream(address), 0, None
    from aiocg.workers import network  # imports libzmq, which streams do not need

    return network.listen(address, keys, announce)


def main() -> None:
    """Parse the supervisor's arguments, and serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m aiocg.workers", description="Run one compiler worker.")
    parser.add_argument("kind", help="name in the entry-point group aiocg.workers, e.g. llvm")
    parser.add_argument("--address", help="where to listen, e.g. ipc:///run/user/1/w0")
    parser.add_argument("--parent", required=True, type=int, help="process id whose death ends this worker")
    parser.add_argument("--status", type=int, help="inherited descriptor of the status page")
    parser.add_argument("--security", type=int, help="inherited descriptor with the keys, for tcp://")
    parser.add_argument("--announce", type=int, help="inherited descriptor to write the worker's address to")
    parser.add_argument("--nursery", type=int, help="inherited connection over which workers are ordered")
    parser.add_argument("--memory-limit", default=0, type=int, help="address space in bytes; 0 is no limit")
    parser.add_argument("--unset", action="append", default=[], help="variable to keep from what this worker starts")
    parser.add_argument("--options", default="{}", help="JSON object for the compiler")
    block_crash_signals()  # before there are other threads, and in the nursery for all its workers
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    disable_core_dumps()
    limit_address_space(arguments.memory_limit)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C, and ends us
    for name in arguments.unset:
        os.environ.pop(name, None)
    options, started, order = json.loads(arguments.options), False, (arguments.address, arguments.status)
    if arguments.nursery is not None:
        started = start_for_all(find_compiler(arguments.kind), options)
        order = nursery.serve(arguments.nursery)  # returns in each worker
    address, status = order
    channel, max_sessions, contents = listen(address, arguments.security, arguments.announce)
    page = OwnPage(status)
    host = Host(arguments.kind, find_compiler(arguments.kind), channel, page, max_sessions, contents)
    if started:
        page.end()  # changes the sequence number, which shows that we are up
    else:
        host.start(options)
    try:
        host.run()
    except Exception:
        page.end()  # the channel failed, so an earlier request is to blame, not the one being executed
        raise
    channel.close()


if __name__ == "__main__":
    main()
