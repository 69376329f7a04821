"""`aiocg serve` in a process of its own, for tests."""

import contextlib
import json
import subprocess
import sys
from typing import Any

import psutil


class Serving:
    """A node in a process of its own.

    Attributes:
        process: that runs it.
        said: what it said of itself when it listened.
    """

    def __init__(self, place: Any, *options: str) -> None:
        command = [sys.executable, "-P", "-m", "aiocg.cli", "serve", "--json", *options]
        self._log = (place.folder / "serve.log").open("ab")
        self.process: subprocess.Popen[str] = place.start(*command, stderr=self._log)
        assert self.process.stdout is not None
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "address" in self.said, self.said
        self.address: str = self.said["address"]

    def children(self) -> list[int]:
        """Return the process ids of its workers."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        workers = []
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):  # it is gone, or a zombie
                if "aiocg.workers" in " ".join(one.cmdline()):
                    workers.append(one.pid)
        return workers

    def end(self) -> None:
        """Kill it, should it still run."""
        self.process.kill()
        self.process.communicate()
        self._log.close()
