"""`aiocg cc` and `aiocg c++` as builds use them; what clang does by itself is the reference."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.linking import LINK_FLAGS, runtime_archive
from aiocg.datasets.programs import program_flags
from aiocg.datasets.toolchain import compile_flags, find_clang, find_toolchain, link_flags
from aiocg.llvm import _driver_search as driver_search
from aiocg.llvm import code_size, compute_observation, image_size, text_size
from aiocg.llvm.command_line import parse
from aiocg.llvm.driver import PLAIN, _Candidate, _describe, _Verdict
from aiocg.llvm.driver_settings import Settings
from aiocg.transport.elf import ImageSize

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "datasets/programs"
FLAGS = ["-nostdlibinc", "-isystem", str(PROGRAMS / "include"), "-ffreestanding"]

C_SOURCE = """
#include "part.h"
static int power(int base, int exponent) {
  int result = 1;
  for (int i = 0; i < exponent; i++) result *= base;
  return result;
}
int main(int argc, char **argv) { return power(argc + 1, 3) + PART; }
"""


MACROS = ("__OPTIMIZE__", "__OPTIMIZE_SIZE__", "__NO_INLINE__")


class Driver:
    """Runs `aiocg cc` in a folder of its own, with a cache that the tests of this module share."""

    def __init__(self, place: Any, cache: Path) -> None:
        self.folder: Path = place.folder
        self.place = place
        place.environment.update({"AIOCG_CC_SEARCH": "Oz", "AIOCG_CACHE": str(cache), "LC_ALL": "C"})
        (self.folder / "main.c").write_text(C_SOURCE)
        (self.folder / "part.h").write_text("#define PART 2\n")

    def __call__(self, line: str, name: str = "cc", **variables: str) -> "subprocess.CompletedProcess[str]":
        self.place.environment.update(variables)
        done: subprocess.CompletedProcess[str] = self.place.run(
            sys.executable, "-P", "-m", "aiocg.cli", name, *shlex.split(line)
        )
        assert self.place.leftovers() == []
        return done

    def clang(self, line: str, name: str = "cc") -> "subprocess.CompletedProcess[str]":
        """Run the same with clang alone."""
        language = "c++" if name == "c++" else "c"
        clang = find_clang()
        mode = ["--driver-mode=g++"] if name == "c++" else []
        done: subprocess.CompletedProcess[str] = self.place.run(
            str(clang), *mode, *compile_flags(clang, language), *shlex.split(line)
        )
        return done


@pytest.fixture(scope="module")
def cache(new_cache: Callable[[], Path]) -> Path:
    return new_cache()


@pytest.fixture
def cc(place: Any, cache: Path) -> Driver:
    place.environment["PATH"] = "/usr/bin:/bin"  # in other folders tests beside this one may install something
    return Driver(place, cache)


# ------------------------------------------------------------------------------------ what is only clang's


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "-dumpmachine",
        "-E main.c",
        "-S -O2 main.c -o -",
        "-M main.c",
        "-fsyntax-only -Wall main.c",
        "",
        "-o",
        "-c nothing.c",
        "-c main.c -o x.o -funknown-option",
        "-c @endless",
        "-O2 -c conftest.c -o conftest.o",
    ],
)
def test_everything_but_compiling_is_as_clang_does_it(cc: Driver, line: str) -> None:
    (cc.folder / "conftest.c").write_text("int main(void) { return 0; }\n")
    (cc.folder / "endless").write_text("@endless")
    ours, theirs = cc(line), cc.clang(line)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


@pytest.mark.needs("libc")
@pytest.mark.slow
@pytest.mark.parametrize("level", ["", "-O1", "-O2", "-Os"])
def test_macros_of_the_level_are_those_of_the_build(cc: Driver, level: str) -> None:
    lines = "\n".join(f"#ifdef {name}\nputs({name!r});\n#endif".replace("'", '"') for name in MACROS)
    rest = "int fill(int x) { int s = 1; for (int i = 0; i < x; i++) s = s * x % (i + 7) + i / 3; return s; }\n"
    (cc.folder / "level.c").write_text(f"#include <stdio.h>\n{rest}int main(void) {{\n{lines}\nreturn 0; }}\n")
    assert cc(f"{level} level.c -o ours").returncode == cc.clang(f"{level} level.c -o theirs").returncode == 0
    assert cc.place.run("./ours").stdout == cc.place.run("./theirs").stdout


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("flags", "body"),
    [
        ("", "int f( {"),
        ("-Wall", "int f(void) { int unused; return 1; }"),
        ("-Wall -Werror", "int f(void) { int unused; return 1; }"),
        ("-O2", 'int f(void) { __asm__("bogus %eax"); return 0; }'),  # seen by the code generator only
    ],
)
def test_diagnostics_and_status_are_clangs_and_come_once(cc: Driver, body: str, flags: str) -> None:
    (cc.folder / "bad.c").write_text(body)
    line = f"{flags} -c bad.c -o bad.o"
    theirs = cc.clang(line)
    (cc.folder / "bad.o").unlink(missing_ok=True)
    ours = cc(line, AIOCG_CC_REPORT="/dev/null")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert (cc.folder / "bad.o").exists() == (theirs.returncode == 0)


def test_missing_header_of_the_system_is_followed_by_advice(cc: Driver) -> None:
    (cc.folder / "s.c").write_text("#include <stdio.h>\n")
    for variable in ("CPATH", "C_INCLUDE_PATH"):
        cc.place.environment.pop(variable, None)
    done = cc("-nostdlibinc -c s.c")
    assert done.returncode == 1
    assert "fatal error: 'stdio.h' file not found" in done.stderr
    assert "note: this machine lacks the headers of the C library" in done.stderr


def test_explicit_o0_is_respected(cc: Driver) -> None:
    done = cc("-O0 -c main.c -o main.o")
    assert (done.returncode, done.stderr) == (0, "")
    cc.clang("-O0 -c main.c -o plain.o")
    assert (cc.folder / "main.o").read_bytes() == (cc.folder / "plain.o").read_bytes()


QUICK = [
    ("--version", True),
    ("-v", True),
    ("-E -xc main.c", True),
    ("-O2 -c conftest.c", True),
    ("-O0 -c main.c", True),
    ("main.o -nostdlib -Wl,-emain -o main", True),
    ("-nostdlib -Wl,-emain conftest.c -o conftest", True),
    ("-Xlinker -E -nostdlib -Wl,-emain main.o -o main", False),
    ("-xc -c main.o -o m.o", False),
    ("-O0 -O2 -c main.c", False),
    ("-O2 -c @words", False),
]


def imported(cc: Driver, line: str) -> "tuple[subprocess.CompletedProcess[str], set[str]]":
    """Run `aiocg cc`, and return what it has imported beside what it prints."""
    start = [sys.executable, "-P", "-X", "importtime", "-m", "aiocg.cli", "cc"]
    done: subprocess.CompletedProcess[str] = cc.place.run(*start, *shlex.split(line))
    lines = done.stderr.splitlines(keepends=True)
    done.stderr = "".join(one for one in lines if not one.startswith("import time:"))
    return done, {one.split("|")[-1].strip() for one in lines if one.startswith("import time:")}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("line", "is_quick"), QUICK)
def test_what_is_surely_clangs_alone_starts_quickly(cc: Driver, line: str, is_quick: bool) -> None:
    (cc.folder / "conftest.c").write_text("int main(void) { return 0; }\n")
    (cc.folder / "words").write_text("-O1 main.c")
    assert cc.clang("-c main.c").returncode == 0
    theirs = cc.clang(line)
    assert cc("--version").returncode == 0  # it is known how clang is started
    ours, modules = imported(cc, line)
    assert ("aiocg.cli._cc" in modules) != is_quick
    if is_quick:
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("search", ["none", "greedy", ""])
def test_a_quick_start_asks_for_no_less_than_another(cc: Driver, search: str) -> None:
    (cc.folder / "main.c").write_text(C_SOURCE + "/* not tiny */" * 20)
    cc.place.environment["AIOCG_CC_SEARCH"] = search
    assert cc("--version").returncode == 0
    assert ("aiocg.cli._cc" in imported(cc, "-O2 -c main.c -fsyntax-only")[1]) is False
    cc.place.environment["AIOCG_CC_RECORD"] = str(cc.folder / "record")
    _, modules = imported(cc, "--version")
    assert "aiocg.cli._cc" in modules and (cc.folder / "record").read_text().count("--version") == 1
    del cc.place.environment["AIOCG_CC_RECORD"]
    done = cc("--version", AIOCG_CC_BUDGET="0")
    assert done.returncode == 1 and "AIOCG_CC_BUDGET is '0'" in done.stderr


@pytest.mark.slow
def test_another_clang_on_the_path_is_found(cc: Driver, new_cache: Callable[[], Path]) -> None:
    folders = [cc.folder / "first", cc.folder / "second"]
    cc.place.environment.update(AIOCG_CACHE=str(new_cache()), AIOCG_CLANG="mine")
    cc.place.environment["PATH"] = os.pathsep.join([*map(str, folders), cc.place.environment["PATH"]])
    for folder in folders:
        folder.mkdir()
    for folder in (folders[1], folders[0]):
        (folder / "mine").write_text(f"#!/bin/sh\necho {folder.name}\n")
        (folder / "mine").chmod(0o755)
        assert [cc("--version").stdout for _ in range(3)] == [f"{folder.name}\n"] * 3
    (folders[0] / "mine").unlink()
    assert cc("--version").stdout == "second\n"
    (folders[1] / "mine").unlink()
    assert "AIOCG_CLANG is 'mine', which is not an executable file" in cc("--version").stderr


@pytest.mark.slow
def test_a_file_on_clang_that_is_damaged_or_cannot_be_written_does_not_matter(
    cc: Driver, new_cache: Callable[[], Path]
) -> None:
    cache = new_cache()
    expected = cc("--version", AIOCG_CACHE=str(cache)).stdout
    whole = (cache / "cc-start").read_bytes()
    for content in (b"", b"\x00", whole[: len(whole) // 2], whole[:-9]):
        (cache / "cc-start").write_bytes(content)
        assert cc("--version").stdout == expected
    assert (cache / "cc-start").read_bytes() == whole
    done = cc("--version", AIOCG_CACHE="/dev/null")
    assert (done.returncode, done.stdout) == (0, expected)


# ------------------------------------------------------------------------------------------ what is ours


def test_object_is_optimised_reported_cached_and_depends_on_what_it_depends_on(
    cc: Driver, new_cache: Callable[[], Path]
) -> None:
    first = cc("-O2 -c main.c -o main.o", AIOCG_CACHE=str(new_cache()))
    assert re.fullmatch(r"aiocg cc: main\.c: \d+ bytes .*-Oz.*; \d+\.\d s\n", first.stderr)
    content = (cc.folder / "main.o").read_bytes()
    (cc.folder / "main.o").unlink()
    again = cc("-O2 -c main.c -o main.o")
    assert again.stderr.endswith("; cached\n")
    assert (cc.folder / "main.o").read_bytes() == content
    assert "cached" not in cc("-O2 -ffunction-sections -c main.c -o main.o").stderr
    (cc.folder / "part.h").write_text("#define PART 3\n")
    assert "cached" not in cc("-O2 -c main.c -o main.o").stderr


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["-MD", "-MMD -MF x.dep", "-MD -MT some -MP", "-Wp,-MD,y.dep"])
def test_rules_for_make_are_clangs(cc: Driver, rule: str) -> None:
    def taken() -> dict[str, str]:
        """Read the rules that were written, and remove them."""
        paths = [*cc.folder.rglob("*.d"), *cc.folder.glob("*.dep")]
        rules = {str(path.relative_to(cc.folder)): path.read_text() for path in paths}
        for path in paths:
            path.unlink()
        return rules

    (cc.folder / "out").mkdir()
    for output in ("", "-o main.o", "-o out/x.o"):
        cc.clang(f"{rule} -O2 -c main.c {output}")
        theirs = taken()
        assert cc(f"{rule} -O2 -c main.c {output}").returncode == 0
        assert taken() == theirs
        assert len(theirs) == 1


@pytest.mark.slow
def test_several_sources_are_compiled_and_linked_in_one_line(cc: Driver) -> None:
    (cc.folder / "two.c").write_text("int two(void) { return 2; }\n")
    (cc.folder / "one.c").write_text("int two(void);\nint _start(void) { return two(); }\n")
    (cc.folder / "three.s").write_text(".globl three\nthree: ret\n")
    assert cc("-c one.c two.c three.s").returncode == 0
    assert {path.name for path in cc.folder.glob("*.o")} == {"one.o", "two.o", "three.o"}
    (cc.folder / "one.o").unlink()
    assert cc("-c one.c two.c").returncode == 0
    assert (cc.folder / "one.o").exists()
    line = "-O1 -nostdlib -static -ffreestanding -DX -include part.h one.c two.c three.s -o app -Wl,-e,_start"
    done = cc(line, AIOCG_CC_REPORT="/dev/null")
    assert (done.returncode, done.stderr) == (0, "")
    assert (cc.folder / "app").read_bytes()[:4] == b"\x7fELF"
    failing = cc("-nostdlib -static one.c -o bad")
    assert failing.returncode == 1
    assert "undefined symbol: two" in failing.stderr


@pytest.mark.slow
def test_what_is_no_file_is_written_to_and_not_replaced(cc: Driver) -> None:
    assert cc("-c main.c -o /dev/null").returncode == 0
    assert Path("/dev/null").is_char_device()
    (cc.folder / "link.o").symlink_to("target.o")
    assert cc("-c main.c -o link.o").returncode == 0
    assert (cc.folder / "link.o").is_symlink()
    assert (cc.folder / "target.o").read_bytes()[:4] == b"\x7fELF"
    done = cc("-c main.c -o nowhere/main.o")
    assert done.returncode == 1
    assert "error: " in done.stderr


def sizes(cc: Driver, line: str) -> tuple[int, int, int, int]:
    """Return the bytes in the image of ours, of clang with the same options, and of clang -Oz and -Os."""
    for output, level in (("plain.o", ""), ("oz.o", "-Oz"), ("os.o", "-Os")):
        assert cc.clang(f"{line} {level} -o {output}").returncode == 0
    done = cc(f"{line} -o ours.o")
    assert done.returncode == 0, done.stderr
    names = ("ours.o", "plain.o", "oz.o", "os.o")
    ours, plain, oz, os_ = (image_size((cc.folder / name).read_bytes()).stored for name in names)
    return ours, plain, oz, os_


PUSHES = """void many(int, int, int, int, int, int, int, int); void few(void);
void pushes(int n) {
  for (int i = 0; i < n; i++) { many(n, i, 3, 4, 5, 6, 7, 8); many(i, n, 4, 4, 5, 6, i, 9); few(); }
}
"""  # by -Oz arguments are pushed, of which the unwind table has to know


@pytest.mark.few(1)
@pytest.mark.parametrize("search", ["O0", "no-such-pass"])
@pytest.mark.parametrize("source", [str(PROGRAMS / "gcd.c"), "pushes.c"])  # smaller by -Oz, and by -Os
def test_never_worse_than_clang_whatever_the_search_finds(cc: Driver, search: str, source: str) -> None:
    (cc.folder / "pushes.c").write_text(PUSHES)
    line = shlex.join([*FLAGS, "-O2", "-c", source])
    cc.place.environment["AIOCG_CC_SEARCH"] = search
    ours, plain, *levels = sizes(cc, line)
    assert levels[0] > levels[1] if source == "pushes.c" else levels[0] < levels[1]
    fails = search == "no-such-pass"
    assert ours <= (plain if fails else min(plain, *levels))
    assert ("warning" in cc(f"{line} -o ours.o").stderr) == fails


@pytest.mark.slow
def test_search_gains_and_the_program_still_prints_what_it_must(cc: Driver) -> None:
    line = shlex.join([*program_flags("c"), "-O2", "-c", str(PROGRAMS / "gcd.c")])
    cc.place.environment.update({"AIOCG_CC_SEARCH": "greedy", "AIOCG_CC_BUDGET": "60", "AIOCG_CC_REPORT": "report.txt"})
    ours, plain, oz, _ = sizes(cc, line)
    assert ours < oz < plain
    report = (cc.folder / "report.txt").read_text()
    assert f"{ours} bytes by" in report
    assert f"-Oz {oz}" in report
    program = default_datasets().benchmark("programs-v0/gcd").program
    assert program is not None
    link_object(cc.folder / "ours.o", cc.folder / "gcd", find_toolchain())
    ended = subprocess.run([cc.folder / "gcd", "small"], capture_output=True)
    assert (ended.returncode, ended.stdout) == (0, program.runs["small"].expected_output())


WRITABLE = f"""
static unsigned long key[300] = {{{", ".join(f"0x{n * 0x9E3779B97F4A7C15 % 2**64:x}" for n in range(300))}}};
unsigned long mix(unsigned long x) {{ return ((x ^ key[5]) + key[77]) * 3 ^ key[123]; }}
"""


@pytest.mark.slow
def test_a_table_that_only_clang_makes_constant_is_no_gain(cc: Driver) -> None:
    """Without globalopt the code is shorter than that of -Oz, which folds three words of the table into it."""
    (cc.folder / "key.c").write_text(WRITABLE)
    cc.place.environment.update({"AIOCG_CC_SEARCH": "sroa,instcombine,simplifycfg", "AIOCG_CC_REPORT": "report.txt"})
    ours, *clangs = sizes(cc, "-O2 -c key.c")
    assert ours == min(clangs) < 300
    assert "found" not in (cc.folder / "report.txt").read_text()


@pytest.mark.parametrize(
    ("found", "is_within"),
    [((90, 8), True), ((100, 8), True), ((101, 8), False), ((90, 9), False), ((100, 0), True)],
)
def test_no_object_may_take_more_room_than_clangs(found: tuple[int, int], is_within: bool) -> None:
    plain = _Candidate("plain", b"", ImageSize(100, 8), 100)
    assert _Candidate("found", b"", ImageSize(*found), found[0]).is_within(plain) == is_within


@pytest.mark.slow
def test_probes_and_tiny_files_are_clangs_alone(cc: Driver) -> None:
    """The scripts of zlib and others write their probes by hand."""
    cc.place.environment["AIOCG_CC_SEARCH"] = "greedy"
    (cc.folder / "probe.c").write_text("extern int getchar();\nint hello() { return getchar(); }\n")
    (cc.folder / "ztest1234.c").write_text(C_SOURCE)
    for name in ("probe", "ztest1234"):
        ours, theirs = cc(f"-O2 -c {name}.c -o ours.o"), cc.clang(f"-O2 -c {name}.c -o theirs.o")
        assert (ours.returncode, ours.stderr) == (0, "") == (theirs.returncode, theirs.stderr)  # there is no report
        assert (cc.folder / "ours.o").read_bytes() == (cc.folder / "theirs.o").read_bytes()


@pytest.mark.slow
def test_a_file_whose_levels_alone_take_the_budget_is_not_searched(cc: Driver) -> None:
    line = shlex.join([*program_flags("c"), "-O2", "-c", str(PROGRAMS / "lisp.c")])
    cc.place.environment.update({"AIOCG_CC_SEARCH": "greedy", "AIOCG_CC_BUDGET": "0.05", "AIOCG_CC_REPORT": "r.txt"})
    ours, *clangs = sizes(cc, line)
    report = (cc.folder / "r.txt").read_text()
    assert ours == min(clangs) and "greedy" not in report and re.search(rf"{ours} bytes as -O[sz] alone", report)


@pytest.mark.slow
def test_a_search_that_is_cut_off_keeps_what_it_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has found something by then depends on the machine; what it has found is a program."""
    program = default_datasets().benchmark("programs-v0/lisp").content
    monkeypatch.setattr(driver_search, "GRACE", -595.0)
    found = driver_search.optimise(program, Settings(search="greedy", budget=600.0), 600.0)
    assert len(found) <= 2 and all(how.endswith(" actions") for _, how in found)
    assert all(compute_observation("IrInstructionCount", bitcode) > 0 for bitcode, _ in found)


