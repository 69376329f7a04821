"""`aiocg explain`: LLVM's decisions on calls, and the other answers."""

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
