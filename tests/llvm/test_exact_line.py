"""`python -m aiocg.llvm opt` leads to the program of the environment that gave the line."""

import asyncio
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import aiocg
from aiocg.errors import NotExpressible
from aiocg.llvm import __main__ as command
from aiocg.llvm import tools
from aiocg.workers.llvm._library import Library

on_functions = pytest.mark.skipif(
    not Library.find().has("LLVMRunPassesOnFunction"), reason="this LLVM cannot run passes on one function"
)
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.slow
async def test_line_leads_to_exactly_the_program_of_the_environment(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    chance = random.Random(5)
    env = await runtime.make("llvm-v0", benchmark="programs-v0/qsort")
    await env.reset()
    (tmp_path / "input.bc").write_bytes(bytes(await env.observe("Bitcode")))
    actions = chance.choices(env.action_space.names, k=25)
    await env.step(actions)
    line = env.commandline().replace("opt ", f"{shlex.quote(sys.executable)} -P -m aiocg.llvm opt ")
    await asyncio.to_thread(subprocess.run, line, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / "output.bc").read_bytes() == bytes(await env.observe("Bitcode"))
    await env.close()


@pytest.mark.slow
@on_functions
async def test_exact_line_does_what_opt_cannot(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", action_space="PipelineText")
    await env.reset()
    (tmp_path / "input.bc").write_bytes(bytes(await env.observe("Bitcode")))
    await env.step(["mark<minsize>", "@main(sroa,gvn)", "mem2reg,simplifycfg", "{inliner-threshold=50}default<O2>"])
    with pytest.raises(NotExpressible):
        env.commandline()
    line = env.commandline(exact=True).replace("python ", f"{shlex.quote(sys.executable)} -P ", 1)
    await asyncio.to_thread(subprocess.run, line, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / "output.bc").read_bytes() == bytes(await env.observe("Bitcode"))
    await env.close()


@pytest.mark.slow
@on_functions
async def test_passes_may_be_given_one_by_one_and_the_result_be_text(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", action_space="PipelineText")
    await env.reset()
    content = bytes(await env.observe("Bitcode"))
    await env.step(["default<O1>", "@main(reg2mem)", "default<Oz>"])
    command = [sys.executable, "-P", "-m", "aiocg.llvm", "opt", "-S", "-passes=default<O1>,@main(reg2mem)"]
    command += ["-passes=default<Oz>", "-", "-o", "-"]
    done = await asyncio.to_thread(subprocess.run, command, check=True, input=content, capture_output=True)
    assert done.stdout.decode() == await env.observe("Ir")
    await env.close()


@pytest.mark.slow
@on_functions
async def test_more_actions_than_a_command_line_holds_are_applied() -> None:
    program = b"define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"
    actions = [f"@f(dce,{','.join(['adce'] * 30_000)})", "instcombine"]
    assert len(actions[0]) > 128 << 10  # bytes that one word may have
    optimised = await asyncio.to_thread(tools.apply, program, actions, text=True)
    assert b"ret i32 %0" in optimised and b"add" not in optimised


async def test_wrong_pass_and_missing_file_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "input.ll"
    program.write_text("define i32 @f() {\n  ret i32 0\n}\n")
    assert command.main(["opt", "-passes=no-such-pass", str(program), "-o", str(tmp_path / "output.bc")]) == 1
    assert "no-such-pass" in capsys.readouterr().err
    assert command.main(["opt", str(tmp_path / "absent.bc")]) == 1
    assert "absent.bc" in capsys.readouterr().err
    assert not (tmp_path / "output.bc").exists()
