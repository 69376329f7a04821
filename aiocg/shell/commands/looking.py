"""Commands that look at the program as it is now."""

from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.preparation import in_thread
from aiocg.shell import suggestions
from aiocg.shell.command import Argument, Command, count_of
from aiocg.shell.difference import difference
from aiocg.shell.line import CommandError
from aiocg.shell.output import Paged, Source
from aiocg.shell.rendering import actions, number, observation, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "Looking at the program"


async def list_observations(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the observation spaces."""
    env = shell.session.env
    rows = [
        (space.name, "default" if space.name == env.observation_space else "", space.description)
        for space in env.observation_spaces.values()
    ]
    return Paged(table("Observation spaces", ("observation", "", "description"), rows))


async def observe(shell: "Shell", words: list[str]) -> "RenderableType | None":
    """Show observations."""
    env = shell.session.env
    names = words or ([env.observation_space] if env.observation_space is not None else [])
    if not names:
        raise CommandError("there is no default observation: name one, or set one with `set-default-observation`")
    values = await env.observe(*names)
    if len(names) == 1:
        return observation(env.observation_spaces[names[0]], values)
    for name, value in zip(names, values, strict=True):
        shell.console.print(name, style="bold")
        shell.console.print(observation(env.observation_spaces[name], value))
    return None


async def list_rewards(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the reward spaces."""
    env = shell.session.env
    rows = [
        (reward.name, "default" if reward.name == env.reward_space else "", reward.description)
        for reward in env.reward_spaces.values()
    ]
    return Paged(table("Reward spaces", ("reward", "", "description"), rows))


async def reward(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show what the actions earned."""
    session = shell.session
    name = words[0] if words else session.env.reward_space
    if name is None:
        raise CommandError("there is no default reward: name one, or set one with `set-default-reward`")
    if name == session.env.reward_space:
        last, total = session.present.reward, session.present.total
    else:
        rewards = await session.rewards_in(name)
        last, total = (rewards[-1] if rewards else None), sum(rewards)
    text = Text(f"{name} {number(total)}")
    return text if last is None else text.append(f", of which the last action {number(last)}", style="dim")


async def commandline(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show the command line that does the same."""
    return Source(shell.session.env.commandline())


async def validate(shell: "Shell", words: list[str]) -> "RenderableType":
    """Check that the program still does what it did."""
    result = await shell.session.env.validate()
    lines = [f"skipped: {reason}" for reason in result.skipped]
    if not result.okay():
        details = "\n".join(f"{error.type}: {error.data}" for error in result.errors)
        raise CommandError(f"this state is not valid: {result.error_details}\n{details}".strip())
    compared = "it does what it did" if result.benchmark_semantics_validated else "what it does could not be compared"
    return Text("\n".join([*lines, f"valid: the actions lead to the same program again, and {compared}"]))


_TEXTS = ("Ir", "asm", "loop_tree")  # the observations that are the program as text, of one compiler each


async def diff(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show how the last actions changed the program's text."""
    session = shell.session
    count = count_of(words, 1)
    if not session.position:
        raise CommandError("there is no action yet whose effect could be shown")
    if count > session.position:
        raise CommandError(f"there is only {actions(session.position)}")
    text = next((one for one in _TEXTS if one in session.env.observation_spaces), None)
    if text is None:
        raise CommandError(f"{session.env.spec.id} cannot show its program as text")
    async with session.at(session.position - count) as earlier:
        before = await earlier.observe(text)
    after = await session.env.observe(text)
    name = ", ".join(session.actions[-count:])
    lines = await in_thread(lambda: difference(before, after, f"before {name}", f"after {name}"))
    if not lines:
        return Text(f"{name} changed nothing{' but numbers of values' if before != after else ''}")
    return Source("\n".join(lines), "diff")


COMMANDS: tuple[Command, ...] = (
    Command("list-observations", SECTION, "list what can be observed", list_observations, aliases=("observations",)),
    Command(
        "observation",
        SECTION,
        "show observations, the default one if none is named",
        observe,
        (Argument("NAME", suggestions.observation_spaces, optional=True, repeated=True),),
        aliases=("observe",),
        examples=("observation Ir", "observation IrInstructionCount IrInstructionCountOz"),
    ),
    Command("list-rewards", SECTION, "list the rewards", list_rewards, aliases=("rewards",)),
    Command(
        "reward",
        SECTION,
        "show what the actions earned, in the default reward or another",
        reward,
        (Argument("NAME", suggestions.reward_spaces, optional=True),),
        examples=("reward", "reward ObjectTextSizeOz"),
    ),
    Command(
        "diff",
        SECTION,
        "show how the last action, or the last NUMBER, changed the program",
        diff,
        (Argument("NUMBER", optional=True),),
        details="Lines count as the same if they differ only in the numbers that LLVM gives to values without a name.",
        examples=("diff", "diff 3"),
    ),
    Command("commandline", SECTION, "show a command line for the compiler's own tool that does the same", commandline),
    Command(
        "validate",
        SECTION,
        "check that the actions lead here again, and that the program does what it did",
        validate,
        details="Programs that can be run are built and run as they came and as they are, also under sanitizers.",
    ),
)
