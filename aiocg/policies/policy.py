"""A policy: a small network over features of the program, run by NumPy alone, and the file that it is kept in.

The file is an `.npz` archive without pickled objects: `header`, the bytes of a JSON object (`PolicyFacts`), and the
weights and biases of each layer as float16. Actions are kept as texts: an LLVM that lacks some of them can use the
others, and none ever means another one.
"""

import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from aiocg.errors import AiocgError
from aiocg.policies.features import PARTS, Features

__all__ = ["Policy", "PolicyError", "PolicyFacts", "shipped_policies"]

FORMAT = "aiocg policy 1"
LARGEST = 16 << 20  # bytes of a file, and of what it unpacks to: ours have 0.3 MB
ROWS = 4  # computed together, always: so a row's last bit does not depend on the others, and OpenBLAS, for which these
# matrices are small enough, starts no threads, which are slow on a busy machine

Layers = tuple[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]], ...]


class PolicyError(AiocgError):
    """A file is no policy, is damaged, or does not fit the compiler."""


class PolicyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is written in the file of a policy beside its weights.

    Attributes:
        format: always the same text.
        compiler: name and version of the compiler that it was trained with, such as "LLVM 23.1.4".
        actions: their texts; the network has one more output, which is to stop.
        parts: of the features, see `aiocg.policies.features`.
        activation: between the layers, "tanh" or "relu".
        steps: of an episode.
        starts: names of what it was trained to begin with: "O0", "OzMinsize".
        bases: of a policy for single functions, the lists of actions that come before its choices.
        endings: for each base the list of actions that comes after its choices; none of policies without endings.
        programs: how many programs it was trained on.
        uris: their URIs, sorted; none of policies that were made before these were kept.
        programs_hash: SHA-256 of the URIs, a line each.
        sources: what was asked for: the datasets.
        seed: of the training.
        episodes: that it was trained for.
        scores: what an evaluation has found, by the name of the programs and of the figure.
    """

    format: str = FORMAT
    compiler: str
    actions: tuple[str, ...]
    parts: tuple[str, ...] = PARTS
    activation: Literal["tanh", "relu"] = "tanh"
    steps: int = 45
    starts: tuple[str, ...] = ("O0",)
    bases: tuple[tuple[str, ...], ...] = ()
    endings: tuple[tuple[str, ...], ...] = ()
    programs: int = 0
    uris: tuple[str, ...] = ()
    programs_hash: str = ""
    sources: tuple[str, ...] = ()
    seed: int = 0
    episodes: int = 0
    scores: Mapping[str, Mapping[str, float]] = {}


class Policy:
    """A multilayer perceptron, from features to a preference for each action.

    Attributes:
        facts: what is known of it.
        features: computes what it sees.
        layers: weights, float32, shape (inputs, outputs), and biases of each layer.

    Raises:
        PolicyError: when the layers do not fit each other, the features or the actions.
    """

    def __init__(self, facts: PolicyFacts, layers: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]) -> None:
        self.facts = facts
        try:
            self.features = Features(len(facts.actions), facts.parts)
        except ValueError as error:
            raise PolicyError(str(error)) from error
        self.layers: Layers = tuple(
            (np.ascontiguousarray(weights, np.float32), np.ascontiguousarray(biases, np.float32))
            for weights, biases in layers
        )
        width = self.features.size
        for weights, biases in self.layers:
            if weights.ndim != 2 or weights.shape[0] != width or biases.shape != weights.shape[1:]:
                raise PolicyError(f"a layer takes {width} numbers, and has weights of shape {weights.shape}")
            if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
                raise PolicyError("a layer has numbers that are not finite")
            width = weights.shape[1]
        if not self.layers or width != len(facts.actions) + 1 or not facts.actions or facts.steps < 1:
            raise PolicyError(f"the network has {width} outputs for {len(facts.actions)} actions and to stop")
        if facts.endings and len(facts.endings) != len(facts.bases):
            raise PolicyError(f"there are {len(facts.endings)} endings for {len(facts.bases)} bases")

    def logits(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the preference for each action and, last, for stopping; of a state the same whatever others there are.

        Args:
            features: float32, shape (states, features.size).

        Returns:
            float32, shape (states, actions + 1).
        """
        count = len(features)
        padded = np.zeros((-(-count // ROWS) * ROWS, features.shape[1]), np.float32)
        padded[:count] = features
        return np.concatenate([self._forward(padded[at : at + ROWS]) for at in range(0, len(padded), ROWS)])[:count]

    def _forward(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        for weights, biases in self.layers[:-1]:
            values = values @ weights + biases
            values = np.tanh(values) if self.facts.activation == "tanh" else np.maximum(values, 0)
        weights, biases = self.layers[-1]
        return values @ weights + biases

    # ------------------------------------------------------------------------------------------ file

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        arrays: dict[str, Any] = {"header": np.frombuffer(msgspec.json.encode(self.facts), np.uint8)}
        for number, (weights, biases) in enumerate(self.layers):
            arrays |= {f"weights{number}": weights.astype(np.float16), f"biases{number}": biases.astype(np.float16)}
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Read a file, or a policy that comes along, by its name.

        Raises:
            PolicyError: when there is none, or it is damaged or something else.
        """
        file = Path(path)
        if not file.exists():
            known = shipped_policies()
            if str(path) not in known:
                raise PolicyError(f"there is no policy {path}: give a file, or {' or '.join(known) or 'train one'}")
            file = known[str(path)]
        try:
            if file.stat().st_size > LARGEST:
                raise PolicyError(f"{path} is too large for a policy")
            return cls.from_bytes(file.read_bytes())
        except OSError as error:
            raise PolicyError(f"{path} cannot be read: {error.strerror}") from error
        except PolicyError as error:
            raise PolicyError(f"{path} is no policy that can be used: {error}") from error

    @classmethod
    def from_bytes(cls, content: bytes) -> "Policy":
        """Read the content of a file.

        Raises:
            PolicyError: when it is damaged or something else.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                if sum(one.file_size for one in archive.infolist()) > LARGEST:
                    raise PolicyError("it unpacks to more than a policy can have")
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                facts = msgspec.json.decode(arrays["header"].tobytes(), type=PolicyFacts)
                if facts.format != FORMAT:
                    raise PolicyError(f"its format is {facts.format!r}, not {FORMAT!r}")
                count = sum(name.startswith("weights") for name in arrays.files)
                layers = [(arrays[f"weights{number}"], arrays[f"biases{number}"]) for number in range(count)]
                return cls(facts, layers)
        except (EOFError, LookupError, OSError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise PolicyError(f"it is damaged or something else ({error})") from error
        except (NotImplementedError, RuntimeError) as error:  # of zipfile: encrypted, or packed in another way
            raise PolicyError(str(error)) from error


def shipped_policies() -> dict[str, Path]:
    """Return the files of the policies that come along, by name."""
    return {path.stem: path for path in sorted(Path(__file__).with_name("shipped").glob("*.npz"))}
