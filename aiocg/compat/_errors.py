"""CompilerGym's errors and records, the translation of aiocg's errors, and warnings for deprecated names."""

import contextlib
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from aiocg import errors as ours
from aiocg.datasets import errors as datasets
from aiocg.states.state import InvalidState


class Model(BaseModel):
    """A pydantic model whose fields are validated whenever they are set. Unknown arguments are ignored."""

    model_config = ConfigDict(validate_assignment=True, coerce_numbers_to_str=True)

    def dict(self, **options: Any) -> Any:
        """Return the fields as a dictionary of plain values; takes the arguments of `model_dump`."""
        return self.model_dump(**options)

    def json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the fields as a JSON object; takes the arguments of `dict`, and `indent`."""
        return json.dumps(self.dict(**options), indent=indent, default=str)

    def copy(self, **options: Any) -> Self:
        """Return a copy, optionally with some fields replaced (`update`); the new values are not validated."""
        return self.model_copy(**options)

    @classmethod
    def parse_obj(cls, obj: Any) -> Self:
        """Make a record from a dictionary."""
        return cls.model_validate(obj)

    @classmethod
    def parse_raw(cls, b: str | bytes, **_: Any) -> Self:
        """Make a record from JSON as written by `json`."""
        return cls.model_validate_json(b)


class BenchmarkInitError(OSError, ValueError):
    """A benchmark cannot be loaded, compiled, or run. (A ValueError too: the original raised one for bad bitcode.)"""


class DatasetInitError(OSError):
    """A dataset is not available."""


class DownloadFailed(IOError):
    """A file cannot be downloaded."""


class TooManyRequests(DownloadFailed):
    """The server refused a request because there were too many (HTTP 429)."""


class ServiceError(Exception):
    """The service failed."""


class SessionNotFound(ServiceError):
    """The session does not exist: the environment was not reset, or its episode has ended."""


class ServiceOSError(ServiceError, OSError):
    """The service failed because of an operating system error."""


class ServiceInitError(ServiceError, OSError):
    """The service cannot be started."""


class EnvironmentNotSupported(ServiceInitError):
    """The environment is not supported on this machine, or by aiocg."""


class ServiceTransportError(ServiceError, OSError):
    """The service cannot be reached."""


class ServiceIsClosed(ServiceError, TypeError):
    """The service was closed."""


class ValidationError(Model):
    """An error found by validation. It is a value, not an exception; errors are ordered by type and data."""

    type: str
    data: dict[str, Any] = {}

    def _key(self) -> tuple[str, str]:
        return self.type, json.dumps(self.data, sort_keys=True, default=str)

    def __lt__(self, other: object) -> bool:
        return self._key() < other._key() if isinstance(other, ValidationError) else True

    def __hash__(self) -> int:
        return hash(self._key())


_PAIRS: tuple[tuple[type[Exception], type[Exception]], ...] = (  # the first match counts
    (ours.DeadlineExceeded, TimeoutError),
    (ours.EnvironmentNotSupported, EnvironmentNotSupported),
    (ours.WorkerStartError, ServiceInitError),
    (ours.ParameterFailed, ValueError),
    (ours.ServiceError, ServiceError),
    (ours.InvalidAction, ValueError),
    (ours.UnknownName, LookupError),
    (ours.ResetNeeded, SessionNotFound),
    (ours.EnvClosed, ServiceIsClosed),
    (ours.RuntimeClosed, ServiceIsClosed),
    (InvalidState, ValueError),
    (ours.AiocgError, ServiceError),
    (datasets.BenchmarkNotFound, LookupError),
    (datasets.DatasetNotFound, LookupError),
    (datasets.InvalidBenchmarkUri, ValueError),
    (datasets.BenchmarkInitError, BenchmarkInitError),
    (datasets.ToolchainNotFound, ServiceInitError),
    (datasets.DownloadError, DownloadFailed),
    (datasets.DatasetError, DatasetInitError),
)


def translate(error: Exception) -> Exception:
    """Translate one of aiocg's errors to CompilerGym's; return any other unchanged."""
    for mine, theirs in _PAIRS:
        if isinstance(error, mine):
            return theirs(str(error))
    return error


@contextlib.contextmanager
def translated(subject: object = None) -> Iterator[None]:
    """Translate aiocg's errors; the subject is the dataset or benchmark being loaded, for messages."""
    try:
        yield
    except (ours.AiocgError, datasets.DatasetError) as error:
        if subject is not None and isinstance(error, (datasets.BenchmarkNotFound, datasets.DatasetNotFound)):
            raise LookupError(f"Benchmark not found: {subject} ({error})") from error
        if subject is not None and isinstance(error, datasets.ToolchainNotFound):
            raise DatasetInitError(str(error)) from error
        raise translate(error) from error


_BETWEEN = ("aiocg", "abc", "concurrent", "contextlib", "functools", "threading")  # us, and libraries that call us

P = ParamSpec("P")
R = TypeVar("R")


def outside() -> int:
    """Return the `stacklevel` that attributes a warning of the caller to the user's code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level


def deprecated(version: str, reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function issue a DeprecationWarning when called."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warn(*args: P.args, **kwargs: P.kwargs) -> R:
            text = f"Call to deprecated function (or staticmethod) {function.__name__}. ({reason})"
            warnings.warn(f"{text} -- Deprecated since version {version}.", DeprecationWarning, stacklevel=outside())
            return function(*args, **kwargs)

        return warn

    return decorate
