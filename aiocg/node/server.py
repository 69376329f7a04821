"""The node: listens for clients, starts and ends workers as `leases` decides, and leaves nothing behind."""

import asyncio
import contextlib
import logging
import math
import os
import resource
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync as to_thread

from aiocg.errors import AiocgError
from aiocg.host.folder import RuntimeFolder
from aiocg.host.launcher import Look
from aiocg.host.local import LocalLauncher, LocalProcess
from aiocg.host.threads import Tasks
from aiocg.node._contents import Contents
from aiocg.node.leases import Command, End, Get, Leases, Obey, Policy, Send, Start
from aiocg.node.limits import Limits, LimitsTable
from aiocg.registry import environments
from aiocg.transport.control import (
    MAX_CONTROL_BYTES,
    Authorize,
    Fetched,
    FromNode,
    FromPeer,
    Read,
    Refused,
    Retire,
    from_peer_codec,
)
from aiocg.transport.errors import ProtocolError, TransportError
from aiocg.transport.linked_router import key_of
from aiocg.transport.messages import Reply
from aiocg.transport.security import KeyPair, ServerSecurity, WorkerKeys
from aiocg.transport.server import ServerChannel
from aiocg.transport.sockets import ClientChannel


class NetworkEndpoint:
    """A port of this machine that one client may connect to.

    Attributes:
        public: the worker's public key, which the client must know.

    Args:
        port: port to listen on, 0 for any free port.
        contents: path of the folder where the content of programs is kept.
    """

    def __init__(self, host: str, port: int, client: str, limits: Mapping[str, float], contents: str = "") -> None:
        pair = KeyPair.generate()
        self.public = pair.public
        self._open: set[int] = set()
        handed = WorkerKeys(pair.secret, client, dict(limits), os.fsencode(contents)).encode()
        try:
            keys, pen = self._pipe()
            os.write(pen, handed)  # far less than a pipe holds
            self._close(pen)
            self._ear, mouth = self._pipe()
        except BaseException:
            self.close()
            raise
        self._handed = (keys, mouth)
        self.descriptors = [keys, mouth]
        self.arguments = ["--address", f"tcp://{host}:{port}", "--security", str(keys), "--announce", str(mouth)]

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def inherited(self) -> None:
        """Close what only the worker needs, after its process has been started."""
        for descriptor in self._handed:
            self._close(descriptor)

    async def port(self) -> int:
        """Wait until the worker listens; return its port.

        Raises:
            OSError: if the worker ends before that.
        """
        reader = asyncio.StreamReader()
        self._open.discard(self._ear)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._ear, "rb", 0)
        )
        try:
            line = await reader.readline()
        finally:
            transport.close()
        if not line.endswith(b"\n"):
            raise OSError("the worker ended before it listened")
        return int(line.rpartition(b":")[2])

    def reachable(self) -> bool:
        """Return True: unlike a socket file, a port cannot be removed."""
        return True

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> ClientChannel:
        """Do not call: only the client may connect."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is still open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)


OWNER = "whoever invited"


class Admitted:
    """The owner, who has invited the node and may give it orders, and those whom he names."""

    def __init__(self) -> None:
        self._owner = ""
        self._names: dict[str, str] = {}  # by public key; replaced, never changed, as several threads read it

    def joined(self, owner: str) -> None:
        """Let the owner in."""
        self._owner = owner
        self._names = {owner: OWNER}

    def named(self, clients: Mapping[str, str]) -> None:
        """Let in those whom the owner names: public keys by name."""
        self._names = {**{key: name for name, key in clients.items()}, self._owner: OWNER}

    def is_owner(self, key: str) -> bool:
        """Return whether the node takes orders from the owner of a key."""
        return key == self._owner != ""

    def names(self) -> dict[str, str]:
        """Return the names of all who are let in, by public key."""
        return self._names


GROWTH = 512 << 20  # bytes of growth that raise an alarm
RELIEF = 2.0  # seconds after an alarm in which memory may be freed

_STATM = Path("/proc/self/statm")


def _peak() -> int:
    """Return the most resident memory that the process has had, in bytes; far cheaper than what it has now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class MemoryWatch:
    """Detects abnormal growth of this process.

    A ZeroMQ message may have any number of frames and is delivered only when complete, so an admitted client that
    never ends a message fills the node's memory. Its connection cannot be identified, but as links survive their
    connections, all connections can be cut.
    """

    def __init__(self) -> None:
        self._usual = self.resident()
        self._relieved: float | None = None  # when to measure the effect of an alarm

    @staticmethod
    def resident() -> int:
        """Return the resident memory of the process in bytes; where the system does not say it, the most there was."""
        if not _STATM.exists():
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return most if sys.platform == "darwin" else most << 10
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()

    def alarmed(self, now: float) -> bool:
        """Return whether the process has grown too much since its start or the last alarm.

        Memory that is not freed after an alarm counts as normal from then on. If all descriptors are in use, because
        strangers hold many connections open, memory cannot be measured, and there is no alarm.
        """
        with contextlib.suppress(OSError):
            return self._look(now)
        return False

    def _look(self, now: float) -> bool:
        if self._relieved is not None:
            if now < self._relieved:
                return False
            self._usual, self._relieved = max(self._usual, self.resident()), None
        if _peak() <= self._usual + GROWTH or self.resident() <= self._usual + GROWTH:
            return False
        self._relieved = now + RELIEF
        return True


