"""Whether what is wrong with an installed dataset is found, where nothing but its list says what there should be."""

import asyncio
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from aiocg.datasets._headers import headers_directory
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.sdist import SdistDataset
from aiocg.programs.corpus import verify

SOURCES = {"one.c": "int one(int x) { return x + 1; }\n", "two.c": "int two(int x) { return x * 2; }\n"}

DESCRIPTION = """project = "tiny"
version = "1.0"
license = "MIT"
file = "tiny-1.0.tar.gz"
sha256 = "{sha256}"
bytes = {size}

[[group]]
folder = ""
select = ["*.c"]
sources = '''
one.c
two.c
'''
"""


@pytest.fixture
def sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SdistDataset:
    """Two programs of an archive in a folder, in which alone pip is configured to look; nothing is installed."""
    headers_directory()  # before that
    archive = tmp_path / "links" / "tiny-1.0.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in SOURCES.items():
            member = tarfile.TarInfo(f"tiny-1.0/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    content = archive.read_bytes()
    projects = tmp_path / "projects"
    projects.mkdir()
    described = DESCRIPTION.format(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    (projects / "tiny.toml").write_text(described)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(archive.parent))
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return SdistDataset(projects)


@pytest.mark.slow
def test_sources_of_packages_that_are_gone_or_empty_are_found(sdist: SdistDataset) -> None:
    with pytest.raises(DatasetError, match="sdist-v0 is not installed"):
        asyncio.run(verify(sdist))
    sdist.install()
    found = asyncio.run(verify(sdist))
    assert found.okay
    assert (found.files, found.damaged, found.loaded, found.failed) == (2, {}, 2, {})

    (one,) = sdist.site_data_path.rglob("one.c")
    (two,) = sdist.site_data_path.rglob("two.c")
    one.unlink()
    two.write_text("")
    found = asyncio.run(verify(sdist, sample=0))
    assert not found.okay
    assert (found.files, found.damaged) == (2, {str(one): "No such file or directory", str(two): "is empty"})
