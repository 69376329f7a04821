"""CompilerGym's errors. Those that aiocg raises become these; see `aiocg.compat.compiler_gym.errors.translation`."""

from aiocg.compat.compiler_gym.errors.dataset_errors import BenchmarkInitError, DatasetInitError
from aiocg.compat.compiler_gym.errors.download_errors import DownloadFailed, TooManyRequests
from aiocg.compat.compiler_gym.errors.service_errors import (
    EnvironmentNotSupported,
    ServiceError,
    ServiceInitError,
    ServiceIsClosed,
    ServiceOSError,
    ServiceTransportError,
    SessionNotFound,
)
from aiocg.compat.compiler_gym.errors.validation_errors import ValidationError

__all__ = [
    "BenchmarkInitError",
    "DatasetInitError",
    "DownloadFailed",
    "EnvironmentNotSupported",
    "ServiceError",
    "ServiceInitError",
    "ServiceIsClosed",
    "ServiceOSError",
    "ServiceTransportError",
    "SessionNotFound",
    "TooManyRequests",
    "ValidationError",
]
