"""The description of a dataset, without its benchmarks."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from aiocg.datasets.cache import site_data_directory
from aiocg.datasets.errors import InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri

PROGRAM = "program"
"""The kind of datasets whose benchmarks are programs, for LLVM and GCC."""

_VERSION = re.compile(r"-v(\d+)$", re.ASCII)


class Details(TypedDict, total=False):
    """Optional arguments of any dataset; see `Dataset`."""

    license: str
    references: Mapping[str, str] | None
    deprecated: str
    validatable: bool
    sort_order: int
    kind: str


class NamedSet:
    """The name, the origin and the installed files of a dataset; `Dataset` says what it is made with."""

    def __init__(
        self,
        name: str,
        description: str,
        *,
        license: str = "",
        references: Mapping[str, str] | None = None,
        deprecated: str = "",
        validatable: bool = False,
        sort_order: int = 0,
        kind: str = PROGRAM,
    ) -> None:
        uri = BenchmarkUri.from_string(name)
        if uri != BenchmarkUri(uri.scheme, uri.dataset) or not uri.dataset:
            raise InvalidBenchmarkUri(name, "a dataset's name is one word", "programs-v0")
        version = _VERSION.search(uri.dataset)
        self.name = uri.dataset
        self.scheme = uri.scheme
        self.version = int(version[1]) if version else 0
        self.description = description
        self.license = license
        self.references = dict(references or {})
        self.deprecated = deprecated
        self.validatable = validatable
        self.sort_order = sort_order
        self.kind = kind

    @property
    def root(self) -> BenchmarkUri:
        """The URI of the dataset itself."""
        return BenchmarkUri(self.scheme, self.name)

    @property
    def site_data_path(self) -> Path:
        """The directory in which the dataset installs what it needs; it need not exist."""
        return site_data_directory() / "datasets" / self.scheme / self.name

    @property
    def site_data_size_in_bytes(self) -> int:
        """How much disk space the installed files take; 0 when there are none."""
        return sum(map(_size_of, self.site_data_path.rglob("*")))

    @property
    def installed(self) -> bool:
        """Whether the benchmarks are available without fetching anything."""
        return True

    def install(self) -> None:
        """Fetch what the benchmarks need, if not yet done. Using a benchmark does so, too.

        Raises:
            DownloadError: when something cannot be fetched.
            InstallError: when what was fetched is damaged, or there is no room for it.
        """

    def uninstall(self) -> None:
        """Remove what was installed. Compiled programs stay in the cache, and measurements in the index.

        Raises:
            InstallError: when it cannot be removed.
        """

    def __lt__(self, other: "NamedSet") -> bool:
        return (self.sort_order, self.name) < (other.sort_order, other.name)

    def __repr__(self) -> str:
        return f"<Dataset {self.root}>"


def _size_of(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:  # it is being removed
        return 0
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size
