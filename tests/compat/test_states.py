"""CompilerGym's states and validation results: what they hold, how they are compared, and files of them."""

import io
import json
import pickle
import sys
from pathlib import Path

import pydantic
import pytest

from aiocg.compat.compiler_gym.compiler_env_state import (
    CompilerEnvState,
    CompilerEnvStateReader,
    CompilerEnvStateWriter,
)
from aiocg.compat.compiler_gym.datasets import BenchmarkUri
from aiocg.compat.compiler_gym.errors import DownloadFailed, ValidationError
from aiocg.compat.compiler_gym.validate import validate_states
from aiocg.compat.compiler_gym.validation_result import ValidationResult

from ..datasets.published_server import PublishedServer

LINE = "opt -mem2reg -gvn input.bc -o output.bc"


def state(**changes: object) -> CompilerEnvState:
    fields = {"benchmark": "benchmark://cbench-v1/crc32", "commandline": LINE, "walltime": 5, "reward": 2}
    return CompilerEnvState(**{**fields, **changes})


# ------------------------------------------------------------------------------------------------- one state


def test_state_has_what_it_was_given_as_text_and_numbers() -> None:
    one = state(benchmark=BenchmarkUri.from_string("cbench-v1/crc32"), walltime="5")
    assert (one.benchmark, one.commandline, one.walltime, one.reward) == ("benchmark://cbench-v1/crc32", LINE, 5.0, 2.0)
    assert one.has_reward
    assert not state(reward=None).has_reward


def test_state_goes_through_json_and_pickle() -> None:
    for one in (state(), state(reward=None)):
        assert CompilerEnvState(**json.loads(one.json())) == one
        assert CompilerEnvState.parse_raw(one.json()).dict() == one.dict()
        assert pickle.loads(pickle.dumps(one)).dict() == one.dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Field required"),
        ({"walltime": -1}, "Walltime cannot be negative"),
        ({"walltime": float("nan")}, "Walltime cannot be negative"),
        ({"walltime": "long"}, "should be a valid number"),
        ({"commandline": ["-mem2reg"]}, "should be a valid string"),
    ],
)
def test_state_with_a_wrong_field_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        state(**fields) if fields else CompilerEnvState()


def test_states_are_models_of_pydantic() -> None:
    with pytest.raises(pydantic.ValidationError, match="Walltime cannot be negative"):
        state(walltime=-1)

    class Run(pydantic.BaseModel):
        best: CompilerEnvState

    assert Run(best=state().dict()).best == state()
    assert json.loads(Run(best=state()).model_dump_json())["best"] == state().dict()


def test_only_the_benchmark_cannot_be_set_again() -> None:
    one = state()
    one.walltime, one.reward, one.commandline = 7, None, "-gvn"
    assert (one.walltime, one.reward, one.commandline) == (7.0, None, "-gvn")
    with pytest.raises(ValueError, match="frozen"):
        one.benchmark = "benchmark://cbench-v1/qsort"
    with pytest.raises(ValueError, match="Walltime cannot be negative"):
        one.walltime = -1
    with pytest.raises(ValueError, match="no attribute"):
        one.colour = "red"
    assert one.walltime == 7.0


def test_states_are_equal_by_program_actions_and_nearly_by_reward() -> None:
    assert state() == state(walltime=100)
    assert state() == state(reward=2 + 1e-6)
    assert state() == state(reward=None)
    assert state(reward=None) == state()
    assert state() != state(reward=2.001)
    assert state() != state(commandline="-gvn")
    assert state() != state(benchmark="benchmark://cbench-v1/qsort")
    assert state() != 5


def test_copy_is_another_state() -> None:
    one = state()
    other = one.copy(update={"reward": 3.0})
    other.walltime = 9
    assert (one.walltime, one.reward, other.reward) == (5.0, 2.0, 3.0)


# ------------------------------------------------------------------------------------------------------ files


def test_what_was_written_is_read() -> None:
    file = io.StringIO()
    writer = CompilerEnvStateWriter(file)
    for one in (state(), state(reward=None, commandline="opt -a, -b input.bc")):
        writer.write_state(one, flush=True)
    assert file.getvalue().splitlines()[:2] == [
        "benchmark,reward,walltime,commandline",
        f"benchmark://cbench-v1/crc32,2.0,5.0,{LINE}",
    ]
    file.seek(0)
    assert [one.dict() for one in CompilerEnvStateReader(file)] == [
        state().dict(),
        state(reward=None, commandline="opt -a, -b input.bc").dict(),
    ]


def test_header_is_optional_and_in_any_order_and_case() -> None:
    plain = f"benchmark://cbench-v1/crc32,2.0,5.0,{LINE}\n"
    turned = f"CommandLine,Reward,benchmark,walltime\n{LINE},2.0,benchmark://cbench-v1/crc32,5.0\n"
    for text in (plain, turned):
        assert list(CompilerEnvStateReader(io.StringIO(text))) == [state()]
    assert list(CompilerEnvStateReader(io.StringIO(""))) == []
    assert list(CompilerEnvStateReader(io.StringIO("benchmark,reward,walltime,commandline\n"))) == []


def test_long_command_line_is_read() -> None:
    line = "opt " + "-mem2reg " * 40_000
    file = io.StringIO()
    CompilerEnvStateWriter(file, header=False).write_state(state(commandline=line))
    file.seek(0)
    assert next(iter(CompilerEnvStateReader(file))).commandline == line


def test_wrong_number_of_columns_is_told() -> None:
    with pytest.raises(ValueError, match=r"line 1: expected the columns .*, not 1 column"):
        list(CompilerEnvStateReader(io.StringIO("abcdef\n")))
    with pytest.raises(ValueError, match="line 2: expected 4 columns, found 2"):
        list(CompilerEnvStateReader(io.StringIO("benchmark,reward,walltime,commandline\na,b\n")))


def test_files_standard_input_and_the_web_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"benchmark://cbench-v1/crc32,2.0,5.0,{LINE}\n"
    path = tmp_path / "states.csv"
    path.write_text(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    monkeypatch.delenv("AIOCG_OFFLINE", raising=False)
    with PublishedServer() as server:
        address = server.publish("a.csv", text.encode())
        assert list(CompilerEnvStateReader.read_paths([str(path), "-", address])) == [state()] * 3
        with pytest.raises(DownloadFailed, match="404"):
            list(CompilerEnvStateReader.read_paths([address.replace("a.csv", "b.csv")]))
    for name in ("/no/such.csv", "htts://example.org/a.csv"):
        with pytest.raises(FileNotFoundError):
            list(CompilerEnvStateReader.read_paths([name]))


def test_a_state_of_another_environment_is_none_of_these() -> None:
    with pytest.raises(ValueError, match="no command line of CompilerGym"):
        list(CompilerEnvStateReader(io.StringIO("llvm-v0,benchmark://programs-v0/gcd,,,1.0,gvn\n")))


def test_reader_and_writer_close_their_files(tmp_path: Path) -> None:
    path = tmp_path / "states.csv"
    with CompilerEnvStateWriter(open(path, "w")) as writer:
        writer.write_state(state())
    assert writer.f.closed
    with CompilerEnvStateReader(open(path)) as reader:
        assert list(reader) == [state()]
    assert reader.f.closed


# ---------------------------------------------------------------------------------------------------- results


def test_result_tells_what_is_wrong() -> None:
    errors = [ValidationError(type=name) for name in ["Leak", *["Crash"] * 3]]
    result = ValidationResult(state=state(), walltime=1, errors=errors, benchmark_semantics_validation_failed=True)
    assert not result.okay()
    assert result.error_details == "[1/2] 3× Crash, [2/2] Leak"  # noqa: RUF001
    assert repr(result) == "❌  cbench-v1/crc32  [1/2] 3× Crash, [2/2] Leak"  # noqa: RUF001
    assert repr(ValidationResult(state=state(), walltime=1)) == "✅  cbench-v1/crc32  2.0000"
    assert repr(ValidationResult(state=state(reward=None), walltime=1)) == "✅  cbench-v1/crc32"


def test_result_goes_through_json() -> None:
    result = ValidationResult(state=state(), walltime=1.5, errors=[ValidationError(type="Crash", data={"code": 1})])
    assert ValidationResult.parse_raw(result.json()) == result
    assert result.dict()["state"] == state().dict()
    assert result.dict()["errors"] == [{"type": "Crash", "data": {"code": 1}}]


def test_results_are_compared_without_time_and_order() -> None:
    leak, crash = ValidationError(type="Leak"), ValidationError(type="Crash")
    one = ValidationResult(state=state(), walltime=1, errors=[leak, crash])
    assert one == ValidationResult(state=state(), walltime=2, errors=[crash, leak])
    assert one != ValidationResult(state=state(), walltime=1, errors=[crash])
    assert one != ValidationResult(state=state(), walltime=1, errors=[leak, crash], reward_validated=True)


def test_results_are_joined() -> None:
    one = ValidationResult(state=state(), walltime=1, reward_validated=True)
    two = ValidationResult(state=state(), walltime=2, errors=[ValidationError(type="x")], actions_replay_failed=True)
    both = ValidationResult.join([one, two])
    assert (both.walltime, both.reward_validated, both.actions_replay_failed, len(both.errors)) == (3, True, True, 1)
    with pytest.raises(ValueError, match="No states to join"):
        ValidationResult.join([])
    with pytest.raises(ValueError, match="must be the same"):
        ValidationResult.join([one, ValidationResult(state=state(reward=9), walltime=1)])


class Instant:
    """An environment that finds every state valid."""

    def __enter__(self) -> "Instant":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def validate(self, one: CompilerEnvState) -> ValidationResult:
        if one.walltime == 13:
            raise OSError("no luck")
        return ValidationResult(state=one, walltime=0)


@pytest.mark.parametrize("nproc", [None, 1, 3])
@pytest.mark.parametrize("inorder", [True, False])
def test_states_are_validated_in_parallel(nproc: int | None, inorder: bool) -> None:
    states = [state(reward=number) for number in range(10)]
    results = list(validate_states(Instant, iter(states), nproc, inorder))
    found = [result.state.reward for result in results]
    assert (found if inorder else sorted(found)) == list(range(10))


def test_error_of_a_validation_is_raised() -> None:
    with pytest.raises(OSError, match="no luck"):
        list(validate_states(Instant, [state(), state(walltime=13)], 2))
