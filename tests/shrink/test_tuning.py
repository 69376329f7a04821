"""Options that make an image smaller."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.datasets.toolchain import compile_flags, find_toolchain, link_flags
from aiocg.llvm.tools import apply
from aiocg.shrink._candidate import TUNED, TUNED_LEVEL, Candidates, Recipe
from aiocg.shrink._tuning import FRAME_POINTERS, NO_PLT, POLISH, RELR, candidates, compiler_words, linker_words, tune
from aiocg.shrink.checking import Check
from aiocg.shrink.image import read_image
from aiocg.transport.elf import sections, symbol_sizes

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static const char *volatile names[] = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
int main(int argc, char **argv) {
  int n = 0;
  for (int i = 0; i < argc; i++) n += atoi(argv[i]);
  printf("%s %d\\n", names[argc % 10], n);
  return 0;
}
"""


THROWING = """
#include <cstdio>
#include <stdexcept>
#include <string>
struct Noted {
  std::string name;
  explicit Noted(const char *n) : name(n) {}
  ~Noted() { std::printf("-%s", name.c_str()); }
};
static volatile int seen;
__attribute__((noinline)) void check(int n, const char *what) {
  seen += n;
  if (n % 3 == 0) throw std::runtime_error(what);
}
#define STEP(k) \\
  __attribute__((noinline)) int step##k(int n) { \\
    Noted a("a" #k), b("b" #k); \\
    try { check(n, "first"); check(n + k, "second"); seen += n * 7; check(n + 2 * k, "third"); } \\
    catch (const std::exception &e) { std::printf("[%s]", e.what()); return n + k; } \\
    return n; \\
  }
STEP(1) STEP(2) STEP(4) STEP(5)
int main() {
  int sum = 0;
  for (int n = 0; n < 9; n++) {
    try { sum += step1(n) + step2(n) + step4(n) + step5(n); check(n, "outer"); } catch (...) { std::printf("!"); }
  }
  std::printf("%d %d\\n", sum, seen);
}
"""


def test_an_option_stays_that_saves_something_beside_those_before() -> None:
    saving = {"a": 5, "b": -1, "c": 3, "d": 2}

    def size(options: tuple[str, ...]) -> int | None:
        if "d" in options and "c" in options:
            return None  # which do not go together
        return 100 - sum(saving[one] for one in options)

    assert tune(100, size, "abcd") == {"a": 5, "c": 3}
    assert tune(0, size, "abcd") == {}


def test_options_are_for_the_code_generator_or_for_the_linker() -> None:
    options = ("-disable-lsr", FRAME_POINTERS, NO_PLT, RELR, POLISH)
    assert compiler_words(options) == ["-mllvm", "-disable-lsr"] and linker_words(options) == [RELR]


def test_for_other_machines_clangs_passes_are_tried_and_nothing_of_this_ones_loader() -> None:
    foreign = candidates((), foreign=True)
    assert POLISH in foreign and not {NO_PLT, RELR} & {*foreign} and POLISH not in candidates(())


@pytest.mark.parametrize(
    ("line", "early"),
    [
        ("a.o -o app", True),
        ("-shared a.o", False),
        ("-shared -Wl,-z,now a.o", True),
        ("-shared -Wl,--no-undefined a.o", True),
    ],
)
def test_a_library_is_bound_early_only_if_it_lacks_nothing(line: str, early: bool) -> None:
    assert (NO_PLT in candidates(line.split())) is early


@pytest.mark.slow
def test_what_is_called_seldom_gets_no_stub_and_what_is_called_often_keeps_it() -> None:
    calls = "  call void @often()\n" * 17
    program = f"declare void @seldom()\ndeclare void @often()\ndeclare void @llvm.trap()\ndefine void @f() {{\n{calls}"
    program += "  call void @seldom()\n  call void @llvm.trap()\n  ret void\n}\n"
    early = apply(program.encode(), [], no_plt=True)
    lines = apply(early, [], text=True).decode().splitlines()
    attributes = {line.split(" = ")[0]: line for line in lines if line.startswith("attributes ")}
    found = {}
    for line in lines:
        if line.startswith("declare"):
            found[line.split("@")[1].split("(")[0]] = "nonlazybind" in attributes.get(
                f"attributes {line.split()[-1]}", line
            )
    assert found == {"seldom": True, "often": False, "llvm.trap": False}


