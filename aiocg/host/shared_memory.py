"""Folders in which workers share transitions; see `aiocg.workers.memory`."""

import importlib.util
import os
from collections.abc import Iterable

from aiocg.errors import AiocgError

VARIABLE = "AIOCG_MEMORY"
SERVERS = ("redis://", "rediss://", "unix://")

Places = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None
"""Folders and addresses of servers; in one text, commas separate them."""


def choose_memory(given: Places) -> str:
    """Return the value of AIOCG_MEMORY for workers: what was given, or else the variable's own, with absolute paths.

    Raises:
        AiocgError: if a place cannot be used.
    """
    if given is None:
        given = os.environ.get(VARIABLE, "")
    if isinstance(given, str | os.PathLike):
        given = os.fspath(given).split(",")
    return ",".join(_checked(os.fspath(place).strip()) for place in given if place)


def _checked(place: str) -> str:
    if place.startswith(SERVERS):
        if importlib.util.find_spec("redis") is None:
            raise AiocgError("a memory on a server needs its client: pip install 'aiocg[redis]'")
        return place
    path = os.path.abspath(os.path.expanduser(place))
    if "://" in place or "," in place or (os.path.exists(path) and not os.path.isdir(path)):
        raise AiocgError(f"{place!r} is no place for a memory: expected a folder, or redis://HOST:PORT")
    return path
