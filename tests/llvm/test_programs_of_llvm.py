"""`python -m aiocg.llvm`: `opt`, `llc` and their like, where the bundled LLVM has none."""

import subprocess
from pathlib import Path

import pytest

from aiocg.datasets.toolchain import find_clang
from aiocg.llvm import __main__ as command
from aiocg.llvm import tools

SOURCE = """
int a[64];
int sum(int *p) { int s = 0; for (int i = 0; i < 64; i++) s += p[i]; return s; }
int main() { for (int i = 0; i < 64; i++) a[i] = i; return sum(a) & 127; }
"""
RESULT = 2016 & 127


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "sum.c").write_text(SOURCE)
    words = ["-Xclang", "-disable-O0-optnone", "-emit-llvm", "-S", "sum.c", "-o", "sum.ll"]
    subprocess.run([find_clang(), *words], cwd=folder, check=True)
    return folder / "sum.ll"


@pytest.fixture(scope="module")
def unrolled(compiled: Path) -> Path:
    output = compiled.with_name("unrolled.bc")
    words = ["-mem2reg", "-loop-rotate", "-loop-unroll", "-unroll-count=4", compiled, "-o", output]
    assert command.main(["opt", *map(str, words)]) == 0
    return output


@pytest.mark.slow
def test_passes_and_options_of_old_are_taken(compiled: Path, unrolled: Path, tmp_path: Path) -> None:
    output = tmp_path / "again.ll"
    today = ["-passes=mem2reg,loop-rotate,loop-unroll", "-unroll-count=2", "-S", str(compiled), "-o", str(output)]
    assert command.main(["opt", *today]) == 0
    text = tmp_path / "unrolled.ll"
    assert command.main(["llvm-dis", str(unrolled), "-o", str(text)]) == 0
    two, four = (path.read_text().count("add nsw") for path in (output, text))
    assert 2 <= two < four


@pytest.mark.parametrize("kind", ["obj", "asm"])
def test_code_of_it_runs(unrolled: Path, tmp_path: Path, kind: str) -> None:
    output = tmp_path / ("code.o" if kind == "obj" else "code.s")
    assert command.main(["llc", "-O1", f"-filetype={kind}", str(unrolled), "-o", str(output)]) == 0
    linked = subprocess.run([find_clang(), output, "-o", tmp_path / "executable"], capture_output=True, text=True)
    if linked.returncode:
        pytest.skip(f"this machine links nothing: {linked.stderr.splitlines()[-1]}")
    assert subprocess.run([tmp_path / "executable"]).returncode == RESULT


def test_text_and_bitcode_are_the_same_program(
    compiled: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["llvm-as", str(compiled), "-o", str(tmp_path / "sum.bc")]) == 0
    assert (tmp_path / "sum.bc").read_bytes()[:4] == b"BC\xc0\xde"
    assert command.main(["llvm-diff", str(compiled), str(tmp_path / "sum.bc")]) == 0
    assert capfd.readouterr().err == ""


def test_a_difference_is_shown(compiled: Path, unrolled: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["llvm-diff", str(compiled), str(unrolled)]) == 1
    assert "@@" in capfd.readouterr().err


def test_two_programs_become_one(compiled: Path, tmp_path: Path) -> None:
    other, linked = tmp_path / "other.ll", tmp_path / "linked.bc"
    other.write_text("define i32 @other() {\n  ret i32 7\n}\n")
    assert command.main(["llvm-link", str(compiled), str(other), "-o", str(linked)]) == 0
    text = tools.apply(linked.read_bytes(), (), text=True)
    assert b"@other" in text and b"@sum" in text


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["opt", "-no-such-option=3"], 1, "-no-such-option"),
        (["opt", "-no-such-pass"], 1, "no-such-pass"),
        (["llvm-diff", __file__], 2, "top-level entity"),
        (["llvm-link", "absent.ll"], 1, "absent.ll"),
        (["llvm-dis", "-o/nonexistent/output"], 1, "/nonexistent/output"),
        (["llc", "-o/nonexistent/output"], 1, "/nonexistent/output"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_wrong_is_told(
    compiled: Path, words: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*words, str(compiled)]) == status
    assert said in capfd.readouterr().err


@pytest.mark.slow
def test_what_is_not_installed_has_a_stand_in(monkeypatch: pytest.MonkeyPatch, compiled: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    path = tools.program_path("opt")
    assert path.is_relative_to(tmp_path) and path == tools.program_path("opt")
    done = subprocess.run([path, "-S", "-O1", compiled], capture_output=True, check=True)
    assert b"define" in done.stdout and b"alloca" not in done.stdout
