"""Programs that are run, and ended when they take too long."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Popen", "communicate", "run_command"]

LAST_WAIT = 60  # seconds for a process that was killed to end


def run_command(cmd: Sequence[str], timeout: float) -> str:
    """Run a program and return what it prints.

    Args:
        cmd: its name and arguments.
        timeout: seconds.

    Raises:
        OSError: when it cannot be run, or fails; with what it printed to standard error.
        subprocess.TimeoutExpired: when it takes longer; it has been killed then.
    """
    with Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        stdout, stderr = process.communicate(timeout=timeout)
        if process.returncode:
            code = str(process.returncode)
            with contextlib.suppress(ValueError):
                code += f" ({signal.Signals(abs(process.returncode)).name})"
            raise OSError(
                f"Compilation job failed with returncode {code}\nCommand: {' '.join(cmd)}\nStderr: {stderr.strip()}"
            )
    return str(stdout)


def communicate(
    process: "subprocess.Popen[Any]", input: Any = None, timeout: float | None = None
) -> tuple[Any, Any]:
    """Do as `Popen.communicate`, and kill the process when it takes too long.

    Raises:
        subprocess.TimeoutExpired: when it does.
    """
    try:
        return process.communicate(input=input, timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process, timeout)
        raise


@contextlib.contextmanager
def Popen(*args: Any, **kwargs: Any) -> "Iterator[subprocess.Popen[Any]]":
    """Return a context manager for a `subprocess.Popen` that is killed at the end of the block, unless it has ended."""
    with subprocess.Popen(*args, **kwargs) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                _kill(process, LAST_WAIT)


def _kill(process: "subprocess.Popen[Any]", timeout: float | None) -> None:
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=timeout)
