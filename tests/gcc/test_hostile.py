"""Programs that mean harm to the machine of the worker: what a container may write is no way out of it."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiocg.errors import InvalidAction
from aiocg.spaces.actions import CommandLine
from aiocg.transport.options import Option
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc import _compilation as compilation
from aiocg.workers.gcc._compilation import Benchmark, Compilation, Compiler, Limits, read_sources
from aiocg.workers.gcc._container import ContainerRunner
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._runner import Completed
from aiocg.workers.gcc._store import Results
from aiocg.workers.programs.linking import write_files

LIMITS = Limits(20.0, 1 << 30, math.inf)
SECRET = b"nobody's business\n"


def benchmark(unit: str = "t.c", **others: Any) -> Benchmark:
    fields = {"version": 1, "units": (unit,), "files": {unit: b"int f(void) { return 1; }\n"}, "include": ()}
    fields |= {"flags": (), "language": "c", "freestanding": False, **others}
    return Benchmark(read_sources(msgspec.msgpack.encode(fields)))


class HostileRunner(LocalRunner):
    """A runner where something happens in its folder after each command, by what is not yet gone."""

    def __init__(self, happens: Callable[[str, list[str]], None]) -> None:
        self._happens = happens
        super().__init__("gcc")

    def run(self, command: Any, **more: Any) -> Completed:
        done = super().run(command, **more)
        if "-o" in command:
            self._happens(more["folder"], list(command))
        return done


@contextlib.contextmanager
def compiling(happens: Callable[[str, list[str]], None]) -> Iterator[Compilation]:
    runner = HostileRunner(happens)
    try:
        yield Compilation(Compiler(runner, Results()), benchmark(), (), "0", LIMITS)
    finally:
        runner.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret" / "0.s"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def output(folder: str, command: list[str]) -> Path:
    return Path(folder, command[command.index("-o") + 1])


def test_link_in_the_place_of_an_output_leads_nowhere(gcc: str, secret: Path) -> None:
    def happens(folder: str, command: list[str]) -> None:
        output(folder, command).unlink()
        output(folder, command).symlink_to(secret)

    with compiling(happens) as made, pytest.raises(CompilationError) as caught:
        made.assembly()
    assert caught.value.fields["reason"] == "nothing"


@pytest.mark.parametrize("depth", [1, 2])
def test_link_in_the_place_of_a_folder_leads_nowhere(gcc: str, secret: Path, depth: int) -> None:
    def happens(folder: str, command: list[str]) -> None:
        out = Path(os.path.normpath(output(folder, command)))
        moved = out.parents[depth - 1]
        inside = out.parent.relative_to(moved)
        (secret.parent.parent / "outside" / inside).mkdir(parents=True, exist_ok=True)
        (secret.parent.parent / "outside" / inside / "0.s").write_bytes(SECRET)
        moved.rename(f"{moved}-moved")
        moved.symlink_to(secret.parent.parent / "outside")

    with compiling(happens) as made, pytest.raises(CompilationError) as caught:
        made.assembly()
    assert caught.value.fields["reason"] == "nothing"
    kept = secret.parent.parent / "outside"
    assert [path.name for path in kept.rglob("*") if path.is_file()] == ["0.s"]


def test_pipe_in_the_place_of_an_output_keeps_nobody_waiting(gcc: str) -> None:
    def happens(folder: str, command: list[str]) -> None:
        output(folder, command).unlink()
        os.mkfifo(output(folder, command))

    with compiling(happens) as made, pytest.raises(CompilationError) as caught:
        made.assembly()
    assert caught.value.fields["reason"] == "nothing"


def test_output_that_is_too_large_is_not_read(gcc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "LARGEST", 1 << 20)

    def happens(folder: str, command: list[str]) -> None:
        os.truncate(output(folder, command), (1 << 20) + 1)

    with compiling(happens) as made, pytest.raises(CompilationError) as caught:
        made.assembly()
    assert caught.value.fields["reason"] == "output"


@pytest.mark.parametrize("name", ["file", "folder/file"])
def test_files_are_not_written_through_links(tmp_path: Path, name: str) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "file").write_bytes(SECRET)
    inside.mkdir()
    (inside / name.partition("/")[0]).symlink_to(outside / "file" if name == "file" else outside)
    with pytest.raises(CompilationError, match="cannot be written"):
        write_files(inside, {name: b"harm"})
    assert (outside / "file").read_bytes() == SECRET
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(CompilationError, match="cannot be written"):
        write_files(tmp_path / "link", {"file": b"harm"})
    assert (outside / "file").read_bytes() == SECRET


def test_pipe_in_the_place_of_a_file_keeps_no_writer_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(CompilationError, match="cannot be written"):
        write_files(tmp_path, {"file": b"harm"})


@pytest.mark.parametrize("unit", ["-wrapper", "@t.c", "-o.c"])
def test_name_of_a_unit_is_no_option(gcc: str, unit: str) -> None:
    runner = LocalRunner("gcc")
    try:
        made = Compilation(Compiler(runner, Results()), benchmark(unit), (), "0", LIMITS)
        assert b"f:" in made.assembly()[0]
    finally:
        runner.close()


def test_folder_in_the_place_of_an_output_costs_no_open_file(gcc: str) -> None:
    def happens(folder: str, command: list[str]) -> None:
        output(folder, command).unlink()
        output(folder, command).mkdir()

    with compiling(happens) as made:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(CompilationError, match="has written nothing"):
            made.assembly()
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", ["9" * 9000, "0x" + "f" * 9000, "-" + "9" * 9000])
def test_number_with_thousands_of_digits_is_out_of_range(number: str) -> None:
    line = CommandLine([Option("--param=x", "param", template="--param=x={}", low=0, high=9), Option("-O", "level")])
    with pytest.raises(InvalidAction, match="is not in the range"):
        line.read(f"gcc --param=x={number}")
    assert line.read("gcc --param=x=" + "0" * 9000 + "7") == line.read("gcc --param=x=0x7") == [7, -1]
    with pytest.raises(InvalidAction):
        line.read("gcc -O" + "9" * 9000)


# ------------------------------------------------------------------------------------- in a real container

# A program that has itself run by the flags that it is compiled with, and that goes on when its command has ended: it
# knows by what it would be found, and has that no more.
HARM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
struct dirent { unsigned long ino; long off; unsigned short size; unsigned char d_type; char d_name[256]; };
typedef struct DIR DIR;
DIR *opendir(const char *);
struct dirent *readdir(DIR *);
int closedir(DIR *);
enum { DT_LNK = 10 };
static void redirect(const char *from, const char *prefix, const char *to, const char *below) {
    DIR *all = opendir(from);
    char path[4096], moved[4200], inside[4200];
    for (struct dirent *one; all && (one = readdir(all));)
        if (!strncmp(one->d_name, prefix, strlen(prefix)) && !strstr(one->d_name, "-moved")) {
            snprintf(path, sizeof path, "%s/%s", from, one->d_name);
            if (below) {
                snprintf(inside, sizeof inside, "%s/%s", path, below);
                redirect(inside, "", to, 0);
                continue;
            }
            snprintf(moved, sizeof moved, "%s-moved", path);
            if (one->d_type != DT_LNK && strcmp(one->d_name, ".") && strcmp(one->d_name, "..") && !rename(path, moved))
                (void)!symlink(to, path);
        }
    if (all) closedir(all);
}
int main(int argc, char **argv) {
    if (argc < 5) {  // ROOT OUTSIDE PREFIX
        char *clean[] = {0}, *again[] = {argv[0], argv[1], argv[2], argv[3], "on", 0};
        if (fork()) return 0;
        setsid();
        if (fork()) _exit(0);
        for (int i = 0; i < 3; i++) close(i);
        execve("/proc/self/exe", again, clean);
        _exit(1);
    }
    for (;;) redirect(argv[1], argv[3], argv[2], 0);
}
"""


