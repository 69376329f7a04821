"""Commands that set what is observed and rewarded, and what actions there are."""

from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.plan import check_known
from aiocg.shell import suggestions
from aiocg.shell.command import Argument, Command
from aiocg.shell.rendering import actions, number, summary, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "Settings"


async def set_default_observation(shell: "Shell", words: list[str]) -> "RenderableType":
    """Set what is shown after each action."""
    env = shell.session.env
    if not words:
        env.observation_space = None
        return Text("nothing is observed by default")
    check_known("observation space", words[0], env.observation_spaces)
    value = await env.observe(words[0])  # before it is set: should it fail, every action would
    env.observation_space = words[0]
    return Text(f"{words[0]}: {summary(env.observation_spaces[words[0]], value)}")


async def set_default_reward(shell: "Shell", words: list[str]) -> "RenderableType":
    """Set what actions are rewarded in."""
    session = shell.session
    await session.set_reward(words[0] if words else None)
    if not words:
        return Text("there is no default reward")
    return Text(f"{words[0]}: {number(session.present.total)} after {actions(session.position)}")


async def action_spaces(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the action spaces."""
    env = shell.session.env
    rows = [
        (
            space.name,
            "default" if space.name == env.action_space.name else "",
            str(len(space.names) or "any"),
            space.kind,
            space.description,
        )
        for space in env.action_spaces.values()
    ]
    return table("Action spaces", ("action space", "", "actions", "kind", "description"), rows, right=(2,))


async def set_action_space(shell: "Shell", words: list[str]) -> "RenderableType":
    """Set what actions there are."""
    await shell.session.set_action_space(words[0])
    space = shell.session.env.action_space
    return Text(f"{space.name}: {space.description}; `list-actions` lists them")


COMMANDS: tuple[Command, ...] = (
    Command(
        "set-default-observation",
        SECTION,
        "set what is shown after each action; nothing without NAME",
        set_default_observation,
        (Argument("NAME", suggestions.observation_spaces, optional=True),),
        examples=("set-default-observation IrInstructionCount",),
    ),
    Command(
        "set-default-reward",
        SECTION,
        "set what actions are rewarded in; nothing without NAME",
        set_default_reward,
        (Argument("NAME", suggestions.reward_spaces, optional=True),),
        details="The actions so far are rewarded in it as well.",
        examples=("set-default-reward ObjectTextSizeOz",),
    ),
    Command("action-spaces", SECTION, "list the action spaces", action_spaces, aliases=("list-action-spaces",)),
    Command(
        "set-action-space",
        SECTION,
        "choose among other actions; what was done stays what it is",
        set_action_space,
        (Argument("NAME", suggestions.action_spaces),),
        examples=("set-action-space Pipelines",),
    ),
)
