"""Without llvmlite."""

import sys

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._targets import open_target


def test_a_missing_llvmlite_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("aiocg.workers.loops.cpu", "llvmlite"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(CompilationError, match=r"pip install 'aiocg\[loops\]'") as caught:
        open_target("cpu", {})
    assert caught.value.code == FailureCode.UNSUPPORTED
