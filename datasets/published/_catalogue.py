"""The catalogue of published datasets: addresses, checksums and licences, as published by CompilerGym.

The addresses may be gone. CompilerGym's own files have a single address; copies can be served as a mirror
(`AIOCG_DATASET_MIRROR`) and are verified by checksum. GitHub packs the archive of a commit on request; the checksums
hold as long as its format does not change.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from aiocg.datasets.tar import TarDatasetWithManifest

STORE = "https://dl.fbaipublicfiles.com/compiler_gym/"
"""Where CompilerGym published its own files."""

_GITHUB = re.compile(r"github:(?P<repository>[^@]+)@(?P<commit>[^/]+)(?:/(?P<path>.+))?")
_CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))


def facts(name: str) -> dict[str, Any]:
    """Return a dataset's entry: arguments of its class, with complete addresses."""
    found = _CATALOGUE["bitcode"].get(name) or _CATALOGUE["programs"][name]
    return {key: _addresses(value) if key.endswith("urls") else value for key, value in found.items()}


def _addresses(written: list[str]) -> tuple[str, ...]:
    """Expand the catalogue's notation of addresses, best first."""
    found: list[str] = []
    for one in written:
        if one.startswith("stored:"):
            found.append(STORE + one.removeprefix("stored:"))
        elif (github := _GITHUB.fullmatch(one)) is None:
            found.append(one)
        elif github["path"] is None:
            found.append("https://github.com/{repository}/archive/{commit}.tar.gz".format_map(github.groupdict()))
            found.append("https://codeload.github.com/{repository}/tar.gz/{commit}".format_map(github.groupdict()))
        else:
            place = "{repository}/{commit}/{path}".format_map(github.groupdict())
            found.append("https://github.com/{repository}/raw/{commit}/{path}".format_map(github.groupdict()))
            found.append(f"https://raw.githubusercontent.com/{place}")
            found.append(f"https://media.githubusercontent.com/media/{place}")  # of files too large for git
    return tuple(found)


def bitcode_dataset(name: str, **changes: Any) -> TarDatasetWithManifest:
    """Make a dataset of bitcode that others compiled with clang 10, which touches no file.

    LLVM reads the bitcode of all its releases, so the programs are usable as they are.

    Args:
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """
    return TarDatasetWithManifest(f"benchmark://{name}", **{**facts(name), **changes})


def bitcode_datasets() -> list[TarDatasetWithManifest]:
    """Make all of them, which touches no file."""
    return [bitcode_dataset(name) for name in _CATALOGUE["bitcode"]]
