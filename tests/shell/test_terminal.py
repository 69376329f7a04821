"""`aiocg shell` itself: on a terminal, and as a script."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from .terminal import Terminal, terminal

GCD = ("aiocg", "shell", "--benchmark", "programs-v0/gcd", "--workers", "1")
SCRIPTED = (  # the scripted compiler is known only to who imports it
    sys.executable,
    "-P",
    "-c",
    "import aiocg.testing; from aiocg.cli import main; main()",
    *("shell", "--env", "scripted-v0", "--reward", "value", "--workers", "1"),
)


def script(place: Any, *arguments: str, answer: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a script and check that it leaves nothing."""
    done = subprocess.run(
        arguments,
        cwd=place.folder,
        env=place.environment,
        input=answer,
        stdin=subprocess.DEVNULL if answer is None else None,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert place.leftovers() == []
    assert place.processes() == []
    return done


@pytest.fixture(autouse=True)
def state(place: Any) -> Path:
    """A folder for the history that is empty at first."""
    folder = place.folder / "state"
    place.environment.update({"XDG_STATE_HOME": str(folder), "PAGER": "cat"})
    return Path(folder)


# ------------------------------------------------------------------------------------------------- scripts


@pytest.mark.slow
def test_commands_are_read_from_standard_input_until_one_fails(place: Any) -> None:
    done = script(place, *GCD, answer="# first\naction mem2reg\n\nacton gvn\naction gvn\n")
    assert done.returncode == 1
    assert done.stdout.startswith("mem2reg  reward 0.8")
    assert "gvn" not in done.stdout
    assert done.stderr.splitlines()[0].startswith("error: unknown command 'acton'; did you mean action")


@pytest.mark.slow
def test_commands_of_the_command_line_are_carried_out_and_ir_is_printed_whole_into_a_pipe(place: Any) -> None:
    commands = "set-benchmark programs-v0/gcd; action mem2reg; reward; write gcd.ll; observation Ir; exit; nonsense"
    done = script(place, "aiocg", "shell", "-c", commands)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^IrInstructionCountOz 0\.8\d+, of which the last action 0\.8", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\n" + (place.folder / "gcd.ll").read_text(encoding="utf-8"))


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--env", "llvm-v1"), "did you mean llvm-v0"),
        pytest.param(("--benchmark", "programs-v0/gcdd"), "did you mean", marks=pytest.mark.slow),
        pytest.param(("--reward", "Sise"), "unknown reward space", marks=pytest.mark.slow),
        pytest.param(("--action-space", "Pases"), "did you mean Passes", marks=pytest.mark.slow),
    ],
)
def test_a_shell_that_cannot_begin_says_why(place: Any, words: tuple[str, ...], says: str) -> None:
    done = script(place, "aiocg", "shell", *words, "-c", "stack")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_interrupted_script_ends_with_130_and_leaves_nothing(place: Any) -> None:
    command = [*SCRIPTED, "-c", "action increment; action hang; action increment"]
    process = place.start(*command, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("increment")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err in ("interrupted\n", "")  # the latter where it came between two commands
    assert (place.leftovers(), place.processes()) == ([], [])


@pytest.mark.slow
def test_a_script_that_waits_for_its_next_line_carries_out_those_before_and_can_be_interrupted(place: Any) -> None:
    process = place.start(*SCRIPTED, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    for number in (2, 3):
        process.stdin.write("action increment\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("increment")
        assert process.stdout.readline() == f"value: {number}\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.communicate()[1] == ""
    assert (place.leftovers(), place.processes()) == ([], [])


@pytest.mark.slow
def test_other_commands_do_not_load_what_the_shell_needs() -> None:
    code = (
        "import sys; from aiocg.cli import app\n"
        "try: app.app(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('prompt_toolkit', 'aiocg.cli.shell.s'))])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# ------------------------------------------------------------------------------------------------ terminals


def prompt(screen: Terminal) -> None:
    """Wait for a prompt with its bottom line, when keys are read."""
    screen.wait_for(r"aiocg \S+>")
    screen.wait_for(r"actions?[ :]")


@pytest.mark.slow
def test_a_conversation_on_a_terminal(place: Any, state: Path) -> None:
    with terminal(GCD, place.folder, place.environment) as screen:
        prompt(screen)
        screen.type("action mem2reg\r")
        screen.wait_for(r"mem2reg\s+reward 0\.8\d+")
        screen.wait_for(r"IrInstructionCountOz 0\.8\d+\s+1 action: mem2reg")
        screen.type("action loop-del")
        screen.wait_for("Delete loops that compute nothing")
        screen.type("\t\x03")
        screen.type("undo\r")
        screen.wait_for("undid mem2reg: now after 0 actions")
        prompt(screen)
        screen.type("observation Ir\r")
        screen.wait_for(r"define .*@main")
        prompt(screen)
        screen.type("python\r")
        screen.wait_for(">>>")
        screen.type("await env.observe('IrInstructionCount') * 0 + 4300 + 21\r")
        screen.wait_for("4321")
        screen.wait_for(">>>")
        screen.type("\x04")
        prompt(screen)
        screen.type("\x04")
        assert screen.wait() == 0
    assert place.processes() == []
    assert place.leftovers() == []
    assert "+action mem2reg" in (state / "aiocg" / "shell_history").read_text(encoding="utf-8")


@pytest.mark.slow
def test_ctrl_c_ends_an_action_that_hangs_and_a_killed_worker_is_replaced(place: Any) -> None:
    with terminal(SCRIPTED, place.folder, place.environment) as screen:
        prompt(screen)
        screen.type("action double hang\r")
        screen.wait_for(r"hang\s.*Ctrl-C interrupts")
        screen.type("\x03")
        screen.wait_for("interrupted")
        screen.wait_for("1 action: double")
        screen.type("action increment\r")
        screen.wait_for("value: 3")
        screen.wait_for("2 actions: double, increment")
        ours = {one.pid: one for one in place.processes() if "aiocg.workers" in " ".join(one.cmdline())}
        workers = [one for one in ours.values() if one.ppid() in ours]  # the other one is what they are forked from
        assert len(workers) == 1
        os.kill(workers[0].pid, signal.SIGKILL)
        psutil.wait_procs(workers, 10)
        screen.type("action double\r")
        screen.wait_for("value: 6")
        screen.type("action crash\r")
        screen.wait_for("SIGSEGV")
        screen.wait_for("3 actions: double, increment, double")
        screen.type("python print('be' + 'gun'); import time; time.sleep(60)\r")
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("KeyboardInterrupt")
        prompt(screen)
        assert "uncertain" not in screen.text
        screen.type("undo 2; action double\r")
        screen.wait_for("value: 4")
        prompt(screen)
        screen.type("\x03\x04")
        assert screen.wait() == 0
        assert screen.text.count("Traceback") == 1
    assert (place.processes(), place.leftovers()) == ([], [])


@pytest.mark.slow
def test_ctrl_c_while_it_starts_ends_it(place: Any) -> None:
    with terminal(GCD, place.folder, place.environment) as screen:
        deadline = time.monotonic() + 60
        while not list(place.temporary.glob("aiocg-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        screen.type("\x03")
        assert screen.wait() == 130
        assert "Traceback" not in screen.text
    assert (place.processes(), place.leftovers()) == ([], [])


@pytest.mark.slow
def test_a_terminal_that_goes_away_leaves_nothing(place: Any) -> None:
    with terminal(GCD, place.folder, place.environment) as screen:
        prompt(screen)
        os.kill(screen.process.pid, signal.SIGHUP)
        screen.wait()
    deadline = time.monotonic() + 60
    while (place.processes() or place.leftovers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (place.processes(), place.leftovers()) == ([], [])


@pytest.mark.slow
def test_ctrl_z_at_the_prompt_suspends_the_shell(place: Any) -> None:
    with terminal(["bash", "--norc", "-i"], place.folder, {**place.environment, "PS1": "bash> "}) as screen:
        screen.wait_for("bash> ")
        screen.type(f"{' '.join(GCD)}\r")
        prompt(screen)
        screen.type("\x1a")
        screen.wait_for("Stopped")
        screen.type("fg\r")
        prompt(screen)
        screen.type("action mem2reg\r")
        screen.wait_for("1 action: mem2reg")
        screen.type("\x04")
        screen.wait_for("bash> ")
        screen.type("exit\r")
        screen.wait()
    assert (place.processes(), place.leftovers()) == ([], [])
