"""Downloads from a server that does everything a server can do wrong, in processes that are killed meanwhile."""

import contextlib
import hashlib
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aiocg.datasets import download as module
from aiocg.datasets.download import download
from aiocg.datasets.errors import CacheError, DownloadError
from aiocg.datasets.process import Cancelled, cancellable

from .published_server import Misbehaviour, PublishedServer

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()

SCRIPT = """
import sys
from aiocg.datasets.download import download
from aiocg.datasets.errors import DatasetError
try:
    print(download(sys.argv[2:], sys.argv[1]))
except DatasetError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(autouse=True)
def folder(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file and what belongs to it lie in an empty cache; with short pauses."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return own_cache / "downloads" / SHA256


@pytest.fixture
def second_server() -> Iterator[PublishedServer]:
    """Another mirror."""
    with PublishedServer() as server:
        yield server


def _begin(folder: Path, content: bytes) -> None:
    """Leave what an earlier download has left."""
    folder.mkdir(parents=True)
    (folder / "set.bin.partial").write_bytes(content)


def _starts(server: PublishedServer) -> list[int | None]:
    return [request.start for request in server.requests]


def _size(folder: Path) -> int:
    """Return how much has come."""
    partial = folder / "set.bin.partial"
    return partial.stat().st_size if partial.exists() else 0


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _start(*urls: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-c", SCRIPT, SHA256, *urls]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# ------------------------------------------------------------------------------------------------------ the cache


def test_a_file_is_fetched_once(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT)
    path = download([url], SHA256)
    assert path == folder / "set.bin"
    assert path.read_bytes() == CONTENT
    assert download([url], SHA256) == path
    assert published_server.count() == 1
    assert [child.name for child in folder.iterdir() if child.suffix == ".partial"] == []


def test_a_damaged_file_in_the_cache_is_fetched_again(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT)
    path = download([url], SHA256)
    path.write_bytes(CONTENT[:-1] + b"?")
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 2


def test_the_name_in_the_cache_can_be_chosen(published_server: PublishedServer) -> None:
    url = published_server.publish("download?id=7", CONTENT)
    assert download([url], SHA256, file_name="set.tar.gz").name == "set.tar.gz"


# ------------------------------------------------------------------------------------------------------ addresses


def test_a_checksum_may_be_written_in_capitals(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT)
    assert download([url], SHA256.upper()) == download([url], SHA256) == folder / "set.bin"
    assert published_server.count() == 1


@pytest.mark.parametrize(
    ("address", "name"), [("a/..", "file"), ("%2e%2e", "file"), ("a%2f..%2f..%2fevil", "evil"), ("a/", "file")]
)
def test_no_address_leads_out_of_the_cache(tmp_path: Path, folder: Path, address: str, name: str) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / name).write_bytes(CONTENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIOCG_DATASET_MIRROR", str(tmp_path / "mirror"))
        assert download([f"https://one.example/{address}"], SHA256) == folder / name


def test_an_address_without_the_file_is_passed_over(published_server: PublishedServer) -> None:
    urls = [published_server.url("nowhere/set.bin"), published_server.publish("set.bin", CONTENT)]
    assert download(urls, SHA256).read_bytes() == CONTENT
    assert published_server.count() == 2


def test_an_address_that_sends_another_file_is_passed_over(
    published_server: PublishedServer, second_server: PublishedServer
) -> None:
    page = Misbehaviour(content=b"<p>Please log in</p>", headers={"Content-Type": "text/html"})
    urls = [published_server.publish("set.bin", CONTENT, page), second_server.publish("set.bin", CONTENT)]
    assert download(urls, SHA256).read_bytes() == CONTENT
    assert (published_server.count(), _starts(second_server)) == (1, [None])


def test_an_unreachable_address_is_passed_over(published_server: PublishedServer) -> None:
    urls = ["http://127.0.0.1:1/set.bin", "nonsense", published_server.publish("set.bin", CONTENT)]
    assert download(urls, SHA256).read_bytes() == CONTENT


def test_the_error_says_what_is_wrong_with_each_address(published_server: PublishedServer, folder: Path) -> None:
    page = Misbehaviour(content=b"<p>Please log in</p>", headers={"Content-Type": "text/html"})
    busy = published_server.publish("busy", CONTENT, Misbehaviour(status=503))
    login = published_server.publish("login", CONTENT, page)
    secret = published_server.url("gone").replace("http://", "http://me:secret@")
    with pytest.raises(DownloadError) as caught:
        download([busy, login, secret, "http://127.0.0.1:1/set.bin", "nonsense"], SHA256, file_name="set.bin")
    lines = caught.value.diagnostics.splitlines()
    assert len(lines) == 5
    assert "busy: 503" in lines[0]
    assert "another file: 20 bytes of text/html" in lines[1]
    assert "404" in lines[2]
    assert "secret" not in str(caught.value)
    assert "Connection refused" in lines[3]
    assert "Invalid URL" in lines[4]
    assert "AIOCG_DATASET_MIRROR" in caught.value.reason
    assert published_server.count("busy") == module.ATTEMPTS
    assert published_server.count("login") == published_server.count("gone") == 1
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_mirror_replaces_the_addresses(published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    published_server.publish("mine/set.bin", CONTENT)
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", f"{published_server.address}/mine/")
    download(["http://127.0.0.1:1/original/set.bin"], SHA256)
    assert [request.name for request in published_server.requests] == ["mine/set.bin"]


@pytest.mark.parametrize("written", [str, Path.as_uri])
def test_a_folder_can_be_the_mirror_even_offline(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[Path], str]
) -> None:
    _begin(folder, CONTENT[:1000])
    place = tmp_path / "a mirror"
    place.mkdir()
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", written(place))
    with pytest.raises(DownloadError, match="No such file"):
        download(["http://127.0.0.1:1/set.bin"], SHA256)
    (place / "set.bin").write_bytes(CONTENT)
    assert download(["http://127.0.0.1:1/set.bin"], SHA256).read_bytes() == CONTENT


def test_offline_only_the_cache_is_used(
    published_server: PublishedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = published_server.publish("set.bin", CONTENT)
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE") as caught:
        download([url], SHA256)
    assert str(folder / "set.bin") in caught.value.reason
    monkeypatch.delenv("AIOCG_OFFLINE")
    download([url], SHA256)
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 1


def test_a_proxy_is_used(published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    published_server.publish("http://example.invalid/set.bin", CONTENT)
    monkeypatch.setenv("http_proxy", published_server.address)
    assert download(["http://example.invalid/set.bin"], SHA256).read_bytes() == CONTENT


# ------------------------------------------------------------------------------------------------------- resuming


def test_a_download_goes_on_from_what_has_come(published_server: PublishedServer, folder: Path) -> None:
    _begin(folder, CONTENT[:123_456])
    download([published_server.publish("set.bin", CONTENT)], SHA256)
    assert _starts(published_server) == [123_456]


def test_what_is_whole_already_is_not_asked_for(published_server: PublishedServer, folder: Path) -> None:
    _begin(folder, CONTENT)
    assert download([published_server.publish("set.bin", CONTENT)], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 0


def test_a_wrong_file_is_fetched_twice_at_most(published_server: PublishedServer, folder: Path) -> None:
    _begin(folder, CONTENT[:1000])
    url = published_server.publish("set.bin", CONTENT[:-1] + b"?")
    with pytest.raises(DownloadError, match="another file"):
        download([url], SHA256)
    assert _starts(published_server) == [1000, None]


@pytest.mark.parametrize(
    ("beginning", "misbehaviour", "starts"),
    [
        pytest.param(CONTENT[:1000], Misbehaviour(ranges=False), [1000], id="without parts it is sent again"),
        pytest.param(b"?" + CONTENT[1:1000], None, [1000, None], id="a wrong beginning"),
        pytest.param(CONTENT + b"more", None, [len(CONTENT) + 4, None], id="too long a beginning"),
        pytest.param(CONTENT[:-1] + b"?", None, [len(CONTENT), None], id="a wrong end"),
        pytest.param(CONTENT[:5000], Misbehaviour(wrong_part=True), [5000, None], id="another part than asked for"),
    ],
)
def test_a_beginning_that_cannot_be_used_is_given_up_once(
    published_server: PublishedServer,
    folder: Path,
    beginning: bytes,
    misbehaviour: Misbehaviour | None,
    starts: list[int | None],
) -> None:
    _begin(folder, beginning)
    url = published_server.publish("set.bin", CONTENT, *([misbehaviour] if misbehaviour else []))
    assert download([url], SHA256).read_bytes() == CONTENT
    assert _starts(published_server) == starts


def test_what_one_mirror_began_another_one_finishes(
    published_server: PublishedServer, second_server: PublishedServer
) -> None:
    urls = [
        published_server.publish("set.bin", CONTENT, Misbehaviour(cut_after=131_072)),
        second_server.publish("set.bin", CONTENT),
    ]
    assert download(urls, SHA256).read_bytes() == CONTENT
    assert (_starts(published_server), _starts(second_server)) == ([None], [131_072])


def test_a_mirror_that_breaks_off_each_time_still_gives_the_file(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(cut_after=65_536))
    assert download([url], SHA256).read_bytes() == CONTENT
    assert _starts(published_server) == [None, 65_536, 131_072, 196_608, 262_144]


def test_breaking_off_does_not_count_while_the_file_comes_forward(
    published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ADVANCE", 16_384)
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(cut_after=16_384))
    monkeypatch.setattr(module, "CHUNK", 16_384)
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() > 3 * module.ATTEMPTS


def test_beginning_again_and_again_comes_to_an_end(
    published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ADVANCE", 16_384)
    turns = (Misbehaviour(ranges=False, cut_after=cut, times=1) for _ in range(50) for cut in (70_000, 140_000))
    url = published_server.publish("set.bin", CONTENT, *turns)
    with pytest.raises(DownloadError, match="broke off"):
        download([url], SHA256)
    assert published_server.count() < 2 * module.ATTEMPTS + 1


def test_a_content_length_that_is_too_great_does_no_harm(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(announced=100))
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 1


@pytest.mark.parametrize(
    "misbehaviour",
    [Misbehaviour(announced=-100), Misbehaviour(status=429, retry_after="100")],
    ids=["too small a content length", "busy"],
)
def test_another_address_is_asked_where_one_cannot_be_used(
    published_server: PublishedServer, second_server: PublishedServer, misbehaviour: Misbehaviour
) -> None:
    urls = [published_server.publish("set.bin", CONTENT, misbehaviour), second_server.publish("set.bin", CONTENT)]
    assert download(urls, SHA256).read_bytes() == CONTENT
    assert published_server.count() == 1


# -------------------------------------------------------------------------------------------------------- pausing


def test_a_busy_server_is_asked_again_when_it_says(published_server: PublishedServer) -> None:
    url = published_server.publish(
        "set.bin", CONTENT, Misbehaviour(status=429, retry_after="1", times=1), Misbehaviour(status=503, times=2)
    )
    begun = time.monotonic()
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 4
    assert time.monotonic() - begun >= 1


def test_all_pauses_together_are_bounded(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(status=429, retry_after="7200"))
    with pytest.raises(DownloadError, match="not to be asked again for 7200 seconds"):
        download([url], SHA256)
    assert published_server.count() == 1


def test_a_pause_may_be_a_date() -> None:
    assert module._retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert module._retry_after("7") == 7
    assert module._retry_after("soon") is None


@pytest.mark.few(1)
@pytest.mark.parametrize("stall_after", [-1, 0, 100_000])
def test_a_server_that_falls_silent_is_left(
    published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch, stall_after: int
) -> None:
    monkeypatch.setattr(module, "READ_TIMEOUT", 0.6)
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=stall_after, times=1))
    assert download([url], SHA256).read_bytes() == CONTENT
    assert published_server.count() == 2


def test_a_server_that_stays_silent_is_named(
    published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_TIMEOUT", 0.6)
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=-1))
    with pytest.raises(DownloadError, match="silent"):
        download([url], SHA256)
    assert published_server.count() == 2


# ------------------------------------------------------------------------------------------------------- stopping


def test_cancelling_stops_at_once_and_keeps_what_has_come(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=131_072, times=1))
    stop = threading.Event()

    def fetch() -> float:
        with cancellable(stop), pytest.raises(Cancelled):
            download([url], SHA256)
        return time.monotonic()

    with ThreadPoolExecutor() as pool:
        ended = pool.submit(fetch)
        _wait_until(lambda: _size(folder) == 131_072)
        asked = time.monotonic()
        stop.set()
        assert ended.result() - asked < 60
    assert (folder / "set.bin.partial").read_bytes() == CONTENT[:131_072]
    assert download([url], SHA256).read_bytes() == CONTENT
    assert _starts(published_server) == [None, 131_072]


def test_ctrl_c_stops_at_once_and_keeps_what_has_come(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=131_072, times=1))
    process = _start(url)
    _wait_until(lambda: _size(folder) == 131_072)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate()[1]
    assert time.monotonic() - begun < 60
    assert (folder / "set.bin.partial").read_bytes() == CONTENT[:131_072]


# ------------------------------------------------------------------------------------------------- several at once


def test_threads_fetch_once(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(pause=0.02))
    with ThreadPoolExecutor(6) as pool:
        paths = set(pool.map(lambda _: download([url], SHA256), range(6)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert published_server.count() == 1


def test_different_files_do_not_wait_for_each_other(published_server: PublishedServer) -> None:
    slow = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=1000))
    stop = threading.Event()

    def fetch() -> None:
        with cancellable(stop), contextlib.suppress(Cancelled):
            download([slow], SHA256)

    with ThreadPoolExecutor() as pool:
        ended = pool.submit(fetch)
        _wait_until(lambda: bool(published_server.count("set.bin")))
        download([published_server.publish("other", b"other")], hashlib.sha256(b"other").hexdigest())
        assert not ended.done()
        stop.set()


@pytest.mark.slow
def test_processes_fetch_once(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(pause=0.05))
    processes = [_start(url) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == [str(folder / "set.bin")] * 3
    assert published_server.count() == 1


@pytest.mark.slow
def test_when_the_process_that_fetches_is_killed_the_next_one_goes_on(
    published_server: PublishedServer, folder: Path
) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(stall_after=200_000, times=1))
    first = _start(url)
    _wait_until(lambda: _size(folder) > 100_000)
    second = _start(url)
    time.sleep(0.5)
    assert second.poll() is None
    first.kill()
    first.communicate()
    assert second.communicate()[0].strip() == str(folder / "set.bin")
    assert (folder / "set.bin").read_bytes() == CONTENT
    assert len(starts := _starts(published_server)) == 2
    assert (starts[1] or 0) > 100_000


# ----------------------------------------------------------------------------------------------------------- disks


def test_a_cache_that_cannot_be_written_is_named(
    published_server: PublishedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = published_server.publish("set.bin", CONTENT)
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError, match="AIOCG_CACHE"):
        download([url], SHA256)


def test_a_cache_that_is_read_only_is_used_and_named(
    published_server: PublishedServer,
    ordinary_user: Callable[[], contextlib.AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = published_server.publish("set.bin", CONTENT)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        cache = Path(name)
        cache.chmod(0o555)
        monkeypatch.setenv("AIOCG_CACHE", name)
        with ordinary_user(), pytest.raises(CacheError, match="Permission denied"):
            download([url], SHA256)
        cache.chmod(0o755)
        path = download([url], SHA256)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        cache.chmod(0o555)
        with ordinary_user():
            assert download([url], SHA256) == path
        path.parent.chmod(0o755)
        cache.chmod(0o755)
    assert published_server.count() == 1


def test_a_file_for_which_there_is_no_room_is_not_begun(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(announced=1 << 60))
    with pytest.raises(CacheError, match="are free"):
        download([url], SHA256)


def test_when_the_disk_is_full_nothing_is_left(published_server: PublishedServer, folder: Path) -> None:
    url = published_server.publish("set.bin", CONTENT)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    command = [sys.executable, "-B", "-P", "-c", limit + SCRIPT, SHA256, url]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith("CacheError")
    assert "File too large" in output
    assert [path.name for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("length", [True, False])
def test_a_disk_that_is_too_small_is_left_as_it_was(
    published_server: PublishedServer, small_disk: Path, monkeypatch: pytest.MonkeyPatch, length: bool
) -> None:
    content = bytes(2 << 20)
    url = published_server.publish("set.bin", content, Misbehaviour(length=length))
    monkeypatch.setenv("AIOCG_CACHE", str(small_disk))
    with pytest.raises(CacheError, match="are free" if length else "No space left on device"):
        download([url], hashlib.sha256(content).hexdigest())
    assert sum(path.stat().st_size for path in small_disk.rglob("*") if path.is_file()) == 0


# -------------------------------------------------------------------------------------------------------- terminal


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is(published_server: PublishedServer) -> None:
    url = published_server.publish("set.bin", CONTENT, Misbehaviour(pause=0.05))
    script = "import aiocg.datasets.progress as p; p.PATIENCE = 0.2\n" + SCRIPT
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-P", "-c", script, SHA256, url]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment):
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # so ends what a terminal shows
            while data := os.read(master, 4096):
                shown += data
    os.close(master)
    assert b"Downloading set.bin" in shown
    assert b"/300.0 kB" in shown
