"""The commands and the shell with GCC's environments."""

import json
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.states.state import CompilerEnvState

from ..command_line import Run

pytestmark = pytest.mark.needs("gcc")

SMALLEST = "programs-v0/gcd"


@pytest.mark.slow
def test_describe_tells_which_compiler_it_is_and_lists_options_when_asked(command: Run) -> None:
    short = command("describe", "gcc-v0")
    assert short.status == 0 and "setting gcc_bin: gcc" in short.out
    assert "--action-space edits lists them" in short.out and "-fno-gcse " not in short.out
    assert "-fno-gcse " in command("describe", "gcc-v0", "--action-space", "edits").out
    listed = command("describe", "gcc-v0?gcc_bin=gcc", "--action-space", "options")
    assert "if not given" in listed.out and "│ -fgcse " in listed.out and "0 to 2147483647" in listed.out
    described = command("describe", "gcc-v0", "--action-space", "choices", "--json").json
    options = {option["name"]: option for option in described["options"]}
    assert described["settings"] == {"gcc_bin": "gcc"}
    assert options["-O"]["texts"][:4] == ["-O0", "-O1", "-O2", "-O3"]
    assert options["--param=max-inline-insns-auto"]["high"] == 2**31 - 1
    forms = {space["name"]: space["space"] for space in described["action_spaces"]}
    assert forms["edits"].startswith("Discrete(") and forms["options"].startswith("Dict(")
    assert forms["choices"].startswith("MultiDiscrete([") and forms["command_line"] == "Text()"


@pytest.mark.parametrize(("id", "words"), [("gcc-v0?gcc_bin=no-gcc", "no-gcc"), ("gcc-v0?gcc_bni=x", "gcc_bin")])
def test_a_compiler_or_setting_that_there_is_not_is_told(command: Run, id: str, words: str) -> None:
    done = command("describe", id)
    assert done.status == 1 and words in done.err and "Traceback" not in done.err


def test_a_state_is_replayed_and_written_as_an_object_file(command: Run, tmp_path: Path) -> None:
    benchmark = f"benchmark://{SMALLEST}"
    state = CompilerEnvState(environment="gcc-v0", benchmark=benchmark, actions=("gcc -O2 -fno-gcse", "-fgcse"))
    Path("state.json").write_text(state.to_json())
    done = command("replay", "state.json", "-o", "best.o")
    assert done.status == 0 and "gcc -O2 -fno-gcse" in done.out, done.err
    assert (tmp_path / "best.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.slow
def test_a_state_that_compilergym_wrote_is_replayed_with_the_compiler_at_hand(command: Run) -> None:
    line = "docker:gcc:11.2.0 -O3 -fno-gcse --param=max-inline-insns-auto=20 -w -c src.c -o obj.o"
    Path("old.csv").write_text(f"benchmark,reward,walltime,commandline\nbenchmark://{SMALLEST},,1.5,{line}\n")
    done = command("replay", "old.csv", "--env", "gcc-v0", "--json")
    assert done.status == 0, done.err
    assert done.json["state"]["actions"] == ["gcc -O3 -fno-gcse --param=max-inline-insns-auto=20"]


@pytest.mark.slow
def test_the_shell_edits_shows_and_writes_gccs_program(command: Run, tmp_path: Path) -> None:
    lines = [
        "action -O2 -fno-gcse",
        "commandline",
        "diff 2",
        "set-action-space command_line",
        "action 'gcc -O1 -fgcse'",
        "undo",
        "observation instruction_counts",
        "list-actions gcse",
        "write a.s",
        "write a.o",
        "save a.json",
    ]
    done = command("shell", "--env", "gcc-v0", "--benchmark", SMALLEST, "-c", "; ".join(lines))
    assert done.status == 0, done.err
    for text in (" -O2 -fno-gcse -c /", "+++ after", "undid gcc -O1 -fgcse", "ret"):
        assert text in done.out
    assert ".text" in (tmp_path / "a.s").read_text() and (tmp_path / "a.o").read_bytes()[:4] == b"\x7fELF"
    state: Any = json.loads((tmp_path / "a.json").read_text())
    assert state["actions"] == ["-O2", "-fno-gcse"]
    wrong = command("shell", "--env", "gcc-v0", "--benchmark", SMALLEST, "-c", "action -fgcs")
    assert wrong.status == 1 and "did you mean -fgcse" in wrong.err
    other = command("shell", "-c", "set-env 'gcc-v0?gcc_bin=gcc'; set-env gcc-v0; write a.bc")
    assert other.status == 1 and "gcc-v0 makes no .bc file" in other.err


async def test_a_state_with_another_spelling_comes_to_the_same_state() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        found = []
        for text in ("gcc -O2 -fno-gcse", "gcc -fno-gcse  -O2 -c x.c", "/usr/bin/gcc-12 -O0 -fno-gcse -O2"):
            state = CompilerEnvState(environment="gcc-v0", benchmark=f"benchmark://{SMALLEST}", actions=(text,))
            async with await runtime.replay(state) as env:
                found.append((env.state_hash, env.action_texts))
        assert len(set(found)) == 1
