"""What the tests of the GCC worker share."""

import contextlib
from collections.abc import Iterator

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._local import LocalRunner


@pytest.fixture(scope="session")
def runner() -> Iterator[LocalRunner]:
    """The machine's gcc."""
    try:
        found = LocalRunner("gcc")
    except CompilationError as error:
        pytest.skip(error.message)
    with contextlib.closing(found):
        yield found
