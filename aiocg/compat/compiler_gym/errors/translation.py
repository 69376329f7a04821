"""aiocg's errors as CompilerGym's."""

import contextlib
from collections.abc import Iterator

from aiocg import errors as ours
from aiocg.compat.compiler_gym.errors.dataset_errors import BenchmarkInitError, DatasetInitError
from aiocg.compat.compiler_gym.errors.download_errors import DownloadFailed
from aiocg.compat.compiler_gym.errors.service_errors import (
    EnvironmentNotSupported,
    ServiceError,
    ServiceInitError,
    ServiceIsClosed,
    SessionNotFound,
)
from aiocg.datasets import errors as datasets

__all__ = ["translate", "translated"]

_PAIRS: tuple[tuple[type[Exception], type[Exception]], ...] = (  # the first that fits
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
    """Return CompilerGym's error for one of ours; any other is returned as it is."""
    for mine, theirs in _PAIRS:
        if isinstance(error, mine):
            return theirs(str(error))
    return error


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise CompilerGym's errors for ours."""
    try:
        yield
    except (ours.AiocgError, datasets.DatasetError) as error:
        raise translate(error) from error
