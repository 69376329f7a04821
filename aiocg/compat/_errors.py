"""CompilerGym's errors, and the translation of aiocg's errors to them."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from aiocg import errors as ours
from aiocg.compat._model import Model
from aiocg.datasets import errors as datasets
from aiocg.states.state import InvalidState


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


_THEIRS: dict[type[Exception], tuple[type[Exception], ...]] = {  # CompilerGym's, of ours; the first match counts
    TimeoutError: (ours.DeadlineExceeded,),
    EnvironmentNotSupported: (ours.EnvironmentNotSupported,),
    ServiceInitError: (ours.WorkerStartError, datasets.ToolchainNotFound),
    ValueError: (ours.ParameterFailed, ours.InvalidAction, InvalidState, datasets.InvalidBenchmarkUri),
    LookupError: (ours.UnknownName, datasets.BenchmarkNotFound, datasets.DatasetNotFound),
    SessionNotFound: (ours.ResetNeeded,),
    ServiceIsClosed: (ours.EnvClosed, ours.RuntimeClosed),
    ServiceError: (ours.AiocgError,),
    BenchmarkInitError: (datasets.BenchmarkInitError,),
    DownloadFailed: (datasets.DownloadError,),
    DatasetInitError: (datasets.DatasetError,),
}


def translate(error: Exception) -> Exception:
    """Translate one of aiocg's errors to CompilerGym's; return any other unchanged."""
    for theirs, mine in _THEIRS.items():
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
