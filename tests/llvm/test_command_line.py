"""Taking compilers' command lines apart; clang, which says with -### what it would run, is the reference."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.datasets.toolchain import find_clang
from aiocg.llvm.command_line import parse

LINES = (
    "cc a.c",
    "cc -O2 -Wall -c a.c -o out.o",
    "cc -c a.c b.cc -DX=1 -I inc -Iother",
    "cc -O1 -Os a.c b.cc m.o -lm -Llib -L lib -o app",
    "cc -x c++ a.c -x none b.cc m.o",
    "cc -xc++ a.c",
    "c++ a.c b.cc -o app",
    "cc -include a.h -isystem inc -std=gnu17 a.c -c",
    "cc @words.txt -o app",
    "cc a.i s.s b.ii -c",
    "cc -Xclang -disable-llvm-passes -mllvm -inline-threshold=5 a.c -c",
    "cc -MD -MF a.dep -MT target -c a.c",
    "cc -Wl,-z,now -pthread -shared -fPIC -u symbol -z relro a.c -o lib.so",
    "cc -target x86_64-unknown-linux-gnu --sysroot / -c a.c",
    "cc -D NAME -U OTHER -c a.c -oout.o",
    "clang++ -stdlib=libstdc++ -c b.C",
    "cc -O2 -c -- a.c -b.c",
    "cc -c @a.c",
)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.c", "b.cc", "b.C", "a.h", "m.o", "a.i", "b.ii", "s.s", "-b.c", "@a.c"):
        (tmp_path / name).touch()
    (tmp_path / "words.txt").write_text("-O2 'a.c' \"b.cc\"\n-DTEXT='\"quoted words\"'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def clangs_jobs(words: list[str], cplusplus: bool) -> list[tuple[str, str]]:
    """Return language and file of each compilation that clang would start."""
    mode = ["--driver-mode=g++"] if cplusplus else []
    done = subprocess.run([find_clang(), *mode, "-###", *words], capture_output=True, text=True, check=True)
    jobs = []
    for line in done.stderr.splitlines():
        command = shlex.split(line) if line.startswith(' "') else []
        if "-cc1" in command and "-x" in command:
            jobs.append((command[command.index("-x") + 1], command[-1]))
    return jobs


@pytest.mark.few(2)
@pytest.mark.parametrize("line", LINES)
def test_sources_are_those_that_clang_would_compile_and_in_the_same_language(sources: Path, line: str) -> None:
    driver, *words = shlex.split(line)
    command = parse([driver, *words])
    ours = [(source.language, source.path.removeprefix("./")) for source in command.sources]
    assert ours == clangs_jobs(words, command.cplusplus)
    assert not any(source.path.startswith(("-", "@")) for source in command.sources)


MANY = (
    "-O2 -g -nostdlibinc -nostdinc++ -undef -trigraphs -UX -D Y=1 -Iinc -idirafter inc -std=gnu11 "
    "-fPIC -fpie -fno-plt -fno-strict-aliasing -fvisibility=hidden -ffunction-sections -fstack-protector-strong "
    "-fno-omit-frame-pointer -fwrapv -fno-builtin-memcpy -ffast-math -march=x86-64-v3 -mtune=generic -mno-red-zone "
    "-pthread -fopenmp -Wall -Wno-unused -Werror=return-type -pedantic -include a.h -isystem inc -mllvm -stats "
    "-Xclang -fdebug-pass-manager -Xpreprocessor -DZ -ftrivial-auto-var-init=zero -fcf-protection=full -funwind-tables"
)
"""Options of many kinds, none of them only the linker's."""


def test_no_option_is_lost_on_the_way_to_the_compiler(sources: Path) -> None:
    def options_of_clang(words: list[str]) -> set[str]:
        done = subprocess.run([find_clang(), "-###", *words], capture_output=True, text=True, check=True)
        command = next(shlex.split(line) for line in done.stderr.splitlines() if line.startswith(' "'))
        return {re.sub(r"/tmp/\S+", "", word) for word in command}

    command = parse(["cc", *shlex.split(MANY), "-Wl,-z,now", "-lm", "-shared", "-MD", "-c", "a.c", "-o", "a.o"])
    theirs = options_of_clang([*shlex.split(MANY), "-c", "a.c", "-o", "a.o"])
    front = options_of_clang([*command.bitcode_words(command.sources[0], "-O2"), "-c", "-emit-llvm", "-o", "a.o"])
    assert theirs - front <= {"-emit-obj"}
    assert front - theirs <= {"-emit-llvm-bc", "-disable-llvm-passes", "-emit-llvm-uselists"}
    with_rule = command.bitcode_words(command.sources[0], "-O2", "a.o")
    assert options_of_clang([*with_rule, "-c", "-o", "a.o"]) - theirs == {
        *("-dependency-file", "a.d", "-sys-header-deps", "-MT", "-disable-llvm-passes")
    }
    (sources / "a.bc").touch()
    back = options_of_clang([*command.object_words("-O2"), "-c", "-o", "a.o", "-x", "ir", "a.bc"])
    generating = {"-fpie", "pic", "-mno-red-zone", "-ffunction-sections", "-fno-plt", "-stats", "+avx2", "-ffast-math"}
    assert {word for word in generating & theirs if "pie" not in word} <= back


