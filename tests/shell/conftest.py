"""Fixtures for tests of the shell: a runtime of scripted workers, a session at 5, and a shell that prints to memory."""

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from rich.console import Console

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.cli.shell.interpreter import Shell
from aiocg.cli.shell.session import ShellSession
from aiocg.fleet.restart_policy import Policy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with a worker that is replaced without delay."""
    async with aiocg.Runtime(workers=1, policy=Policy(first_delay=0.01, max_delay=0.1)) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest_asyncio.fixture(loop_scope="module")
async def session(runtime: aiocg.Runtime) -> AsyncIterator[ShellSession]:
    """A session that stands at 5, where every increase costs its amount."""
    session = await ShellSession.open(
        runtime, "scripted-v0", benchmark="scripted-v0/5", observation_space="value", reward_space="value", seed=1
    )
    yield session
    await session.env.close()


@dataclass
class Spoken:
    """A shell and what it has printed.

    Attributes:
        shell: the shell.
        out, err: what it has printed since it was last looked at.
    """

    shell: Shell
    stdout: io.StringIO
    stderr: io.StringIO

    async def __call__(self, text: str) -> bool:
        """Carry out commands; forget what was printed before."""
        for stream in (self.stdout, self.stderr):
            stream.seek(0)
            stream.truncate()
        return await self.shell.run(text)

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()


def spoken(session: ShellSession, *, terminal: bool = False) -> Spoken:
    """Make a shell that prints to memory."""
    out, err = io.StringIO(), io.StringIO()
    console = Console(file=out, width=120, highlight=False, force_terminal=terminal, color_system=None)
    errors = Console(file=err, width=120, highlight=False, soft_wrap=True)
    return Spoken(Shell(session, console, errors), out, err)


@pytest.fixture
def say(session: ShellSession) -> Spoken:
    """Carry out commands on the session."""
    return spoken(session)
