"""Commands for applying, undoing and searching actions."""

from rich.text import Text

from aiocg.cli.describe import actions_table
from aiocg.cli.output import CommandError, counted, table
from aiocg.cli.shell import suggestions
from aiocg.cli.shell.command import Context, Result, Section, count_of
from aiocg.cli.shell.rendering import entry_line, number, reward, stack_table
from aiocg.cli.shell.session import ShellSession
from aiocg.env.env import Env
from aiocg.env.step import Candidate
from aiocg.search.lanes import CHUNK, each, evaluate, go_to, open_lanes, possible_actions, spread
from aiocg.validation.minimize import minimize, one_by_one

ACTIONS = Section("Actions")
SEARCHING = Section("Searching")


@ACTIONS.command("list-actions [PATTERN]", "actions", complete=suggestions.actions)
async def _list_actions(shell: Context, words: list[str]) -> Result:
    """List the actions, all or those that match.

    PATTERN is a part of a name, or a whole one with * and ? in it.

    Example: list-actions loop; list-actions 'loop-*'
    """
    space = shell.session.env.action_space
    if not space.names:
        return Text(f"{space.name}: {space.description}, such as {', '.join(space.language.names[:5])}")
    found = actions_table(space, *words)
    if not found.row_count:
        raise CommandError(f"no action of {space.name} matches {words[0]!r}")
    return found


@ACTIONS.command("action NAME...", "act", complete=suggestions.actions)
async def _action(shell: Context, words: list[str]) -> None:
    """Apply actions, one after the other.

    NAME is a name or an index; - repeats the action before, ? is one at random.

    Example: action mem2reg; action sroa gvn simplifycfg; action - -
    """
    session = shell.session
    texts: list[str] = []  # checked before the first is applied
    for word in words:
        if word == "-" and not texts and session.last_action is None:
            raise CommandError("there is no action yet that - could repeat")
        if word == "-":
            texts.append(texts[-1] if texts else str(session.last_action))
        else:
            texts.append(session.random_action() if word == "?" else session.text_of(word))
    await _apply(shell, texts)


async def _apply(shell: Context, texts: list[str]) -> None:
    """Apply actions given by their texts, and report the effect of each."""
    session, before = shell.session, shell.session.present.total
    env = session.env
    space = env.observation_spaces[env.observation_space] if env.observation_space is not None else None
    for done, text in enumerate(texts):
        if len(texts) > 1:
            shell.progress.update(done, len(texts), text)
        shell.console.print(entry_line(await session.act(text), space), soft_wrap=True)
    after = session.present.total
    if len(texts) > 1 and before is not None and after is not None:
        shell.console.print(f"{counted(len(texts), 'action')} with reward {number(after - before)}", style="bold")


@ACTIONS.command("random [NUMBER]")
async def _random_actions(shell: Context, words: list[str]) -> None:
    """Apply random actions.

    Example: random 10
    """
    count = count_of(words, 1)
    for done in range(count):
        if count > 1:
            shell.progress.update(done, count)
        await _apply(shell, [shell.session.random_action()])


@ACTIONS.command("undo [NUMBER]", "back")
async def _undo(shell: Context, words: list[str]) -> Result:
    """Take the last action back, or several.

    It costs the same however many: every state is kept.

    Example: undo; undo 3
    """
    session = shell.session
    actions, target = session.actions, session.position - _steps("undo", words, session.position)
    await session.go_to(target)
    return _standing(session, f"undid {', '.join(actions[target:])}: now")


@ACTIONS.command("redo [NUMBER]")
async def _redo(shell: Context, words: list[str]) -> Result:
    """Do again what was undone."""
    session = shell.session
    before, left = session.position, len(session.entries) - 1 - session.position
    await session.go_to(before + _steps("redo", words, left))
    return _standing(session, f"redid {', '.join(session.actions[before:])}: now")


def _steps(verb: str, words: list[str], left: int) -> int:
    """Return how many actions to undo or redo."""
    count = count_of(words, 1)
    if count > left:
        there = f"only {counted(left, 'action')}" if left else "no action"
        raise CommandError(f"there is {there} to {verb}")
    return count


def _standing(session: ShellSession, what: str = "now") -> Text:
    total = session.present.total
    earned = "" if total is None else f", reward in all {number(total)}"
    return Text(f"{what} after {counted(session.position, 'action')}{earned}")


@ACTIONS.command("stack")
async def _stack(shell: Context, words: list[str]) -> Result:
    """Show the actions so far, what each earned, and what can be redone."""
    return stack_table(shell.session.entries, shell.session.position)


