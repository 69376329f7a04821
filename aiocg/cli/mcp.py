"""`aiocg mcp`: compilers as tools for language models."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import Workers, fail, run

if TYPE_CHECKING:
    from aiocg.agents import Limits


def mcp(
    env: Annotated[str, typer.Option("--env", help="Id of the environment; `aiocg envs` lists them.")] = "llvm-ic-v0",
    reward: Annotated[
        str | None, typer.Option(help="What actions are rewarded by.", show_default="that of the environment")
    ] = None,
    program: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file that agents may optimise, called by its name; may be given several times.", show_default=False
        ),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Most sessions at once.", min=1)] = 8,
    actions: Annotated[int, typer.Option(help="Most actions of a step.", min=1)] = 100,
    candidates: Annotated[int, typer.Option(help="Most candidates of an expand.", min=1)] = 256,
    characters: Annotated[int, typer.Option(help="Most characters of an observation.", min=1)] = 20_000,
    seconds: Annotated[float, typer.Option(help="Seconds that the actions of a step may take.", min=0.1)] = 30.0,
    workers: Workers = None,
) -> None:
    """Serve compilers as tools for language models, over standard input and output (Model Context Protocol).

    Clients start it themselves: docs/agents.md has their configuration. Agents have no access to files.
    Needs the package mcp: pip install 'aiocg\\[mcp]'.

    Example: aiocg mcp --env llvm-ic-v0 --program my.c
    """
    from aiocg.agents import Limits
    from aiocg.registry import environment

    environment(env)  # an unknown name is told before anything is started
    limits = Limits(
        sessions=sessions, actions=actions, candidates=candidates, shown_characters=characters, seconds=seconds
    )
    names = [path.name for path in program or []]
    if twice := {name for name in names if names.count(name) > 1}:
        fail(f"two files are called {', '.join(sorted(twice))}: agents call them by their names alone, so rename one")
    run(_serve(env, reward, program or [], limits, workers))


async def _serve(
    environment: str, reward: str | None, files: list[Path], limits: "Limits", workers: int | None
) -> None:
    from aiocg.agents import AgentSessions, mcp_server
    from aiocg.agents.server import serve_stdio
    from aiocg.runtime import Runtime

    async with Runtime(workers=workers, options={"untrusted": True}) as runtime:
        programs = {path.name: await runtime.find_benchmark(path) for path in files}
        sessions = AgentSessions(runtime, environment, reward_space=reward, programs=programs, limits=limits)
        number = await serve_stdio(mcp_server(sessions))
    if number:
        sys.stderr.flush()
        os._exit(128 + number)  # to leave otherwise would be to wait for the client
