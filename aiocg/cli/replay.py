"""`aiocg replay`: go back to a state that was saved."""

from pathlib import Path
from typing import Annotated

import typer

from aiocg.cli.loop import run
from aiocg.cli.output import console, fail, print_json
from aiocg.runtime import Runtime
from aiocg.state import CompilerEnvState


def replay(
    path: Annotated[Path, typer.Argument(help="File with a state as JSON, as `aiocg search --state` writes it.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the program at that state as bitcode.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a saved state and compare the reward that it earns with the one it says.

    Example: aiocg replay state.json -o best.bc
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    run(_replay(CompilerEnvState.from_json(text), output, json))


async def _replay(state: CompilerEnvState, output: Path | None, json: bool) -> None:
    async with Runtime(workers=1) as runtime:
        env = await runtime.replay(state)
        found = env.state
        if output is not None:
            write_file(output, await env.observe("Bitcode"))
    if json:
        print_json({"state": found.__struct_fields__ and _fields(found), "expected_reward": state.reward})
    else:
        console.print(f"benchmark  {found.benchmark}")
        console.print(f"actions    {', '.join(found.actions) or 'none'}")
        console.print(f"reward     {found.reward} (saved: {state.reward})")
    if state.reward is not None and found.reward is not None and abs(state.reward - found.reward) > 1e-6:
        fail(f"the reward is {found.reward}, not {state.reward} as saved")


def _fields(state: CompilerEnvState) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__struct_fields__}


def write_file(path: Path, content: bytes) -> None:
    """Write a result file; exit with a message when that is not possible."""
    try:
        path.write_bytes(content)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")
