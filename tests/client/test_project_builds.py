"""Projects that are really built, by make and CMake, and what environments make of them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.datasets import default_datasets
from aiocg.datasets.own.draft import add, pack
from aiocg.datasets.own.installed import directory_of
from aiocg.datasets.toolchain import find_clang, find_toolchain
from aiocg.programs.project import Creation, Project, ProjectError, create, parse_run, read_runs, write_program

CREATE = [sys.executable, "-P", "-c", "from aiocg.cli._dataset import app; app()", "create"]

FOLDER = "the project"

pytestmark = [pytest.mark.needs("libc", "make"), pytest.mark.usefixtures("own_folders")]


def problems(made: Creation) -> dict[str, str]:
    return {problem.subject: problem.reason for problem in made.problems}


def _printed(*command: str | Path) -> bytes:
    return subprocess.run(command, capture_output=True, check=True).stdout


def _status(command: str | Path) -> int:
    return subprocess.run([command]).returncode


MAIN = """
#include <stdio.h>
int weight(int c);
int main(int argc, char **argv) {
  FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
  int c, n = 0;
  if (!file) return 3;
  while ((c = getc(file)) != EOF) n += weight(c);
  printf("%d\\n", n);
  return 0;
}
"""
MAKEFILE = """
CFLAGS = -O2 -g -Ilib
app: main.o libpart.a
\t$(CC) -o $@ main.o -L. -lpart -lm
libpart.a: lib/weight.o lib/table.o lib/unused.o lib/other.o
\tar rcs $@ $^
"""
LIBRARY = {
    "lib/weight.c": '#include "table.h"\nint weight(int c) { return 2 * table(c); }\n',
    "lib/table.h": "int table(int c);\n",
    "lib/table.c": '#include "table.h"\nint table(int c) { return c == 10 ? 0 : c; }\n',
    "lib/unused.c": "int unused(void) { return 1; }\n",
    "lib/other.c": "int main(void) { return 1; }\n",  # the linker never looks at it
}


@pytest.mark.slow
async def test_makefile_with_a_static_library_becomes_a_dataset_that_needs_no_project(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write({"Makefile": MAKEFILE, "main.c": MAIN, "in.txt": "hello\n", **LIBRARY})
    runs = [parse_run("app: ./app in.txt"), parse_run("app#stdin: ./app < in.txt")]
    made = create("mine", Project.from_build("make -j2"), runs=runs)
    assert made.problems == ()
    assert list(made.dataset.programs) == [
        *("app", "lib/other.c", "lib/table.c", "lib/unused.c", "lib/weight.c", "main.c")
    ]
    program = made.dataset.programs["app"]
    assert program.members == ("main.c", "lib/weight.c", "lib/table.c")
    assert program.link is not None
    assert program.link.words == ("-lm",)
    assert (folder / "app").exists()  # it was built as always
    shown = _printed(folder / "app", "in.txt")

    file = pack(made.dataset, tmp_path / "mine.tar.xz")
    shutil.rmtree(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "elsewhere"))
    add(file)
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="mine/app", reward_space="IrInstructionCountOz")
        await env.reset()
        assert [run["exit_code"] for run in await env.observe("Execution")] == [0, 0]
        best = await aiocg.search.random(env, budget=aiocg.search.Budget(evaluations=20), seed=1)
        await env.reset()
        await env.step_texts(best.actions or ["mem2reg"])
        assert (await env.validate(sanitizers=())).okay()
        output = await write_program(env, tmp_path / "found")
        await env.reset(benchmark="mine/main.c")
        assert await env.observe("IsBuildable") == 0
        assert await env.observe("IrInstructionCount") > 0
        await env.close()
    (tmp_path / "in.txt").write_text("hello\n")
    assert _printed(output, "in.txt") == shown


@pytest.mark.slow
def test_shared_library_whole_archive_assembly_and_failures_take_part(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "Makefile": """
app: main.o libshared.so libwhole.a seven.o
\t$(CC) -o $@ main.o seven.o -L. -lshared -Wl,--whole-archive libwhole.a -Wl,--no-whole-archive -Wl,-rpath,'$$ORIGIN'
libshared.so: shared.o
\t$(CC) -shared -o $@ shared.o
shared.o: shared.c
\t$(CC) -fPIC -O2 -c -o $@ shared.c
libwhole.a: registers.o asked.o
\tar rcs $@ $^
\trm registers.o
""",
            "main.c": "#include <stdio.h>\nint shared(void), seven(void), asked(void); int registered;\n"
            'int main(void) { printf("%d %d %d %d\\n", shared(), seven(), asked(), registered); return 0; }\n',
            "shared.c": "int shared(void) { return 4; }\n",
            "registers.c": "extern int registered;\n"
            "__attribute__((constructor)) static void before(void) { registered = 9; }\n",
            "asked.c": "int asked(void) { return 3; }\n",
            "seven.s": '.globl seven\nseven:\n  mov $7, %eax\n  ret\n  .section .note.GNU-stack,"",@progbits\n',
        }
    )
    made = create("mine", Project.from_build(["make"]), runs=[parse_run("app: ./app")])
    (problem,) = made.problems
    assert problem.reason.startswith("linked as machine code, as nothing here compiles C or C++ to seven.o; ")
    program = made.dataset.programs["app"]
    assert program.members == ("main.c", "shared.c", "registers.c", "asked.c")
    assert program.link is not None
    assert list(program.link.files) == ["object-0.o"]
    assert program.runs[0].stdout is not None
    expected = (made.dataset.directory / "content" / program.runs[0].stdout).read_bytes()
    assert expected == subprocess.run([folder / "app"], capture_output=True, check=True).stdout == b"4 7 3 9\n"
    library = made.dataset.programs["libshared.so"]
    assert (library.members, library.link) == (("shared.c",), None)


@pytest.mark.slow
def test_sources_that_are_compiled_and_linked_at_once_and_what_they_write(write: Callable[..., Path]) -> None:
    write(
        {
            "Makefile": "all:\n\tc++ -O1 one.cc two.c -o 'the app'\n",
            "one.cc": '#include <cstdio>\n#include <string>\nextern "C" int two();\n'
            "int main(int n, char **) {\n"
            '  std::string s(two(), \'x\'); FILE *f = std::fopen("out.txt", "w"); std::fputs(s.c_str(), f);\n'
            '  std::printf("%p\\n", n > 1 ? (void *)f : nullptr); return n > 1 ? 0 : 5; }\n',
            "two.c": '#ifdef __cplusplus\nextern "C"\n#endif\nint two() { return 2; }\n',
            "runs.toml": '[[run]]\ntarget = "the app"\noutput_files = ["out.txt", "none"]\n'
            '[[run]]\ntarget = "the app"\nname = "varies"\narguments = ["1"]\n',
        }
    )
    made = create("mine", Project.from_build("cd . && make"), runs=read_runs("runs.toml"))
    first, second = made.dataset.programs["the app"].runs
    assert made.dataset.programs["the app"].language == "c++"
    assert first.exit_status == 5
    run = made.dataset.benchmark("the app").program.runs["default"]  # type: ignore[union-attr]
    assert dict(run.output_files) == {"out.txt": b"xx"}
    assert run.expected_output() == b"(nil)\n"
    assert "writes no file 'none'" in [problem.reason for problem in made.problems]
    assert second.output_varies or second.stdout is not None  # addresses are random, unless the machine says otherwise


@pytest.mark.slow
def test_build_that_fails_or_compiles_nothing_is_an_error(
    write: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    write({"Makefile": "all:\n\tcc -c bad.c\nnothing:\n\techo done\n", "bad.c": "int f(void) { return }\n"})
    with pytest.raises(ProjectError, match="the build failed: `make all` ended with 2"):
        Project.from_build("make all")
    assert "bad.c" in capfd.readouterr().err
    with pytest.raises(ProjectError, match=r"has compiled nothing.*: clean the project first"):
        Project.from_build("make nothing")
    with pytest.raises(ProjectError, match="`no-such-make -j2` ended with 127"):
        Project.from_build("no-such-make -j2")
    with pytest.raises(ProjectError, match="is empty"):
        Project.from_build("")


@pytest.mark.slow
def test_aiocg_cc_records_and_does_not_search(write: Callable[..., Path], place: Any) -> None:
    folder = write({"Makefile": MAKEFILE, "main.c": MAIN, **LIBRARY, "flags": "-O2\n-Ilib"})
    place.environment["AIOCG_CC_RECORD"] = str(folder / "build.jsonl")
    compiler = f"CC={sys.executable} -P -m aiocg.cli cc"
    done = place.run("make", "-j2", "-C", str(folder), compiler, "CFLAGS=@flags")
    assert done.returncode == 0, done.stderr
    assert "aiocg cc:" not in done.stderr
    (folder / "flags").unlink()  # build systems do that, too
    made = create("mine", Project.from_record(folder / "build.jsonl"))
    assert made.dataset.programs["app"].members == ("main.c", "lib/weight.c", "lib/table.c")
    assert made.dataset.programs["lib/table.c"].flags == ("-O2", "-Ilib")
    place.environment["AIOCG_CC_RECORD"] = str(folder / "none/build.jsonl")
    refused = place.run(sys.executable, "-P", "-m", "aiocg.cli", "cc", "-c", str(folder / "main.c"))
    assert refused.returncode == 1
    assert "which cannot be written" in refused.stderr
    place.environment["AIOCG_CC_RECORD"] = "build.jsonl"
    relative = place.run(sys.executable, "-P", "-m", "aiocg.cli", "c++", "-c", str(folder / "main.c"))
    assert "must be an absolute path" in relative.stderr
    (folder / "build.jsonl").write_text("{}\n")
    with pytest.raises(ProjectError, match="was not written by a build with AIOCG_CC_RECORD"):
        Project.from_record(folder / "build.jsonl")


@pytest.mark.needs("cmake")
@pytest.mark.slow
def test_cmake_project_in_c_and_cplusplus(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.16)
project(mixed C CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(part STATIC "part one.c")
target_include_directories(part PUBLIC include)
add_executable(app main.cc)
target_link_libraries(app part m)
add_executable(other main.cc)
target_compile_definitions(other PRIVATE EXTRA=1)
target_link_libraries(other part)
""",
            "include/part.h": '#pragma once\n#ifdef __cplusplus\nextern "C"\n#endif\nint part(void);\n',
            "part one.c": '#include "part.h"\nint part(void) { return 40; }\n',
            "main.cc": '#include "part.h"\n#include <cstdio>\n#include <vector>\n#ifndef EXTRA\n#define EXTRA 0\n'
            '#endif\nint main() { std::vector<int> v(2, 1); std::printf("%d\\n", part() + (int)v.size() + EXTRA); }\n',
        }
    )
    clang = find_toolchain()
    configured = subprocess.run(
        ["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"], capture_output=True, text=True
    )
    if configured.returncode:
        pytest.skip(f"cmake finds no compiler here: {configured.stderr[-300:]}; clang is {clang.clang}")

    path = folder / "build/compile_commands.json"
    runs = [parse_run("app: ./app"), parse_run("other: ./other")]
    made = create("mine", Project.from_compile_commands(path), runs=runs)  # nothing has been built
    assert made.problems == ()
    assert list(made.dataset.programs) == ["app", "other", "main.cc", "main.cc~2", "part one.c"]
    program = made.dataset.programs["app"]
    assert (program.language, program.members[1]) == ("c++", "part one.c")
    assert program.link is not None and "-lm" in program.link.words
    printed = {name: made.dataset.benchmark(name).program.runs["default"].expected_output() for name in made.targets}  # type: ignore[union-attr]
    assert printed == {"app": b"42\n", "other": b"43\n"}

    with pytest.raises(ProjectError, match="use --compile-commands"):
        Project.from_build("cmake --build build")
    alone = folder / "compile_commands.json"
    shutil.copy(path, alone)  # where nobody knows what is linked, symbols tell it
    found = create("found", Project.from_compile_commands(alone))
    assert list(found.targets) == ["main", "main~2"]
    assert found.dataset.programs["main"].members == ("main.cc", "part one.c")


