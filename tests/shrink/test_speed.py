"""Images that make a benchmark too slow are not taken."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.shrink._candidate import FOUND, OWN, Candidates
from aiocg.shrink.checking import Pace
from aiocg.shrink.image import Image

BUSY = "case `cat {names}` in *slow*) i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done;; esac"


def _image(path: Path, **contents: str) -> Candidates:
    """An image whose contents say whether a benchmark is slow with it; each is smaller than the one before."""
    linker: Any = SimpleNamespace(inputs=SimpleNamespace(link=SimpleNamespace(output=path)))
    texts = {name.replace("oz", "-Oz"): text.encode() for name, text in contents.items()}
    sizes = {name: Image(9 - number, 0, 0, 0) for number, name in enumerate(texts)}
    path.write_bytes(texts[OWN])
    return Candidates(path.name, linker, b"", sizes, texts, chosen=FOUND)


@pytest.mark.slow
def test_the_smallest_image_that_is_fast_enough_is_taken(tmp_path: Path) -> None:
    first = _image(tmp_path / "first", own="quick", oz="quick too", found="slow")
    second = _image(tmp_path / "second", own="quick", oz="slow too", found="slow")
    third = _image(tmp_path / "third", own="quick", oz="quick too", found="quickest")
    names = " ".join(str(tmp_path / name) for name in ("first", "second", "third"))
    Pace(BUSY.format(names=names), 2.0, lambda line: None).settle([first, second, third])
    assert [one.chosen for one in (first, second, third)] == ["-Oz", OWN, FOUND]
    assert len(second.notes) == 2 and "with the image by found" in first.notes[0] and not third.notes
    assert (tmp_path / "first").read_text() == "quick"  # to be put into place by others


def test_a_benchmark_that_fails_is_an_error_and_the_builds_own_images_stand(tmp_path: Path) -> None:
    image = _image(tmp_path / "app", own="quick", found="other")
    with pytest.raises(BenchmarkInitError, match="ended with 3"):
        Pace(f"grep -q quick {tmp_path}/app || exit 3", 0.05, lambda line: None).settle([image])
    assert (tmp_path / "app").read_text() == "quick"
