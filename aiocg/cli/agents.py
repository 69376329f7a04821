"""`aiocg mcp` and `aiocg openenv`: compilers for language models and other agents.

Args:
    reward (default that of the environment): What actions are rewarded by.
    program: A file that agents may optimise, called by its name; may be given several times.
    actions (1..): Most actions of a step.
    candidates (1..): Most candidates of an expand.
    characters (1..): Most characters of an observation.
    seconds: Time that the actions of a step may take.
"""

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from aiocg.cli.listening import LOCAL, hosts_of, listen, serve, shown
from aiocg.cli.options import Flags, time_option
from aiocg.cli.output import fail, run

if TYPE_CHECKING:
    import socket

    from aiocg.agents import Limits
    from aiocg.datasets import Benchmark
    from aiocg.runtime import Runtime


def mcp(
    env: str = "llvm-ic-v0",
    reward: str | None = None,
    program: list[Path] | None = None,
    sessions: int = 8,
    actions: int = 100,
    candidates: int = 256,
    characters: int = 20_000,
    seconds: Annotated[float, time_option(least=0.1)] = 30.0,
    workers: int | None = None,
    flags: Flags = None,
) -> None:
    """Serve compilers as tools for language models, over standard input and output (Model Context Protocol).

    Clients start it themselves: docs/agents.md has their configuration. Agents have no access to files.
    Needs the package mcp: pip install 'aiocg\\[mcp]'.

    Example: aiocg mcp --env llvm-ic-v0 --program my.c

    Args:
        sessions (1..): Most sessions at once.
    """
    from aiocg.agents import Limits

    _check(env, program)
    limits = Limits(
        sessions=sessions, actions=actions, candidates=candidates, shown_characters=characters, seconds=seconds
    )
    run(_serve_mcp(env, reward, program or [], flags or [], limits, workers))


def openenv(
    env: str = "llvm-ic-v0",
    reward: str | None = None,
    program: list[Path] | None = None,
    steps: int = 45,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: list[str] | None = None,
    token: str | None = None,
    clients: int = 64,
    actions: int = 100,
    candidates: int = 256,
    characters: int = 20_000,
    seconds: Annotated[float, time_option(least=0.1)] = 30.0,
    workers: int | None = None,
    flags: Flags = None,
) -> None:
    """Serve compilers as an environment of OpenEnv, over HTTP and WebSockets, for its clients and trainers.

    Clients have no access to files. Ctrl-C ends it. Needs an extra: pip install 'aiocg\\[openenv]'.

    Example: aiocg openenv --env llvm-ic-v0 --program my.c

    Args:
        steps (1..): Steps of an episode.
        name: Another name by which clients may call this machine.
        token ($AIOCG_OPENENV_TOKEN): What clients must send as Authorization: Bearer. Beyond this machine one is made
            if none is given.
        clients (1..): Most clients at once.
    """
    from aiocg.agents import Limits

    _check(env, program)
    limits = Limits(
        sessions=clients, actions=actions, candidates=candidates, shown_characters=characters, seconds=seconds
    )
    token = token or ("" if host in LOCAL else secrets.token_urlsafe(24))
    hosts = hosts_of(host, name or [])
    if not token and not set(hosts) <= set(LOCAL):
        fail("--name is for calls from other machines: use --token")
    listening = listen(host, port)
    said = f"OpenEnv at http://{shown(host)}:{listening.getsockname()[1]}" + (
        f", with the token {token}" if token else ""
    )
    options = {"reward_space": reward, "limits": limits, "steps": steps, "hosts": hosts, "token": token}
    if status := run(_serve_openenv(env, program or [], flags or [], workers, listening, said, options)):
        sys.exit(status)


def _check(environment: str, files: list[Path] | None) -> None:
    """Fail before anything is started."""
    from aiocg.registry import environment as find

    find(environment)
    names = [path.name for path in files or []]
    if twice := {name for name in names if names.count(name) > 1}:
        fail(f"two files are called {', '.join(sorted(twice))}: agents call them by their names alone, so rename one")


async def _offered(runtime: "Runtime", files: list[Path], flags: list[str]) -> "dict[str, Benchmark]":
    return {path.name: await runtime.find_benchmark(path, flags) for path in files}


async def _serve_mcp(
    environment: str,
    reward: str | None,
    files: list[Path],
    flags: list[str],
    limits: "Limits",
    workers: int | None,
) -> None:
    from aiocg.agents import AgentSessions, mcp_server
    from aiocg.agents.server import serve_stdio
    from aiocg.runtime import Runtime

    async with Runtime(workers=workers, options={"untrusted": True}) as runtime:
        programs = await _offered(runtime, files, flags)
        sessions = AgentSessions(runtime, environment, reward_space=reward, programs=programs, limits=limits)
        number = await serve_stdio(mcp_server(sessions))
    if number:
        sys.stderr.flush()
        os._exit(128 + number)  # to leave otherwise would be to wait for the client


async def _serve_openenv(
    environment: str,
    files: list[Path],
    flags: list[str],
    workers: int | None,
    listening: "socket.socket",
    said: str,
    options: dict[str, Any],
) -> int:
    from aiocg.agents.openenv import openenv_app
    from aiocg.runtime import Runtime

    async with Runtime(workers=workers, options={"untrusted": True}) as runtime:
        app = openenv_app(runtime, environment, programs=await _offered(runtime, files, flags), **options)
        return await serve(app, listening, said)
