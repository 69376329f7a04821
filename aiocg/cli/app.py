"""The command-line application: its subcommands, and the handling of their errors.

The modules of the subcommands import what is slow to import where they use it: help and completion need none of that.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from aiocg import __version__
from aiocg.cli import (
    _cluster,
    _dataset,
    _describe,
    _explain,
    _leaderboard,
    _rl,
    _search,
    _serve,
    _services,
    _shrink,
    _state,
    _transitions,
    _tune,
)
from aiocg.cli._options import Flags, as_command, command, described, time_option
from aiocg.cli.output import CommandError, console, fail, interrupted_status, print_json_error, run


def _shell(
    env: str = "llvm-ic-v0",
    benchmark: str | None = None,
    observation: str | None = None,
    reward: str | None = None,
    action_space: str | None = None,
    commands: str | None = None,
    workers: int | None = None,
    timeout: Annotated[float | None, time_option(least=0.001)] = None,
    seed: int | None = None,
    flags: Flags = None,
) -> None:
    """Try actions on a program by hand: apply, undo, compare, search a little.

    Without a terminal, commands are read from standard input; the first that fails ends it with exit status 1.

    Example: aiocg shell --benchmark programs-v0/gcd

    Args:
        benchmark: Program to begin with: of a dataset, a file, or a dataset's name.
        observation: Observation to show after each action.
        reward: Reward of the actions; that of the environment by default.
        action_space: Actions to choose from; the first space by default.
        commands (-c, --command): Carry out these commands, with ; between, and exit.
        timeout: Time that an action may take.
        seed (0..): Seed of random actions and programs.
    """
    from aiocg.cli.shell.start import run_shell  # slow to import

    ending = run_shell(
        env,
        benchmark=benchmark,
        flags=flags or (),
        observation_space=observation,
        reward_space=reward,
        action_space=action_space,
        workers=workers,
        timeout=timeout,
        seed=seed,
        commands=commands,
    )
    if status := run(ending):
        sys.exit(status)


app = typer.Typer(
    name="aiocg",
    help="Environments and searches for compiler optimisation.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.add_typer(_search.app, name="search")
app.add_typer(_describe.llvm, name="llvm")
app.add_typer(_describe.gcc, name="gcc")
app.add_typer(_dataset.app, name="dataset")
app.add_typer(_transitions.app, name="transitions")
app.add_typer(_leaderboard.app, name="leaderboard")
app.add_typer(_state.app, name="state")
app.add_typer(_rl.app, name="rl")
app.add_typer(_serve.keys, name="keys")
app.add_typer(_cluster.app, name="cluster")
command(app, "envs")(_describe.envs)
command(app, "datasets")(_dataset.datasets)
command(app, "describe")(_describe.describe)
command(app, "explain")(_explain.explain)
command(app, "replay")(_state.replay)
command(app, "validate")(_state.validate)
command(app, "shell")(_shell)
command(app, "explore")(_services.explore)
command(app, "serve")(_serve.serve)
command(app, "top")(_cluster.top)
command(app, "mcp")(_services.mcp)
command(app, "openenv")(_services.openenv)


command(app, "shrink", context_settings={"allow_interspersed_args": False})(_shrink.shrink)
command(app, "tune", context_settings={"allow_interspersed_args": False})(_tune.tune)

_FOR_CLANG = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--help"]}


@app.command("cc", context_settings=_FOR_CLANG)
def _cc(context: typer.Context) -> None:
    """Compile C as clang does, but search for better passes: make CC="aiocg cc".

    All options are clang's. AIOCG_CC_SEARCH (greedy, random, beam, O1 to Oz, a pipeline, a saved state, or none),
    AIOCG_CC_REWARD, AIOCG_CC_BUDGET (seconds for a file) and AIOCG_CC_REPORT (a file) say how to search.

    Example: aiocg cc -O2 -c file.c -o file.o
    """
    from aiocg.cli._cc import main

    raise typer.Exit(main("cc", context.args))


@app.command("c++", context_settings=_FOR_CLANG)
def _cxx(context: typer.Context) -> None:
    """Compile C++ as clang does, but search for better passes: make CXX="aiocg c++". See `aiocg cc --help`.

    Example: aiocg c++ -O2 -c file.cc -o file.o
    """
    from aiocg.cli._cc import main

    raise typer.Exit(main("c++", context.args))


@app.command("rustc", context_settings=_FOR_CLANG)
def _rustc(context: typer.Context) -> None:
    """Compile a crate as rustc does, but search for better passes: RUSTC_WORKSPACE_WRAPPER=aiocg-rustc cargo build -r.

    AIOCG_CC_BUDGET (seconds for a crate), AIOCG_CC_REPORT (a file) and AIOCG_CC_SEARCH=none say how, as for `aiocg cc`.

    Example: aiocg rustc rustc -O --crate-type staticlib --crate-name x --emit link x.rs
    """
    from aiocg.shrink.rustc import main

    raise typer.Exit(main(context.args))


def _version(value: bool) -> None:
    if value:
        console.print(f"aiocg {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[bool, typer.Option(callback=_version, is_eager=True)] = False,
    node: str | None = None,
    nodes: str | None = None,
) -> None:
    """Take the options that come before a subcommand.

    Args:
        version: Print the version and exit.
        node ($AIOCG_NODE, tcp://HOST:PORT): Let the workers run on this node; see `aiocg serve`.
        nodes (--cluster, $AIOCG_CLUSTER, ADDRESS,... or file:PATH): Let the workers run on several nodes.
    """
    if node is not None:
        os.environ["AIOCG_NODE"] = node  # where every runtime that is made looks
    if nodes is not None:
        os.environ["AIOCG_CLUSTER"] = nodes


app.callback()(as_command(_options, described(_options)))


def _interrupted() -> NoReturn:
    print_json_error("interrupted")
    sys.exit(interrupted_status())


def main() -> None:
    """Run the command line; errors that are the user's or the machine's become one message and exit status 1."""
    try:
        app(prog_name="aiocg")
    except SystemExit as ending:
        if (said := getattr(ending.__context__, "format_message", None)) is not None:  # of a wrong command line
            print_json_error(said())
        if isinstance(getattr(ending.__context__, "__cause__", None), KeyboardInterrupt):  # which no command has seen
            _interrupted()
        raise
    except KeyboardInterrupt:  # before there is a command
        _interrupted()
    except Exception as error:
        from aiocg.datasets.errors import DatasetError
        from aiocg.errors import AiocgError
        from aiocg.transport.errors import TransportError

        if not isinstance(error, (AiocgError, CommandError, DatasetError, TransportError, OSError)):
            raise
        if isinstance(error, OSError) and error.filename and error.strerror:
            fail(f"{error.filename}: {error.strerror}")
        fail(str(error))
