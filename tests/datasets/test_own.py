"""Datasets of one's own: what a folder must be, what it may not be, and how it travels as one file."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import (
    BenchmarkInitError,
    BenchmarkNotFound,
    DatasetError,
    InstallError,
    InvalidBenchmarkUri,
    default_datasets,
)
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.index import DatasetIndex, IndexRow
from aiocg.datasets.own.dataset import CONTENT, MANIFEST, Link, OwnDataset, Program, Run, is_harmless
from aiocg.datasets.own.draft import Draft, add, own_dataset, pack
from aiocg.datasets.own.installed import directory_of, own_datasets
from aiocg.datasets.process import Cancelled, cancellable

SOURCE = b"int twice(int x) { return x + x; }\n"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for installed datasets."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return tmp_path / "site"


def made(
    name: str = "mine", *, count: int = 1, replace: bool = False, linked: bytes = b"\x7fELF\2\1\1\0"
) -> OwnDataset:
    """Write a dataset with a target that has a run, and some units."""
    with Draft(name, replace=replace) as draft:
        module, source = draft.keep(compile_source(SOURCE)), draft.keep(SOURCE)
        units = [
            Program(path=f"src/{n}.c", module=module, language="c", flags=("-O2",), sources={f"src/{n}.c": source})
            for n in range(count)
        ]
        run = Run(
            name="one",
            arguments=("in.txt",),
            stdout=draft.keep(b"printed"),
            files={"in.txt": draft.keep(b"given")},
            output_files={"out.txt": draft.keep(b"written"), "log": None},
        )
        link = Link(words=("object-0.o", "-lm"), files={"object-0.o": draft.keep(linked)})
        target = Program(
            path="app", module=module, language="c++", members=(units[0].path,), link=link, runs=(run,), measured="one"
        )
        return draft.finish([target, *units], description="twice", license="MIT", compiler="clang")


def manifest_lines(dataset: OwnDataset) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (dataset.directory / MANIFEST).read_text().splitlines()]


def write_manifest(dataset: OwnDataset, lines: list[dict[str, Any]]) -> None:
    (dataset.directory / MANIFEST).write_text("".join(json.dumps(line) + "\n" for line in lines))


# --------------------------------------------------------------------------------------------- as a dataset


def test_own_dataset_is_like_any_other() -> None:
    made(count=2)
    dataset = default_datasets()["mine"]
    assert [uri.path for uri in dataset.benchmark_uris()] == ["app", "src/0.c", "src/1.c"]
    assert (dataset.size, str(dataset.uri_at(2))) == (3, "benchmark://mine/src/1.c")
    assert (dataset.description, dataset.license, dataset.validatable) == ("twice", "MIT", True)
    unit = dataset.benchmark("src/1.c")
    assert unit.content == compile_source(SOURCE)
    assert [(source.filename, source.contents) for source in unit.sources] == [("src/1.c", SOURCE)]
    assert unit.program is None
    assert unit.recompiled(["-DX"]) is None
    assert dataset.random_benchmark().uri.dataset == "mine"
    assert dataset.site_data_size_in_bytes > 0
    with pytest.raises(IndexError):
        dataset.uri_at(3)
    with pytest.raises(BenchmarkNotFound, match=r"src/0\.c"):
        dataset.benchmark("src/2.c")


def test_target_says_how_it_is_linked_and_run() -> None:
    target = made().benchmark("app")
    assert [source.filename for source in target.sources] == ["src/0.c"]
    program = target.program
    assert program is not None
    assert program.command[0] == "{clang++}"
    assert program.command[-4:] == ("program", "program.o", "object-0.o", "-lm")
    assert program.files["object-0.o"].startswith(b"\x7fELF")
    run = program.runs["one"]
    assert (run.arguments, run.files["in.txt"], run.expected_output()) == (("in.txt",), b"given", b"printed")
    assert dict(run.output_files) == {"out.txt": b"written", "log": None}
    assert target.recipe


def test_looking_for_own_datasets_loads_nothing_when_there_are_none(site: Path) -> None:
    script = "import sys; from aiocg.datasets import default_datasets; default_datasets(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert not {"msgspec", "requests", "rich", "sqlite3", "numpy", "tarfile"} & set(done.stdout.split())


def test_damaged_dataset_is_a_warning_and_the_others_are_there(site: Path) -> None:
    made("good")
    bad = made("bad")
    (bad.directory / MANIFEST).write_bytes(b"\xff\xfe not JSON\n")
    with pytest.warns(UserWarning, match="bad is left out.*no manifest"):
        assert [dataset.name for dataset in own_datasets()] == ["good"]
    (directory_of("good")).rename(directory_of("other"))
    with pytest.warns(UserWarning, match="rename the folder"):
        assert own_datasets() == []


def test_folders_of_other_datasets_are_let_be(site: Path) -> None:
    directory_of("cbench-v1").mkdir(parents=True)
    (directory_of("cbench-v1") / "manifest.txt").write_text("crc32\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_datasets() == []


def test_changed_content_is_noticed() -> None:
    dataset = made()
    (dataset.directory / CONTENT / manifest_lines(dataset)[1]["module"]).write_bytes(b"BC\xc0\xde, but other")
    with pytest.raises(BenchmarkInitError, match="is damaged"):
        _ = OwnDataset(dataset.directory).benchmark("src/0.c").content


def test_uninstall_removes_it_whole(site: Path) -> None:
    made().uninstall()
    assert own_datasets() == []
    assert list(directory_of("").iterdir()) == []


# ------------------------------------------------------------------------------------------------ writing one


@pytest.mark.parametrize("name", ["programs-v0", "user-v0"])
def test_names_of_other_datasets_are_refused(name: str) -> None:
    with pytest.raises(InstallError, match="choose another"):
        Draft(name)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "-x"])
def test_malformed_names_are_refused_and_leave_nothing(name: str, site: Path) -> None:
    with pytest.raises(InvalidBenchmarkUri):
        Draft(name)
    assert not site.exists()


@pytest.mark.parametrize("content", [b"INPUT(/etc/passwd)\n", b"!<thin>\n/etc/passwd", b""])
def test_what_is_packed_to_be_linked_must_be_machine_code(tmp_path: Path, content: bytes) -> None:
    dataset = made(linked=content)
    with tarfile.open(tmp_path / "mine.tar.xz", "w:xz") as archive:
        archive.add(dataset.directory, dataset.name)
    with pytest.raises(InstallError, match="is no object code"):
        add(tmp_path / "mine.tar.xz", replace=True)


def test_what_was_measured_goes_with_the_programs() -> None:
    dataset = made(count=3)
    index = DatasetIndex.of(dataset)
    index.record([IndexRow(str(dataset.uri_at(0)), 0, "LLVM 22")])
    assert index.exists
    made(count=2, replace=True)
    assert not index.exists
    index.record([IndexRow(str(dataset.uri_at(0)), 0, "LLVM 22")])
    made(replace=True).uninstall()
    assert not index.exists


def test_name_that_no_folder_can_have_is_refused(site: Path) -> None:
    with pytest.raises(InstallError, match="its name has 300 letters"):
        Draft("x" * 300)
    assert not site.exists()


def test_dataset_is_replaced_only_when_asked() -> None:
    made()
    with pytest.raises(InstallError, match="--replace"):
        made()
    assert made(count=3, replace=True).size == 4
    assert [path.name for path in directory_of("").iterdir()] == ["mine"]


def test_unfinished_draft_leaves_nothing() -> None:
    with pytest.raises(KeyboardInterrupt), Draft("mine") as draft:
        draft.keep(b"something")
        raise KeyboardInterrupt
    assert list(directory_of("").iterdir()) == []


def test_what_is_not_needed_is_not_kept() -> None:
    with Draft("mine") as draft:
        other = draft.keep(b"other")
        dataset = draft.finish([Program(path="a.c", module=draft.keep(compile_source(SOURCE)), language="c")])
    assert other not in os.listdir(dataset.directory / CONTENT)


# ---------------------------------------------------------------------------------------- manifests of others


def tree_of(line: dict[str, Any]) -> dict[str, Any]:
    """Give a program a tree, and return that."""
    line["tree"] = {"units": ["a.c"], "files": {"a.c": next(iter(line["sources"].values()))}}
    return line["tree"]


CHANGES: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "another format": (lambda lines: lines[0].update(format="zip"), "its format is 'zip'"),
    "a later version": (lambda lines: lines[0].update(version=2), "made by a newer aiocg"),
    "a name with a slash": (lambda lines: lines[0].update(name="../x"), "cannot be one of a dataset"),
    "too few programs": (lambda lines: lines.pop(), "lists 1 programs, and says 2"),
    "the same program twice": (lambda lines: lines[2].update(path="app"), "is there twice"),
    "a path out of the dataset": (lambda lines: lines[2].update(path="../../x"), "'..'"),
    "a module that is no hash": (lambda lines: lines[1].update(module="../../etc/passwd"), "line 2 is damaged"),
    "a source out of the folder": (lambda lines: lines[2].update(sources={"/etc/x": "0" * 64}), "below a folder"),
    "an input out of the folder": (
        lambda lines: lines[1]["runs"][0].update(files={"../x": "0" * 64}),
        "below a folder",
    ),
    "a member that is not there": (lambda lines: lines[1].update(members=["b.c"]), "consists of 'b.c'"),
    "a plugin of the linker": (lambda lines: lines[1]["link"].update(words=["-Wl,-plugin,/tmp/x.so"]), "may not link"),
    "a plugin of clang": (lambda lines: lines[1]["link"].update(words=["-fplugin=/tmp/x.so"]), "may not link"),
    "a linker of one's own": (lambda lines: lines[1]["link"].update(words=["-fuse-ld=/tmp/x"]), "may not link"),
    "a file to overwrite": (lambda lines: lines[1]["link"].update(words=["-o", "/home/me/.bashrc"]), "may not link"),
    "a response file": (lambda lines: lines[1]["link"].update(words=["@/tmp/x"]), "may not link"),
    "an object named like an option": (
        lambda lines: lines[1]["link"].update(words=["-o.o"], files={"-o.o": "0" * 64}),
        "cannot be the name of an object",
    ),
    "a header out of the folder": (
        lambda lines: tree_of(lines[2])["files"].update({"../x.h": "0" * 64}),
        "below a folder",
    ),
    "a folder out of the folder": (lambda lines: tree_of(lines[2]).update(include=["/etc"]), "below a folder"),
    "a unit that is not there": (lambda lines: tree_of(lines[2]).update(units=["b.c"]), "'b.c' is not there"),
    "a plugin of a compiler": (lambda lines: tree_of(lines[2]).update(flags=["-fplugin=x"]), "may not be compiled"),
    "a file to include": (lambda lines: tree_of(lines[2]).update(flags=["-include", "/etc/x"]), "is not in it"),
    "a program for a compiler": (lambda lines: tree_of(lines[2]).update(flags=["-wrapper", "sh"]), "may not be comp"),
    "an unknown language": (lambda lines: lines[1].update(language="rust"), "line 2 is damaged"),
    "no time for a run": (lambda lines: lines[1]["runs"][0].update(timeout=0), "has no time"),
    "an argument that cannot be": (lambda lines: lines[1]["runs"][0].update(arguments=["a\0b"]), "no program can"),
    "a variable that cannot be": (lambda lines: lines[1]["runs"][0].update(environment={"A=B": ""}), "no program can"),
    "an exit status that cannot be": (lambda lines: lines[1]["runs"][0].update(exit_status=10**30), "is damaged"),
    "a measured run that is not there": (lambda lines: lines[1].update(measured="two"), "names of its runs"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_manifest_is_refused_for(change: str) -> None:
    dataset = made()
    lines = manifest_lines(dataset)
    damage, message = CHANGES[change]
    damage(lines)
    write_manifest(dataset, lines)
    with pytest.raises(InstallError, match=message):
        _ = OwnDataset(dataset.directory).programs


HARMLESS = """
    -lm -l:libz.a -pthread -L/opt/x/lib /usr/lib/libz.so.1 -Wl,--gc-sections,-O1 -Wl,-rpath,/opt/x -u_start