_SMOOTHING = 0.1  # weight of the latest look in the moving average; there are 20 looks per second
STEP = 1.25  # by which a higher nice value divides a process's weight
_NICEST = 19


class Shares:
    """Nice values from the average number of busy workers of each client.

    The system shares processors between processes, so a client with sixteen busy workers would get sixteen times the
    share of a client with one. To correct that, the workers of busier clients get higher nice values, so that the busy
    workers of each client have the same total weight.
    """

    def __init__(self) -> None:
        self._busy: dict[str, float] = {}

    def looked(self, busy: Counter[str]) -> None:
        """Record the number of busy workers of each client, by its key."""
        mean = {
            key: self._busy.get(key, 0.0) * (1 - _SMOOTHING) + busy[key] * _SMOOTHING for key in {*self._busy, *busy}
        }
        self._busy = {key: value for key, value in mean.items() if value > _SMOOTHING / 2}

    def nice(self, key: str) -> int:
        """Return the nice value for each worker of a client: 0 for the client with the fewest busy ones."""
        fewest = max(1.0, min(self._busy.values(), default=1.0))
        return min(_NICEST, max(0, round(math.log(max(1.0, self._busy.get(key, 0.0)) / fewest, STEP))))


TICK = 0.05  # seconds between looks at the workers
START_PATIENCE = 60.0  # seconds that a worker may take until it listens
_KEYS_INTERVAL = 1.0  # seconds between reads of the authorised keys
MOST_UNREAD = 32 << 20  # bytes kept for nodes that read with one key, beyond which they get nothing more
END_PATIENCE = 10.0  # seconds that killed workers may take to end

logger = logging.getLogger("aiocg.node")


