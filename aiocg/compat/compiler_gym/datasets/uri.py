"""The names of benchmarks, as CompilerGym took them apart."""

from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlparse

from aiocg.compat.model import Field, Model

__all__ = ["BenchmarkUri"]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("str type expected")
    return str(value)


def _params(value: Any) -> dict[str, list[str]]:
    return {str(key): [str(one) for one in values] for key, values in dict(value).items()}


class BenchmarkUri(Model):
    """A URI `scheme://dataset/path?params#fragment`. It equals the text that it is, and is ordered as that.

    Attributes:
        scheme: such as "benchmark", which is the default, "generator" or "file".
        dataset: name of the dataset, such as "cbench-v1".
        path: of the benchmark in it, with the leading slash, or empty.
        params: the query, with a list of values for each key.
        fragment: what is after `#`.
    """

    scheme: str
    dataset: str
    path: str
    params: dict[str, list[str]]
    fragment: str

    _fields: ClassVar = {
        "scheme": Field(_text),
        "dataset": Field(_text),
        "path": Field(_text),
        "params": Field(_params, default={}),
        "fragment": Field(_text, default=""),
    }

    @staticmethod
    def canonicalize(uri: str) -> str:
        """Return a URI with its scheme."""
        return str(BenchmarkUri.from_string(uri))

    @classmethod
    def from_string(cls, uri: "str | BenchmarkUri") -> "BenchmarkUri":
        """Take a URI apart."""
        parts = urlparse(str(uri))
        if not parts.scheme and not parts.netloc:
            parts = urlparse(f"benchmark://{uri}")
        return cls(
            scheme=parts.scheme,
            dataset=parts.netloc,
            path=parts.path,
            params=parse_qs(parts.query),
            fragment=parts.fragment,
        )

    def startswith(self, *args: Any) -> bool:
        """Do as `str.startswith` on the text."""
        return str(self).startswith(*args)

    def endswith(self, *args: Any) -> bool:
        """Do as `str.endswith` on the text."""
        return str(self).endswith(*args)

    def __repr__(self) -> str:
        path = self.path if not self.dataset or not self.path or self.path.startswith("/") else f"/{self.path}"
        text = f"{self.scheme}:" + (f"//{self.dataset}{path}" if self.dataset or path else "")
        query = f"?{urlencode(self.params, doseq=True)}" if self.params else ""
        return f"{text}{query}" + (f"#{self.fragment}" if self.fragment else "")

    def __str__(self) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)
