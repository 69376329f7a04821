"""Observations of the program itself, and counts of its instructions.

Each is a pure function of benchmark and state, independent of the machine.

inst2vec (Ben-Nun et al., "Neural Code Comprehension", 2018) has an embedding for each of 8,565 statements, such as
`<%ID> = load i32, i32* <%ID>, align 4`: a line of IR in which placeholders replace names, numbers and strings, and
definitions replace named types. The statements were collected from the output of LLVM 6. Here `Rewriter` first writes a
line of today's IR as LLVM 6 would have, with pointee types, and `abstract` then replaces its names and values. Global
variables, function headers and instructions are statements; declarations, labels, comments, metadata and debug records
are not.
"""

import functools
import hashlib
import re
import struct
from collections.abc import Callable, Sequence

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._walker import AUTOPHASE_NAMES, INST_COUNT_NAMES
from aiocg.workers.llvm.observations._observation import LEVELS, Subject


def _statements(subject: Subject, llvm: int = 6) -> list[str]:

    return statements(subject.engine.text(subject.state), llvm)


_MODULE_NAMES = re.compile(r'\A(?:; ModuleID = .*\n)?(?:source_filename = ".*"\n)?')

INSTRUCTION_COUNT = "IrInstructionCount"
DICT_KEYS = tuple(f"{name}Count" for name in INST_COUNT_NAMES)  # CompilerGym's spelling
NORM_DICT_KEYS = tuple(f"{name}Density" for name in INST_COUNT_NAMES[1:])


def _ir_sha1(subject: Subject) -> str:
    if "sha1" not in subject.state.memo:
        text = _MODULE_NAMES.sub("", subject.engine.text(subject.state))
        subject.state.memo["sha1"] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    digest: str = subject.state.memo["sha1"]
    return digest


def _instruction_count_at(level: str) -> Callable[[Subject], int]:
    return lambda subject: subject.benchmark.at(level).instructions


def _densities(subject: Subject) -> list[float]:
    total, *counts = integers(subject.engine.inst_count(subject.state))
    return [count / total if total else 0.0 for count in counts]


def _inst_count_norm(subject: Subject) -> Array:
    values = _densities(subject)
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def integers(packed: bytes) -> tuple[int, ...]:
    """Unpack little-endian int64."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def _counts(name: str, description: str, size: int, compute: Callable[[Subject], bytes]) -> Observation:
    def array(subject: Subject) -> Array:
        return Array("int64", (size,), compute(subject))

    zeros = Array("int64", (size,), bytes(8 * size))
    return Observation.of(name, "array", description, array, dtype="int64", shape=(size,), low=0, default=zeros)


def _by_name(
    name: str, keys: tuple[str, ...], compute: Callable[[Subject], Sequence[float]], dtype: str = "int64"
) -> Observation:
    """Return the observation that another one's values have by name."""

    def mapping(subject: Subject) -> dict[str, float]:
        return dict(zip(keys, compute(subject), strict=True))

    zeros = dict.fromkeys(keys, 0)
    of = name.removesuffix("Dict")
    return Observation.of(name, "mapping", f"{of} by name.", mapping, dtype=dtype, keys=keys, low=0, default=zeros)


_LOCAL = re.compile(r'%[r"@\w.\-:]+')
_VALUES = re.compile(
    r"""(?P<string>(?<!\w)c".+")
    |(?<!%")(?P<global>@[r"\w.\-$\\]+)
    |(?P<float>(?<!\w)(?:f0x|-?0[xX][hklmrHKLMR]?)[A-Fa-f0-9]+|[-+](?:inf|[qs]?nan(?:\(0x[A-Fa-f0-9]+\))?)(?!\w)
        |(?<!\w)-?[0-9]+\.[0-9]+(?:e\+?-?[0-9]+)?)
    |(?P<int>(?<!align)(?<!\[)\ -?[0-9]+(?![0-9]*\.[0-9])(?!\d|[xX][hklmrHKLMR]?[A-Fa-f0-9]))""",
    re.VERBOSE,
)
_MARKS = {"string": " <STRING>", "global": "<@ID>", "float": "<FLOAT>", "int": " <INT>"}
_KEEPS_INTEGERS = re.compile(r"<%ID> = (?:extract|insert)(?:element|value)")
_ON_ELEMENTS = re.compile(r"<%ID> = (?:extract|insert)element")
_INDEX_TYPE = re.compile(r"i\d+ ")


