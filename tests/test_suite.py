"""What the quick tests leave out, the slow and thorough ones do: marks and profiles keep their word."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(9))
def test_list(number, request):
    print("slow" if request.node.get_closest_marker("slow") else "quick", "case", number)

@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("number", range(9))
def test_sampled(number):
    print("sample", number)

@pytest.mark.every_case
def test_every():
    print("seldom")

@settings(max_examples=150)
@given(st.integers())
def test_many(number):
    print("example")

@settings(max_examples=7)
@given(st.integers())
def test_seven(number):
    print("seventh")

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        print("machine")

    @rule()
    def nothing(self):
        pass

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "every", "samples", "counts"),
    [
        ("quick", False, 1, (10, 7, 10)),
        ("thorough", True, 9, (150, 7, 60)),
    ],
)
def test_lists_and_examples_are_as_many_as_was_asked_for(
    profile: str,
    every: bool,
    samples: int,
    counts: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    monkeypatch.setenv("HYPOTHESIS_PROFILE", profile)
    monkeypatch.setenv("EVERY_CASE", "1" if every else "")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    command = [sys.executable, "-P", "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-n0", "-s", "-q", "-m", "slow or not slow", str(tmp_path)]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert [number for number in range(9) if f"slow case {number}" in done.stdout] == [1, 2, 3, 5, 6, 7]
    assert [number for number in range(9) if f"quick case {number}" in done.stdout] == [0, 4, 8]
    assert done.stdout.count("sample ") == samples and ("seldom" in done.stdout) == every
    found = tuple(done.stdout.count(word) for word in ("example", "seventh", "machine"))
    assert all(count <= number <= count + 2 for number, count in zip(found, counts, strict=True)), found
