"""`aiocg.lock`: the result for each image, for builds without a search."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

VERSION = 1


class LockError(Exception):
    """A lock file cannot be read."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was found for one image.

    Attributes:
        input: the SHA-256 of its joined bitcode.
        compiler: that was searched with, such as "LLVM 23.1.4".
        chosen: "found", "tuned", "mixed", a level of `aiocg.shrink._units`, "-Oz -flto tuned", a level of GCC such as
            "gcc -Oz", or "own" for what the build itself makes.
        actions: of the search.
        options: of the code generator and the linker, see `aiocg.shrink._tuning`.
        units: sources that clang compiles.
        kept: sources whose own objects are linked, since clang would make another program of them, or the check fails.
        retold: sources that clang reads as the build's preprocessor leaves them.
        by_gcc: sources of which GCC's objects are linked, since those are smaller.
        line: the options of GCC for those sources.
        sizes: bytes of the image by each way of making it.
        code: the options that generate its code.
        link: the options that link it, beside those of the build.
        left_out: options of its units that clang does not know.
        repeatable: whether it is made of nothing but what clang compiles, with the actions, and what is kept.
        own: the SHA-256 of the image that the build itself makes.
        image: the SHA-256 of the image that was taken; "" if that depends on when it is built.
    """

    input: str
    compiler: str
    chosen: str
    actions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    retold: tuple[str, ...] = ()
    by_gcc: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    sizes: Mapping[str, int] = {}
    code: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    repeatable: bool = False
    own: str = ""
    image: str = ""

    def staleness(self, module: bytes, compiler: str) -> str:
        """Say why the entry is not for a module and a compiler; "" if it is."""
        if compiler != self.compiler:
            return f"it was found with {self.compiler}, and this is {compiler}"
        return "" if digest(module) == self.input else "the program has changed"


class Lock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A lock file.

    Attributes:
        whole: whether it has all images of the build.
        images: by their paths, relative to the file's folder.
    """

    version: int = VERSION
    whole: bool = False
    images: dict[str, Entry] = {}


def digest(module: bytes) -> str:
    """Return what identifies a module."""
    return hashlib.sha256(module).hexdigest()


def read_lock(path: Path) -> Lock:
    """Read a lock file; one that is not there has no entries.

    Raises:
        LockError: when it cannot be read, or is no lock file of this version.
    """
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=Lock)
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise LockError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise LockError(f"{path} is no lock file of aiocg: {error}") from None
    if lock.version != VERSION:
        raise LockError(f"{path} is of version {lock.version}, and this aiocg knows {VERSION}: shrink with --update")
    return lock


def lock_text(lock: Lock) -> bytes:
    """Return the text of a lock file, which depends on its entries alone."""
    ordered = Lock(whole=lock.whole, images=dict(sorted(lock.images.items())))
    return msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n"
