"""Forks workers from a process that has loaded their compiler, so that workers start at once.

The client orders a worker over an inherited connection, passing the descriptors of the worker's standard error and
status page, and receives its process id and later its exit status. A dead worker is reaped when the client says so, so
that its process id cannot be reused before. Workers die with the nursery, and the nursery with its client.

Each worker adopts its orphaned descendants, and the nursery adopts those of a dead worker, whatever their session or
process group. The nursery kills them before it reports the death.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from typing import Any, NamedTuple

from aiocg.workers.limits import adopt_orphans, die_with_parent

ORDER_BYTES = 1 << 20
ORPHAN_PATIENCE = 1.0  # seconds to wait for a dead worker's descendants to end


class Order(NamedTuple):
    """Where a worker should listen, and the descriptor of its status page."""

    address: str
    status: int


def serve(descriptor: int) -> Order:
    """Fork workers until the client closes the connection, then exit; in each worker, return its order.

    Raises:
        SystemExit: if there are several threads, as a fork would copy their locks without the threads.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a process with several threads cannot be forked")
    adopt_orphans()
    gc.freeze()  # the garbage collector does not touch these objects, so their pages stay shared
    nursery, client = os.getpid(), socket.socket(fileno=descriptor)
    watched: dict[int, int] = {}  # process ids of live workers, by pidfd
    workers: set[int] = set()  # process ids of all workers, including dead ones that are not reaped
    poller = select.poll()
    poller.register(client, select.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready in watched:
                poller.unregister(ready)
                os.close(ready)
                _end_orphans(workers)
                _tell(client, ended=(pid := watched.pop(ready)), status=_status(pid))
                continue
            content, descriptors, _, _ = socket.recv_fds(client, ORDER_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
            if not content:
                os._exit(0)
            order = json.loads(content)
            if "reap" in order:
                os.waitpid(order["reap"], 0)
                workers.discard(order["reap"])
                continue
            try:
                pid = os.fork()
            except OSError as error:
                _tell(client, error=error.errno)
            else:
                if not pid:
                    client.close()
                    for one in watched:
                        os.close(one)
                    return _become_worker(nursery, order, *descriptors)
                os.setpgid(pid, pid)  # the worker does this too; here, it is done before the client knows the pid
                workers.add(pid)
                watched[ended := os.pidfd_open(pid)] = pid
                poller.register(ended, select.POLLIN)
                _tell(client, started=pid)
            for one in descriptors:
                os.close(one)


def _tell(client: socket.socket, **message: Any) -> None:
    client.sendall(json.dumps(message).encode())


def _status(pid: int) -> int:
    """Return the exit status of a process that has ended, minus the signal if killed, without reaping it."""
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert result is not None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _end_orphans(workers: set[int]) -> None:
    """Kill and reap all children except workers, repeatedly, as killing a child makes its children ours."""
    patience = time.monotonic() + ORPHAN_PATIENCE
    while (orphans := _children() - workers) and time.monotonic() < patience:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reaped = [os.waitpid(pid, os.WNOHANG)[0] for pid in orphans]
        if not any(reaped):
            time.sleep(0.001)


def _children() -> set[int]:
    """Return the process ids of our children, zombies included."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # children of our only thread
            return set(map(int, file.read().split()))
    except FileNotFoundError:  # the kernel was built without CONFIG_PROC_CHILDREN
        return set()


def _become_worker(nursery: int, order: dict[str, Any], errors: int, status: int) -> Order:
    os.setpgid(0, 0)
    die_with_parent(nursery)
    adopt_orphans()
    os.dup2(errors, sys.stderr.fileno())
    os.close(errors)
    os.environ.clear()
    os.environ.update(order["environ"])
    tempfile.tempdir = None  # forget the nursery's, as the worker has its own TMPDIR
    return Order(order["address"], status)
