"""What is fuzzed: functions that take bytes and raise only when something is wrong with aiocg.

Each feeds one reader of ours, lets pass the errors that it promises, and checks what it returns. The tests call them
with inputs that hypothesis makes up, `python -m bench.fuzz` with inputs that lead to new places in the code.
"""

import contextlib
import io
import math
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aiocg.datasets._manifest import Manifest
from aiocg.datasets.archive import unpack
from aiocg.datasets.errors import CacheError, InstallError, InvalidBenchmarkUri
from aiocg.datasets.own import dataset as own_dataset
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import InvalidAction
from aiocg.llvm._opt_line import OptLine
from aiocg.llvm.command_line import parse as parse_command_line
from aiocg.spaces.actions import ActionLanguage
from aiocg.states.files import CompilerEnvStateReader
from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState
from aiocg.transport.arrays import Array
from aiocg.transport.codec import Codec, request_codec
from aiocg.transport.control import from_node_codec, from_peer_codec
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.link import ClientLink, ServerLink, read_head
from aiocg.transport.messages import ActionSpaceSpec, ActionSpec
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import _action_text as action_text
from aiocg.workers.llvm import _pipeline_text as pipeline_text
from aiocg.workers.llvm.trust import Guard, machine_code_problem, problem_of
from aiocg.workers.programs.recipe import decode_program
from bench.fuzz import seeds

MOST_MEMORY = 64 << 20  # bytes that reading an input of some kilobytes may take


class Target(NamedTuple):
    """Something to be fuzzed.

    Attributes:
        run: takes an input, and raises when something is wrong.
        seeds: valid inputs to begin with.
        words: what inputs are made of, which chance would take long to find.
    """

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()


# ----------------------------------------------------------------------------------------------------------- the wire


def _frames(data: bytes) -> list[bytes]:
    """Cut an input into frames: each begins with its length, in two bytes; the last is what is left."""
    frames = []
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        frames.append(data[2 : 2 + size])
        data = data[2 + size :]
    return frames


def _decode(codec: Codec[Any], data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        messages = codec.decode(_frames(data))
        assert messages and comparable(codec.decode(codec.encode(messages))) == comparable(messages)


def comparable(value: Any) -> Any:
    """Turn values into ones that are equal exactly when they are the same on the wire; NaN is the same as NaN."""
    if isinstance(value, Array):
        return "array", value.dtype, value.shape, bytes(value.data)
    if hasattr(value, "tobytes"):
        return "array", value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, msgspec.Struct):
        return type(value), comparable(msgspec.structs.astuple(value))
    if isinstance(value, (list, tuple)):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return [(comparable(key), comparable(item)) for key, item in value.items()]
    return type(value), "nan" if isinstance(value, float) and math.isnan(value) else value


def requests(data: bytes) -> None:
    """What a worker reads."""
    _decode(request_codec(), data)


def replies(data: bytes) -> None:
    """What a client reads."""
    from aiocg.transport.codec import reply_codec

    _decode(reply_codec(), data)


def control(data: bytes) -> None:
    """What a node reads, and what it answers."""
    _decode(from_peer_codec(), data)
    _decode(from_node_codec(), data)


def heads(data: bytes) -> None:
    """What the ends of a link read."""
    frames = _frames(data)
    with contextlib.suppress(RemoteProtocolError):
        head = read_head(frames)
        assert head.pack() == frames[0]
        for link in (ServerLink(head.client, head.server), ClientLink(head.client)):
            for _ in range(2):  # what comes twice is taken once
                link.receive(head, frames)
                link.outgoing()


def recipes(data: bytes) -> None:
    """How a worker is told to build and run a program."""
    with contextlib.suppress(CompilationError):
        program = decode_program(data)
        _guard().check_program(program)


@cache
def _guard() -> Guard:
    from aiocg.workers.llvm._library import Library
    from aiocg.workers.programs.linking import Tools

    return Guard(Library.find(), Tools("clang"))


def machine_code(data: bytes) -> None:
    """Files that a worker links for others."""
    assert isinstance(machine_code_problem(data), str)


def assembly(data: bytes) -> None:
    """The text of a program of others: what it lets pass has no directive in its assembly."""
    text = data.decode(errors="replace")
    if not problem_of(text):
        assert "\nmodule asm " not in text and not text.startswith("module asm ")
        for rest in text.split(' asm "')[1:]:
            written, end, _ = rest.partition('"')
            assert not end or "." not in written


# ------------------------------------------------------------------------------------------------- names and actions


def uris(data: bytes) -> None:
    """The names of benchmarks."""
    with contextlib.suppress(InvalidBenchmarkUri):
        uri = BenchmarkUri.from_string(data.decode(errors="surrogateescape"))
        assert BenchmarkUri.from_string(str(uri)) == uri and str(uri).isascii()
        assert uri.scheme == "file" or ".." not in uri.path.split("/")


