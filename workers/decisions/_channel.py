"""LLVM's interactive channel: tensors of a decision in, one number out.

LLVM writes lines of JSON, and after some of them bytes: first the features and their types, then for each decision the
context it is in and the features' values, one after the other (`llvm/Analysis/InteractiveModelRunner.h`,
`TrainingLogger.h`). We add lines with LLVM's remarks, and one at the end with the result.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Ended", "Feature", "Question", "Reader", "features_of"]

_DTYPES = {"int64_t": ("int64", 8), "int32_t": ("int32", 4), "float": ("float32", 4), "double": ("float64", 8)}


@dataclass(frozen=True, slots=True)
class Feature:
    """One tensor of a decision.

    Attributes:
        name: MLGO's name of it.
        dtype: numpy's name of the type of its elements.
        shape: of the tensor, without the leading dimension of 1.
        first, end: where its bytes lie among those of a question.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    first: int
    end: int


def features_of(header: dict[str, Any]) -> tuple[Feature, ...]:
    """Return the features that a channel's first line announces."""
    found, first = [], 0
    for one in header["features"]:
        dtype, size = _DTYPES[one["type"]]
        end = first + size * math.prod(one["shape"])
        shape = tuple(one["shape"])
        found.append(Feature(one["name"], dtype, shape[1:] if len(shape) > 1 and shape[0] == 1 else shape, first, end))
        first = end
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Question:
    """A decision that LLVM waits for.

    Attributes:
        context: the function that is compiled; empty where LLVM does not say.
        values: the values of all features.
        remark: what LLVM said of it before it asked; empty if nothing.
        taken: what LLVM said of the decision before, after the answer; empty if nothing.
    """

    context: str
    values: bytes
    remark: str = ""
    taken: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a compile.

    Attributes:
        facts: what was measured, by name; `failure` alone where the compile failed.
        content: the object file.
        taken: as of a question.
    """

    facts: dict[str, Any]
    content: bytes
    taken: str = ""


class Reader:
    """Finds questions and the end in the bytes that a compile writes.

    Attributes:
        features: None before the first line.
        context: of the next question.
    """

    def __init__(self, features: tuple[Feature, ...] | None = None, context: str = "") -> None:
        self.features = features
        self.context = context
        self._remarks: dict[str, str] = {}
        self._bytes = bytearray()

    def feed(self, more: bytes) -> Question | Ended | None:
        """Take bytes, and return what they complete, None while something is missing.

        Raises:
            ValueError: if LLVM writes another form.
        """
        self._bytes += more
        while (end := self._bytes.find(b"\n")) >= 0:
            line = bytes(self._bytes[:end])
            if not line.startswith(b'{"observation"'):
                parsed = json.loads(line)
                if "facts" in parsed:
                    return self._ended(parsed, end + 1)
                if "features" in parsed:
                    self.features = features_of(parsed)
                elif "context" in parsed:
                    self.context = parsed["context"]
                elif parsed.keys() <= {"remark", "taken"}:
                    self._remarks |= parsed
                else:
                    raise ValueError(f"LLVM wrote {line[:80]!r}")
                del self._bytes[: end + 1]
            elif self.features is None:
                raise ValueError("LLVM wrote a decision before its features")
            elif (after := end + 1 + self.features[-1].end) < len(self._bytes):  # and a line break
                values = bytes(self._bytes[end + 1 : after])
                del self._bytes[: after + 1]
                remarks, self._remarks = self._remarks, {}
                return Question(self.context, values, **remarks)
            else:
                return None
        return None

    def _ended(self, parsed: dict[str, Any], first: int) -> Ended | None:
        if len(self._bytes) < first + parsed["size"]:
            return None
        content = bytes(self._bytes[first : first + parsed["size"]])
        return Ended(parsed["facts"], content, self._remarks.get("taken", ""))
