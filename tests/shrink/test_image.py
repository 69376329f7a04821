"""How large an image is, by what counts."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.toolchain import find_toolchain
from aiocg.shrink._candidate import OWN, Candidates
from aiocg.shrink.image import loader_difference, measure, read_image, special_sections


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


@pytest.mark.slow
@pytest.mark.needs("libc", "cc")
def test_variables_that_begin_as_zero_take_memory_and_no_flash(shrinkable: Callable[[str], Candidates]) -> None:
    own = shrinkable("int zero[1000], one[500] = {1};\nint main(void) { return zero[3] + one[0]; }\n").contents[OWN]
    image = read_image(own)
    assert image.zeroed >= 4000 and 2000 <= image.data < 4000 and image.unwind > 0
    assert measure(own, "flash+ram").bytes == image.bytes + image.data + image.zeroed


@pytest.mark.parametrize("name", ["gzip", "xz", "zstd", "brotli"])
def test_a_compressor_says_how_large_what_is_loaded_is(content: bytes, name: str) -> None:
    if not shutil.which(name):
        with pytest.raises(BenchmarkInitError, match=f"there is no {name}"):
            measure(content, name)
        return
    image = measure(content, name)
    assert 0 < image.bytes < read_image(content).bytes
    stripped = content + b"not loaded" * 1000
    assert measure(stripped, name).bytes == image.bytes


@pytest.mark.needs("libc")
def test_padding_by_lld_is_no_section_that_others_may_read(tmp_path: Path) -> None:
    source = 'const char table[] __attribute__((section("mine"), used)) = "mine";\nint main(void) { return 0; }\n'
    (tmp_path / "main.c").write_text(source)
    toolchain = find_toolchain()
    linker = tmp_path / "ld.lld"
    linker.symlink_to(Path(toolchain.linker_command()[0]).resolve())
    line = [*toolchain.command(), f"--ld-path={linker}", "-shared", "-nostdlib", "-fPIC", "-Wl,-z,relro", "main.c"]
    subprocess.run([*line, "-o", "image"], cwd=tmp_path, check=True)
    content = (tmp_path / "image").read_bytes()
    assert b".relro_padding" in content and special_sections(content) == {"mine": 5}


VERSIONED = r"""
int first(int x) { return x; }
int second(int x) { return x + 1; }
int kept = 3;
__asm__(".symver first, get@OLD\n.symver second, get@@NEW");
"""


@pytest.mark.needs("libc", "cc")
def test_the_loader_finds_the_same_versions_of_symbols_by_whatever_linker(tmp_path: Path) -> None:
    (tmp_path / "part.c").write_text(VERSIONED)
    (tmp_path / "both").write_text("OLD { global: get; kept; local: *; };\nNEW { global: get; } OLD;\n")
    (tmp_path / "new").write_text("OLD { global: get; local: *; };\nNEW { global: get; kept; } OLD;\n")
    subprocess.run(["cc", "-c", "-fPIC", "part.c"], cwd=tmp_path, check=True)
    lld = find_toolchain().linker_command()

    def linked(*words: str) -> bytes:
        subprocess.run([*words, "-shared", "part.o", "-o", "image"], cwd=tmp_path, check=True)
        return (tmp_path / "image").read_bytes()

    own = linked("cc", "-Wl,--version-script=both")  # GNU's linker defines symbols for versions, too
    assert loader_difference(own, linked(*lld, "--version-script=both")) == ""
    assert loader_difference(own, linked(*lld, "--version-script=new")) == "the symbols: it lacks kept@@OLD"
    (tmp_path / "part.c").write_text(VERSIONED.replace(".symver first, get@OLD", ""))
    subprocess.run(["cc", "-c", "-fPIC", "part.c"], cwd=tmp_path, check=True)
    assert loader_difference(own, linked(*lld, "--version-script=both")) == "the symbols: it lacks get@OLD"