@pytest.fixture
def image(shrinkable: Callable[[str], Candidates]) -> Candidates:
    if RELR not in candidates(()):
        pytest.skip("needs glibc 2.36")
    found = shrinkable(SOURCE)
    found.add_found(("mark<minsize>", "default<Oz>"))
    return found


@pytest.mark.slow
@pytest.mark.needs("libc", "cc")
def test_a_tuned_image_is_smaller_and_does_the_same(image: Candidates, tmp_path: Path) -> None:
    said = subprocess.run(["./app", "7", "5"], capture_output=True, text=True).stdout
    image.tune()
    image.choose()
    assert image.chosen == TUNED and {NO_PLT, RELR} <= image.recipes[TUNED].saved.keys()
    assert image.images["found"].bytes - image.images[TUNED].bytes == sum(image.recipes[TUNED].saved.values())
    assert any(one.name == ".relr.dyn" for one in sections(image.content))
    Check("./app 7 5", lambda line: None).settle([image])
    assert (tmp_path / "app").read_bytes() == image.content
    assert subprocess.run(["./app", "7", "5"], capture_output=True, text=True).stdout == said


@pytest.mark.slow
@pytest.mark.needs("libc", "cc")
def test_a_level_of_clang_is_tuned_by_the_same_options(image: Candidates) -> None:
    image.add_levels()
    image.tune_level()
    assert RELR in image.recipes[TUNED_LEVEL].saved
    assert image.images[TUNED_LEVEL].bytes < min(image.images[level].bytes for level in image.levels)
    image.choose(TUNED_LEVEL)
    assert image.images[TUNED_LEVEL].zeroed <= image.images["own"].zeroed + 8  # padding is no memory of variables
    made, entry = image.content, image.entry("LLVM")
    assert (entry.chosen, set(entry.options)) == (TUNED_LEVEL, set(image.recipes[TUNED_LEVEL].saved))
    del image.images[TUNED_LEVEL], image.contents[TUNED_LEVEL]
    image.add_tuned_level(Recipe(entry.actions, dict.fromkeys(entry.options, 0)))
    assert image.contents[TUNED_LEVEL] == made


@pytest.mark.needs("libc", "cc", "readelf")
@pytest.mark.slow
def test_a_tuned_level_that_the_check_fails_with_leaves_what_was_found(image: Candidates) -> None:
    image.tune_level()
    image.tune()
    image.choose(TUNED_LEVEL)
    Check("! readelf -SW app | grep -q relr.dyn", lambda line: None).settle([image])
    assert image.chosen == TUNED and RELR not in image.recipes[TUNED].saved
    assert image.notes[-1] == f"the check fails with {RELR}: left out"


@pytest.mark.needs("libc", "cc", "readelf")
@pytest.mark.slow
def test_an_option_that_the_check_fails_with_is_left_out(image: Candidates) -> None:
    image.tune()
    image.choose()
    Check("! readelf -SW app | grep -q relr.dyn", lambda line: None).settle([image])
    assert (image.chosen, list(image.recipes[TUNED].saved), image.notes) == (
        TUNED,
        [FRAME_POINTERS, NO_PLT],
        [f"the check fails with {RELR}: left out"],
    )
    assert any(f"fails with {RELR}: left out" in note for note in image.notes)
    assert read_image(image.content).bytes == image.images[TUNED].bytes


@pytest.mark.slow
@pytest.mark.needs("libc", "c++")
def test_exceptions_find_their_way_through_outlined_code(tmp_path: Path) -> None:
    (tmp_path / "main.cc").write_text(THROWING)
    toolchain = find_toolchain()
    line = [*toolchain.command("c++"), *compile_flags(toolchain.clang, "c++"), *link_flags(toolchain.clang, "c++")]
    said = []
    tuned = [one for one in candidates(()) if one != NO_PLT and " " not in one]  # whatever an outlined function saves
    for name, options in {"plain": (), "tuned": tuned}.items():
        words = ["-Oz", *compiler_words(options), "main.cc", "-o", name]
        subprocess.run([*line, *words], cwd=tmp_path, check=True)
        said.append(subprocess.run([tmp_path / name], capture_output=True, text=True, check=True).stdout)
    assert "OUTLINED_FUNCTION" in " ".join(symbol_sizes((tmp_path / "tuned").read_bytes()))
    assert said[0] == said[1] and said[0].count("[") > 9
