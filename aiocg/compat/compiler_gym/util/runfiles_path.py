"""Where files are kept: CompilerGym's variables if they are set, and our folders otherwise."""

import os
import threading
import time
from datetime import datetime
from getpass import getuser
from pathlib import Path

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.site import site_data_directory

__all__ = ["cache_path", "create_user_logs_dir", "runfiles_path", "site_data_path", "transient_cache_path"]

_PACKAGES = Path(__file__).resolve().parents[2]  # the folder that has the package compiler_gym
_LOCK = threading.Lock()


def runfiles_path(relpath: str) -> Path:
    """Return the path of a file of the package, such as `compiler_gym/third_party`; it need not exist.

    `COMPILER_GYM_RUNFILES` gives another folder.
    """
    return Path(os.environ.get("COMPILER_GYM_RUNFILES") or _PACKAGES) / relpath


def site_data_path(relpath: str) -> Path:
    """Return a path in the folder of what is installed: `COMPILER_GYM_SITE_DATA`, or else a part of aiocg's."""
    forced = os.environ.get("COMPILER_GYM_SITE_DATA")
    return (Path(forced) if forced else site_data_directory() / "compiler_gym") / relpath


def cache_path(relpath: str) -> Path:
    """Return a path in the cache: `COMPILER_GYM_CACHE`, or else a part of aiocg's."""
    forced = os.environ.get("COMPILER_GYM_CACHE")
    return (Path(forced) if forced else cache_directory() / "compiler_gym") / relpath


def transient_cache_path(relpath: str) -> Path:
    """Return a path for what need not outlast the process: `COMPILER_GYM_TRANSIENT_CACHE`, or else in memory."""
    forced = os.environ.get("COMPILER_GYM_TRANSIENT_CACHE")
    if forced:
        return Path(forced) / relpath
    if Path("/dev/shm").is_dir():
        return Path(f"/dev/shm/compiler_gym_{getuser()}") / relpath
    return cache_path(relpath)


def create_user_logs_dir(name: str, dir: Path | None = None) -> Path:
    """Make a folder for the logs of one experiment, named by the time.

    Args:
        name: of the experiment.
        dir: where; `COMPILER_GYM_LOGS` has precedence, and `~/logs/compiler_gym` is the default.
    """
    group = Path(os.environ.get("COMPILER_GYM_LOGS") or dir or "~/logs/compiler_gym").expanduser() / name
    with _LOCK:
        while True:
            stamp = datetime.now().strftime("%Y-%m-%d/%H-%M-%S")
            try:
                (group / stamp).mkdir(parents=True)
            except FileExistsError:  # a second is as fine as the names are
                time.sleep(0.3)
                continue
            link = group / "latest"
            link.unlink(missing_ok=True)
            link.symlink_to(stamp)
            return group / stamp
