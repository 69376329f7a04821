"""Finding out which options a compiler has: from its help, checked by trying them, and kept for the next time."""

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.checking import check
from aiocg.workers.gcc.compiler_options import CompilerOptions, Dropped
from aiocg.workers.gcc.exclusions import ceiling, exclusion
from aiocg.workers.gcc.help_text import read_help
from aiocg.workers.gcc.options_file import OptionsFile
from aiocg.workers.gcc.place import Place
from aiocg.workers.gcc.proposals import Proposal, propose
from aiocg.workers.gcc.trials import Trials, question

__all__ = ["CompilerOptions", "Dropped", "discover"]

_TOPICS = ("optimizers", "params")


def discover(place: Place, cache_dir: str = "") -> CompilerOptions:
    """Return the options of the compiler at a place.

    That takes about a hundred compiles of a small program the first time, and one run of the compiler after that. Of
    several processes that begin at once, one discovers and the others wait for it.

    Args:
        place: where the compiler runs.
        cache_dir: the folder in which is kept what was found, "" for none. That it cannot be written to is no error.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when there is no GCC, or it does not say what its options are.
    """
    version = question(place, "--version").partition("\n")[0].strip()
    return OptionsFile(cache_dir, place.identity, version).get(lambda: _discovered(place, version))


def _discovered(place: Place, version: str) -> CompilerOptions:
    trials = Trials(place)
    entries = [
        entry
        for topic in _TOPICS
        for entry in read_help(question(place, f"--help={topic}", "-Q"), question(place, f"--help={topic}"))
    ]
    proposals, dropped = propose(entries)
    wanted = []
    for option, ask in proposals:
        if reason := exclusion(option.name):
            dropped.append(Dropped(option.name, reason))
            continue
        highest = ceiling(option.name)
        if option.template and highest is not None and highest < option.high:
            dropped.append(Dropped(option.template.replace("{}", str(option.high)), "too much memory"))
            option = msgspec.structs.replace(option, high=highest)
        wanted.append(Proposal(option, ask))
    options, refused = check(wanted, trials)
    if not options:
        raise CompilationError(FailureCode.COMPILER, f"{place.name} has no options that GCC has: is it {version!r}?")
    return CompilerOptions(version, tuple(options), (*dropped, *refused))
