"""All commands of the shell."""

import ast
import asyncio
import codeop
import contextlib
import inspect
import os
import signal
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.markup import escape
from rich.pretty import Pretty
from rich.table import Table
from rich.text import Text

import aiocg
from aiocg.cli._dataset import datasets_table
from aiocg.cli._describe import (
    action_spaces_table,
    actions_table,
    environments_table,
    observation_spaces_table,
    reward_spaces_table,
)
from aiocg.cli._options import write_program
from aiocg.cli.output import CommandError, counted, table, write_file
from aiocg.cli.shell import _suggestions as suggestions
from aiocg.cli.shell._command import Command, CommandTable, Context, Result, Section, count_of
from aiocg.cli.shell._rendering import Source, entry_line, number, observation, reward, stack_table, summary
from aiocg.cli.shell.session import ShellSession
from aiocg.datasets.source_flags import checked_flags
from aiocg.env.env import Env
from aiocg.env.plan import check_known
from aiocg.env.step import Candidate
from aiocg.host.threads import in_thread
from aiocg.llvm.difference import difference
from aiocg.search.lanes import CHUNK, each, evaluate, go_to, open_lanes, possible_actions, spread
from aiocg.states.files import find_state
from aiocg.states.state import LegacyState
from aiocg.validation.legacy_states import modern_state
from aiocg.validation.minimize import minimize, one_by_one

# ----------------------------------------------------------------------------------------------------- The shell itself

GENERAL = Section("The shell")
TUTORIAL = files("aiocg.cli.shell").joinpath("tutorial.md").read_text(encoding="utf-8")


class _PythonPrompt:
    """Runs Python code with given variables; values of expressions are printed and kept as `_`."""

    def __init__(self, namespace: Mapping[str, Any], console: Console) -> None:
        self._namespace = dict(namespace)
        self._console = console
        self._compile = codeop.CommandCompiler()
        self._compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    async def run(self, source: str) -> bool:
        """Run code.

        Returns:
            False when there must be more of it, and nothing was done.

        Raises:
            CommandError: when it fails; the message is what Python says.
        """
        before = sys.displayhook
        try:
            code = self._compile(source, "<aiocg shell>", "single")
            if code is None:
                return False
            sys.displayhook = self._display
            with _interruptible():
                result = types.FunctionType(code, self._namespace)()
            if inspect.iscoroutine(result):
                await result
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            frames = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without our own frame
            lines = traceback.format_exception(type(error), error, None if isinstance(error, SyntaxError) else frames)
            raise CommandError("".join(lines).strip()) from error
        finally:
            sys.displayhook = before
        return True

    def _display(self, value: object) -> None:
        if value is not None:
            self._console.print(Pretty(value))
            self._namespace["_"] = value

    async def converse(self) -> None:
        """Read code from the terminal and run it, until Ctrl-D."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.patch_stdout import patch_stdout

        session: PromptSession[str] = PromptSession()
        names = ", ".join(self._namespace)
        self._console.print(f"Python {sys.version.split()[0]} with {names}; await works; Ctrl-D returns", style="dim")
        source = ""
        while True:
            try:
                with patch_stdout(raw=True):
                    line = await session.prompt_async("... " if source else ">>> ", handle_sigint=False)
                source = f"{source}\n{line}" if source else line
                if not source.strip() or await self.run(source):
                    source = ""
            except KeyboardInterrupt:
                source = ""
            except EOFError:
                return
            except CommandError as error:
                self._console.print(str(error), style="red", markup=False)
                source = ""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt code that blocks the event loop, without also notifying the loop."""
    try:
        descriptor = signal.set_wakeup_fd(-1)
    except ValueError:  # not the main thread, which gets the signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(descriptor)


@GENERAL.command("tutorial")
async def _tutorial(shell: Context, words: list[str]) -> Result:
    """Show how the commands go together."""
    return Markdown(TUTORIAL) if shell.console.is_terminal else Text(TUTORIAL)


