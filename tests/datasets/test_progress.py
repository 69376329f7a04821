"""Bars for long work: shown on the terminal, and in nobody's way."""

import os
import pty
import subprocess
import sys

SCRIPT = """
from aiocg.datasets import progress
progress.PATIENCE = 0.0
with progress.progress("Working", 3, unit="programs"):
    input()  # until the bar was seen
    print("a result", flush=True)
"""


def test_what_is_printed_into_a_pipe_arrives_there_although_a_bar_is_on_the_terminal() -> None:
    terminal, end = pty.openpty()
    command = [sys.executable, "-P", "-c", SCRIPT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=end) as child:
        os.close(end)
        try:
            seen = b""
            while b"Working" not in seen:
                seen += os.read(terminal, 65536)
            assert child.communicate(b"\n")[0] == b"a result\n"
        finally:
            os.close(terminal)
