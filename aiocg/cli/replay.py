"""`aiocg replay`: go back to a state that was saved."""

from pathlib import Path
from typing import Annotated

import typer

from aiocg.cli.loop import run
from aiocg.cli.output import Json, check_writable, fail, print_json, print_line, write_file
from aiocg.runtime import Runtime
from aiocg.spaces.actions import join_texts
from aiocg.state import CompilerEnvState


def replay(
    path: Annotated[Path, typer.Argument(help="File with a state as JSON, as `aiocg search --state` writes it.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the program at that state as bitcode.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay a saved state and compare the reward that it earns with the one it says.

    Example: aiocg replay state.json -o best.bc
    """
    check_writable(output)
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
        print_json({"state": _fields(found), "expected_reward": state.reward})
    else:
        print_line(f"benchmark  {found.benchmark}")
        print_line(f"actions    {join_texts(found.actions) or 'none'}")
        print_line(f"reward     {_number(found.reward)} (saved: {_number(state.reward)})")
    if state.reward is not None and found.reward is not None and abs(state.reward - found.reward) > 1e-6:
        fail(f"the reward is {found.reward}, not {state.reward} as saved")


def _number(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:.4f}"


def _fields(state: CompilerEnvState) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__struct_fields__}