def link_object(unlinked: Path, output: Path, toolchain: Any) -> None:
    """Link an object with the runtime of programs-v0."""
    (output.parent / "runtime.a").write_bytes(runtime_archive(toolchain))
    command = [*toolchain.linker_command(), *LINK_FLAGS, "-o", output, unlinked, output.parent / "runtime.a"]
    subprocess.run(command, check=True)


@pytest.mark.slow
def test_instructions_decide_if_the_reward_counts_them_and_a_saved_state_is_taken(cc: Driver) -> None:
    (cc.folder / "state.json").write_text('{"environment": "llvm-v0", "actions": ["mem2reg", "simplifycfg", "gvn"]}')
    done = cc("-c main.c", AIOCG_CC_SEARCH="state.json", AIOCG_CC_REWARD="IrInstructionCountOz")
    assert re.search(r"\d+ instructions (by state\.json|as -Oz alone|as clang)", done.stderr), done.stderr
    (cc.folder / "state.json").write_text('{"actions": ["sroa"]}')
    assert "cached" not in cc("-c main.c", AIOCG_CC_REWARD="", AIOCG_CC_SEARCH="~/state.json", HOME=".").stderr
    (cc.folder / "state.json").write_text('{"actions": ["gvn"]}')
    assert "cached" not in cc("-c main.c").stderr
    (cc.folder / "state.json").write_text("actions")
    assert "state.json is not a state as `aiocg search --state` writes it" in cc("-c main.c").stderr


