"""Commands for choosing the program and environment, and for files."""

import os
from itertools import islice
from pathlib import Path

from rich.text import Text

from aiocg.cli.dataset import datasets_table
from aiocg.cli.describe import environments_table
from aiocg.cli.options import write_program
from aiocg.cli.output import CommandError, counted, write_file
from aiocg.cli.shell import suggestions
from aiocg.cli.shell.command import Context, Result, Section, count_of
from aiocg.cli.shell.rendering import entry_line, number
from aiocg.datasets.source_flags import checked_flags
from aiocg.host.threads import in_thread
from aiocg.states.files import find_state
from aiocg.states.state import LegacyState
from aiocg.validation.legacy_states import modern_state

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
