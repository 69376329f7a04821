"""Images in their places: all of them, or none."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.shrink import shrinking
from aiocg.shrink._candidate import FOUND, OWN, Candidates
from aiocg.shrink.image import Image, put, read_image
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import Build
from aiocg.shrink.shrinking import Shrinking

SMALL, LARGE = Image(1, 0, 0, 0), Image(2, 0, 0, 0)


def _image(path: Path) -> Candidates:
    path.write_bytes(b"own")
    linker: Any = SimpleNamespace(inputs=SimpleNamespace(link=SimpleNamespace(output=path)))
    contents = {OWN: b"own", FOUND: b"found"}
    return Candidates(path.name, linker, b"", {OWN: LARGE, FOUND: SMALL}, contents, chosen=FOUND)


@pytest.fixture
def work(tmp_path: Path) -> Shrinking:
    """A build of two images."""
    found = Shrinking(Build({}, (), {}), tmp_path, tmp_path, Lock())
    found.images += [_image(tmp_path / "first"), _image(tmp_path / "second")]
    return found


def test_images_take_the_places_of_the_builds_own(work: Shrinking, tmp_path: Path) -> None:
    work.place(None)
    assert [(tmp_path / name).read_bytes() for name in ("first", "second")] == [b"found", b"found"]


def test_a_symbolic_link_to_an_image_stays_one(work: Shrinking, tmp_path: Path) -> None:
    (tmp_path / "first").rename(tmp_path / "real")
    (tmp_path / "first").symlink_to("real")
    work.place(None)
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"found"


def test_on_a_full_disk_what_the_build_has_made_stands(
    work: Shrinking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        if path.name == "second":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        put(path, content)

    monkeypatch.setattr(shrinking, "put", full)
    with pytest.raises(OSError, match="No space left"):
        work.place(None)
    assert [(tmp_path / name).read_bytes() for name in ("first", "second")] == [b"own", b"own"]


def test_an_image_that_is_not_smaller_is_never_taken() -> None:
    image = Candidates("app", None, b"", {OWN: SMALL, FOUND: SMALL, "-Oz": LARGE}, {})  # type: ignore[arg-type]
    image.choose()
    assert image.chosen == OWN
    image.choose("-Oz")
    assert image.chosen == OWN


def test_an_image_for_another_machine_is_never_taken() -> None:
    own = b"\x7fELF\x01\x01" + bytes(10) + b"\x02\0\x28\0"  # for Arm
    ours = b"\x7fELF\x02\x01" + bytes(10) + b"\x03\0\x3e\0"
    linker: Any = SimpleNamespace(at=lambda level: ours)
    image = Candidates("app", linker, b"", {OWN: LARGE}, {OWN: own})
    image.add_levels(["-Oz"])
    assert image.images == {OWN: LARGE} and "another machine" in image.notes[0]


def test_webassembly_is_measured_without_its_custom_sections() -> None:
    module = b"\0asm\1\0\0\0" + b"\0\3xyz" + b"\1\2ab" + b"\x0a\4code" + b"\x0b\1d"
    assert read_image(module) == Image(code=6, constants=4, data=3, unwind=0)
    with pytest.raises(ValueError, match="cut off"):
        read_image(module[:8] + b"\x0a")
