"""Unpacking archives of all formats: good ones, damaged ones, and those that want to do harm."""

import bz2
import gzip
import io
import lzma
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from aiocg.datasets import archive as module
from aiocg.datasets.archive import unpack
from aiocg.datasets.errors import InstallError
from aiocg.datasets.process import Cancelled, cancellable

FORMATS = ("tar", "gz", "bz2", "xz")
GOOD = {"set/one.bc": b"one", "set/deep/two.bc": b"two" * 1000, "set/empty": b"", "other/three": b"three"}

SCRIPT = """
import sys
from pathlib import Path
from aiocg.datasets.archive import unpack
from aiocg.datasets.errors import DatasetError
try:
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
except DatasetError as error:
    print(type(error).__name__, error)
"""


ENDING = """
import os, sys
def end(event, arguments):
    if event == "open" and str(arguments[0]).endswith(sys.argv[3]):
        os.kill(os.getpid(), int(sys.argv[4]))
sys.addaudithook(end)
"""
"""Ends the process with a signal when it opens a file of this name."""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where archives are unpacked; what is beside it must not change."""
    (tmp_path / "installed").mkdir()
    return tmp_path / "installed" / "out"


def _member(name: str, content: bytes = b"", **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for attribute, value in attributes.items():
        setattr(member, attribute, value)
    return member, content


def _tar(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], kind: str = "gz") -> Path:
    with tarfile.open(path, f"w:{'' if kind == 'tar' else kind}") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


def _good(path: Path, kind: str, files: dict[str, bytes] = GOOD) -> Path:
    return _tar(path, (_member(name, content) for name, content in files.items()), kind)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if not path.is_dir()}


def _left(target: Path) -> list[str]:
    """Return what is beside the target, but for the lock."""
    return sorted(path.name for path in target.parent.iterdir() if not path.name.endswith(".lock"))


def _around(target: Path) -> list[Path]:
    return [path for path in sorted(target.parents[1].rglob("*")) if not path.name.endswith(".lock")]


def _refused(archive: Path, target: Path, words: str | None = None) -> str:
    """Unpack what must not be; return the message."""
    around = _around(target)
    with pytest.raises(InstallError, match=words) as caught:
        unpack(archive, target)
    assert _left(target) == []
    assert _around(target) == around
    assert archive.name in str(caught.value)
    return str(caught.value)


# ----------------------------------------------------------------------------------------------------- good ones


@pytest.mark.parametrize("kind", FORMATS)
def test_an_archive_is_unpacked_whatever_its_name(tmp_path: Path, target: Path, kind: str) -> None:
    unpack(_good(tmp_path / "archive", kind), target)
    assert _files(target) == GOOD
    assert _left(target) == ["out"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("prefix", ["set", "./set/"])
def test_only_what_is_below_the_prefix_is_unpacked(tmp_path: Path, target: Path, kind: str, prefix: str) -> None:
    unpack(_good(tmp_path / "archive", kind), target, strip_prefix=prefix)
    assert _files(target) == {"one.bc": b"one", "deep/two.bc": b"two" * 1000, "empty": b""}


@pytest.mark.parametrize("kind", FORMATS)
def test_an_archive_without_files_is_refused(tmp_path: Path, target: Path, kind: str) -> None:
    assert "no file in it" in _refused(_good(tmp_path / "archive", kind, {}), target)
    good = _good(tmp_path / "archive", kind)
    with pytest.raises(InstallError, match="no file in it below 'nowhere'"):
        unpack(good, target, strip_prefix="nowhere")


def test_what_is_there_already_stays(tmp_path: Path, target: Path) -> None:
    target.mkdir()
    unpack(tmp_path / "nonexistent", target)
    assert _files(target) == {}


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_several_compressed_parts_are_one(tmp_path: Path, target: Path, kind: str) -> None:
    content = _good(tmp_path / "archive.tar", "tar").read_bytes()
    compress: Callable[[bytes], bytes] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind]
    (tmp_path / "archive").write_bytes(compress(content[:700]) + compress(content[700:]))
    unpack(tmp_path / "archive", target)
    assert _files(target) == GOOD


def test_long_names_are_unpacked(tmp_path: Path, target: Path) -> None:
    name = "/".join(["ä" * 100] * 5)
    for number, layout in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        with tarfile.open(tmp_path / f"{number}", "w:gz", format=layout) as archive:
            archive.addfile(_member(name, b"x")[0], io.BytesIO(b"x"))
        unpack(tmp_path / f"{number}", target.with_name(f"out{number}"))
        assert _files(target.with_name(f"out{number}")) == {name: b"x"}


def test_an_archive_as_github_makes_it_is_unpacked(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "archive"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": "d8034ac"}) as archive:
        archive.addfile(_member("set-d8034ac", type=tarfile.DIRTYPE)[0])
        archive.addfile(_member("set-d8034ac/file", b"x")[0], io.BytesIO(b"x"))
    unpack(path, target, strip_prefix="set-d8034ac")
    assert _files(target) == {"file": b"x"}


def test_of_modes_only_executable_is_taken(tmp_path: Path, target: Path) -> None:
    archive = _tar(
        tmp_path / "archive",
        [
            _member("program", b"x", mode=0o6777),
            _member("data", b"x", mode=0o4),
            _member("folder", type=tarfile.DIRTYPE, mode=0o2000),
            _member("folder/file", b"x", mode=0o1666),
        ],
    )
    before = os.umask(0o022)
    try:
        unpack(archive, target)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*")}
    assert modes == {"program": 0o755, "data": 0o644, "folder": 0o755, "file": 0o644}
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


def test_links_within_the_archive_become_files(tmp_path: Path, target: Path) -> None:
    archive = _tar(
        tmp_path / "archive",
        [
            _member("set/a/early", type=tarfile.SYMTYPE, linkname="../b/./file"),
            _member("set/a/chain", type=tarfile.SYMTYPE, linkname="early"),
            _member("set/b/file", b"content"),
            _member("set/hard", type=tarfile.LNKTYPE, linkname="set/b/file"),
            _member("set/folder", type=tarfile.SYMTYPE, linkname="b"),
            _member("set/nothing", type=tarfile.SYMTYPE, linkname="missing"),
            _member("set/itself", type=tarfile.SYMTYPE, linkname="itself"),
            _member("set/elsewhere", type=tarfile.SYMTYPE, linkname="../other"),
            _member("other", b"other"),
        ],
    )
    unpack(archive, target, strip_prefix="set")
    assert _files(target) == dict.fromkeys(("a/early", "a/chain", "b/file", "hard"), b"content")
    assert not any(path.is_symlink() for path in target.rglob("*"))


# ---------------------------------------------------------------------------------------------------- hostile ones

OUT = "leads out of the archive"
LINK_OUT = "which is not in the archive"
STRANGE = "in its name"
OTHER = "neither a file nor a folder"
DEEP = "lies more than 100 folders deep"
TWICE = "stands where another one is"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([_member("/tmp/evil", b"x")], OUT),
        ([_member("../evil", b"x")], OUT),
        ([_member("a/../../evil", b"x")], OUT),
        ([_member("a/..", type=tarfile.DIRTYPE)], OUT),
        ([_member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd")], LINK_OUT),
        ([_member("a/link", type=tarfile.SYMTYPE, linkname="../../evil")], LINK_OUT),
        ([_member("a/link", type=tarfile.SYMTYPE, linkname="../b/../../set/evil")], LINK_OUT),
        ([_member("link", type=tarfile.LNKTYPE, linkname="/etc/passwd")], OUT),
        ([_member("link", type=tarfile.LNKTYPE, linkname="../evil")], OUT),
        ([_member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], OTHER),
        ([_member("device", type=tarfile.BLKTYPE, devmajor=1, devminor=3)], OTHER),
        ([_member("pipe", type=tarfile.FIFOTYPE)], OTHER),
        ([_member("a\nb", b"x")], STRANGE),
        ([_member("a\x1b[2Jb", b"x")], STRANGE),
        ([_member("a", b"x", pax_headers={"path": "a\0b"})], STRANGE),
        ([_member("a\udcff", b"x")], STRANGE),
        ([_member("/".join("a" * 101), type=tarfile.DIRTYPE)], DEEP),
        ([_member("/".join("a" * 5000), b"x")], DEEP),
        ([_member("a", b"x"), _member("a", b"y")], TWICE),
        ([_member("a", b"x"), _member("./a", b"y")], TWICE),
        ([_member("a", b"x"), _member("a/b", b"y")], TWICE),
        ([_member("a/b", b"x"), _member("a", b"y")], TWICE),
        ([_member("a", b"x"), _member("a", type=tarfile.DIRTYPE)], TWICE),
        ([_member("a", b"x"), _member("a", type=tarfile.SYMTYPE, linkname="b"), _member("b", b"y")], TWICE),
    ],
)
def test_a_hostile_tar_is_refused(
    tmp_path: Path, target: Path, members: list[tuple[tarfile.TarInfo, bytes]], words: str
) -> None:
    last = members[-1][0]
    message = _refused(_tar(tmp_path / "archive", [_member("good", b"x"), *members]), target, words)
    assert words == TWICE or f"its member {last.pax_headers.get('path', last.name)!r}" in message


def test_a_hundred_folders_may_lie_in_each_other(tmp_path: Path, target: Path) -> None:
    name = "/".join("a" * 100)
    unpack(_tar(tmp_path / "archive", [_member(name, b"x")]), target)
    assert _files(target) == {name: b"x"}


def test_nothing_is_written_through_a_link(tmp_path: Path, target: Path) -> None:
    members = [
        _member("here", type=tarfile.SYMTYPE, linkname="."),
        _member("here/up", type=tarfile.SYMTYPE, linkname=".."),
        _member("here/up/installed", b"x"),
        _member("here/up/../file", b"x"),
    ]
    _refused(_tar(tmp_path / "archive", members), target, OUT)
    unpack(_tar(tmp_path / "archive", members[:-1]), target)
    assert _files(target) == {"here/up/installed": b"x"}
    assert _left(target) == ["out"]


def test_a_sparse_file_is_refused(tmp_path: Path, target: Path) -> None:
    member = _member("sparse", b"", pax_headers={"GNU.sparse.size": "1000000000000", "GNU.sparse.map": "0,0"})
    _refused(_tar(tmp_path / "archive", [member]), target, OTHER)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_bomb_is_refused(tmp_path: Path, target: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HARMLESS", 1 << 20)
    files = {"small": b"x", **{f"zeros{number}": bytes(1 << 20) for number in range(20)}}
    archive = _good(tmp_path / "archive", kind, files)
    if kind == "tar":
        unpack(archive, target)  # it is as large as what comes out of it
    else:
        monkeypatch.setattr(module, "LARGEST_RATIO", 100)
        message = _refused(archive, target, "no honest one")
        assert "zeros" in message


@pytest.mark.slow
def test_a_header_that_fills_the_memory_is_refused(tmp_path: Path, target: Path) -> None:
    member = _member("a", b"x", pax_headers={"comment": "x" * (64 << 20)})
    archive = _tar(tmp_path / "archive", [member])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _refused(archive, target, "a header of")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB


def test_an_archive_that_would_fill_the_disk_is_refused(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESERVE", 1 << 60)
    _refused(_good(tmp_path / "archive", "gz"), target, "bytes of the disk free")


# ---------------------------------------------------------------------------------------------------- damaged ones


@pytest.mark.parametrize("kind", FORMATS)
def test_a_truncated_archive_is_refused(tmp_path: Path, target: Path, kind: str) -> None:
    whole = _good(tmp_path / "whole", kind, {f"{n}": random.Random(n).randbytes(700) for n in range(5)}).read_bytes()
    if kind == "tar":
        whole = whole[: 5 * 1536 + 512]  # without what is only padding
    for length in {0, 1, 6, 511, 512, 1536, len(whole) - 1, len(whole) - 9, *range(7, len(whole), 397)}:
        (tmp_path / "archive").write_bytes(whole[: min(length, len(whole) - 1)])
        _refused(tmp_path / "archive", target)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_archive_is_refused_or_unpacked_in_its_place(tmp_path: Path, target: Path, kind: str) -> None:
    whole = _good(tmp_path / "archive", kind).read_bytes()
    end = whole.rstrip(b"\0")
    rng = random.Random(kind)
    refused = 0
    for _ in range(80):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            content[rng.randrange(len(end))] = rng.randrange(256)
        (tmp_path / "archive").write_bytes(content)
        try:
            unpack(tmp_path / "archive", target)
        except InstallError:
            refused += 1
            assert _left(target) == []
        else:
            target.rename(tmp_path / "done")
            _remove(tmp_path / "done")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "installed"]
    assert refused > (5 if kind == "tar" else 40)  # a tar has checksums of its headers only


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_a_wrong_checksum_at_the_end_is_found(tmp_path: Path, target: Path) -> None:
    content = bytearray(_good(tmp_path / "archive", "gz").read_bytes())
    content[-6] ^= 1
    (tmp_path / "archive").write_bytes(content)
    _refused(tmp_path / "archive", target, "CRC")


def test_a_header_damaged_in_the_middle_is_not_taken_for_the_end(tmp_path: Path, target: Path) -> None:
    content = bytearray(_tar(tmp_path / "archive", [_member("a", b"x"), _member("b", b"x")], "tar").read_bytes())
    content[1024] ^= 1
    (tmp_path / "archive").write_bytes(content)
    assert "'a' or what follows it is damaged" in _refused(tmp_path / "archive", target)


def test_what_is_no_archive_is_refused(tmp_path: Path, target: Path) -> None:
    (tmp_path / "archive").write_bytes(b"<p>Please log in</p>" * 100)
    _refused(tmp_path / "archive", target, "its beginning")


# ------------------------------------------------------------------------------------------------ disks and processes


def _large(path: Path) -> Path:
    return _tar(path, (_member(f"d{n // 100}/f{n}", b"content") for n in range(500)), "tar")


def test_when_the_disk_is_full_nothing_is_left(tmp_path: Path, target: Path) -> None:
    archive = _good(tmp_path / "archive", "gz", {"small": b"x", "large": bytes(200_000)})
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    command = [sys.executable, "-B", "-P", "-c", limit + SCRIPT, str(archive), str(target)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith("InstallError")
    assert "File too large" in output
    assert "AIOCG_SITE_DATA" in output
    assert _left(target) == []


@pytest.mark.parametrize("reserve", [64 << 20, 0])
def test_a_disk_that_is_too_small_is_left_as_it_was(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, reserve: int
) -> None:
    archive = _good(tmp_path / "archive", "gz", {"small": b"x", "large": bytes(2 << 20)})
    monkeypatch.setattr(module, "RESERVE", reserve)
    with pytest.raises(InstallError, match="of the disk free" if reserve else "No space left on device"):
        unpack(archive, small_disk / "out")
    assert _left(small_disk / "out") == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InstallError, match="AIOCG_SITE_DATA"):
        unpack(_good(tmp_path / "archive", "gz"), tmp_path / "file" / "out")


class _Countdown(threading.Event):
    """An event that is set when it has been looked at so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        """Count one look."""
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("kind", FORMATS)
def test_cancelling_leaves_nothing(tmp_path: Path, target: Path, kind: str) -> None:
    archive = _good(tmp_path / "archive", kind)
    for looks in range(6):
        with cancellable(_Countdown(looks)), pytest.raises(Cancelled):
            unpack(archive, target)
        assert _left(target) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path: Path, target: Path, end: int) -> None:
    archive = _large(tmp_path / "archive")
    command = [sys.executable, "-P", "-c", ENDING + SCRIPT, str(archive), str(target), "/d2/f250", str(int(end))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        pass
    assert process.returncode in (-signal.SIGKILL, -signal.SIGINT)
    assert not target.exists()
    assert target.with_name(".new-out").exists() == (end == signal.SIGKILL)
    unpack(_good(tmp_path / "archive", "gz"), target)
    assert _left(target) == ["out"]
    assert _files(target) == GOOD


@pytest.mark.slow
def test_of_several_processes_one_unpacks(tmp_path: Path, target: Path) -> None:
    archive = _large(tmp_path / "archive")
    command = [sys.executable, "-P", "-c", SCRIPT, str(archive), str(target)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == [b""] * 3
    assert len(_files(target)) == 500
    assert _left(target) == ["out"]