def test_bad_setting_says_what_is_expected(cc: Driver) -> None:
    done = cc("-c main.c", AIOCG_CC_BUDGET="soon")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "AIOCG_CC_BUDGET is 'soon', expected a number of seconds" in done.stderr


@pytest.mark.slow
def test_odd_names_and_a_report_that_cannot_be_written(cc: Driver) -> None:
    for name in (b"-dash.c", b"no \xff utf-8.c"):
        shutil.copy(cc.folder / "main.c", os.path.join(os.fsencode(cc.folder), name))
    done = cc("-c -O2 -- -dash.c", AIOCG_CC_REPORT="no/report")
    assert (done.returncode, (cc.folder / "-dash.o").exists()) == (0, True), done.stderr
    assert "warning: the report is not written" in done.stderr and "bytes" in done.stderr
    done = cc(os.fsdecode(b"-c 'no \xff utf-8.c'"), AIOCG_CC_REPORT="report")
    assert (done.returncode, done.stderr) == (0, "")
    assert (cc.folder / "report").read_bytes().startswith(b"aiocg cc: no \xff utf-8.c: ")


def test_c_plus_plus_with_templates_and_classes(cc: Driver) -> None:
    (cc.folder / "t.cc").write_text(
        "template <class T> struct Box { T value; T twice() const { return value + value; } };\n"
        "int f(int x) { return Box<int>{x}.twice(); }\n"
    )
    done = cc("-O2 -c t.cc", name="c++")
    assert done.returncode == 0, done.stderr
    assert b"_Z1fi" in (cc.folder / "t.o").read_bytes()


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_search_leaves_nothing(cc: Driver, number: signal.Signals) -> None:
    cc.place.environment.update({"AIOCG_CC_SEARCH": "greedy", "AIOCG_CC_BUDGET": "60"})
    line = [*FLAGS, "-O2", "-c", str(PROGRAMS / "lisp.c"), "-o", "lisp.o"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "aiocg.cli", "cc", *line],
        cwd=cc.folder,
        env=cc.place.environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and len(cc.place.leftovers()) < 2:  # the driver's folder and one more
        time.sleep(0.05)
    assert len(cc.place.leftovers()) >= 2
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not (cc.folder / "lisp.o").exists()
    until = time.monotonic() + 60
    while time.monotonic() < until and (cc.place.processes() or cc.place.leftovers()):
        time.sleep(0.05)
    assert (cc.place.processes(), cc.place.leftovers()) == ([], [])


