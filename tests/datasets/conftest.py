"""Compilers and caches for the tests of datasets: all real."""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from aiocg.datasets.toolchain import find_toolchain

from .published_server import PublishedServer


class LoggingClang:
    """The real clang behind a script that writes a line for each compilation.

    Attributes:
        path: the script.
        log: where it writes.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "clang"
        self.log = directory / "compilations.log"
        self.log.touch()
        real = shlex.quote(str(find_toolchain().clang))
        self.path.write_text(
            f'#!/bin/sh\ncase "$*" in *--version*) ;; *) echo run >> {shlex.quote(str(self.log))};; esac\n'
            f'exec {real} "$@"\n'
        )
        self.path.chmod(0o755)

    @property
    def runs(self) -> int:
        """How many compilations there were."""
        return len(self.log.read_text().splitlines())


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("AIOCG_CACHE", str(directory))
    return directory


@pytest.fixture
def worker_cache(new_cache: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for one test that starts a worker of LLVM, without any program."""
    directory = new_cache()
    monkeypatch.setenv("AIOCG_CACHE", str(directory))
    return directory


@pytest.fixture
def logging_clang(
    tmp_path_factory: pytest.TempPathFactory, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> LoggingClang:
    """A clang that counts, in use for one test, with an empty cache."""
    clang = LoggingClang(tmp_path_factory.mktemp("bin"))
    monkeypatch.setenv("AIOCG_CLANG", str(clang.path))
    return clang


@pytest.fixture
def published_server() -> Iterator[PublishedServer]:
    """A web server on this machine that publishes what a test gives it, as well or as badly as that wants."""
    with PublishedServer() as server:
        yield server


@pytest.fixture
def ordinary_user() -> Callable[[], AbstractContextManager[None]]:
    """Makes a context in which permissions bind this process, also where root runs the tests."""

    @contextmanager
    def become() -> Iterator[None]:
        before = os.geteuid()
        if before == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(before)

    return become


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of one megabyte; the test is skipped where none can be mounted."""
    place = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)
