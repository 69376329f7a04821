"""The report in text and JSON."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aiocg.shrink._candidate import Candidates
from aiocg.shrink.image import Image, smallest
from aiocg.shrink.report import Report, _compared, _explained, _ImageReport, _Symbol, report_of
from aiocg.transport.elf import merged_symbols, symbol_sizes

OWN, OZ, FOUND = Image(1000, 100, 50, 40, 8), Image(900, 100, 50, 40), Image(800, 100, 50, 60, 16)
REPORT = _ImageReport(
    "app",
    "found",
    {"own": OWN, "-Oz": OZ, "found": FOUND},
    _compared({"f": 90, "g": 30}, {"f": 20, "h": 9}, {"g": "inlined into f"}),
    ("a note",),
    {"-disable-lsr": 1200},
)


def test_symbols_are_told_by_how_much_they_have_changed() -> None:
    assert REPORT.symbols == (_Symbol("f", 90, 20), _Symbol("g", 30, 0, "inlined into f"), _Symbol("h", 0, 9))


def test_the_smallest_image_is_taken_and_of_equals_the_first() -> None:
    assert smallest({"own": OWN, "-Oz": OZ, "found": FOUND}) == "found"
    assert smallest({"own": OWN, "found": OWN}) == "own"
    assert smallest({"own": FOUND, "found": Image(800, 100, 50, 60)}) == "found"  # less zeroed memory


def test_lines_say_what_was_gained_over_the_build_and_over_clang() -> None:
    first, *rest = Report((REPORT,), {"lib.so": "a reason"}).lines()
    rival = "best of clang and the build: 1,090 by clang -Oz (-7.3%)"
    assert first == f"app: 1,190 -> 1,010 bytes (-15.1%), by search; {rival}"
    assert rest[0] == "  memory that begins as zero, not counted: 8 -> 16"
    assert "         30 ->       0  g: inlined into f" in rest
    assert "  of that by -disable-lsr: 1,200" in rest
    assert "  note: a note" in rest and rest[-1] == "lib.so: left as the build has made it: a reason"


def test_lines_compare_with_images_that_were_made() -> None:
    (locked, *_) = Report((replace(REPORT, images={"own": OWN, "found": FOUND}, by_lock=True),)).lines()
    assert locked.endswith("as the lock file says (--update searches again)")
    (first, *_) = Report((replace(REPORT, images={"own": OWN, "-Oz": Image(2000, 0, 0, 0), "found": FOUND}),)).lines()
    assert first.endswith("best of clang and the build: 1,190 by the build (-15.1%)")


def test_json_has_all_that_lines_have() -> None:
    value = Report((REPORT,), {"lib.so": "a reason"}).as_json()
    assert value["before"] == 1190 and value["after"] == 1010 and value["left_alone"] == {"lib.so": "a reason"}
    assert value["images"] and Report((REPORT,)).as_json()["images"][0]["saved"] == {"-disable-lsr": 1200}  # type: ignore[index]


def test_a_function_is_said_to_be_inlined_merged_unused_or_outlined() -> None:
    before = {"f": 90, "g": 30, "h": 8, "k": 7, "m": 6, "main": 5, "stderr@GLIBC_2.2.5": 8}
    after = {"main": 50, "OUTLINED_FUNCTION_0": 9, "n": 4}
    places = {"f": ["main", "g", "main"], "g": ["main"]}
    assert _explained(before, after, {"k": "main"}, places, {"f", "g", "k", "m", "n", "main"}) == {
        "f": "inlined into main, g",
        "g": "inlined into main",
        "h": "nothing uses it",
        "k": "the same as main",
        "m": "merged with an equal one, or no longer used",
        "main": "has f, g within",
        "OUTLINED_FUNCTION_0": "a sequence of instructions that occurs often",
        "n": "was inlined in the build's own image",
        "stderr@GLIBC_2.2.5": "stays in its library, and is not copied to here",
    }
    assert _explained({"f": 1}, {}, {}, {}, None) == {}


@pytest.mark.slow
@pytest.mark.needs("libc", "cc")
def test_what_is_inlined_and_what_nobody_uses_is_known_of_a_program(shrinkable: Callable[[str], Candidates]) -> None:
    image = shrinkable(
        "#include <stdio.h>\nint unused(int x) { return x * 7; }\n"
        "static int twice(int x) { return x * 2; }\n"
        "int main(int argc, char **argv) { return printf(argv[twice(argc)]); }\n"
    )
    image.add_found(image.quick)
    image.choose()
    (report,) = report_of([image], {}).images
    causes = {symbol.name: symbol.cause for symbol in report.symbols}
    assert (causes["twice"], causes["unused"]) == ("inlined into main", "nothing uses it")


@pytest.mark.needs("cc")
def test_symbols_at_one_place_have_their_bytes_once(tmp_path: Path) -> None:
    for one, other in (("f", "g"), ("g", "f")):  # in whatever order the linker writes them
        source = f'int {one}(int x) {{ return x * 7; }}\nint {other}(int) __attribute__((alias("{one}")));\n'
        (tmp_path / "a.c").write_text(source)
        subprocess.run(["cc", "-c", "a.c"], cwd=tmp_path, check=True)
        content = (tmp_path / "a.o").read_bytes()
        assert merged_symbols(content) == {"g": "f"} and list(symbol_sizes(content)) == ["f"]
