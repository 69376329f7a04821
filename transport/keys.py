"""Keys as files: one's own pairs, the clients that a node admits, and the nodes that a client trusts.

A folder contains `own/NAME.key` (with the secret key), `authorized/NAME.key` and `nodes/ADDRESS.key`, one JSON object
each. Secret files that others can read are refused, and so are files that others can write, as those others could
admit themselves.
"""

import contextlib
import logging
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, unquote

import msgspec
import platformdirs

from aiocg.transport.errors import SecurityError
from aiocg.transport.security import KeyPair, check_key

OWN: Final = "own"
"""Name of the default pair."""

REFRESH_SECONDS: Final = 1.0
"""A key may still be admitted for this long after its file was removed."""

SHORT_REFRESH_SECONDS: Final = 0.1
"""A key may still be refused for this long after its file was added; unknown keys cause a read at most this often."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LEGIBLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:+=/@%-]*")
_ADDRESS: Final = re.compile(r"tcp://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):\d{1,5}")
_SUFFIX: Final = ".key"

logger = logging.getLogger("aiocg.keys")


class _Public(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    public: str


class _Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    public: str
    secret: str


_Content = TypeVar("_Content", _Public, _Pair)


class KeyFolder:
    """A folder of keys; see the module. Nothing is cached, and every change is atomic.

    All methods raise `SecurityError` if a file or folder is damaged or accessible to others, and `OSError` if it cannot
    be read or written.

    Attributes:
        path: path of the folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Use a folder, which need not exist; by default AIOCG_KEYS, or one in the user's configuration folder."""
        chosen = os.environ.get("AIOCG_KEYS", "")
        default = Path(chosen).expanduser() if chosen else platformdirs.user_config_path("aiocg") / "keys"
        self.path = default if path is None else path

    # -------------------------------------------------------------------------------------- one's own pairs

    def create(self, name: str = OWN, *, replace: bool = False) -> KeyPair:
        """Make and store a pair whose public key needs no quoting in a shell.

        Raises:
            SecurityError: also if the name exists and `replace` is False.
        """
        path = self.pair_path(name)
        pair = KeyPair.generate()
        while not _LEGIBLE.fullmatch(pair.public):
            pair = KeyPair.generate()
        if not _write(path, _Pair(pair.public, pair.secret), replace=replace):
            raise SecurityError(
                f"there is already a key pair in {path}; a new one would have to be authorised again everywhere. "
                "Give another NAME, or replace it with --force"
            )
        return pair

    def pair(self, name: str = OWN) -> KeyPair:
        """Return a stored pair.

        Raises:
            SecurityError: also if there is none of that name.
        """
        path = self.pair_path(name)
        content = _read(path, _Pair, private=True)
        if content is None:
            raise SecurityError(f"there is no key pair in {path}; make one with `aiocg keys new{_argument(name)}`")
        with _about(path):
            return KeyPair(content.public, content.secret)

    def pairs(self) -> dict[str, str]:
        """Return the public keys of one's own pairs by name."""
        return {name: self.pair(name).public for name in _names(self.path / "own")}

    def pair_path(self, name: str = OWN) -> Path:
        """Return the file of a pair."""
        return self._file("own", name)

    # ---------------------------------------------------------------------------------- whom a node lets in

    def authorize(self, name: str, public: str, *, replace: bool = False) -> None:
        """Admit the owner of a public key, under a name.

        Raises:
            SecurityError: also if the key has another name, or the name has another key and `replace` is False.
        """
        check_key(public, "the public key")
        others = {key: other for other, key in self.authorized().items()}
        if others.get(public, name) != name:
            raise SecurityError(f"this key is authorised already, as {others[public]}; revoke that first")
        if not _write(self._file("authorized", name), _Public(public), replace=replace or public in others):
            raise SecurityError(f"there is another key with the name {name}; revoke it first, or use --force")

    def revoke(self, name: str) -> str:
        """Stop admitting a client; return its public key, "" if its file was damaged.

        Raises:
            SecurityError: also if there is no client of that name.
        """
        path = self._file("authorized", name)
        try:
            content = _read(path, _Public)
        except SecurityError:
            content = _Public("")
        if content is None:
            known = ", ".join(_names(path.parent)) or "none"
            raise SecurityError(f"no key with the name {name} is authorised; there are: {known}")
        path.unlink()
        return content.public

    def authorized(self) -> dict[str, str]:
        """Return the public keys of the admitted clients, by name."""
        return {name: self._authorized(name) for name in _names(self.path / "authorized")}

    def authorized_whole(self) -> dict[str, str]:
        """Return the same as `authorized`, but skip and log damaged files."""
        found = {}
        for name in _names(self.path / "authorized"):
            try:
                found[name] = self._authorized(name)
            except (SecurityError, OSError) as error:
                logger.warning("%s is not admitted: %s", name, error)
        return found

    def _authorized(self, name: str) -> str:
        path = self._file("authorized", name)
        return _public(path, f"{path} has just been removed")

    # ---------------------------------------------------------------------------------- whom a client trusts

    def trust(self, address: str, public: str, *, replace: bool = False) -> None:
        """Store the public key of the node at an address.

        Raises:
            SecurityError: also if another key is stored and `replace` is False.
        """
        check_key(public, "the public key")
        path = self._node_file(address)
        if not _write(path, _Public(public), replace=replace or self.nodes().get(address) == public):
            raise SecurityError(
                f"another key is known for {address}; use --force if its operator confirms that the key has changed"
            )

    def node(self, address: str) -> str:
        """Return the public key of the node at an address.

        Raises:
            SecurityError: also if none is stored.
        """
        return _public(
            self._node_file(address),
            f"the public key of {address} is not known; its operator sees it with `aiocg keys show`; store it "
            f"here with: aiocg keys trust {address} PUBLIC_KEY",
        )

    def nodes(self) -> dict[str, str]:
        """Return the public keys of the nodes that are known, by address."""
        return {unquote(name): self.node(unquote(name)) for name in _names(self.path / "nodes")}

    def _node_file(self, address: str) -> Path:
        if not _ADDRESS.fullmatch(address) or not 0 < int(address.rpartition(":")[2]) < 65536:
            raise SecurityError(f"{address!r} is not the address of a node; it must be tcp://HOST:PORT")
        return self.path / "nodes" / (quote(address, safe="") + _SUFFIX)

    def _file(self, folder: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise SecurityError(
                f"{name!r} is not a name for a key; it must consist of at most 64 letters, digits, '.', '_' and '-', "
                "and begin with a letter or digit"
            )
        return self.path / folder / (name + _SUFFIX)


class AuthorizedKeys:
    """The clients that a folder admits now, for a running server; it may be used from several threads."""

    def __init__(self, folder: KeyFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._read_at = -REFRESH_SECONDS

    def names(self, refresh: float = REFRESH_SECONDS) -> dict[str, str]:
        """Return the names of the admitted clients by public key, read at most `refresh` seconds ago."""
        now = time.monotonic()
        with self._lock:
            if now - self._read_at >= refresh:
                self._read_at = now
                self._names = self._look()
            return self._names

    def _look(self) -> dict[str, str]:
        try:
            return {public: name for name, public in self._folder.authorized_whole().items()}
        except (SecurityError, OSError) as error:
            logger.error("nobody is admitted: %s", error)
            return {}


# ------------------------------------------------------------------------------------------------------- files


def _write(path: Path, content: msgspec.Struct, *, replace: bool) -> bool:
    """Write a file readable only by its owner; return False if it exists and must not be replaced."""
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(folder)
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # with mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(content) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return True


def _read(path: Path, kind: type[_Content], *, private: bool = False) -> _Content | None:
    """Read a file; return None if it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecurityError(f"{path} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        _check_folder(path.parent)
        _check_mode(path, os.fstat(file.fileno()), private=private)
        try:
            return msgspec.json.decode(file.read(4096), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):  # their messages could reveal the secret key
            raise SecurityError(
                f"{path} is damaged: `aiocg keys` did not write it; remove it and make it again"
            ) from None


def _check_folder(path: Path) -> None:
    _check_mode(path, path.stat(), private=False)


def _check_mode(path: Path, found: os.stat_result, *, private: bool) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise SecurityError(f"{path} belongs to user {found.st_uid}, who could change it; keys must be your own files")
    folder = stat.S_ISDIR(found.st_mode)
    if not folder and not stat.S_ISREG(found.st_mode):
        raise SecurityError(f"{path} is not a file")
    if found.st_mode & (0o077 if private else 0o022):
        what = "read" if private else "change"
        again = ", and make a new pair if somebody may have read it" if private else ""
        raise SecurityError(
            f"others can {what} {path} (its mode is {stat.S_IMODE(found.st_mode):04o}); correct that with: "
            f"chmod {700 if folder else 600} {path}{again}"
        )


def _public(path: Path, missing: str) -> str:
    """Return the public key in a file; raise a SecurityError that says `missing` if there is no such file."""
    content = _read(path, _Public)
    if content is None:
        raise SecurityError(missing)
    with _about(path):
        check_key(content.public, "the public key")
    return content.public


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    try:
        yield
    except SecurityError as error:
        raise SecurityError(f"{path} is damaged: {error}") from None


def _names(folder: Path) -> list[str]:
    try:
        found = [entry.name.removesuffix(_SUFFIX) for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX)]
    except FileNotFoundError:
        return []
    return sorted(name for name in found if not name.startswith("."))


def _argument(name: str) -> str:
    return "" if name == OWN else f" {name}"
