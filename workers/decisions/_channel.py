"""LLVM's interactive channel, tensors of a decision in and one number out, and the kinds of decisions that it asks for.

LLVM writes lines of JSON, and after some of them bytes: first the features and their types, then for each decision the
context it is in and the features' values, one after the other (`llvm/Analysis/InteractiveModelRunner.h`,
`TrainingLogger.h`). We add lines with LLVM's remarks, and one at the end with the result.
"""

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiocg.transport.messages import ActionSpec
from aiocg.workers.compilation import unknown_action

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


_INTERVALS = 32  # MaxInterferences of LLVM's eviction advisor
OWN_OPTIONS = ("pass-remarks-missed=regalloc",)  # what spills cost
MOST_GROWTH = 100  # beyond that many times its size a program is no longer asked about: its calls are kept
PRIORITIES = tuple(1 << exponent for exponent in range(0, 32, 2))


@dataclass(frozen=True)
class Kind:
    """A kind of decision.

    Attributes:
        name: the last part of LLVM's name of the channel's option.
        description: what is decided.
        options: of LLVM, as `name=value`; `{channel}` is the path of the channel.
        answer: format of an answer, as `struct` takes it.
        actions: an answer each; see `value_of`.
        while_optimising: whether the passes ask; else it is the code generator.
        mask: the feature that says which answers are legal, if there is one.
        default: the feature with LLVM's own answer, if there is one.
        tells_default: whether that feature is right; until LLVM 20 it is always 0, and LLVM's answer is to keep a call
            exactly if it has remarked why.
        highest: what no feature that is a real number exceeds; None if there is no such bound.
    """

    name: str
    description: str
    options: tuple[str, ...]
    answer: str
    actions: tuple[ActionSpec, ...]
    while_optimising: bool = False
    mask: str = ""
    default: str = ""
    tells_default: bool = True
    highest: float | None = None


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "inline",
            "whether a call is inlined",
            (
                "enable-ml-inliner=release",
                "inliner-interactive-channel-base={channel}",
                "inliner-interactive-include-default=true",
                f"ml-advisor-size-increase-threshold={MOST_GROWTH}",
                "pass-remarks=inline-ml",
                "pass-remarks-missed=inline|regalloc",
            ),
            "q",
            (
                ActionSpec("keep", "keep the call"),
                ActionSpec("inline", "inline the callee"),
                ActionSpec("default", "decide as LLVM does"),
            ),
            while_optimising=True,
            default="inlining_default",
        ),
        Kind(
            "evict",
            "which live interval leaves its register",
            (
                "regalloc-enable-advisor=release",
                "regalloc-evict-interactive-channel-base={channel}",
                *OWN_OPTIONS,
            ),
            "q",
            (
                *(
                    ActionSpec(f"evict-{index}", f"evict what is in register {index} of the order")
                    for index in range(_INTERVALS)
                ),
                ActionSpec("evict-none", "give the candidate itself no register now: it is split or spilled"),
            ),
            mask="mask",
            highest=1.0,
        ),
        Kind(
            "priority",
            "when a live interval gets its turn in register allocation",
            (
                "regalloc-enable-priority-advisor=release",
                "regalloc-priority-interactive-channel-base={channel}",
                *OWN_OPTIONS,
            ),
            "f",
            tuple(ActionSpec(f"priority-{value}", f"priority {value}; higher ones come first") for value in PRIORITIES),
        ),
    )
}


def legal_actions(kind: Kind, question: Question, features: Sequence[Feature]) -> tuple[int, ...]:
    """Return for each action 1 if it is legal for a question, 0 if LLVM would end the process over it."""
    if not kind.mask:
        return (1,) * len(kind.actions)
    return tuple(int(one != 0) for one in numbers(question, features, kind.mask))


def numbers(question: Question, features: Sequence[Feature], name: str) -> tuple[float, ...]:
    """Return the elements of a question's feature."""
    feature = next(one for one in features if one.name == name)
    letter = {"int64": "q", "int32": "i", "float32": "f", "float64": "d"}[feature.dtype]
    return struct.unpack(f"{math.prod(feature.shape)}{letter}", question.values[feature.first : feature.end])


def own_answer(kind: Kind, question: Question, features: Sequence[Feature]) -> bytes:
    """Return what LLVM itself would answer, where it says that."""
    return struct.pack(kind.answer, own_decision(kind, question, features))


def own_decision(kind: Kind, question: Question, features: Sequence[Feature]) -> int:
    """Return what LLVM itself would decide, where it says that."""
    if kind.tells_default:
        return int(numbers(question, features, kind.default)[0])
    return int(not question.remark)


def value_of(kind: Kind, action: int, question: Question, features: Sequence[Feature]) -> bytes:
    """Return what to answer.

    Raises:
        CompilationError: with `FailureCode.ACTION_UNKNOWN` if the action is illegal for this question.
    """
    name = kind.actions[action].name
    legal = legal_actions(kind, question, features)
    if not legal[action]:
        names = ", ".join(spec.name for spec, may in zip(kind.actions, legal, strict=True) if may)
        raise unknown_action(f"{name} is illegal for this decision: legal are {names}")
    if kind.default and name == "default":
        return own_answer(kind, question, features)
    return struct.pack(kind.answer, PRIORITIES[action] if kind.name == "priority" else action)