def installed_kinds() -> frozenset[str]:
    """Return the kinds of workers that installed packages offer."""
    return frozenset(point.name for point in entry_points(group="aiocg.workers"))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a node.

    Attributes:
        address: where to listen, `tcp://HOST:PORT`; workers listen on the same host.
        authorised: returns the current names of the authorised clients, by public key.
        ports: ports for workers; any free ports if empty.
        options: options for the compilers, in addition to the defaults.
        environ: environment variables for workers, in addition to ours.
        neighbours: get programs of clients from their other nodes, too.
        admitted: whom the node obeys, and lets in as he says; None if it has joined no cluster.
    """

    address: str
    keys: KeyPair
    authorised: Callable[[], Mapping[str, str]]
    policy: Policy = field(default_factory=Policy)
    limits: LimitsTable = field(default_factory=LimitsTable)
    ports: range = range(0)
    options: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    neighbours: bool = True
    admitted: Admitted | None = None


class Node:
    """A node, which serves until it is told to stop; `address` has the actual port."""

    def __init__(self, settings: Settings, folder: RuntimeFolder) -> None:
        """Listen; see `open`."""
        self._settings = settings
        self._folder = folder
        self._names = dict(settings.authorised())
        self._new_names: dict[str, str] = {}  # of clients admitted since the last read of the keys
        self._processes: dict[int, LocalProcess] = {}
        self._condemned: set[int] = set()  # workers to kill as soon as they have started
        self._tasks = Tasks()
        self._ports: dict[int, int] = {}  # of workers, if we choose them
        self._heard: dict[bytes, float] = {}
        self._read_keys = time.monotonic()
        self._stopping = asyncio.Event()
        self._memory = MemoryWatch()
        self._shares = Shares()
        self._contents = Contents(folder.path / "contents", self._limits_of, neighbours=settings.neighbours)
        node = secrets.token_hex(16)
        self.leases = Leases(settings.policy, self._limits_of, node, self._obeys, self._contents.reader)
        self._channel: ServerChannel[FromNode, FromPeer] = ServerChannel(
            settings.address,
            from_peer_codec(),
            security=ServerSecurity(settings.keys, self._admits),
            on_messages=self._received,
            on_error=self._malformed,
            max_frame_bytes=MAX_CONTROL_BYTES,
        )
        self.address = self._channel.address
        self._host = settings.address.removeprefix("tcp://").rpartition(":")[0]

    @classmethod
    async def open(cls, settings: Settings) -> "Node":
        """Make a node that listens.

        Raises:
            AddressError, SecurityError: if it cannot listen.
            WorkerStartError: if no folder for temporary files can be made.
        """
        folder = await RuntimeFolder.create()
        try:
            return cls(settings, folder)
        except BaseException:
            await folder.close()
            raise

    @property
    def folder(self) -> Path:
        """The private folder for the workers' temporary files; it is removed at the end."""
        return self._folder.path

    # --------------------------------------------------------------------------------------------- clients

    @property
    def refused(self) -> int:
        """Number of connections refused."""
        return self._channel.refused

    def name_of(self, key: str) -> str:
        """Return the name under which a key is authorised, or the key itself if it is not any more."""
        return self._names.get(key) or self._new_names.get(key, key)

    def _admits(self, key: str) -> bool:
        """Return whether the owner of a key, even one authorised just now, may connect; called in any thread."""
        if key in self._names or self._contents.client(key) is not None:
            return True
        name = self._settings.authorised().get(key)
        if name is not None:
            self._new_names[key] = name
        return name is not None

    def _obeys(self, key: str) -> bool:
        return self._settings.admitted is not None and self._settings.admitted.is_owner(key)

    def _limits_of(self, key: str) -> Limits:
        return self._settings.limits.of(self.name_of(key))

    def _received(self, peer: bytes, messages: list[FromPeer]) -> None:
        now, key = time.monotonic(), key_of(peer)
        self._heard[peer] = now
        before = set(self.leases.leases)
        client = self._contents.client(key)  # if this is another node, which may only read
        for message in messages[: self.leases.hear(key, len(messages), now)]:
            if isinstance(message, Read):
                if client is not None and self._channel.kept_bytes(key) < MOST_UNREAD:
                    self._send(peer, self._contents.read(client, message))
            elif client is None:
                self._perform(self.leases.received(peer, key, message, now))
        self._settle(before, "it left")

    def _malformed(self, peer: bytes, error: ProtocolError) -> None:
        logger.warning("malformed message", extra={"client": self.name_of(key_of(peer)), "cause": str(error)})
        self._send(peer, Refused("protocol", f"the node cannot read this: {error}"))

    def _settle(self, before: Iterable[tuple[str, str]], cause: str) -> None:
        """Log the clients that have come since `before`, and those that have gone; keep nothing for the latter."""
        for what, lease, why in (
            *(("client attached", one, None) for one in self.leases.leases.keys() - set(before)),
            *(("client gone", one, cause) for one in set(before) - self.leases.leases.keys()),
        ):
            logger.info(what, extra={"client": self.name_of(lease[0]), "instance": lease[1], "cause": why})
        for reader in self._contents.keep_only({key for key, _ in self.leases.leases}):
            self._channel.expel(reader)
            self._perform(self.leases.revoked(reader))

    # -------------------------------------------------------------------------------------------- commands

    def _perform(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Send(peer, message):
                    self._send(peer, message)
                case Start():
                    self._tasks.start(self._live(command))
                case End(worker):
                    if worker in self._processes:
                        self._processes[worker].kill()
                    else:
                        self._condemned.add(worker)
                case Get():
                    self._tasks.start(self._get(command))
                case Obey(Retire()):
                    self.stop()
                case Obey(Authorize(clients)):
                    assert self._settings.admitted is not None
                    self._settings.admitted.named(clients)

    def _send(self, peer: bytes, message: FromNode) -> None:
        if not self._channel.closed:
            with contextlib.suppress(TransportError):  # the message is repeated later, or the peer is gone
                self._channel.send(peer, message)

    async def _get(self, get: Get) -> None:
        """Get the content of a program from another node."""
        kept = False
        try:
            kept = await self._contents.fetch(get.key, get.fetch)
        finally:
            self._send(get.peer, Fetched(get.fetch.digest, kept))

    async def _live(self, start: Start) -> None:
        """Run one worker, from its start to its end."""
        client = self.name_of(start.key)
        try:
            process, endpoint = await self._launch(start)
        except Exception as error:
            expected = isinstance(error, (OSError, AiocgError, TransportError))
            logger.warning("no worker", extra={"client": client, "cause": str(error)}, exc_info=not expected)
            self._ports.pop(start.worker, None)
            self._condemned.discard(start.worker)
            self._perform(self.leases.failed(start.worker, f"the node cannot start a worker: {error}"))
            return
        self._processes[start.worker] = process
        if start.worker in self._condemned:
            process.kill()
        name = {"client": client, "kind": start.kind, "pid": process.pid}
        status, look, stderr = -signal.SIGKILL, Look(), ""
        try:
            with contextlib.suppress(OSError, ValueError):  # the worker ends, which is reported below
                port = await self._port(process, endpoint)
                logger.info("worker started", extra={**name, "port": port})
                self._perform(self.leases.started(start.worker, port, endpoint.public, process.pid))
            status = await process.wait()
            look, stderr = process.look(), process.stderr
            doing = look.execution
            busy = {} if doing is None else {"session": doing.session or None, "request": doing.request}
            logger.info("worker ended", extra={**name, "status": status, **busy})
        finally:
            process.kill()
            process.close()
            del self._processes[start.worker]
            self._ports.pop(start.worker, None)
            self._condemned.discard(start.worker)
            self._perform(self.leases.died(start.worker, status, look, stderr, time.monotonic()))

    async def _port(self, process: LocalProcess, endpoint: NetworkEndpoint) -> int:
        """Wait until a worker listens; kill it if it takes too long, after which its client may ask for another."""
        try:
            async with asyncio.timeout(START_PATIENCE):
                return await endpoint.port()
        except TimeoutError:
            logger.warning("a worker does not listen", extra={"pid": process.pid, "seconds": START_PATIENCE})
            process.kill()
            raise

    async def _launch(self, start: Start) -> tuple[LocalProcess, NetworkEndpoint]:
        limits = start.limits.as_numbers()
        options, environ, forked = await to_thread(_defaults, start.kind, self._settings.options)
        contents = str(self._contents.folder(start.key).path) if start.limits.content_bytes else ""
        endpoint = NetworkEndpoint(self._host, self._choose_port(start.worker), start.key, limits, contents)
        launcher = LocalLauncher(
            start.kind,
            self._folder,
            options={"shared_folder": "", **options, **self._settings.options, **start.options},
            environ={**environ, **self._settings.environ},
            memory_limit=start.memory_limit,
            endpoint=lambda path: endpoint,
            tuned=forked,
        )
        try:
            return await launcher.spawn(), endpoint
        except BaseException:
            endpoint.close()
            raise

    def _choose_port(self, worker: int) -> int:
        if not self._settings.ports:
            return 0
        taken = set(self._ports.values())
        count = len(self._settings.ports)
        for index in range(count):  # in turn, because a port that was just closed may not be free yet
            port = self._settings.ports[(worker + index) % count]
            if port not in taken:
                self._ports[worker] = port
                return port
        raise OSError(f"all ports for workers are in use ({self._settings.ports[0]}-{self._settings.ports[-1]})")

    # ------------------------------------------------------------------------------------------- the clock

    async def run(self) -> None:
        """Serve until `stop`; then end all workers and remove everything."""
        try:
            while not self._stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK):  # unlike `wait_for`, it makes no task
                        await self._stopping.wait()
                try:
                    await self._tick()
                except Exception:  # an error with one client must not end the workers of all
                    logger.exception("a look at the workers failed")
        finally:
            await self._close()

    def stop(self) -> None:
        """Stop the node; may be called at any time."""
        self._stopping.set()

    async def _tick(self) -> None:
        now = time.monotonic()
        if self._memory.alarmed(now):
            logger.error("memory is running out, cutting all connections", extra={"bytes": self._memory.resident()})
            self._channel.cut_all()
        if now - self._read_keys >= _KEYS_INTERVAL:
            self._read_keys = now
            await self._look_who_is_authorised()
        before = set(self.leases.leases)
        looks = {worker: process.look() for worker, process in self._processes.items()}
        self._share(looks)
        self._perform(self.leases.ticked(looks, now))
        self._settle(before, "its lease ran out")
        self._forget_peers(now)

    def _share(self, looks: Mapping[int, Look]) -> None:
        """Share the processors between clients."""
        keys = {worker: self.leases.holders[worker].key for worker in looks}
        self._shares.looked(Counter(keys[worker] for worker, look in looks.items() if look.execution is not None))
        for worker, process in self._processes.items():
            process.renice(self._shares.nice(keys[worker]))

    async def _look_who_is_authorised(self) -> None:
        new, self._new_names = self._new_names, {}
        self._names = {**self._names, **new}
        try:
            names = dict(await to_thread(self._settings.authorised))
        except Exception as error:  # for example, a file is being written; admitted clients stay
            logger.warning("cannot read who is authorised", extra={"cause": str(error)})
            return
        revoked = self._names.keys() - names.keys()
        before, old = set(self.leases.leases), self._names
        for key in revoked:
            logger.info("client revoked", extra={"client": old[key]})
            self._perform(self.leases.revoked(key))
        self._settle(before, "its key was revoked")
        self._names = names
        for key in revoked:
            self._channel.expel(key)

    def _forget_peers(self, now: float) -> None:
        """Forget peers that have been silent for longer than a lease, with everything kept for them."""
        kept = {lease.peer for lease in self.leases.leases.values()}
        for peer, heard in list(self._heard.items()):
            if peer not in kept and now - heard > self._settings.policy.lease:
                del self._heard[peer]
                self._channel.forget(peer)

    async def _close(self) -> None:
        """End all workers and wait for their end."""
        self._perform(self.leases.close())
        self._contents.keep_only(())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_PATIENCE):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        self._channel.close()
        await self._folder.close()


def _defaults(kind: str, chosen: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str], bool]:
    """Return a kind of worker's options and environment variables here, and whether clients on this machine fork it."""
    for spec in environments().values():
        if spec.worker == kind:
            settings = {name: str(chosen.get(name, value)) for name, value in spec.settings.items()}
            return {**spec.options(settings), **settings}, spec.environ(), spec.forked
    return {}, {}, False
