"""Connections to services. No network is involved: a connection is a backend with sessions."""

import itertools
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from aiocg.compat._errors import ServiceInitError
from aiocg.compat.classic._registration import load
from aiocg.compat.classic._spaces import Space
from aiocg.compat.tools._files import transient_cache_path

if TYPE_CHECKING:
    from aiocg.compat.service._views import ObservationSpaceSpec


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a step."""

    observations: list[Any]
    end_of_session: bool = False
    action_had_no_effect: bool = False
    new_action_space: Space[Any] | None = None


class Session(ABC):
    """A compilation session."""

    @abstractmethod
    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Apply actions, and then compute observations."""

    def count(self) -> int | None:
        """Return how many actions have been applied after an interrupted step, or None if unknown."""
        return None

    @abstractmethod
    def fork(self) -> "Session":
        """Return an independent session in the same state."""

    @abstractmethod
    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter and return the reply."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the session."""


class Backend(ABC):
    """A compiler that starts sessions."""

    version: str
    compiler_version: str
    action_spaces: list[Any]
    observation_spaces: "list[ObservationSpaceSpec]"

    @property
    def alive(self) -> bool:
        """Whether the backend can start sessions."""
        return True

    @abstractmethod
    def start(self, benchmark: Any, action_space: int, timeout: float) -> Session:
        """Start a session."""

    @abstractmethod
    def close(self) -> None:
        """End all sessions and release all resources. Idempotent."""


_ENVS = Path(__file__).parents[1] / "compiler_gym/envs"

LLVM_SERVICE_BINARY = _ENVS / "llvm/service/compiler_gym-llvm-service"
"""The path of CompilerGym's LLVM service. The file does not exist: this path selects aiocg's workers."""

GCC_SERVICE_BINARY = _ENVS / "gcc/service/compiler_gym-gcc-service"
"""The same for GCC; `CC` in the connection's `script_env` says which GCC."""

LOOP_TOOL_SERVICE_BINARY = _ENVS / "loop_tool/service/compiler_gym-loop_tool-service"
"""The same for loop_tool."""

_BACKENDS = {
    LLVM_SERVICE_BINARY: "aiocg.compat.envs._llvm_backend:LlvmBackend",
    GCC_SERVICE_BINARY: "aiocg.compat.envs._gcc:GccBackend",
    LOOP_TOOL_SERVICE_BINARY: "aiocg.compat.envs._loop_tool:LoopToolBackend",
}


@dataclass
class ConnectionOpts:
    """Settings of a connection, with times in seconds. Most are ignored, as there is no network."""

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
        """Return the settings as a dictionary."""
        return asdict(self)


_numbers = itertools.count()
_connections: "WeakValueDictionary[str, CompilerGymServiceConnection]" = WeakValueDictionary()


class Connected:
    """A connection while it is open.

    Attributes:
        url: its name.
    """

    def __init__(self) -> None:
        self.url = f"aiocg:{os.getpid()}-{next(_numbers)}"

    @cached_property
    def _folder(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="service-", dir=transient_cache_path("."))

    @property
    def working_dir(self) -> Path:
        """A folder for files of the connection's user, removed with the connection."""
        return Path(self._folder.name)

    def close(self) -> None:
        """Remove the folder, if there is one."""
        if "_folder" in self.__dict__:
            self._folder.cleanup()


class CompilerGymServiceConnection:
    """A connection to a service, with its sessions."""

    def __init__(self, endpoint: str | Path, opts: ConnectionOpts | None = None) -> None:
        self.connection: Connected | None = None
        if not endpoint:
            raise TypeError("No endpoint provided for service connection")
        self.endpoint = endpoint
        self.opts = opts or ConnectionOpts()
        self.sessions: set[Session] = set()
        self._establish()
        self.action_spaces = list(self.backend.action_spaces)
        self.observation_spaces = list(self.backend.observation_spaces)

    def _establish(self) -> None:
        self._shared: CompilerGymServiceConnection | None = None
        self.backend: Backend = self._backend()
        self.connection = Connected()
        _connections[self.connection.url] = self

    def _backend(self) -> Backend:
        path = Path(self.endpoint)
        if path in _BACKENDS:
            backend = load(_BACKENDS[path])
            made: Backend = backend(self.opts.script_env.get("CC", "gcc")) if path == GCC_SERVICE_BINARY else backend()
            return made
        if isinstance(self.endpoint, str) and not path.is_file():
            shared = _connections.get(self.endpoint)
            if shared is None:
                raise ServiceInitError(
                    f"Failed to create connection to {self.endpoint}: it is not a connection of this process, and "
                    "aiocg does not speak the protocol of CompilerGym's remote services"
                )
            if not shared.backend.alive:
                shared.restart()
            self._shared = shared
            return shared.backend
        if not path.is_file():
            raise FileNotFoundError(f"File not found: {path}")
        script: Backend = load("aiocg.compat.service._script:ScriptBackend")(path, self.opts)
        return script

    def start_session(self, benchmark: Any, action_space: int, timeout: float) -> Session:
        """Start a session; see `Backend.start`."""
        if self.closed or not self.backend.alive:
            self.restart()
        return self.adopt(self.backend.start(benchmark, action_space, timeout))

    def adopt(self, session: Session) -> Session:
        """Keep a session, such as a fork, until it or the service ends."""
        self.sessions.add(session)
        return session

    def end_session(self, session: Session) -> int:
        """End a session, unless it has ended, and return the number of remaining ones."""
        if session in self.sessions:
            self.sessions.remove(session)
            session.close()
        return len(self.sessions)

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self.connection is None

    def restart(self) -> None:
        """Restart the service; its sessions are lost."""
        self.close()
        self._establish()

    def close(self) -> None:
        """End the service and its sessions. Idempotent; using the connection starts the service again."""
        if self.connection is None:
            return
        self.connection.close()
        self.connection = None
        sessions, self.sessions = self.sessions, set()
        for session in sessions:
            session.close()
        if self._shared is None:
            self.backend.close()

    shutdown = close

    def __repr__(self) -> str:
        return f"Closed connection to {self.endpoint}" if self.closed else str(self.endpoint)
