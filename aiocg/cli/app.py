"""The command-line application: its subcommands, and the handling of their errors.

The modules of the subcommands import what is slow to import where they use it: help and completion need none of that.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from aiocg import __version__
from aiocg.cli import (
    agents,
    cluster,
    compilers,
    dataset,
    dataset_list,
    describe,
    explore,
    keys,
    leaderboard,
    rl,
    search,
    serve,
    shrink,
    state,
    transitions,
    validate,
)
from aiocg.cli.amounts import time_option
from aiocg.cli.output import CommandError, console, fail, interrupted_status, print_json_error, run
from aiocg.cli.program import Flags


def shell(
    env: Annotated[str, typer.Option("--env", help="Id of the environment; `aiocg envs` lists them.")] = "llvm-ic-v0",
    benchmark: Annotated[
        str | None,
        typer.Option(help="Program to begin with: of a dataset, a file, or a dataset's name.", show_default=False),
    ] = None,
    observation: Annotated[
        str | None, typer.Option(help="Observation to show after each action.", show_default=False)
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Reward of the actions; that of the environment by default.", show_default=False)
    ] = None,
    action_space: Annotated[
        str | None, typer.Option(help="Actions to choose from; the first space by default.", show_default=False)
    ] = None,
    commands: Annotated[
        str | None, typer.Option("-c", "--command", help="Carry out these commands, with ; between, and exit.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; one per processor by default.", min=1, show_default=False)
    ] = None,
    timeout: Annotated[float | None, time_option(help="Time that an action may take.", least=0.001)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random actions and programs.", min=0)] = None,
    flags: Flags = None,
) -> None:
    """Try actions on a program by hand: apply, undo, compare, search a little.

    Without a terminal, commands are read from standard input; the first that fails ends it with exit status 1.

    Example: aiocg shell --benchmark programs-v0/gcd
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
app.add_typer(search.app, name="search")
app.add_typer(compilers.llvm, name="llvm")
app.add_typer(compilers.gcc, name="gcc")
app.add_typer(dataset.app, name="dataset")
app.add_typer(transitions.app, name="transitions")
app.add_typer(leaderboard.app, name="leaderboard")
app.add_typer(state.app, name="state")
app.add_typer(rl.app, name="rl")
app.add_typer(keys.app, name="keys")
app.add_typer(cluster.app, name="cluster")
app.command("envs")(describe.envs)
app.command("datasets")(dataset_list.datasets)
app.command("describe")(describe.describe)
app.command("replay")(state.replay)
app.command("validate")(validate.validate)
app.command("shell")(shell)
app.command("explore")(explore.explore)
app.command("serve")(serve.serve)
app.command("top")(cluster.top)
app.command("mcp")(agents.mcp)
app.command("openenv")(agents.openenv)


app.command("shrink", context_settings={"allow_interspersed_args": False})(shrink.shrink)

_FOR_CLANG = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--help"]}


@app.command("cc", context_settings=_FOR_CLANG)
def cc(context: typer.Context) -> None:
    """Compile C as clang does, but search for better passes: make CC="aiocg cc".

    All options are clang's. AIOCG_CC_SEARCH (greedy, random, beam, O1 to Oz, a pipeline, a saved state, or none),
    AIOCG_CC_REWARD, AIOCG_CC_BUDGET (seconds for a file) and AIOCG_CC_REPORT (a file) say how to search.

    Example: aiocg cc -O2 -c file.c -o file.o
    """
    from aiocg.cli.cc import main

    raise typer.Exit(main("cc", context.args))


@app.command("c++", context_settings=_FOR_CLANG)
def cxx(context: typer.Context) -> None:
    """Compile C++ as clang does, but search for better passes: make CXX="aiocg c++". See `aiocg cc --help`.

    Example: aiocg c++ -O2 -c file.cc -o file.o
    """
    from aiocg.cli.cc import main

    raise typer.Exit(main("c++", context.args))


@app.command("rustc", context_settings=_FOR_CLANG)
def rustc(context: typer.Context) -> None:
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


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option(
            envvar="AIOCG_NODE",
            metavar="tcp://HOST:PORT",
            help="Let the workers run on this node; see `aiocg serve`.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            envvar="AIOCG_CLUSTER",
            metavar="ADDRESS,... or file:PATH",
            help="Let the workers run on several nodes.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Take the options that come before a subcommand."""
    if node is not None:
        os.environ["AIOCG_NODE"] = node  # where every runtime that is made looks
    if nodes is not None:
        os.environ["AIOCG_CLUSTER"] = nodes


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
