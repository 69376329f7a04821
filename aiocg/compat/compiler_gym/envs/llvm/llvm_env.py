"""The environment of LLVM."""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.datasets.llvm import llvm_datasets
from aiocg.compat.compiler_gym.datasets.stand_ins import default_benchmark
from aiocg.compat.compiler_gym.envs.llvm.benchmark_from_command_line import (
    BenchmarkFromCommandLine,
    benchmark_from_command_line,
)
from aiocg.compat.compiler_gym.envs.llvm.llvm_benchmark import make_benchmark
from aiocg.compat.compiler_gym.envs.llvm.llvm_command_line import flags_of, opt_line
from aiocg.compat.compiler_gym.envs.llvm.llvm_rewards import llvm_rewards
from aiocg.compat.compiler_gym.errors import SessionNotFound
from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from aiocg.compat.compiler_gym.service.endpoints import LLVM_SERVICE_BINARY

__all__ = ["LlvmEnv"]

_RUNS, _WARMUPS = "runtimes_per_observation_count", "warmup_runs_count_per_runtime_observation"


class LlvmEnv(ClientServiceCompilerEnv):
    """The environment of LLVM: an action is one of CompilerGym's 124 flags, which is today's pass of that job.

    Args:
        args: the service, aiocg's workers if there is none.
        benchmark: the first program; `cbench-v1/qsort` if cBench is installed, our own `qsort` if not.
        datasets_site_path: where datasets are installed, if not where aiocg installs them.
        kwargs: see `ClientServiceCompilerEnv`.
    """

    def __init__(
        self, *args: Any, benchmark: Any = None, datasets_site_path: str | Path | None = None, **kwargs: Any
    ) -> None:
        if not args and "service_connection" not in kwargs:
            kwargs.setdefault("service", LLVM_SERVICE_BINARY)
        self._runs: dict[str, int] = {}
        kwargs["rewards"] = [*llvm_rewards(), *(kwargs.get("rewards") or ())]
        kwargs["datasets"] = [*llvm_datasets(datasets_site_path), *(kwargs.get("datasets") or ())]
        kwargs["benchmark"] = benchmark or default_benchmark()
        super().__init__(*args, **kwargs)

    @property
    def inst2vec(self) -> Any:
        """The encoder of inst2vec, which fetches what it needs when it is first used."""
        from aiocg.compat.compiler_gym.third_party.inst2vec import Inst2vecEncoder

        return Inst2vecEncoder()

    # ------------------------------------------------------------------------------------- command lines

    def commandline(self, textformat: bool = False) -> str:
        """Return the actions since the reset as a command line of LLVM 10's `opt`, whose flags the actions are.

        Args:
            textformat: of text rather than bitcode.
        """
        return opt_line(self._flags(), textformat)

    def _flags(self) -> str:
        text: str = self.action_space.commandline(self.actions)
        return text

    def commandline_to_actions(self, commandline: str) -> list[int]:
        """Return the actions of a command line, such as `commandline` returns.

        Raises:
            ValueError: when it is no such command line.
            LookupError: when it has a flag that is no action.
        """
        flags = flags_of(commandline)
        if flags is None:
            raise ValueError(f"Invalid commandline: `{commandline}`")
        actions: list[int] = self.action_space.from_commandline(flags)
        return actions

    # ------------------------------------------------------------------------------------------ programs

    @property
    def ir(self) -> str:
        """The program as text."""
        text: str = self.observation["Ir"]
        return text

    @property
    def ir_sha1(self) -> str:
        """A checksum of the program's text, 40 characters; it leaves out the name of the module."""
        digest: str = self.observation["IrSha1"]
        return digest

    def write_ir(self, path: str | Path) -> Path:
        """Write the program to a file as text, and return the path."""
        target = Path(path).expanduser()
        target.write_text(self.ir, encoding="utf-8")
        return target

    def write_bitcode(self, path: str | Path) -> Path:
        """Write the program to a file as bitcode, and return the path."""
        target = Path(path).expanduser()
        target.write_bytes(bytes(self.observation["Bitcode"]))
        return target

    def render(self, mode: str = "human") -> str | None:
        """Print the program ("human"), or return the default observation as text ("ansi")."""
        if mode != "human":
            return super().render(mode)
        print(self.ir)
        return None

    def make_benchmark(
        self, inputs: Any, copt: Iterable[str] | None = None, system_includes: bool = True, timeout: float = 600
    ) -> Benchmark:
        """Make a benchmark of files; see `compiler_gym.envs.llvm.make_benchmark`."""
        return make_benchmark(inputs, copt, system_includes, timeout)

    def make_benchmark_from_command_line(
        self,
        cmd: str | Sequence[str],
        replace_driver: bool = True,
        system_includes: bool = True,
        timeout: float = 600,
    ) -> BenchmarkFromCommandLine:
        """Make a benchmark of all C and C++ sources that a compiler's command line names.

        Args:
            cmd: such as `gcc -O2 a.c b.c -lm -o app`, or its words.
            replace_driver: link with the clang that compiles benchmarks; otherwise with the driver of the line.
            system_includes: accepted and unused: headers are found as clang finds them.
            timeout: seconds for each step.

        Raises:
            ValueError: when it is empty, or reads from standard input.
            BenchmarkInitError: when no benchmark can be made of it; the error says why.
            FileNotFoundError: when a source does not exist.
        """
        return benchmark_from_command_line(cmd, replace_driver, system_includes, timeout)

    # --------------------------------------------------------------------------------------- running time

    @property
    def runtime_observation_count(self) -> int:
        """How many running times the observation `Runtime` has; it can be set, and outlasts resets and forks."""
        return self._count(_RUNS)

    @runtime_observation_count.setter
    def runtime_observation_count(self, n: int) -> None:
        self._set_count(_RUNS, n, 1)

    @property
    def runtime_warmup_runs_count(self) -> int:
        """How often the program is run before its time is taken; it can be set, and outlasts resets and forks."""
        return self._count(_WARMUPS)

    @runtime_warmup_runs_count.setter
    def runtime_warmup_runs_count(self, n: int) -> None:
        self._set_count(_WARMUPS, n, 0)

    def _count(self, name: str) -> int:
        return self._runs[name] if name in self._runs else int(self.send_param(f"llvm.get_{name}", ""))

    def _set_count(self, name: str, n: int, least: int) -> None:
        if n < least:
            raise ValueError(f"{name} must be >= {least}. Received: {n}")
        key = f"llvm.set_{name}"
        self._params_to_send_on_reset = [one for one in self._params_to_send_on_reset if one[0] != key]
        with contextlib.suppress(SessionNotFound):  # then it is sent at the reset
            self.send_param(key, str(n), resend_on_reset=True)
        self._runs[name] = n

    def fork(self) -> Self:
        """Return an independent environment at the same state, on the same service."""
        other = super().fork()
        other._runs = dict(self._runs)
        return other