@GENERAL.command("help [COMMAND]", "?", complete=suggestions.commands)
async def _show_help(shell: Context, words: list[str]) -> Result:
    """List the commands, or tell more of one.

    Example: help action
    """
    if words:
        return _about(shell.table.find(words[0]))
    parts: list[RenderableType] = []
    for section in dict.fromkeys(command.section for command in shell.table):
        grid = Table(title=section, box=None, show_header=False, title_justify="left", title_style="bold")
        grid.add_column(no_wrap=True, min_width=32)
        grid.add_column()
        for command in shell.table:
            if command.section == section:
                grid.add_row(Text(command.usage, style="cyan"), escape(command.summary))
        parts += [grid, ""]
    parts.append(
        "`help COMMAND` tells more of one, `tutorial` shows how they go together. Tab completes, Ctrl-C interrupts, "
        "Ctrl-D leaves; several commands go on a line with ; between."
    )
    return Group(*parts)


def _about(command: Command) -> Text:
    text = Text(command.usage, style="bold cyan").append(f"\n{command.summary}", style="not bold default")
    if command.details:
        text.append(f"\n\n{command.details}", style="not bold default")
    if command.aliases:
        text.append(f"\n\nalso: {', '.join(command.aliases)}", style="not bold dim default")
    for example in command.examples:
        text.append(f"\nexample: {example}", style="not bold default")
    return text


@GENERAL.command("history [NUMBER]")
async def _history(shell: Context, words: list[str]) -> Result:
    """Show what was typed."""
    first = max(len(shell.lines) - count_of(words, len(shell.lines)), 0)
    lines = [f"{number:5}  {line}" for number, line in enumerate(shell.lines[first:], first + 1)]
    return Text("\n".join(lines))


@GENERAL.command("python [CODE]", "breakpoint", raw=True)
async def _python(shell: Context, words: list[str]) -> None:
    """Run Python beside the commands, with await.

    It has env, session, runtime, shell, and the modules aiocg and asyncio; what is done to env shows in the stack.
    Without CODE it asks for lines until Ctrl-D.

    Example: python await env.observe("IrInstructionCount"); python
    """
    session = shell.session
    variables = {"env": session.env, "session": session, "runtime": session.runtime, "shell": shell}
    prompt = _PythonPrompt({**variables, "aiocg": aiocg, "asyncio": asyncio}, shell.console)
    try:
        if not words and not shell.interactive:
            raise CommandError("python needs CODE where there is no terminal to type it on")
        if not words:
            shell.progress.stop()
            await prompt.converse()
        elif not await prompt.run(words[0]):
            raise CommandError(f"there must be more of this Python: {words[0]}")
    finally:
        await session.adopt()


@GENERAL.command("exit", "quit", "EOF")
async def _leave(shell: Context, words: list[str]) -> None:
    """Leave; so does Ctrl-D."""
    shell.finished = True


# --------------------------------------------------------------------------------------- Program, environment and files

PROGRAMS = Section("Programs and environments")
FILES = Section("Files")

LISTED = 200  # programs of a dataset listed by default
OF_EACH = 10  # programs of each dataset


@PROGRAMS.command("envs", "list-envs")
async def _show_environments(shell: Context, words: list[str]) -> Result:
    """List the environments."""
    return environments_table()


@PROGRAMS.command("set-env ENVIRONMENT", complete=suggestions.environment_ids)
async def _set_environment(shell: Context, words: list[str]) -> Result:
    """Take another environment.

    The program stays the same if the compiler does. The actions are forgotten.

    Example: set-env llvm-codesize-v0
    """
    await shell.session.set_environment(words[0])
    env = shell.session.env
    return Text(f"{env.spec.id} ({env.compiler_version}): {env.spec.description}")


@PROGRAMS.command("list-datasets", "datasets")
async def _list_datasets(shell: Context, words: list[str]) -> Result:
    """List the datasets."""
    return await in_thread(lambda: datasets_table(shell.session.runtime.datasets.datasets()))


