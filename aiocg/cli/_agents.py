"""`aiocg mcp` and `aiocg openenv`: compilers for language models and other agents."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aiocg.cli._listening import listen, serve
from aiocg.cli._options import Flags, time_option
from aiocg.cli.output import ended_by, fail, interrupted_status, run, service_status

if TYPE_CHECKING:
    from aiocg.agents import Limits
    from aiocg.datasets import Benchmark
    from aiocg.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """What agents may have.

    Args:
        reward (default that of the environment): What actions are rewarded by.
        program: A file that agents may optimise, called by its name; may be given several times.
        actions (1..): Most actions of a step.
        candidates (1..): Most candidates of an expand.
        characters (1..): Most characters of an observation.
        seconds: Time that the actions of a step may take.
    """

    env: str = "llvm-ic-v0"
    reward: str | None = None
    program: list[Path] | None = None
    actions: int = 100
    candidates: int = 256
    characters: int = 20_000
    seconds: Annotated[float, time_option(least=0.1)] = 30.0
    workers: int | None = None
    flags: Flags = None

    def check(self) -> None:
        """Fail before anything is started."""
        from aiocg.registry import environment as find

        find(self.env)
        names = [path.name for path in self.program or []]
        if twice := {name for name in names if names.count(name) > 1}:
            called = ", ".join(sorted(twice))
            fail(f"two files are called {called}: agents call them by their names alone, so rename one")

    def limits(self, sessions: int) -> "Limits":
        """Return the limits, with so many sessions."""
        from aiocg.agents import Limits

        return Limits(
            sessions=sessions,
            actions=self.actions,
            candidates=self.candidates,
            shown_characters=self.characters,
            seconds=self.seconds,
        )

    def runtime(self) -> "Runtime":
        """Return a runtime whose workers do not trust agents."""
        from aiocg.runtime import Runtime

        return Runtime(workers=self.workers, options={"untrusted": True})

    async def programs(self, runtime: "Runtime") -> "dict[str, Benchmark]":
        """Return the files that are offered, by their names."""
        return {path.name: await runtime.find_benchmark(path, self.flags or ()) for path in self.program or ()}


def mcp(offer: _Offer, sessions: int = 8) -> None:
    """Serve compilers as tools for language models, over standard input and output (Model Context Protocol).

    Clients start it themselves: docs/agents.md has their configuration. Agents have no access to files.
    Needs the package mcp: pip install 'aiocg\\[mcp]'.

    Example: aiocg mcp --env llvm-ic-v0 --program my.c

    Args:
        sessions (1..): Most sessions at once.
    """
    offer.check()
    run(_serve_mcp(offer, sessions))


def openenv(
    offer: _Offer,
    steps: int = 45,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: list[str] | None = None,
    token: str | None = None,
    clients: int = 64,
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
    offer.check()
    listening = listen(host, port, name, token)

    async def serving() -> None:
        from aiocg.agents.openenv import openenv_app

        async with offer.runtime() as runtime:
            app = openenv_app(
                runtime,
                offer.env,
                reward_space=offer.reward,
                programs=await offer.programs(runtime),
                limits=offer.limits(clients),
                steps=steps,
                hosts=listening.hosts,
                token=listening.token,
            )
            needed = f", with the token {listening.token}" if listening.token else ""
            await serve(app, listening, f"OpenEnv at {listening.address}{needed}")

    run(serving())
    sys.exit(service_status())


async def _serve_mcp(offer: _Offer, most: int) -> None:
    """Serve until the client closes the streams, or a signal comes."""
    import asyncio

    from aiocg.agents import AgentSessions, mcp_server

    stopped = asyncio.Event()
    async with offer.runtime() as runtime:
        programs, limits = await offer.programs(runtime), offer.limits(most)
        sessions = AgentSessions(runtime, offer.env, reward_space=offer.reward, programs=programs, limits=limits)
        serving = asyncio.create_task(mcp_server(sessions).run_stdio_async())
        stopping = asyncio.create_task(stopped.wait())
        with ended_by(stopped.set):
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not stopped.is_set():
            await serving
    if stopped.is_set():
        sys.stderr.flush()
        os._exit(interrupted_status())  # to leave otherwise would be to wait for the client