def harmful(root: str, outside: Path, prefix: str) -> Benchmark:
    script = (
        "[ -e evil ] || { gcc -O1 -w -o evil evil.c && ./evil "
        f"{root} {outside} {prefix}; }} </dev/null >/dev/null 2>evil.log\n"
        'exec "$@"\n'
    )
    files = {"t.c": b"int f(void) { return 1; }\n", "evil.sh": script.encode(), "evil.c": HARM.encode()}
    return benchmark(files=files, flags=("-wrapper", "sh,./evil.sh"))


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("prefix", ["program-", ".shells"])
def test_what_goes_on_in_a_container_has_nothing_written_or_read_outside(
    gcc_image: str, tmp_path: Path, prefix: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").write_bytes(SECRET)
    runner = ContainerRunner(gcc_image)
    try:
        compiler = Compiler(runner, Results())
        with contextlib.suppress(CompilationError):
            Compilation(compiler, harmful(runner.root, outside, prefix), (), "harm", LIMITS).assembly()
        fates = {"good": 0, "bad": 0}
        for number in range(40):
            text = f"int f{number}(void) {{ return {number}; }}\n".encode()
            files = {"t.c": text, **{f"kept{part}": SECRET for part in range(50)}}
            try:
                made = Compilation(compiler, benchmark(files=files), (), str(number), LIMITS).assembly()
                assert SECRET not in made[0]
                fates["good"] += 1
            except CompilationError:
                fates["bad"] += 1
            if number == 20:
                runner._drop(runner._container)  # as when it is lost: the next one has shells of its own
        assert prefix != "program-" or fates["bad"], "the harm was done to nobody, not even to itself"
        assert sorted(path.name for path in outside.rglob("*")) == ["kept"]
        assert (outside / "kept").read_bytes() == SECRET and (outside / "kept").stat().st_uid == os.geteuid()
    finally:
        runner.close()
    assert sorted(path.name for path in outside.rglob("*")) == ["kept"]
