"""The synchronous GCC environment."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiocg import gcc
from aiocg.gym._env import CompilerEnv, observed, parameter

if TYPE_CHECKING:
    from aiocg.gcc import GccSpec


class GccEnv(CompilerEnv):
    """A GCC environment: `CompilerEnv` with the options as a list of choices, and the observations as attributes::

        env = gymnasium.make("gcc-v0", gcc_bin="gcc-12", benchmark="programs-v0/qsort")
        env.reset()
        env.choices = [-1] * len(env.gcc_spec.options)

    Attributes that are observations compile the program if necessary, and raise ServiceError when that fails.

    Attributes:
        runtime_observation_count: how often the program is run and timed for one observation of `runtime`; set it to 1
            to 10,000.
        runtime_warmup_runs_count: how often the program is run before it is timed; set it to 0 to 10,000.
        source: the source code, as the compiler gets it; str.
        rtl: GCC's register transfer language after its last pass; str.
        asm: the assembly; str.
        asm_size: bytes of the assembly; int.
        asm_hash: a checksum of the assembly; str.
        instruction_counts: number of occurrences of each instruction in the assembly; dict from str to int.
        obj: the object file; bytes.
        obj_size: bytes of the object file; int.
        obj_image_size: bytes that the object file brings into an image; int.
        obj_text_size: bytes of code and read-only data in the object file; int.
        obj_hash: a checksum of the object file; str.
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

    runtime_observation_count = parameter(
        "gcc.runtimes_per_observation_count",
        "How often the program is run and timed for one observation of `runtime`; set it to 1 to 10,000.",
    )
    runtime_warmup_runs_count = parameter(
        "gcc.warmup_runs_count_per_runtime_observation",
        "How often the program is run before it is timed; set it to 0 to 10,000.",
    )

    # ------------------------------------------------------------------------------------------ the program

    source = observed("source", str, "The source code, as the compiler gets it.")
    rtl = observed("rtl", str, "GCC's register transfer language after its last pass.")
    asm = observed("asm", str, "The assembly.")
    asm_size = observed("asm_size", int, "Bytes of the assembly.")
    asm_hash = observed("asm_hash", str, "A checksum of the assembly.")
    instruction_counts = observed(
        "instruction_counts", dict, "Number of occurrences of each instruction in the assembly."
    )
    obj = observed("obj", bytes, "The object file.")
    obj_size = observed("obj_size", int, "Bytes of the object file.")
    obj_image_size = observed("obj_image_size", int, "Bytes that the object file brings into an image.")
    obj_text_size = observed("obj_text_size", int, "Bytes of code and read-only data in the object file.")
    obj_hash = observed("obj_hash", str, "A checksum of the object file.")
