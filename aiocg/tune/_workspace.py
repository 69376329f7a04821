"""A copy of a folder for builds and commands, so that the original stays as it is."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiocg.datasets.process import check_cancelled
from aiocg.errors import AiocgError

POLL_INTERVAL = 0.1  # seconds between looks for a cancellation
TIMEOUT = 3600.0  # seconds for one command
ANSWERS = ("aiocg.mk", "aiocg.cmake")
SHOWN = 2_000  # characters of a failed command's output that an error has


class TuneError(AiocgError):
    """A build, a cost or a check cannot be done."""


class CommandFailed(TuneError):
    """A command failed, or took too long; `output` is all that it printed."""

    def __init__(self, what: str, told: str, output: str = "") -> None:
        super().__init__(f"{what}: {told.strip()[-SHOWN:]}" if told.strip() else what)
        self.output = f"{told}\n{output}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A copy of a folder, which commands see at the original's path where `bwrap` can do that.

    Attributes:
        root: the original.
        copy: the copy of it.
        boxed: whether commands see the copy at the path of the original.
    """

    root: Path
    copy: Path
    boxed: bool

    @classmethod
    def of(cls, root: Path, copy: Path) -> "Workspace":
        """Copy a folder.

        Args:
            root: the folder.
            copy: where the copy will be.

        Raises:
            TuneError: when it cannot be copied, for example to a full disk.
        """
        boxed = cls(root, copy, True)
        boxed.renew()
        if shutil.which("bwrap") and not boxed._run(["true"], root, os.environ, TIMEOUT)[0]:
            return boxed
        return cls(root, copy, False)

    def renew(self) -> None:
        """Copy the folder anew.

        Raises:
            TuneError: as `of`.
        """
        if self.copy.resolve().is_relative_to(self.root.resolve()):
            raise TuneError(f"{self.root} cannot be copied into itself, to {self.copy}: say another folder by TMPDIR")
        shutil.rmtree(self.copy, ignore_errors=True)
        done = subprocess.run(["cp", "-a", "--reflink=auto", self.root, self.copy], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(self.copy, ignore_errors=True)
            raise TuneError(f"{self.root} cannot be copied to {self.copy}: {done.stderr.strip()[-SHOWN:]}")
        for name in ANSWERS:  # of an earlier run, which a makefile may include
            if (self.copy / name).is_file():
                (self.copy / name).write_bytes(b"")

    @property
    def seen(self) -> Path:
        """The path at which commands see the copy."""
        return self.root if self.boxed else self.copy

    def inside(self, path: Path) -> Path:
        """Return where we find a file that commands see at a path."""
        return self.copy / path.relative_to(self.root) if self.boxed and path.is_relative_to(self.root) else path

    def run(
        self,
        words: Sequence[str],
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = TIMEOUT,
    ) -> str:
        """Run a command, and return what it prints to standard output.

        Args:
            words: the command; one word is a line for the shell.
            directory: as commands see it; by default that of the copy.
            environment: all its variables; by default ours.
            timeout: seconds after which it is killed.

        Raises:
            CommandFailed: when it fails.
            Cancelled: when the event of `aiocg.datasets.cancellable` was set.
        """
        line = ["/bin/sh", "-c", *words] if len(words) == 1 else list(words)
        status, output, errors = self._run(line, directory or self.seen, environment or os.environ, timeout)
        if status:
            ended = f"did not end in {timeout:g} s" if status == -signal.SIGKILL else f"ended with {status}"
            raise CommandFailed(f"`{' '.join(words)[:200]}` {ended}", errors or output, output)
        return output

    def line(self, words: Sequence[str], directory: Path | None = None) -> list[str]:
        """Return the command that runs a command as `run` does."""
        if not self.boxed:
            return list(words)
        box = ("bwrap", "--dev-bind", "/", "/", "--bind", str(self.copy), str(self.root), "--die-with-parent")
        return [*box, "--chdir", str(directory or self.seen), "--", *words]

    def variables(self, environment: Mapping[str, str], directory: Path | None = None) -> dict[str, str]:
        """Return variables for a command: its temporary files go with the copy, and the time does not vary."""
        (temporary := self.copy.with_name(f"{self.copy.name}-tmp")).mkdir(exist_ok=True)
        place = {"PWD": str(directory or self.seen), "TMPDIR": str(temporary)}
        return {"SOURCE_DATE_EPOCH": "1", **environment, **place}

    def _run(
        self, words: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
    ) -> tuple[int, str, str]:
        try:
            how: dict[str, Any] = {"text": True, "errors": "surrogateescape", "start_new_session": True}
            how |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            how |= {"cwd": "/" if self.boxed else directory, "env": self.variables(environment, directory)}
            process = subprocess.Popen(self.line(words, directory), **how)
        except OSError as error:
            raise CommandFailed(f"{words[0]} cannot be started", error.strerror or str(error)) from None
        deadline = time.monotonic() + timeout
        try:
            while True:
                check_cancelled()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=POLL_INTERVAL)
                    return process.returncode, output, errors
                if time.monotonic() > deadline:
                    return -signal.SIGKILL, "", ""
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
