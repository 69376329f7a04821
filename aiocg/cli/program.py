"""Writing an environment's current program to a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.cli.output import CommandError, write_file

if TYPE_CHECKING:
    from aiocg import Env

PRODUCTS = ("Bitcode", "obj")  # observations of the program, one for each compiler
_OBSERVED = {  # by suffix of the file
    ".bc": ("Bitcode",),
    ".ll": ("Ir",),
    ".s": ("asm",),
    ".o": ("obj", "ObjectFile"),
}


def observation_of(env: "Env", path: Path, others: tuple[str, ...] = PRODUCTS) -> str:
    """Return the observation to write to a file: by its suffix or, for other suffixes, one of `others`.

    Raises:
        CommandError: when there is none.
    """
    wanted = _OBSERVED.get(path.suffix, others)
    if not wanted:
        raise CommandError(f"{path} should end in .bc or .ll, for LLVM's code, in .s, for GCC's, or in .o")
    found = next((name for name in wanted if name in env.observation_spaces), None)
    if found is None:
        raise CommandError(f"{env.spec.id} has no observation {' or '.join(wanted)}, so there is nothing to write")
    return found


async def write_program(env: "Env", path: Path, others: tuple[str, ...] = PRODUCTS) -> int:
    """Write the program, see `observation_of`, and return its number of bytes."""
    value = await env.observe(observation_of(env, path, others))
    content = value.encode() if isinstance(value, str) else value
    write_file(path, content)
    return len(content)
