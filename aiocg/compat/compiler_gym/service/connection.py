"""Connections to services. There is no network here: a connection is a backend, and its sessions by number."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from aiocg.compat.compiler_gym.errors import (
    EnvironmentNotSupported,
    ServiceError,
    ServiceInitError,
    ServiceIsClosed,
    ServiceOSError,
    ServiceTransportError,
    SessionNotFound,
)
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.compat.compiler_gym.service.endpoints import (
    GCC_SERVICE_BINARY,
    LLVM_SERVICE_BINARY,
    LOOP_TOOL_SERVICE_BINARY,
)

__all__ = [
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


@dataclass
class ConnectionOpts:
    """Settings of a connection, in seconds where they are times. Most are accepted and of no use: there is no network.

    Attributes:
        init_max_seconds: how long a service that is a script may take to start.
        local_service_exit_max_seconds: how long it may take to end.
        script_args, script_env: its arguments, and more environment variables for it.
    """

    rpc_call_max_seconds: float = 300
    rpc_max_retries: int = 5
    retry_wait_seconds: float = 0.1
    retry_wait_backoff_exponent: float = 1.5
    init_max_seconds: float = 30
    init_max_attempts: int = 5
    local_service_port_init_max_seconds: float = 30
    local_service_exit_max_seconds: float = 30
    rpc_init_max_seconds: float = 3
    always_send_benchmark_on_reset: bool = False
    script_args: list[str] = field(default_factory=list)
    script_env: Mapping[str, str] = field(default_factory=dict)

    def dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


class _Place:
    """What `CompilerGymServiceConnection.connection` is: where the service can be found, in this process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __repr__(self) -> str:
        return self.url


_numbers = itertools.count()
_connections: "WeakValueDictionary[str, CompilerGymServiceConnection]" = WeakValueDictionary()


class CompilerGymServiceConnection:
    """A service, and its sessions by number.

    Args:
        endpoint: `LLVM_SERVICE_BINARY`, `GCC_SERVICE_BINARY` or `LOOP_TOOL_SERVICE_BINARY`; the path of a script that
            calls `create_and_run_compiler_gym_service`; or the `connection.url` of another connection of this process.
        opts: settings.

    Attributes:
        endpoint, opts: as given.
        connection: has the `url` by which other environments of this process share the service; None when closed.
        action_spaces, observation_spaces: what the service has.

    Raises:
        TypeError: without an endpoint.
        FileNotFoundError: when there is no such script.
        ServiceError: when the service cannot be started or found.
    """

    def __init__(self, endpoint: str | Path, opts: ConnectionOpts | None = None) -> None:
        self.connection: _Place | None = None
        if not endpoint:
            raise TypeError("No endpoint provided for service connection")
        self.endpoint = endpoint
        self.opts = opts or ConnectionOpts()
        self.sessions: dict[int, Session] = {}
        self._numbers = itertools.count()
        self._establish()
        self.action_spaces = list(self.backend.action_spaces)
        self.observation_spaces = list(self.backend.observation_spaces)

    def _establish(self) -> None:
        self._shared: CompilerGymServiceConnection | None = None
        self.backend: Backend = self._backend()
        self.connection = _Place(f"aiocg:{os.getpid()}-{next(_numbers)}")
        _connections[self.connection.url] = self

    def _backend(self) -> Backend:
        path = Path(self.endpoint)
        if path == LLVM_SERVICE_BINARY:
            from aiocg.compat.compiler_gym.envs.llvm.backend import LlvmBackend

            return LlvmBackend()
        if path == GCC_SERVICE_BINARY:
            from aiocg.compat.compiler_gym.envs.gcc.backend import GccBackend

            return GccBackend(self.opts.script_env.get("CC", "gcc"))
        if path == LOOP_TOOL_SERVICE_BINARY:
            from aiocg.compat.compiler_gym.envs.loop_tool.backend import LoopToolBackend

            return LoopToolBackend()
        if isinstance(self.endpoint, str) and not path.is_file():
            shared = _connections.get(self.endpoint)
            if shared is None:
                raise ServiceInitError(
                    f"Failed to create connection to {self.endpoint}: it is no connection of this process, and "
                    "aiocg does not speak the protocol of CompilerGym's remote services"
                )
            if not shared.backend.alive:
                shared.restart()
            self._shared = shared
            return shared.backend
        if not path.is_file():
            raise FileNotFoundError(f"File not found: {path}")
        from aiocg.compat.compiler_gym.service.script import ScriptBackend

        return ScriptBackend(path, self.opts)

    # ------------------------------------------------------------------------------------------ sessions

    def start_session(self, benchmark: Any, action_space: int, timeout: float) -> int:
        """Start a session and return its number; see `Backend.start`."""
        if self.closed or not self.backend.alive:
            self.restart()
        return self._register(self.backend.start(benchmark, action_space, timeout))

    def step(self, number: int, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do a step in a session; see `Session.step`."""
        return self._session(number).step(actions, observations, timeout)

    def fork_session(self, number: int) -> int:
        """Fork a session and return the number of the fork; see `Session.fork`."""
        return self._register(self._session(number).fork())

    def send_parameter(self, number: int, key: str, value: str) -> str:
        """Handle a parameter of a session; see `Session.parameter`."""
        return self._session(number).parameter(key, value)

    def end_session(self, number: int) -> int:
        """End a session and return how many others there are."""
        session = self.sessions.pop(number, None)
        if session is not None:
            session.close()
        return len(self.sessions)

    def session(self, number: int | None) -> Session | None:
        """Return a session by its number, None if there is none."""
        return None if number is None else self.sessions.get(number)

    def _register(self, session: Session) -> int:
        number = next(self._numbers)
        self.sessions[number] = session
        return number

    def _session(self, number: int) -> Session:
        if number not in self.sessions:
            raise SessionNotFound(f"Session not found: {number}")
        return self.sessions[number]

    # ------------------------------------------------------------------------------------- open, closed

    @property
    def closed(self) -> bool:
        """Was the connection closed, and not used since?"""
        return self.connection is None

    def restart(self) -> None:
        """End the service and start it again; its sessions are lost."""
        self.close()
        self._establish()

    def close(self) -> None:
        """End the service with its sessions. Idempotent; it is started again when it is used again."""
        if self.connection is None:
            return
        self.connection = None
        sessions, self.sessions = self.sessions, {}
        for session in sessions.values():
            session.close()
        if self._shared is None:
            self.backend.close()

    shutdown = close

    def __call__(self, stub_method: Any, request: Any, **kwargs: Any) -> Any:
        """Cannot be done.

        Raises:
            NotImplementedError: always: there are no remote procedures here.
        """
        raise NotImplementedError("aiocg has no remote procedures: use the methods of the environment")

    def __repr__(self) -> str:
        return f"Closed connection to {self.endpoint}" if self.closed else str(self.endpoint)
