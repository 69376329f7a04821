"""What a check does not like is found, and all else stays."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.shrink._candidate import FOUND, OWN, Candidates
from aiocg.shrink.checking import Check
from aiocg.shrink.image import put

SOURCE = """
#include <stdio.h>
static int keep(int x) {
  int s = 0;
  for (int i = 0; i < x + 3; i++) { s += i % 3 ? i * x : -i; if (s % 7 == 2) printf("%d ", s); }
  return s;
}
int main(int argc, char **argv) { int a = keep(argc); int b = keep(a); printf("%d %d\\n", a, b); return 0; }
"""
ACTIONS = ("mark<minsize>", "default<Oz>", "@main(inline<@keep>,instcombine<no-verify-fixpoint>)", "globaldce")


@pytest.fixture
def image(shrinkable: Callable[[str], Candidates]) -> Candidates:
    """A program that another may take the place of."""
    return shrinkable(SOURCE)


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_passes_that_the_check_fails_with_are_left_out_and_the_others_stay(image: Candidates, tmp_path: Path) -> None:
    said = subprocess.run(["./app"], capture_output=True, text=True).stdout
    image.add_found(ACTIONS)
    image.choose(FOUND)
    assert image.chosen == FOUND
    Check("nm app | grep -qw keep && ./app", lambda line: None).settle([image])
    assert image.chosen == FOUND and (tmp_path / "app").read_bytes() == image.content != image.contents[OWN]
    actions = image.recipes[FOUND].actions
    assert "@main(instcombine<no-verify-fixpoint>)" in actions and "default<Oz>" in actions
    assert not any("inline<" in action for action in actions)
    assert any("inline<@keep> on main" in note for note in image.notes)
    assert subprocess.run(["./app"], capture_output=True, text=True).stdout == said


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_a_check_that_holds_is_run_once(image: Candidates, tmp_path: Path) -> None:
    image.add_found(ACTIONS)
    image.choose(FOUND)
    check = Check("./app", lambda line: None)
    check.settle([image])
    assert check.runs == 1 and (tmp_path / "app").read_bytes() == image.contents[FOUND]


def test_an_image_is_as_old_and_as_executable_as_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(b"before")
    path.chmod(0o751)
    before = path.stat()
    put(path, b"after")
    after = path.stat()
    assert path.read_bytes() == b"after"
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_cargos_other_name_for_an_image_is_the_same_image_afterwards(tmp_path: Path) -> None:
    path, copy = tmp_path / "app", tmp_path / "deps" / "app-0123456789abcdef"
    copy.parent.mkdir()
    path.write_bytes(b"before")
    copy.hardlink_to(path)
    put(path, b"after")
    assert copy.read_bytes() == b"after" and copy.samefile(path) and len(list(copy.parent.iterdir())) == 1
