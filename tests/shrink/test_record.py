"""What is understood of a build's record."""

from dataclasses import replace
from pathlib import Path

from aiocg.build.commands import Start, units_of
from aiocg.llvm.command_line import parse
from aiocg.shrink._tools import Cross
from aiocg.shrink.record import Build, Link, _obstacle, changed, understand

FOLDER = Path("/project")


def _start(line: str, **files: str) -> Start:
    return Start(tuple(line.split()), FOLDER, {name.replace("_", "."): digest for name, digest in files.items()})


def _build(*starts: Start) -> Build:
    return understand(starts)


def test_a_unit_is_known_by_what_its_object_contains() -> None:
    build = _build(_start("cc -O2 -c main.c", main_c="1", main_o="2"), _start("cc -c -o x.o part.c", x_o="3"))
    assert {digest: unit.source for digest, unit in build.units.items()} == {
        "2": FOLDER / "main.c",
        "3": FOLDER / "part.c",
    }


def test_an_object_that_was_written_twice_stands_for_both_of_its_contents() -> None:
    build = _build(_start("cc -DA -c a.c -o x.o", x_o="1"), _start("cc -DB -c a.c -o x.o", x_o="2"))
    assert {digest: unit.command.options() for digest, unit in build.units.items()} == {"1": ["-DA"], "2": ["-DB"]}


def test_the_last_link_of_an_output_counts() -> None:
    build = _build(_start("cc a.o -o app", app="1"), _start("cc a.o b.o -o app", app="2"))
    (link,) = build.links
    assert link.output == FOLDER / "app" and [one.path for one in link.command.inputs] == ["a.o", "b.o"]


def test_what_an_output_is_without_a_name_is_known() -> None:
    (link,) = _build(_start("cc main.c")).links
    assert link.output == FOLDER / "a.out" and [unit.source for unit in link.units] == [FOLDER / "main.c"]


def test_questions_probes_and_what_only_preprocesses_are_no_part_of_a_build() -> None:
    starts = [
        _start("cc --version"),
        _start("cc -c conftest.c"),
        _start("cc -E a.c"),
        _start("cc -o conftest conftest.c"),
    ]
    assert _build(*starts) == Build({}, (), {})


def test_links_that_give_no_image_or_need_the_compilers_own_passes_are_left_alone() -> None:
    build = _build(_start("cc -r a.o b.o -o part.o"), _start("cc -fsanitize=address a.o -o app"))
    assert build.links == () and {path.name: reason for path, reason in build.left_alone.items()} == {
        "part.o": "-r links no image but an object",
        "app": "-fsanitize=address needs the compiler's own passes",
    }


def test_a_unit_with_instrumentation_stays_as_the_build_has_made_it() -> None:
    assert _build(_start("cc -fprofile-arcs -c a.c", a_o="1")).units == {}


def test_link_time_optimisation_of_the_builds_own_is_no_obstacle() -> None:
    assert _obstacle(parse(["gcc", "-flto", "-O2", "a.o", "-o", "app"])) == ""


def test_what_has_changed_since_a_link_is_named() -> None:
    link = Link(FOLDER / "app", parse(["cc", "a.o"]), FOLDER, (), {FOLDER / "app": "1", FOLDER / "a.o": "2"})
    assert changed(link, {FOLDER / "app": "1", FOLDER / "a.o": "2"}) == ""
    assert changed(link, {FOLDER / "app": "1", FOLDER / "a.o": "3"}) == "the build has changed a.o after the link"
    assert changed(link, {FOLDER / "app": "1"}) == "the build has removed a.o after the link"
    assert "strip" in changed(link, {FOLDER / "app": "5", FOLDER / "a.o": "2"})


def test_an_image_may_have_a_table_of_the_symbols_of_one_with_the_same_objects() -> None:
    first = _start("cc -o first a.o table.o", first="1", a_o="2", table_o="3")
    read, again = _start("nm first", first="1"), _start("cc -o app a.o table.o", app="5", a_o="2", table_o="4")
    compiled = _start("cc -c table.c", table_o="4")
    assert _build(first, read, again).left_alone == {} == _build(first, compiled, again).left_alone
    found = _build(first, read, compiled, again)
    assert [link.output.name for link in found.links] == ["first"] and "symbols of first" in found.left_alone[
        FOLDER / "app"
    ]
    assert "1" in found.read


def test_zig_is_started_again_as_the_compiler_that_it_was() -> None:
    for compiler in ((), ("/opt/zig/zig",)):
        start = Start(("zig", "cc", "-c", "main.c"), FOLDER, {"main.o": "1"}, compiler)
        (unit,) = _build(start).units.values()
        assert unit.origin is not None and unit.origin.compiler == (*(compiler or ("zig",)), "cc")


def test_what_a_cross_compiler_adds_for_its_machine_is_given_to_clang(tmp_path: Path) -> None:
    driver = tmp_path / "arm-none-eabi-gcc"
    added = "'-mfloat-abi=soft' '-mlibarch=armv7e-m' '-DADDED'"
    driver.write_text(f"#!/bin/sh\necho \"COLLECT_GCC_OPTIONS='-mthumb' {added}\" >&2\n")
    driver.chmod(0o755)
    start = Start((str(driver), "-mthumb", "-c", "main.c"), tmp_path, {}, (str(driver),), {"PATH": "/bin:/usr/bin"})
    command = parse(start.arguments, str(tmp_path))
    (unit,) = units_of(command, tmp_path)
    cross = Cross(str(driver), "arm-none-eabi", ("clang",), ("ld.lld",))
    options = cross.unit(replace(unit, origin=start.origin(command, "1"))).command.options()
    assert {"--target=arm-none-eabi", "-mfloat-abi=soft", "-mthumb"} <= {*options}
    assert not {"-mlibarch=armv7e-m", "-DADDED"} & {*options}
