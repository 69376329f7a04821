"""Iterators that can be copied: each copy goes on from the same place on its own."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from aiocg.datasets.forks import ForkedLock

__all__ = ["ForkableIterator"]

T = TypeVar("T")


class _Node(Generic[T]):
    """One place in a sequence; what has been taken from the source behind it hangs on it."""

    __slots__ = ("next", "value")

    def __init__(self) -> None:
        self.next: _Node[T] | None = None
        self.value: T | None = None


class _Source(Generic[T]):
    """What copies have in common: where more comes from, for one of them at a time."""

    def __init__(self, make: Callable[[], Iterable[T]], repeat: bool) -> None:
        self.make = make
        self.repeat = repeat
        self.lock = ForkedLock()
        self._iterator = iter(make())

    def take(self) -> T:
        """Return the next element.

        Raises:
            StopIteration: when there is none.
        """
        try:
            return next(self._iterator)
        except StopIteration:
            if not self.repeat:
                raise
        self._iterator = iter(self.make())
        return next(self._iterator)


class ForkableIterator(Iterator[T]):
    """An iterator that `copy.copy` and `copy.deepcopy` split in two, which may be used from different threads.

    What only one of them has passed is kept for the others. Pickled, it begins anew and goes to the same place, which
    needs a source that can be pickled and gives the same again.

    Args:
        make: returns what to iterate over.
        repeat: begin again with `make` at the end. When that gives nothing, it is the end.
    """

    def __init__(self, make: Callable[[], Iterable[T]], *, repeat: bool = False) -> None:
        self._source = _Source(make, repeat)
        self._node: _Node[T] = _Node()
        self._position = 0

    def __next__(self) -> T:
        node = self._node
        with self._source.lock:
            if node.next is None:
                node.value = self._source.take()
                node.next = _Node()
            self._node = node.next
        self._position += 1
        return node.value  # type: ignore[return-value]  # it is what `take` has returned

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _forwarded, (self._source.make, self._source.repeat, self._position)


def _forwarded(make: Callable[[], Iterable[T]], repeat: bool, position: int) -> ForkableIterator[T]:
    iterator = ForkableIterator(make, repeat=repeat)
    for _ in range(position):
        next(iterator)
    return iterator
