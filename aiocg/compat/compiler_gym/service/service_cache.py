"""Folders for the files of a service."""

import shutil
import tempfile
from pathlib import Path

from aiocg.compat.compiler_gym.util.filesystem import is_in_memory
from aiocg.compat.compiler_gym.util.runfiles_path import cache_path, transient_cache_path

__all__ = ["ServiceCache"]


class ServiceCache:
    """A folder for the files of a service, in memory where that is possible. `close` removes it.

    It has two folders: `logs`, and `disk` for what must lie on a disk, since programs in memory may not be executed.

    Attributes:
        path: of the folder.
    """

    def __init__(self) -> None:
        self.path = _new_folder(transient_cache_path("s"))
        self._folders = [self.path]
        (self.path / "logs").mkdir()
        disk = self.path / "disk"
        if is_in_memory(self.path):
            self._folders.append(_new_folder(cache_path("s")))
            disk.symlink_to(self._folders[-1])
        else:
            disk.mkdir()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def close(self) -> None:
        """Remove the folder. Idempotent."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def __repr__(self) -> str:
        return str(self.path)


def _new_folder(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))
