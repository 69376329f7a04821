"""A session of GCC: choices by four kinds of actions, what is observed of them, and what it can be told."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest

from aiocg.datasets.cache import cache_directory
from aiocg.spaces import ObservationSpace
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.session import GccSession

SOURCE = b"int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n; return s; }\n"
TREE = {
    "version": 1,
    "units": ["f.c"],
    "files": {"f.c": SOURCE},
    "include": [],
    "flags": [],
    "language": "c",
    "freestanding": False,
}


@pytest.fixture(scope="module")
def session_class(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[GccSession]]:
    """A class of its own, whose cache knows nothing but which options compilers have: finding that takes seconds."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine")
    cache = tmp_path_factory.mktemp("cache")
    for path in cache_directory().glob("gcc-options-*.json"):
        shutil.copy(path, cache)

    class Session(GccSession):
        pass

    Session.start({"gcc_bin": "gcc", "cache_dir": str(cache)})
    yield Session
    assert Session.current is not None
    Session.current.compiler.runner.close()


@pytest.fixture
def session(session_class: type[GccSession]) -> GccSession:
    return session_class(session_class.load_benchmark(msgspec.msgpack.encode(TREE)))


def index(session: GccSession, name: str) -> int:
    return [option.name for option in session.language.options].index(name)


def test_it_starts_with_no_option_and_nothing_compiled(session: GccSession) -> None:
    assert session.get_observation("command_line") == "gcc"
    choices = numpy.asarray(session.get_observation("choices"))
    assert choices.dtype == numpy.int64 and set(choices) == {-1} and len(choices) == len(session.language.options)
    assert session.get_observation("source") == SOURCE.decode()


def test_nothing_is_compiled_before_it_is_observed(session: GccSession) -> None:
    before = session.statistics()["units_compiled"]
    for action in range(0, len(session.language.edits), 7):
        session.check_action(action)
        session.apply_action(action)
        session.fork().state_hash()
    session.get_observation("choices")
    assert session.statistics()["units_compiled"] == before


def test_edits_and_command_lines_are_one_language(session: GccSession) -> None:
    assert session.apply_action("-O2") and not session.apply_action("-O2")
    assert session.apply_action(next(i for i, e in enumerate(session.language.edits) if e.action.name == "-fno-gcse"))
    assert session.get_observation("command_line") == "gcc -O2 -fno-gcse"
    other = session.fork()
    assert session.apply_action("gcc -fno-gcse -Os -O2") is False  # the last counts, and options have their places
    assert session.apply_action("gcc --param=max-inline-insns-auto=30 -Os")
    assert session.get_observation("command_line") == "gcc -Os --param=max-inline-insns-auto=30"
    assert session.choices[index(session, "-fgcse")] == -1
    assert session.apply_action("gcc") and set(session.choices) == {-1}
    assert other.get_observation("command_line") == "gcc -O2 -fno-gcse"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (-1, "expected an index"),
        (10**6, "expected an index"),
        (1.5, "expected an index"),
        (True, "expected an index"),
        ("", "neither an edit"),
        ("-fno-such-thing", "neither an edit"),
        ("clang -O2", "neither an edit"),
        ("gcc -O2  -fgcse", "is not an option"),
        ("gcc -o /etc/passwd", "is not an option"),
        ("gcc -O2 -fplugin=/tmp/x.so", "is not an option"),
        ("gcc --param=max-inline-insns-auto=x", "a number from 0"),
        ("gcc --param=max-inline-insns-auto=-5", "not in the range"),
    ],
)
def test_what_is_no_action_changes_nothing(session: GccSession, action: Any, message: str) -> None:
    session.apply_action("-O3")
    for method in (session.check_action, session.apply_action):
        with pytest.raises(CompilationError, match=message) as e:
            method(action)
        assert e.value.code == FailureCode.ACTION_UNKNOWN
    assert session.command_line == "gcc -O3"


def test_states_have_equal_hashes_where_program_and_options_are(session: GccSession) -> None:
    start = session.state_hash()
    session.apply_action("-O2")
    changed = session.state_hash()
    other = type(session)(session.load_benchmark(msgspec.msgpack.encode(TREE)))
    assert start == other.state_hash() != changed and 0 <= start < 2**64
    other.apply_action("gcc -O2")
    assert other.state_hash() == changed
    renamed = {**TREE, "units": ["g.c"], "files": {"g.c": SOURCE}}
    assert type(session)(session.load_benchmark(msgspec.msgpack.encode(renamed))).state_hash() != start
    session.apply_action("gcc")
    assert session.state_hash() == start


def test_every_space_is_true_of_its_values(session: GccSession) -> None:
    for action in ("gcc", "gcc -O2", "gcc -Os -fno-inline"):
        session.apply_action(action)
        for spec in session.observation_spaces:
            space = ObservationSpace.from_spec(spec)
            value = space.translate(session.get_observation(spec.name)) if space.translate else None
            value = session.get_observation(spec.name) if value is None else value
            value = numpy.asarray(value) if spec.kind == "array" else value
            assert space.space.contains(value), spec.name


def test_sizes_and_hashes_are_those_of_what_is_observed(session: GccSession) -> None:
    session.apply_action("-O1")
    asm, code = session.get_observation("asm"), session.get_observation("obj")
    assert session.get_observation("asm_size") == len(asm.encode())
    assert session.get_observation("obj_size") == len(code) > session.get_observation("obj_text_size") > 20
    assert len(session.get_observation("asm_hash")) == len(session.get_observation("obj_hash")) == 32
    assert session.get_observation("instruction_counts")["ret"] >= 1
    assert "(insn" in session.get_observation("rtl")


@pytest.mark.parametrize("size", ["asm_size", "obj_size", "obj_image_size", "obj_text_size"])
def test_baselines_are_the_sizes_at_their_levels_alone(session: GccSession, size: str) -> None:
    for level in ("O0", "Os", "Oz", "O2", "O3"):
        session.apply_action(f"gcc -{level} -fno-inline")
        baseline = session.get_observation(f"{size}_{level}")
        session.apply_action(f"gcc -{level}")
        assert session.get_observation(size) == baseline
    session.apply_action("gcc")
    assert session.get_observation(size) == session.get_observation(f"{size}_O0")


def test_a_program_that_says_not_how_it_runs_does_not(session: GccSession) -> None:
    assert session.get_observation("is_runnable") == 0
    assert session.get_observation("runtime").shape == (0,)


def test_unknown_observations_are_told_apart(session: GccSession) -> None:
    with pytest.raises(CompilationError, match="obj_text_size") as e:
        session.get_observation("size")
    assert e.value.code == FailureCode.OBSERVATION_UNKNOWN


