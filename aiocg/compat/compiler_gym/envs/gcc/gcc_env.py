"""The environment of GCC."""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.datasets.gcc import default_benchmark, gcc_datasets
from aiocg.compat.compiler_gym.envs.gcc.gcc import DEFAULT_GCC, Gcc, GccSpec
from aiocg.compat.compiler_gym.envs.gcc.gcc_rewards import AsmSizeReward, ObjSizeReward
from aiocg.compat.compiler_gym.errors import SessionNotFound
from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from aiocg.compat.compiler_gym.service.connection import ConnectionOpts
from aiocg.compat.compiler_gym.service.endpoints import GCC_SERVICE_BINARY
from aiocg.spaces.actions import ActionSpace

__all__ = ["DEFAULT_GCC", "GccEnv"]


class GccEnv(ClientServiceCompilerEnv):
    """The environment of GCC: an action changes one option of its command line.

    Args:
        args: the service, aiocg's workers if there is none.
        gcc_bin: the compiler: a name, a path, or `docker:` and an image.
        benchmark: the first program; `chstone-v0/adpcm` if CHStone is installed, our own `adpcm` if not.
        datasets_site_path: accepted and unused: aiocg knows where it installs datasets.
        connection_settings: for the connection.
        timeout: seconds that one compilation may take, None for no limit beside that of a step.
        kwargs: see `ClientServiceCompilerEnv`.

    Raises:
        EnvironmentNotSupported: when there is no such compiler.
    """

    def __init__(
        self,
        *args: Any,
        gcc_bin: str | Path = DEFAULT_GCC,
        benchmark: Any = None,
        datasets_site_path: str | Path | None = None,
        connection_settings: ConnectionOpts | None = None,
        timeout: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not args and "service_connection" not in kwargs:
            kwargs.setdefault("service", GCC_SERVICE_BINARY)
        self._gcc_bin = os.fspath(gcc_bin)
        self._timeout: int | None = None
        settings = connection_settings or ConnectionOpts()
        kwargs["connection_settings"] = dataclasses.replace(
            settings, script_env={**settings.script_env, "CC": self._gcc_bin}
        )
        kwargs["rewards"] = [AsmSizeReward(), ObjSizeReward(), *(kwargs.get("rewards") or ())]
        kwargs["datasets"] = [*gcc_datasets(), *(kwargs.get("datasets") or ())]
        kwargs["benchmark"] = benchmark or default_benchmark()
        super().__init__(*args, **kwargs)
        if timeout is not None:
            self.timeout = timeout

    def _init_kwargs(self) -> dict[str, Any]:
        return {"gcc_bin": self._gcc_bin, "timeout": self._timeout, **super()._init_kwargs()}

    def commandline(self) -> str:
        """Return the command line that compiles the program as it is now."""
        line: str = self.observation["command_line"]
        return line

    def commandline_to_actions(self, commandline: str) -> list[int]:
        """Return the actions that lead to a command line from the start.

        Raises:
            ValueError: when none do, or it has a word that is no option.
        """
        edits: ActionSpace = self._backend.edits
        try:
            return edits.from_string(commandline)
        except Exception as error:
            raise ValueError(f"Invalid commandline: `{commandline}`: {error}") from error

    @property
    def _backend(self) -> Any:
        if self.service is None or self.service.closed:
            self.service = self._connect()
        return self.service.backend

    # ------------------------------------------------------------------------------------------- options

    @functools.cached_property
    def gcc_spec(self) -> GccSpec:
        """The compiler and its options."""
        return Gcc(self._gcc_bin).spec

    @property
    def choices(self) -> list[int]:
        """The choice of each option, -1 for one that is not given; set it to change them all, which is no action."""
        values: list[int] = self.observation["choices"]
        return values

    @choices.setter
    def choices(self, choices: Iterable[int]) -> None:
        self.send_param("choices", ",".join(str(int(choice)) for choice in choices))

    @property
    def timeout(self) -> int | None:
        """Seconds that one compilation may take; it outlasts resets, and forks have it too."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: int | None) -> None:
        self._timeout = value
        self._params_to_send_on_reset = [one for one in self._params_to_send_on_reset if one[0] != "timeout"]
        with contextlib.suppress(SessionNotFound):  # then it is sent at the reset
            self.send_param("timeout", str(value) if value else "", resend_on_reset=True)

    # -------------------------------------------------------------------------------------- observations

    @property
    def source(self) -> str:
        """The source code."""
        return str(self.observation["source"])

    @property
    def rtl(self) -> str:
        """The last form that the program has inside of GCC before it is assembly."""
        return str(self.observation["rtl"])

    @property
    def asm(self) -> str:
        """The assembly."""
        return str(self.observation["asm"])

    @property
    def asm_size(self) -> int:
        """Bytes of the assembly."""
        return int(self.observation["asm_size"])

    @property
    def asm_hash(self) -> str:
        """A checksum of the assembly."""
        return str(self.observation["asm_hash"])

    @property
    def instruction_counts(self) -> dict[str, int]:
        """How often each instruction stands in the assembly; directives are not counted."""
        return dict(json.loads(self.observation["instruction_counts"]))

    @property
    def obj(self) -> Any:
        """The object file, an array of int8."""
        return self.observation["obj"]

    @property
    def obj_size(self) -> int:
        """Bytes of the object file."""
        return int(self.observation["obj_size"])

    @property
    def obj_hash(self) -> str:
        """A checksum of the object file."""
        return str(self.observation["obj_hash"])