def actions(data: bytes) -> None:
    """The texts of actions."""
    text = data.decode(errors="replace")
    with contextlib.suppress(action_text.ActionSyntaxError):
        action = action_text.parse(text)
        assert action_text.parse(str(action)) == action
    with contextlib.suppress(ValueError):
        elements = pipeline_text.read(text[: action_text.LONGEST] if text.count("(") <= 100 else "")
        assert pipeline_text.read(pipeline_text.write(elements)) == elements


@cache
def _opt() -> OptLine:
    names = ("mem2reg", "sroa", "gvn", "loop-rotate", "simplifycfg<bonus-inst-threshold=1>", "-O1")
    specs = tuple(ActionSpec(name, aliases=(f"-{name}",), pipeline=f"function({name})") for name in names)
    return OptLine(ActionLanguage(ActionSpaceSpec("Passes", specs)))


def command_lines(data: bytes) -> None:
    """Command lines of `opt`, as CompilerGym wrote them, and of compilers."""
    line = data.decode(errors="replace")
    with contextlib.suppress(InvalidAction):
        for texts in _opt().read(line):
            assert texts and all(isinstance(text, str) for text in texts)
    with contextlib.suppress(ValueError):
        parse_command_line(word for word in line.split() if not word.startswith("@"))


# -------------------------------------------------------------------------------------------------------------- files


def states(data: bytes) -> None:
    """Files with states, as CSV or JSON."""
    found: list[CompilerEnvState | LegacyState] = []
    with contextlib.suppress(InvalidState):
        found += CompilerEnvStateReader(io.BytesIO(data))
    for state in found:
        read = type(state).from_json(state.to_json())
        finite = state.reward is not None and math.isfinite(state.reward)
        assert read == state or not finite, (read, state)
    with contextlib.suppress(InvalidState):  # to the end of the file, but for what cannot be read at all
        assert len(list(CompilerEnvStateReader(io.BytesIO(data), invalid=lambda error: None))) >= len(found)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="aiocg-fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def manifests(data: bytes) -> None:
    """The manifest of a dataset that somebody has made."""
    with _scratch() as folder, contextlib.suppress(InstallError):
        (folder / own_dataset.MANIFEST).write_bytes(data)
        _, programs = own_dataset.read(folder)
        for program in programs:
            for name in (*program.sources, *(name for run in program.runs for name in (*run.files, *run.output_files))):
                assert not name.startswith("/") and ".." not in name.split("/")


def lists(data: bytes) -> None:
    """Lists of names, maybe compressed."""
    with _scratch() as folder:
        path = folder / "names"
        path.write_bytes(data)
        with contextlib.suppress(InstallError, CacheError):
            names = Manifest.read(path)
            assert len(list(names)) == len(names)


def archives(data: bytes) -> None:
    """Archives: nothing may come to lie outside the folder, or lead there, or be much larger than it says."""
    with _scratch() as folder:
        inner = folder / "a" / "b"
        inner.mkdir(parents=True)
        archive, target = folder / "archive", inner / "target"
        archive.write_bytes(data)
        with contextlib.suppress(InstallError):
            unpack(archive, target)
        beside = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if target not in path.parents}
        assert beside <= {"a", "a/b", "a/b/target", "a/b/.target.lock", "archive"}, beside
        for path in target.rglob("*"):
            assert path.resolve().is_relative_to(target), f"{path} leads to {path.resolve()}"


TARGETS: dict[str, Target] = {
    "requests": Target(requests, seeds.requests(), seeds.KINDS),
    "replies": Target(replies, seeds.replies(), seeds.KINDS),
    "control": Target(control, seeds.control()),
    "heads": Target(heads, seeds.heads()),
    "recipes": Target(recipes, seeds.recipes()),
    "machine_code": Target(machine_code, seeds.machine_code()),
    "assembly": Target(assembly, seeds.ASSEMBLY, seeds.ASSEMBLY_WORDS),
    "uris": Target(uris, seeds.URIS, (b"://", b"%2F", b"%25", b"..", b"?", b"#", b"file:///", b"generator://")),
    "actions": Target(actions, seeds.ACTIONS, (b"@main", b'@"', b"unroll<full>", b"function(", b"loop-mssa(", b"{")),
    "command_lines": Target(command_lines, seeds.COMMAND_LINES, (b"-passes=", b"opt", b"-o", b"|", b"'", b"module(")),
    "states": Target(states, seeds.states(), (b'"', b"benchmark", b"commandline", b"opt", b"reward", b"{", b"\r\n")),
    "manifests": Target(manifests, seeds.MANIFESTS, (b'"', b"..", b"/")),
    "lists": Target(lists, seeds.lists()),
    "archives": Target(archives, seeds.archives(), (b"../", b"ustar", b"PK")),
}


def memory_of(target: Target, data: bytes) -> int:
    """Return how many bytes Python had at once, at the most, while it ran a target."""
    tracemalloc.start()
    try:
        target.run(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
