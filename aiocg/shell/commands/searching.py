"""Commands that look for better actions."""

from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.shell import searching
from aiocg.shell.command import Argument, Command, count_of
from aiocg.shell.line import CommandError
from aiocg.shell.output import Paged
from aiocg.shell.rendering import actions, entry_line, number, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell
    from aiocg.shell.session import Entry

__all__ = ["COMMANDS"]

SECTION = "Searching"


def _check_reward(shell: "Shell") -> None:
    if shell.session.env.reward_space is None:
        raise CommandError("there is no default reward to look for: set one with `set-default-reward`")


async def try_all_actions(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show what every action would earn."""
    _check_reward(shell)
    limit = count_of(words, 0) if words else None
    async with shell.session.crew() as crew:
        found = await searching.try_all(crew, shell.progress.update)
    rows = []
    for text, candidate in found[:limit]:
        if candidate.error is not None:
            outcome = Text(f"{type(candidate.error).__name__}", style="red")
        else:
            outcome = Text("no effect", style="dim") if candidate.had_no_effect else Text("changed")
        reward = candidate.reward if candidate.error is None else None
        style = "" if not reward else "green" if reward > 0 else "red"
        rows.append((text, outcome, Text(number(reward), style=style)))
    title = f"{len(found)} actions by {shell.session.env.reward_space}"
    return Paged(table(title, ("action", "program", "reward"), rows, right=(2,)))


async def greedy(shell: "Shell", words: list[str]) -> "RenderableType":
    """Take the best action, again and again."""
    _check_reward(shell)
    steps = count_of(words, 1)
    taken = await searching.greedy(shell.session, steps, shell.progress.update, lambda entry: _tell(shell, entry))
    if taken < steps:
        return Text(f"no {'further ' if taken else ''}action has a positive reward")
    return _earned(shell, taken)


async def hill_climb(shell: "Shell", words: list[str]) -> "RenderableType":
    """Take random actions that pay."""
    _check_reward(shell)
    steps = count_of(words, 1)
    taken = await searching.hill_climb(shell.session, steps, shell.progress.update, lambda entry: _tell(shell, entry))
    return Text(f"kept {taken} of {steps}; ").append_text(_earned(shell, taken))


def _tell(shell: "Shell", entry: "Entry") -> None:
    shell.console.print(entry_line(entry, None), soft_wrap=True)


def _earned(shell: "Shell", taken: int) -> Text:
    return Text(f"reward in all {number(shell.session.present.total)}, after {actions(shell.session.position)}")


async def simplify_stack(shell: "Shell", words: list[str]) -> "RenderableType":
    """Drop the actions that are not needed."""
    session = shell.session
    before, total = session.position, session.present.total
    smallest = await searching.simplify(session, shell.progress.update)
    if len(smallest) == before:
        return Text(f"nothing to drop: {actions(before)}, without each of which the others earn less")
    await session.replay(smallest)
    return Text(
        f"dropped {before - len(smallest)} of {actions(before)}; reward in all "
        f"{number(session.present.total)}, before {number(total)}"
    )


_COUNT = (Argument("NUMBER", optional=True),)

COMMANDS: tuple[Command, ...] = (
    Command(
        "try-all-actions",
        SECTION,
        "show what each action would earn, the best first; the program stays as it is",
        try_all_actions,
        _COUNT,
        details="With NUMBER only so many are shown.",
        examples=("try-all-actions", "try-all-actions 10"),
    ),
    Command(
        "greedy",
        SECTION,
        "apply the action that earns most, NUMBER times or until none earns anything",
        greedy,
        _COUNT,
        examples=("greedy", "greedy 5"),
    ),
    Command(
        "hill-climb",
        SECTION,
        "try NUMBER random actions, and keep each that earns something",
        hill_climb,
        _COUNT,
        examples=("hill-climb 50",),
    ),
    Command(
        "simplify-stack",
        SECTION,
        "drop the actions without which the others earn as much",
        simplify_stack,
        details="Without a default reward only those are dropped that changed nothing.",
    ),
)
