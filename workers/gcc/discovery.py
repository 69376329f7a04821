"""Finding out which options a compiler has."""

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.compiler_options import CompilerOptions, Dropped
from aiocg.workers.gcc.help_text import read_help
from aiocg.workers.gcc.place import Place
from aiocg.workers.gcc.proposals import propose

__all__ = ["CompilerOptions", "Dropped", "discover"]

_SECONDS = 60.0  # for one run of the compiler


def discover(place: Place, cache_dir: str = "") -> CompilerOptions:
    """Return the options of the compiler at a place.

    Args:
        place: where the compiler runs.
        cache_dir: the folder in which it is kept what was found, "" for none.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when there is no GCC, or it does not say what its options are.
    """
    version = _ask(place, "--version").partition("\n")[0].strip()
    entries = [
        entry
        for topic in ("optimizers", "params")
        for entry in read_help(_ask(place, f"--help={topic}", "-Q"), _ask(place, f"--help={topic}"))
    ]
    proposals, dropped = propose(entries)
    return CompilerOptions(version, tuple([proposal.option for proposal in proposals if not proposal.ask]), tuple(dropped))


def _ask(place: Place, *question: str) -> str:
    answer = place.run([place.compiler, *question], folder=place.root, timeout=_SECONDS)
    if answer.status != 0:
        said = answer.errors.decode(errors="replace").strip()
        raise CompilationError(FailureCode.COMPILER, f"{place.name} {' '.join(question)}: {said or answer.status}")
    return answer.output.decode(errors="replace")
