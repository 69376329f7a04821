"""The user's settings for where datasets are installed and how they are fetched, and addresses for messages."""

import os
import re
from pathlib import Path

import platformdirs


def site_data_directory() -> Path:
    """Return the directory of installed data: `AIOCG_SITE_DATA`, or the user's data directory.

    Unlike the cache it holds what was asked for by name, and nothing is evicted::

        datasets/<scheme>/<dataset>/   what a dataset has installed
        indexes/<scheme>/<dataset>.sqlite   what was measured of its programs
    """
    chosen = os.environ.get("AIOCG_SITE_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("aiocg")


def is_offline() -> bool:
    """Return whether `AIOCG_OFFLINE` forbids using the network."""
    return os.environ.get("AIOCG_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off")


def mirror() -> str:
    """Return the address of `AIOCG_DATASET_MIRROR`, which has all published files by name; "" if unset."""
    return os.environ.get("AIOCG_DATASET_MIRROR", "").rstrip("/")


def without_password(url: str) -> str:
    """Return an address without credentials, as it may be shown."""
    return re.sub(r"//[^/]*@", "//", url)
