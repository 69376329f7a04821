"""Packages made here, served by a real HTTP server, and fetched by the real pip, or without it."""

import base64
import functools
import hashlib
import http.server
import io
import json
import os
import pty
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import CacheError, DownloadError, cancellable, download
from aiocg.datasets.package_index import Wheel, addresses, fetch_archive, fetch_members, pip_settings
from aiocg.datasets.process import Cancelled

MEMBER = "tiny/words.txt"
CONTENT = b"alpha\nbeta\n"
NAME = "tiny-1.0-py3-none-manylinux2014_x86_64.whl"


def make_wheel(folder: Path, name: str = NAME) -> Wheel:
    """Write a small wheel and describe it."""
    metadata = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\nRequires-Python: <3\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr(MEMBER, CONTENT)
        archive.writestr("tiny-1.0.dist-info/METADATA", metadata)
        archive.writestr("tiny-1.0.dist-info/WHEEL", tags)
        archive.writestr("tiny-1.0.dist-info/RECORD", f"{MEMBER},,\n")
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Wheel(name, digest, {MEMBER: hashlib.sha256(CONTENT).hexdigest()})


class Index(http.server.SimpleHTTPRequestHandler):
    """A package index with one project."""

    requests: list[str]
    hold: threading.Event  # until this is set, what hangs does
    broken = ""
    password = ""
    page_type = "text/html"

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if Index.password and self.headers.get("Authorization") != f"Basic {Index.password}":
            self.send_response(401)
            self.end_headers()
            return
        if self.path.endswith(".whl") and Index.broken == "hang":
            Index.hold.wait(200)
        if self.path.endswith(".whl") and Index.broken == "truncated":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"PK")
            return
        super().do_GET()

    def guess_type(self, path: Any) -> str:
        return Index.page_type if str(path).endswith(".html") else super().guess_type(path)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def own_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a pip without any configuration or cache."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    return own_cache


@pytest.fixture
def index(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wheel]:
    """A served wheel, in an index that pip is configured to use."""
    folder = tmp_path / "served" / "simple" / "tiny"
    folder.mkdir(parents=True)
    wheel = make_wheel(folder)
    (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{NAME}">{NAME}</a></body></html>')
    Index.requests, Index.broken, Index.password, Index.page_type = [], "", "", "text/html"
    Index.hold = threading.Event()
    handler = functools.partial(Index, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        yield wheel
        Index.hold.set()
        server.shutdown()
        thread.join()


def leftovers(own_cache: Path, tmp_path: Path) -> list[Path]:
    """Return all files in the cache and in the folder for temporary files, but for locks and what may be resumed."""
    found = (path for root in (own_cache, tmp_path / "temporary") for path in root.rglob("*") if path.is_file())
    return [path for path in found if path.suffix != ".partial" and path.name != ".lock"]


@pytest.mark.slow
def test_a_member_is_fetched_once_and_kept(index: Wheel, own_cache: Path, tmp_path: Path) -> None:
    place = fetch_members(index)["words.txt"]
    assert place.read_bytes() == CONTENT and place.is_relative_to(own_cache)
    asked = len(Index.requests)
    assert asked and fetch_members(index)["words.txt"] == place and len(Index.requests) == asked
    assert leftovers(own_cache, tmp_path) == [place]
    place.write_bytes(CONTENT[:-1])  # damaged
    assert fetch_members(index)["words.txt"].read_bytes() == CONTENT and len(Index.requests) > asked


@pytest.mark.slow
def test_two_processes_at_once_both_get_it(index: Wheel, own_cache: Path) -> None:
    command = fetching(index, "print(package_index.fetch_members(wheel)['words.txt'])")
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    places = [process.communicate()[0].strip() for process in both]
    assert places[0] == places[1] and Path(places[0]).read_bytes() == CONTENT


@pytest.mark.slow
def test_a_folder_of_wheels_will_do(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, "tiny-1.0-cp38-cp38-win_amd64.whl")  # neither this Python nor this machine
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch_members(wheel)["words.txt"].read_bytes() == CONTENT


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda wheel: Wheel(wheel.file_name, "0" * 64, wheel.members), "sent another file"),
        (lambda wheel: Wheel(wheel.file_name, wheel.sha256, {MEMBER: "0" * 64}), "not the file that was published"),
        (lambda wheel: Wheel(wheel.file_name, wheel.sha256, {"tiny/none": "0" * 64}), "no item named"),
        (lambda wheel: Wheel("tiny-2.0-py3-none-any.whl", wheel.sha256, wheel.members), "does not have it"),
        (lambda wheel: Wheel("other-1.0-py3-none-any.whl", wheel.sha256, wheel.members), "404"),
    ],
)
def test_what_is_not_there_or_not_the_same_is_refused(
    index: Wheel, own_cache: Path, tmp_path: Path, change: Callable[[Wheel], Wheel], reason: str
) -> None:
    with pytest.raises(DownloadError, match=reason) as caught:
        fetch_members(change(index))
    assert caught.value.what.startswith(("tiny", "other")) and leftovers(own_cache, tmp_path) == []


