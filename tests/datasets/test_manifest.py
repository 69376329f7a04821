"""Lists of names that stay on the disk."""

import bz2
import gzip
import lzma
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiocg.datasets._manifest import Manifest
from aiocg.datasets.errors import CacheError, CacheWarning, InstallError
from aiocg.datasets.process import Cancelled, cancellable

NAMES = ["BZh9", "b", "a", "deep/er/ä", "b c", "z" * 300, "last"]


def _manifest(folder: Path, names: list[str]) -> Manifest:
    path = folder / f"names-{len(list(folder.iterdir()))}"
    path.write_bytes("".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"))
    return Manifest.read(path)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_names_are_read_in_their_order(tmp_path: Path, own_cache: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "names"
    path.write_bytes(compress("\n".join(NAMES).encode()))
    for manifest in (Manifest.read(path), Manifest.read(path)):  # built, and found in the cache
        assert len(manifest) == len(NAMES)
        assert list(manifest) == NAMES
        assert [manifest[index] for index in range(len(NAMES))] == NAMES
        assert manifest[-1] == "last"
        assert manifest[1:-1] == NAMES[1:-1]
        assert all(name in manifest for name in NAMES)
        assert [manifest.index(name) for name in NAMES] == list(range(len(NAMES)))
        for missing in ("", "c", "a\n", "\ud800", "a\0", 7):
            assert missing not in manifest
        for index in (len(NAMES), -len(NAMES) - 1):
            with pytest.raises(IndexError):
                manifest[index]
        with pytest.raises(ValueError):
            manifest.index("c")


def test_empty_lines_and_carriage_returns_do_not_count(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "names"
    path.write_bytes(b"\r\n\na\r\n\n\nb\r\n\n")
    assert list(Manifest.read(path)) == ["a", "b"]


def test_an_empty_list_is_one(tmp_path: Path, own_cache: Path) -> None:
    manifest = _manifest(tmp_path, [])
    assert (len(manifest), list(manifest), "a" in manifest, manifest.near("a")) == (0, [], False, [])


NAME = st.binary(min_size=1, max_size=6).filter(lambda name: not set(name) & set(b"\r\n\x1f\xfd"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAME, max_size=30))
def test_a_list_of_any_names_behaves_like_a_list(tmp_path: Path, own_cache: Path, raw: list[bytes]) -> None:
    names = [name.decode("utf-8", "surrogateescape") for name in raw]
    manifest = _manifest(tmp_path, names)
    assert list(manifest) == names
    assert manifest[:] == names
    assert all(manifest.index(name) == names.index(name) for name in names)
    assert not any(name + "!" in manifest for name in names if name + "!" not in names)


def test_names_with_equal_checksums_are_told_apart(tmp_path: Path, own_cache: Path) -> None:
    manifest = _manifest(tmp_path, ["plumless", "buckeroo"])  # both have the CRC-32 0x4DDB0C25
    assert [manifest.index(name) for name in ("plumless", "buckeroo")] == [0, 1]
    assert "buckeroo" not in _manifest(tmp_path, ["plumless"])


def test_a_changed_file_is_read_again(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "names"
    path.write_text("a\n")
    before = Manifest.read(path)
    path.write_text("b\nc\n")
    assert list(Manifest.read(path)) == ["b", "c"]
    assert list(before) == ["a"]


@pytest.mark.parametrize("length", [0, 10, -1])
def test_an_index_that_is_not_complete_is_built_again(tmp_path: Path, own_cache: Path, length: int) -> None:
    path = tmp_path / "names"
    path.write_text("a\nb\n")
    Manifest.read(path)
    (index,) = (own_cache / "manifests").iterdir()
    index.write_bytes(index.read_bytes()[:length])
    assert list(Manifest.read(path)) == ["a", "b"]
    assert [child.name for child in (own_cache / "manifests").iterdir()] == [index.name]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_file_is_named(tmp_path: Path, own_cache: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "names"
    path.write_bytes(compress(b"a\nb\n" * 1000)[:-10])
    with pytest.raises(InstallError, match=str(path)):
        Manifest.read(path)
    assert list((own_cache / "manifests").iterdir()) == []
    with pytest.raises(InstallError, match="No such file"):
        Manifest.read(tmp_path / "missing")


def test_without_a_cache_it_works_after_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names").write_text("a\nb\n")
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "names" / "cache"))
    with pytest.warns(CacheWarning, match="AIOCG_CACHE"):
        assert list(Manifest.read(tmp_path / "names")) == ["a", "b"]


def test_a_full_disk_is_named(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "names").write_text("name\n" * 10_000)
    script = (
        "import resource, sys; from pathlib import Path; from aiocg.datasets._manifest import Manifest\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: Manifest.read(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-B", "-P", "-c", script, str(tmp_path / "names")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith(CacheError.__name__)
    assert list((own_cache / "manifests").iterdir()) == []


def test_reading_can_be_cancelled(tmp_path: Path, own_cache: Path) -> None:
    stop = threading.Event()
    stop.set()
    with cancellable(stop), pytest.raises(Cancelled):
        _manifest(tmp_path, NAMES)
    assert list((own_cache / "manifests").iterdir()) == []


@pytest.mark.slow
def test_near_names_are_found_after_one_slip(tmp_path: Path, own_cache: Path) -> None:
    rng = random.Random(7)
    parts = ["parse", "alloc", "buffer", "init", "driver", "kernel"]
    names = [f"{rng.choice(parts)}/{rng.choice(parts)}/{rng.choice(parts)}_{rng.randrange(10**6)}" for _ in range(3000)]
    manifest = _manifest(tmp_path, names)
    for name in names[::300]:
        last = name.rindex("/") + 1
        for place in range(last, len(name)):
            assert manifest.near(f"{name[:place]}?{name[place + 1 :]}")[0] == name
    assert manifest.near("?") == []


@pytest.mark.slow
def test_a_million_names_take_little_memory_and_time(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "names"
    path.write_text("".join(f"some/path/of/a/name/{number * 7919 % 1_041_333}\n" for number in range(1_041_333)))
    script = (
        "import resource, sys, time; from pathlib import Path; import numpy\n"
        "from aiocg.datasets._manifest import Manifest\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before, begun = peak(), time.process_time()\n"
        "manifest = Manifest.read(Path(sys.argv[1]))\n"
        "built = time.process_time() - begun\n"
        "assert len(manifest) == 1_041_333 and manifest[1_041_332].endswith('/1033414')\n"
        "assert all(f'some/path/of/a/name/{number}' in manifest for number in range(0, 1_041_333, 1000))\n"
        "assert 'some/path/of/a/name/1041333' not in manifest\n"
        "print(built, peak() - before)"
    )
    command = [sys.executable, "-P", "-c", script, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(output[0]) < 3  # seconds of the processor; 0.7 where this was written
    assert int(output[1]) < 150 << 10  # KiB, with what is mapped of 60 MB
