"""`aiocg shrink` on real builds with real compilers."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiocg.shrink.image import read_image
from aiocg.transport.elf import exported_definitions

pytestmark = pytest.mark.needs("libc", "make", "cc")

MAIN = """
#include <stdio.h>
#include <stdlib.h>
int half(int), sum(int), wrong(void);
static int twice(int x) { return 2 * x; }
int never(int x) { return x * sum(x) + 7; }
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 10;
  printf("%d %d %d%s\\n", half(n), twice(n), sum(n), wrong() ? " wrong" : "");
  return 0;
}
"""
PART = """
int half(int x) { return x / 2; }
int sum(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i % 3 == 0) s += i * i; else s -= half(i); } return s; }
int unused(int x) { int s = 1; while (x-- > 0) s *= x % 7 + half(s); return s; }
"""
ORDERED = """
static int n;
static int next(void) { return ++n; }
static int less(int a, int b) { return a < b; }
int wrong(void) { n = 0; return less(next(), next()); }
"""  # 0 where the last argument is evaluated first, which is GCC's order and not clang's
MAKEFILE = """
CC = cc
CFLAGS = -O2
app: main.o sized.o libpart.a
\t$(CC) $(CFLAGS) -o $@ main.o sized.o -L. -lpart
libpart.a: part.o
\tar rcs $@ part.o
test: app
\ttest "`./app 9`" = "4 18 33"
clean:
\trm -f *.o *.a app
"""


class Project:
    """A project in a folder of its own, built by `make`."""

    def __init__(self, place: Any, cache: Path) -> None:
        self.place, self.folder = place, Path(place.folder)
        place.environment.update({"AIOCG_CACHE": str(cache), "LC_ALL": "C"})
        for name, text in {"main.c": MAIN, "part.c": PART, "sized.c": "int wrong(void) { return 0; }\n"}.items():
            (self.folder / name).write_text(text)
        (self.folder / "Makefile").write_text(MAKEFILE)

    @property
    def app(self) -> bytes:
        """The program."""
        return (self.folder / "app").read_bytes()

    def make(self, *words: str) -> None:
        """Build without shrinking."""
        self.place.run("make", *words)

    def output(self, *words: str) -> str:
        """Return what the program says."""
        done: subprocess.CompletedProcess[str] = self.place.run("./app", *words)
        return done.stdout

    def command(self, *words: str) -> list[str]:
        """Return the words that shrink."""
        return [sys.executable, "-P", "-m", "aiocg.cli", "shrink", *words]

    def shrink(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Shrink, and leave nothing behind."""
        done: subprocess.CompletedProcess[str] = self.place.run(*self.command(*words))
        assert self.place.leftovers() == [] and self.place.processes() == []
        return done

    def report(self, *words: str) -> dict[str, Any]:
        """Shrink, and return the report."""
        done = self.shrink("--json", *words)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def cache(new_cache: Callable[[], Path]) -> Path:
    return new_cache()


@pytest.fixture
def project(place: Any, cache: Path) -> Project:
    return Project(place, cache)


class Shrunk(NamedTuple):
    """A project that was shrunk once for several tests.

    Attributes:
        project: as it is now, not to be changed.
        said: by its program before.
        before: its files as the build itself makes them.
        image: what the report says of the program.
    """

    project: Project
    said: str
    before: dict[str, bytes]
    image: dict[str, Any]


@pytest.fixture(scope="module")
def shrunk(shared_place: Any, cache: Path) -> Shrunk:
    project = Project(shared_place, cache)
    project.make()
    said, before = project.output("12"), {path.name: path.read_bytes() for path in project.folder.iterdir()}
    project.make("clean")
    (image,) = project.report("--budget", "0.3", "--html", "page.html", "--check", "make test", "--", "make")["images"]
    return Shrunk(project, said, before, image)


@pytest.fixture
def again(shrunk: Shrunk, project: Project) -> Project:
    """A clean copy of the project that was shrunk, with its lock file."""
    shutil.copytree(shrunk.project.folder, project.folder, dirs_exist_ok=True)
    project.make("clean")
    return project


