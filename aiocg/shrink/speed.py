"""Keeping images that are fast enough, by the processor time that a benchmark of the user's takes with them."""

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.shrink.candidate import OWN, Candidates
from aiocg.shrink.checking import install
from aiocg.shrink.image import smallest

ROUNDS = 5  # in which the build's own images and others are timed in turn; the least time of each counts


@dataclass(frozen=True, slots=True)
class Pace:
    """A limit of how much slower the images may be than the build's own.

    Attributes:
        command: the benchmark, for the shell.
        most: the share by which its processor time may grow.
        tell: is told what is done.
    """

    command: str
    most: float
    tell: Callable[[str], None]

    def settle(self, images: Sequence[Candidates]) -> None:
        """Let images that are too slow be larger, as far as that helps.

        Raises:
            BenchmarkInitError: when the benchmark fails.
            OSError: when an image cannot be written.
        """
        if (slower := self._slowdown(images, images)) <= self.most:
            return
        self.tell(f"the benchmark takes {slower:+.1%} of the time, so the images are timed one by one")
        for image in images:
            while image.chosen != OWN and (slower := self._slowdown(images, [image])) > self.most:
                image.notes.append(f"the benchmark takes {slower:+.1%} with the image by {image.chosen}")
                now = image.images[image.chosen].bytes
                larger = {name: one for name, one in image.images.items() if one.bytes > now}
                image.choose(smallest(larger) if larger else OWN)
        if self._slowdown(images, images) > self.most:
            for image in images:
                image.chosen = OWN
                image.notes.append("the benchmark takes too long with all images together, so the build's own stays")

    def _slowdown(self, images: Sequence[Candidates], some: Sequence[Candidates]) -> float:
        own = shrunk = float("inf")
        try:
            for _ in range(ROUNDS if any(one.chosen != OWN for one in some) else 0):
                install(images, ())
                own = min(own, self._seconds())
                install(images, some)
                shrunk = min(shrunk, self._seconds())
        finally:
            install(images, ())
        return shrunk / max(own, 1e-3) - 1 if own < float("inf") else 0.0

    def _seconds(self) -> float:
        """Return the processor time of the benchmark with all that it starts."""
        process = subprocess.Popen(["/bin/sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=2)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise BenchmarkInitError(self.command, f"the benchmark ended with {process.returncode}")
        return used.ru_utime + used.ru_stime
