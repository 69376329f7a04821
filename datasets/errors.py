"""Errors of datasets and benchmarks.

    DatasetError
     +- InvalidBenchmarkUri     the name is malformed
     +- DatasetNotFound         no dataset of that name
     +- BenchmarkNotFound       the dataset, or the file system, has no such program
     +- BenchmarkInitError      the program is there, but has no content: it does not compile, cannot be read, is empty
     |   +- CompilationCancelled    the caller gave up waiting
     +- ToolchainNotFound       no clang that can be used
     +- CacheError              the cache cannot be written; compiling goes on without it
     +- DownloadError           a file that others have published cannot be had
     +- InstallError            a dataset was fetched, but cannot be installed: a damaged archive, a full disk
     +- IndexNotFound           programs are selected by measurements that were never made

Errors have their values as attributes, so that nobody has to parse messages.
"""

from collections.abc import Iterable, Sequence


class DatasetError(Exception):
    """Base of every error of `aiocg.datasets`."""


class InvalidBenchmarkUri(DatasetError):
    """A benchmark's name is malformed.

    Attributes:
        uri: the text that was given.
        reason: what is wrong with it.
        example: a name that is right.
    """

    def __init__(self, uri: str, reason: str, example: str = "benchmark://programs-v0/qsort") -> None:
        super().__init__(f"bad benchmark URI {uri!r}: {reason} (for example {example!r})")
        self.uri = uri
        self.reason = reason
        self.example = example


class DatasetNotFound(DatasetError):
    """No dataset has this name.

    Attributes:
        name: the name that was asked for.
        nearest: existing names that look like it, best first.
    """

    def __init__(self, name: str, nearest: Iterable[str] = (), known: Sequence[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        super().__init__(f"no dataset is named {name!r}; {_suggestion(self.nearest, known)}")


class BenchmarkNotFound(DatasetError):
    """A dataset, or the file system, has no such benchmark.

    Attributes:
        uri: the URI or path that was asked for.
        reason: what was looked for and where.
        nearest: existing names that look like it, best first.
    """

    def __init__(self, uri: str, reason: str, nearest: Iterable[str] = ()) -> None:
        self.uri = uri
        self.reason = reason
        self.nearest = tuple(nearest)
        hint = f"; did you mean {_alternatives(self.nearest)}?" if self.nearest else ""
        super().__init__(f"{reason}{hint}")


class BenchmarkInitError(DatasetError):
    """A benchmark exists but its content cannot be computed.

    Attributes:
        source: the file or URI concerned.
        reason: what was wrong and what to do.
        diagnostics: the compiler's own messages, or "".
        missing_header: the header that was not found, or "".
    """

    def __init__(self, source: str, reason: str, diagnostics: str = "", missing_header: str = "") -> None:
        super().__init__(f"{source}: {reason}" + (f"\n{diagnostics}" if diagnostics else ""))
        self.source = source
        self.reason = reason
        self.diagnostics = diagnostics
        self.missing_header = missing_header


class CompilationCancelled(BenchmarkInitError):
    """The caller cancelled a compilation; the compiler has been killed."""


class ToolchainNotFound(DatasetError):
    """No usable clang.

    Attributes:
        reason: what was looked for, and why it did not do.
        remedy: what to install or set.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class CacheError(DatasetError):
    """The cache cannot be written.

    Attributes:
        path: the file or directory concerned.
        reason: the operating system's words.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cannot write the cache at {path}: {reason}; free some space, or set AIOCG_CACHE to a "
            f"directory that can be written"
        )
        self.path = path
        self.reason = reason


class DownloadError(DatasetError):
    """A published file cannot be fetched.

    Attributes:
        what: the file or package.
        reason: why not.
        diagnostics: the downloading program's own messages, or "".
    """

    def __init__(self, what: str, reason: str, diagnostics: str = "") -> None:
        super().__init__(f"cannot fetch {what}: {reason}" + (f"\n{diagnostics}" if diagnostics else ""))
        self.what = what
        self.reason = reason
        self.diagnostics = diagnostics


class InstallError(DatasetError):
    """A dataset cannot be installed or removed; nothing is left half done.

    Attributes:
        dataset: the dataset, or the file that was being unpacked.
        reason: what was wrong and what to do.
    """

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(f"cannot install {dataset}: {reason}")
        self.dataset = dataset
        self.reason = reason


class IndexNotFound(DatasetError):
    """Programs are selected by measurements that were never made.

    Attributes:
        dataset: the dataset's name.
    """

    def __init__(self, dataset: str) -> None:
        super().__init__(f"{dataset} has no index; make one with `aiocg dataset index {dataset}`")
        self.dataset = dataset


class CacheWarning(UserWarning):
    """Compiled programs cannot be cached, and will be compiled again."""


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)


def _suggestion(nearest: Sequence[str], known: Sequence[str]) -> str:
    if nearest:
        return f"did you mean {_alternatives(nearest)}?"
    if known:
        return f"there are {', '.join(known)}"
    return "there are no datasets"


def first_diagnostic(error: Exception, name: str = "") -> str:
    """Return the line of an error that says most.

    Args:
        name: of what it is known to be about, which is not said again.
    """
    lines = str(getattr(error, "diagnostics", "") or error).removeprefix(f"{name}: ").splitlines()
    usual = lines[0].strip() if lines else type(error).__name__
    return next((line.strip() for line in lines if "error" in line or "Error:" in line or "ERROR:" in line), usual)
