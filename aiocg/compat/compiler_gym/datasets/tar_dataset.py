"""Archives of files as datasets, fetched and unpacked when they are first used."""

import bz2
import gzip
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.datasets.files_dataset import FilesDataset
from aiocg.compat.compiler_gym.errors import DatasetInitError
from aiocg.compat.compiler_gym.util.download import download
from aiocg.compat.compiler_gym.util.filesystem import atomic_file_write
from aiocg.datasets.errors import InstallError
from aiocg.datasets.locking import locked

__all__ = ["TarDataset", "TarDatasetWithManifest"]

logger = logging.getLogger("compiler_gym.datasets.tar_dataset")

_OPENERS: dict[str, Any] = {"bz2": bz2.BZ2File, "gz": gzip.GzipFile}


class TarDataset(FilesDataset):
    """A published archive. What its members may be is the same as for aiocg's own datasets: nothing leaves the folder.

    Args:
        tar_urls: where the archive is published, best first.
        tar_sha256: its checksum, in hexadecimal.
        tar_compression: "bz2" or "gz"; what it really is is found out when it is unpacked.
        strip_prefix: the folder in it whose files are the benchmarks.
        dataset_args: as for `FilesDataset`, with a `site_data_base`.
    """

    def __init__(
        self,
        tar_urls: list[str],
        tar_sha256: str | None = None,
        tar_compression: str = "bz2",
        strip_prefix: str = "",
        **dataset_args: Any,
    ) -> None:
        super().__init__(dataset_root=None, **dataset_args)
        self.dataset_root = self.site_data_path / "contents" / strip_prefix
        self.tar_urls = tar_urls
        self.tar_sha256 = tar_sha256
        self.tar_compression = tar_compression
        self.strip_prefix = strip_prefix

    @property
    def installed(self) -> bool:
        """Whether the archive is there, unpacked."""
        return (self.site_data_path / ".extracted").is_file()

    def install(self) -> None:
        """Fetch and unpack the archive, unless that has been done. One process does, the others wait.

        Raises:
            DownloadFailed: when it cannot be fetched.
            DatasetInitError: when it is damaged or hostile.
            FileNotFoundError: when it does not have the folder.
        """
        super().install()
        if self.installed:
            return
        with locked(self.site_data_path / ".install_lock", f"Waiting for another process that installs {self.name}"):
            if not self.installed:
                self._unpack()
        if self.strip_prefix and not self.dataset_root.is_dir():
            raise FileNotFoundError(f"Directory prefix '{self.strip_prefix}' not found in dataset '{self.name}'")

    def _unpack(self) -> None:
        from aiocg.datasets.archive import remove_tree, unpack  # few programs need it

        logger.warning("Installing the %s dataset. This may take a few moments ...", self.name)
        contents, archive = self.site_data_path / "contents", self.site_data_path / ".archive"
        if contents.exists():  # of an installation that was not finished
            remove_tree(contents)
        archive.write_bytes(download(self.tar_urls, self.tar_sha256))
        try:
            unpack(archive, contents)
        except InstallError as error:
            raise DatasetInitError(f"{self.name} cannot be installed: {error.reason}") from error
        finally:
            archive.unlink(missing_ok=True)
        (self.site_data_path / ".extracted").touch()


class TarDatasetWithManifest(TarDataset):
    """A published archive whose list of names is published beside it, so that listing does not need the archive.

    Args:
        manifest_urls: where the list is published: a compressed text, one name a line.
        manifest_sha256: its checksum, in hexadecimal.
        manifest_compression: "bz2" or "gz".
        dataset_args: as for `TarDataset`.
    """

    def __init__(
        self, manifest_urls: list[str], manifest_sha256: str, manifest_compression: str = "bz2", **dataset_args: Any
    ) -> None:
        super().__init__(**dataset_args)
        self.manifest_urls = manifest_urls
        self.manifest_sha256 = manifest_sha256
        self.manifest_compression = manifest_compression
        self._manifest_path: Path = self.site_data_path / f"manifest-{manifest_sha256}.txt"
        self._names: list[str] | None = None

    @property
    def size(self) -> int:
        """How many names there are."""
        return len(self._uris())

    def benchmark_uris(self) -> Iterator[str]:
        """Enumerate the names."""
        yield from self._uris()

    def _uris(self) -> list[str]:
        if self._names is None:
            if not self._manifest_path.is_file():
                self._fetch_manifest()
            text = self._manifest_path.read_text(encoding="utf-8")
            self._names = [f"{self.name}/{line}" for line in text.rstrip().split("\n")]
        return self._names

    def _fetch_manifest(self) -> None:
        opener = _OPENERS.get(self.manifest_compression)
        if opener is None:
            raise TypeError(f"Unknown manifest compression: {self.manifest_compression}")
        with locked(self.site_data_path / ".manifest_lock", f"Waiting for the names of {self.name}"):
            if self._manifest_path.is_file():
                return
            packed = io.BytesIO(download(self.manifest_urls, self.manifest_sha256))
            with opener(packed) as file, atomic_file_write(self._manifest_path, fileobj=True) as written:
                written.write(file.read())
