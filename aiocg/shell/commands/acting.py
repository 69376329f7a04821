"""Commands that apply actions and take them back."""

import fnmatch
from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.shell import suggestions
from aiocg.shell.command import Argument, Command, count_of
from aiocg.shell.line import CommandError
from aiocg.shell.output import Paged
from aiocg.shell.rendering import actions, entry_line, number, stack_table, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "Actions"


async def list_actions(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the actions of the action space."""
    space = shell.session.env.action_space
    if not space.names:
        return Text(f"{space.name}: {space.description}, such as {', '.join(space.language.names[:5])}")
    rows = [
        (index, name, description)
        for index, (name, description) in enumerate(zip(space.names, space.descriptions, strict=True))
        if not words or _matches(words[0].lower(), name.lower())
    ]
    if not rows:
        raise CommandError(f"no action of {space.name} matches {words[0]!r}")
    title = f"Actions of {space.name}"
    if space.targets is not None:
        title += f", for {', '.join(space.targets[:5])}{' ...' if len(space.targets) > 5 else ''}"
    return Paged(table(title, ("index", "action", "description"), rows, right=(0,)))


def _matches(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) if set(pattern) & set("*?[") else pattern in name


async def action(shell: "Shell", words: list[str]) -> "RenderableType | None":
    """Apply actions, all of which are known to exist before the first is applied."""
    session = shell.session
    texts: list[str] = []
    for word in words:
        if word == "-":
            texts.append(texts[-1] if texts else _last(shell))
        elif word == "?":
            texts.append(session.random_action())
        else:
            texts.append(session.text_of(word))
    await apply(shell, texts)
    return None


def _last(shell: "Shell") -> str:
    if shell.session.last_action is None:
        raise CommandError("there is no action yet that - could repeat")
    return shell.session.last_action


async def apply(shell: "Shell", texts: list[str]) -> None:
    """Apply actions given by their texts, and tell of each what it did."""
    session, before = shell.session, shell.session.present.total
    env = session.env
    space = env.observation_spaces[env.observation_space] if env.observation_space is not None else None
    for done, text in enumerate(texts):
        if len(texts) > 1:
            shell.progress.update(done, len(texts), text)
        shell.console.print(entry_line(await session.act(text), space), soft_wrap=True)
    after = session.present.total
    if len(texts) > 1 and before is not None and after is not None:
        shell.console.print(f"{actions(len(texts))} with reward {number(after - before)}", style="bold")


async def random_actions(shell: "Shell", words: list[str]) -> None:
    """Apply random actions."""
    session = shell.session
    count = count_of(words, 1)
    for done in range(count):
        if count > 1:
            shell.progress.update(done, count)
        await apply(shell, [session.random_action()])


async def undo(shell: "Shell", words: list[str]) -> "RenderableType":
    """Go back in the history."""
    session = shell.session
    count = count_of(words, 1)
    if not session.position:
        raise CommandError("there is no action to undo")
    if count > session.position:
        raise CommandError(f"there is only {actions(session.position)} to undo")
    undone = session.actions[session.position - count :]
    await session.go_to(session.position - count)
    return _standing(shell, "undid", undone)


async def redo(shell: "Shell", words: list[str]) -> "RenderableType":
    """Go forth again in the history."""
    session = shell.session
    count, left = count_of(words, 1), len(session.entries) - 1 - session.position
    if not left:
        raise CommandError("there is no action to redo")
    if count > left:
        raise CommandError(f"there is only {actions(left)} to redo")
    before = session.position
    await session.go_to(before + count)
    return _standing(shell, "redid", session.actions[before:])


def _standing(shell: "Shell", verb: str, texts: tuple[str, ...]) -> Text:
    session = shell.session
    total = session.present.total
    earned = "" if total is None else f", reward in all {number(total)}"
    return Text(f"{verb} {', '.join(texts)}: now after {actions(session.position)}{earned}")


async def stack(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show the history."""
    return Paged(stack_table(shell.session.entries, shell.session.position))


async def reset(shell: "Shell", words: list[str]) -> "RenderableType":
    """Forget all actions."""
    await shell.session.start()
    return Text(f"{shell.session.benchmark_name} as it came")


_COUNT = (Argument("NUMBER", optional=True),)

COMMANDS: tuple[Command, ...] = (
    Command(
        "list-actions",
        SECTION,
        "list the actions, all or those that match",
        list_actions,
        (Argument("PATTERN", suggestions.actions, optional=True),),
        aliases=("actions",),
        details="PATTERN is a part of a name, or a whole one with * and ? in it.",
        examples=("list-actions loop", "list-actions 'loop-*'"),
    ),
    Command(
        "action",
        SECTION,
        "apply actions, one after the other",
        action,
        (Argument("NAME", suggestions.actions, repeated=True),),
        aliases=("act",),
        details="NAME is a name or an index; - repeats the action before, ? is one at random.",
        examples=("action mem2reg", "action sroa gvn simplifycfg", "action - -"),
    ),
    Command(
        "random",
        SECTION,
        "apply random actions",
        random_actions,
        _COUNT,
        examples=("random 10",),
    ),
    Command(
        "undo",
        SECTION,
        "take the last action back, or several",
        undo,
        _COUNT,
        aliases=("back",),
        details="It costs the same however many: every state is kept.",
        examples=("undo", "undo 3"),
    ),
    Command("redo", SECTION, "do again what was undone", redo, _COUNT),
    Command("stack", SECTION, "show the actions so far, what each earned, and what can be redone", stack),
    Command("reset", SECTION, "forget all actions", reset),
)
