"""Services: what is behind an environment, and how to write one of your own."""

from aiocg.compat.compiler_gym.service.compilation_session import CompilationSession
from aiocg.compat.compiler_gym.service.connection import (
    CompilerGymServiceConnection,
    ConnectionOpts,
    EnvironmentNotSupported,
    ServiceError,
    ServiceInitError,
    ServiceIsClosed,
    ServiceOSError,
    ServiceTransportError,
    SessionNotFound,
)

__all__ = [
    "CompilationSession",
    "CompilerGymServiceConnection",
    "ConnectionOpts",
    "EnvironmentNotSupported",
    "ServiceError",
    "ServiceInitError",
    "ServiceIsClosed",
    "ServiceOSError",
    "ServiceTransportError",
    "SessionNotFound",
]
