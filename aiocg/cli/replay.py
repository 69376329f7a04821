"""`aiocg replay`: go back to a state that was saved."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from aiocg.cli.loop import run
from aiocg.cli.output import Json, check_writable, fail, print_json, print_line, write_file
from aiocg.llvm.legacy_states import DEFAULT_ENVIRONMENT, Translation, modern_state
from aiocg.runtime import Runtime
from aiocg.spaces.actions import join_texts
from aiocg.state import LegacyState
from aiocg.state_files import State, find_state
from aiocg.validation import rewards_agree


def replay(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:LINE]",
            help="A state: a file of JSON as `aiocg search --state` writes it, a line of CSV, also of CompilerGym's. "
            "- is standard input; an address on the web will do.",
        ),
    ],
    environment: Annotated[
        str, typer.Option("--env", help="Environment that a state of CompilerGym comes from: it does not say.")
    ] = DEFAULT_ENVIRONMENT,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the program at that state: bitcode, or GCC's object file."),
    ] = None,
    json: Json = False,
) -> None:
    """Replay a saved state and compare the reward that it earns with the one it says.

    A state that CompilerGym found with LLVM 10 is replayed with today's passes; another reward is no error then.

    Example: aiocg replay state.json -o best.bc
    """
    check_writable(output)
    try:
        state = find_state(place)
    except OSError as error:
        fail(f"cannot read {error.filename or place}: {error.strerror or error}")
    run(_replay(state, environment, output, json))


async def _replay(state: State, environment: str, output: Path | None, json: bool) -> None:
    translation: Translation | None = None
    async with Runtime(workers=1) as runtime:
        if isinstance(state, LegacyState):
            state, translation = await modern_state(runtime, state, environment)
        env = await runtime.replay(state)
        found = env.state
        comparable = state.reward_space is not None and env.reward_spaces[state.reward_space].deterministic
        if output is not None:
            write_file(output, await env.observe("Bitcode" if "Bitcode" in env.observation_spaces else "obj"))
    other = translation is not None and translation.another_compiler
    if json:
        value = {"state": msgspec.to_builtins(found), "expected_reward": state.reward}
        print_json(value if translation is None else {**value, "translation": msgspec.to_builtins(translation)})
    else:
        print_line(f"benchmark  {found.benchmark}")
        print_line(f"actions    {join_texts(found.actions) or 'none'}")
        saved = "saved by another compiler" if other else "saved"
        print_line(f"reward     {_number(found.reward)} ({saved}: {_number(state.reward)})")
        if translation is not None and other:
            print_line(f"flags      {translation}")
            for flag, text in translation.renamed.items():
                print_line(f"           {flag} is {text}")
            for flag, reason in translation.reasons.items():
                print_line(f"           {flag} is left out: {reason}")
    if state.reward is None or found.reward is None or not comparable or other:
        return
    if not rewards_agree(state.reward, found.reward):
        fail(f"the reward is {found.reward}, not {state.reward} as saved")


def _number(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:.4f}"