INTERRUPTED = """
import os, signal, sys
from aiocg import cli
class Interrupter:
    def find_spec(self, name, *_):
        if name == "aiocg.datasets.toolchain":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
sys.argv = ["aiocg", "cc", "-c", "main.c"]
cli.main()
"""


def test_interrupted_while_it_starts_it_ends_without_a_word(cc: Driver) -> None:
    done = cc.place.run(sys.executable, "-P", "-c", INTERRUPTED)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


INTERRUPTED_WITH_ITS_CHILD = """
import os, signal, sys
from aiocg import cli
from aiocg.errors import WorkerCrashed
from aiocg.llvm import _driver_search as driver_search
def apply(program, actions):
    os.kill(os.getpid(), signal.SIGINT)
    raise WorkerCrashed("LLVM was interrupted, too")
driver_search.apply = apply
sys.argv = ["aiocg", "cc", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.slow
def test_ctrl_c_is_no_failure_of_the_process_that_it_ends_as_well(cc: Driver) -> None:
    cc.place.environment.update({"AIOCG_CC_SEARCH": "greedy", "AIOCG_CC_BUDGET": "600"})
    line = [*FLAGS, "-O2", "-c", str(PROGRAMS / "lisp.c"), "-o", "lisp.o"]
    done = cc.place.run(sys.executable, "-P", "-c", INTERRUPTED_WITH_ITS_CHILD, *line)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
    assert not (cc.folder / "lisp.o").exists()


@pytest.mark.slow
@pytest.mark.parametrize("line", ["-c main.c", "-E -M main.c -o rule"])
def test_closed_streams_do_not_matter(cc: Driver, line: str) -> None:
    command = shlex.join([sys.executable, "-P", "-m", "aiocg.cli", "cc", *shlex.split(line)])
    assert cc.place.run("sh", "-c", f"{command} >&- 2>&-").returncode == 0
    assert (cc.folder / line.split()[-1].replace(".c", ".o")).stat().st_size


# ------------------------------------------------------------------------------------------- small parts


def test_settings_come_from_the_environment() -> None:
    assert Settings.from_environment({}) == Settings()
    chosen = Settings.from_environment({"AIOCG_CC_SEARCH": "beam", "AIOCG_CC_BUDGET": "2.5", "AIOCG_CC_REPORT": "r"})
    assert chosen == Settings(search="beam", budget=2.5, report="r")
    assert Settings(reward="IrInstructionCountO3").counts_instructions
    assert not Settings().counts_instructions


def test_report_names_what_was_chosen_and_the_others() -> None:
    found = _Verdict("found", {PLAIN: 30, "-Oz": 20, "found": 10}, "bytes", "greedy, 3 actions", 1.0)
    assert _describe(found, "-O2") == "10 bytes by greedy, 3 actions; clang -O2 30, -Oz 20"
    plain = _Verdict(PLAIN, {PLAIN: 5, "-Oz": 20}, "instructions", "", 1.0)
    assert _describe(plain, "") == "5 instructions as clang -O0 alone; -Oz 20"


def test_text_size_is_that_of_llvm_size(cc: Driver) -> None:
    cc.clang("-g -O2 -ffunction-sections -c main.c")
    objects = [cc.folder / "main.o", *Path("/usr/lib").glob("*/crti.o"), Path(sys.executable).resolve()]
    sizer = next((p for p in (Path("/usr/bin/size"), Path("/usr/lib/llvm-19/bin/llvm-size")) if p.exists()), None)
    if sizer is None:
        pytest.skip("needs size of binutils or llvm-size")
    for path in objects:
        told = subprocess.run([sizer, path], capture_output=True, text=True, check=True).stdout.splitlines()[1]
        assert text_size(path.read_bytes()) == int(told.split()[0])
    with pytest.raises(ValueError, match="not an ELF file"):
        text_size(b"BC\xc0\xde")
    whole = (cc.folder / "main.o").read_bytes()
    for length in (4, 20, 64, len(whole) - 64):
        with pytest.raises(ValueError, match=r"not a complete|too short"):
            text_size(whole[:length])


def test_code_size_is_that_of_the_executable_sections(cc: Driver) -> None:
    binding = pytest.importorskip("llvmlite.binding", reason="the other reader of ELF files is llvmlite's")
    cc.clang("-g -O2 -ffunction-sections -c main.c")
    for path in (cc.folder / "main.o", Path(sys.executable).resolve()):
        content = path.read_bytes()
        sections = binding.ObjectFileRef.from_data(content).sections()
        assert 0 < code_size(content) == sum(one.size() for one in sections if one.is_text()) < text_size(content)
    with pytest.raises(ValueError, match="not an ELF file"):
        code_size(b"BC\xc0\xde")


def test_driver_starts_without_what_only_searches_need() -> None:
    script = "import sys, aiocg.cli, aiocg.cli._cc; print(*sorted(name.split('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "anyio", "gymnasium", "msgspec", "numpy", "rich", "typer", "zmq", "networkx"}


def test_link_flags_are_only_for_the_bundled_clang() -> None:
    assert link_flags(Path("/usr/bin/true"), "c++") == ()
    assert compile_flags(Path("/usr/bin/true"), "c++") == ()
    assert parse(["cc", "a.c"]).obstacle() == ""
