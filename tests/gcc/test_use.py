"""Names as users have them: compilers, files and folders that are called anything."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import EnvironmentNotSupported
from aiocg.registry import environment

from .written import LOOP


def _file(name: str) -> Benchmark:
    tree = SourceTree((name,), {name: LOOP.encode()})
    return Benchmark("benchmark://written-v0/program", tree.encode, source_tree=lambda: tree)


@pytest.mark.parametrize("name", ["g++", "/opt/gcc-14+fixes/gcc", "/a dir/100%&x=y#/gcc", "/opt/\xe4/gcc", "a?b"])
def test_a_compilers_name_is_the_same_in_the_id(name: str) -> None:
    spec = environment("gcc-v0").configured({"gcc_bin": name})
    assert environment(spec.id).settings == spec.settings == {"gcc_bin": name}
    assert environment(spec.id).id == spec.id


def test_a_plus_is_typed_as_it_is() -> None:
    assert environment("gcc-v0?gcc_bin=g++").settings["gcc_bin"] == "g++"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", ["-x.c", "--version.c", "@list.c", "a b'\"$x.c", "\xe4.c"])
async def test_a_units_name_is_no_option(make: Callable[..., Any], name: str) -> None:
    env, usual = await make(_file(name)), await make(_file("main.c"))
    for space in ("instruction_counts", "obj_text_size"):
        assert await env.observe(space) == await usual.observe(space)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_of_a_compiler_that_does_not_answer_one_is_told(tmp_path: Path) -> None:
    hanging = tmp_path / "gcc"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    async with aiocg.Runtime(workers=1) as runtime:
        with pytest.raises(EnvironmentNotSupported, match="does not work: no answer in 20 s"):
            await runtime.make("gcc-v0", gcc_bin=str(hanging))
