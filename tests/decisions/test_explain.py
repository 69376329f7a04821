"""`aiocg explain`: LLVM's decisions on calls, and the other answers."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = """
static int twice(int x) { return x + x; }
static int long_one(int x, int y) {
    for (int i = 0; i < x; i++) y = y * 31 + (y >> 3) + (x ^ i) * (y & 7) + (i << (y & 3));
    return y;
}
int start(int x) { return long_one(x, 1) + long_one(x + 2, twice(x)) + long_one(5, x); }
"""


@pytest.mark.slow
def test_each_call_is_explained_with_what_the_other_answer_gives(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("calls.c").write_text(SOURCE)
    found = command("explain", "calls.c", "--json").json
    calls = {(call["callee"], call["place"].split(":")[1]): call for call in found["calls"]}
    assert all(call["bytes"] is not None for call in found["calls"]) and found["bytes"] > 0
    twice = calls["twice", "7"]
    assert twice["inlined"] and twice["bytes"] > 0 and twice["reason"] == ""
    kept = [call for call in found["calls"] if call["callee"] == "long_one"]
    assert len(kept) == 3 and not any(call["inlined"] for call in kept)
    assert all(call["caller"] == "start" and "too costly to inline (cost=" in call["reason"] for call in kept)
    told = command("explain", "calls.c", "--most", "2")
    assert "tried       4 of 4" in told.out and "4: 1 inlined, 3 kept" in told.out
    assert command("explain", "calls.c", "--budget", "0").out.splitlines()[-1].startswith("tried       0 of 4")


def test_bad_input_is_named(command: Callable[..., Any]) -> None:
    assert "no level 'O7': there are O1, O2, O3, Os, Oz" in command("explain", "programs-v0/gcd", "--level", "O7").err
    assert command("explain", "missing.c").status == 1


@pytest.mark.slow
def test_a_signal_shows_what_is_known_so_far(place: Any) -> None:
    command = ["aiocg", "explain", "programs-v0/lisp", "--budget", "600", "--workers", "1"]
    process = place.start(*command, stderr=subprocess.PIPE)
    try:
        assert any("trying the other answers: " in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    *_, calls, tried = output.splitlines()
    assert calls.startswith("calls       ") and tried.startswith("tried       ")
    assert place.leftovers() == [] and place.processes() == []