@pytest.mark.slow
def test_a_build_gets_smaller_and_does_the_same_and_nothing_else_changes(shrunk: Shrunk) -> None:
    project, said, before, image = shrunk
    after = {path.name: path.read_bytes() for path in project.folder.iterdir()}
    assert project.output("12") == said
    assert image["after"] == read_image(project.app).bytes < image["before"] == read_image(before["app"]).bytes
    assert image["after"] == min(size["bytes"] for size in image["sizes"].values())
    assert image["sizes"].keys() > {"own", "-Os", "-Oz", "-Oz -flto", "-Oz -flto tuned"}
    assert image["sizes"].keys() & {"found", "gcc found"}
    assert all(after[name] == before[name] for name in before if name not in ("app", "libpart.a"))  # which has times
    assert after.keys() - before.keys() == {"aiocg.lock", "page.html"}
    gone = {one["name"] for one in image["symbols"] if not one["after"]}
    assert {"unused", "never"} <= gone
    assert "never" in after["page.html"].decode()


@pytest.mark.slow
def test_a_locked_build_is_the_same_to_the_byte_without_a_search(shrunk: Shrunk, again: Project) -> None:
    lock = (again.folder / "aiocg.lock").read_bytes()
    done = again.shrink("--locked", "--", "make")
    assert again.app == shrunk.project.app and (again.folder / "aiocg.lock").read_bytes() == lock
    assert "searching" not in done.stderr


@pytest.mark.slow
def test_so_is_one_whose_link_compiles_the_sources(project: Project) -> None:
    build = ("--", "sh", "-c", "gcc -O2 main.c part.c sized.c -o app")
    project.report("--budget", "0.2", *build)
    shrunk = project.app
    (project.folder / "app").unlink()
    done = project.shrink("--locked", *build)
    assert done.returncode == 0 and project.app == shrunk, done.stderr


@pytest.mark.slow
def test_a_stale_entry_is_built_by_the_core_set_and_the_lock_stays(again: Project) -> None:
    lock = (again.folder / "aiocg.lock").read_bytes()
    (again.folder / "part.c").write_text(PART.replace("i % 3", "i % 5"))
    done = again.shrink("--locked", "--", "make")
    assert done.returncode == 0 and "the program has changed" in done.stdout
    assert again.output("9") == "4 18 11\n"
    assert (again.folder / "aiocg.lock").read_bytes() == lock


@pytest.mark.slow
def test_a_build_that_fails_is_told_with_its_status(project: Project) -> None:
    done = project.shrink("--", "sh", "-c", "exit 3")
    assert done.returncode == 3 and "ended with 3" in done.stderr
    assert not (project.folder / "aiocg.lock").exists()


@pytest.mark.slow
def test_what_the_build_strips_is_left_alone(project: Project) -> None:
    report = project.report("--", "sh", "-c", "make && strip app")
    assert report["images"] == [] and "strip" in report["left_alone"]["app"]


@pytest.mark.slow
def test_a_build_that_has_nothing_to_do_says_so(project: Project) -> None:
    project.make()
    done = project.shrink("--", "make")
    assert done.returncode == 1 and "clean the project first" in done.stderr
    assert not (project.folder / "aiocg.lock").exists()


@pytest.mark.slow
def test_a_check_that_fails_anyway_is_named_and_nothing_is_searched_or_locked(project: Project) -> None:
    project.make()
    own = project.app
    project.make("clean")
    done = project.shrink("--check", "false", "--", "make")
    assert done.returncode == 1 and "the check `false` fails with what the build itself has made" in done.stderr
    assert project.app == own and not (project.folder / "aiocg.lock").exists()


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_unit_that_the_check_fails_with_stays_and_the_rest_gets_smaller(project: Project) -> None:
    (project.folder / "sized.c").write_text(ORDERED)
    build = ("--", "make", "CC=gcc")
    (image,) = project.report("--budget", "0.3", "--check", "make CC=gcc test", *build)["images"]
    assert project.output("9") == "4 18 33\n"
    assert image["after"] < image["before"] and any("sized.c" in note for note in image["notes"])
    shrunk = project.app
    project.make("clean")
    project.report("--locked", *build)
    assert project.app == shrunk


@pytest.mark.slow
def test_a_command_says_what_counts_and_a_benchmark_what_is_fast_enough(project: Project) -> None:
    project.make()
    slower = f"test `wc -c < app` -ge {len(project.app)} || while [ $((n += 1)) -lt 100000 ]; do :; done"
    project.make("clean")
    measures = ["--measure", "wc -c < $IMAGE", "--bench", slower, "--max-slowdown", "900%", "--badge", "size.svg"]
    (image,) = project.report("--budget", "0.3", *measures, "--", "make")["images"]
    assert image["after"] == len(project.app) <= image["before"]
    assert any("the benchmark takes" in note for note in image["notes"]) and image["chosen"] == "own"
    assert f"{len(project.app):,} B" in (project.folder / "size.svg").read_text()


