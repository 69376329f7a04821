"""Operations on programs in a process that has LLVM loaded already."""

import os
import signal
from collections.abc import Iterator

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import AiocgError, DeadlineExceeded
from aiocg.llvm.tools import LoadedTool, apply, run_tool

PROGRAM = b"define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"


@pytest.fixture(scope="module")
def tool() -> Iterator[LoadedTool]:
    with LoadedTool() as loaded:
        yield loaded


@pytest.mark.slow
def test_it_does_what_a_process_of_its_own_does(tool: LoadedTool) -> None:
    for actions in (["instcombine<no-verify-fixpoint>"], [], ["default<Oz>"]):
        assert apply(PROGRAM, actions, run=tool.run) == apply(PROGRAM, actions)


def test_an_error_is_the_same_and_ends_nothing(tool: LoadedTool) -> None:
    errors = []
    for run in (run_tool, tool.run):
        with pytest.raises(AiocgError) as caught:
            apply(PROGRAM, ["no-such-pass"], run=run)
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]
    with pytest.raises((BenchmarkInitError, AiocgError), match="does not accept"):
        apply(b"no program", [], run=tool.run)
    assert apply(PROGRAM, [], run=tool.run)


def test_an_operation_that_takes_too_long_is_ended(tool: LoadedTool) -> None:
    with pytest.raises(DeadlineExceeded):
        tool.run("apply", ["/nowhere/output", "/dev/stdin", "/nowhere/actions"], subject="nothing", timeout=0.2)
    assert apply(PROGRAM, [], run=tool.run)


def test_when_the_process_has_died_an_operation_gets_one_of_its_own() -> None:
    with LoadedTool() as loaded:
        assert loaded.pid is not None
        os.kill(loaded.pid, signal.SIGKILL)
        assert apply(PROGRAM, [], run=loaded.run) == apply(PROGRAM, [])
