"""The command line as a process: signals, terminals and pipes, and what it leaves."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time
from typing import Any

import pytest

from .command_line import CHEAPEST, PLAIN
from .machine import needs_headers


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["aiocg-*/llvm-*", "aiocg-*"], ids=["while searching", "while starting"])
def test_ctrl_c_ends_with_130_and_leaves_nothing(place: Any, moment: str) -> None:
    command = ["aiocg", "search", "random", "programs-v0/sha256", "--budget", "600", "--workers", "2"]
    process = place.start(*command)
    try:
        while not list(place.temporary.glob(moment)):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert re.search(r"^interrupted (before anything was evaluated|after [\d.]+ s)", output, re.MULTILINE), output
    assert place.leftovers() == []
    assert place.processes() == []


@pytest.mark.slow
def test_kill_of_the_command_leaves_nothing_either(place: Any) -> None:
    command = ["aiocg", "search", "random", "programs-v0/sha256", "--budget", "600", "--workers", "2"]
    process = place.start(*command, stdout=subprocess.DEVNULL)
    try:
        while not list(place.temporary.glob("aiocg-*/llvm-*")):
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert place.remains() == []


def until_it_evaluates(process: "subprocess.Popen[str]") -> None:
    """Wait until a search shows on standard error what it has found."""
    assert process.stderr is not None
    for line in process.stderr:
        if " evaluated, " in line:
            return
    raise AssertionError("it ended before it showed anything")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "number"),
    [
        ("functionwise", signal.SIGINT),
        pytest.param("random", signal.SIGTERM, marks=pytest.mark.every_case),
        pytest.param("functionwise", signal.SIGHUP, marks=pytest.mark.every_case),
    ],
)
def test_a_signal_writes_the_best_so_far_and_says_so(place: Any, number: signal.Signals, algorithm: str) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored by whoever started the tests, as nohup does")
    files = ("-o", "best.o", "--state", "best.json", "--plot", "best.svg")
    command = ["aiocg", "search", algorithm, CHEAPEST, "--budget", "600", "--workers", "2", *files]
    process = place.start(*command, stderr=subprocess.PIPE)
    try:
        until_it_evaluates(process)
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number, output
    assert re.match(
        r"interrupted after [\d.]+ s and \d+ evaluations?, wrote best.o and best.json and best.svg; ", output
    )
    assert place.leftovers() == [] and place.processes() == []
    assert (place.folder / "best.o").read_bytes().startswith(b"\x7fELF")
    assert b"<svg" in (place.folder / "best.svg").read_bytes()
    saved = json.loads((place.folder / "best.json").read_text())
    assert f"best so far: reward {saved['reward']:.4f} with" in output
    validated = place.run("aiocg", "validate", "best.json")
    assert validated.returncode == 0, validated.stdout
    again = place.run("aiocg", "replay", "best.json", "-o", "again.o")
    assert again.returncode == 0
    assert (place.folder / "again.o").read_bytes() == (place.folder / "best.o").read_bytes()


@pytest.mark.slow
def test_an_interrupted_search_says_as_json_what_it_wrote(place: Any) -> None:
    files = ("-o", "missing/there.o", "--state", "best.json")
    (place.folder / "missing").mkdir()
    process = place.start("aiocg", "search", CHEAPEST, "--budget", "600", *files, "--json", stderr=subprocess.PIPE)
    try:
        until_it_evaluates(process)
        (place.folder / "missing").rmdir()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    found = json.loads(output)
    assert process.returncode == 143
    assert (found["output"], found["state"], found["plot"]) == (None, "best.json", None)
    assert "missing/there.o not written (cannot write missing/there.o: No such file" in found["error"]
    assert json.loads((place.folder / "best.json").read_text())["actions"] == found["actions"]


@pytest.mark.slow
def test_a_second_signal_ends_at_once(place: Any) -> None:
    process = place.start("aiocg", "search", CHEAPEST, "--budget", "600", "-o", "best.o", stderr=subprocess.PIPE)
    try:
        until_it_evaluates(process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (130, 143) and output == ""  # whichever was handled last
    assert place.remains() == []


@pytest.mark.slow
def test_an_interrupted_front_is_printed(place: Any) -> None:
    costs = "IrInstructionCount,ObjectTextSizeBytes"
    process = place.start(
        "aiocg", "search", "pareto", CHEAPEST, "--costs", costs, "--budget", "600", "--json", stderr=subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        assert any(" evaluations" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 143
    assert json.loads(output)["points"]
    assert place.leftovers() == [] and place.processes() == []


@pytest.mark.slow
def test_reader_that_leaves_early_is_no_error_of_ours(place: Any) -> None:
    done = place.run("bash", "-c", "aiocg describe llvm-v0 | head -n 1")
    assert done.returncode == 0
    assert done.stdout.startswith("llvm-v0")
    assert done.stderr == ""


@pytest.mark.slow
def test_files_are_written_even_when_nobody_reads_the_table(place: Any) -> None:
    done = place.run("bash", "-c", f"aiocg search random {CHEAPEST} --evaluations 5 -o best.bc | true")
    assert (place.folder / "best.bc").read_bytes().startswith(b"BC")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@needs_headers
def test_terminal_sees_progress_and_then_the_table(place: Any) -> None:
    ours, theirs = pty.openpty()
    command = ["aiocg", "search", "random", PLAIN, "--evaluations", "600"]
    environment = {**place.environment, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=place.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as it:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunks.append(os.read(ours, 65536))
            except OSError:  # Linux's way to say that the other side is closed
                break
            if not chunks[-1]:
                break
        assert it.wait() == 0
    os.close(ours)
    output = b"".join(chunks).decode(errors="replace")
    assert re.search(r"random  .*reward \d\.\d+.*  [\d.]+ s  \d+ of 600 evaluated", output)
    assert output.index("random search, ") < output.index("wall time")


@pytest.mark.slow
def test_ctrl_c_ends_a_race_with_the_best_so_far_and_its_time(place: Any) -> None:
    ours, theirs = pty.openpty()
    command = ["aiocg", "search", f"{CHEAPEST}", "--reward", "runtime", "--budget", "600"]
    environment = {**place.environment, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=place.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as it:
        os.close(theirs)
        output = ""
        while " ms, -O3 " not in output:
            output += os.read(ours, 65536).decode(errors="replace")
        it.send_signal(signal.SIGINT)
        output = ""
        with contextlib.suppress(OSError):  # at its end
            while True:
                output += os.read(ours, 65536).decode(errors="replace")
        assert it.wait() == 130, output
    os.close(ours)
    best = r"best so far: [\d.]+ ms, -O3 [\d.]+ ms\s+with\s+(the program as it is|\S*default<)"
    assert re.search(best, output), output
    assert place.leftovers() == [] and place.processes() == []
