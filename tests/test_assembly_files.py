"""Files that inline assembly includes: found beside the source and in its folders, wherever code is generated."""

from pathlib import Path

import pytest

from aiocg.datasets import Benchmark
from aiocg.datasets.dependency import includes_files, with_absolute_files
from aiocg.llvm import compute_observation

from .command_line import Run

SOURCE = r"""
__asm__(".section .rodata\n.globl text\ntext:\t.incbin \"data.txt\"\n.previous");
int f(int x) { __asm__(".include \"macros.inc\""); return x + x; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "macros").mkdir()
    (tmp_path / "own/data.txt").write_text("beside the source")
    (tmp_path / "macros/macros.inc").write_text('.section .rodata\n.ascii "in a folder"\n.previous\n')
    path = tmp_path / "own/x.c"
    path.write_text(SOURCE)
    return path


@pytest.mark.slow
def test_files_are_found_from_another_folder(source: Path) -> None:
    benchmark = Benchmark.from_file(source, [f"-I{source.parents[1]}/macros"])
    content = compute_observation("ObjectFile", benchmark.content)
    assert b"beside the source" in content
    assert b"in a folder" in content


@pytest.mark.slow
def test_search_writes_an_object_with_them(command: Run, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parents[1])
    found = command("search", "own/x.c", "--evaluations", "5", "-o", "x.o", "--", "-Imacros")
    assert found.status == 0, found.err
    assert b"beside the source" in Path("x.o").read_bytes()


@pytest.mark.slow
def test_object_of_a_compilation_follows_the_file(
    source: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from aiocg.cli import _cc as cc

    monkeypatch.chdir(source.parent)
    monkeypatch.setenv("AIOCG_CC_BUDGET", "1")
    monkeypatch.setenv("AIOCG_CC_SEARCH", "default<O2>")
    (source.parent / "macros.inc").write_text("")
    for text in ("the first text", "another text"):
        (source.parent / "data.txt").write_text(text)
        assert cc.main("cc", ["-Oz", "-c", "x.c", "-o", "x.o"]) == 0
        assert text.encode() in (source.parent / "x.o").read_bytes()
    assert "warning" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ('#include "assets.h"\nint f(void) { return 1; }\n', "a header"),
        ("#include <assets.h>\nint f(void) { return 1; }\n", "a header of a folder"),
        (SOURCE.split("int f")[0].replace(".incbin", ".INCBIN"), "capitals"),
        ('__asm__(".include \\"data.inc\\"");', "text of assembly"),
    ],
)
def test_files_at_file_scope_are_found_however_they_are_named(source: Path, text: str, beside: str) -> None:
    folder = source.parent
    header = folder / "include" if "folder" in beside else folder
    header.mkdir(exist_ok=True)
    (header / "assets.h").write_text(SOURCE.split("int f")[0])
    (folder / "data.inc").write_text('.section .rodata\n.ascii "beside the source"\n.previous\n')
    source.write_text(text)
    benchmark = Benchmark.from_file(source, [f"-I{header}"] if header != folder else ())
    assert b"beside the source" in compute_observation("ObjectFile", benchmark.content)


def test_only_sources_with_such_assembly_are_converted(source: Path) -> None:
    assert includes_files(source, source.parent, ())
    plain = source.parent / "plain.c"
    plain.write_text('#include <stdio.h>\n#include "plain.c"\nint include;\n')
    assert not includes_files(plain, source.parent, ())
    plain.write_text("int f(void) { return 1; }\n")
    content = Benchmark.from_file(plain).content
    assert with_absolute_files(content, source.parent, (), 60.0) is content
