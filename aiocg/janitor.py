"""Cleans up after a client, however it ends. Run as a script in a process of its own, with only the standard library.

It reads lines from its standard input: `+PID` and `-PID` say which process groups are alive, `end` says that the client
has closed its runtime, and end of file that it is gone (crashed, or killed; processes that it forked may keep the input
open after it was closed). Then the groups that are left are killed and the runtime folder, named by the first argument,
is removed; and after a client that is gone, the scratch folders that it has left, by the file that the second argument
names; the third is the client's process id. Anything else is passed over: half a number would name somebody else's
process.
"""

import contextlib
import os
import runpy
import shutil
import signal
import sys
import time

DEATH_PATIENCE = 5.0  # seconds for a client whose input has closed to be gone with all that it has open


def main() -> None:
    """Wait for the client's end, then kill what it left and remove its folders."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    closed = False
    for line in sys.stdin:
        if line == "end\n":
            closed = True
            break
        sign, group = line[:1], line[1:-1]
        if not line.endswith("\n") or not group.isdecimal():
            continue
        if sign == "+":
            groups.add(int(group))
        elif sign == "-":
            groups.discard(int(group))
    for left in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(left, signal.SIGKILL)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not closed and len(sys.argv) > 2:
        patience = time.monotonic() + DEATH_PATIENCE
        # Its locks are freed before we are orphaned.
        while os.getppid() == int(sys.argv[3]) and time.monotonic() < patience:
            time.sleep(0.01)
        runpy.run_path(sys.argv[2])["sweep"]()


if __name__ == "__main__":
    main()
