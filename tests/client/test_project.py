"""Projects: what is understood of builds, and what becomes of them. Without a C library and without a build."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from aiocg.build.objects import Symbols, archive_members, elf_symbols
from aiocg.cli._dataset import ProjectSource
from aiocg.cli._dataset import create as create_command
from aiocg.datasets import InstallError, default_datasets
from aiocg.datasets.own.installed import directory_of
from aiocg.datasets.toolchain import find_clang, find_toolchain
from aiocg.programs.project import Creation, Project, ProjectError, create, parse_run, read_runs
from aiocg.programs.project._targets import Part, closure, targets_by_symbols

pytestmark = pytest.mark.usefixtures("own_folders")


def database(folder: Path, *lines: str, directory: str = "") -> Path:
    """Write a compile_commands.json with a command line for each entry."""
    entries = [{"directory": str(folder / directory), "command": line, "file": line.split()[-1]} for line in lines]
    path = folder / "compile_commands.json"
    path.write_text(json.dumps(entries))
    return path


def from_database(folder: Path, *lines: str, **options: Any) -> Creation:
    return create("mine", Project.from_compile_commands(database(folder, *lines)), **options)


def paths(made: Creation) -> list[str]:
    return list(made.dataset.programs)


def problems(made: Creation) -> dict[str, str]:
    return {problem.subject: problem.reason for problem in made.problems}


# ------------------------------------------------------------------------------------- compilation databases


def test_units_keep_their_flags_and_targets_are_found_by_symbols(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "src/main.c": '#include "part.h"\nint main(void) { return part(); }\n',
            "src/part.c": '#include "part.h"\nint part(void) { return N; }\n',
            "src/other.c": "int other(void) { return 1; }\n",
            "include/part.h": "int part(void);\n",
        }
    )
    flags = "-O2 -g -Iinclude -DN=3 -Wall -MD -c"
    made = from_database(folder, *(f"gcc {flags} src/{name}.c -o {name}.o" for name in ("main", "part", "other")))
    assert paths(made) == ["main", "src/main.c", "src/other.c", "src/part.c"]
    assert made.problems == ()
    program = made.dataset.programs["main"]
    assert program.members == ("src/main.c", "src/part.c")
    unit = made.dataset.programs["src/part.c"]
    assert unit.flags == ("-O2", "-g", "-Iinclude", "-DN=3", "-Wall")
    assert sorted(unit.sources) == ["include/part.h", "src/part.c"]
    content = default_datasets().benchmark("mine/main").content
    assert content.startswith(b"BC\xc0\xde")
    assert str(folder).encode() not in content
    assert sorted(os.listdir(folder)) == ["compile_commands.json", "include", "src"]


def test_paths_with_spaces_relative_directories_and_arguments_as_lists(write: Callable[..., Path]) -> None:
    folder = write({"my src/a b.c": '#include "x y.h"\nint f(void) { return X; }\n', "inc dir/x y.h": "#define X 1\n"})
    (folder / "build").mkdir()
    entries = [
        {"directory": "build", "arguments": ["cc", "-I../inc dir", "-c", "../my src/a b.c"], "file": "../my src/a b.c"}
    ]
    (folder / "cc.json").write_text(json.dumps(entries))
    made = create("mine", Project.from_compile_commands(folder / "cc.json"))
    assert paths(made) == ["my src/a b.c"]
    assert str(next(made.dataset.benchmark_uris())) == "benchmark://mine/my%20src/a%20b.c"
    assert default_datasets().benchmark("mine/my src/a b.c").sources[0].filename == "my src/a b.c"


def test_one_source_with_several_flags_is_several_programs(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return N; }\n"})
    made = from_database(folder, "cc -DN=1 -c a.c -o 1.o", "cc -DN=2 -c a.c -o 2.o", "cc -DN=2 -DM -c a.c -o 3.o")
    assert paths(made) == ["a.c", "a.c~2"]
    flags = {path: program.flags for path, program in made.dataset.programs.items()}
    assert flags == {"a.c": ("-DN=1",), "a.c~2": ("-DN=2",)}


def test_response_files_and_launchers_are_looked_through(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return N; }\n", "flags.rsp": "-DN=7 -O1"})
    made = from_database(folder, "ccache gcc @flags.rsp -c a.c")
    assert made.dataset.programs["a.c"].flags == ("-DN=7", "-O1")


def test_what_only_other_compilers_know_and_what_instruments_is_left_out(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return g(); }\n"})
    made = from_database(folder, "gcc -O2 -flto=auto -fsanitize=address -fno-such-thing-in-clang -c a.c")
    assert "compiled without -fno-such-thing-in-clang" in problems(made)["a.c"]
    told = " ".join(problem.reason for problem in made.problems)
    assert "taken without -flto=auto" in told
    assert "taken without -fsanitize=address" in told
    assert b"asan" not in default_datasets().benchmark("mine/a.c").content


def test_what_does_not_compile_is_told_of_and_the_rest_is_there(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return 1; }\n", "b.c": '#include "missing.h"\n', "c.s": "nop\n"})
    made = from_database(folder, "cc -c a.c", "cc -c b.c", "cc -c gone.c", "cc -c c.s")
    assert paths(made) == ["a.c"]
    assert "missing.h' file not found" in problems(made)["b.c"]
    assert "no longer there" in problems(made)["gone.c"]
    assert problems(made)["c.s"] == "is neither C nor C++"


def test_nothing_that_compiles_is_an_error_and_leaves_nothing(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return undefined; }\n"})
    with pytest.raises(ProjectError, match=r"none of 1 files could be compiled: a\.c: a\.c:1:.*undeclared"):
        from_database(folder, "cc -c a.c")
    assert list(directory_of("").iterdir()) == []


BAD_DATABASES = {
    "nothing": "",
    "no list": "{}",
    "no command": '[{"file": "a.c"}]',
    "no object": "[1]",
    "half a quotation": '[{"command": "cc \'"}]',
    "arguments in one word": '[{"arguments": "cc -c a.c"}]',
    "no arguments": '[{"arguments": []}]',
    "a NUL": r'[{"arguments": ["cc", "-c", "a.c\u0000"]}]',
    "lists in lists without end": "[" * 100_000,
}


@pytest.mark.parametrize("text", BAD_DATABASES.values(), ids=BAD_DATABASES)
def test_bad_database_is_refused(text: str, write: Callable[..., Path]) -> None:
    folder = write({"cc.json": text})
    with pytest.raises(ProjectError, match=r"cc\.json"):
        Project.from_compile_commands(folder / "cc.json")
    with pytest.raises(ProjectError, match="cannot be read"):
        Project.from_compile_commands(folder / "none.json")


@pytest.mark.parametrize("option", ["link", "flags"])
def test_options_with_half_a_quotation_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = ProjectSource(sources=Path("."), flags="-lm 'x" if option == "flags" else "")
    with pytest.raises((SystemExit, typer.Exit)):
        create_command("mine", source, link="-lm 'x" if option == "link" else "")
    assert f"""--{option} "-lm 'x" cannot be taken apart""" in capsys.readouterr().err.replace("\n", " ")


def test_command_lines_that_make_no_sense_are_named_if_there_are_no_others(write: Callable[..., Path]) -> None:
    with pytest.raises(ProjectError, match=r"there are no programs in .*: cc -c a.c -o: .*-o"):
        from_database(write({"a.c": "int f(void) { return 1; }\n"}), "cc -c a.c -o")


@pytest.mark.slow
def test_targets_can_be_described_by_hand(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "main.c": "int f(void); int main(void) { return f(); }\n",
            "one.c": "int f(void) { return 1; }\n",
            "two.c": "int f(void) { return 2; }\n",
        }
    )
    lines = ("cc -c main.c", "cc -c one.c", "cc -c two.c")
    made = from_database(folder, *lines, targets={"second": ["main.c", "./two.c"]})
    assert made.dataset.programs["second"].members == ("main.c", "two.c")
    assert made.dataset.programs["main"].members == ("main.c", "one.c")
    with pytest.raises(ProjectError, match=r"is to have 'three\.c', which is none of main\.c, one\.c, two\.c"):
        from_database(folder, *lines, targets={"x": ["three.c"]}, replace=True)
    chosen = {"both": ["main.c", "one.c", "two.c"]}
    both = from_database(folder, *lines, targets=chosen, runs=[parse_run("both: ./both")], replace=True)
    assert "not joined" in problems(both)["both"]
    assert "both" not in both.dataset.programs


@pytest.mark.slow
def test_second_time_takes_what_was_compiled_from_the_cache(
    write: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write({f"{name}.c": f'#include "x.h"\nint {name}(void) {{ return X; }}\n' for name in ("a", "b")})
    (folder / "x.h").write_text("#define X 1\n")
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))
    log, clang = folder / "log", tmp_path_factory.mktemp("bin") / "clang"
    real = shlex.quote(str(find_toolchain().clang))
    clang.write_text(f'#!/bin/sh\ncase "$*" in *emit-llvm*) echo x >> {log};; esac\nexec {real} "$@"\n')
    clang.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(clang))

    def compilations(**options: Any) -> int:
        log.write_text("")
        from_database(folder, "cc -c a.c", "cc -c b.c", **options)
        return len(log.read_text().splitlines())

    assert compilations() == 2
    if compilations(replace=True):  # the files' times of change are newer than their times of modification say
        assert compilations(replace=True) == 0
    (folder / "x.h").write_text("#define X 2\n")
    assert compilations(replace=True) == 2
    with pytest.raises(InstallError, match="--replace"):
        compilations()


def test_probes_of_build_systems_are_left_out(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int f(void) { return 1; }\n"})
    scratch = "build/CMakeFiles/CMakeScratch/TryCompile-x1"
    entries = [
        ("cc -c -o x.o /usr/share/cmake/Modules/CMakeCCompilerABI.c", scratch),
        ("cc -v CMakeFiles/cmTC_1.dir/x.o -o cmTC_1", scratch),
        ("cc CMakeCCompilerId.c", "build/CMakeFiles/3.25.1/CompilerIdC"),
        ("cc -o conftest conftest.c", "."),
        ("cc -c meson-private/tmp1/testfile.c", "."),
        ("cc -c a.c", "."),
    ]
    lines = [{"arguments": line.split(), "directory": str(folder / place)} for line, place in entries]
    (folder / "build.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    project = Project.from_record(folder / "build.jsonl")
    assert [unit.source for unit in project.units] == [folder / "a.c"]
    assert (project.linkings, project.problems) == ((), ())


@pytest.mark.slow
def test_sources_and_bitcode_of_a_folder(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "in/main.cc": "int part(); int main() { return part(); }\n",
            "in/lib/part.cpp": "int part() { return N; }\n",
            "in/.git/x.c": "not C",
            "in/text.ll": "define i32 @f() {\n  ret i32 0\n}\n",
        }
    )
    made = create("mine", Project.from_sources(folder / "in", ["-DN=5"]))
    assert paths(made) == ["main", "lib/part.cpp", "main.cc"]
    assert made.dataset.programs["main"].language == "c++"
    (folder / "in/module.bc").write_bytes(default_datasets().benchmark("mine/main").content)
    (folder / "in/bad.bc").write_bytes(b"BC\xc0\xde and nothing more")
    other = create("bits", Project.from_bitcode(folder / "in"))
    assert paths(other) == ["module", "module.bc", "text.ll"]
    assert list(problems(other)) == ["bad.bc"]
    with pytest.raises(ProjectError, match="no folder"):
        Project.from_sources(folder / "none")
    with pytest.raises(ProjectError, match="there are no programs"):
        create("none", Project.from_bitcode(folder / "in/lib"))


def test_old_c_is_compiled_as_other_compilers_do(write: Callable[..., Path]) -> None:
    folder = write({"old.c": "f(x) { return g(x); }\nint *p(void) { return 1; }\n"})
    assert paths(from_database(folder, "gcc -std=gnu89 -Werror -c old.c")) == ["old.c"]


# What CMake 3.25 wrote for a library of C and a program of C++ that uses it, with {folder} for where they were.
CMAKE = {
    "build/compile_commands.json": """[
{
  "directory": "{folder}/build",
  "command": "/usr/bin/cc  -I{folder}/include -O3 -o CMakeFiles/part.dir/part_one.c.o -c \\"{folder}/part one.c\\"",
  "file": "{folder}/part one.c"
},
{
  "directory": "{folder}/build",
  "command": "/usr/bin/c++  -I{folder}/include -O3 -DNDEBUG -o CMakeFiles/app.dir/main.cc.o -c {folder}/main.cc",
  "file": "{folder}/main.cc"
}
]""",
    "build/CMakeFiles/TargetDirectories.txt": """{folder}/build/CMakeFiles/part.dir
{folder}/build/CMakeFiles/app.dir
{folder}/build/CMakeFiles/edit_cache.dir
{folder}/build/CMakeFiles/rebuild_cache.dir
""",
    "build/CMakeFiles/app.dir/link.txt": "/usr/bin/c++ -O3 CMakeFiles/app.dir/main.cc.o -o app  libpart.a -lm \n",
    "build/CMakeFiles/part.dir/link.txt": "/usr/bin/ar qc libpart.a CMakeFiles/part.dir/part_one.c.o\n"
    "/usr/bin/ranlib libpart.a\n",
    "include/part.h": "#pragma once\nextern int part(void);\n",
    "part one.c": '#include "part.h"\nint part(void) { return 40; }\n',
    "main.cc": 'extern "C" {\n#include "part.h"\n}\nint main() { return part() - 40; }\n',
}


def test_what_cmake_wrote_names_the_targets_and_their_libraries(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write({name: text.replace("{folder}", str(tmp_path)) for name, text in CMAKE.items()})
    monkeypatch.chdir(folder / "build")  # the sources are not below it
    made = create("mine", Project.from_compile_commands("compile_commands.json"))
    assert made.problems == ()
    assert paths(made) == ["app", "main.cc", "part one.c"]
    program = made.dataset.programs["app"]
    assert (program.language, program.members) == ("c++", ("main.cc", "part one.c"))
    assert program.link is not None
    assert program.link.words == ("-lm",)


# --------------------------------------------------------------------------------------------------- targets


def part(name: str, defined: str = "", undefined: str = "", weak: str = "") -> Part:
    return Part(name, Symbols(*(frozenset(names.split()) for names in (defined, weak, undefined))))


def test_closure_takes_what_a_linker_takes() -> None:
    main = part("main.c", "main", "f w")
    f, unused, g = part("f.c", "f", "g printf"), part("unused.c", "u"), part("g.c", "g", "f")
    other_f, weak = part("other.c", "f g"), part("weak.c", weak="w")
    strong = part("strong.c", "w")
    assert closure([main], [unused, f, g, other_f, weak, strong]) == [main, f, g, strong]
    assert closure([main], []) == [main]
    assert closure([main, f, main], [g]) == [main, f, g]


def test_each_main_is_a_target_and_its_neighbours_are_nearest() -> None:
    programs = [
        part("a/main.c", "main", "help shared"),
        part("a/help.c", "help"),
        part("b/help.c", "help"),
        part("b/start.c", "main", "help"),
        part("lib/shared.c", "shared"),
        part("tests/test.c", "main shared", "help"),
    ]
    found = {target.name: [one.name for one in target.parts] for target in targets_by_symbols(programs)}
    assert found == {
        "main": ["a/main.c", "a/help.c", "lib/shared.c"],
        "start": ["b/start.c", "b/help.c"],
        "test": ["tests/test.c", "a/help.c"],
    }


def test_symbols_of_objects_and_members_of_archives(write: Callable[..., Path]) -> None:
    long = "a_name_that_is_longer_than_an_archive_has_room_for.o"
    folder = write({"a.c": "int g(void); static int s; int v; __attribute__((weak)) int f(void) { return g() + s; }"})
    subprocess.run([find_clang(), "-O0", "-c", "a.c", "-o", long], check=True)
    content = (folder / long).read_bytes()
    assert elf_symbols(content) == Symbols(frozenset({"v"}), frozenset({"f"}), frozenset({"g"}), frozenset({"s"}))
    for damaged in (b"", b"\x7fELF\x02\x01", content[:100], content[: len(content) // 2]):
        assert elf_symbols(damaged) == Symbols()
    header = f"{'/0':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    names = f"{long}/\n".encode()
    table = f"{'//':<48}{len(names):<10}`\n".encode() + names + b"\n" * (len(names) % 2)
    archive = folder / "lib.a"
    archive.write_bytes(b"!<arch>\n" + table + header + content)
    assert list(archive_members(archive)) == [(long, content)]
    archive.write_bytes(b"!<thin>\n" + table + header)
    assert list(archive_members(archive)) == [(str(folder / long), content)]
    backwards = header[:48] + b"-60".ljust(10) + header[58:]
    for damaged in (table + header + content[:-10], table + backwards):
        archive.write_bytes(b"!<arch>\n" + damaged)
        with pytest.raises(ValueError, match="is damaged at byte"):
            list(archive_members(archive))


# ------------------------------------------------------------------------------------------------------ runs


def test_runs_are_read_from_one_line(write: Callable[..., Path]) -> None:
    folder = write({"in.txt": "given", "data/x": "1", "data/sub/y": "2"})
    request = parse_run("app#small: LANG=C N='a b' ./app -n 3 in.txt data --x < in.txt", folder)
    assert (request.target, request.name) == ("app", "small")
    run = request.run
    assert run.arguments == ("-n", "3", "in.txt", "data", "--x")
    assert run.environment == {"LANG": "C", "N": "a b"}
    assert run.stdin == b"given"
    assert run.files == {"in.txt": b"given", "data/sub/y": b"2", "data/x": b"1"}
    assert parse_run("app: ./app").run.arguments == ()
    assert parse_run("app: ./app < /dev/null").run.stdin == b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("./app", "does not begin with a target"),
        ("app:", "there is no command"),
        ("app: ./app > out.txt", "'>' does nothing there"),
        ("app: ./app | sort", r"'\|' does nothing there"),
        ("app: ./app 'x", "no command line"),
        ("app: ./app < none.txt", "cannot be read"),
        ("app: ./app <", "no file follows"),
        ("app: ./app < /dev/zero", "may have no end"),
        ("app: ./app < pipe", "may have no end"),
        ("app: ./app *.txt", r"'\*' does nothing there"),
        ('app: ./app "$HOME"', r"'\$' does nothing there"),
        ("app: ./app && ./app", "'&' does nothing there"),
        ("app: ./app ~/x", "'~' does nothing there"),
        ("app: ./app # twice", "'#' does nothing there"),
        ("app: ./app /", ""),
        ("app: ./app ..", "outside of"),
        ("app: ./app /etc/passwd", "outside of"),
    ],
)
def test_bad_runs_are_refused(text: str, message: str, write: Callable[..., Path]) -> None:
    folder = write({})
    os.mkfifo(folder / "pipe")
    if not message:
        assert parse_run(text, folder).run.files == {}
        return
    with pytest.raises(ProjectError, match=message):
        parse_run(text, folder)


def test_runs_are_read_from_a_file(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "data/1.txt": "one",
            "data/2.txt": "two",
            "runs.toml": """
                [[run]]
                target = "app"
                name = "all"
                arguments = ["data"]
                stdin = "data/1.txt"
                files = ["data/*.txt"]
                environment = { LC_ALL = "C" }
                output_files = ["out.txt"]
                timeout = 5
                measured = true
            """,
        }
    )
    (request,) = read_runs(folder / "runs.toml")
    assert (request.target, request.name, request.measured) == ("app", "all", True)
    assert request.run.files == {"data/1.txt": b"one", "data/2.txt": b"two"}
    assert (request.run.stdin, request.run.timeout, request.run.output_files) == (b"one", 5, {"out.txt": None})
    for text, message in (
        ("[[run]]\ntarget = 1", "runs.toml"),
        ("[[run]]\ntarget = 'a'\ncheck = 'x'", "unknown field"),
        ("[[run]]\ntarget = 'a'\nfiles = ['../x']", "is not below"),
        ("[[run]]\ntarget = 'a'\nfiles = ['*.none']", "there is no file"),
        ("[[run]]\ntarget = 'a'\ntimeout = 0", "seconds above 0"),
    ):
        (folder / "runs.toml").write_text(text)
        with pytest.raises(ProjectError, match=message):
            read_runs(folder / "runs.toml")


def test_run_of_no_target_is_refused_with_the_targets(write: Callable[..., Path]) -> None:
    folder = write({"a.c": "int main(void) { return 0; }\n"})
    with pytest.raises(ProjectError, match="for the target 'app', and the targets are: a"):
        from_database(folder, "cc -c a.c", runs=[parse_run("app: ./app")])
    with pytest.raises(ProjectError, match="2 runs named 'default'"):
        from_database(folder, "cc -c a.c", runs=[parse_run("a: ./a"), parse_run("a: ./a 1")])
    with pytest.raises(ProjectError, match="may not link with the word '-fplugin=x'"):
        from_database(folder, "cc -c a.c", link=["-fplugin=x"])
