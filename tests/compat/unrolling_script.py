"""A compiler of one's own that calls LLVM's programs, as scripts for CompilerGym do: its actions unroll loops."""

import shutil
import subprocess
from pathlib import Path

import compiler_gym.third_party.llvm as llvm
from compiler_gym.service import CompilationSession
from compiler_gym.service.proto import (
    ActionSpace,
    Benchmark,
    DoubleRange,
    Event,
    Int64Range,
    NamedDiscreteSpace,
    ObservationSpace,
    Space,
    StringSpace,
)
from compiler_gym.service.runtime import create_and_run_compiler_gym_service
from compiler_gym.util.commands import run_command

ACTIONS = [f"-mem2reg -loop-rotate -loop-unroll -unroll-count={count}" for count in (2, 4, 8)]


class UnrollingSession(CompilationSession):
    """Its state is a file of textual IR."""

    compiler_version = "1.0.0"
    action_spaces = [ActionSpace(name="unrolling", space=Space(named_discrete=NamedDiscreteSpace(name=ACTIONS)))]
    observation_spaces = [
        ObservationSpace(name="ir", space=Space(string_value=StringSpace(length_range=Int64Range(min=0)))),
        ObservationSpace(name="lines", space=Space(double_value=DoubleRange(min=0)), deterministic=True),
    ]

    def __init__(self, working_directory: Path, action_space: ActionSpace, benchmark: Benchmark) -> None:
        super().__init__(working_directory, action_space, benchmark)
        source, self.program = working_directory / "program.c", working_directory / "program.ll"
        self.before, self.code = working_directory / "before.ll", working_directory / "program.s"
        source.write_bytes(benchmark.program.contents)
        front_end = [llvm.clang_path(), "-Xclang", "-disable-O0-optnone", "-emit-llvm", "-S", source]
        run_command([*map(str, front_end), "-o", str(self.program)], timeout=60)

    def apply_action(self, action: Event) -> tuple[bool, ActionSpace | None, bool]:
        shutil.copyfile(self.program, self.before)
        words = [str(llvm.opt_path()), *ACTIONS[action.int64_value].split(), str(self.program), "-S"]
        run_command([*words, "-o", str(self.program)], timeout=60)
        compared = subprocess.run([llvm.llvm_diff_path(), self.before, self.program], stderr=subprocess.DEVNULL)
        return False, None, compared.returncode == 0

    def get_observation(self, space: ObservationSpace) -> Event:
        if space.name == "ir":
            return Event(string_value=self.program.read_text())
        run_command([str(llvm.llc_path()), "-filetype=asm", str(self.program), "-o", str(self.code)], timeout=60)
        return Event(double_value=float(len(self.code.read_text().splitlines())))


if __name__ == "__main__":
    create_and_run_compiler_gym_service(UnrollingSession)
