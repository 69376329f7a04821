"""`aiocg shell`: try actions on a program by hand."""

import sys
from typing import Annotated

import typer

from aiocg.cli.amounts import time_option
from aiocg.cli.output import run
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
