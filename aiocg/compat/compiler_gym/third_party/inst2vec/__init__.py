"""Statements of LLVM's IR as vectors, over aiocg's implementation of inst2vec."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Inst2vecEncoder"]


class Inst2vecEncoder:
    """Turns textual IR into statements, statements into numbers, and numbers into vectors.

    Its dictionary is fetched from the package index when it is first used, and kept.
    """

    @property
    def vocab(self) -> Mapping[str, int]:
        """The number of each statement."""
        from aiocg.llvm import inst2vec

        return inst2vec.dictionary()

    @property
    def embeddings(self) -> npt.NDArray[np.float32]:
        """The vectors, float32 of shape (8565, 200)."""
        from aiocg.llvm import inst2vec

        return inst2vec.embeddings()

    @property
    def unknown_vocab_element(self) -> int:
        """The number of all statements that are not in the dictionary."""
        return self.vocab["!UNK"]

    def preprocess(self, ir: str) -> list[str]:
        """Return the statements of a program, given as textual IR of the LLVM at hand."""
        from aiocg.compat.compiler_gym.datasets.native import in_their_words
        from aiocg.llvm import compute_observation

        with in_their_words("textual IR"):
            return list(compute_observation("Inst2vecPreprocessedText", ir.encode()))

    def encode(self, preprocessed: list[str]) -> list[int]:
        """Return the numbers of statements."""
        vocab: Any = self.vocab
        return [vocab.get(statement, vocab["!UNK"]) for statement in preprocessed]

    def embed(self, encoded: list[int]) -> npt.NDArray[np.float32]:
        """Return the vectors of numbers, float32 of shape (n, 200)."""
        return self.embeddings[np.asarray(encoded, dtype=np.int64)]
