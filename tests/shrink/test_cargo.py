"""Programs in Rust."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.shrink.rustc import _artifact_of, _check_release, _Crate

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

CHECKSUM = """
#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
fn step(sum: u32, byte: u8) -> u32 {
    (0..8).fold(sum ^ byte as u32, |x, _| if x & 1 != 0 { (x >> 1) ^ 0xedb88320 } else { x >> 1 })
}
#[no_mangle]
pub extern "C" fn checksum(data: *const u8, len: usize) -> u32 {
    let bytes = unsafe { core::slice::from_raw_parts(data, len) };
    !bytes.iter().fold(!0, |sum, &byte| step(sum, byte))
}
"""
CALLER = """
#include <stdint.h>
#include <stdio.h>
uint32_t checksum(const char *, size_t);
int main(void) { printf("%x\\n", checksum("123456789", 9)); return 0; }
"""
MANIFEST = '[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n'


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
    assert _artifact_of(MADE / output, MADE) == (Path(artifact) if artifact else None)
    assert _artifact_of(Path("/elsewhere") / output, MADE) is None


@pytest.mark.needs("cargo")
@pytest.mark.slow
@pytest.mark.needs("libc")
def test_crates_are_joined_get_smaller_and_do_the_same(place: Any, new_cache: Callable[[], Path]) -> None:
    folder = place.folder
    place.environment["AIOCG_CACHE"] = str(new_cache())
    _workspace(folder)
    command = [sys.executable, "-P", "-m", "aiocg.cli", "shrink"]
    build = ["--", "cargo", "build", "--release", "--offline"]
    done = place.run(*command, "--budget", "1", "--json", *build)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    (image,) = report["images"]
    assert image["name"] == "target/release/count" and image["after"] < image["before"]
    assert "found" in image["sizes"] and image["notes"] == []
    assert place.run("target/release/count", "a", "B", "b").stdout == "a 1\nb 2\n"
    assert place.leftovers() == []
    shrunk = (folder / "target/release/count").read_bytes()
    assert place.run("cargo", "build", "--release", "--offline").returncode == 0
    assert (folder / "target/release/count").read_bytes() == shrunk  # cargo does not put the other one back
    assert place.run("cargo", "clean").returncode == 0
    assert place.run(*command, "--locked", *build).returncode == 0
    assert (folder / "target/release/count").read_bytes() == shrunk


def test_a_crate_is_what_its_options_say() -> None:
    line = "--crate-name app --edition=2021 src/main.rs --crate-type bin --emit=dep-info,link -C opt-level=s"
    line += """ -C extra-filename=-0f --out-dir out -C incremental=inc --cfg 'feature="x"' -L dependency=out"""
    crate = _Crate.of(shlex.split(line))
    assert crate.is_optimised and crate.artifacts == [Path("out/app-0f")]
    kept = "--crate-name=app --edition=2021 src/main.rs --crate-type=bin -Copt-level=s -Cextra-filename=-0f"
    assert crate.words() == [*kept.split(), '--cfg=feature="x"', "-Ldependency=out"]
    library = _Crate.of(shlex.split(line.replace("bin", "staticlib,rlib")))
    assert set(library.artifacts) == {Path("out/libapp-0f.a"), Path("out/libapp-0f.rlib")}
    others = {"level=s": "level=0", "info,link": "info", "bin": "proc-macro", "name app": "name build_script"}
    for before, after in others.items():
        assert not _Crate.of(shlex.split(line.replace(before, after))).is_optimised
    assert not _Crate.of(shlex.split(f"{line} --print=file-names")).is_optimised
    assert _Crate.of(shlex.split("-O --crate-type staticlib --crate-name x --emit link x.rs")).is_optimised
    assert not _Crate.of(shlex.split(f"{line} -o elsewhere")).is_optimised


def test_bitcode_of_a_newer_llvm_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    rustc = tmp_path / "rustc"
    for version, error in (("9.1.0", False), ("99.1.0", True)):
        rustc.write_text(f"#!/bin/sh\necho 'rustc 9.9.9'\necho 'LLVM version: {version}'\n")
        rustc.chmod(0o755)
        if error:
            with pytest.raises(BenchmarkInitError, match=r"has LLVM 99, whose bitcode LLVM \d+ cannot read: choose"):
                _check_release(str(rustc))
        else:
            _check_release(str(rustc))


@pytest.fixture
def wrapped(place: Any, new_cache: Callable[[], Path]) -> Any:
    """A place in which cargo has `aiocg rustc` compile the crates of the workspace, a second each."""
    if not shutil.which("cargo"):
        pytest.skip("needs cargo")
    wrapper = place.folder / "aiocg-rustc"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", "-m", "aiocg.cli", "rustc"])} "$@"\n')
    wrapper.chmod(0o755)
    place.environment["AIOCG_CACHE"] = str(new_cache())
    place.environment["AIOCG_CC_BUDGET"] = "1"
    place.environment["RUSTC_WORKSPACE_WRAPPER"] = str(wrapper)
    return place


@pytest.mark.slow
@pytest.mark.needs("libc", "cc", "ar")
def test_a_library_without_std_has_less_code_in_its_archive(wrapped: Any) -> None:
    folder = wrapped.folder
    (folder / "src").mkdir()
    (folder / "src/lib.rs").write_text(CHECKSUM)
    extra = '[lib]\ncrate-type = ["staticlib"]\n[profile.release]\npanic = "abort"\n'
    (folder / "Cargo.toml").write_text(MANIFEST.format(name="sums") + extra)
    done = wrapped.run("cargo", "build", "--release", "--offline")
    assert done.returncode == 0, done.stderr
    before, after = _told(done.stderr, "sums")
    assert after < before and "jobserver" not in done.stderr
    (folder / "main.c").write_text(CALLER)
    assert wrapped.run("cc", "main.c", "target/release/libsums.a", "-o", "main").returncode == 0
    assert wrapped.run("./main").stdout == "cbf43926\n"
    assert wrapped.leftovers() == []


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.needs("libc", "cc", "ar")
def test_the_crates_of_a_workspace_get_smaller_one_by_one(wrapped: Any) -> None:
    _workspace(wrapped.folder)
    done = wrapped.run("cargo", "build", "--release", "--offline")
    assert done.returncode == 0, done.stderr
    before, after = _told(done.stderr, "count")
    assert after < before, done.stderr
    assert re.search(r"^aiocg rustc: (warning: )?words", done.stderr, re.MULTILINE), done.stderr  # smaller, or why not
    assert wrapped.run("target/release/count", "a", "B", "b").stdout == "a 1\nb 2\n"


def _workspace(folder: Path) -> None:
    """Write a program that a library of the same workspace has a part of."""
    for name in ("words", "count"):
        (folder / name / "src").mkdir(parents=True)
    library, program = PROGRAM.split("\nfn main")
    (folder / "words/src/lib.rs").write_text(library.replace("fn words", "pub fn words"))
    (folder / "words/Cargo.toml").write_text(MANIFEST.format(name="words"))
    (folder / "count/src/main.rs").write_text(f"use words::words;\nfn main{program}")
    dependency = '[dependencies]\nwords = { path = "../words" }\n'
    (folder / "count/Cargo.toml").write_text(MANIFEST.format(name="count") + dependency)
    (folder / "Cargo.toml").write_text('[workspace]\nmembers = ["words", "count"]\nresolver = "2"\n')


def _told(text: str, crate: str) -> tuple[int, int]:
    """Return the bytes before and after that the report on a crate has."""
    line = next((line for line in text.splitlines() if line.startswith(f"aiocg rustc: {crate}: ")), None)
    assert line is not None, text
    before, after = (int(word.replace(",", "")) for word in line.split() if word.replace(",", "").isdecimal())
    return before, after
