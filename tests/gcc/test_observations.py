"""What environments of GCC show, in each of their spaces, wherever it was computed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy
import pytest

import aiocg

from .written import LOOP, program

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_all_spaces_are_there_and_true_of_their_values(make: Callable[..., Any]) -> None:
    env = await make(program(LOOP, "int g(int n) { return n / 3; }\n"), action_space="command_line")
    for line in ("gcc", "gcc -Os -fno-inline --param=max-inline-insns-auto=7"):
        await env.step(line)
        for name in env.observation_spaces:
            assert env.observation_spaces[name].space.contains(await env.observe(name)), name
    sizes = ("asm_size", "obj_size", "obj_image_size", "obj_bss_size", "obj_text_size")
    levels = {f"{size}_{level}" for size in sizes for level in ("O0", "O2", "O3", "Os", "Oz")}
    assert set(env.observation_spaces) == levels | {
        *("source", "rtl", "asm", "asm_hash", "instruction_counts", "obj", *sizes),
        *("obj_hash", "choices", "command_line", "runtime", "is_runnable", "execution"),
        "undefined_behaviour",
    }
    assert await env.observe("command_line") == "gcc -Os -fno-inline --param=max-inline-insns-auto=7"
    assert await env.observe("source") == LOOP + "int g(int n) { return n / 3; }\n"


async def test_an_option_more_is_another_program(make: Callable[..., Any]) -> None:
    env = await make(action_space="command_line", observation_space="obj_text_size")
    sizes = {}
    for line in ("gcc", "gcc -O2", "gcc -O3 -funroll-all-loops"):
        sizes[line], *_ = await env.step(line)
    assert len(set(sizes.values())) == 3 and sizes["gcc -O3 -funroll-all-loops"] == max(sizes.values())


async def test_forks_and_candidates_have_what_they_would_have_alone(make: Callable[..., Any]) -> None:
    env = await make(action_space="command_line", observation_space="obj_hash")
    await env.step("gcc -O1")
    fork = await env.fork()
    found = await fork.expand(["gcc -O2", "gcc -Os", "gcc -O1"])
    alone = []
    for line in ("gcc -O2", "gcc -Os", "gcc -O1"):
        observation, *_ = await env.step(line)
        alone.append((observation, env.state_hash))
    assert [(one.observation, one.state) for one in found] == alone
    assert [one.had_no_effect for one in found] == [False, False, True]


async def test_programs_run_and_are_timed(make: Callable[..., Any]) -> None:
    env = await make("programs-v0/gcd", action_space="command_line")
    await env.step("gcc -O2")
    assert await env.observe("is_runnable") == 1
    times = numpy.asarray(await env.observe("runtime"))
    assert times.dtype == numpy.float64 and len(times) == 3 and all(times > 0)


SCRIPT = """
import asyncio, json, sys, aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.source_tree import SourceTree
tree = SourceTree(("program.c", "unit1.c"), {"program.c": sys.argv[2].encode(), "unit1.c": sys.argv[3].encode()})
async def main():
    async with aiocg.Runtime(workers=1, options={"cache_dir": sys.argv[1]}) as runtime:
        benchmark = Benchmark("benchmark://written-v0/other", tree.encode, source_tree=lambda: tree)
        env = await runtime.make("gcc-v0", benchmark=benchmark, action_space="command_line")
        await env.reset()
        await env.step("gcc -O2")
        print(json.dumps([await env.observe("asm_hash"), await env.observe("obj_hash"), env.state_hash]))
        (counters,) = await runtime.statistics()
        print(json.dumps(counters["units_compiled"]))
asyncio.run(main())
"""


@pytest.mark.slow
async def test_another_run_finds_what_this_one_has_made(make: Callable[..., Any], cache: Path) -> None:
    other = "int g(int n) { return n / 17; }\n"
    env = await make(program(LOOP, other), action_space="command_line")
    await env.step("gcc -O2")
    here = [await env.observe("asm_hash"), await env.observe("obj_hash"), env.state_hash]
    command = [sys.executable, "-P", "-c", SCRIPT, str(cache), LOOP, other]
    done = await anyio.run_process(command)
    found, compiled = done.stdout.decode().splitlines()
    assert json.loads(found) == here and compiled == "0"


async def test_statistics_tell_what_was_compiled(make: Callable[..., Any], runtime: aiocg.Runtime) -> None:
    async def compiled() -> int:
        return sum(counters["units_compiled"] for counters in await runtime.statistics())

    env = await make(program(LOOP + "int statistics;\n"), action_space="command_line")
    before = await compiled()
    await env.step("gcc -O2")
    assert await compiled() == before
    for name in ("obj_size", "asm_size", "asm", "obj", "instruction_counts", "obj_text_size"):
        await env.observe(name)
    assert await compiled() == before + 1
    assert await (await env.fork()).observe("asm_hash") and await compiled() == before + 1