@pytest.mark.parametrize(
    ("line", "mode", "output", "level"),
    [
        ("cc a.c", "link", "", ""),
        ("cc -c a.c -o x.o -O2", "compile", "x.o", "-O2"),
        ("cc -O3 -O0 -oname a.c", "link", "name", "-O0"),
        ("cc --output=name -O a.c", "link", "name", "-O1"),
        ("cc -S a.c", "assembly", "", ""),
        ("cc -E -c a.c", "preprocess", "", ""),
        ("cc -MM a.c", "rules", "", ""),
        ("cc -fsyntax-only a.c", "check", "", ""),
        ("cc --version", "question", "", ""),
        ("cc -dumpmachine", "question", "", ""),
        ("cc -print-prog-name=ld", "question", "", ""),
        ("cc -### a.c", "question", "", ""),
    ],
)
def test_what_a_line_asks_for_is_known(line: str, mode: str, output: str, level: str) -> None:
    command = parse(line.split())
    assert (command.mode, command.output, command.level) == (mode, output, level)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cc -S a.c", "-S asks for no object code"),
        ("cc --version", "--version asks"),
        ("cc", "no input"),
        ("cc m.o -lm", "no C or C\\+\\+ source"),
        ("cc -c s.s", "no C or C\\+\\+ source"),
        ("cc -x c -", "standard input"),
        ("cc -flto a.c", "-flto needs clang's own passes"),
        ("cc -fsanitize=address a.c", "-fsanitize=address needs"),
        ("cc -fprofile-instr-generate a.c", "needs clang's own"),
        ("cc --coverage a.c", "needs clang's own"),
        ("cc -pg a.c", "needs clang's own"),
        ("cc -save-temps a.c", "more than object code"),
        ("cc -emit-llvm -c a.c", "more than object code"),
    ],
)
def test_what_cannot_be_done_in_steps_has_a_reason(line: str, says: str) -> None:
    assert re.search(says, parse(line.split()).obstacle())


def test_what_looks_like_an_obstacle_is_none() -> None:
    for flag in ("-fno-lto", "-fno-sanitize=all", "-pipe", "-pthread", "-fno-plt", "-fopenmp", "-g3", "-static"):
        assert parse(["cc", flag, "a.c"]).obstacle() == ""


def test_objects_take_the_places_of_the_sources() -> None:
    command = parse(shlex.split("cc -O2 first.o a.c -lfoo -x c++ b.x -x none -MD last.a -o app"))
    assert command.link_words(["1.o", "2.o"]) == ["-O2", "first.o", "1.o", "-lfoo", "2.o", "last.a"]
    assert command.link_words(["all.o"]) == ["-O2", "first.o", "all.o", "-lfoo", "last.a"]
    other = parse(shlex.split("cc a.c -x assembler start.txt -x none end.o"))
    assert other.link_words(["a.o"]) == ["a.o", "-x", "assembler", "start.txt", "-x", "none", "end.o"]


def test_missing_value_and_missing_driver_are_refused() -> None:
    with pytest.raises(ValueError, match="-o lacks its value"):
        parse(["cc", "a.c", "-o"])
    with pytest.raises(ValueError, match="empty"):
        parse([])


WORDS = [
    "-O2",
    "-c",
    "a.c",
    "-o",
    "x",
    "-I",
    "-Idir",
    "-x",
    "c++",
    "-Wl,-z",
    "-lm",
    "m.o",
    "-MD",
    "-MF",
    "-",
    "b.cc",
    "-v",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_no_word_is_lost_and_every_input_is_accounted_for(words: list[str]) -> None:
    try:
        command = parse(["cc", *words])
    except ValueError:
        assert words and words[-1] in ("-o", "-I", "-x", "-MF")
        return
    assert command.words == words
    assert [token.value for token in command.tokens if token.kind == "input"] == [one.path for one in command.inputs]
    left_out = [token for token in command.tokens if token.kind in ("input", "output", "mode", "language")]
    assert sorted(command.options() + [word for token in left_out for word in token.words]) == sorted(words)
