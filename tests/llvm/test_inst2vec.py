"""Numbers and embeddings of statements: from a dictionary in an index that is made here, and from the published one."""

import hashlib
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiocg
from aiocg.datasets import DownloadError
from aiocg.datasets.package_index import Wheel
from aiocg.env.preparation import run_once
from aiocg.llvm import inst2vec

WORDS = ["br label <%ID>", "ret void", "<%ID> = load i32, i32* <%ID>, align 4", "!UNK"]
VECTORS = np.arange(len(WORDS) * inst2vec.DIMENSIONS, dtype="<f4").reshape(len(WORDS), -1)


def pickled_array(array: Any) -> bytes:
    """Pickle an array as NumPy did in 2020."""
    return pickle.dumps(array, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing has been fetched in this process."""
    monkeypatch.setattr("aiocg.env.preparation._done", set())
    inst2vec.dictionary.cache_clear()
    inst2vec.embeddings.cache_clear()
    yield
    inst2vec.dictionary.cache_clear()
    inst2vec.embeddings.cache_clear()


@pytest.fixture
def own_index(no_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No index but an empty folder, and an empty cache."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def small_wheel(own_index: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel with a small dictionary in place of the published one."""
    members = {
        "small/dictionary.pickle": pickle.dumps({word: i for i, word in enumerate(WORDS)}, protocol=3),
        "small/embeddings.pickle": pickled_array(VECTORS),
    }
    name = "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(own_index / name, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        archive.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    digest = hashlib.sha256((own_index / name).read_bytes()).hexdigest()
    wheel = Wheel(name, digest, {one: hashlib.sha256(content).hexdigest() for one, content in members.items()})
    monkeypatch.setattr(inst2vec, "WHEEL", wheel)
    return wheel


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_statements_get_numbers_and_embeddings(make: Callable[..., Any], small_wheel: Wheel) -> None:
    env = await make("gcd")
    names = ("Inst2vecPreprocessedText", "Inst2vecEmbeddingIndices", "Inst2vec")
    texts, numbers, vectors = [await env.observe(name) for name in names]
    assert "br label <%ID>" in texts and len(texts) == len(numbers) == len(vectors) > 100
    assert [WORDS[number] for number in numbers] == [text if text in WORDS else "!UNK" for text in texts]
    assert (vectors == VECTORS[numbers]).all() and vectors.dtype == np.float32
    for name, value in zip(names, (texts, numbers, vectors), strict=True):
        assert env.observation_spaces[name].space.contains(value)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_without_an_index_only_what_needs_it_fails(make: Callable[..., Any], own_index: Path) -> None:
    env = await make("gcd")
    with pytest.raises(DownloadError, match=r"compiler_gym.*none of the package indexes"):
        await env.observe("Inst2vec")
    assert len(await env.observe("Inst2vecPreprocessedText")) > 100


@pytest.mark.slow
def test_nothing_is_encoded_as_nothing(small_wheel: Wheel) -> None:
    assert inst2vec.encode([]).shape == (0,) and inst2vec.embed(inst2vec.encode([])).shape == (0, inst2vec.DIMENSIONS)


class Attack:
    """Its pickle runs a command where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("read", [inst2vec.read_dictionary, inst2vec.read_embeddings])
@pytest.mark.parametrize("nest", [lambda evil: evil, lambda evil: {"a": 1, "b": evil}, lambda evil: [VECTORS, evil]])
def test_a_pickle_is_never_run(tmp_path: Path, read: Callable[[Path], object], nest: Callable[[Any], Any]) -> None:
    path, proof = tmp_path / "file.pickle", tmp_path / "proof"
    path.write_bytes(pickle.dumps(nest(Attack(proof)), protocol=3))
    with pytest.raises(DownloadError, match="not what was published"):
        read(path)
    assert not proof.exists()


@pytest.mark.parametrize(
    "value", [b"", b"\x80\x03", [1], {"a": 1.5}, {"a": "b"}, {"a": 1, "b": None}, np.zeros((2, 3), "<f4"), {}]
)
def test_a_file_with_anything_else_is_refused(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "file.pickle"
    path.write_bytes(value if isinstance(value, bytes) else pickled_array(value))
    for read in (inst2vec.read_dictionary, inst2vec.read_embeddings):
        with pytest.raises(DownloadError, match="not what was published"):
            read(path)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_the_published_dictionary_is_fetched(
    make: Callable[..., Any], no_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))
    try:
        await run_once([inst2vec.dictionary, inst2vec.embeddings])
    except DownloadError as error:
        pytest.skip(f"no package index: {error}")
    assert len(inst2vec.dictionary()) == inst2vec.WORDS and inst2vec.embeddings().shape == (inst2vec.WORDS, 200)
    assert inst2vec.dictionary()["<%ID> = load i32, i32* <%ID>, align 4"] != inst2vec.dictionary()["!UNK"] == 8564
    shares = []
    for name in ("qsort", "fft", "huffman"):
        env = await make(name)
        numbers = await env.observe("Inst2vecEmbeddingIndices")
        shares.append((numbers != 8564).mean())
        assert env.observation_spaces["Inst2vec"].space.contains(await env.observe("Inst2vec"))
    assert min(shares) > 0.5


def test_the_spaces_say_what_their_values_are() -> None:
    numbers, vectors, *_ = inst2vec.spaces()
    assert numbers.space.contains(numbers.default) and vectors.space.contains(vectors.default)
    assert isinstance(numbers, aiocg.spaces.ObservationSpace)
