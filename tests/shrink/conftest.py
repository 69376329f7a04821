"""A program of one file that may be made smaller."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.build.commands import read_record, record_build
from aiocg.shrink._candidate import Candidates
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import understand
from aiocg.shrink.shrinking import Shrinking


@pytest.fixture
def shrinkable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Candidates]:
    """Builds a program in C by `cc -O0` as `app` in a folder of its own, which becomes the working directory."""

    def build(source: str) -> Candidates:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "main.c").write_text(source)
        log, scratch = tmp_path / "record", tmp_path / "scratch"
        monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
        assert record_build("cc -O0 -c main.c && cc -o app main.o", log, tmp_path / "bin") == 0
        scratch.mkdir()
        work = Shrinking(understand(read_record(log)), tmp_path, scratch, Lock())
        work.begin()
        (found,) = work.images
        return found

    return build
