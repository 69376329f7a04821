"""The names of benchmarks: `scheme://dataset/path?params#fragment`."""

import dataclasses
import re
import urllib.parse
from collections.abc import Iterable
from typing import Self

from aiocg.datasets.errors import InvalidBenchmarkUri

SCHEMES = ("benchmark", "generator", "file")
DEFAULT_SCHEME = "benchmark"

USER = "user-v0"
"""What stands for the dataset in the names of benchmarks that belong to none."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_DATASET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_FILE_EXAMPLE = "file:///home/me/program.c"


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class BenchmarkUri:
    """The name of one benchmark, as a hashable and ordered value.

    Attributes:
        scheme: one of `SCHEMES`.
        dataset: the dataset's name; "" for `file`.
        path: the path within the dataset, without a leading slash, or "" if the URI names the dataset itself; for
            `file` the absolute path of the file.
        params: the query as (key, value) pairs, in order.
        fragment: the part after `#`.

    The parts are decoded text; only `str(uri)` is percent-encoded, and always ASCII. Bytes of file names that are not
    valid UTF-8 are represented by surrogates, as by `os.fsdecode`.

    Raises:
        InvalidBenchmarkUri: when a part is malformed.
    """

    scheme: str
    dataset: str
    path: str = ""
    params: tuple[tuple[str, str], ...] = ()
    fragment: str = ""

    def __post_init__(self) -> None:
        for text in (self.path, self.fragment, *(part for pair in self.params for part in pair)):
            _require_representable(text)
        if self.scheme not in SCHEMES:
            raise self._malformed(f"unknown scheme {self.scheme!r}, expected one of {', '.join(SCHEMES)}")
        if self.scheme == "file":
            self._check_file()
        else:
            self._check_dataset()

    def _check_file(self) -> None:
        if self.dataset:
            raise self._malformed(f"a file URI begins with file:/// and has no host ({self.dataset!r})", _FILE_EXAMPLE)
        if not self.path.startswith("/"):
            raise self._malformed("the path of a file URI must be absolute", _FILE_EXAMPLE)

    def _check_dataset(self) -> None:
        if not _DATASET.fullmatch(self.dataset):
            wrong = f"{self.dataset!r} is not a dataset name (letters, digits and _ . + -)"
            raise self._malformed(wrong if self.dataset else "the dataset's name is missing")
        if self.path and any(segment in ("", ".", "..") for segment in self.path.split("/")):
            raise self._malformed(f"the path {self.path!r} has an empty, '.' or '..' segment")

    def _malformed(self, reason: str, example: str = "") -> InvalidBenchmarkUri:
        text = f"{self.scheme}://{self.dataset}" + (f"/{self.path.lstrip('/')}" if self.path else "")
        return InvalidBenchmarkUri(text, reason, example) if example else InvalidBenchmarkUri(text, reason)

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Parse a URI; the default scheme is `benchmark`.

        Args:
            text: for example `programs-v0/qsort` or `file:///home/me/program.c`.

        Raises:
            InvalidBenchmarkUri: when it is malformed.
        """
        _require_representable(text)
        scheme, rest = DEFAULT_SCHEME, text
        if match := _SCHEME.match(text):
            scheme, rest = match[1].lower(), text[match.end() :]
        elif ":" in text.split("/", 1)[0]:
            raise InvalidBenchmarkUri(text, "a scheme must be followed by '://'")
        if not rest:
            raise InvalidBenchmarkUri(text, "the dataset's name is missing")
        rest, _, fragment = rest.partition("#")
        rest, _, query = rest.partition("?")
        dataset, _, path = rest.partition("/")
        path = rest.removeprefix(dataset) if scheme == "file" else path.removesuffix("/")
        try:
            return cls(scheme, _unquote(dataset), _unquote(path), _parse_query(query), _unquote(fragment))
        except InvalidBenchmarkUri as error:
            raise InvalidBenchmarkUri(text, error.reason, error.example) from None

    @classmethod
    def canonicalize(cls, text: str) -> str:
        """Return the canonical form of a URI: `programs-v0/qsort` becomes `benchmark://programs-v0/qsort`."""
        return str(cls.from_string(text))

    @classmethod
    def from_file(cls, path: str, params: Iterable[tuple[str, str]] = ()) -> Self:
        """Return the URI of a file, given by its absolute path."""
        return cls("file", "", path, tuple(params))

    def param(self, key: str) -> tuple[str, ...]:
        """Return all values of a key of the query, in order."""
        return tuple(value for name, value in self.params if name == key)

    def __str__(self) -> str:
        """Return the canonical form, which `from_string` parses to an equal URI."""
        text = f"{self.scheme}://{self.dataset}"
        if self.path:
            text += "/" + _quote(self.path[1:] if self.scheme == "file" else self.path)
        if self.params:
            text += "?" + "&".join(f"{_quote(key, '')}={_quote(value, '')}" for key, value in self.params)
        if self.fragment:
            text += "#" + _quote(self.fragment)
        return text


def _quote(text: str, safe: str = "/+,@:=") -> str:
    return urllib.parse.quote(text, safe=safe, errors="surrogateescape")


def _unquote(text: str) -> str:
    return urllib.parse.unquote(text, errors="surrogateescape")


def _parse_query(query: str) -> tuple[tuple[str, str], ...]:
    pairs = (field.partition("=") for field in query.split("&") if field)
    return tuple((_unquote(key), _unquote(value)) for key, _, value in pairs)


def _require_representable(text: str) -> None:
    """Refuse text that cannot be written to a URI and parsed again."""
    if text.isascii() and "\0" not in text:
        return
    try:
        faithful = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == text
    except UnicodeEncodeError:
        faithful = False
    if not faithful or "\0" in text:
        raise InvalidBenchmarkUri(text, "it contains a character that a URI cannot represent")
