"""Errors of the service, which is aiocg's runtime and its workers."""

__all__ = [
    "EnvironmentNotSupported",
    "ServiceError",
    "ServiceInitError",
    "ServiceIsClosed",
    "ServiceOSError",
    "ServiceTransportError",
    "SessionNotFound",
]


class ServiceError(Exception):
    """The service could not do its part."""


class SessionNotFound(ServiceError):
    """There is no session: the environment was not reset, or its episode has ended."""


class ServiceOSError(ServiceError, OSError):
    """The service failed for want of something of the system's."""


class ServiceInitError(ServiceError, OSError):
    """The service cannot be started."""


class EnvironmentNotSupported(ServiceInitError):
    """This machine, or aiocg, does not have what the environment needs."""


class ServiceTransportError(ServiceError, OSError):
    """The service cannot be reached."""


class ServiceIsClosed(ServiceError, TypeError):
    """The service was closed."""