@pytest.mark.slow
def test_a_download_that_breaks_off_is_resumed(
    index: Wheel, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Index.broken = "truncated"
    monkeypatch.setattr(download, "FIRST_PAUSE", 0.01)
    with pytest.raises(DownloadError, match="broke off"):
        fetch_members(index)
    assert leftovers(own_cache, tmp_path) == []
    Index.broken = ""
    assert fetch_members(index)["words.txt"].read_bytes() == CONTENT


@pytest.mark.slow
def test_an_unreachable_index_is_named_as_the_cause(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(DownloadError, match="pip config list") as caught:
        fetch_members(Wheel(NAME, "0" * 64, {MEMBER: "0" * 64}))
    assert "onnection" in caught.value.diagnostics


def test_an_index_that_stalls_is_given_up(index: Wheel, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Index.broken = "hang"
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.2)
    monkeypatch.setattr(download, "FIRST_PAUSE", 0.01)
    with pytest.raises(DownloadError, match="was silent"):
        fetch_members(index)


@pytest.mark.slow
def test_a_fetch_can_be_cancelled(index: Wheel, own_cache: Path, tmp_path: Path) -> None:
    Index.broken = "hang"
    stop = threading.Event()

    def cancel_when_asked() -> None:
        while not any(path.endswith(".whl") for path in Index.requests):
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=cancel_when_asked).start()
    with cancellable(stop), pytest.raises(Cancelled):
        fetch_members(index)
    assert leftovers(own_cache, tmp_path) == []


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_an_error(
    index: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheError, match="AIOCG_CACHE"):
        fetch_members(index)


FETCH = """
import sys
from aiocg.datasets import errors, package_index, progress
progress.PATIENCE = 0.05
wheel = package_index.Wheel(sys.argv[1], sys.argv[2], {sys.argv[3]: sys.argv[4]})
"""


def fetching(wheel: Wheel, program: str) -> list[str]:
    """Return a command that runs a program after preparing it to fetch."""
    ((member, digest),) = wheel.members.items()
    return [sys.executable, "-B", "-P", "-c", FETCH + program, wheel.file_name, wheel.sha256, member, digest]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(index: Wheel, own_cache: Path, tmp_path: Path) -> None:
    program = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"
        "try: package_index.fetch_members(wheel)\n"
        "except errors.CacheError as error: print(error)"
    )
    done = subprocess.run(fetching(index, program), capture_output=True, text=True)
    assert "File too large" in done.stdout, done.stderr
    assert leftovers(own_cache, tmp_path) == []


@pytest.mark.slow
def test_a_terminal_is_told_what_takes_so_long(index: Wheel, own_cache: Path) -> None:
    program = (
        "links = package_index._links\n"
        "package_index._links = lambda *words: links(*words) if input() is not None else []\n"  # until the bar was seen
        "package_index.fetch_members(wheel)"
    )
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = fetching(index, program)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=end, env=environment) as child:
        os.close(end)
        try:
            told = b""
            while b"Looking for tiny-1.0" not in told:
                told += os.read(terminal, 65536)
            child.communicate(b"\n" * 10)
        finally:
            os.close(terminal)
    assert child.returncode == 0


@pytest.mark.slow
def test_without_pip_python_s_own_copy_is_used(index: Wheel, own_cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("ensurepip", reason="this Python carries no pip")
    program = (
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'pip' else find(name)\n"
        "print(package_index.fetch_members(wheel)['words.txt'])"
    )
    result = subprocess.run(fetching(index, program), capture_output=True, text=True)
    assert Path(result.stdout.strip()).read_bytes() == CONTENT, result.stderr


SDIST = "tiny-1.0.tar.gz"


@pytest.fixture
def sdist(index: Wheel, tmp_path: Path) -> tuple[str, bytes]:
    """A source distribution in the same index, which must not be built: its checksum, and its content."""
    folder = tmp_path / "served" / "simple" / "tiny"
    buffer = io.BytesIO()
    script = f"open({str(tmp_path / 'was run')!r}, 'w')\n".encode()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("tiny-1.0/setup.py")
        member.size = len(script)
        archive.addfile(member, io.BytesIO(script))
    (folder / SDIST).write_bytes(buffer.getvalue())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    other = f'<a href="elsewhere/{SDIST}#sha256={"0" * 64}">another file of this name</a>'
    this = f'<a href="{SDIST}#sha256={digest}">{SDIST}</a>'
    (folder / "index.html").write_text(f'<html><head><base href="../tiny/"></head><body>{other}{this}</body></html>')
    return digest, buffer.getvalue()


def test_a_source_distribution_is_fetched_once_and_not_run(
    sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path
) -> None:
    digest, content = sdist
    place = fetch_archive(SDIST, digest)
    assert place.read_bytes() == content and place.is_relative_to(own_cache)
    asked = len(Index.requests)
    assert fetch_archive(SDIST, digest) == place and len(Index.requests) == asked
    assert not any("elsewhere" in path for path in Index.requests)
    assert not (tmp_path / "was run").exists()


@pytest.mark.slow
def test_an_index_may_answer_in_json(sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path) -> None:
    digest, content = sdist
    folder = tmp_path / "served" / "simple" / "tiny"
    (folder / "index.html").unlink()
    answer = {"files": [{"filename": SDIST, "url": f"../tiny/{SDIST}", "hashes": {"sha256": digest}}]}
    (tmp_path / "served" / "simple" / "tiny" / "index.html").write_text(json.dumps(answer))
    Index.page_type = "application/vnd.pypi.simple.v1+json"
    assert fetch_archive(SDIST, digest).read_bytes() == content


_FILES = ("null", "[1]", '[{"url": 1}]', '[{"url": "x", "hashes": 0}]')
NONSENSE = ("[]", "{", *(f'{{"files": {files}}}' for files in _FILES))


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "page"), [*(("application/json", page) for page in NONSENSE), ("text/html", f"<![odd[ x><a href={SDIST}>")]
)
def test_a_page_that_makes_no_sense_is_an_answer_among_others(
    sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, page: str
) -> None:
    digest, content = sdist
    (tmp_path / "served" / "simple" / "tiny" / "index.html").write_text(page)
    Index.page_type = kind
    with pytest.raises(DownloadError) as caught:
        addresses(SDIST, digest)
    assert "no page of an index" in caught.value.diagnostics or "Expecting" in caught.value.diagnostics
    (tmp_path / SDIST).write_bytes(content)
    monkeypatch.setenv("PIP_FIND_LINKS", f"http://[bad/ {tmp_path}")
    assert addresses(SDIST, digest) == [(tmp_path / SDIST).as_uri()]


