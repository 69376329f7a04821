"""One of the two systems in a process of its own, which is told what to do and says how long it took."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
LINE = 1 << 26  # bytes of a reply
GOODBYE = 20.0  # seconds to end by itself
HURRY = 3.0  # seconds, when something went wrong


class DriverFailed(Exception):
    """An operation failed, or took too long, or the process has ended."""


class Driver:
    """Starts a driver's script, with `async with`, and ends it.

    Args:
        python: the interpreter.
        script: in `bench/scripts`.
        arguments: of the script.
        environment: its variables, ours if None.
    """

    def __init__(
        self, python: Path | str, script: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = (str(python), str(SCRIPTS / script), *arguments)
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, op: str, *, timeout: float = 300.0, **arguments: Any) -> dict[str, Any]:
        """Have something done, and return what it says.

        Raises:
            DriverFailed: if it was not done.
        """
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except TimeoutError:
            raise DriverFailed(f"{op} took more than {timeout:.0f} s") from None
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if not line:
            raise DriverFailed(f"the process ended during {op!r}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise DriverFailed(f"{op}: {reply['error']}")
        return reply

    async def __aenter__(self) -> Self:
        """Start the process."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=LINE,
            start_new_session=True,
        )
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        """End it, and all that it has started; without much patience after an error or Ctrl-C."""
        process = self._process
        assert process is not None and process.stdin is not None
        below = descendants(process.pid)
        try:
            process.stdin.close()
            async with asyncio.timeout(GOODBYE if exc_type is None else HURRY):
                await process.wait()
        except TimeoutError:
            below |= descendants(process.pid)
        finally:
            for pid in [process.pid, *below]:
                if process.returncode is None or (pid != process.pid and _session(pid) == process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            await process.wait()


def ours(*variants: str) -> Driver:
    """Return a driver of the aiocg that is installed here.

    Args:
        variants: `--remember`, with its memory of transitions.
    """
    return Driver(sys.executable, "drive_aiocg.py", *variants)


def alone(library: str | None = None) -> Driver:
    """Return a driver of LLVM alone: ours, or another libLLVM."""
    return Driver(sys.executable, "drive_bare.py", *([library] if library else []))


def descendants(pid: int) -> set[int]:
    """Return all processes below one."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child} | descendants(child)
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
