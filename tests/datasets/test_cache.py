import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs
import pytest

from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.errors import CacheError

KEY = "ab" + "0" * 62


def entry(directory: Path) -> Path:
    (file,) = (path for path in directory.rglob("*") if path.is_file())
    return file


def test_an_entry_is_read_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    assert cache.read(KEY) is None
    cache.write(KEY, b"payload\n\0")
    cache.write(KEY, b"another")
    assert Cache(tmp_path / "new").read(KEY) == b"another"


@pytest.mark.parametrize("damage", [b"", b"aiocg", b"x" * 100, None])
def test_a_damaged_entry_is_no_entry(tmp_path: Path, damage: bytes | None) -> None:
    cache = Cache(tmp_path)
    cache.write(KEY, b"payload")
    file = entry(tmp_path)
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    assert cache.read(KEY) is None
    cache.write(KEY, b"payload")
    assert cache.read(KEY) == b"payload"


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write(KEY, b"payload")
    file = entry(tmp_path)
    good = file.read_bytes()
    for position in range(len(good)):
        file.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        assert cache.read(KEY) is None
    file.write_bytes(good)
    assert cache.read(KEY) == b"payload"


def test_a_directory_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file/below", Path("/proc/aiocg")):
        with pytest.raises(CacheError, match="AIOCG_CACHE") as caught:
            Cache(directory).write(KEY, b"payload")
        assert str(directory) in caught.value.path
        assert Cache(directory).read(KEY) is None


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom aiocg.datasets.cache import Cache\n"
        "from aiocg.datasets.errors import CacheError\n"
        "cache = Cache(Path(sys.argv[1]))\ncache.write(sys.argv[2], b'old')\n"
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try: cache.write(sys.argv[2], bytes(1 << 20))\nexcept CacheError as error: print(error.reason)\n"
        "assert cache.read(sys.argv[2]) == b'old'\n"
    )
    command = [sys.executable, "-B", "-P", "-c", script, tmp_path, KEY]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == "File too large\n"
    assert Cache(tmp_path).read(KEY) == b"old"
    assert entry(tmp_path).stat().st_size < resource.getpagesize()


def test_the_environment_says_where_caches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.setenv("AIOCG_CACHE", "~/x")
    assert cache_directory() == Path.home() / "x"
    monkeypatch.setenv("AIOCG_CACHE", "")
    assert cache_directory() == platformdirs.user_cache_path("aiocg")


def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from aiocg.datasets.cache import Cache
        def die(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)
        os.link = os.replace = die
        Cache(Path(sys.argv[1])).write("ab" * 32, bytes(1 << 20))
    """)
    done = subprocess.run([sys.executable, "-P", "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    if left and not _has_unnamed_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    assert left == []


def _has_unnamed_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def test_without_unnamed_files_entries_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, **rest: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported", path)
        return real(path, flags, mode, **rest)

    monkeypatch.setattr(os, "open", refuse)
    cache = Cache(tmp_path)
    for payload in (b"one", b"two"):
        cache.write(KEY, payload)
        assert cache.read(KEY) == payload
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_without_proc_entries_are_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, *_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", source)

    monkeypatch.setattr(os, "link", refuse)
    Cache(tmp_path).write(KEY, b"payload")
    assert Cache(tmp_path).read(KEY) == b"payload"


def test_of_several_writers_of_one_entry_one_is_the_last(tmp_path: Path) -> None:
    cache, payloads = Cache(tmp_path), [bytes([number]) * 5000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(lambda payload: cache.write(KEY, payload), payloads))
            assert cache.read(KEY) in payloads
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
