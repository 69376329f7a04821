"""What a worker refuses from untrusted clients.

Sources may include any file of the machine, and compiler flags can name programs to run: no list of allowed words makes
such a compile safe on this machine, so it runs in a container or not at all. Programs for our own runtime are linked
and run outside the container, under the same rules as LLVM's.
"""

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.runner import CommandRunner
from aiocg.workers.programs.recipe import Program, failure


def check_runner(runner: CommandRunner) -> None:
    """Refuse to compile on this machine.

    Raises:
        CompilationError: with `FailureCode.COMPILER`.
    """
    if not runner.is_apart:
        raise CompilationError(
            FailureCode.COMPILER,
            f"this node compiles for clients that it does not trust, and sources could make {runner.name} read any "
            "file here and run any program: serve a container, gcc_bin=docker:gcc:13, or trust the clients",
        )


def check_recipe(recipe: Program | None) -> None:
    """Refuse a recipe whose words or files could make the linker access other files.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK`.
    """
    from aiocg.workers.llvm.trust import check_program  # imports much that no other GCC worker needs

    check_program(recipe)


def check_code(code: bytes) -> None:
    """Refuse machine code that contains instructions for the linker.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION`.
    """
    from aiocg.workers.llvm.trust import machine_code_problem

    if problem := machine_code_problem(code):
        raise failure(f"the program is not linked here: its object file {problem}")