@pytest.mark.slow
@pytest.mark.needs("ninja")
def test_ninja_tells_what_it_would_link(write: Callable[..., Path]) -> None:
    folder = write(
        {
            "build.ninja": "rule cc\n command = cc -O2 -c $in -o $out\n"
            "rule ar\n command = rm -f $out && ar qc $out $in\n"
            "rule link\n command = : && cc $in -o $out -L. -lpart && :\n"
            "build main.o: cc main.c\nbuild weight.o: cc lib/weight.c\nbuild table.o: cc lib/table.c\n"
            "build libpart.a: ar weight.o table.o\nbuild app: link main.o | libpart.a\n",
            "main.c": MAIN,
            **LIBRARY,
        }
    )
    with open(folder / "compile_commands.json", "w") as file:
        subprocess.run(["ninja", "-t", "compdb"], stdout=file, check=True)
    made = create("mine", Project.from_compile_commands("compile_commands.json"))
    assert made.dataset.programs["app"].members == ("main.c", "lib/weight.c", "lib/table.c")
    assert not (folder / "main.o").exists()


@pytest.mark.slow
def test_run_that_hangs_or_crashes_is_left_out_and_the_program_is_there(write: Callable[..., Path]) -> None:
    write(
        {
            "Makefile": "all:\n\tcc -O1 a.c -o app\n",
            "a.c": "int main(int n, char **v) { if (n == 1) for (;;) v[0][0]++; __builtin_trap(); }\n",
            "runs.toml": '[[run]]\ntarget = "app"\ntimeout = 0.2\n'
            '[[run]]\ntarget = "app"\nname = "crash"\narguments = ["1"]\n',
        }
    )
    made = create("mine", Project.from_build("make"), runs=read_runs("runs.toml"))
    assert made.dataset.programs["app"].runs == ()
    assert "took longer than 0.2 s" in problems(made)["app#default"]
    assert "ended by signal" in problems(made)["app#crash"]


