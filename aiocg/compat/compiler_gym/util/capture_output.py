"""What a block prints."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

__all__ = ["CapturedOutput", "capture_output"]


class CapturedOutput:
    """What was printed: buffers while the block runs, and texts after it.

    Attributes:
        stdout: standard output.
        stderr: standard error.
    """

    def __init__(self) -> None:
        self.stdout: Any = io.StringIO()
        self.stderr: Any = io.StringIO()


@contextlib.contextmanager
def capture_output() -> Iterator[CapturedOutput]:
    """Return a context manager that keeps what its block prints."""
    captured = CapturedOutput()
    try:
        with contextlib.redirect_stdout(captured.stdout), contextlib.redirect_stderr(captured.stderr):
            yield captured
    finally:
        captured.stdout = captured.stdout.getvalue()
        captured.stderr = captured.stderr.getvalue()
