"""Commands for inspecting the program, and for choosing observation, reward and action spaces."""

from rich.text import Text

from aiocg.cli.describe import action_spaces_table, observation_spaces_table, reward_spaces_table
from aiocg.cli.output import CommandError, counted
from aiocg.cli.shell import suggestions
from aiocg.cli.shell.command import Context, Result, Section, count_of
from aiocg.cli.shell.rendering import Source, number, observation, summary
from aiocg.env.plan import check_known
from aiocg.host.threads import in_thread
from aiocg.llvm.difference import difference

LOOKING = Section("Looking at the program")
SETTINGS = Section("Settings")


@LOOKING.command("list-observations", "observations")
async def _list_observations(shell: Context, words: list[str]) -> Result:
    """List what can be observed."""
    return observation_spaces_table(shell.session.env)


@LOOKING.command("observation [NAME...]", "observe", complete=suggestions.observation_spaces)
async def _observe(shell: Context, words: list[str]) -> Result:
    """Show observations, the default one if none is named.

    Example: observation Ir; observation IrInstructionCount IrInstructionCountOz
    """
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


@LOOKING.command("list-rewards", "rewards")
async def _list_rewards(shell: Context, words: list[str]) -> Result:
    """List the rewards."""
    return reward_spaces_table(shell.session.env)


@LOOKING.command("reward [NAME]", complete=suggestions.reward_spaces)
async def _reward(shell: Context, words: list[str]) -> Result:
    """Show what the actions earned, in the default reward or another.

    Example: reward; reward ObjectImageSizeOz
    """
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


_TEXTS = ("Ir", "asm", "loop_tree")  # the program as text, one for each compiler


@LOOKING.command("diff [NUMBER]")
async def _diff(shell: Context, words: list[str]) -> Result:
    """Show how the last action, or the last NUMBER, changed the program.

    Lines count as the same if they differ only in the numbers that LLVM gives to values without a name.

    Example: diff; diff 3
    """
    session = shell.session
    count = count_of(words, 1)
    if not session.position:
        raise CommandError("there is no action yet whose effect could be shown")
    if count > session.position:
        raise CommandError(f"there is only {counted(session.position, 'action')}")
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


@LOOKING.command("commandline")
async def _commandline(shell: Context, words: list[str]) -> Result:
    """Show a command line for the compiler's own tool that does the same."""
    return Source(shell.session.env.commandline())


@LOOKING.command("validate")
async def _validate(shell: Context, words: list[str]) -> Result:
    """Check that the actions lead here again, and that the program does what it did.

    Programs that can be run are built and run as they came and as they are, also under sanitizers.
    """
    result = await shell.session.env.validate()
    lines = [f"skipped: {reason}" for reason in result.skipped]
    if result.wrong:
        details = "\n".join(f"{error.type}: {error.data}" for error in result.errors)
        report = f"report {result.report}" if result.report else ""
        raise CommandError(f"this state is not valid: {result.error_details}\n{details}\n{report}".strip())
    return Text("\n".join([*lines, "the actions lead to the same program again", result.verdict]))


@SETTINGS.command("set-default-observation [NAME]", complete=suggestions.observation_spaces)
async def _set_default_observation(shell: Context, words: list[str]) -> Result:
    """Set what is shown after each action; nothing without NAME.

    Example: set-default-observation IrInstructionCount
    """
    env = shell.session.env
    if not words:
        env.observation_space = None
        return Text("nothing is observed by default")
    check_known("observation space", words[0], env.observation_spaces)
    value = await env.observe(words[0])  # before it is set: if it failed, every action would
    env.observation_space = words[0]
    return Text(f"{words[0]}: {summary(env.observation_spaces[words[0]], value)}")


@SETTINGS.command("set-default-reward [NAME]", complete=suggestions.reward_spaces)
async def _set_default_reward(shell: Context, words: list[str]) -> Result:
    """Set what actions are rewarded in; nothing without NAME.

    The actions so far are rewarded in it as well.

    Example: set-default-reward ObjectImageSizeOz
    """
    session = shell.session
    await session.set_reward(words[0] if words else None)
    if not words:
        return Text("there is no default reward")
    return Text(f"{words[0]}: {number(session.present.total)} after {counted(session.position, 'action')}")


@SETTINGS.command("action-spaces", "list-action-spaces")
async def _action_spaces(shell: Context, words: list[str]) -> Result:
    """List the action spaces."""
    return action_spaces_table(shell.session.env)


@SETTINGS.command("set-action-space NAME", complete=suggestions.action_spaces)
async def _set_action_space(shell: Context, words: list[str]) -> Result:
    """Choose among other actions; what was done stays what it is.

    Example: set-action-space Pipelines
    """
    await shell.session.set_action_space(words[0])
    space = shell.session.env.action_space
    return Text(f"{space.name}: {space.description}; `list-actions` lists them")
