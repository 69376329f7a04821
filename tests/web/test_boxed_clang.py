"""The command of the box in which C of visitors is compiled."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from aiocg.web import _programs as boxed_clang


@pytest.mark.parametrize("folder", ["/library/venv", "/work/venv", "/tmp/venv", "/usr/local"])
def test_clang_is_in_the_box_wherever_it_is_installed(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    clang = SimpleNamespace(clang=Path(folder, "bin/clang-22"))
    monkeypatch.setattr(boxed_clang, "find_toolchain", lambda: clang)
    monkeypatch.setattr(boxed_clang, "loader_environment", dict)
    words = list(boxed_clang._box("/scratch"))
    ends = {"--ro-bind": 2, "--bind": 2, "--tmpfs": 1}  # where the word stands that says what is mounted over
    mounts = [words[place + ends[word]] for place, word in enumerate(words) if word in ends]
    seen = max(place for place, path in enumerate(mounts) if Path(folder).is_relative_to(path))
    assert mounts[seen] == (folder if folder != "/usr/local" else "/usr")  # nothing is mounted over it later
