"""Cleans up after a client, however it ends. Runs as a script in its own process, with only the standard library.

Arguments: the runtime folder, the path of `datasets/scratch.py`, and the client's process id.

It reads lines from standard input: `+PID` and `-PID` add and remove a process group, and `end` means that the client
closed its runtime. End of file means that the client crashed or was killed. (`end` is needed because processes that the
client forked may keep the pipe open.) Other lines are ignored: a truncated number could name an unrelated process.

At the end the janitor kills the remaining groups, and processes that left their group as daemons do, which it finds by
their TMPDIR. It removes the runtime folder and, after a crash, the scratch folders that the client left behind.
"""

import contextlib
import os
import runpy
import shutil
import signal
import sys
import time

_DEATH_PATIENCE = 5.0  # seconds from the end of our input until a dying client has released its locks


def end_users_of(folder: str) -> None:
    """Kill the processes whose TMPDIR is a folder, or one below it."""
    mark = os.fsencode(f"TMPDIR={folder}")
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if any(value == mark or value.startswith(mark + b"/") for value in file.read().split(b"\0")):
                    os.kill(int(entry), signal.SIGKILL)


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
    end_users_of(sys.argv[1])
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not closed and len(sys.argv) > 2:
        patience = time.monotonic() + _DEATH_PATIENCE
        # The system releases the client's locks before it gives us a new parent.
        while os.getppid() == int(sys.argv[3]) and time.monotonic() < patience:
            time.sleep(0.01)
        runpy.run_path(sys.argv[2])["sweep"]()


if __name__ == "__main__":
    main()
