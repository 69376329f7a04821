"""What a worker refuses from clients that it does not trust.

Sources may include any file of the machine, and a compiler's flags name programs to run: no list of words makes such a
compile harmless on this machine. So it is done in a container, or not at all. What is linked and run outside of it, as
programs are that stand on our own runtime, is as for LLVM's.
"""

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.place import Place
from aiocg.workers.programs.recipe import Program, failure

__all__ = ["check_code", "check_place", "check_recipe"]


def check_place(place: Place) -> None:
    """Refuse to compile on this machine.

    Raises:
        CompilationError: with `FailureCode.COMPILER`.
    """
    if not place.is_apart:
        raise CompilationError(
            FailureCode.COMPILER,
            f"this node compiles for clients that it does not trust, and sources could have {place.name} read any file "
            "here and run any program: serve a container, gcc_bin=docker:gcc:13, or trust the clients",
        )


def check_recipe(recipe: Program | None) -> None:
    """Refuse a recipe with words or files that could make a linker touch others.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK`.
    """
    from aiocg.workers.llvm.trust import check_program  # it loads much that no other GCC worker needs

    check_program(recipe)


def check_code(code: bytes) -> None:
    """Refuse to link machine code that tells a linker what to do.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION`.
    """
    from aiocg.workers.llvm.trust import machine_code_problem

    if problem := machine_code_problem(code):
        raise failure(f"the program is not linked here: its object file {problem}")
