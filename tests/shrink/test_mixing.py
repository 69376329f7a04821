"""Images of which GCC makes a part, or all."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from aiocg.build.commands import read_record, record_build
from aiocg.shrink._candidate import BY_OPTIONS, FOUND, MIXED, OWN, TUNED_LEVEL, Candidates, Recipe
from aiocg.shrink._tools import searched_with
from aiocg.shrink.gcc_linking import LEVELS, GccImages
from aiocg.shrink.image import put
from aiocg.shrink.inputs import name_of
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import understand
from aiocg.shrink.shrinking import Shrinking

pytestmark = pytest.mark.needs("libc", "gcc")

MAIN = """
int sum(const int *, int), twice(int);
int main(int count, char **words) { int n[] = {1, 2, count}; return sum(n, 3) + twice(count); }
"""
PARTS = {
    "main.c": MAIN,
    "sum.c": "int sum(const int *n, int count) { int s = 0; for (int i = 0; i < count; i++) s += n[i]; return s; }",
    "twice.c": "int twice(int n) { return 2 * n; }",
}
BUILD = f"gcc -O2 -c {' '.join(PARTS)} && gcc -o app {' '.join(name.replace('.c', '.o') for name in PARTS)}"


def begun(folder: Path, name: str, lock: Lock, build: str = BUILD) -> Shrinking:
    """Build, and begin to shrink, in folders with a name of their own."""
    log, scratch = folder / f"{name}.record", folder / f"{name}.scratch"
    assert record_build(build, log, folder / f"{name}.bin") == 0
    scratch.mkdir()
    work = Shrinking(understand(read_record(log)), folder, scratch, lock)
    work.begin()
    return work


@pytest.fixture
def gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GccImages:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
    for name, text in PARTS.items():
        (tmp_path / name).write_text(text)
    return begun(tmp_path, "first", Lock()).gcc["app"]


@pytest.fixture
def image(gcc: GccImages) -> Candidates:
    return gcc.image


def repeated(image: Candidates, folder: Path, name: str) -> Candidates:
    """Choose an image, build anew, and return what the lock file says of the image then."""
    image.choose(name)
    assert image.chosen == name
    again = begun(folder, name.replace(" ", ""), Lock(images={"app": image.entry(searched_with())}))
    assert again.compare(locked=True) == []
    (found,) = again.images
    return found


@pytest.mark.slow
def test_levels_of_gcc_are_its_own_and_locked(gcc: GccImages, image: Candidates, tmp_path: Path) -> None:
    gcc.add_levels()
    names = [name for name in image.images if name != OWN]
    assert names[:2] in (["gcc -Oz", "gcc -Oz -flto"], ["gcc -Os", "gcc -Os -flto"])
    for name in names:
        found = repeated(image, tmp_path, name)
        assert (found.chosen, found.content) == (name, image.content)
        assert found.known is not None  # nothing had to be proved


@pytest.mark.slow
def test_a_changed_program_is_proved_and_compared_again(gcc: GccImages, image: Candidates, tmp_path: Path) -> None:
    gcc.add_levels()
    level = next(name for name in image.images if name.endswith("tuned"))
    image.choose(level)
    entry = image.entry(searched_with())
    (tmp_path / "twice.c").write_text("int twice(int n) { return 3 * n; }")
    work = begun(tmp_path, "second", Lock(images={"app": entry}))
    assert work.images[0].known is None and work.compare(locked=True) == work.images


@pytest.mark.slow
@pytest.mark.parametrize("name", [OWN, "gcc -Oz"])
def test_an_entry_of_another_compiler_is_searched_again(gcc: GccImages, tmp_path: Path, name: str) -> None:
    gcc.add_levels()
    gcc.image.chosen = name
    entry = gcc.image.entry("LLVM 1.2.3")
    work = begun(tmp_path, "second", Lock(images={"app": entry}))
    assert work.images[0].known is None and work.compare(locked=True) == work.images


@pytest.mark.slow
@pytest.mark.parametrize("name", ["-Oz", "gcc -Oz"])
def test_an_image_that_is_not_as_it_was_then_is_proved_anew(gcc: GccImages, tmp_path: Path, name: str) -> None:
    image = gcc.image
    gcc.add_levels()
    image.add_levels()
    image.choose(name)
    entry = msgspec.structs.replace(image.entry(searched_with()), image="0" * 64)  # as by another clang or linker
    work = begun(tmp_path, "second", Lock(images={"app": entry}))
    assert work.images[0].known is None and work.compare(locked=True) == []
    assert (work.images[0].chosen, work.images[0].content) == (name, image.content)
    assert not work.compiled.trusted and work.gcc["app"].image is work.images[0]


@pytest.mark.slow
@pytest.mark.parametrize("line", [(), ("-Os", "-fno-ivopts")])
def test_some_units_may_be_gccs(gcc: GccImages, image: Candidates, tmp_path: Path, line: tuple[str, ...]) -> None:
    image.add_found(image.quick)
    by_gcc = tuple(part for part in image.linker.parts if name_of(part) == "sum.c")
    assert gcc.add_mixed(Recipe(image.quick, by_gcc=by_gcc, line=line))
    assert not gcc.add_mixed(Recipe(image.quick, by_gcc=by_gcc, line=line))  # it is no smaller
    found = repeated(image, tmp_path, MIXED)
    assert (found.chosen, found.content, found.recipes[MIXED]) == (MIXED, image.content, image.recipes[MIXED])
    assert found.content != image.contents[FOUND] and found.recipes[MIXED].by_gcc == by_gcc
    put(tmp_path / "app", found.content)
    assert subprocess.run([tmp_path / "app"]).returncode == 1 + 2 + 1 + 2 * 1


@pytest.mark.slow
def test_units_are_mixed_only_where_that_is_smaller(gcc: GccImages, image: Candidates) -> None:
    gcc.mix(60.0)
    assert MIXED not in image.images  # nothing was found yet
    gcc.add_levels()
    image.add_tuned_level(Recipe(image.quick))  # no search was needed: GCC's may be smaller
    gcc.mix(60.0)
    assert MIXED in image.images
    image.choose()
    assert image.images[image.chosen].bytes == min(one.bytes for one in image.images.values())


@pytest.mark.slow
def test_a_unit_that_only_gcc_compiles_is_compiled_again_by_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
    nested = "int twice(int n) { int sum(int m) { int s = 0; while (m-- > 0) s += m * n; return s; } return sum(n); }"
    for name, text in {**PARTS, "twice.c": nested}.items():
        (tmp_path / name).write_text(text)
    gcc = begun(tmp_path, "first", Lock()).gcc["app"]
    assert [name_of(part) for part in gcc.image.linker.kept] == ["twice.c"]
    gcc.add_levels(["-Oz"])
    (level,) = (name for name in gcc.image.images if name != OWN)
    assert repeated(gcc.image, tmp_path, level).content == gcc.image.contents[level]


@pytest.mark.slow
def test_gcc_makes_an_image_of_which_clang_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
    for name, text in PARTS.items():
        (tmp_path / name).write_text(
            f"{text}\nint nested_{name[:3]}(int n) {{ int f(void) {{ return n; }} return f(); }}"
        )
    work = begun(tmp_path, "first", Lock())
    assert work.compare() == work.images and not work.left_alone
    work.choose(work.images)
    (image,) = work.images
    assert image.chosen.startswith("gcc -O")
    assert len(image.notes) == 1 and "none of its parts can be replaced" in image.notes[0]
    put(tmp_path / "app", image.content)
    assert subprocess.run([tmp_path / "app"]).returncode == 1 + 2 + 1 + 2 * 1
    assert repeated(image, tmp_path, image.chosen).content == image.content


@pytest.mark.slow
def test_all_units_may_be_gccs(gcc: GccImages, image: Candidates, tmp_path: Path) -> None:
    image.add_found(image.quick)
    assert gcc.add_mixed(Recipe(image.quick, by_gcc=tuple(image.linker.parts))) and not image.notes
    assert repeated(image, tmp_path, MIXED).content == image.content


@pytest.mark.slow
def test_a_search_of_gccs_options_is_locked(gcc: GccImages, image: Candidates, tmp_path: Path) -> None:
    gcc.add_levels()
    asked = []

    def find(size: Callable[[tuple[str, ...]], int | None]) -> tuple[str, ...]:
        asked.append(size(("-O3", "--no-such-option")))
        asked.append(size(("-Os", "-fno-ivopts")))
        return ("-Os", "-fno-ivopts")

    gcc.search(find)
    assert asked == [None, image.images[BY_OPTIONS].bytes]
    found = repeated(image, tmp_path, BY_OPTIONS)
    assert (found.chosen, found.content) == (BY_OPTIONS, image.content)


@pytest.mark.slow
def test_a_search_compiles_no_level_again_and_keeps_no_other_line(gcc: GccImages) -> None:
    gcc.add_levels()
    units, parts = gcc.linker.compiled, gcc.linker.parts
    made = {level: units.objects(parts, level) for level in LEVELS}
    tried: list[Path] = []

    def find(size: Callable[[tuple[str, ...]], int | None]) -> tuple[str, ...]:
        for line in (*LEVELS, "-Os -fno-ivopts"):
            tried.extend(units.objects(parts, line).values())
            size(tuple(line.split()))
        return ("-Oz",)

    gcc.search(find)
    assert {level: units.objects(parts, level) for level in LEVELS} == made
    count = len(LEVELS) * len(parts)
    assert [path.exists() for path in tried] == [True] * count + [False] * len(parts)


@pytest.mark.slow
def test_an_image_that_cannot_be_taken_is_noted(gcc: GccImages, image: Candidates) -> None:
    image.add_found(image.quick)
    image.contents[OWN] = b"\0asm" + bytes(4)
    gcc.add_mixed(Recipe(image.quick, by_gcc=tuple(gcc.mixable[:1])))
    image.add_tuned_level(Recipe(image.quick))
    assert len(image.notes) == 2 and all("an image of another kind" in note for note in image.notes)
    assert MIXED not in image.images and TUNED_LEVEL not in image.images


@pytest.mark.slow
def test_gcc_makes_units_smaller_that_clang_cannot_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
    for name, text in PARTS.items():
        (tmp_path / name).write_text(text)
    trapping = BUILD.replace("sum.c twice.c", "twice.c && gcc -O2 -ftrapv -c sum.c")
    gcc = begun(tmp_path, "first", Lock(), trapping).gcc["app"]
    (kept,) = gcc.image.linker.kept
    assert name_of(kept) == "sum.c" and kept in gcc.mixable
    assert gcc.add_mixed(Recipe(gcc.image.quick, by_gcc=(kept,)))
    gcc.image.choose(MIXED)
    lock = Lock(images={"app": gcc.image.entry(searched_with())})
    (again,) = begun(tmp_path, "again", lock, trapping).images
    assert (again.chosen, again.content) == (MIXED, gcc.image.content)
