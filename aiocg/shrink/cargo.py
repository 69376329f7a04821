"""Rust: rustc removes the objects that it links, so a second build, elsewhere, leaves them as bitcode."""

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from aiocg.datasets.toolchain import find_toolchain
from aiocg.shrink.record import Build, Link

UNTOUCHED = ("-Clinker-plugin-lto", "-Cno-prepopulate-passes", "-Ccodegen-units=1")
"""Options with which objects are bitcode that no pass has touched, one for each crate."""

_OBJECT = ".rcgu.o"
_HASHED = re.compile(r"(.*)-[0-9a-f]{16}(\.\w+)?")


def is_rust(link: Link) -> bool:
    """Say whether rustc has linked an image."""
    return any(one.path.endswith(_OBJECT) for one in link.command.inputs)


def second_build(scratch: Path) -> Mapping[str, str]:
    """Return the variables with which the same command builds to another folder, and leaves bitcode.

    Args:
        scratch: an empty folder; `target` in it is what cargo writes to.

    Raises:
        ToolchainNotFound: when there is no lld.
    """
    lld = scratch / "ld.lld"
    lld.symlink_to(Path(find_toolchain().linker_command()[0]).resolve())
    linker = script(scratch / "linker", [sys.executable, "-P", "-m", "aiocg.cli", "cc", f"--ld-path={lld}"], ())
    wrapper = script(scratch / "rustc", (), [*UNTOUCHED, "-Csave-temps", f"-Clinker={linker}", "-Clinker-flavor=gcc"])
    temporary = scratch / "tmp"
    temporary.mkdir()
    return {
        "CARGO_TARGET_DIR": str(scratch / "target"),
        "RUSTC_WRAPPER": str(wrapper),
        "TMPDIR": str(temporary),
        "AIOCG_CC_SEARCH": "none",
    }


def in_place(build: Build, made: Path, own: Path) -> Build:
    """Return a second build's links as those of the images that the first has made.

    Args:
        build: the second one.
        made: the folder that cargo has written to then.
        own: the folder that cargo writes to else.
    """
    links = []
    for link in build.links:
        if is_rust(link) and (artifact := artifact_of(link.output, made)):
            links.append(replace(link, output=own / artifact, files={}))
    return replace(build, links=tuple(links), left_alone={})


def artifact_of(output: Path, made: Path) -> Path | None:
    """Return where cargo puts what rustc has linked, relative to the target folder; None for a build script.

    Args:
        output: of rustc, such as `release/deps/app-0123456789abcdef` in the target folder.
        made: the target folder.
    """
    match = _HASHED.fullmatch(output.name)
    if match is None or output.parent.name != "deps" or not output.is_relative_to(made):
        return None
    return output.parent.parent.relative_to(made) / f"{match[1]}{match[2] or ''}"


def script(path: Path, before: Iterable[str], after: Iterable[str]) -> Path:
    """Write a command that starts another one with words before and after its own, and return its path."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(before)} "$@" {shlex.join(after)}\n')
    path.chmod(0o755)
    return path
