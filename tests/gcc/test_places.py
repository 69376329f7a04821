"""The same compiler here and in a container makes the same of a program, byte by byte."""

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._compilation import Benchmark, Compilation, Compiler, Limits, read_sources
from aiocg.workers.gcc._local import open_runner
from aiocg.workers.gcc._store import Results
from aiocg.workers.gcc.session import GccSession

from .written import LOOP, program


@pytest.fixture
def session_class(gcc_image: str, tmp_path: Path) -> Iterator[type[GccSession]]:
    class Session(GccSession):
        pass

    yield Session
    if Session.current is not None:
        Session.current.compiler.runner.close()


@pytest.mark.slow
def test_products_are_the_same_in_a_container(gcc: str, gcc_image: str) -> None:
    made = set()
    where = 'const char *where = __FILE__ __DATE__ __TIME__ __TIMESTAMP__;\n#include "x/y.h"\n'
    content = program(where + LOOP, LOOP.replace("f(", "g("), **{"x/y.h": "int in_a_folder;\n"}).source_tree
    for name in ("gcc", f"docker:{gcc_image}"):
        with closing(open_runner(name)) as runner:
            benchmark = Benchmark(read_sources(content.encode()))
            for words in (("-O2",), ("-O2", "-g")):
                one = Compilation(
                    Compiler(runner, Results()), benchmark, words, " ".join(words), Limits(60, 1 << 30, math.inf)
                )
                made.add((words, *one.assembly(), one.object_file(), one.rtl()))
    assert len(made) == 2


def test_a_name_says_where_a_compiler_is() -> None:
    with pytest.raises(CompilationError) as e:
        open_runner("docker:")
    assert e.value.code == FailureCode.COMPILER