@pytest.mark.slow
def test_a_share_that_is_none_is_refused_before_the_build(project: Project) -> None:
    done = project.shrink("--bench", "true", "--max-slowdown", "some", "--", "touch", "built")
    assert done.returncode == 2 and "such as 5%" in done.stderr and not (project.folder / "built").exists()


NESTED = """
#include <stdio.h>
int sum(int);
static int each(int (*f)(int), int n) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }
int (*volatile apply)(int (*)(int), int) = each;
int main(int argc, char **argv) {
  int k = argc + 2;
  int more(int x) { return x + k; }
  printf("%d %d\\n", apply(more, 10), sum(argc + 9));
  return 0;
}
"""


@pytest.mark.every_case
@pytest.mark.slow
def test_program_with_gccs_nested_functions_gets_smaller(project: Project) -> None:
    (project.folder / "main.c").write_text(NESTED)
    if b"clang" in subprocess.run(["cc", "--version"], capture_output=True, check=True).stdout:
        pytest.skip("nested functions are GCC's")
    project.make()
    said = project.output()
    project.make("clean")
    (image,) = project.report("--budget", "0.2", "--", "make")["images"]
    assert image["after"] < image["before"]
    assert project.output() == said


@pytest.mark.slow
def test_copies_that_the_build_made_before_are_named(
    project: Project,
) -> None:
    install = "install: app\n\tmkdir -p out/bin\n\tinstall app out/bin/app\n\tinstall -s app out/bin/stripped\n"
    (project.folder / "Makefile").write_text(MAKEFILE + install)
    (project.folder / "other").write_bytes(b"\x7fELF" + bytes(20_000))
    (image,) = project.report("--budget", "0.2", "--", "make", "install", "CFLAGS=-O2 -fno-tree-vrp -fipa-pta")[
        "images"
    ]
    assert image["after"] < image["before"]
    words = " is a copy that the build made before, and stays as it is"
    found = {note.removesuffix(words) for note in image["notes"] if note.endswith(words)}
    assert found == {"out/bin/app", "out/bin/stripped"}