@ACTIONS.command("reset")
async def _reset(shell: Context, words: list[str]) -> Result:
    """Forget all actions."""
    await shell.session.start()
    return Text(f"{shell.session.benchmark_name} as it came")


# ------------------------------------------------------------------------------------------------- searching


def _check_reward(shell: Context) -> None:
    if shell.session.env.reward_space is None:
        raise CommandError("there is no default reward to look for: set one with `set-default-reward`")


async def _try_all(shell: Context, crew: list[Env]) -> list[tuple[str, Candidate]]:
    """Try every action from the current state; return the results, best first and failures last."""
    texts, size = possible_actions(crew[0]), CHUNK * len(crew)
    candidates: list[Candidate] = []
    for start in range(0, len(texts), size):
        shell.progress.update(start, len(texts))
        candidates += await evaluate(crew, [(text,) for text in texts[start : start + size]])
    found = zip(texts, candidates, strict=True)
    return sorted(found, key=lambda one: (one[1].error is not None, -(one[1].reward or 0.0)))


@SEARCHING.command("try-all-actions [NUMBER]")
async def _try_all_actions(shell: Context, words: list[str]) -> Result:
    """Show what each action would earn, the best first; the program stays as it is.

    With NUMBER only so many are shown.

    Example: try-all-actions; try-all-actions 10
    """
    _check_reward(shell)
    limit = count_of(words, 0) or None
    async with open_lanes(shell.session.env, at=shell.session.actions) as crew:
        found = await _try_all(shell, crew)
    rows = []
    for text, candidate in found[:limit]:
        if candidate.error is not None:
            outcome = Text(type(candidate.error).__name__, style="red")
        else:
            outcome = Text("no effect", style="dim") if candidate.had_no_effect else Text("changed")
        rows.append((text, outcome, reward(candidate.reward)))
    title = f"{len(found)} actions by {shell.session.env.reward_space}"
    return table(title, ("action", "program", "reward"), rows, right=(2,))


@SEARCHING.command("greedy [NUMBER]")
async def _greedy(shell: Context, words: list[str]) -> Result:
    """Apply the action that earns most, NUMBER times or until none earns anything.

    Example: greedy; greedy 5
    """
    _check_reward(shell)
    session, steps = shell.session, count_of(words, 1)
    async with open_lanes(session.env, at=session.actions) as crew:
        for step in range(steps):
            if step:
                await spread(each(crew[1:], lambda lane: go_to(lane, session.actions)))
            text, best = (await _try_all(shell, crew))[0]
            if best.error is not None or best.reward <= 0:
                return Text(f"no {'further ' if step else ''}action has a positive reward")
            await _take(shell, text)
    return _earned(session)


@SEARCHING.command("hill-climb [NUMBER]")
async def _hill_climb(shell: Context, words: list[str]) -> Result:
    """Try NUMBER random actions, and keep each that earns something.

    Example: hill-climb 50
    """
    _check_reward(shell)
    session, steps, kept = shell.session, count_of(words, 1), 0
    for step in range(steps):
        shell.progress.update(step, steps)
        text = session.random_action()
        (candidate,) = await evaluate([session.env], [[text]])
        if candidate.error is None and candidate.reward > 0:
            await _take(shell, text)
            kept += 1
    return Text(f"kept {kept} of {steps}; ").append_text(_earned(session))


async def _take(shell: Context, text: str) -> None:
    shell.console.print(entry_line(await shell.session.act(text), None), soft_wrap=True)


def _earned(session: ShellSession) -> Text:
    return Text(f"reward in all {number(session.present.total)}, after {counted(session.position, 'action')}")


@SEARCHING.command("simplify-stack")
async def _simplify_stack(shell: Context, words: list[str]) -> Result:
    """Drop the actions without which the others earn as much.

    Without a default reward only those are dropped that changed nothing.
    """
    session = shell.session
    before, total = session.position, session.present.total
    kept = tuple(entry.action for entry in session.entries[1 : before + 1] if not entry.had_no_effect)
    if session.env.reward_space is not None and kept:

        def told(left: tuple[str, ...]) -> None:
            shell.progress.update(before - len(left), before)

        async with session.at(0) as child:
            kept = (await minimize(child, None, kept, strategies=[one_by_one], lanes=1, progress=told)).actions
    if len(kept) == before:
        return Text(f"nothing to drop: {counted(before, 'action')}, without each of which the others earn less")
    await session.replay(kept)
    dropped = f"dropped {before - len(kept)} of {counted(before, 'action')}"
    return Text(f"{dropped}; reward in all {number(session.present.total)}, before {number(total)}")
