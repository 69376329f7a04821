"""How large an image is, by what counts."""

import shutil
import sys
from pathlib import Path

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.shrink.image import measure, read_image


@pytest.fixture(scope="module")
def content() -> bytes:
    return Path(shutil.which("true") or sys.executable).read_bytes()


def test_the_number_that_a_command_prints_counts(content: bytes) -> None:
    assert measure(content, "") == read_image(content)
    image = measure(content, 'test -x "$IMAGE" && echo "size:" && wc -c < "$IMAGE"')
    assert image.bytes == image.measured == len(content) and image.code == read_image(content).code


@pytest.mark.parametrize("command", ["echo much", "exit 1"])
def test_a_command_that_prints_no_number_is_an_error(content: bytes, command: str) -> None:
    with pytest.raises(BenchmarkInitError, match="printed no number"):
        measure(content, command)
