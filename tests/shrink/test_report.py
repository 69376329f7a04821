"""The report in text and JSON."""

from aiocg.shrink.image import Image, smallest
from aiocg.shrink.report import ImageReport, Report, Symbol, compared

OWN, OZ, FOUND = Image(1000, 100, 50, 40), Image(900, 100, 50, 40), Image(800, 100, 50, 60)
REPORT = ImageReport(
    "app",
    "found",
    {"own": OWN, "-Oz": OZ, "found": FOUND},
    compared({"f": 90, "g": 30}, {"f": 20, "h": 9}),
    ("a note",),
    {"-disable-lsr": 1200},
)


def test_symbols_are_told_by_how_much_they_have_changed() -> None:
    assert REPORT.symbols == (Symbol("f", 90, 20), Symbol("g", 30, 0), Symbol("h", 0, 9))


def test_the_smallest_image_is_taken_and_of_equals_the_first() -> None:
    assert smallest({"own": OWN, "-Oz": OZ, "found": FOUND}) == "found"
    assert smallest({"own": OWN, "found": OWN}) == "own"
    assert smallest({"own": FOUND, "found": Image(800, 100, 50, 0)}) == "found"


def test_lines_say_what_was_gained_over_the_build_and_over_clang() -> None:
    first, *rest = Report((REPORT,), {"lib.so": "a reason"}).lines()
    assert first == "app: 1,150 -> 950 bytes (-17.4%), by search; best of clang and the build: 1,050 by clang -Oz"
    assert rest[0] == "  unwind tables, not counted: 40 -> 60"
    assert "  of that by -disable-lsr: 1,200" in rest
    assert "  note: a note" in rest and rest[-1] == "lib.so: left as the build has made it: a reason"


def test_json_has_all_that_lines_have() -> None:
    value = Report((REPORT,), {"lib.so": "a reason"}).as_json()
    assert value["before"] == 1150 and value["after"] == 950 and value["left_alone"] == {"lib.so": "a reason"}
    assert value["images"] and Report((REPORT,)).as_json()["images"][0]["saved"] == {"-disable-lsr": 1200}  # type: ignore[index]