def statements(text: str, llvm: int = 6) -> list[str]:
    """Return the statements of a program, in the order of its text.

    Args:
        text: textual IR as LLVM prints it, from any version since 14.
        llvm: 6, whose statements the dictionary has, or 10, whose labels are statements, too: what CompilerGym has.
    """
    known: dict[str, str] = {}
    found = []
    from aiocg.workers.llvm._typed_ir import Rewriter, joined_lines  # its regular expressions are slow to compile

    for line in Rewriter(list(joined_lines(text, labels=llvm == 10)), llvm).lines():
        shape = _LOCAL.sub("<%ID>", line)
        statement = known.get(shape)
        if statement is None:
            statement = known[shape] = _abstract_values(shape)
        found.append(statement)
    return found


def abstract(line: str) -> str:
    """Replace names and values in one line of IR and leave the rest unchanged."""
    return _abstract_values(_LOCAL.sub("<%ID>", line))


def _abstract_values(shape: str) -> str:
    kept = _KEEPS_INTEGERS.match(shape) is not None

    def replace(match: re.Match[str]) -> str:
        kind = match.lastgroup
        return match[0] if kept and kind == "int" else _MARKS[kind or "int"]

    shape = _VALUES.sub(replace, shape)
    return _INDEX_TYPE.sub("<TYP> ", shape) if kept and _ON_ELEMENTS.match(shape) else shape


OBSERVATIONS = (
    Observation.of("Ir", "text", "The program as textual LLVM IR.", lambda subject: subject.engine.text(subject.state)),
    Observation.of(
        "IrSha1",
        "text",
        "SHA1 of the textual IR without the lines that name the module and its source, in hex.",
        _ir_sha1,
    ),
    Observation.of(
        "Bitcode", "binary", "The program as LLVM bitcode.", lambda subject: subject.engine.bitcode(subject.state)
    ),
    Observation.integer(INSTRUCTION_COUNT, "Number of IR instructions.", lambda subject: subject.state.instructions),
    *(
        Observation.integer(
            f"{INSTRUCTION_COUNT}{level}", f"Number of IR instructions {what}.", _instruction_count_at(level)
        )
        for level, what in LEVELS.items()
    ),
    _counts(
        "InstCount",
        "Instructions, blocks, functions, and instructions by opcode.",
        len(INST_COUNT_NAMES),
        lambda subject: subject.engine.inst_count(subject.state),
    ),
    _by_name("InstCountDict", DICT_KEYS, lambda subject: integers(subject.engine.inst_count(subject.state))),
    Observation.of(
        "InstCountNorm",
        "array",
        "InstCount divided by its first entry, which is left out.",
        _inst_count_norm,
        dtype="float64",
        shape=(len(NORM_DICT_KEYS),),
        low=0,
        default=Array("float64", (len(NORM_DICT_KEYS),), bytes(8 * len(NORM_DICT_KEYS))),
    ),
    _by_name("InstCountNormDict", NORM_DICT_KEYS, _densities, "float64"),
    _counts(
        "Autophase",
        "The 56 Autophase features.",
        len(AUTOPHASE_NAMES),
        lambda subject: subject.engine.autophase(subject.state),
    ),
    _by_name("AutophaseDict", AUTOPHASE_NAMES, lambda subject: integers(subject.engine.autophase(subject.state))),
    Observation.of(
        "Inst2vecPreprocessedText",
        "texts",
        "The statements of the program, without names and values, as inst2vec's dictionary has them.",
        _statements,
    ),
    Observation.of(
        "Inst2vecPreprocessedTextLlvm10",
        "texts",
        "The same of LLVM 10's text of the program, labels included, as CompilerGym has it.",
        functools.partial(_statements, llvm=10),
    ),
)
