"""The table of `names.toml`, which maps the modules of `compiler_gym` and `gym` to ours."""

import tomllib
from pathlib import Path

__version__ = "0.2.5"  # of CompilerGym

_TABLE = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))

PACKAGES: dict[str, list[str]] = _TABLE["packages"]
"""Packages, and modules whose names are spread over several of ours: the home of each name."""

MODULES: dict[str, str] = {
    (old if old.startswith("gym.") else f"compiler_gym.{old}"): home
    for home, olds in _TABLE["modules"].items()
    for old in olds
}
"""All other modules: the one of ours that each corresponds to."""
