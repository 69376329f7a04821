"""The nodes of a cluster, from a list or a file that may change."""

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from aiocg.errors import AiocgError

logger = logging.getLogger("aiocg.cluster")

FILE = "file:"


class HostsError(AiocgError):
    """A description of a cluster that cannot be read; the message says what was expected."""


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that a cluster should have.

    Attributes:
        address: `tcp://HOST:PORT`.
        key: its public key; the one that `aiocg keys trust` has stored if "".
        workers: how many workers it should run; 0 for as many as it offers.
    """

    address: str
    key: str = ""
    workers: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            HostsError: if one is impossible.
        """
        host, _, port = self.address.removeprefix("tcp://").rpartition(":")
        if not self.address.startswith("tcp://") or not host or not port.isdecimal() or int(port) > 65535:
            raise HostsError(f"{self.address!r} is not the address of a node; it must be tcp://HOST:PORT")
        if self.workers < 0:
            raise HostsError(f"{self.address}: workers must be 0 or more, not {self.workers}")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    node: list[Host] = []


def hosts_of(cluster: str | Iterable[str | Host]) -> list[Host]:
    """Return the nodes of a list, of addresses separated by commas, or of `file:` and the path of a file.

    Raises:
        HostsError: if they cannot be read, or an address occurs twice.
    """
    if not isinstance(cluster, str):
        return _distinct([part if isinstance(part, Host) else Host(part) for part in cluster])
    if cluster.startswith(FILE):
        return read_hosts(Path(cluster.removeprefix(FILE)).expanduser())
    addresses = [part.strip() for part in cluster.split(",")]
    if len(addresses) == 1 and not addresses[0].startswith("tcp://"):
        known = f"tcp://HOST:PORT (several with commas), {FILE}PATH, ray or ray://HOST:PORT"
        raise HostsError(f"{cluster!r} is no cluster; it must be {known}")
    return _distinct([Host(address) for address in addresses])


def read_hosts(path: Path) -> list[Host]:
    """Read a file of nodes::

        [[node]]
        address = "tcp://big.example:5757"
        workers = 8    # if not as many as it offers

    Raises:
        HostsError: if there is no such file, or it has something else.
    """
    try:
        return _distinct(msgspec.toml.decode(path.read_bytes(), type=_File).node)
    except msgspec.ValidationError as error:
        known = ", ".join(Host.__struct_fields__)
        raise HostsError(f"{path}: {error}; a file of nodes has only [[node]] tables with {known}") from error
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HostsError(f"the nodes of the cluster cannot be read from {path}: {reason}") from error
    except HostsError as error:
        raise HostsError(f"{path}: {error}") from None


def write_hosts(path: Path, hosts: Iterable[Host]) -> None:
    """Write a file of nodes, at once.

    Raises:
        HostsError: if it cannot be written.
    """
    fields = [f"[[node]]\naddress = {json.dumps(host.address)}\n" + _optional(host) for host in hosts]
    passing = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        passing.write_text("\n".join(fields), encoding="utf-8")
        os.replace(passing, path)
    except OSError as error:
        raise HostsError(f"the nodes of the cluster cannot be written to {path}: {error.strerror}") from error


def _optional(host: Host) -> str:
    key = f"key = {json.dumps(host.key)}\n" if host.key else ""
    return key + (f"workers = {host.workers}\n" if host.workers else "")


def _distinct(hosts: list[Host]) -> list[Host]:
    addresses = [host.address for host in hosts]
    if twice := {address for address in addresses if addresses.count(address) > 1}:
        raise HostsError(f"{', '.join(sorted(twice))} occurs twice")
    return hosts


class HostsFile:
    """A file of nodes that is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()

    def changed(self) -> list[Host] | None:
        """Return the nodes if the file has changed and can be read, else None."""
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
        try:
            return read_hosts(self._path)
        except HostsError as error:
            logger.warning("the cluster stays as it is", extra={"cause": str(error)})
            return None

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino
