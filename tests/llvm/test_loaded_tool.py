"""Operations on programs in a process that has LLVM loaded already."""

import os
import signal

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import AiocgError, DeadlineExceeded
from aiocg.llvm.tools import LoadedTool, apply, inlined, run_tool

PROGRAM = b"define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"
CALLS = b"""
define internal i32 @callee(i32 %x) {
  ret i32 %x
}
define i32 @caller(i32 %x) {
  %y = call i32 @callee(i32 %x)
  ret i32 %y
}
"""


def test_what_is_inlined_is_told_from_what_llvm_remarks() -> None:
    callers, program = inlined(CALLS, ["default<Oz>"], "calls")
    assert callers == {"callee": ["caller"]}
    assert b"callee" not in program


@pytest.mark.slow
def test_it_does_what_a_process_of_its_own_does() -> None:
    lists = (["instcombine<no-verify-fixpoint>"], [], ["default<Oz>"])
    alone = [apply(PROGRAM, actions) for actions in lists]
    with LoadedTool() as tool:
        assert [apply(PROGRAM, actions) for actions in lists] == alone
        assert tool.pid is not None


def refused() -> tuple[type[AiocgError], str]:
    with pytest.raises(AiocgError) as caught:
        apply(PROGRAM, ["no-such-pass"])
    return type(caught.value), str(caught.value)


def test_an_error_is_the_same_and_ends_nothing() -> None:
    alone = refused()
    with LoadedTool():
        assert refused() == alone
        with pytest.raises((BenchmarkInitError, AiocgError), match="does not accept"):
            apply(b"no program", [])
        assert apply(PROGRAM, [])


def test_an_operation_that_takes_too_long_is_ended() -> None:
    with LoadedTool():
        with pytest.raises(DeadlineExceeded):
            run_tool("apply", ["/nowhere/output", "/dev/stdin", "/nowhere/actions"], subject="nothing", timeout=0.2)
        assert apply(PROGRAM, [])


def test_when_the_process_has_died_an_operation_gets_one_of_its_own() -> None:
    alone = apply(PROGRAM, [])
    with LoadedTool() as tool:
        apply(PROGRAM, [])
        assert tool.pid is not None
        os.kill(tool.pid, signal.SIGKILL)
        assert apply(PROGRAM, []) == alone
