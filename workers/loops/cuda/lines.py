"""Lines of C, indented by the braces around them."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Lines"]


class Lines:
    """A text that grows line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Append lines at the present depth. Directives of the preprocessor are indented as well."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """Append what is between braces."""
        self.add(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    @property
    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self._lines)
