"""Structured logs of workers, sessions and clients.

The library logs with the standard `logging`, below the logger `aiocg`: a message that is always the same for the same
kind of event, and the rest in fields (`extra=`), which docs/telemetry.md lists. It is silent until somebody listens:
an application by handlers of its own, anybody else by `configure` or the environment variable `AIOCG_LOG`.

No field ever has a secret key or the content of a program.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import IO, Any, Final

from aiocg.errors import AiocgError, UnknownName

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error", "critical")
VARIABLE: Final = "AIOCG_LOG"

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_root = logging.getLogger("aiocg")
_root.addHandler(logging.NullHandler())  # nobody listening is no reason to write to standard error


def configure(format: str = "text", level: str = "info", *, stream: IO[str] | None = None) -> None:
    """Write aiocg's logs, in place of what an earlier call said.

    Args:
        format: `"text"`, lines of `time level logger message field=value ...`; or `"json"`, an object a line, which
            needs the extra `telemetry`.
        level: what to write: events of this level and above, one of `LEVELS`.
        stream: where to; standard error if None.

    Raises:
        UnknownName: for a format or a level that does not exist.
        AiocgError: when what the format needs is not installed.
    """
    if level not in LEVELS:
        raise UnknownName("log level", level, LEVELS)
    handler = _Handler(stream)
    handler.setFormatter(_formatter(format))
    for other in [other for other in _root.handlers if isinstance(other, _Handler)]:
        _root.removeHandler(other)
    _root.addHandler(handler)
    _root.setLevel(level.upper())
    _root.propagate = False  # the root's handlers would write every line a second time


def configure_from_environment() -> None:
    """Write logs if `AIOCG_LOG` says so, by a level, a format or both (`json:debug`), and nobody said otherwise.

    Raises:
        UnknownName: for a format or a level that does not exist.
        AiocgError: when what the format needs is not installed.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted and not any(isinstance(handler, _Handler) for handler in _root.handlers):
        format, _, level = (f"{wanted}:info" if wanted in FORMATS else wanted).rpartition(":")
        configure(format or "text", level)


class _Handler(logging.StreamHandler[IO[str]]):
    """Ours, to be told from those of the application; without a stream, to what standard error is at the time."""

    def __init__(self, stream: IO[str] | None) -> None:
        super().__init__(stream or sys.stderr)
        self._given = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.stream = self._given or sys.stderr
        super().emit(record)


class _TextFormatter(logging.Formatter):
    """Lines of `time level logger message field=value ...`; a field with blanks or the like is quoted as in JSON."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """Return when it happened, of the world and to the millisecond."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, without an exception that belongs to it."""
        return " ".join([super().formatMessage(record), *(f"{k}={_quoted(v)}" for k, v in _fields(record).items())])


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what an event has beside what all have; names with an underscore are of others, such as Ray's."""
    named = {key: value for key, value in vars(record).items() if not key.startswith("_")}
    return {key: value for key, value in named.items() if key not in _STANDARD and value is not None}


def _quoted(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not set(text) & set(' ="') and text
    return text if plain else json.dumps(text, ensure_ascii=False)


def _formatter(format: str) -> logging.Formatter:
    if format == "text":
        return _TextFormatter()
    if format != "json":
        raise UnknownName("log format", format, FORMATS)
    try:
        from pythonjsonlogger.json import JsonFormatter
    except ImportError:
        raise AiocgError(
            "logs as JSON need python-json-logger: pip install 'aiocg[telemetry]', or take the format text"
        ) from None
    return JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger", "message": "event", "timestamp": "time"},
        timestamp=True,
        json_ensure_ascii=False,
    )
