"""`aiocg tune` on real builds, whose answers are used without it."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("libc", "make", "cc"), pytest.mark.slow]

SOURCES = {
    "main.c": """
#include <stdio.h>
int sum(int), product(int), large(int);
int never(int n) { return n * sum(n) + 7; }
int main(int argc, char **argv) { printf("%d %d %d\\n", sum(argc + 8), product(argc + 3), large(argc)); return 0; }
""",
    "sub/sum.c": "int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i % 7; return s; }\n",
    "sub/product.c": "int product(int n) { int p = 1; while (n > 0) p *= n--; return p; }\n",
    "sub/large.c": "".join(f"int f{n}(int x) {{ return x * {n} + x % {n + 2}; }}\n" for n in range(40))
    + "int large(int x) { int s = 0;"
    + "".join(f" if (x & {1 << n % 20}) s += f{n}(x);" for n in range(40))
    + " return s; }\n",
}
EXPECTED = "15 24 22\n"
MAKEFILE = """
{variable} = -O2 -Wall
app: main.o sub/libsub.a
\tcc $({variable}) $(LDFLAGS) -o $@ main.o -Lsub -lsub
main.o: main.c
\tcc $({variable}) -c -o $@ $<
sub/libsub.a: always
\t$(MAKE) -C sub
test: app
\ttest "`./app`" = "15 24 22"
clean:
\trm -f app *.o sub/*.o sub/*.a
.PHONY: always test clean
"""
SUBMAKE = """
{variable} = -O2
libsub.a: sum.o product.o large.o
\tar rcs $@ $^
%.o: %.c
\tcc $({variable}) -c $< -o $@
"""
CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(app C)
set(CMAKE_BUILD_TYPE Release)
add_subdirectory(sub)
add_executable(app main.c)
target_link_libraries(app sub)
"""
MESON = "project('app', 'c')\nexecutable('app', 'main.c', 'sub/sum.c', 'sub/product.c', 'sub/large.c')\n"


class Project:
    """A project in a folder of its own."""

    def __init__(self, place: Any, cache: Path) -> None:
        self.place, self.folder = place, Path(place.folder)
        place.environment.update({"AIOCG_CACHE": str(cache), "LC_ALL": "C"})
        (self.folder / "sub").mkdir()
        for name, text in SOURCES.items():
            (self.folder / name).write_text(text)

    def with_make(self, variable: str = "CFLAGS") -> "Project":
        """Write makefiles whose options are in a variable."""
        (self.folder / "Makefile").write_text(MAKEFILE.replace("{variable}", variable))
        (self.folder / "sub" / "Makefile").write_text(SUBMAKE.replace("{variable}", variable))
        return self

    def command(self, *words: str) -> list[str]:
        """Return the words that tune."""
        return [sys.executable, "-P", "-m", "aiocg.cli", "tune", *words]

    def tune(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Tune, and leave nothing behind."""
        done: subprocess.CompletedProcess[str] = self.place.run(*self.command(*words))
        assert self.place.leftovers() == []
        assert self.place.processes() == []
        return done

    def report(self, *words: str) -> dict[str, Any]:
        """Tune, and return the report."""
        done = self.tune("--json", *words)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    @property
    def files(self) -> set[str]:
        """The names of all files."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cache(new_cache: Callable[[], Path]) -> Path:
    """What is cached for all tests: a compiler is asked for its options once."""
    return new_cache()


@pytest.fixture
def project(place: Any, cache: Path) -> Project:
    return Project(place, cache)


@pytest.mark.parametrize("variable", ["CFLAGS", "OPTIMISATION_FLAGS", "O"])
def test_a_makefile_builds_what_was_promised_with_the_file_of_flags_alone(project: Project, variable: str) -> None:
    project.with_make(variable)
    before = project.files
    report = project.report("--budget", "2", "--check", "make test", "--html", "page.html", "--", "make")
    assert project.files == {*before, "aiocg-tune.json", "aiocg.mk", "page.html"}
    assert report["best"]["size"] < report["own"]["size"]
    assert report["best"]["size"] <= min(report["rivals"].values())
    assert report["verified"].startswith("verified: a build with these flags alone comes out as promised, to the byte")
    assert project.tune("--verify").stdout.startswith("verified: a build with these flags alone comes out as promised")
    project.place.run("env", f"MAKEFILES={project.folder}/aiocg.mk", "make")
    assert project.place.run("./app").stdout == EXPECTED
    assert project.place.run("sha256sum", "app").stdout.split()[0] == report["images"][0]["app"]


@pytest.mark.parametrize("name", ["my app", "a$b", "a#b", "a:b"])
def test_a_folder_whose_path_make_misreads_gets_flags_that_it_finds(project: Project, name: str) -> None:
    folder = project.folder / name
    folder.mkdir()
    (folder / "main.c").write_text("int sum(int);\nint main(void) { return sum(4) != 14; }\n")
    (folder / "sum.c").write_text("int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }\n")
    (folder / "Makefile").write_text("CFLAGS = -O3\napp: main.o sum.o\n\t$(CC) $(LDFLAGS) -o app main.o sum.o\n")
    here = ("env", "-C", str(folder))
    done = project.place.run(*here, *project.command("--json", "--budget", "2", "--check", "./app", "--", "make"))
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["best"]["size"] < report["own"]["size"]
    assert report["verified"].startswith("verified: a build with these flags alone comes out as promised, to the byte")
    (folder / "app").unlink(missing_ok=True)
    project.place.run(*here, "MAKEFILES=aiocg.mk", "make")
    assert project.place.run(*here, "sha256sum", "app").stdout.split()[0] == report["images"][0]["app"]


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_cmake_builds_what_was_promised(project: Project, generator: str) -> None:
    if shutil.which("cmake") is None or (generator == "Ninja" and shutil.which("ninja") is None):
        pytest.skip("there is no cmake, or no ninja")
    (project.folder / "CMakeLists.txt").write_text(CMAKE)
    (project.folder / "sub/CMakeLists.txt").write_text("add_library(sub STATIC sum.c product.c large.c)\n")
    build = f"cmake -G '{generator}' -S . -B build && cmake --build build"
    report = project.report("--budget", "2", "--check", "test \"`build/app`\" = '15 24 22'", "--", "sh", "-c", build)
    assert report["answer"]["kind"] == "cmake"
    assert report["best"]["size"] < report["own"]["size"]
    assert report["verified"].startswith("verified: a build with these flags alone comes out as promised, to the byte")
    assert project.place.run("sh", "-c", report["answer"]["use"]).returncode == 0
    assert project.place.run("sha256sum", "build/app").stdout.split()[0] == report["images"][0]["build/app"]


def test_meson_builds_what_was_promised(project: Project) -> None:
    if shutil.which("meson") is None or shutil.which("ninja") is None:
        pytest.skip("there is no meson, or no ninja")
    (project.folder / "meson.build").write_text(MESON)
    build = "(test -d build || meson setup build) && ninja -C build"
    report = project.report("--budget", "2", "--", "sh", "-c", build)
    assert report["answer"]["kind"] == "meson"
    assert set(report["choice"]) <= {"", "<link>"}
    assert report["best"]["size"] < report["own"]["size"]
    assert report["verified"].startswith("verified: a build with these flags alone comes out as promised")
    assert project.place.run("sh", "-c", report["answer"]["use"]).returncode == 0
    assert project.place.run("build/app").stdout == EXPECTED


def test_an_option_that_breaks_the_program_is_left_out(project: Project) -> None:
    project.with_make()
    (project.folder / "sub/sum.c").write_text(
        "#ifndef SMALL\nstatic const char table[4000] = {1, 2, 3};\n#else\nstatic const char table[4] = {9};\n#endif\n"
        "int sum(int n) { return 15 + (table[n % 3] > 5); }\n"
    )
    report = project.report("--budget", "2", "--allow=-DSMALL", "--check", "make test", "--", "make")
    assert "-DSMALL" not in json.dumps(report["choice"])
    assert report["best"]["size"] < report["own"]["size"]
    assert report["checked"] == "make test"


def test_a_command_is_the_cost_within_a_bound(project: Project) -> None:
    project.with_make()
    cost = "s=`stat -c %s main.o`; t=`stat -c %s sub/large.o`; echo '{\"main\": '$s', \"large\": '$t'}'"
    report = project.report("--budget", "2", "--cost", cost, "--at-most", "large=+0%", "--", "make")
    assert report["best"]["main"] < report["own"]["main"]
    assert report["best"]["large"] <= report["own"]["large"]
    assert report["noise"] == 0


def test_a_bound_that_nothing_keeps_is_said(project: Project) -> None:
    done = project.with_make().tune("--budget", "2", "--at-most", "file=10", "--", "make")
    assert done.returncode == 1
    assert "NOT within --at-most file=10" in done.stdout


def test_without_an_image_the_cost_is_compared(project: Project) -> None:
    (project.folder / "flags.toml").write_text('options = ["-n 1", "-n 2"]\n')
    build = "seq 1 9 | head {flags} > lines"
    words = ("--space", "flags.toml", "--budget", "2", "--cost", "wc -c < lines", "--", "sh", "-c", build)
    report = project.report(*words)
    assert report["best"]["cost"] == 2
    assert report["verified"].startswith("verified: a build with these flags alone costs what was promised")


def test_variants_get_the_same_flags(project: Project) -> None:
    project.with_make("BOARD_FLAGS")
    for name in ("Makefile", "sub/Makefile"):
        path = project.folder / name
        path.write_text(path.read_text().replace("BOARD_FLAGS = -O2", "BOARD_FLAGS = -O2 -DBOARD=$(BOARD)"))
    variants = [word for board in ("1", "2") for word in ("--variant", f"BOARD={board}")]
    report = project.report("--budget", "2", *variants, "--over", "worst", "--", "make")
    assert report["variants"] == ["BOARD=1", "BOARD=2"]
    assert report["best"]["size"] < report["own"]["size"]
    assert report["verified"].startswith("verified")


def test_a_space_of_the_users_own_stands_in_the_command(project: Project) -> None:
    project.with_make()
    (project.folder / "flags.toml").write_text('options = ["-Os", "-O1 -fno-inline", "-bad"]\n')
    build = "make clean && make CFLAGS='{flags}'"
    report = project.report("--space", "flags.toml", "--budget", "2", "--", "sh", "-c", build)
    assert report["best"]["size"] < report["own"]["size"]
    assert "-bad" not in report["choice"][""]
    assert report["verified"].startswith("verified")


def test_an_interrupted_search_gives_the_best_so_far_and_goes_on(project: Project) -> None:
    project.with_make()
    words = project.command("--json", "--budget", "600", "--", "make")
    environment, folder = project.place.environment, project.folder
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "best so far" in line:
                break
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "(interrupted): the best so far is taken" in errors
    report = json.loads(output.splitlines()[-1])
    assert report["best"]["size"] < report["own"]["size"]
    assert project.place.processes() == []
    again = project.report("--resume", "--budget", "2", "--", "make")
    assert again["best"]["size"] <= report["best"]["size"]


def test_a_verification_that_is_interrupted_leaves_what_was_found(project: Project) -> None:
    project.with_make()
    words = project.command("--json", "--budget", "2", "--", "sh", "-c", "make && sleep 5")
    environment, folder = project.place.environment, project.folder
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(600):
            copies = [path for path in project.place.temporary.rglob("copy-0/aiocg.mk") if path.stat().st_size]
            if copies:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    report = json.loads(output.splitlines()[-1])
    assert report["verified"] == "NOT verified: it was interrupted"
    assert report["best"]["size"] < report["own"]["size"]
    assert not (project.folder / "aiocg.mk").exists()


def test_a_killed_search_goes_on(project: Project) -> None:
    project.with_make()
    environment, folder = project.place.environment, project.folder
    with subprocess.Popen(
        project.command("--budget", "600", "--", "make"), cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "best so far" in line:
                break
        process.kill()
    time.sleep(0.5)
    report = project.report("--resume", "--budget", "2", "--", "make")
    assert report["best"]["size"] < report["own"]["size"]
    assert project.place.leftovers() == []


def test_what_is_known_of_other_sources_is_forgotten(project: Project) -> None:
    project.with_make()
    first = project.report("--budget", "2", "--", "make")
    (project.folder / "sub/sum.c").write_text("int sum(int n) { return n * 3; }\n")
    again = project.report("--resume", "--budget", "2", "--", "make")
    assert again["own"]["size"] != first["own"]["size"]
    assert again["evaluations"] > 1


def test_an_image_for_which_memory_is_too_small_is_made_to_fit(project: Project) -> None:
    for name in ("main.c", "sub/sum.c"):
        (project.folder / name).unlink()
    for name in ("sub/large.c", "sub/product.c"):
        shutil.move(project.folder / name, project.folder)
    (project.folder / "small.ld").write_text(
        "MEMORY { flash (rx) : ORIGIN = 0x10000, LENGTH = 2900 }\n"
        "SECTIONS { .text : { *(.text*) *(.rodata*) *(.eh_frame*) } > flash }\n"
    )
    (project.folder / "Makefile").write_text(
        "CFLAGS = -O3\napp: large.o product.o\n"
        "\tcc -nostdlib -static -Wl,--build-id=none,-e,large,-T,small.ld $(LDFLAGS) -o $@ $^\n"
    )
    report = project.report("--budget", "4", "--", "make")
    assert report["own"] == {}
    assert report["best"]["size"] <= 2900
    assert report["verified"].startswith("verified")
    project.place.run("env", f"MAKEFILES={project.folder}/aiocg.mk", "make")
    assert (project.folder / "app").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "false"], "the build failed"),
        (["--"], "say what to build"),
        (["--verify"], "aiocg-tune.json is no file of aiocg tune"),
        (["--at-most", "size", "--", "make"], "is no bound"),
        (["--at-most", "speed=+1%", "--", "make"], "the cost has no speed, only size"),
        (["--cost", "echo none", "--", "make"], "should print a number"),
        (["--cost", "exit 4", "--", "make"], "ended with 4"),
        (["--cost", "szie", "--", "make"], "unknown cost 'szie'; did you mean size"),
        (
            ["--check", "echo no board; false", "--", "make"],
            "with what the build itself makes: `echo no board; false` ended",
        ),
        (["--only", "*.elf", "--", "make"], "none of the images is named like '*.elf': app"),
        (["--variant", "x", "--", "make"], "should be variables"),
        (["--space", "fortran", "--", "make"], "none of auto, rustc, binaryen"),
        (["--space", "none.toml", "--", "make"], "is no space of options"),
        (["--space", "binaryen", "--", "make"], "should have {passes}"),
        (["--lock", "no/where.json", "--", "make"], "there is no directory"),
    ],
)
def test_what_cannot_be_done_is_said(project: Project, words: list[str], message: str) -> None:
    done = project.with_make().tune(*words)
    assert done.returncode in (1, 2)
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_check_that_builds_by_itself_counts_only_in_a_build_with_the_flags(project: Project) -> None:
    project.with_make()
    report = project.report("--budget", "2", "--check", "make clean && make test", "--", "make")
    assert report["verified"].startswith("verified")
    assert report["checked"] == "make clean && make test"


def test_links_without_a_variable_get_their_options_elsewhere_or_none(project: Project) -> None:
    project.with_make()
    path = project.folder / "Makefile"
    path.write_text(path.read_text().replace("cc $(CFLAGS) $(LDFLAGS) -o $@", "cc -o $@"))
    report = project.report("--budget", "2", "--", "make")
    assert report["verified"].startswith("verified")
    assert "<link>" not in report["choice"]
    assert report["best"]["size"] < report["own"]["size"]


def test_an_answer_that_the_makefile_includes_is_no_part_of_the_next_search(project: Project) -> None:
    project.with_make()
    path = project.folder / "Makefile"
    first = project.report("--budget", "2", "--", "make")
    path.write_text(path.read_text() + "-include aiocg.mk\n")
    again = project.report("--budget", "2", "--", "make")
    assert again["own"] == first["own"]
    assert again["verified"].startswith("verified")


def test_a_cost_that_drifts_is_not_believed(project: Project) -> None:
    project.with_make()
    (project.folder / "cost.sh").write_text(
        'n=`cat "$COUNT" 2>/dev/null || echo 0`; echo $((n + 1)) > "$COUNT"; echo $((1000 - (n > 3) * (n % 23)))\n'
    )
    project.place.environment["COUNT"] = str(project.folder.parent / "count")
    report = project.report("--budget", "2", "--cost", "sh cost.sh", "--", "make")
    assert report["choice"] == {}


@pytest.fixture
def counting(project: Project) -> Project:
    """A project with `count.sh`, which sets `n` to how often it was read before."""
    (project.folder / "count.sh").write_text('n=`cat "$COUNT" 2>/dev/null || echo 0`; echo $((n + 1)) > "$COUNT"\n')
    project.place.environment["COUNT"] = f"{project.folder}-count"
    return project.with_make()


def test_a_cost_that_fails_sometimes_ends_no_search(counting: Project) -> None:
    cost = ". ./count.sh; [ $((n % 5)) != 4 ] && echo $((1000 + n % 3))"
    assert counting.report("--budget", "2", "--cost", cost, "--", "make")["choice"] == {}


def test_a_cost_that_fails_the_second_time_is_refused(counting: Project) -> None:
    done = counting.tune("--cost", ". ./count.sh; [ $n = 0 ] && echo 7", "--", "make")
    assert done.returncode == 1
    assert "the cost of the build's own images cannot be measured each time" in " ".join(done.stderr.split())


def test_a_check_that_fails_with_whatever_was_found_says_so(counting: Project) -> None:
    check = ". ./count.sh; [ $n = 0 ] || { echo no luck; exit 1; }"
    report = counting.report("--budget", "2", "--check", check, "--", "make")
    assert report["choice"] == {}
    assert any("no luck" in note for note in report["notes"])


@pytest.mark.parametrize("change", ["strip app", ": > app", "rm app"])
def test_images_that_a_cost_changes_are_made_anew(project: Project, change: str) -> None:
    cost = f"s=`stat -c %s app`; {change}; echo $s"
    report = project.with_make().report("--budget", "2", "--cost", cost, "--", "make")
    assert report["noise"] == 0
    assert report["best"]["cost"] < report["own"]["cost"]
    assert report["verified"].startswith("verified: a build with these flags alone comes out as promised, to the byte")


def test_what_has_no_place_in_a_build_is_no_answer_to_paste(project: Project) -> None:
    (project.folder / "build.sh").write_text("cc -O2 -c main.c sub/*.c && cc -o app *.o\n")
    done = project.tune("--budget", "2", "--", "sh", "build.sh")
    assert done.returncode == 1
    assert "NOT verified: nothing of make, CMake or Meson was found" in done.stdout
    assert "the same without aiocg" not in done.stdout


def test_a_build_that_was_configured_before_says_what_to_do(project: Project) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    (project.folder / "CMakeLists.txt").write_text(CMAKE)
    (project.folder / "sub/CMakeLists.txt").write_text("add_library(sub STATIC sum.c product.c large.c)\n")
    project.place.run("cmake", "-S", ".", "-B", "build")
    done = project.tune("--", "cmake", "--build", "build")
    assert done.returncode == 1
    assert "configure anew within the build" in " ".join(done.stderr.split())
