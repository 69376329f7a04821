"""A full disk or a missing box leaves a program unproven, and calls none wrong."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("libc")

TABLE = """
#include <stdio.h>
int table[64];
int main(void) {
  int sum = 0;
  for (int i = 0; i < 64; i++) { table[i] = i * i; sum += table[i] % 7; }
  printf("%d\\n", sum);
  return 0;
}
"""
WRITES_MUCH = """
#include <stdio.h>
char block[1 << 16];
int main(void) {
  FILE *file = fopen("output", "w");
  int written = 0;
  for (int i = 0; i < 100; i++) written += fwrite(block, 1, sizeof block, file) == sizeof block;
  printf("%d\\n", fclose(file) ? -1 : written);
  return 0;
}
"""
SEARCH = ("aiocg", "search", "program.c", "--evaluations", "5", "--workers", "1")
STATE = (
    '{"environment": "llvm-v0", "benchmark": "file://%s/program.c", "actions": ["sroa", "simplifycfg"], '
    '"reward_space": null, "reward": null, "walltime": 0}'
)
FULL = "not run, because it cannot be run: there is no folder for temporary files, or no space in it"


@pytest.fixture
def given(place: Any) -> Any:
    """A place with a program, and a state of it."""
    (place.folder / "program.c").write_text(TABLE)
    (place.folder / "state.json").write_text(STATE % place.folder)
    place.environment["AIOCG_SANDBOX"] = "rlimits"
    return place


def on_small_disk(given: Any, size: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose temporary files are on a disk of some size, in its own view of the file system."""
    disk: Path = given.temporary  # whose path is short enough for sockets
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f'mount -t tmpfs -o size={size} none "$0" && TMPDIR="$0" exec "$@"'
    if not shutil.which("unshare") or subprocess.run([*apart, "sh", "-c", mount, disk, "true"]).returncode:
        pytest.skip("file systems cannot be mounted here")
    done: subprocess.CompletedProcess[str] = given.run(*apart, "sh", "-c", mount, str(disk), *words)
    return done


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("size", ["32k", "64k"])
def test_full_disk_proves_nothing_and_is_said(given: Any, size: str) -> None:
    validated = on_small_disk(given, size, "aiocg", "validate", "state.json", "--workers", "1")
    assert (validated.returncode, FULL in validated.stdout) == (3, True), validated.stdout + validated.stderr
    searched = on_small_disk(given, size, *SEARCH)
    assert (searched.returncode, FULL in searched.stdout) == (0, True), searched.stdout + searched.stderr


@pytest.mark.slow
def test_program_that_the_disk_has_no_room_for_is_not_called_wrong(given: Any) -> None:
    (given.folder / "program.c").write_text(WRITES_MUCH)
    validated = on_small_disk(given, "3m", "aiocg", "validate", "state.json", "--no-sanitizers")
    assert (validated.returncode, FULL in validated.stdout) == (3, True), validated.stdout + validated.stderr
    enough = on_small_disk(given, "30m", "aiocg", "validate", "state.json", "--no-sanitizers")
    assert enough.returncode == 0, enough.stdout + enough.stderr


@pytest.mark.slow
def test_box_that_is_asked_for_and_missing_is_said(given: Any) -> None:
    tools = given.folder / "tools"
    tools.mkdir()
    for name in ("aiocg", "gcc", "cc", "ld", "as", "sh", "env"):
        if path := shutil.which(name, path=given.environment["PATH"]):
            (tools / name).symlink_to(path)
    given.environment.update(AIOCG_SANDBOX="bwrap", PATH=str(tools))
    validated = given.run("aiocg", "validate", "state.json")
    said = f"programs may be run in a box only, and none can be made: there is no bwrap on PATH ({tools})"
    said = f"not run, because it cannot be run: {said}"
    assert (validated.returncode, said in validated.stdout) == (3, True), validated.stdout + validated.stderr
    searched = given.run(*SEARCH, "-o", "found.o")
    assert (searched.returncode, said in searched.stdout) == (0, True), searched.stdout + searched.stderr
    assert os.path.getsize(given.folder / "found.o")
