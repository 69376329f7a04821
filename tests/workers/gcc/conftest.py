"""What the tests of the GCC worker share."""

import contextlib
from collections.abc import Iterator

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.local import LocalPlace


@pytest.fixture(scope="session")
def place() -> Iterator[LocalPlace]:
    """The machine's gcc."""
    try:
        found = LocalPlace("gcc")
    except CompilationError as error:
        pytest.skip(error.message)
    with contextlib.closing(found):
        yield found
