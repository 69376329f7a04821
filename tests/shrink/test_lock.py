"""The lock file."""

from pathlib import Path

import msgspec
import pytest

from aiocg.shrink.lock import Entry, Lock, LockError, digest, lock_text, read_lock

from ..command_line import runner

ENTRY = Entry(
    input=digest(b"module"), compiler="LLVM 22.1.8", chosen="found", actions=("default<Oz>",), sizes={"own": 9}
)


def test_a_lock_file_is_read_as_it_was_written_and_its_text_depends_on_its_entries_alone(tmp_path: Path) -> None:
    path = tmp_path / "aiocg.lock"
    path.write_bytes(lock_text(Lock(images={"b": ENTRY, "a": ENTRY})))
    assert read_lock(path).images == {"a": ENTRY, "b": ENTRY}
    assert path.read_bytes() == lock_text(Lock(images={"a": ENTRY, "b": ENTRY}))


def test_a_lock_file_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "aiocg.lock").images == {}


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1, "images": {"a": {}}}', '{"version": 2, "images": {}}'])
def test_what_is_no_lock_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "aiocg.lock").write_text(text)
    with pytest.raises(LockError, match=r"aiocg\.lock"):
        read_lock(tmp_path / "aiocg.lock")


def test_an_entry_is_stale_for_another_program_or_another_llvm() -> None:
    assert ENTRY.staleness(b"module", "LLVM 22.1.8") == ""
    assert ENTRY.staleness(b"other", "LLVM 22.1.8") == "the program has changed"
    assert "LLVM 22.1.8" in ENTRY.staleness(b"module", "LLVM 23.1.0")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("command", "found_with", "said"),
    [
        (["gcc"], ["LLVM 22.1.8"], "found with LLVM 22.1.8, not GCC, for `aiocg gcc`: name another file by --lock"),
        (["shrink"], ["GCC 12.2.0"], "found with GCC 12.2.0, not LLVM"),
        (["shrink", "--locked"], ["GCC 12.2.0", "LLVM 22.1.8"], "found with GCC 12.2.0, not LLVM"),
        (["gcc", "--locked"], ["GCC 12.2.0", "LLVM 22.1.8"], "found with LLVM 22.1.8, not GCC"),
    ],
)
def test_a_lock_file_of_the_other_compiler_is_refused_before_the_build(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: list[str],
    found_with: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    images = {name: msgspec.structs.replace(ENTRY, compiler=name) for name in found_with}
    Path("aiocg.lock").write_bytes(lock_text(Lock(images=images)))
    run = runner(monkeypatch, capfd)
    done = run(*command, "--", "touch", "built")
    assert done.status == 1 and said in done.err and not Path("built").exists()
    done = run(command[0], "--update", "--", "touch", "built")
    assert done.status == 1 and "has linked no program" in done.err and Path("built").exists()