"""
HARMFUL = """
    -B/tmp -Wl,-T,x.ld -Wl,-o,x -wrapper -specs=x -Wl,--gc-sections,-plugin=x x.o -L. -Wl,-z,x,-o,y @f
"""


def test_usual_options_of_links_are_harmless_and_others_are_not() -> None:
    assert [word for word in HARMLESS.split() if not is_harmless(word)] == []
    assert [word for word in HARMFUL.split() if is_harmless(word)] == []


# -------------------------------------------------------------------------------------------------- one file


@pytest.mark.parametrize("suffix", [".tar.xz", ".tar.gz", ".tar.bz2"])
def test_packed_dataset_is_the_same_elsewhere(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(count=3)
    file = pack(before, tmp_path / f"mine{suffix}")
    again = pack(before, tmp_path / f"again{suffix}")
    if suffix != ".tar.gz":  # which has the time in it
        assert file.read_bytes() == again.read_bytes()
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "elsewhere"))
    assert own_datasets() == []
    after = add(file)
    assert after.directory == directory_of("mine")
    assert after.programs == before.programs
    assert [b.content for b in after] == [b.content for b in before]
    assert default_datasets()["mine"].size == 4
    assert sorted(path.name for path in directory_of("").iterdir()) == ["mine"]
    with pytest.raises(InstallError, match="--replace"):
        add(file)
    assert add(file, replace=True).size == 4


def test_file_of_another_kind_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"must end in one of \.tar\.xz"):
        pack(made(), tmp_path / "mine.zip")
    with pytest.raises(InstallError, match="cannot be written"):
        pack(own_dataset("mine"), tmp_path / "no such folder" / "mine.tar.xz")
    with pytest.raises(BenchmarkNotFound, match="no dataset of your own named 'yours'"):
        own_dataset("yours")


def test_damaged_dataset_is_not_packed(tmp_path: Path) -> None:
    dataset = made()
    (dataset.directory / CONTENT / manifest_lines(dataset)[1]["module"]).unlink()
    with pytest.raises(InstallError, match="is damaged"):
        pack(dataset, tmp_path / "mine.tar.xz")
    assert not list(tmp_path.glob("*.tar.xz"))


def packed(path: Path, members: dict[str, bytes], **links: str) -> Path:
    """Write a tar archive by hand."""
    with tarfile.open(path, "w:xz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return path


def members_of(dataset: OwnDataset) -> dict[str, bytes]:
    paths = [path for path in dataset.directory.rglob("*") if path.is_file()]
    return {f"mine/{path.relative_to(dataset.directory)}": path.read_bytes() for path in paths}


def test_foreign_and_hostile_files_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    dataset = made()
    good = members_of(dataset)
    dataset.uninstall()
    module = next(name for name, content in good.items() if content.startswith(b"BC"))
    archive = tmp_path / "x.tar.xz"
    cases: list[tuple[dict[str, bytes], dict[str, str], str]] = [
        ({"readme.txt": b"hello"}, {}, "no dataset that `aiocg dataset pack` has written"),
        ({**good, "other/x": b""}, {}, "no dataset that"),
        ({**good, "mine/evil.sh": b"rm"}, {}, "does not belong"),
        ({**good, module: b"BC\xc0\xde other"}, {}, "has another content"),
        ({name: content for name, content in good.items() if name != module}, {}, "No such file"),
        ({**good, "../../evil": b"x"}, {}, "evil"),
        ({**good, "/tmp/evil-aiocg": b"x"}, {}, "evil"),
        (good, {"mine/link": "/etc/passwd"}, "link"),
    ]
    for members, links, message in cases:
        with pytest.raises(InstallError, match=message):
            add(packed(archive, members, **links))
        assert list(directory_of("").iterdir()) == []
        assert not Path("/tmp/evil-aiocg").exists()
    archive.write_bytes(b"this is no archive")
    with pytest.raises(InstallError):
        add(archive)
    with pytest.raises(InstallError, match="no such file"):
        add(tmp_path / "none.tar.xz")
    assert list(directory_of("").iterdir()) == []
    assert add(packed(archive, good)).size == 2


def test_file_that_is_refused_is_named_and_not_where_it_was_unpacked(tmp_path: Path) -> None:
    dataset = made()
    lines = manifest_lines(dataset)
    lines[0]["version"] = 2
    write_manifest(dataset, lines)
    with pytest.raises(InstallError, match=r"cannot install .*new\.tar\.xz: its format has version 2.*newer") as caught:
        add(packed(tmp_path / "new.tar.xz", members_of(dataset)))
    assert str(directory_of("")) not in str(caught.value)


def test_name_of_a_shipped_dataset_is_not_taken_by_a_file(tmp_path: Path) -> None:
    dataset = made()
    lines = manifest_lines(dataset)
    lines[0]["name"] = "programs-v0"
    write_manifest(dataset, lines)
    archive = packed(tmp_path / "x.tar.xz", members_of(dataset))
    with pytest.raises(InstallError, match="not of your own has this name"):
        add(archive, replace=True)


def test_packing_and_adding_can_be_cancelled(tmp_path: Path) -> None:
    dataset = made()
    file = pack(dataset, tmp_path / "mine.tar.xz")
    dataset.uninstall()
    event = threading.Event()
    event.set()
    with cancellable(event), pytest.raises((Cancelled, DatasetError)):
        add(file)
    assert list(directory_of("").iterdir()) == []
    assert (
        hashlib.sha256(pack(add(file), tmp_path / "again.tar.xz").read_bytes()).digest()
        == hashlib.sha256(file.read_bytes()).digest()
    )
