"""Limits of a node's clients."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from aiocg.errors import AiocgError

MIB = 1 << 20
GIB = 1 << 30
LEAST = {  # batches of small messages have 1 MiB and more
    "requests_per_second": 0,
    "content_bytes": 0,
    "request_bytes": 4 * MIB,
}

ALLOWED_OPTIONS: Mapping[str, tuple[float, float]] = {
    "transition_cache_bytes": (0, 1 << 40),
    "module_cache_bytes": (0, 1 << 40),
}
"""Options that a client may set for its workers, with their least and greatest values. The node sets all others."""


class LimitsError(AiocgError):
    """A file of limits, or a limit, is invalid."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one client key, for all its processes together unless stated otherwise.

    Attributes:
        workers: worker processes at a time.
        spawns_per_minute: worker processes started per minute.
        sessions: open sessions per worker.
        memory: address space of each worker, in bytes.
        request_bytes: size of each frame of a request, in bytes.
        requests_per_second: requests per second and worker, 0 for no limit; a worker delays reading to enforce it.
        content_bytes: content of programs that is kept for further workers and other nodes, in bytes.
    """

    workers: int = 4
    spawns_per_minute: int = 120
    sessions: int = 4096
    memory: int = 16 * GIB
    request_bytes: int = 64 * MIB
    requests_per_second: int = 0
    content_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            LimitsError: if one is too small.
        """
        for one in fields(self):
            value, least = getattr(self, one.name), LEAST.get(one.name, 1)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 62:
                raise LimitsError(f"the limit {one.name} must be a whole number of at least {least}, not {value!r}")

    def as_numbers(self) -> dict[str, float]:
        """Return the limits by name, as they are sent to a client."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class LimitsTable:
    """The limits of each client, by the name under which it was authorised; `default` is for all others."""

    default: Limits = field(default_factory=Limits)
    by_name: Mapping[str, Limits] = field(default_factory=dict)

    def of(self, name: str) -> Limits:
        """Return the limits of a client."""
        return self.by_name.get(name, self.default)


def read_limits(path: Path, default: Limits) -> LimitsTable:
    """Read a TOML file with a table for each client, and optionally one called `default`::

        [default]
        workers = 2

        [alice]
        workers = 8
        memory = 4_000_000_000

    Args:
        default: limits that the file does not set.

    Raises:
        LimitsError: if the file cannot be read or is invalid.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LimitsError(f"the limits in {path} cannot be read: {error}") from error
    default = _changed(path, "default", default, tables.pop("default", {}))
    return LimitsTable(default, {name: _changed(path, name, default, table) for name, table in tables.items()})


def _changed(path: Path, name: str, limits: Limits, table: Any) -> Limits:
    known = [one.name for one in fields(Limits)]
    if not isinstance(table, dict):
        raise LimitsError(f"{path}: {name} is not a table; write [{name}] followed by lines such as workers = 2")
    for key in table:
        if key not in known:
            raise LimitsError(f"{path}: [{name}] has {key!r}, which is not a limit; there are: {', '.join(known)}")
    try:
        return replace(limits, **table)
    except LimitsError as error:
        raise LimitsError(f"{path}: [{name}]: {error}") from None
