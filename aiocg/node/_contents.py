"""The content of its clients' programs on a node: kept for their workers, given to other nodes, got from those."""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO

from anyio.to_thread import run_sync as to_thread

from aiocg.node.limits import Limits
from aiocg.transport.contents import ContentFolder
from aiocg.transport.control import MAX_CONTROL_BYTES, Fetch, FromNode, FromPeer, Piece, Read, from_node_codec
from aiocg.transport.errors import TransportError
from aiocg.transport.security import ClientSecurity, KeyPair
from aiocg.transport.sockets import Channel

PIECE = 1 << 18  # bytes
PATIENCE = 2.0  # seconds that another node may take for a piece
LONGEST = 60.0  # seconds that all of it may take
_FETCHES = 4  # at a time, for each client
WAITING = 64  # fetches of a client under way, together with those that wait for their turn


class Contents:
    """What a node keeps of its clients' programs: a folder for each key, while one of its processes uses the node.

    Other nodes read with a key pair that the client passes on to them.

    Args:
        root: a private folder.
        limits: returns the limits of the client with a public key.
        neighbours: get contents from other nodes.
    """

    def __init__(self, root: Path, limits: Callable[[str], Limits], *, neighbours: bool = True) -> None:
        self._root = root
        self._limits = limits
        self._neighbours = neighbours
        self._pairs: dict[str, KeyPair] = {}  # with which others read, by the client's key
        self._clients: dict[str, str] = {}  # their owners, by the public keys of those
        self._turns: dict[str, asyncio.Semaphore] = {}  # of fetches, by the client's key
        self._fetches: dict[str, set[asyncio.Task[Any]]] = {}  # by the client's key

    def reader(self, client: str) -> str:
        """Return the secret key with which other nodes can read what is kept for a client, "" if nothing is."""
        if not self._limits(client).content_bytes:
            return ""
        if client not in self._pairs:
            pair = self._pairs[client] = KeyPair.generate()
            self._clients[pair.public] = client
        return self._pairs[client].secret

    def client(self, reader: str) -> str | None:
        """Return the client whose contents the owner of a public key may read, None if there is none."""
        return self._clients.get(reader)

    def folder(self, client: str) -> ContentFolder:
        """Return where a client's contents are kept."""
        path = self._root / hashlib.sha256(client.encode()).hexdigest()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ContentFolder(path, self._limits(client).content_bytes)

    def keep_only(self, clients: Collection[str]) -> list[str]:
        """Remove what is kept for others than these clients, and fetch nothing more for those.

        Returns:
            The public keys that read no more.
        """
        gone = [(client, self._pairs.pop(client)) for client in self._pairs.keys() - set(clients)]
        for client, pair in gone:
            del self._clients[pair.public]
            self._turns.pop(client, None)
            for task in self._fetches.pop(client, ()):
                task.cancel()
            shutil.rmtree(self._root / hashlib.sha256(client.encode()).hexdigest(), ignore_errors=True)
        return [pair.public for _, pair in gone]

    def read(self, client: str, read: Read) -> Piece:
        """Return a piece of a content."""
        return Piece(read.digest, read.offset, self.folder(client).piece(read.digest, read.offset, PIECE))

    async def fetch(self, client: str, fetch: Fetch) -> bool:
        """Get a content from another node, if the client is here; return whether it is kept now."""
        fetches = self._fetches.setdefault(client, set()) if client in self._pairs else None
        if fetches is None or len(fetches) >= WAITING or not self._neighbours:
            return False
        task = asyncio.current_task()
        assert task is not None
        fetches.add(task)
        try:
            async with asyncio.timeout(LONGEST), self._turns.setdefault(client, asyncio.Semaphore(_FETCHES)):
                folder = self.folder(client)
                if fetch.size > self._limits(client).request_bytes or not folder.has_room(fetch.size):
                    return False
                with folder.passing(fetch.digest) as file:
                    await _read_all(fetch, file)
                    if not folder.has_room(0):
                        raise OSError("others have taken the room meanwhile")
                return True
        except (TransportError, TimeoutError, OSError):
            return False
        finally:
            fetches.discard(task)


async def _read_all(fetch: Fetch, file: BinaryIO) -> None:
    """Read a content from another node, and write it to a file piece by piece.

    Raises:
        TransportError, TimeoutError: if it cannot be read, or is another one.
        OSError: if it cannot be written.
    """
    pieces: asyncio.Queue[Piece | Exception] = asyncio.Queue()

    def received(messages: list[FromNode]) -> None:
        for message in messages:
            pieces.put_nowait(message if isinstance(message, Piece) else TransportError(f"it answered {message}"))

    channel: Channel[FromPeer, FromNode] = Channel(
        fetch.address,
        from_node_codec(),
        on_messages=received,
        on_error=pieces.put_nowait,
        security=ClientSecurity(KeyPair.from_secret(fetch.reader), fetch.key),
        max_frame_bytes=MAX_CONTROL_BYTES,
    )
    size, digest = 0, hashlib.sha256()
    try:
        while size < fetch.size:
            channel.send(Read(fetch.digest, size))
            async with asyncio.timeout(PATIENCE):
                piece = await pieces.get()
            if isinstance(piece, Exception):
                raise TransportError(str(piece)) from piece
            if not piece.content:
                raise TransportError("it does not keep this")
            size += len(piece.content)
            digest.update(piece.content)
            await to_thread(file.write, piece.content)
    finally:
        channel.close()
    if digest.digest() != fetch.digest:
        raise TransportError("it gave something else")
