"""What decides the outcomes of actions, beside the program: the library, what we make of it, and how it is used."""

import contextlib
import hashlib
import os
from pathlib import Path

from aiocg.transport import elf
from aiocg.workers.llvm.library import Library
from aiocg.workers.memory.records import FORMAT

_SOURCES = Path(__file__).parent


def identity(library: Library, cache: Path, *choices: object) -> bytes:
    """Return a hash that is the same only where all actions have the same outcomes.

    Args:
        library: the libLLVM, which counts by its content.
        cache: folder that keeps the hash of the content, since it takes a tenth of a second.
        choices: all else that matters.
    """
    found = hashlib.blake2b(repr((FORMAT, library.version, *choices)).encode(), digest_size=20)
    found.update(_content(library.path, cache))
    for path in sorted([*_SOURCES.glob("*.py"), *_SOURCES.glob("native/*.[ch]"), Path(elf.__file__)]):
        found.update(path.read_bytes())
    return found.digest()


def _content(path: Path, cache: Path) -> bytes:
    """Return the hash of a file, remembered for as long as it does not change."""
    about = path.stat()
    name = hashlib.blake2b(repr((str(path), about.st_size, about.st_mtime_ns, about.st_ino)).encode(), digest_size=16)
    known = cache / f"{name.hexdigest()}.hash"
    with contextlib.suppress(OSError):
        if len(content := known.read_bytes()) == 32:
            return content
    with path.open("rb") as file:
        content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).digest()
    with contextlib.suppress(OSError):
        passing = known.with_suffix(f".{os.getpid()}")
        passing.write_bytes(content)
        passing.replace(known)
    return content
