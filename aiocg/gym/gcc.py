"""The synchronous GCC environment."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aiocg import gcc
from aiocg.gym.env import CompilerEnv

if TYPE_CHECKING:
    from aiocg.gcc import GccSpec

_RUNTIMES = "runtimes_per_observation_count"
_WARMUPS = "warmup_runs_count_per_runtime_observation"


class GccEnv(CompilerEnv):
    """A GCC environment: `CompilerEnv` with the options as a list of choices, and the observations as attributes::

        env = gymnasium.make("gcc-v0", gcc_bin="gcc-12", benchmark="programs-v0/qsort")
        env.reset()
        env.choices = [-1] * len(env.gcc_spec.options)

    Attributes that are observations compile the program if necessary, and raise ServiceError when that fails.
    """

    @property
    def gcc_spec(self) -> "GccSpec":
        """The compiler and its options."""
        return self._run(gcc.spec)

    # ----------------------------------------------------------------------------------------- the options

    @property
    def choices(self) -> list[int]:
        """The choice of each option of `gcc_spec.options`, -1 for one that is not given.

        Set it to change all of them by one action, which `step` would return the result of.

        Raises:
            InvalidAction: when set to what are no such choices.
            ServiceError: when something is observed by default, or rewarded, and cannot be.
        """
        return self._run(gcc.choices)

    @choices.setter
    def choices(self, values: Sequence[int]) -> None:
        _, _, terminated, _, info = self._run(lambda env: gcc.set_choices(env, values))
        if terminated:
            raise info["error"]

    # ---------------------------------------------------------------------------------- how it is observed

    @property
    def compile_timeout(self) -> float:
        """Time limit of one compiler run in seconds, by default 60."""
        return float(self.send_param("timeout", ""))

    @compile_timeout.setter
    def compile_timeout(self, seconds: float) -> None:
        self.send_param("timeout", repr(float(seconds)))

    @property
    def runtime_observation_count(self) -> int:
        """How often the program is run and timed for one observation of `runtime`; set it to 1 to 10,000."""
        return int(self.send_param(f"gcc.get_{_RUNTIMES}", ""))

    @runtime_observation_count.setter
    def runtime_observation_count(self, count: int) -> None:
        self.send_param(f"gcc.set_{_RUNTIMES}", str(count))

    @property
    def runtime_warmup_runs_count(self) -> int:
        """How often the program is run before it is timed; set it to 0 to 10,000."""
        return int(self.send_param(f"gcc.get_{_WARMUPS}", ""))

    @runtime_warmup_runs_count.setter
    def runtime_warmup_runs_count(self, count: int) -> None:
        self.send_param(f"gcc.set_{_WARMUPS}", str(count))

    # ------------------------------------------------------------------------------------------ the program

    @property
    def source(self) -> str:
        """The source code, as the compiler gets it."""
        return str(self.observe("source"))

    @property
    def rtl(self) -> str:
        """GCC's register transfer language after its last pass."""
        return str(self.observe("rtl"))

    @property
    def asm(self) -> str:
        """The assembly."""
        return str(self.observe("asm"))

    @property
    def asm_size(self) -> int:
        """Bytes of the assembly."""
        return int(self.observe("asm_size"))

    @property
    def asm_hash(self) -> str:
        """A checksum of the assembly."""
        return str(self.observe("asm_hash"))

    @property
    def instruction_counts(self) -> Mapping[str, int]:
        """Number of occurrences of each instruction in the assembly."""
        return dict(self.observe("instruction_counts"))

    @property
    def obj(self) -> bytes:
        """The object file."""
        return bytes(self.observe("obj"))

    @property
    def obj_size(self) -> int:
        """Bytes of the object file."""
        return int(self.observe("obj_size"))

    @property
    def obj_image_size(self) -> int:
        """Bytes that the object file brings into an image."""
        return int(self.observe("obj_image_size"))

    @property
    def obj_text_size(self) -> int:
        """Bytes of code and read-only data in the object file."""
        return int(self.observe("obj_text_size"))

    @property
    def obj_hash(self) -> str:
        """A checksum of the object file."""
        return str(self.observe("obj_hash"))