def test_parameters(session: GccSession) -> None:
    assert session.set_parameter("timeout", "") == "60" and session.set_parameter("timeout", "2.5") == "2.5"
    assert session.set_parameter("memory", str(1 << 30)) == str(1 << 30)
    assert session.set_parameter("gcc.set_runtimes_per_observation_count", "5") == "5"
    child = session.fork()
    child.set_parameter("timeout", "9")
    assert session.set_parameter("timeout", "") == "2.5" and child.parameters.memory == 1 << 30
    session.apply_action("-O2")
    assert json.loads(session.set_parameter("choices", ""))[index(session, "-O")] == session.choices[0]
    spec = json.loads(session.set_parameter("gcc_spec", ""))
    assert spec["version"] == session.compiler_version and "gcc" in spec["version"].lower()
    assert sum(spec["counts"].values()) == len(session.language.options)
    assert spec["log10_size"] > 1000 and all(spec["dropped"].values())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("timeout", "soon"),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("memory", "1"),
        ("memory", "-1"),
        ("choices", "[0]"),
        ("gcc_spec", "x"),
        ("llvm.set_runtimes_per_observation_count", "1"),
        ("gcc.set_runtimes_per_observation_count", "-1"),
        ("gcc_bin", "gcc-12"),
    ],
)
def test_parameters_with_bad_values_are_refused(session: GccSession, key: str, value: str) -> None:
    with pytest.raises(CompilationError) as e:
        session.set_parameter(key, value)
    assert e.value.code == FailureCode.PARAMETER


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version is 2"),
        ({"units": []}, "no unit"),
        ({"units": ["g.c"]}, "'g.c' is not among the files"),
        ({"files": {"f.c": SOURCE, "../x.h": b""}}, "not the name of a file below"),
        ({"files": {"f.c": SOURCE, "/etc/x.h": b""}}, "not the name of a file below"),
        ({"language": "rust"}, "language is 'rust'"),
        ({"flags": ["-DX=\0"]}, "NUL"),
        ({"files": 3}, "Expected"),
    ],
)
def test_what_are_no_sources_is_refused(session_class: type[GccSession], change: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilationError, match=message) as e:
        session_class.load_benchmark(msgspec.msgpack.encode({**TREE, **change}))
    assert e.value.code == FailureCode.BENCHMARK


def test_bitcode_is_refused_with_what_is_taken(session_class: type[GccSession]) -> None:
    with pytest.raises(CompilationError, match="not the sources of a program, which is what GCC takes"):
        session_class.load_benchmark(b"BC\xc0\xde" + bytes(100))


def test_a_compiler_that_was_replaced_is_told_and_the_next_reset_takes_the_new_one(
    tmp_path: Path, session_class: type[GccSession]
) -> None:
    assert session_class.current is not None
    program = session_class.load_benchmark(msgspec.msgpack.encode({**TREE, "flags": ["-DREPLACED"]}))
    before = session_class(program)
    size = before.get_observation("obj_size")
    runner = before.tools.compiler.runner
    runner.identity += ":as if it had been another"  # so that what is there now is not what it was
    before.apply_action("-O3")
    with pytest.raises(CompilationError, match="was replaced") as e:
        before.get_observation("obj_size")
    assert e.value.code == FailureCode.COMPILER
    after = session_class(program)
    assert after.get_observation("obj_size") == size and after.tools is not before.tools
    with pytest.raises(CompilationError, match="was replaced"):
        before.get_observation("obj_size")
    assert math.isinf(after.deadline)


def test_clients_that_are_not_trusted_get_a_container_or_nothing(
    session_class: type[GccSession], tmp_path: Path
) -> None:
    class Guarded(session_class):  # type: ignore[misc, valid-type]
        pass

    with pytest.raises(CompilationError, match=r"gcc_bin=docker:gcc:13, or trust the clients") as e:
        Guarded.start({"gcc_bin": "gcc", "untrusted": True, "cache_dir": str(tmp_path)})
    assert e.value.code == FailureCode.COMPILER and Guarded.results.store is None
    with pytest.raises(CompilationError, match="begins with '/bin/sh'"):
        Guarded.load_benchmark(msgspec.msgpack.encode(TREE), recipe(("/bin/sh", "-c", "touch /tmp/x")))
    program = Guarded.load_benchmark(msgspec.msgpack.encode(TREE), recipe(("{lld}", "-o", "program", "program.o")))
    assert program.recipe is not None
    guarded = session_class(program).fork()
    guarded.__class__ = Guarded
    guarded.apply_action("-O2")
    code = guarded.get_observation("obj")
    guarded.check_code(code)
    with pytest.raises(CompilationError, match="is not linked here"):
        guarded.check_code(b"INPUT(/etc/passwd)")


def recipe(command: tuple[str, ...]) -> bytes:
    fields = {"version": 1, "command": command, "files": {}, "environment": {}, "runs": [], "measured": ""}
    return msgspec.msgpack.encode(fields)