@pytest.mark.slow
def test_a_link_that_makes_no_sense_does_not_hide_the_others(sdist: tuple[str, bytes], tmp_path: Path) -> None:
    page = tmp_path / "served" / "simple" / "tiny" / "index.html"
    page.write_text(f'<base href="http://[bad"><a href="http://[worse"><a href="{SDIST}">')
    assert addresses(SDIST, sdist[0]) == [f"{os.environ['PIP_INDEX_URL']}/tiny/{SDIST}"]


@pytest.mark.slow
@pytest.mark.parametrize("absolute", [False, True])
def test_the_password_of_an_index_is_for_its_files_too_and_for_no_other_server(
    sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absolute: bool
) -> None:
    digest, content = sdist
    root = os.environ["PIP_INDEX_URL"]
    file = f"{root}/tiny/{SDIST}" if absolute else SDIST
    page = tmp_path / "served" / "simple" / "tiny" / "index.html"
    page.write_text(f'<a href="{file}">this</a><a href="http://other.example/{SDIST}">that</a>')
    Index.password = base64.b64encode(b"some one:se:cret").decode()
    monkeypatch.setenv("PIP_INDEX_URL", root.replace("//", "//some%20one:se%3Acret@"))
    assert fetch_archive(SDIST, digest).read_bytes() == content
    assert addresses(SDIST, digest)[1] == f"http://other.example/{SDIST}"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "file://{}", "{}/links.html"])
def test_pip_s_folders_and_pages_of_links_are_looked_at(
    sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    digest, content = sdist
    folder = tmp_path / "my-links"
    folder.mkdir()
    (folder / SDIST).write_bytes(content)
    (folder / "links.html").write_text(f'<a href="{SDIST}">')
    monkeypatch.setenv("PIP_FIND_LINKS", form.format(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert addresses(SDIST, digest) == [(folder / SDIST).as_uri()]
    monkeypatch.setenv("AIOCG_OFFLINE", "1")  # a folder is no network
    assert fetch_archive(SDIST, digest).read_bytes() == content
    assert Index.requests == []


@pytest.mark.slow
def test_pip_s_files_of_settings_count_and_variables_count_more(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://one.example/simple\nfind-links =\n  /a\n  /b\n"
        "[download]\nindex-url = https://two.example/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert pip_settings()["index-url"] == "https://two.example/simple"
    assert pip_settings()["find-links"].split() == ["/a", "/b"]
    monkeypatch.setenv("PIP_INDEX_URL", "https://three.example/simple")
    assert pip_settings()["index-url"] == "https://three.example/simple"


def test_a_mirror_takes_the_place_of_all_indexes(
    sdist: tuple[str, bytes], own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, content = sdist
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / SDIST).write_bytes(content)
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", (tmp_path / "mirror").as_uri())
    assert fetch_archive(SDIST, digest).read_bytes() == content and Index.requests == []


@pytest.mark.slow
def test_what_no_index_has_is_told_with_their_answers(
    sdist: tuple[str, bytes], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://user:secret@127.0.0.1:9/simple file:///nowhere/simple")
    with pytest.raises(DownloadError, match="pip config list") as caught:
        fetch_archive("other-1.0.tar.gz", "0" * 64)
    assert caught.value.what == "other-1.0.tar.gz" and "secret" not in str(caught.value)
    assert "404" in caught.value.diagnostics and "127.0.0.1:9" in caught.value.diagnostics
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE"):
        fetch_archive(SDIST, sdist[0])