@pytest.mark.slow
def test_interrupt_leaves_no_process_and_no_dataset(write: Callable[..., Path], place: Any, tmp_path: Path) -> None:
    folder = write({f"{number}.c": f"int f{number}(void) {{ return 1; }}\n" for number in range(8)})
    clang = tmp_path / "clang"
    clang.write_text(
        f'#!/bin/sh\ncase "$*" in *emit-llvm*) echo x >> {tmp_path}/started; exec sleep 100;; esac\n'
        f'exec {find_clang()} "$@"\n'
    )
    clang.chmod(0o755)
    place.environment.update({"AIOCG_CLANG": str(clang), "AIOCG_SITE_DATA": str(tmp_path / "site")})
    process = subprocess.Popen(
        [*CREATE, "mine", "--sources", str(folder)], env=place.environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert any((tmp_path / "site/datasets/benchmark").iterdir())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in errors
    assert list((tmp_path / "site/datasets/benchmark").iterdir()) == []
    assert place.processes() == []
    assert place.leftovers() == []


@pytest.mark.slow
def test_interrupt_of_a_build_ends_all_of_it(write: Callable[..., Path], place: Any, tmp_path: Path) -> None:
    write({"Makefile": "all: a b\na b:\n\ttouch ../started-$@; sleep 100 & sleep 100\n"})
    place.environment["AIOCG_SITE_DATA"] = str(tmp_path / "site")
    process = subprocess.Popen(
        [*CREATE, "mine", "--make", "make -j2"], env=place.environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started-b").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in errors
    assert place.processes() == []
    assert place.leftovers() == []
    assert not (tmp_path / "site").exists()


@pytest.mark.slow
def test_command_says_what_was_made_and_what_not(write: Callable[..., Path], place: Any) -> None:
    folder = write({"good.c": "int main(void) { return 0; }\n", "[/bad].c": "int\n"})
    place.environment["AIOCG_CACHE"] = os.environ["AIOCG_CACHE"]
    done = place.run(*CREATE, "mine", "--sources", str(folder), "--run", "good: ./good")
    assert done.returncode == 0, done.stderr
    assert "mine: 1 target, 1 translation unit" in done.stdout
    assert "[/bad].c" in done.stdout
    assert default_datasets()["mine"].validatable
    both = place.run(*CREATE, "yours", "--sources", str(folder), "--bitcode", str(folder))
    assert both.returncode == 2
    assert "one of --compile-commands" in both.stderr
    assert [path.name for path in directory_of("").iterdir()] == ["mine"]


@pytest.mark.slow
async def test_source_that_the_build_has_written_again_is_not_taken_for_what_it_compiled(
    write: Callable[..., Path],
) -> None:
    compiling = 'echo "int value(void) { return $n; }" > gen.c && cc -c gen.c -o gen$n.o && cc -o app$n main.o gen$n.o'
    folder = write({"main.c": "int value(void);\nint main(void) { return value(); }\n"})
    made = create("mine", Project.from_build(f"cc -c main.c; for n in 1 2; do {compiling}; done"))
    assert "another object" in problems(made)["gen.c"]
    async with aiocg.Runtime(workers=1) as runtime, await runtime.make("llvm-v0") as env:
        for number in (1, 2):
            await env.reset(benchmark=f"mine/app{number}")
            output = await write_program(env, folder / f"made{number}")
            assert _status(output) == number
