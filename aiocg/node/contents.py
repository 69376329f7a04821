"""The content of its clients' programs on a node: kept for their workers, given to other nodes, got from those."""

import asyncio
import contextlib
import hashlib
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

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
FETCHES = 4  # at a time, for each client


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
        self._fetches: dict[str, asyncio.Semaphore] = {}  # by the client's key

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
        """Remove what is kept for others than these clients; return the public keys that read no more."""
        gone = [(client, self._pairs.pop(client)) for client in self._pairs.keys() - set(clients)]
        for client, pair in gone:
            del self._clients[pair.public]
            self._fetches.pop(client, None)
            shutil.rmtree(self._root / hashlib.sha256(client.encode()).hexdigest(), ignore_errors=True)
        return [pair.public for _, pair in gone]

    def read(self, client: str, read: Read) -> Piece:
        """Return a piece of a content."""
        return Piece(read.digest, read.offset, self.folder(client).piece(read.digest, read.offset, PIECE))

    async def fetch(self, client: str, fetch: Fetch) -> bool:
        """Get a content from another node; return whether it is kept now."""
        folder = self.folder(client)
        too_large = fetch.size > self._limits(client).request_bytes or not folder.has_room(fetch.size)
        if not self._neighbours or too_large:
            return False
        with contextlib.suppress(TransportError, TimeoutError):
            async with self._fetches.setdefault(client, asyncio.Semaphore(FETCHES)), asyncio.timeout(LONGEST):
                return await to_thread(folder.keep, await _read_all(fetch), fetch.digest)
        return False


async def _read_all(fetch: Fetch) -> bytes:
    """Read a content from another node, piece by piece.

    Raises:
        TransportError, TimeoutError: if it cannot be read.
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
    content = bytearray()
    try:
        while len(content) < fetch.size:
            channel.send(Read(fetch.digest, len(content)))
            async with asyncio.timeout(PATIENCE):
                piece = await pieces.get()
            if isinstance(piece, Exception):
                raise TransportError(str(piece)) from piece
            if not piece.content:
                raise TransportError("it does not keep this")
            content += piece.content
    finally:
        channel.close()
    return bytes(content)
