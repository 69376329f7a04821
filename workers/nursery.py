"""Forks workers from a process that has loaded their compiler, so that workers start at once.

The client orders a worker over an inherited connection, passing the descriptors of the worker's standard error and
status page, and receives its process id and later its exit status. A dead worker is reaped when the client says so, so
that its process id cannot be reused before. Workers die with the nursery, and the nursery with its client.

The client may share the nursery: then other processes connect to a socket of its, and order workers in the same way.
Those of a process that is gone are killed.

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
from collections.abc import Collection
from typing import Any, NamedTuple

from aiocg.workers.limits import adopt_orphans, children, die_with_parent

ORDER_BYTES = 1 << 20
ORPHAN_PATIENCE = 1.0  # seconds to wait for a dead worker's descendants to end


class _Order(NamedTuple):
    """Where a worker should listen, and the descriptor of its status page."""

    address: str
    status: int


def serve(descriptor: int) -> _Order:
    """Fork workers until the client closes the connection, then exit; in each worker, return its order.

    Raises:
        SystemExit: if there are several threads, as a fork would copy their locks without the threads.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a process with several threads cannot be forked")
    adopt_orphans()
    gc.freeze()  # the garbage collector does not touch these objects, so their pages stay shared
    return _Nursery(socket.socket(fileno=descriptor)).serve()


class _Nursery:
    """What a nursery knows of its workers and clients."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._pid = os.getpid()
        self._poller = select.poll()
        self._clients: dict[int, socket.socket] = {}  # by descriptor
        self._listeners: dict[int, socket.socket] = {}
        self._watched: dict[int, int] = {}  # process ids of live workers, by pidfd
        self._workers: dict[int, socket.socket] = {}  # who ordered each, dead ones that are not reaped included
        self._add(owner, self._clients)

    def _add(self, end: socket.socket, known: dict[int, socket.socket]) -> None:
        known[end.fileno()] = end
        self._poller.register(end, select.POLLIN)

    def serve(self) -> _Order:
        """Do what clients say; return in each worker."""
        while True:
            for ready, _ in self._poller.poll():
                if ready in self._watched:
                    self._ended(ready)
                elif ready in self._listeners:
                    with contextlib.suppress(OSError):  # whoever it was has gone
                        guest = self._listeners[ready].accept()[0]
                        guest.setblocking(False)
                        self._add(guest, self._clients)
                elif (order := self._read(self._clients[ready])) is not None:
                    return order

    def _read(self, client: socket.socket) -> _Order | None:
        """Carry out what a client says; return the order in the worker that it asked for."""
        try:
            content, descriptors, _, _ = socket.recv_fds(client, ORDER_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except OSError:
            content, descriptors = b"", []
        if not content:
            self._dismiss(client)
            return None
        order = json.loads(content)
        if "reap" in order:
            if self._workers.get(order["reap"]) is client:
                self._reap(order["reap"])
        elif "share" in order:
            self._add(socket.socket(fileno=descriptors.pop()), self._listeners)
        else:
            try:
                pid = os.fork()
            except OSError as error:
                _tell(client, error=error.errno)
            else:
                if not pid:
                    for one in (*self._clients.values(), *self._listeners.values()):
                        one.close()
                    for pidfd in self._watched:
                        os.close(pidfd)
                    return _become_worker(self._pid, order, *descriptors)
                os.setpgid(pid, pid)  # the worker does this too; here, it is done before the client knows the pid
                self._workers[pid] = client
                self._watched[ended := os.pidfd_open(pid)] = pid
                self._poller.register(ended, select.POLLIN)
                _tell(client, started=pid)
        for left in descriptors:
            os.close(left)
        return None

    def _ended(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        os.close(pidfd)
        _end_orphans(self._workers.keys())
        pid = self._watched.pop(pidfd)
        client = self._workers[pid]
        if client.fileno() in self._clients:
            _tell(client, ended=pid, status=_status(pid))
        else:
            self._reap(pid)

    def _reap(self, pid: int) -> None:
        os.waitpid(pid, 0)
        del self._workers[pid]

    def _dismiss(self, client: socket.socket) -> None:
        """Kill the workers of a client that is gone; they are reaped when they have ended."""
        if client is self._owner:
            os._exit(0)
        self._poller.unregister(client)
        del self._clients[client.fileno()]
        client.close()
        live = set(self._watched.values())
        for pid in [pid for pid, whose in self._workers.items() if whose is client]:
            if pid in live:
                os.killpg(pid, signal.SIGKILL)
            else:
                self._reap(pid)


def _tell(client: socket.socket, **message: Any) -> None:
    try:
        client.send(json.dumps(message).encode())
    except OSError:  # it is gone, or reads nothing and will not learn what it must know
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _status(pid: int) -> int:
    """Return the exit status of a process that has ended, minus the signal if killed, without reaping it."""
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert result is not None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _end_orphans(workers: Collection[int]) -> None:
    """Kill and reap all children except workers, repeatedly, as killing a child makes its children ours."""
    patience = time.monotonic() + ORPHAN_PATIENCE
    while (orphans := children().difference(workers)) and time.monotonic() < patience:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reaped = [os.waitpid(pid, os.WNOHANG)[0] for pid in orphans]
        if not any(reaped):
            time.sleep(0.001)


def _become_worker(nursery: int, order: dict[str, Any], errors: int, status: int) -> _Order:
    os.setpgid(0, 0)
    die_with_parent(nursery)
    adopt_orphans()
    os.dup2(errors, sys.stderr.fileno())
    os.close(errors)
    os.environ.clear()
    os.environ.update(order["environ"])
    tempfile.tempdir = None  # forget the nursery's, as the worker has its own TMPDIR
    return _Order(order["address"], status)
