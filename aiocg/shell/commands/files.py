"""Commands that write and read files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.llvm.legacy_states import modern_state
from aiocg.preparation import in_thread
from aiocg.shell.command import Argument, Command
from aiocg.shell.line import CommandError
from aiocg.shell.rendering import actions, number
from aiocg.shell.suggestions import paths
from aiocg.state import LegacyState
from aiocg.state_files import find_state

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "Files"
OBSERVED = {".bc": "Bitcode", ".ll": "Ir", ".s": "asm", ".o": "obj"}  # what a file of a suffix has in it


async def _write(path: Path, content: bytes) -> None:
    try:
        await in_thread(lambda: path.expanduser().write_bytes(content))
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error


async def save(shell: "Shell", words: list[str]) -> "RenderableType":
    """Write the state as JSON."""
    session, path = shell.session, Path(words[0])
    await _write(path, f"{session.env.state.to_json()}\n".encode())
    return Text(f"wrote {path}: {session.benchmark_name} after {actions(session.position)}")


async def load(shell: "Shell", words: list[str]) -> "RenderableType":
    """Go to a state that was saved."""
    session, place = shell.session, os.path.expanduser(words[0])
    if place == "-":
        raise CommandError("load needs a file: what is typed here are commands")
    state = await in_thread(lambda: find_state(place))
    if isinstance(state, LegacyState):
        state, translation = await modern_state(session.runtime, state, session.env.spec.id)
        shell.console.print(f"flags: {translation}", markup=False, soft_wrap=True)
    await session.load(state)
    total = session.present.total
    text = Text(f"{session.benchmark_name} after {actions(session.position)}")
    if total is not None:
        text.append(f", reward in all {number(total)}")
    if total is not None and state.reward is not None and abs(total - state.reward) > 1e-6:
        text.append(f"; the file says {number(state.reward)}", style="yellow")
    return text


async def write(shell: "Shell", words: list[str]) -> "RenderableType":
    """Write the program."""
    session, path = shell.session, Path(words[0])
    name = OBSERVED.get(path.suffix)
    if name is None:
        raise CommandError(f"{path} should end in .bc or .ll, for LLVM's code, or in .s or .o, for GCC's")
    if name not in session.env.observation_spaces:
        raise CommandError(f"{session.env.spec.id} has no observation {name}, so there is nothing to write")
    value = await session.env.observe(name)
    content = value.encode() if isinstance(value, str) else value
    await _write(path, content)
    return Text(f"wrote {path}: {len(content):,} bytes")


COMMANDS: tuple[Command, ...] = (
    Command(
        "save",
        SECTION,
        "write program and actions to a file, for `load`, `aiocg replay` and `aiocg validate`",
        save,
        (Argument("FILE", paths),),
        examples=("save best.json",),
    ),
    Command(
        "load",
        SECTION,
        "go to a state that was saved",
        load,
        (Argument("FILE[:LINE]", paths),),
        details="FILE is JSON, or a table with the state on that line, also of CompilerGym's; or the address of one.",
        examples=("load best.json", "load results.csv:3"),
    ),
    Command(
        "write",
        SECTION,
        "write the program as it is now, to a .bc or a .ll file, for GCC to a .s or a .o file",
        write,
        (Argument("FILE", paths),),
        examples=("write best.bc", "write best.ll"),
    ),
)