@pytest.mark.slow
def test_ctrl_c_in_the_search_leaves_what_the_build_has_made(project: Project) -> None:
    project.make()
    own = project.app
    project.make("clean")
    place = project.place
    line = project.command("--budget", "100", "--", "make")
    with subprocess.Popen(line, cwd=place.folder, env=place.environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("searching" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130 and "stands" in rest
    assert project.app == own and place.leftovers() == []


@pytest.mark.slow
def test_a_shared_library_keeps_what_others_may_call(project: Project) -> None:
    makefile = "lib.so: part.c\n\tcc -O3 -fPIC -shared -o lib.so part.c\n"
    (project.folder / "Makefile").write_text(makefile)
    squares = "int squares(const int *x, int n) { int s = 0; while (n-- > 0) s += x[n] * x[n]; return s; }\n"
    (project.folder / "part.c").write_text(PART + squares)  # -O3 writes vectors
    (image,) = project.report("--budget", "0.3", "--", "make")["images"]
    assert image["after"] < image["before"] and {"half", "sum", "unused"} <= {
        one["name"] for one in image["symbols"] if one["after"]
    }


@pytest.mark.slow
@pytest.mark.needs("g++")
def test_libraries_share_a_variable_of_an_inline_function_after_as_before(project: Project) -> None:
    (project.folder / "Makefile").write_text("all: one.so two.so\n%.so: %.cc\n\tg++ -O2 -fPIC -shared -o $@ $<\n")
    shared = "inline int &shared() { static int count; return count; }\n"
    for name in ("one", "two"):
        (project.folder / f"{name}.cc").write_text(f'{shared}extern "C" int {name}() {{ return ++shared(); }}\n')
    images = project.report("--budget", "0.3", "--", "make")["images"]
    assert all(image["after"] < image["before"] for image in images)
    script = "import ctypes; print(*(getattr(ctypes.CDLL(f'./{name}.so'), name)() for name in ('one', 'two')))"
    assert subprocess.check_output([sys.executable, "-c", script], cwd=project.folder, text=True) == "1 2\n"


@pytest.mark.slow
def test_a_unit_that_clang_does_not_compile_stays(project: Project) -> None:
    nested = "int wrong(void) { int x = 1; int inner(void) { return x - 1; } return inner(); }\n"  # GCC's alone
    (project.folder / "sized.c").write_text(nested)
    if project.place.run("cc", "-c", "sized.c").returncode:
        pytest.skip("needs GCC as cc")
    (project.folder / "sized.o").unlink()
    (image,) = project.report("--budget", "0.3", "--check", "make test", "--", "make")["images"]
    assert image["after"] < image["before"] and any("sized.c stays" in note for note in image["notes"])


@pytest.mark.slow
@pytest.mark.needs("gcc", "bwrap")
@pytest.mark.parametrize("runs", [True, pytest.param(False, marks=pytest.mark.every_case)])
def test_a_program_that_does_something_else_without_arguments_keeps_the_unit_that_is_to_blame(
    project: Project, runs: bool
) -> None:
    (project.folder / "sized.c").write_text(ORDERED)
    options = [] if runs else ["--no-run"]
    (image,) = project.report("--budget", "0.2", *options, "--", "make", "CC=gcc")["images"]
    assert project.output("9") == ("4 18 33\n" if runs else "4 18 33 wrong\n")
    assert any("the smoke test fails with sized.c" in note for note in image["notes"]) == runs


@pytest.mark.slow
def test_what_the_lock_file_decides_is_named(again: Project) -> None:
    done = again.shrink("--", "make")
    assert "as the lock file says (--update searches again)" in done.stdout and "searching" not in done.stderr


@pytest.mark.slow
@pytest.mark.needs("cmake")
def test_a_compiler_that_is_called_by_its_path_is_an_error_with_what_to_do(project: Project) -> None:
    text = "cmake_minimum_required(VERSION 3.10)\nproject(app C)\nadd_executable(app main.c part.c sized.c)\n"
    (project.folder / "CMakeLists.txt").write_text(text)
    assert project.place.run("cmake", "-S", ".", "-B", "build").returncode == 0
    done = project.shrink("--", "cmake", "--build", "build")
    assert done.returncode == 1 and "aiocg shrink --toolchain cmake" in done.stderr


@pytest.mark.slow
def test_a_link_to_a_device_and_a_pattern_that_matches_nothing_are_told(project: Project) -> None:
    done = project.shrink("--", "sh", "-c", "cc -o /dev/null main.c part.c sized.c")
    assert done.returncode == 1 and "has linked no program" in done.stderr
    done = project.shrink("--only", "x*", "--", "make")
    assert done.returncode == 1 and "matches --only x*" in done.stderr and "app" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_locked_build_of_a_program_with_a_library_of_its_own_is_the_same(project: Project) -> None:
    project.folder.joinpath("Makefile").write_text(
        "app: main.o sized.o libpart.so\n\tgcc -O2 -o $@ main.o sized.o -L. -lpart -Wl,-rpath,'$$ORIGIN'\n"
        "libpart.so: part.c\n\tgcc -O2 -fPIC -c part.c\n\tgcc -shared -o $@ part.o\n"
        "%.o: %.c\n\tgcc -O2 -c $<\nclean:\n\trm -f *.o *.so app\n"
    )
    project.report("--budget", "0.2", "--", "make")
    shrunk = {name: (project.folder / name).read_bytes() for name in ("app", "libpart.so")}
    said = project.output("9")
    project.make("clean")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and project.output("9") == said == "4 18 33\n"
    assert {name: (project.folder / name).read_bytes() for name in shrunk} == shrunk


def build_rules(project: Project, *, more: str = "") -> None:
    """Let the build write rules for `make`, as those of Automake and CMake do, and make something more."""
    project.folder.joinpath("Makefile").write_text(
        f"all: app{more and ' more'}\nclean:\n\trm -f *.o *.d app more\n"
        "app: main.o sized.o part.o\n\tgcc -O2 -o $@ $^\n"
        f"%.o: %.c\n\tgcc -O2 -MMD -MP -c -o $@ $<\n{more}"
    )


def is_bitcode(project: Project, name: str) -> bool:
    """Say whether a file of a project is bitcode."""
    return (project.folder / name).read_bytes().startswith(b"BC")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_locked_build_compiles_once_also_what_clang_would_read_otherwise(project: Project) -> None:
    build_rules(project)
    (project.folder / "sized.h").write_text("int wrong(void);\n")
    (project.folder / "sized.c").write_text(
        '#include "sized.h"\n#if __GNUC__ > 4\nint wrong(void) { return 0; }\n'
        "#else\nint wrong(void) { return 1; }\n#endif\n"
    )
    project.make()
    rules = (project.folder / "sized.d").read_text()
    project.make("clean")
    project.report("--budget", "0.2", "--", "make")
    shrunk = project.app
    project.make("clean")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and done.stdout.endswith("as the lock file says\n"), done.stderr
    assert project.app == shrunk and project.output("9") == "4 18 33\n"
    assert is_bitcode(project, "sized.o")
    assert (project.folder / "sized.d").read_text() == rules


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_locked_build_leaves_what_stays_to_the_builds_compiler(project: Project) -> None:
    build_rules(project)
    stays = PART.replace("int half", '__attribute__((optimize("no-strict-aliasing"))) int half', 1)
    (project.folder / "part.c").write_text(stays)
    (image,) = project.report("--budget", "0.2", "--", "make")["images"]
    assert any("part.c stays" in note for note in image["notes"])
    shrunk = project.app
    project.make("clean")
    assert project.shrink("--locked", "--", "make").returncode == 0
    assert project.app == shrunk and project.output("9") == "4 18 33\n"
    assert not is_bitcode(project, "part.o")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_locked_build_of_what_names_the_time_of_its_compile_is_no_other_image(project: Project) -> None:
    build_rules(project)
    (project.folder / "part.c").write_text(f"{PART}const char *when(void) {{ return __TIME__; }}\n")
    named = MAIN.replace("wrong(void);", "wrong(void); const char *when(void);").replace(
        "return 0;", "return !*when();"
    )
    (project.folder / "main.c").write_text(named)
    (image,) = project.report("--budget", "0.2", "--", "make")["images"]
    assert any("part.c stays" in note and "names the time" in note for note in image["notes"])
    project.make("clean")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and done.stdout.endswith("as the lock file says\n")
    assert project.output("9") == "4 18 33\n"


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_locked_build_tells_the_objects_of_one_source_apart(project: Project) -> None:
    nested = "int more(int x) { int inner(int y) { return x + y; } return inner(x); }\n"
    (project.folder / "part.c").write_text(f"#ifdef NESTED\n{nested}#else\n{PART}#endif\n")
    text = "gcc -O2 -c main.c part.c sized.c && gcc -O2 -DNESTED -c -o nested.o part.c && gcc -o app *.o"
    project.report("--budget", "0.2", "--", "sh", "-c", text)
    shrunk = project.app
    project.make("clean")
    done = project.shrink("--locked", "--", "sh", "-c", text)
    assert done.returncode == 0 and project.app == shrunk and "of no use" not in done.stdout


@pytest.mark.slow
@pytest.mark.needs("gcc", "objdump", "ld")
@pytest.mark.parametrize(
    "reading", ["objdump -d part.o", "ld -r -o more.o part.o", "ar r libmore.a part.o && nm libmore.a"]
)
def test_a_locked_build_has_the_builds_objects_where_other_tools_read_them(project: Project, reading: str) -> None:
    build_rules(project, more=f"more: part.o\n\t{reading} | grep '<half>\\|T half' > more || touch more\n")
    project.report("--budget", "0.2", "--", "make")
    shrunk, read = project.app, (project.folder / "more").read_bytes()
    project.make("clean")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and project.app == shrunk and (project.folder / "more").read_bytes() == read
    assert not is_bitcode(project, "part.o")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_change_after_the_lock_is_proved_or_left_to_the_builds_compiler(project: Project) -> None:
    build_rules(project)
    project.report("--budget", "0.2", "--", "make")
    project.make("clean")
    (project.folder / "sized.c").write_text(
        "#ifdef __clang__\nint wrong(void) { return 1; }\n#else\nint wrong(void) { return 0; }\n#endif\n"
    )
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and "the program has changed" in done.stdout, done.stderr
    assert project.output("9") == "4 18 33\n"


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_the_lock_file_does_not_have_is_built_by_the_builds_compiler(project: Project) -> None:
    build_rules(project)
    project.report("--budget", "0.2", "--", "make")
    shrunk = project.app
    project.make("clean")
    (project.folder / "more.c").write_text("int half(int);\nint main(void) { return half(6); }\n")
    build_rules(project, more="more: more.o part.o\n\tgcc -o $@ $^\n")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 0 and project.app == shrunk, done.stderr
    assert subprocess.run([project.folder / "more"]).returncode == 3
    assert is_bitcode(project, "part.o") and not is_bitcode(project, "more.o")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_is_marked_used_stays_in_units_that_stay(project: Project) -> None:
    (project.folder / "sized.c").write_text(
        'static const char board[] __attribute__((used)) = "read from the file";\n'
        '__attribute__((optimize("no-strict-aliasing"))) int wrong(void) { return 0; }\n'
    )
    (image,) = project.report("--budget", "0.2", "--", "make")["images"]
    assert any("sized.c stays" in note for note in image["notes"]) and b"read from the file" in project.app


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_objects_of_an_earlier_locked_build_are_named(project: Project) -> None:
    build_rules(project)
    project.report("--budget", "0.2", "--", "make")
    project.make("clean")
    assert project.shrink("--locked", "--", "make").returncode == 0
    (project.folder / "sized.c").write_text("int wrong(void) { static volatile int no; return no; }\n")
    done = project.shrink("--locked", "--", "make")
    assert done.returncode == 2 and "main.o is bitcode of an earlier build: clean the project first" in done.stderr


UNIQUE = "template <int N> struct Held { static int value; };\ntemplate <int N> int Held<N>::value = N;\n"


@pytest.mark.slow
@pytest.mark.needs("gcc", "g++")
@pytest.mark.parametrize(
    "text",
    [
        "gcc -O2 -c main.c part.c sized.c && gcc -o app main.o part.o sized.o",
        "for one in main part sized; do gcc -O2 -fstack-usage -c $one.c; done && gcc -o app main.o part.o sized.o",
        f"echo '{UNIQUE}extern \"C\" int wrong() {{ return Held<0>::value; }}' > sized.cc && g++ -O2 -c sized.cc && "
        "gcc -O2 -c main.c && gcc -O2 -c part.c && g++ -rdynamic -o app main.o part.o sized.o",
        'touch board.bin && echo \'__asm__(".incbin \\"board.bin\\""); int wrong(void) { return 0; }\' > sized.c && '
        "for one in main part sized; do gcc -O2 -c $one.c; done && gcc -o app main.o part.o sized.o",
    ],
    ids=["several sources", "another output", "unique symbols", "included file"],
)
def test_a_locked_build_of_what_clang_would_compile_otherwise_is_the_same(project: Project, text: str) -> None:
    build = ("--", "sh", "-c", text)
    project.report("--budget", "0.2", *build)
    shrunk = project.app
    project.make("clean")
    assert project.shrink("--locked", *build).returncode == 0 and project.app == shrunk


@pytest.mark.slow
@pytest.mark.needs("gcc", "nm")
def test_a_library_that_exports_what_nm_finds_in_its_objects_is_locked(project: Project) -> None:
    project.folder.joinpath("Makefile").write_text(
        "libpart.so: part.c\n\tgcc -O2 -fPIC -c part.c\n"
        "\t(echo '{ global:'; nm part.o | sed -n 's/.* T \\(.*\\)/\\1;/p'; echo 'local: *; };') > part.map\n"
        "\tgcc -shared -o $@ part.o -Wl,--version-script=part.map\nclean:\n\trm -f *.o *.so *.map\n"
    )
    project.report("--budget", "0.2", "--", "make")
    shrunk = (project.folder / "libpart.so").read_bytes()
    assert exported_definitions(shrunk) >= {"half", "sum", "unused"}
    project.make("clean")
    assert project.shrink("--locked", "--", "make").returncode == 0
    assert (project.folder / "libpart.so").read_bytes() == shrunk


@pytest.mark.slow
def test_a_build_of_a_part_names_what_it_found_and_leaves_the_lock_file_alone(project: Project) -> None:
    project.report("--budget", "0.2", "--", "make")
    locked, shrunk = (project.folder / "aiocg.lock").read_bytes(), project.app
    (project.folder / "main.c").touch()
    (image,) = project.report("--budget", "0.2", "--", "make")["images"]
    assert any("not compiled by this build" in note and "sized.o" in note for note in image["notes"])
    assert (project.folder / "aiocg.lock").read_bytes() == locked
    project.make("clean")
    assert project.shrink("--locked", "--", "make").returncode == 0 and project.app == shrunk


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_lock_file_names_sources_by_their_paths_from_the_folder(project: Project) -> None:
    rules = "main.o: main.c\n\tgcc -O2 -c main.c\n%.o: %.c\n\tgcc -O2 -ftrapv -c -o $@ $(CURDIR)/$<\n"
    (project.folder / "Makefile").write_text(f"{MAKEFILE.replace('CC = cc', 'CC = gcc')}{rules}")
    project.report("--budget", "0.2", "--", "make")
    lock = json.loads((project.folder / "aiocg.lock").read_bytes())
    assert set(lock["images"]["app"]["kept"]) == {"part.c", "sized.c"}
