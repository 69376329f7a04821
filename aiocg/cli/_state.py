"""`aiocg state` and `aiocg replay`: saved states."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from aiocg.cli._options import command, write_program
from aiocg.cli.output import check_writable, fail, print_json, print_line, run, write_file

if TYPE_CHECKING:
    from aiocg.states.files import State
    from aiocg.states.result import Translation
    from aiocg.web.saved import Opening

app = typer.Typer(help="Look at a saved state.", no_args_is_help=True)


@app.callback()
def state() -> None:
    """Look at a saved state."""


@command(app, "plot")
def _plot(
    place: str,
    output: Path,
    program: str = "",
) -> None:
    """Draw what each action of a state did to the cost, beside the compiler's own levels.

    Example: aiocg state plot best.json -o best.svg

    Args:
        place (FILE[:LINE]): A state, as `aiocg search --state` writes it, a line of CSV, or the folder of a
            leaderboard's entry.
        output (-o, --output): The picture to write, in SVG.
        program: Of several states, take the best of this program.
    """
    from aiocg.web.saved import find_opening

    check_writable(output, ".svg")
    try:
        opening = find_opening(place, program)
    except OSError as error:
        fail(f"cannot read {error.filename or place}: {error.strerror or error}")
    write_file(output, run(_drawn(opening)).encode())
    print_line(f"drawn in {output}")


async def _drawn(opening: "Opening") -> str:
    import aiocg
    from aiocg.pictures.curves import bars
    from aiocg.web.limits import Limits
    from aiocg.web.sessions import Sessions
    from aiocg.web.tree import label, number

    async with aiocg.Runtime(workers=1) as runtime, Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(opening))
        tree, cost = session.tree, session.costs[0]
        nodes = [tree[one] for one in tree.trail]
    rows = [(label(node.action) or "as it came", node.costs[cost]) for node in nodes]
    levels = {f"{name} {number(value)}": value for name, value in session.lines.items()}
    return bars(rows, levels, f"{opening.program}: {cost}")


def replay(
    place: str,
    environment: str = "llvm-ic-v0",
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Replay a saved state and compare the reward that it earns with the one it says.

    A state that CompilerGym found with LLVM 10 is replayed with today's passes; another reward is no error then.

    Example: aiocg replay state.json -o best.bc

    Args:
        place (FILE[:LINE]): A state: a file of JSON as `aiocg search --state` writes it, a line of CSV, also of
            CompilerGym's. - is standard input; an address on the web will do.
        environment (--env): Environment that a state of CompilerGym comes from: it does not say.
        output (-o, --output): Write the program at that state: .bc, .ll, .o, .s, or linked.
    """
    from aiocg.states.files import find_state

    check_writable(output)
    try:
        state = find_state(place)
    except OSError as error:
        fail(f"cannot read {error.filename or place}: {error.strerror or error}")
    run(_replay(state, environment, output, json))


async def _replay(state: "State", environment: str, output: Path | None, json: bool) -> None:
    import msgspec

    from aiocg import Runtime
    from aiocg.spaces.actions import join_texts
    from aiocg.states.state import LegacyState
    from aiocg.validation import rewards_agree
    from aiocg.validation.legacy_states import modern_state

    translation: Translation | None = None
    async with Runtime(workers=1) as runtime:
        if isinstance(state, LegacyState):
            state, translation = await modern_state(runtime, state, environment)
        env = await runtime.replay(state)
        found = env.state
        comparable = state.reward_space is not None and env.reward_spaces[state.reward_space].deterministic
        if output is not None:
            await write_program(env, output)
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
