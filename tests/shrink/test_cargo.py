"""Programs in Rust."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.shrink.cargo import artifact_of

MADE = Path("/scratch/target")

PROGRAM = """
use std::collections::BTreeMap;

fn words(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

fn main() {
    let text = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    for (word, count) in words(&text) {
        println!("{word} {count}");
    }
}
"""


@pytest.mark.parametrize(
    ("output", "artifact"),
    [
        ("release/deps/app-0123456789abcdef", "release/app"),
        ("debug/deps/libx-0123456789abcdef.so", "debug/libx.so"),
        ("thumbv7em-none-eabi/release/deps/app-0123456789abcdef", "thumbv7em-none-eabi/release/app"),
        ("release/build/app-0123456789abcdef/build_script_build-0123456789abcdef", None),
        ("release/deps/app", None),
    ],
)
def test_an_image_of_rustc_has_its_place_in_the_target_folder(output: str, artifact: str | None) -> None:
    assert artifact_of(MADE / output, MADE) == (Path(artifact) if artifact else None)
    assert artifact_of(Path("/elsewhere") / output, MADE) is None


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_a_program_in_rust_gets_smaller_and_does_the_same(place: Any, new_cache: Callable[[], Path]) -> None:
    if not shutil.which("cargo"):
        pytest.skip("needs cargo")
    folder = place.folder
    place.environment["AIOCG_CACHE"] = str(new_cache())
    (folder / "src").mkdir()
    (folder / "src/main.rs").write_text(PROGRAM)
    (folder / "Cargo.toml").write_text('[package]\nname = "count"\nversion = "1.0.0"\nedition = "2021"\n')
    command = [sys.executable, "-P", "-m", "aiocg.cli", "shrink"]
    build = ["--", "cargo", "build", "--release", "--offline"]
    done = place.run(*command, "--seconds", "2", "--json", *build)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    (image,) = report["images"]
    assert image["name"] == "target/release/count" and image["after"] < image["before"]
    assert place.run("target/release/count", "a", "B", "b").stdout == "a 1\nb 2\n"
    assert place.leftovers() == []
    shrunk = (folder / "target/release/count").read_bytes()
    assert place.run("cargo", "build", "--release", "--offline").returncode == 0
    assert (folder / "target/release/count").read_bytes() == shrunk  # cargo does not put the other one back
    assert place.run("cargo", "clean").returncode == 0
    assert place.run(*command, "--locked", *build).returncode == 0
    assert (folder / "target/release/count").read_bytes() == shrunk
