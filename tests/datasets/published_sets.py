"""Archives and lists of names of the layout in which datasets were published, made here and served on this machine."""

import bz2
import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from .published_server import PublishedServer

__all__ = ["Published", "manifest", "pack", "serve"]


@dataclass(frozen=True)
class Published:
    """A file that is served.

    Attributes:
        name: of the file.
        urls: its addresses: at the first there is nothing.
        sha256: its checksum.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str


def packed(files: Mapping[str, bytes], compress: Callable[[bytes], bytes] = bz2.compress) -> bytes:
    """Return a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return compress(buffer.getvalue())


def pack(server: PublishedServer, name: str, files: Mapping[str, bytes]) -> Published:
    """Serve a tar archive, compressed as its name says."""
    return serve(server, name, packed(files, partial(gzip.compress, mtime=0) if name.endswith("gz") else bz2.compress))


def manifest(server: PublishedServer, name: str, names: tuple[str, ...]) -> Published:
    """Serve a list of names as CompilerGym compressed them."""
    return serve(server, name, bz2.compress("".join(f"{one}\n" for one in names).encode()))


def serve(server: PublishedServer, name: str, content: bytes) -> Published:
    """Serve a file."""
    urls = (server.url(f"gone/{name}"), server.publish(name, content))
    return Published(name, urls, hashlib.sha256(content).hexdigest())
