"""Where installed datasets lie, and whether the network may be used: two settings of the user's."""

import os
from pathlib import Path

import platformdirs

__all__ = ["is_offline", "mirror", "site_data_directory"]


def site_data_directory() -> Path:
    """Return the directory of what is installed: `AIOCG_SITE_DATA`, or the one the system gives to users.

    Unlike the cache it holds what was asked for by name, and nothing in it vanishes by itself::

        datasets/<scheme>/<dataset>/   what a dataset has installed
        indexes/<scheme>/<dataset>.sqlite   what was measured of its programs
    """
    chosen = os.environ.get("AIOCG_SITE_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("aiocg")


def is_offline() -> bool:
    """Say whether `AIOCG_OFFLINE` forbids the use of the network."""
    return os.environ.get("AIOCG_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off")


def mirror() -> str:
    """Return the address that `AIOCG_DATASET_MIRROR` gives, which has all published files by name; "" without."""
    return os.environ.get("AIOCG_DATASET_MIRROR", "").rstrip("/")