@PROGRAMS.command("list-benchmarks [DATASET] [NUMBER]", "benchmarks", complete=suggestions.datasets)
async def _list_benchmarks(shell: Context, words: list[str]) -> Result:
    """List programs, of all datasets or of one.

    Example: list-benchmarks programs-v0; list-benchmarks csmith-v0 20
    """
    known = shell.session.runtime.datasets
    if words:
        shown = [known[words[0].partition("://")[2] or words[0]]]
    else:
        shown = list(known.datasets(installed_only=True, kind=shell.session.env.spec.kind))
    limit = count_of(words[1:], LISTED if words else OF_EACH)
    uris = await in_thread(lambda: [str(uri) for one in shown for uri in islice(one.benchmark_uris(), limit)])
    lines = [uri.removeprefix("benchmark://") for uri in uris]
    if not words:
        lines.append(f"(the first {limit} of each dataset that is installed; `list-benchmarks DATASET` lists more)")
    elif shown[0].size != len(lines):
        rest = f"{shown[0].size - len(lines):,}" if shown[0].size else "endlessly many"
        lines.append(f"({rest} more; `list-benchmarks {shown[0].name} NUMBER`)")
    return Text("\n".join(lines))


@PROGRAMS.command("set-benchmark PROGRAM [FLAG...]", "benchmark", complete=suggestions.programs)
async def _set_benchmark(shell: Context, words: list[str]) -> Result:
    """Start over with another program.

    PROGRAM is one of a dataset, a .c .cc .cpp .ll or .bc file, the name of a dataset for one of its programs at random,
    or - for any at random. A FLAG is one for clang, and for a C or C++ file.

    Example: set-benchmark programs-v0/gcd; set-benchmark ./program.c -DN=3; set-benchmark programs-v0
    """
    session, env = shell.session, shell.session.env
    flags = checked_flags(word for word in words[1:] if word != "--")
    entry = await session.start(await session.find_benchmark(words[0], flags))
    text = Text(session.benchmark_name, style="bold")
    if env.observation_space is not None:
        text.append_text(entry_line(entry, env.observation_spaces[env.observation_space]))
    return text


@FILES.command("save FILE", complete=suggestions.paths)
async def _save(shell: Context, words: list[str]) -> Result:
    """Write program and actions to a file, for `load`, `aiocg replay` and `aiocg validate`.

    Example: save best.json
    """
    session = shell.session
    await in_thread(lambda: write_file(Path(words[0]), f"{session.env.state.to_json()}\n".encode()))
    return Text(f"wrote {words[0]}: {session.benchmark_name} after {counted(session.position, 'action')}")


@FILES.command("load FILE[:LINE]", complete=suggestions.paths)
async def _load(shell: Context, words: list[str]) -> Result:
    """Go to a state that was saved.

    FILE is JSON, or a table with the state on that line, also of CompilerGym's; or the address of one.

    Example: load best.json; load results.csv:3
    """
    session, place = shell.session, os.path.expanduser(words[0])
    if place == "-":
        raise CommandError("load needs a file: what is typed here are commands")
    state = await in_thread(lambda: find_state(place))
    if isinstance(state, LegacyState):
        state, translation = await modern_state(session.runtime, state, session.env.spec.id)
        shell.console.print(f"flags: {translation}", markup=False, soft_wrap=True)
    await session.load(state)
    total = session.present.total
    text = Text(f"{session.benchmark_name} after {counted(session.position, 'action')}")
    if total is not None:
        text.append(f", reward in all {number(total)}")
    if total is not None and state.reward is not None and abs(total - state.reward) > 1e-6:
        text.append(f"; the file says {number(state.reward)}", style="yellow")
    return text


@FILES.command("write FILE", complete=suggestions.paths)
async def _write(shell: Context, words: list[str]) -> Result:
    """Write the program as it is now, to a .bc, .ll, .s or .o file, or without suffix linked.

    Example: write best.bc; write best.ll
    """
    path = Path(words[0])
    return Text(f"wrote {path}: {await write_program(shell.session.env, path):,} bytes")


# ------------------------------------------------------------------------------ Applying, undoing and searching actions

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
    """Return how many actions to undo, redo or show, of those that are left."""
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


# ----------------------------------------------- Looking at the program; choosing observation, reward and action spaces

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
    if not session.position:
        raise CommandError("there is no action yet whose effect could be shown")
    count = _steps("show", words, session.position)
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


# --------------------------------------------------------------------------------------------------------- All commands

COMMANDS = CommandTable([*GENERAL, *PROGRAMS, *ACTIONS, *SEARCHING, *LOOKING, *SETTINGS, *FILES])
"""The commands of `aiocg shell`, in the order of the help."""
